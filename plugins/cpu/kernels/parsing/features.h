/* features.h - the features that an op asks for, of a batch of Examples, as tensors.
 *
 * Three ways to be asked for: SPARSE (indices, values, shape), DENSE (a tensor of a shape, perhaps
 * of unknown first size, which is padded), RAGGED (values, row splits).
 *
 *     ex_batch       what is parsed: strings, their names
 *     ex_features    keys, types, shapes, defaults; what was found: an ex_feature an example and
 *                    key
 *     check -> outputs -> fill: features are found and counted, outputs made, values written;
 *     the first and the last step for several examples at once.
 *
 * Invariants
 *   1. Values are written only where `outputs` made room for what `check` counted.
 *   2. Of several wrong examples the first one's message is given, whatever the threads did.
 * Threads: `check` and `fill` of different examples from any thread; the rest on the call's.
 *
 * Source of shapes, defaults and messages: TF 2.21's ParseExample ops.
 */
#ifndef PF_CPU_FEATURES_H
#define PF_CPU_FEATURES_H
#include "parsing/example.h"

typedef struct {
  const pf_list *attr;
  int32_t in, vector;
} ex_keys; /* attr, or an argument */
/* arguments of the op; -1: it has none such */
typedef struct {
  ex_keys sparse, dense, ragged;
  int32_t defaults;                          /* inputs */
  int32_t out_sparse, out_dense, out_ragged; /* the first of two or three output arguments */
  const pf_list *shapes;
} ex_asked;

enum { EX_SPARSE, EX_DENSE, EX_RAGGED };
typedef struct {
  int32_t role, type;
  int32_t out, second, third; /* outputs: values or dense; indices or splits; shape */
  pf_shape shape;
  int32_t variable; /* dense: blocks of `stride` values, any number of them */
  int64_t stride, total, most;
  const DLTensor *standard; /* dense: the default, or NULL */
} ex_wanted;

enum {
  EX_FINE,
  EX_NO_MESSAGE,
  EX_NO_FEATURE,
  EX_TYPE,
  EX_COUNT,
  EX_STRIDE,
  EX_MISSING,
  EX_NO_LIST
};
typedef struct {
  int32_t why, key, kind, in_list;
  int64_t saw, step;
} ex_wrong;

typedef struct {
  pf_ctx *c;
  const DLTensor *serialized, *names; /* names: NULL if none were given */
  int64_t n;
  int32_t single;    /* a scalar: outputs have no dimension of examples */
  int32_t no_splits; /* rank of a single one's row splits, which say nothing */
  ex_wrong *wrong;   /* [n] */
} ex_batch;
typedef struct {
  ex_table table;
  pf_str *keys;
  ex_wanted *want;
  int32_t n;
  ex_feature *found; /* [examples][n] */
} ex_features;

pf_status ex_batch_make(ex_batch *b, pf_ctx *c, int32_t names_in, int32_t scalar, int32_t vector);
void ex_batch_free(ex_batch *b);
pf_status ex_features_make(ex_features *f, const ex_batch *b, const ex_asked *asked);
void ex_features_free(ex_features *f);
ex_feature *ex_found(const ex_features *f, int64_t example);
void ex_check(const ex_features *f, int64_t example, ex_wrong *wrong);
pf_status ex_outputs(ex_features *f, const ex_batch *b);
pf_status ex_fill(const ex_features *f, const ex_batch *b, int64_t example);
pf_str ex_name(const ex_batch *b, int64_t example);
/* Runs `fn` over the examples; then PF_OK, or the status that one left */
pf_status ex_each(const ex_batch *b, int64_t grain, pf_range fn, void *arg);
const ex_wrong *ex_first_wrong(const ex_batch *b, int64_t *example);
DLTensor *ex_sparse_shape(pf_ctx *c, int32_t out, const int64_t *dims, int32_t rank);
int ex_add(int64_t *sum, int64_t more); /* 0: it overflows */
void ex_put_split(DLTensor *t, int32_t type, int64_t i, int64_t v);
#endif
