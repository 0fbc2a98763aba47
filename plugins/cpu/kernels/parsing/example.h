/* example.h - tf.Example and tf.SequenceExample read off their wire format, without copies.
 *
 *     Example         1 Features
 *     Features        1 map<string, Feature>
 *     Feature         1 BytesList | 2 FloatList | 3 Int64List, each: 1 repeated value
 *     SequenceExample 1 Features, 2 FeatureLists
 *     FeatureLists    1 map<string, FeatureList>;  FeatureList: 1 repeated Feature
 *
 * Invariants
 *   1. Bytes are untrusted: every length is checked against what is left (pb_next), every number
 *      has at most ten bytes; what is found points into the message.
 *   2. The rules are protobuf's: the last entry of a map counts, the last kind of a Feature; fields
 *      nobody knows are skipped; packed and single values may be mixed.
 * Threads: pure functions; a table is read by any.
 *
 *     ex_table t;  ex_table_make(&t, keys, n);
 *     ex_feature found[n];  memset(found, 0, sizeof found);
 *     if (!ex_read_example(&t, message, found)) ...;      found[k].there, .kind, .count
 *     ex_values(host, &found[k], PF_DATA(char, y), y, 0);
 */
#ifndef PF_CPU_EXAMPLE_H
#define PF_CPU_EXAMPLE_H
#include "summary/proto.h"

enum { EX_NONE, EX_BYTES, EX_FLOATS, EX_INTS }; /* a Feature's field numbers */
typedef struct {
  pf_str bytes; /* a FeatureList, or a Feature from its last kind on */
  int32_t there, kind;
  int64_t count, at; /* values; where the first one goes */
} ex_feature;

/* which feature a key asks for */
typedef struct {
  const pf_str *keys;
  int32_t n, mask, *slot; /* open addressing: 1 + a key's index, or 0 */
} ex_table;

/* 0: no memory; -1 - k: key k stands there twice */
int ex_table_make(ex_table *t, const pf_str *keys, int32_t n);
void ex_table_free(ex_table *t);

/* 0: these bytes are no such message.  found: [n], zeroed, for ex_feature_open */
int ex_read_example(const ex_table *t, pf_str message, ex_feature *found);
int ex_read_sequence(const ex_table *context, const ex_table *lists, pf_str message,
                     ex_feature *in_context, ex_feature *in_lists);
/* Sets kind and count; 0: no Feature */
int ex_feature_open(ex_feature *f);
/* The next Feature of a list from *at on; 1: there is one; 0: the end; -1: these bytes are none */
int ex_next_step(pf_str list, int64_t *at, ex_feature *f);
/* Writes the values of an opened Feature to elements [at, at + count) of y; its element type is the
 * kind's. */
pf_status ex_values(const pf_host *host, const ex_feature *f, DLTensor *y, int64_t at);

static inline int32_t ex_type(int32_t kind) {
  return kind == EX_BYTES    ? PF_STRING
         : kind == EX_FLOATS ? PF_FLOAT32
         : kind == EX_INTS   ? PF_INT64
                             : PF_INVALID_TYPE;
}
#endif
