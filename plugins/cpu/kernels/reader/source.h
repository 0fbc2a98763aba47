/* source.h - a file read in pieces, perhaps inflated: lines, TFRecords, bytes.
 *
 * Invariants
 *   1. A length in a file is checked, by its checksum and against PF_SOURCE_MOST, before memory is
 *      taken; records grow as bytes come.
 *   2. A failure leaves its text in `error`, which begins with the path.
 *   3. A path with a scheme ("memory://x") is copied into an unnamed file by the host's
 *      "pyflow.files/1" first; where it has none, as in the runtime without Python, it is
 *      PF_UNIMPLEMENTED.
 *
 * Source: TF's record format: length, masked CRC-32C of it, bytes, masked CRC-32C of them; RFC 1950
 * and 1952 through zlib.  Threads: one owner; it blocks on the file.
 *
 *     pf_source s = {.wbits = 0};
 *     if (!pf_source_open(&s, host, name))
 *       while (!(st = pf_source_line(&s))) use(s.record, s.n_record);     PF_SOURCE_END at the end
 *     pf_source_free(&s);
 */
#ifndef PF_CPU_SOURCE_H
#define PF_CPU_SOURCE_H
#include "base/common.h"
#include <stdlib.h>
#if PF_ZLIB
#include <zlib.h>
#endif

enum { PF_SOURCE_END = -101, PF_SOURCE_PIECE = 1 << 16 };
static const int64_t PF_SOURCE_MOST = (int64_t)1 << 31; /* bytes of one record */

typedef struct {
  int wbits; /* zlib's; 0: not compressed; set by the owner */
  FILE *f;
  char *path, *raw, *piece; /* bytes of the file; inflated ones */
  size_t at, n;             /* in piece */
  int64_t behind;           /* bytes read, inflated */
  char *record;
  size_t n_record, room;
#if PF_ZLIB
  z_stream z;
#endif
  int inflating, ended;
  char error[700];
} pf_source;

pf_status pf_source_open(pf_source *s, const pf_host *host, pf_str path);
void pf_source_shut(pf_source *s); /* the file; what it was made with stays */
void pf_source_free(pf_source *s);
pf_status pf_source_fail(pf_source *s, pf_status st, const char *what);
/* Appends up to n bytes to the record (`away`: skips them); *got: how many there were. */
pf_status pf_source_take(pf_source *s, int64_t n, int away, int64_t *got);
pf_status pf_source_line(pf_source *s);   /* record: a line without its end, LF or CR LF */
pf_status pf_source_record(pf_source *s); /* record: a TFRecord's bytes */
/* The bytes of the file, inflated, without reading it twice where it is not compressed. */
pf_status pf_source_measure(pf_source *s, const pf_host *host, int64_t *size);
/* "", "ZLIB", "GZIP" -> zlib's window bits */
pf_status pf_source_compression(pf_ctx *c, pf_str name, int *wbits);
#endif
