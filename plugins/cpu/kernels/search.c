/* search.c - Unique, ListDiff (hash tables over elements) and TopK, InTopK (the best few of each
 * row). */
#include "common.h"

/* ---------------------------------------------------------------- a set of elements, in order of
 * first appearance
 * Open addressing; slots hold 1 + the rank of a distinct element.  Elements compare by bytes,
 * except that -0 is 0. */
typedef struct {
  pf_ctx *c;
  int64_t esize, n, mask;
  int32_t type;
  int64_t *slot, *first;               /* first[rank]: where it was first seen */
  const DLTensor *t;
} set;

static pf_status set_new(pf_ctx *c, const DLTensor *t, int32_t type, set *s) {
  int64_t n = pf_numel(t), room = 16;
  while (room < 2 * n) room *= 2;
  *s = (set){.c = c, .esize = pf_type_size(type), .type = type, .mask = room - 1, .t = t};
  s->slot = (int64_t *)c->host->scratch(c, (uint64_t)(room + n) * 8 + 8, 64);
  PF_EXHAUSTED(s->slot);
  memset(s->slot, 0, (size_t)room * 8);
  s->first = s->slot + room;
  return PF_OK;
}
static pf_str element(const set *s, const DLTensor *t, int64_t i) {
  static const char zero[16];
  pf_str e = {"", 0};
  if (!s->esize) { s->c->host->str_get(t, i, &e); return e; }
  e = (pf_str){PF_DATA(const char, t) + i * s->esize, s->esize};
  if ((s->type == PF_FLOAT32 && *(const float *)e.data == 0) ||
      (s->type == PF_FLOAT64 && *(const double *)e.data == 0))
    e.data = zero;
  return e;
}
static uint64_t hash(pf_str e) {
  uint64_t h = 0x9e3779b97f4a7c15u ^ (uint64_t)e.len, w;
  for (; e.len >= 8; e.data += 8, e.len -= 8)
    memcpy(&w, e.data, 8), h = (h ^ w) * 0xff51afd7ed558ccdu, h ^= h >> 32;
  w = 0;
  if (e.len) memcpy(&w, e.data, (size_t)e.len);
  h = (h ^ w) * 0xff51afd7ed558ccdu;
  return h ^ h >> 29;
}
/* rank of element i of `t`; -1 when it is absent and not to be added */
static int64_t set_find(set *s, const DLTensor *t, int64_t i, int add) {
  pf_str e = element(s, t, i);
  for (uint64_t h = hash(e);; h++) {
    int64_t *slot = &s->slot[h & (uint64_t)s->mask];
    if (!*slot) {
      if (!add) return -1;
      s->first[s->n] = i, *slot = ++s->n;
      return s->n - 1;
    }
    pf_str o = element(s, s->t, s->first[*slot - 1]);
    if (o.len == e.len && (!e.len || !memcmp(o.data, e.data, (size_t)e.len))) return *slot - 1;
  }
}

static pf_status unique_vector(pf_ctx *c) {         /* y, idx and, for UniqueWithCounts, count */
  const DLTensor *x = c->in[0];
  int64_t n = pf_numel(x);
  set s;
  if (x->ndim != 1)
    return PF_INVALID(c, "unique expects a 1D vector, got shape %s.", PF_SHAPE(x).s);
  PF_TRY(set_new(c, x, c->in_type[0], &s));
  DLTensor *idx = pf_output_like(c, 1, x);
  PF_EXHAUSTED(idx);
  for (int64_t i = 0; i < n; i++) pf_put_index(idx, c->out_type[1], i, set_find(&s, x, i, 1));
  DLTensor *y = c->host->output(c, 0, &s.n, 1);
  PF_EXHAUSTED(y);
  for (int64_t k = 0; k < s.n; k++) PF_TRY(pf_copy_run(c, y, k, x, s.first[k], 1, s.esize));
  if (c->n_out < 3) return PF_OK;
  DLTensor *count = c->host->output(c, 2, &s.n, 1);
  PF_EXHAUSTED(count);
  for (int64_t k = 0; k < s.n; k++) pf_put_index(count, c->out_type[2], k, 0);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = pf_index_at(idx, c->out_type[1], i);
    pf_put_index(count, c->out_type[2], k, pf_index_at(count, c->out_type[2], k) + 1);
  }
  return PF_OK;
}
static pf_status unique(pf_ctx *c, const void *state) { (void)state; return unique_vector(c); }
static pf_status unique_v2(pf_ctx *c, const void *state) {
  int64_t axis[PF_MAX_DIMS];
  int32_t n;
  (void)state;
  PF_TRY(pf_in_vector(c, 1, "axis", axis, &n));
  if (n > 1 || (n == 1 && axis[0] != 0 && axis[0] != -1) || c->in[0]->ndim != 1)
    return pf_failf(c, PF_UNIMPLEMENTED, "UniqueV2 is only implemented for vectors, got shape %s",
                    PF_SHAPE(c->in[0]).s);
  return unique_vector(c);
}
static pf_status list_diff(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *y = c->in[1];
  int64_t n = pf_numel(x), m = 0;
  set s;
  (void)state;
  if (x->ndim != 1) return PF_INVALID(c, "x should be a 1D vector, got shape %s.", PF_SHAPE(x).s);
  if (y->ndim != 1) return PF_INVALID(c, "y should be a 1D vector, got shape %s.", PF_SHAPE(y).s);
  PF_TRY(set_new(c, y, c->in_type[0], &s));
  for (int64_t i = 0; i < y->shape[0]; i++) set_find(&s, y, i, 1);
  int64_t *kept = (int64_t *)c->host->scratch(c, (uint64_t)n * 8 + 8, 8);
  PF_EXHAUSTED(kept);
  for (int64_t i = 0; i < n; i++)
    if (set_find(&s, x, i, 0) < 0) kept[m++] = i;
  DLTensor *out = c->host->output(c, 0, &m, 1);
  PF_EXHAUSTED(out);
  DLTensor *idx = c->host->output(c, 1, &m, 1);
  PF_EXHAUSTED(idx);
  for (int64_t i = 0; i < m; i++) {
    PF_TRY(pf_copy_run(c, out, i, x, kept[i], 1, s.esize));
    pf_put_index(idx, c->out_type[1], i, kept[i]);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- TopK: a heap of k, its worst on
 * top
 * Equal values: the lower index is better. */
typedef void (*top_loop)(const void *x, int64_t n, int64_t k, void *values, int32_t *at);
#define TOP(TYPE, T, TAG) \
  static inline int better_##TAG(const T *x, int32_t i, int32_t j) { \
    return x[i] > x[j] || (!(x[j] > x[i]) && i < j); \
  } \
  static void sink_##TAG(const T *x, int32_t *h, int64_t n, int64_t i) { \
    int32_t v = h[i]; \
    for (int64_t kid; (kid = 2 * i + 1) < n; i = kid) { \
      if (kid + 1 < n && better_##TAG(x, h[kid], h[kid + 1])) kid++; \
      if (!better_##TAG(x, v, h[kid])) break; \
      h[i] = h[kid]; \
    } \
    h[i] = v; \
  } \
  static void top_##TAG(const void *px, int64_t n, int64_t k, void *pv, int32_t *h) { \
    const T *x = (const T *)px; \
    for (int64_t i = 0; i < k; i++) h[i] = (int32_t)i; \
    for (int64_t i = k / 2 - 1; i >= 0; i--) sink_##TAG(x, h, k, i); \
    for (int64_t i = k; i < n && k; i++) \
      if (better_##TAG(x, (int32_t)i, h[0])) h[0] = (int32_t)i, sink_##TAG(x, h, k, 0); \
    for (int64_t m = k - 1; m > 0; m--) { \
      int32_t v = h[0]; \
      h[0] = h[m], h[m] = v; \
      sink_##TAG(x, h, m, 0); \
    } \
    for (int64_t i = 0; i < k; i++) ((T *)pv)[i] = x[h[i]]; \
  }
PF_EACH_REAL(TOP)
#define TOP_ROW(TYPE, T, TAG) [TYPE] = top_##TAG,
static const top_loop top_loops[PF_TYPE_COUNT] = {PF_EACH_REAL(TOP_ROW)};
typedef struct {
  top_loop loop;
  const char *x;
  char *values;
  int32_t *at;
  int64_t n, k, esize;
} top_task;
static void top_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const top_task *t = (const top_task *)arg;
  (void)worker;
  for (int64_t r = lo; r < hi; r++)
    t->loop(t->x + r * t->n * t->esize, t->n, t->k, t->values + r * t->k * t->esize,
            t->at + r * t->k);
}
static pf_status top_rows(pf_ctx *c, int64_t k) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0], half = pf_is_half(type), work = half ? PF_FLOAT32 : type;
  int64_t shape[PF_MAX_DIMS], n = pf_numel(x);
  PF_TRY(pf_check_rank(c, x, "input"));
  if (k < 0) return PF_INVALID(c, "Need k >= 0, got %" PRId64, k);
  if (x->ndim < 1) return PF_INVALID(c, "input must be >= 1-D, got shape %s", PF_SHAPE(x).s);
  int64_t cols = x->shape[x->ndim - 1];
  if (cols < k)
    return PF_INVALID(c, "input must have at least k columns. Had %" PRId64 ", needed %" PRId64,
                      cols, k);
  if (cols > INT32_MAX)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "input has %" PRId64 " columns, more than int32 indices hold", cols);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  shape[x->ndim - 1] = k;
  DLTensor *values = pf_output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(values);
  DLTensor *at = c->host->output(c, 1, shape, x->ndim);
  PF_EXHAUSTED(at);
  if (k == 0 || n == 0) return PF_OK;
  top_task t = {top_loops[work],
                PF_DATA(const char, x),
                PF_DATA(char, values),
                PF_DATA(int32_t, at),
                cols,
                k,
                pf_type_size(work)};
  int64_t m = pf_numel(values);
  if (half) {
    float *wide = (float *)c->host->scratch(c, (uint64_t)(n + m) * 4, 64);
    PF_EXHAUSTED(wide);
    pf_half_to_float(type, t.x, wide, n);
    t.x = (const char *)wide, t.values = (char *)(wide + n);
  }
  if (c->out_type[1] != PF_INT32) {                            /* index_type: int16 or int64 */
    t.at = (int32_t *)c->host->scratch(c, (uint64_t)m * 4, 64);
    PF_EXHAUSTED(t.at);
  }
  PF_TRY(pf_parallel(c, n / cols, pf_grain(cols), top_range, &t));
  for (int64_t i = 0; c->out_type[1] != PF_INT32 && i < m; i++)
    pf_put_index(at, c->out_type[1], i, t.at[i]);
  if (half) pf_float_to_half(type, (const float *)t.values, PF_DATA(void, values), m);
  return PF_OK;
}
typedef struct { int64_t k; } k_state;
static pf_status top_k(pf_ctx *c, const void *state) {
  return top_rows(c, ((const k_state *)state)->k);
}
static pf_status top_k_v2(pf_ctx *c, const void *state) {
  int64_t k;
  (void)state;
  if (c->in[1]->ndim != 0)
    return PF_INVALID(c, "k must be scalar, got shape %s", PF_SHAPE(c->in[1]).s);
  PF_TRY(pf_in_scalar(c, 1, "k", &k));
  return top_rows(c, k);
}

/* ------------------------------------------------- InTopK: fewer than k classes beat the target */
static pf_status in_top(pf_ctx *c, int64_t k) {
  const DLTensor *x = c->in[0], *target = c->in[1];
  if (x->ndim != 2)
    return PF_INVALID(c, "predictions must be 2-dimensional, got shape %s", PF_SHAPE(x).s);
  if (target->ndim != 1)
    return PF_INVALID(c, "targets must be 1-dimensional, got shape %s", PF_SHAPE(target).s);
  int64_t rows = x->shape[0], cols = x->shape[1];
  if (target->shape[0] != rows)
    return PF_INVALID(
        c, "First dimension of predictions %" PRId64 " must match length of targets %" PRId64, rows,
        target->shape[0]);
  DLTensor *y = c->host->output(c, 0, &rows, 1);
  PF_EXHAUSTED(y);
  for (int64_t r = 0; r < rows; r++) {
    const float *p = PF_DATA(const float, x) + r * cols;
    int64_t t = pf_in_index(c, 1, r), above = 0;
    int32_t ok = t >= 0 && t < cols && isfinite(p[t]);
    for (int64_t j = 0; ok && j < cols; j++) {
      ok = isfinite(p[j]);
      above += p[j] > p[t];
    }
    PF_DATA(uint8_t, y)[r] = (uint8_t)(ok && above < k);
  }
  return PF_OK;
}
static pf_status in_top_k(pf_ctx *c, const void *state) {
  return in_top(c, ((const k_state *)state)->k);
}
static pf_status in_top_k_v2(pf_ctx *c, const void *state) {
  int64_t k;
  (void)state;
  PF_TRY(pf_in_scalar(c, 2, "k", &k));
  return in_top(c, k);
}

#define K_ATTR .state_size = sizeof(k_state), .attrs = PF_ATTRS(PF_ATTR(k_state, PF_ATTR_INT, k))
const pf_kernel *const search_kernels[] = {
  PF_CPU("Unique", NULL, .compute = unique),
  PF_CPU("UniqueV2", NULL, .compute = unique_v2),
  PF_CPU("UniqueWithCountsV2", NULL, .compute = unique_v2),
  PF_CPU("UniqueWithCounts", NULL, .compute = unique),
  PF_CPU("ListDiff", NULL, .compute = list_diff),
  PF_CPU("TopK", "T=" PF_REAL, .compute = top_k, K_ATTR),
  PF_CPU("TopKV2", "T=" PF_REAL, .compute = top_k_v2),
  PF_CPU("InTopK", NULL, .compute = in_top_k, K_ATTR),
  PF_CPU("InTopKV2", NULL, .compute = in_top_k_v2),
  NULL};
