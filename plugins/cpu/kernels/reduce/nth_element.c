/* nth_element.c - NthElement: the n-th smallest (or largest) element of each row.
 *
 * Invariants
 *   1. Rows are copied and partitioned around medians of three (Hoare 1961); the pivot's place is
 *      mixed by the row's length, so that no sorted order is a worst case.
 *   2. NaN counts as larger than every number.
 * Threads: parallel_for over rows, each worker with a row of its own.
 */
#include "base/common.h"

typedef struct { int32_t T, reverse; } nth_state;
typedef struct {
  int64_t length, n;
  const void *x;
  void *out, *work;
} nth;

#define LESS(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#define SELECT(num, T, tag) \
static T nth_##tag(T *a, int64_t size, int64_t n) { \
  int64_t lo = 0, hi = size - 1; \
  uint64_t mix = (uint64_t)size; \
  while (lo < hi) { \
    mix = mix * 6364136223846793005ull + 1442695040888963407ull; \
    T u = a[lo + (int64_t)(mix >> 33) % (hi - lo + 1)], v = a[lo + (hi - lo) / 2], w = a[hi]; \
    T pivot = LESS(u, v) ? (LESS(v, w) ? v : LESS(u, w) ? w : u) \
                         : (LESS(u, w) ? u : LESS(v, w) ? w : v); \
    int64_t i = lo, j = hi; \
    while (i <= j) { \
      while (LESS(a[i], pivot)) i++; \
      while (LESS(pivot, a[j])) j--; \
      if (i > j) break; \
      T t = a[i]; \
      a[i++] = a[j]; \
      a[j--] = t; \
    } \
    if (n <= j) hi = j; \
    else if (n >= i) lo = i; \
    else return a[n]; \
  } \
  return a[n]; \
} \
static void rows_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
  const nth *p = arg; \
  T *row = (T *)p->work + worker * p->length; \
  for (int64_t r = lo; r < hi; r++) { \
    memcpy(row, (const T *)p->x + r * p->length, sizeof(T) * (size_t)p->length); \
    ((T *)p->out)[r] = nth_##tag(row, p->length, p->n); \
  } \
}
PF_EACH_REAL(SELECT)

/* Halves are selected as float. */
static pf_status select_halves(pf_ctx *c, int32_t type, nth *p, const DLTensor *x, DLTensor *out) {
  int64_t rows = pf_numel(out);
  float *wide = c->host->scratch(c, (uint64_t)(pf_numel(x) + rows) * 4, 64);
  if (!wide) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
  pf_half_to_float(type, p->x, wide, pf_numel(x));
  p->x = wide;
  p->out = wide + pf_numel(x);
  PF_TRY(pf_parallel(c, rows, pf_grain(p->length * 4), rows_f32, p));
  pf_float_to_half(type, p->out, PF_DATA(void, out), rows);
  return PF_OK;
}

static pf_status nth_element(pf_ctx *c, const void *state) {
  const nth_state *s = state;
  const DLTensor *x = c->in[0];
  nth p = {.x = PF_DATA(const void, x)};
  PF_TRY(pf_check_rank(c, x, "input"));
  if (c->in[1]->ndim)
    return PF_INVALID(c, "N must be scalar but has shape %s", PF_SHAPE(c->in[1]).s);
  PF_TRY(pf_in_scalar(c, 1, "n", &p.n));
  if (x->ndim < 1) return PF_INVALID(c, "Input must be at least rank 1, got a scalar");
  p.length = x->shape[x->ndim - 1];
  if (p.n < 0 || p.n >= p.length)
    return PF_INVALID(c, "Input must have last dimension > n = %" PRId64 " >= 0, got shape %s", p.n,
                      PF_SHAPE(x).s);
  DLTensor *out = pf_output_checked(c, 0, x->shape, x->ndim - 1);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  if (s->reverse) p.n = p.length - 1 - p.n;
  p.out = PF_DATA(void, out);
  p.work = c->host->scratch(c, (uint64_t)p.length * 8 * (uint64_t)c->host->workers(c), 64);
  if (!p.work) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a row");
  if (pf_is_half(s->T)) return select_halves(c, s->T, &p, x, out);
  pf_range fn = NULL;
#define CASE(num, T, tag) case num: fn = rows_##tag; break;
  switch (s->T) { PF_EACH_REAL(CASE) default : break; }
  if (!fn) return pf_failf(c, PF_UNIMPLEMENTED, "type %s is not supported", pf_type_name(s->T));
  return pf_parallel(c, pf_numel(out), pf_grain(p.length * 4), fn, &p);
}

#define FIELD(name, kind, field) PF_REF(pf_attr, name, kind, offsetof(nth_state, field))
const pf_kernel *const nth_element_kernels[] = {
  PF_CPU("NthElement", "T=" PF_REAL,
         .attrs = PF_ATTRS(FIELD("T", PF_ATTR_TYPE, T), FIELD("reverse", PF_ATTR_BOOL, reverse)),
         .state_size = sizeof(nth_state), .compute = nth_element),
  NULL};
