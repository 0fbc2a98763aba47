/* lookup.c - places found by value: LowerBound, UpperBound, UnravelIndex, HistogramFixedWidth;
 * TensorScatterAdd, Sub, Max and Min; CumulativeLogsumexp.
 * Threads: one per call. */
#include <complex.h>
#include "sparse/sparse.h"

/* ---------------------------------------------------------------- LowerBound, UpperBound */
/* Searches go on side by side, SIDE at a time: each step halves what is left of all of them and
 * has no branch, so that their loads overlap.  NaN, which compares with nothing, comes after all if
 * `upper`, else before. */
enum { SIDE = 8, SEARCHES = 256 };
typedef void (*search_loop)(const void *s, int64_t n, const void *v, int64_t m, int upper,
                            int64_t *place);
#define BEFORE(place) ((s[place] < want[k]) | (upper & !(want[k] < s[place])))
#define SEARCH(TYPE, T, TAG) \
  static void search_##TAG(const void *ps, int64_t n, const void *pv, int64_t m, int upper, \
                           int64_t *place) { \
    const T *s = (const T *)ps, *v = (const T *)pv; \
    for (int64_t i = 0; i < m; i += SIDE) { \
      int64_t at[SIDE] = {0}, side = PF_MIN(SIDE, m - i); \
      T want[SIDE] = {0}; \
      for (int64_t k = 0; k < side; k++) want[k] = v[i + k]; \
      for (int64_t left = n, half; left > 1; left -= half) { \
        half = left / 2; \
        for (int k = 0; k < SIDE; k++) at[k] += half & -(int64_t)BEFORE(at[k] + half - 1); \
      } \
      for (int64_t k = 0; k < side; k++) place[i + k] = at[k] + (n > 0 && BEFORE(at[k])); \
    } \
  }
SEARCH(, float, f32)
SEARCH(, double, f64)
SEARCH(, int64_t, i64)
/* n elements in the type they are searched in: float32 and 64-bit integers as they are (unsigned
 * ones as signed numbers of the same order), halves as float32, all others, exactly, as double */
#define WIDEN(TYPE, T, TAG) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) ((double *)wide)[i] = (double)((const T *)x)[i]; \
    break;
static const void *widened(int32_t type, const void *x, int64_t n, void *wide) {
  switch (type) {
    WIDEN(PF_INT8, int8_t, )
    WIDEN(PF_INT16, int16_t, )
    WIDEN(PF_INT32, int32_t, )
    WIDEN(PF_UINT8, uint8_t, )
    WIDEN(PF_UINT16, uint16_t, )
    WIDEN(PF_UINT32, uint32_t, )
    case PF_UINT64:
      for (int64_t i = 0; i < n; i++)
        ((uint64_t *)wide)[i] = ((const uint64_t *)x)[i] ^ (uint64_t)1 << 63;
      break;
    case PF_FLOAT16:
    case PF_BFLOAT16: pf_half_to_float(type, x, wide, n); break;
    default: return x;
  }
  return wide;
}
static pf_status bounds(pf_ctx *c, int upper) {
  const DLTensor *s = c->in[0], *v = c->in[1];
  int32_t type = c->in_type[0];
  if (s->ndim != 2 || v->ndim != 2)
    return PF_INVALID(c, "sorted_inputs and values must be matrices, got shapes %s and %s",
                      PF_SHAPE(s).s, PF_SHAPE(v).s);
  if (s->shape[0] != v->shape[0])
    return PF_INVALID(c, "Leading dim_size of both tensors must match, got %s and %s",
                      PF_SHAPE(s).s, PF_SHAPE(v).s);
  int64_t n = s->shape[1], m = v->shape[1];
  if (c->out_type[0] == PF_INT32 && n >= INT32_MAX)
    return PF_INVALID(c, "values of int32 cannot hold places up to %" PRId64, n);
  DLTensor *y = c->host->output(c, 0, v->shape, 2);
  PF_EXHAUSTED(y);
  int64_t rows = s->shape[0], place[SEARCHES];
  int f32 = type == PF_FLOAT32 || pf_is_half(type);
  int i64 = type == PF_INT64 || type == PF_UINT64;
  search_loop search = f32 ? search_f32 : i64 ? search_i64 : search_f64;
  int as_is = type == PF_FLOAT32 || type == PF_FLOAT64 || type == PF_INT64;
  double *wide = c->host->scratch(c, (uint64_t)(as_is ? 0 : n + m) * 8 + 8, 64);
  PF_EXHAUSTED(wide);
  for (int64_t r = 0; r < rows; r++) {
    int64_t size = pf_type_size(type), used = f32 ? 4 : 8;
    const void *row = widened(type, PF_DATA(const char, s) + r * n * size, n, wide);
    const char *wanted =
        widened(type, PF_DATA(const char, v) + r * m * size, m, as_is ? wide : wide + n);
    for (int64_t i = 0, b; i < m; i += b) {
      b = PF_MIN(SEARCHES, m - i);
      search(row, n, wanted + i * used, b, upper, place);
      for (int64_t k = 0; k < b; k++) pf_put_index(y, c->out_type[0], r * m + i + k, place[k]);
    }
  }
  return PF_OK;
}
static pf_status lower_bound(pf_ctx *c, const void *s) {
  (void)s;
  return bounds(c, 0);
}
static pf_status upper_bound(pf_ctx *c, const void *s) {
  (void)s;
  return bounds(c, 1);
}

/* ---------------------------------------------------------------- UnravelIndex */
static pf_status unravel(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t dims[PF_MAX_DIMS], all, shape[2];
  int32_t rank;
  (void)state;
  if (x->ndim > 1)
    return PF_INVALID(c, "The indices can only be scalar or vector, got shape %s", PF_SHAPE(x).s);
  if (c->in[1]->ndim != 1)
    return PF_INVALID(c, "dims must be a vector, got shape %s", PF_SHAPE(c->in[1]).s);
  PF_TRY(pf_in_vector(c, 1, "dims", dims, &rank));
  for (int32_t k = 0; k < rank; k++)
    if (dims[k] <= 0)
      return PF_INVALID(c, "Input dims %d must be positive, got %" PRId64, k, dims[k]);
  PF_TRY(pf_coo_numel(c, dims, rank, &all));
  int64_t n = pf_numel(x);
  shape[0] = rank, shape[1] = n;
  DLTensor *y = c->host->output(c, 0, shape, x->ndim ? 2 : 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    int64_t left = pf_in_index(c, 0, i);
    if (left < 0 || left >= all)
      return PF_INVALID(c,
                        "index is out of bound as with dims: indices[%" PRId64 "] = %" PRId64
                        ", the dims hold %" PRId64,
                        i, left, all);
    for (int32_t k = rank - 1; k >= 0; k--)
      pf_put_index(y, c->out_type[0], k * n + i, left % dims[k]), left /= dims[k];
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- HistogramFixedWidth */
static double number_at(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) {
    case PF_FLOAT64: return PF_DATA(const double, t)[i];
    case PF_FLOAT32: return PF_DATA(const float, t)[i];
    default: return (double)pf_index_at(t, type, i);
  }
}
/* The places of values [i, i + n), a block, as TensorFlow finds them: differences in the values'
 * type, shares in double.  0 if one is NaN.  Counts of neighbours go to COPIES histograms in
 * turn. */
enum { PLACES = 256, COPIES = 4, MOST_COPIED = 4096 };
#define PLACES_OF(TYPE, T, D) \
  case TYPE: \
    for (int64_t j = 0; j < n; j++) { \
      T v = ((const T *)x)[i + j]; \
      double at = (double)((D)v - (D)low) / step; \
      at = at > 0 ? at : 0; \
      nan |= v != v; \
      place[j] = (int32_t)(at < last ? at : last); \
    } \
    break;
static int places_of(const void *x, int32_t type, int64_t i, int64_t n, double low, double step,
                     double last, int32_t *place) {
  int nan = 0;
  switch (type) {
    PLACES_OF(PF_FLOAT32, float, float)
    PLACES_OF(PF_FLOAT64, double, double)
    PLACES_OF(PF_INT32, int32_t, double)
    PLACES_OF(PF_INT64, int64_t, double)
  }
  return !nan;
}
static int64_t first_nan(const DLTensor *x, int32_t type, int64_t i) {
  while (number_at(x, type, i) == number_at(x, type, i)) i++;
  return i;
}
/* value_range and nbins, checked */
static pf_status bins_of(pf_ctx *c, double *low, double *high, int64_t *bins) {
  const DLTensor *range = c->in[1];
  if (range->ndim != 1 || range->shape[0] != 2)
    return PF_INVALID(c, "value_range should be a vector of 2 elements, got shape %s",
                      PF_SHAPE(range).s);
  if (c->in[2]->ndim != 0)
    return PF_INVALID(c, "nbins should be a scalar, got shape %s", PF_SHAPE(c->in[2]).s);
  PF_TRY(pf_in_scalar(c, 2, "nbins", bins));
  *low = number_at(range, c->in_type[0], 0), *high = number_at(range, c->in_type[0], 1);
  if (!(*low < *high))
    return PF_INVALID(c,
                      "value_range should satisfy value_range[0] < value_range[1], but got "
                      "'[%g, %g]'",
                      *low, *high);
  if (*bins > 0) return PF_OK;
  return PF_INVALID(c, "nbins should be a positive number, but got '%" PRId64 "'", *bins);
}
static pf_status histogram(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0];
  int64_t bins, n = pf_numel(x);
  double low, high;
  (void)state;
  PF_TRY(bins_of(c, &low, &high, &bins));
  if (n > UINT32_MAX) return PF_INVALID(c, "%" PRId64 " values are too many", n);
  DLTensor *y = pf_output_checked(c, 0, &bins, 1);
  PF_EXHAUSTED(y);
  double span = type == PF_FLOAT32 ? (double)((float)high - (float)low) : high - low;
  double step = span / (double)bins;
  int64_t copies = bins <= MOST_COPIED && n >= PLACES ? COPIES : 1;
  int in_place = copies == 1 && c->out_type[0] == PF_INT32; /* many bins: no second copy */
  uint32_t *count =
      in_place ? PF_DATA(uint32_t, y) : c->host->scratch(c, (uint64_t)(bins * copies) * 4, 64);
  PF_EXHAUSTED(count);
  memset(count, 0, (size_t)(bins * copies) * 4);
  for (int64_t i = 0, b; i < n; i += b) {
    int32_t place[PLACES];
    b = PF_MIN(PLACES, n - i);
    if (!places_of(PF_DATA(const void, x), type, i, b, low, step, (double)(bins - 1), place))
      return PF_INVALID(c, "values[%" PRId64 "] is NaN", first_nan(x, type, i));
    if (copies == 1)
      for (int64_t j = 0; j < b; j++) count[place[j]]++;
    else
      for (int64_t j = 0; j < b; j++) count[place[j] + bins * (j & (COPIES - 1))]++;
  }
  for (int64_t k = 0; k < bins && !in_place; k++) {
    int64_t sum = 0;
    for (int64_t m = 0; m < copies; m++) sum += count[k + bins * m];
    pf_put_index(y, c->out_type[0], k, sum);
  }
  return PF_OK;
}

/* ------------------------------------------------------------ TensorScatterAdd, Sub, Max, Min */
enum { ADD, SUB, MAX_OP, MIN_OP };
#define SUB_CASE(TYPE, T, TAG) \
  case TYPE: ((T *)y)[i] = (T)(((T *)y)[i] - ((const T *)x)[j]); return;
static void sub_element(int32_t type, void *y, int64_t i, const void *x, int64_t j) {
  switch (type) {
    PF_EACH_FLOAT(SUB_CASE)
    SUB_CASE(PF_INT8, uint8_t, )
    SUB_CASE(PF_UINT8, uint8_t, )
    SUB_CASE(PF_INT16, uint16_t, )
    SUB_CASE(PF_UINT16, uint16_t, )
    SUB_CASE(PF_INT32, uint32_t, )
    SUB_CASE(PF_UINT32, uint32_t, )
    SUB_CASE(PF_INT64, uint64_t, )
    SUB_CASE(PF_UINT64, uint64_t, )
    SUB_CASE(PF_COMPLEX64, float _Complex, )
    SUB_CASE(PF_COMPLEX128, double _Complex, )
    default: break;
  }
  uint16_t *h = (uint16_t *)y + i, other = ((const uint16_t *)x)[j];
  if (type == PF_FLOAT16) *h = pf_to_half(pf_from_half(*h) - pf_from_half(other));
  else *h = pf_to_bf16(pf_from_bf16(*h) - pf_from_bf16(other));
}
static void join_element(int op, int32_t type, char *y, int64_t i, const char *x, int64_t j) {
  int64_t es = pf_type_size(type);
  if (op == ADD) pf_add_element(type, y, i, x, j);
  else if (op == SUB) sub_element(type, y, i, x, j);
  else if (op == MAX_OP ? pf_less_element(type, y, i, x, j) : pf_less_element(type, x, j, y, i))
    memcpy(y + i * es, x + j * es, (size_t)es);
}
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((noipa)) /* one body for four ops, not four */
#endif
static pf_status scatter(pf_ctx *c, int op) {
  const DLTensor *x = c->in[0], *at = c->in[1], *u = c->in[2];
  int32_t type = c->in_type[0], outer = at->ndim - 1;
  int64_t step[PF_MAX_DIMS];
  PF_TRY(pf_check_rank(c, x, "tensor"));
  PF_TRY(pf_check_rank(c, at, "indices"));
  if (outer < 0)
    return PF_INVALID(c, "Indices shape must have rank at least one. Found: %s", PF_SHAPE(at).s);
  int64_t k = at->shape[outer];
  if (k > x->ndim || u->ndim != outer + x->ndim - k ||
      !pf_same_dims(at->shape, outer, u->shape, outer) ||
      !pf_same_dims(x->shape + k, x->ndim - (int32_t)k, u->shape + outer, u->ndim - outer))
    return PF_INVALID(c,
                      "Must have updates.shape = indices.shape[:-1] + "
                      "tensor.shape[indices.shape[-1]:], got updates.shape %s, "
                      "indices.shape %s, tensor.shape %s",
                      PF_SHAPE(u).s, PF_SHAPE(at).s, PF_SHAPE(x).s);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  int64_t bytes = pf_numel(x) * pf_type_size(type);
  if (bytes) memcpy(PF_DATA(char, y), PF_DATA(const char, x), (size_t)bytes);
  int64_t m = pf_product(at->shape, 0, outer), run = pf_product(x->shape, (int32_t)k, x->ndim);
  pf_row_major(x->shape, (int32_t)k, step);
  for (int64_t i = 0; i < m; i++) {
    int64_t to = 0;
    for (int64_t d = 0; d < k; d++) {
      int64_t v = pf_in_index(c, 1, i * k + d);
      if (v < 0 || v >= x->shape[d])
        return PF_INVALID(
            c, "indices[%" PRId64 ", %" PRId64 "] = %" PRId64 " does not index into shape %s", i, d,
            v, PF_SHAPE(x).s);
      to += v * step[d];
    }
    for (int64_t j = 0; j < run; j++)
      join_element(op, type, PF_DATA(char, y), to * run + j, PF_DATA(const char, u), i * run + j);
  }
  return PF_OK;
}
static pf_status scatter_add(pf_ctx *c, const void *s) {
  (void)s;
  return scatter(c, ADD);
}
static pf_status scatter_sub(pf_ctx *c, const void *s) {
  (void)s;
  return scatter(c, SUB);
}
static pf_status scatter_max(pf_ctx *c, const void *s) {
  (void)s;
  return scatter(c, MAX_OP);
}
static pf_status scatter_min(pf_ctx *c, const void *s) {
  (void)s;
  return scatter(c, MIN_OP);
}

/* ---------------------------------------------------------------- CumulativeLogsumexp */
typedef struct { int32_t exclusive, reverse; } scan_state;
static double log_add(double a, double b) {
  double top = PF_MAX(a, b), rest = PF_MIN(a, b);
  if (a != a || b != b) return NAN;
  return isinf(top) ? top : top + log1p(exp(rest - top));
}
static pf_status logsumexp_scan(pf_ctx *c, const void *state) {
  const scan_state *s = (const scan_state *)state;
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0], axis;
  int64_t wanted;
  PF_TRY(pf_in_scalar(c, 1, "axis", &wanted));
  PF_TRY(pf_axis(c, wanted, x->ndim, "axis", &axis));
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  int64_t all = pf_numel(x), n = x->shape[axis], inner = pf_product(x->shape, axis + 1, x->ndim);
  for (int64_t at = 0; at < all; at++) {
    int64_t i = at / inner % n, from = at - i * inner;
    if (i) continue;
    double sum = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
      int64_t here = from + (s->reverse ? n - 1 - k : k) * inner;
      double v = 0, before = sum;
      if (type == PF_FLOAT64) v = PF_DATA(const double, x)[here];
      else if (type == PF_FLOAT32) v = PF_DATA(const float, x)[here];
      else {
        float f;
        pf_half_to_float(type, PF_DATA(const uint16_t, x) + here, &f, 1);
        v = f;
      }
      sum = k ? log_add(sum, v) : v;
      double r = s->exclusive ? before : sum;
      if (type == PF_FLOAT64) PF_DATA(double, y)[here] = r;
      else if (type == PF_FLOAT32) PF_DATA(float, y)[here] = (float)r;
      else {
        float f = (float)r;
        pf_float_to_half(type, &f, PF_DATA(uint16_t, y) + here, 1);
      }
    }
  }
  return PF_OK;
}

const pf_kernel *const lookup_kernels[] = {
  PF_CPU("LowerBound", "T=" PF_REAL, .compute = lower_bound),
  PF_CPU("UpperBound", "T=" PF_REAL, .compute = upper_bound),
  PF_CPU("UnravelIndex", NULL, .compute = unravel),
  PF_CPU("HistogramFixedWidth", "T=int32|int64|float|double", .compute = histogram),
  PF_CPU("TensorScatterAdd", "T=" PF_NUMBERS, .compute = scatter_add),
  PF_CPU("TensorScatterSub", "T=" PF_NUMBERS, .compute = scatter_sub),
  PF_CPU("TensorScatterMax", "T=" PF_REAL, .compute = scatter_max),
  PF_CPU("TensorScatterMin", "T=" PF_REAL, .compute = scatter_min),
  PF_CPU("CumulativeLogsumexp", "T=" PF_FLOATS, .compute = logsumexp_scan,
         .state_size = sizeof(scan_state),
         .attrs = PF_ATTRS(PF_ATTR(scan_state, PF_ATTR_BOOL, exclusive),
                           PF_ATTR(scan_state, PF_ATTR_BOOL, reverse))),
  NULL};
