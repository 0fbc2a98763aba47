/* tf_table.h - TensorFlow's sorted tables (LevelDB's format), read: keys to values in blocks.
 *
 * A table is blocks of entries in ascending order of their keys, an index block (last key of a
 * block -> where it is) and a footer of 48 bytes.  Each block ends with its kind (plain or snappy)
 * and a masked CRC-32C.
 *
 * Invariants: the file is untrusted: offsets are checked against its length, sizes and lengths of
 * keys are bounded, and nothing of a block is used before its CRC was right.
 * Threads: one owner per table.
 */
#ifndef PF_CPU_TF_TABLE_H
#define PF_CPU_TF_TABLE_H
#include "checkpoint/checkpoint.h"

enum { TT_KEY_LIMIT = 1 << 16, TT_FOOTER = 48, TT_TRAILER = 5 };

typedef struct { int64_t at, bytes, key_at, key_len; } tt_handle;
typedef struct {
  char path[CK_PATH];
  int fd;
  int64_t size, block_limit; /* of the file; of a block once it is unpacked */
  tt_handle *blocks;
  int64_t n_blocks, room;
  pf_bytes keys, block; /* the last key of each block; the block that is unpacked */
  int64_t loaded;       /* which one that is; -1: none */
} tt_table;
typedef pf_status (*tt_each)(void *arg, pf_str key, pf_str value);

int tt_is_table(const char *path); /* 1: a file that ends as tables do */
pf_status tt_open(pf_ctx *c, const char *path, int64_t block_limit, tt_table *t);
void tt_close(tt_table *t);
/* Every entry in order, until one is answered by other than PF_OK. */
pf_status tt_scan(pf_ctx *c, tt_table *t, tt_each each, void *arg);
/* value->data NULL: there is none.  It is valid until the next call. */
pf_status tt_find(pf_ctx *c, tt_table *t, pf_str key, pf_str *value);

/* One field of a protocol buffer after the other. */
typedef struct {
  const unsigned char *p, *end;
  int bad;
} pb_reader;
typedef struct {
  int32_t number, wire;
  uint64_t value;
  pf_str bytes;
} pb_field;
static inline pb_reader pb_of(pf_str s) {
  return (pb_reader){(const unsigned char *)s.data, (const unsigned char *)s.data + s.len, 0};
}
uint64_t pb_varint(pb_reader *r);
int pb_next(pb_reader *r, pb_field *f); /* 0: the end, or `bad` */
#endif
