/* scatter.c - ScatterX, ScatterNdX, their resource forms, and gathers from resource variables.
 *
 * Invariants
 *   1. All shapes and all indices are checked before the first write: a failed call changes
 *      nothing.
 *   2. Updates are applied in index order on one thread: repeated indices give the same bits every
 *      time.
 *   3. Variables of strings are scattered through the host's accessors, never as bytes.
 * Threads: compute is concurrent; the host's lock orders writers of one variable.
 */
#include "base/common.h"

enum { UPDATE, ADD, SUB, MUL, DIV, MIN, MAX };
static const char *const OP_NAMES[] = {"ScatterUpdate", "ScatterAdd", "ScatterSub", "ScatterMul",
                                       "ScatterDiv",    "ScatterMin", "ScatterMax"};
typedef struct {
  int32_t T, Tindices;
  int64_t batch_dims;
} scatter_state;

/* ---------------------------------------------------------------- x[i] = x[i] op y[i * step] */
typedef void (*combine)(void *x, const void *y, int64_t n, int64_t step);
#define LOOP(expr) \
  for (int64_t i = 0; i < n; i++) { \
    T a = x[i], b = y[i * step]; \
    x[i] = (T)(expr); \
  }
#define ORDERED(tag, T_) \
  static void min_##tag(void *p, const void *q, int64_t n, int64_t step) { \
    typedef T_ T; T *x = p; const T *y = q; LOOP(b < a ? b : a) } \
  static void max_##tag(void *p, const void *q, int64_t n, int64_t step) { \
    typedef T_ T; T *x = p; const T *y = q; LOOP(b > a ? b : a) }
#define ARITHMETIC(tag, T_, W, div) \
  static void add_##tag(void *p, const void *q, int64_t n, int64_t step) { \
    typedef T_ T; T *x = p; const T *y = q; LOOP((W)a + (W)b) } \
  static void sub_##tag(void *p, const void *q, int64_t n, int64_t step) { \
    typedef T_ T; T *x = p; const T *y = q; LOOP((W)a - (W)b) } \
  static void mul_##tag(void *p, const void *q, int64_t n, int64_t step) { \
    typedef T_ T; T *x = p; const T *y = q; LOOP((W)a * (W)b) } \
  static void div_##tag(void *p, const void *q, int64_t n, int64_t step) { \
    typedef T_ T; T *x = p; const T *y = q; LOOP(div) }
/* a signed minimum divided by -1 wraps; divisors of zero are refused before */
#define SIGNED(num, T, tag) \
  ARITHMETIC(tag, T, uint64_t, b == (T) - 1 ? (T)(0 - (uint64_t)a) : a / b) ORDERED(tag, T)
#define UNSIGNED(num, T, tag) ARITHMETIC(tag, T, uint64_t, a / b) ORDERED(tag, T)
#define FLOATING(num, T, tag) ARITHMETIC(tag, T, T, a / b) ORDERED(tag, T)
PF_EACH_SIGNED(SIGNED)
PF_EACH_UNSIGNED(UNSIGNED)
PF_EACH_FLOAT(FLOATING)
ARITHMETIC(c64, float _Complex, float _Complex, a / b)
ARITHMETIC(c128, double _Complex, double _Complex, a / b)

#define HALF_LOOP(from, to, expr) for (int64_t i = 0; i < n; i++) { \
    float a = from(x[i]), b = from(y[i * step]); x[i] = to(expr); }
#define HALF_FN(name, from, to, expr) \
  static void name(void *p, const void *q, int64_t n, int64_t step) { \
    uint16_t *x = p; const uint16_t *y = q; HALF_LOOP(from, to, expr) }
#define HALVES(tag, from, to) \
  HALF_FN(add_##tag, from, to, a + b) HALF_FN(sub_##tag, from, to, a - b) \
  HALF_FN(mul_##tag, from, to, a * b) HALF_FN(div_##tag, from, to, a / b) \
  HALF_FN(min_##tag, from, to, b < a ? b : a) HALF_FN(max_##tag, from, to, b > a ? b : a)
HALVES(f16, pf_from_half, pf_to_half)
HALVES(bf16, pf_from_bf16, pf_to_bf16)

static combine combine_of(int32_t type, int op) {
#define ALL(num, T, tag) \
  case num: { \
    static const combine f[] = {0,         add_##tag, sub_##tag, mul_##tag, \
                                div_##tag, min_##tag, max_##tag}; \
    return f[op]; \
  }
  switch (type) {
    PF_EACH_REAL(ALL)
    ALL(PF_FLOAT16, 0, f16)
    ALL(PF_BFLOAT16, 0, bf16)
    case PF_COMPLEX64: {
      static const combine f[] = {0, add_c64, sub_c64, mul_c64, div_c64, 0, 0};
      return f[op];
    }
    case PF_COMPLEX128: {
      static const combine f[] = {0, add_c128, sub_c128, mul_c128, div_c128, 0, 0};
      return f[op];
    }
    default: return NULL;
  }
}

static int is_integer(int32_t type) {
  return type == PF_INT8 || type == PF_INT16 || type == PF_INT32 || type == PF_INT64 ||
         type == PF_UINT8 || type == PF_UINT16 || type == PF_UINT32 || type == PF_UINT64;
}
static int has_zero(const DLTensor *t, int32_t type) {
  int64_t n = pf_numel(t), size = pf_type_size(type);
  static const char zero[16] = {0};
  for (int64_t i = 0; i < n; i++)
    if (!memcmp(PF_DATA(const char, t) + i * size, zero, (size_t)size)) return 1;
  return 0;
}

/* One slice of `inner` elements: variable from element `at`, updates from `from`; a scalar update
 * is spread. */
typedef struct {
  DLTensor *var;
  const DLTensor *upd;
  combine fn;
  int64_t size, inner;
  int scalar;
} target;
static pf_status put(pf_ctx *c, const target *t, int64_t at, int64_t from) {
  char *x = PF_DATA(char, t->var) + at * t->size;
  const char *y = PF_DATA(const char, t->upd) + (t->scalar ? 0 : from) * t->size;
  if (t->fn) {
    t->fn(x, y, t->inner, !t->scalar);
    return PF_OK;
  }
  if (!t->scalar) return pf_copy_run(c, t->var, at, t->upd, from, t->inner, t->size);
  for (int64_t i = 0; i < t->inner; i++)
    PF_TRY(pf_copy_run(c, t->var, at + i, t->upd, 0, 1, t->size));
  return PF_OK;
}

static pf_status open_target(pf_ctx *c, const scatter_state *s, int op, target *t) {
  pf_var v = {0, PF_VAR_UPDATE};
  PF_TRY(c->host->var_lock(c, &v, 1));
  t->var = c->host->var_get(c, 0);
  PF_EXHAUSTED(t->var);
  t->upd = c->in[2];
  t->size = pf_type_size(s->T);
  t->fn = op == UPDATE ? NULL : combine_of(s->T, op);
  if (op != UPDATE && !t->fn)
    return pf_failf(c, PF_UNIMPLEMENTED, "%s of type %s", OP_NAMES[op], pf_type_name(s->T));
  if (op == DIV && is_integer(s->T) && has_zero(t->upd, s->T))
    return PF_INVALID(c, "Integer division by zero");
  return PF_OK;
}

/* ------------------------------------------------------------- rows: ScatterX, ResourceScatterX */
static pf_status check_rows(pf_ctx *c, const target *t, const DLTensor *idx) {
  const DLTensor *var = t->var, *upd = t->upd;
  if (var->ndim < 1)
    return PF_INVALID(c, "params must be at least 1-D, got shape %s", PF_SHAPE(var).s);
  if (t->scalar) return PF_OK;
  int ok = upd->ndim == idx->ndim + var->ndim - 1;
  for (int32_t d = 0; ok && d < upd->ndim; d++)
    ok = upd->shape[d] == (d < idx->ndim ? idx->shape[d] : var->shape[d - idx->ndim + 1]);
  if (ok) return PF_OK;
  return PF_INVALID(
      c,
      "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], "
      "got updates.shape %s, indices.shape %s, params.shape %s",
      PF_SHAPE(upd).s, PF_SHAPE(idx).s, PF_SHAPE(var).s);
}

static pf_status scatter_rows(pf_ctx *c, const scatter_state *s, int op, int is_ref) {
  target t = {0};
  const DLTensor *idx = c->in[1];
  PF_TRY(open_target(c, s, op, &t));
  t.scalar = t.upd->ndim == 0;
  PF_TRY(check_rows(c, &t, idx));
  int64_t n = pf_numel(idx), rows = t.var->shape[0];
  t.inner = pf_product(t.var->shape, 1, t.var->ndim);
  for (int64_t i = 0; i < n; i++) {
    int64_t row = pf_index_at(idx, s->Tindices, i);
    if (row < 0 || row >= rows)
      return PF_INVALID(c, "indices[%" PRId64 "] = %" PRId64 " is not in [0, %" PRId64 ")", i, row,
                        rows);
  }
  for (int64_t i = 0; i < n; i++)
    PF_TRY(put(c, &t, pf_index_at(idx, s->Tindices, i) * t.inner, i * t.inner));
  return is_ref ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}

/* ------------------------------------------------------- points: ScatterNdX, ResourceScatterNdX */
/* indices [..., depth]: `depth` leading coordinates of the variable */
static pf_status nd_depth(pf_ctx *c, const DLTensor *idx, const DLTensor *var, int64_t *depth) {
  if (idx->ndim < 1)
    return PF_INVALID(c, "indices must be at least a vector, got shape %s", PF_SHAPE(idx).s);
  *depth = idx->shape[idx->ndim - 1];
  if (*depth > var->ndim)
    return PF_INVALID(
        c, "index innermost dimension length must be <= params rank; saw: %" PRId64 " vs. %d",
        *depth, var->ndim);
  return PF_OK;
}

static pf_status nd_offset(pf_ctx *c, const DLTensor *idx, int32_t type, int64_t i,
                           const DLTensor *var, int64_t depth, int64_t *at) {
  *at = 0;
  for (int64_t d = 0; d < depth; d++) {
    int64_t k = pf_index_at(idx, type, i * depth + d);
    if (k < 0 || k >= var->shape[d])
      return PF_INVALID(c,
                        "indices[%" PRId64 "] does not index into shape %s: coordinate %" PRId64
                        " is %" PRId64,
                        i, PF_SHAPE(var).s, d, k);
    *at = *at * var->shape[d] + k;
  }
  return PF_OK;
}

static pf_status check_points(pf_ctx *c, const target *t, const DLTensor *idx, int64_t depth) {
  const DLTensor *var = t->var, *upd = t->upd;
  int32_t outer = idx->ndim - 1;
  int ok = upd->ndim == outer + var->ndim - (int32_t)depth;
  for (int32_t d = 0; ok && d < upd->ndim; d++)
    ok = upd->shape[d] == (d < outer ? idx->shape[d] : var->shape[d - outer + (int32_t)depth]);
  if (ok) return PF_OK;
  return PF_INVALID(c,
                    "updates must have shape indices.shape[:-1] + ref.shape[indices.shape[-1]:], "
                    "got updates.shape %s, indices.shape %s, ref.shape %s",
                    PF_SHAPE(upd).s, PF_SHAPE(idx).s, PF_SHAPE(var).s);
}

static pf_status scatter_points(pf_ctx *c, const scatter_state *s, int op, int is_ref) {
  target t = {0};
  const DLTensor *idx = c->in[1];
  int64_t depth = 0, at = 0;
  PF_TRY(open_target(c, s, op, &t));
  PF_TRY(nd_depth(c, idx, t.var, &depth));
  PF_TRY(check_points(c, &t, idx, depth));
  int64_t n = pf_product(idx->shape, 0, idx->ndim - 1);
  t.inner = pf_product(t.var->shape, (int32_t)depth, t.var->ndim);
  for (int64_t i = 0; i < n; i++) PF_TRY(nd_offset(c, idx, s->Tindices, i, t.var, depth, &at));
  for (int64_t i = 0; i < n; i++) {
    PF_TRY(nd_offset(c, idx, s->Tindices, i, t.var, depth, &at));
    PF_TRY(put(c, &t, at * t.inner, i * t.inner));
  }
  return is_ref ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}

/* ------------------------------------------------------------- ResourceGather, ResourceGatherNd */
static pf_status read_lock(pf_ctx *c, const DLTensor **var) {
  pf_var v = {0, PF_VAR_READ};
  PF_TRY(c->host->var_lock(c, &v, 1));
  *var = c->host->var_get(c, 0);
  PF_EXHAUSTED(*var);
  PF_TRY(pf_check_rank(c, *var, "params"));
  return pf_check_rank(c, c->in[1], "indices");
}

static pf_status gather_rows(pf_ctx *c, const void *state) {
  const scatter_state *s = state;
  const DLTensor *var, *idx = c->in[1];
  PF_TRY(read_lock(c, &var));
  int64_t b = s->batch_dims, shape[2 * PF_MAX_DIMS];
  int32_t nd = 0;
  if (b < 0) b += idx->ndim;
  if (var->ndim < 1) return PF_INVALID(c, "params must be at least 1 dimensional");
  if (b < 0 || b > idx->ndim || b >= var->ndim)
    return PF_INVALID(c, "batch_dims (%" PRId64 ") must be in [0, %d] and less than params rank %d",
                      s->batch_dims, idx->ndim, var->ndim);
  for (int32_t d = 0; d < b; d++)
    if (var->shape[d] != idx->shape[d])
      return PF_INVALID(
          c, "params.shape[%d]: %" PRId64 " should be equal to indices.shape[%d]: %" PRId64, d,
          var->shape[d], d, idx->shape[d]);
  for (int32_t d = 0; d < idx->ndim; d++) shape[nd++] = idx->shape[d];
  for (int32_t d = (int32_t)b + 1; d < var->ndim; d++) shape[nd++] = var->shape[d];
  DLTensor *out = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(out);
  int64_t batches = pf_product(idx->shape, 0, (int32_t)b),
          n = pf_product(idx->shape, (int32_t)b, idx->ndim);
  int64_t rows = var->shape[b], inner = pf_product(var->shape, (int32_t)b + 1, var->ndim);
  for (int64_t i = 0; i < batches * n; i++) {
    int64_t row = pf_index_at(idx, s->Tindices, i), batch = i / n;
    if (row < 0 || row >= rows)
      return PF_INVALID(c, "indices[%" PRId64 "] = %" PRId64 " is not in [0, %" PRId64 ")", i, row,
                        rows);
    PF_TRY(pf_copy_run(c, out, i * inner, var, (batch * rows + row) * inner, inner,
                       pf_type_size(s->T)));
  }
  return PF_OK;
}

static pf_status gather_points(pf_ctx *c, const void *state) {
  const scatter_state *s = state;
  const DLTensor *var, *idx = c->in[1];
  int64_t depth = 0, at = 0, shape[2 * PF_MAX_DIMS];
  int32_t nd = 0;
  PF_TRY(read_lock(c, &var));
  PF_TRY(nd_depth(c, idx, var, &depth));
  for (int32_t d = 0; d < idx->ndim - 1; d++) shape[nd++] = idx->shape[d];
  for (int32_t d = (int32_t)depth; d < var->ndim; d++) shape[nd++] = var->shape[d];
  DLTensor *out = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(out);
  int64_t n = pf_product(idx->shape, 0, idx->ndim - 1),
          inner = pf_product(var->shape, (int32_t)depth, var->ndim);
  for (int64_t i = 0; i < n; i++) {
    PF_TRY(nd_offset(c, idx, s->Tindices, i, var, depth, &at));
    PF_TRY(pf_copy_run(c, out, i * inner, var, at * inner, inner, pf_type_size(s->T)));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- table */
#define ROW_FORMS(name, OP) \
  static pf_status row_ref_##name(pf_ctx *c, const void *s) { return scatter_rows(c, s, OP, 1); } \
  static pf_status row_res_##name(pf_ctx *c, const void *s) { return scatter_rows(c, s, OP, 0); }
#define FORMS(name, OP) ROW_FORMS(name, OP) \
  static pf_status nd_ref_##name(pf_ctx *c, const void *s) { return scatter_points(c, s, OP, 1); } \
  static pf_status nd_res_##name(pf_ctx *c, const void *s) { return scatter_points(c, s, OP, 0); }
FORMS(update, UPDATE)
FORMS(add, ADD)
FORMS(sub, SUB)
ROW_FORMS(mul, MUL)
ROW_FORMS(div, DIV)
ROW_FORMS(min, MIN)
ROW_FORMS(max, MAX)

#define ENTRY(op, where, type, fn) PF_CPU_BORROWS(op, where, \
  .attrs = PF_ATTRS(PF_REF(pf_attr, type, PF_ATTR_TYPE, offsetof(scatter_state, T)), \
                    PF_ATTR(scatter_state, PF_ATTR_TYPE, Tindices)), \
  .state_size = sizeof(scatter_state), .compute = fn)
#define ROWS(op, types, fn) ENTRY("Scatter" op, "T=" types, "T", row_ref_##fn), \
  ENTRY("ResourceScatter" op, "dtype=" types, "dtype", row_res_##fn)
#define POINTS(op, types, fn) ENTRY("ScatterNd" op, "T=" types, "T", nd_ref_##fn), \
  ENTRY("ResourceScatterNd" op, "T=" types, "T", nd_res_##fn)
#define ANY PF_NUMBERS "|bool|string"

const pf_kernel *const scatter_kernels[] = {
  ROWS("Update", ANY, update),
  ROWS("Add", PF_NUMBERS, add),
  ROWS("Sub", PF_NUMBERS, sub),
  ROWS("Mul", PF_NUMBERS, mul),
  ROWS("Div", PF_NUMBERS, div),
  ROWS("Min", PF_REAL, min),
  ROWS("Max", PF_REAL, max),
  POINTS("Update", ANY, update),
  POINTS("Add", PF_NUMBERS, add),
  POINTS("Sub", PF_NUMBERS, sub),
  PF_CPU_BORROWS("ResourceGather", NULL,
                 .attrs =
                     PF_ATTRS(PF_REF(pf_attr, "dtype", PF_ATTR_TYPE, offsetof(scatter_state, T)),
                              PF_ATTR(scatter_state, PF_ATTR_TYPE, Tindices),
                              &(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, "batch_dims",
                                               PF_ATTR_INT, offsetof(scatter_state, batch_dims)}),
                 .state_size = sizeof(scatter_state), .compute = gather_rows),
  ENTRY("ResourceGatherNd", NULL, "dtype", gather_points),
  NULL};
