/* state.h - an iterator's state as bytes, and back.
 *
 *     magic "PFDS" 1, then tagged fields: 'i' int64; 'r' a row: components, each 'n' element type,
 *     rank, sizes, and bytes or strings, or
 *     a window's types and rows; 's' a stage: its dataset's kind, path, and its own fields.
 *
 * Invariants
 *   1. What is read is checked against the dataset that it is loaded into: kinds, types, ranges,
 *      and lengths against what is left of the bytes, before memory is taken.
 *   2. Numbers are little-endian.
 */
#ifndef PF_CPU_DATASET_STATE_H
#define PF_CPU_DATASET_STATE_H
#include "dataset/dataset.h"

struct ds_writer {
  char *bytes;
  size_t n, room;
  int failed;
  const pf_host *host;
};
struct ds_reader {
  const char *at, *end;
  const pf_host *host;
  int depth;
  char why[400];
};
/* fields.c */
void ds_put_bytes(ds_writer *w, const void *bytes, size_t n);
void ds_put_number(ds_writer *w, int64_t v);
void ds_put_text(ds_writer *w, const char *text, int64_t n);
pf_status ds_bad(ds_reader *r, const char *format, ...) /* keeps why, once; PF_DATA_LOSS */
    __attribute__((format(printf, 2, 3)));
pf_status ds_get_bytes(ds_reader *r, void *out, size_t n);
pf_status ds_get_number(ds_reader *r, int64_t *v);
pf_status ds_get_tag(ds_reader *r, char tag);
void ds_write_begin(ds_writer *w, const pf_host *h);
void ds_put_again(ds_writer *w, pf_str state); /* in place of all that was written */
pf_status ds_read_begin(ds_reader *r, const pf_host *h, pf_str bytes);
pf_status ds_read_end(ds_reader *r);
#endif
