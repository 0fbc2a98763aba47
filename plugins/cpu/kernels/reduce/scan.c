/* scan.c - Cumsum, Cumprod: walks along one axis.  (Cumsum of float and halves: scan_rows.c.)
 * The input is [outer, n, inner] around the axis; half and bfloat16 are computed as float. */
#include "base/common.h"

static pf_status widened(pf_ctx *c, const DLTensor *x, int32_t type, const char **data) {
  int64_t n = pf_numel(x);
  *data = PF_DATA(const char, x);
  if (!pf_is_half(type)) return PF_OK;
  float *wide = (float *)c->host->scratch(c, (uint64_t)n * 4 + 4, 64);
  PF_EXHAUSTED(wide);
  pf_half_to_float(type, *data, wide, n);
  *data = (const char *)wide;
  return PF_OK;
}

/* ---------------------------------------------------------------- Cumsum, Cumprod */
enum { ABREAST = 8 };
typedef struct {
  /* one [n, inner]: row i from row i - 1; exclusive results are one row late */
  void (*columns)(const void *x, void *y, int64_t n, int64_t inner, int32_t exclusive,
                  int32_t reverse);
  /* ABREAST rows of n, the first of which begin at x and y: a sum in each waits for the one before,
   * so several are on their way */
  void (*abreast)(const void *x, void *y, int64_t n, int32_t exclusive, int32_t reverse);
} scan_loop;
#define SCAN(NAME, TAG, T, ZERO, JOIN) \
  static void NAME##_##TAG##_abreast(const void *px, void *py, int64_t n, int32_t exclusive, \
                                     int32_t reverse) { \
    int64_t step = reverse ? -1 : 1, at = reverse ? n - 1 : 0; \
    const T *x = (const T *)px; \
    T *y = (T *)py, acc[ABREAST]; \
    for (int r = 0; r < ABREAST; r++) { \
      acc[r] = x[r * n + at]; \
      y[r * n + at] = exclusive ? (T)ZERO : acc[r]; \
      if (exclusive) acc[r] = (T)ZERO; \
    } \
    for (int64_t i = 1; i < n; i++, at += step) { \
      int64_t from = exclusive ? at : at + step; \
      for (int r = 0; r < ABREAST; r++) { \
        T a = acc[r], b = x[r * n + from]; \
        acc[r] = (T)(JOIN); \
        y[r * n + at + step] = acc[r]; \
      } \
    } \
  } \
  static void NAME##_##TAG(const void *px, void *py, int64_t n, int64_t inner, int32_t exclusive, \
                           int32_t reverse) { \
    int64_t step = reverse ? -inner : inner, first = reverse ? (n - 1) * inner : 0; \
    const T *x = (const T *)px + first; \
    T *y = (T *)py + first; \
    if (inner == 1) { /* the sum so far in a register */ \
      T a = (T)ZERO, b, sum; \
      if (!exclusive) a = *y = *x, x += step, y += step, n--;  /* as it is: 0 + -0 would be 0 */ \
      for (int64_t i = 0; i < n; i++, x += step, y += step) \
        b = *x, sum = (T)(JOIN), *y = exclusive ? a : sum, a = sum; \
      return; \
    } \
    for (int64_t j = 0; j < inner; j++) y[j] = exclusive ? (T)ZERO : x[j]; \
    for (int64_t i = 1; i < n; i++, x += step, y += step) \
      for (int64_t j = 0; j < inner; j++) { \
        T a = y[j], b = exclusive ? x[j] : x[j + step]; \
        y[j + step] = (T)(JOIN); \
      } \
  }
#define SCAN_PRODUCT(T, TAG) SCAN(cumprod, TAG, T, 1, a * b)
#define SCAN_FLOAT(T, TAG) SCAN(cumsum, TAG, T, 0, a + b) SCAN_PRODUCT(T, TAG)
#define SCAN_INT(T, TAG, U) \
  SCAN(cumsum, TAG, T, 0, (U)a + (U)b) SCAN(cumprod, TAG, T, 1, (U)a *(U)b)
SCAN_PRODUCT(float, f32)
SCAN_FLOAT(double, f64)
SCAN_FLOAT(float _Complex, c64)
SCAN_FLOAT(double _Complex, c128)
SCAN_INT(int8_t, i8, uint32_t)
SCAN_INT(int16_t, i16, uint32_t)
SCAN_INT(int32_t, i32, uint32_t)
SCAN_INT(int64_t, i64, uint64_t)
SCAN_INT(uint8_t, u8, uint32_t)
SCAN_INT(uint16_t, u16, uint32_t)
SCAN_INT(uint32_t, u32, uint32_t)
SCAN_INT(uint64_t, u64, uint64_t)
#define SUM_ROW(TYPE, T, TAG) [TYPE] = {cumsum_##TAG, cumsum_##TAG##_abreast},
#define PROD_ROW(TYPE, T, TAG) [TYPE] = {cumprod_##TAG, cumprod_##TAG##_abreast},
static const scan_loop cumsum_loops[PF_TYPE_COUNT] = {PF_EACH_INT(SUM_ROW) SUM_ROW(
    PF_FLOAT64, , f64) SUM_ROW(PF_COMPLEX64, , c64) SUM_ROW(PF_COMPLEX128, , c128)};
static const scan_loop cumprod_loops[PF_TYPE_COUNT] = {
  PF_EACH_REAL(PROD_ROW) PROD_ROW(PF_COMPLEX64, , c64) PROD_ROW(PF_COMPLEX128, , c128)};

typedef struct { int32_t exclusive, reverse; } scan_state;
typedef struct {
  scan_loop loop;
  const scan_state *s;
  const char *x;
  char *y;
  int64_t n, inner, bytes;
} scan_task;
static void scan_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const scan_task *t = (const scan_task *)arg;
  (void)worker;
  for (; t->inner == 1 && lo + ABREAST <= hi; lo += ABREAST)
    t->loop.abreast(t->x + lo * t->bytes, t->y + lo * t->bytes, t->n, t->s->exclusive,
                    t->s->reverse);
  for (int64_t o = lo; o < hi; o++)
    t->loop.columns(t->x + o * t->bytes, t->y + o * t->bytes, t->n, t->inner, t->s->exclusive,
                    t->s->reverse);
}
static pf_status scan(pf_ctx *c, const scan_state *s, const scan_loop *loops) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0], half = pf_is_half(type), work = half ? PF_FLOAT32 : type, a;
  int64_t axis, n = pf_numel(x);
  PF_TRY(pf_in_scalar(c, 1, "axis", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return PF_INVALID(c, "ScanOp: Expected scan axis in the range [%d, %d), but got %" PRId64,
                      -x->ndim, x->ndim, axis);
  a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  if (n == 0) return PF_OK;
  scan_task t = {.loop = loops[work],
                 .s = s,
                 .y = PF_DATA(char, y),
                 .n = x->shape[a],
                 .inner = pf_product(x->shape, a + 1, x->ndim)};
  PF_TRY(widened(c, x, type, &t.x));
  if (half) {
    t.y = (char *)c->host->scratch(c, (uint64_t)n * 4, 64);
    PF_EXHAUSTED(t.y);
  }
  t.bytes = t.n * t.inner * pf_type_size(work);
  PF_TRY(pf_parallel(c, pf_product(x->shape, 0, a), pf_grain(t.n * t.inner) * ABREAST, scan_range,
                     &t));
  if (half) pf_float_to_half(type, (const float *)t.y, PF_DATA(void, y), n);
  return PF_OK;
}
static pf_status cumsum(pf_ctx *c, const void *state) {
  return scan(c, (const scan_state *)state, cumsum_loops);
}
static pf_status cumprod(pf_ctx *c, const void *state) {
  return scan(c, (const scan_state *)state, cumprod_loops);
}

#define SCAN_KERNEL(OP, NAME, TYPES) \
  PF_CPU(OP, "T=" TYPES, .state_size = sizeof(scan_state), .compute = NAME, \
         .attrs = PF_ATTRS(PF_ATTR(scan_state, PF_ATTR_BOOL, exclusive), \
                           PF_ATTR(scan_state, PF_ATTR_BOOL, reverse)))
const pf_kernel *const scan_kernels[] = {
  SCAN_KERNEL("Cumsum", cumsum, "double|" PF_INTS "|" PF_COMPLEX),
  SCAN_KERNEL("Cumprod", cumprod, PF_NUMBERS), NULL};
