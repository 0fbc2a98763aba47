/* tf_bundle.h - TensorFlow's checkpoints, read: what is in them and where.
 *
 *     V2, a bundle: prefix.index, a table of name -> BundleEntryProto (type, shape, shard, offset,
 *         size, CRC-32C), and the bytes in prefix.data-00000-of-00001, ...
 *     V1, slices: tables named by the prefix, a file or a pattern of files, whose entry "" lists
 *         names, types, shapes and slices and whose others hold TensorProtos
 *
 * A tensor may be stored in parts (partitioned variables): each has a key made of the name and the
 * part's place.  A V1 tensor is always stored so.
 *
 * Invariants: everything read is untrusted: after tb_open every entry has a known rank, natural
 * sizes whose product fits, bytes that its shape needs, parts inside its shape, a shard or file
 * that exists.  Names are unique.
 * Threads: one owner.
 */
#ifndef PF_CPU_TF_BUNDLE_H
#define PF_CPU_TF_BUNDLE_H
#include "checkpoint/tf_table.h"

typedef enum { TB_NONE = 0, TB_V1 = 1, TB_V2 = 2 } tb_kind;
enum { TB_FILES = 100000, TB_PLACE = 2 };

typedef struct {
  const char *key;                    /* name, or key of a part, with a NUL behind it */
  int64_t key_at, key_len;            /* in tb_bundle.keys, until `key` is set */
  int32_t type, ndim, shard, n_parts; /* n_parts 0: stored whole */
  int64_t dims_at;                    /* first of ndim sizes in tb_bundle.numbers */
  /* parts: file, dimensions said to be whole (bits), then ndim pairs of start and size */
  int64_t parts_at;
  int64_t begin, bytes;
  uint32_t crc; /* masked */
} tb_entry;

typedef struct {
  tb_kind kind;
  char prefix[CK_PATH];
  tb_entry *entries; /* ascending keys */
  int64_t *numbers;
  int64_t n, room, n_numbers, room_numbers;
  pf_bytes keys;
  int32_t shards;
  tt_table *tables; /* V1: the files; V2: none, the index is closed again */
  int64_t n_tables;
  int *fd; /* V2, per shard; -1: not open */
  int64_t *length;
  pf_ctx *c; /* while it is opened */
} tb_bundle;

/* Which of TensorFlow's formats the checkpoint has; TB_NONE: pyflow's, or there is none. */
tb_kind tb_kind_of(const char *prefix);
pf_status tb_open(pf_ctx *c, const char *prefix, tb_bundle *b);
void tb_close(tb_bundle *b);
const tb_entry *tb_find(const tb_bundle *b, const char *key, int64_t len);
PF_LOCAL const char *tb_key(const tb_bundle *b, const tb_entry *e) {
  return b->keys.data + e->key_at;
}
PF_LOCAL int tb_is_part(const tb_bundle *b, const tb_entry *e) {
  return e->key_len > 0 && !tb_key(b, e)[0];
}
PF_LOCAL const int64_t *tb_dims(const tb_bundle *b, const tb_entry *e) {
  return b->numbers + e->dims_at;
}
/* part k of an entry; its pairs begin at TB_PLACE */
PF_LOCAL const int64_t *tb_part(const tb_bundle *b, const tb_entry *e, int32_t k) {
  return b->numbers + e->parts_at + (int64_t)k * (TB_PLACE + 2 * e->ndim);
}
/* The key of a part: what TensorFlow's OrderedCode makes of 0, name, rank, starts and sizes. */
void tb_part_key(pf_bytes *out, const tb_entry *e, const int64_t *part);
int64_t tb_entry_bytes(const tb_bundle *b, const tb_entry *e); /* of all its parts */

/* tf_restore.c: outputs i of the call = tensors names[i], or slices of them */
pf_status tb_restore(pf_ctx *c, const char *prefix, int64_t n);
#endif
