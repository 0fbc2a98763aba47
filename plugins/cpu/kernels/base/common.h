/* common.h - what every CPU kernel file shares: errors, shapes, element types, half floats, table
 * macros.
 *
 * Invariants
 *   1. Nothing here calls the host except through the `pf_ctx` it is given.
 *   2. Every product of sizes goes through pf_mul, so no kernel overflows int64.
 *   3. Rank is at most PF_MAX_DIMS wherever a kernel keeps dimensions on its stack.
 * Threads: all functions are pure or write only through their arguments.
 *
 *     static pf_status twice(pf_ctx *c, const void *state) {
 *       const DLTensor *x = c->in[0];
 *       if (x->ndim != 1) return PF_INVALID(c, "x must be a vector, got rank %d", x->ndim);
 *       ...
 *     }
 *     const pf_kernel *const twice_kernels[] = {
 *       PF_CPU("Twice", "T=float", .compute = twice), NULL};
 */
#ifndef PF_CPU_COMMON_H
#define PF_CPU_COMMON_H
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <pyflow/kernel.h>

enum { PF_MAX_DIMS = 32, PF_TYPE_COUNT = 32, PF_GRAIN = 16384 };

#define PF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define PF_MAX(a, b) ((a) > (b) ? (a) : (b))
#define PF_LEN(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))
#if defined(__clang__)
#define PF_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define PF_IVDEP \
  _Pragma("GCC ivdep") /* an output may be the input itself: no dependence between elements */
#else
#define PF_IVDEP
#endif
/* for loops of a fixed number of elements: vectors, but one copy of them */
#if defined(__clang__)
#define PF_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define PF_ROLLED _Pragma("GCC unroll 1")
#endif
#ifdef PF_INLINE_HINT /* for a set that is to be small and quick to compile (meson.build) */
#define PF_INLINE static inline __attribute__((unused))
#else
#define PF_INLINE static inline __attribute__((always_inline, unused))
#endif
#define PF_LOCAL static inline __attribute__((unused))

/* ---------------------------------------------------------------- table entries */
/* What neither blocks nor waits is brief; an expensive one where its cost function says so. */
#define PF_WITH_BRIEF(flags_) \
  ((uint32_t)(flags_) | ((flags_) & (PF_KERNEL_ASYNC | PF_KERNEL_BLOCKING) ? 0 : PF_KERNEL_BRIEF))
#define PF_CPU_FLAGS(op_, where_, flags_, ...) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = PF_WITH_BRIEF(flags_), .op = op_, .where = where_, \
                      .device = "CPU", __VA_ARGS__})
#define PF_CPU(op_, where_, ...) PF_CPU_FLAGS(op_, where_, PF_KERNEL_DETERMINISTIC, __VA_ARGS__)
/* Much work for few bytes: a draw that is tried again, a series for each element, the cube of a
 * size. */
#define PF_CPU_LONG(op_, where_, ...) \
  PF_CPU_FLAGS(op_, where_, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, __VA_ARGS__)
#define PF_SERIES(op_, where_, fn_) \
  PF_CPU_LONG(op_, where_, .compute = fn_, .cost = pf_series_cost)
#define PF_CPU_BORROWS(op_, where_, ...) \
  PF_CPU_FLAGS(op_, where_, PF_KERNEL_DETERMINISTIC | PF_KERNEL_BORROWS, __VA_ARGS__)
#define PF_ATTRS(...) ((const pf_attr *const[]){__VA_ARGS__, NULL})
#define PF_ARGS(...) ((const pf_arg *const[]){__VA_ARGS__, NULL})
#define PF_FLAGGED_ARG(name_, flags_, reuse_) \
  (&(const pf_arg){sizeof(pf_arg), flags_, name_, PF_MEM_DEVICE, reuse_})
/* For the planner of buffers, about output out_: written over input in_, or any input of its
 * size, when nobody else needs that; always is input 0. */
#define PF_OVER(out_, in_) PF_ARGS(PF_FLAGGED_ARG(out_, 0, 1 + (in_)))
#define PF_OVER_ANY(out_) PF_ARGS(PF_FLAGGED_ARG(out_, PF_ARG_REUSE_ANY, 0))
#define PF_ALIASES(out_) PF_ARGS(PF_FLAGGED_ARG(out_, PF_ARG_ALIAS, 1))
#define PF_FLOATS "float|double|half|bfloat16"
#define PF_SIGNED "int8|int16|int32|int64"
#define PF_UNSIGNED "uint8|uint16|uint32|uint64"
#define PF_INTS PF_SIGNED "|" PF_UNSIGNED
#define PF_REAL PF_FLOATS "|" PF_INTS
#define PF_COMPLEX "complex64|complex128"
#define PF_NUMBERS PF_REAL "|" PF_COMPLEX

/* ---------------------------------------------------------------- errors */
__attribute__((format(printf, 3, 4), unused, cold)) static pf_status
pf_failf(pf_ctx *c, pf_status status, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return c->host->fail(c, status, text, n < 0 ? 0 : PF_MIN(n, (int)sizeof text - 1));
}
#define PF_INVALID(c, ...) (pf_failf(c, PF_INVALID_ARGUMENT, __VA_ARGS__), PF_INVALID_ARGUMENT)
#define PF_TRY(expr) do { pf_status s_ = (expr); if (s_) return s_; } while (0)
#define PF_EXHAUSTED(t) do { if (!(t)) return PF_RESOURCE_EXHAUSTED; } while (0)

typedef struct { char s[256]; } pf_text;
/* "[2,3]" of a shape; by value so that a message can hold two: PF_SHAPE(t).s */
PF_LOCAL pf_text pf_shape_text(const int64_t *shape, int32_t ndim) {
  pf_text t;
  size_t n = 0;
  t.s[n++] = '[';
  for (int32_t i = 0; i < ndim && n < sizeof t.s - 24; i++)
    n += (size_t)snprintf(t.s + n, sizeof t.s - n, i ? ",%" PRId64 : "%" PRId64, shape[i]);
  t.s[n++] = ']';
  t.s[n] = 0;
  return t;
}
#define PF_SHAPE(t) pf_shape_text((t)->shape, (t)->ndim)

/* ---------------------------------------------------------------- element types */
PF_LOCAL const char *pf_type_name(int32_t type) {
  static const char *const names[PF_TYPE_COUNT] = {
    "invalid",  "float",     "double",  "int32",       "uint8",        "int16",  "int8",
    "string",   "complex64", "int64",   "bool",        "qint8",        "quint8", "qint32",
    "bfloat16", "qint16",    "quint16", "uint16",      "complex128",   "half",   "resource",
    "variant",  "uint32",    "uint64",  "float8_e5m2", "float8_e4m3fn"};
  return type >= 0 && type < PF_TYPE_COUNT && names[type] ? names[type] : "unknown";
}
/* bytes of one element; 0 for types whose elements are not plain bytes (string, resource,
 * variant) */
PF_LOCAL int64_t pf_type_size(int32_t type) {
  static const uint8_t size[PF_TYPE_COUNT] = {0, 4, 8, 4, 1, 2,  1, 0, 8, 8, 1, 1, 1,
                                              4, 2, 2, 2, 2, 16, 2, 0, 0, 4, 8, 1, 1};
  return type >= 0 && type < PF_TYPE_COUNT ? size[type] : 0;
}

/* ---------------------------------------------------------------- shapes */
/* *out = a * b; 0 when it overflows (or a size is negative) */
PF_INLINE int pf_mul(int64_t a, int64_t b, int64_t *out) {
  return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}
/* elements of a shape; 0 when the product of its non-zero sizes overflows, even beside a zero:
 * kernels multiply parts of a shape */
PF_LOCAL int pf_shape_numel(const int64_t *shape, int32_t ndim, int64_t *out) {
  int64_t n = 1, empty = 0;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 0) empty = 1;
    else if (!pf_mul(n, shape[i], &n)) return 0;
  }
  *out = n;
  int64_t bytes;
  if (!pf_mul(n, 16, &bytes)) return 0;
  if (empty) *out = 0;
  return 1;
}
PF_INLINE int pf_same_dims(const int64_t *a, int32_t na, const int64_t *b, int32_t nb) {
  if (na != nb) return 0;
  for (int32_t i = 0; i < na; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}
PF_INLINE int pf_same_shape(const DLTensor *a, const DLTensor *b) {
  return pf_same_dims(a->shape, a->ndim, b->shape, b->ndim);
}
/* row-major element strides of a compact tensor */
PF_LOCAL void pf_row_major(const int64_t *shape, int32_t ndim, int64_t *stride) {
  int64_t n = 1;
  for (int32_t i = ndim - 1; i >= 0; i--) stride[i] = n, n *= shape[i];
}
PF_LOCAL int64_t pf_product(const int64_t *shape, int32_t lo, int32_t hi) {
  int64_t n = 1;
  for (int32_t i = lo; i < hi; i++) n *= shape[i];
  return n;
}
/* element i of an integer tensor: an index, a size, an axis */
PF_INLINE int64_t pf_index_at(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) {
    case PF_INT32: return PF_DATA(const int32_t, t)[i];
    case PF_INT16: return PF_DATA(const int16_t, t)[i];
    case PF_INT8: return PF_DATA(const int8_t, t)[i];
    case PF_UINT8: return PF_DATA(const uint8_t, t)[i];
    case PF_UINT16: return PF_DATA(const uint16_t, t)[i];
    case PF_UINT32: return PF_DATA(const uint32_t, t)[i];
    default: return PF_DATA(const int64_t, t)[i];
  }
}
PF_INLINE void pf_put_index(DLTensor *t, int32_t type, int64_t i, int64_t v) {
  switch (pf_type_size(type)) {
    case 4: PF_DATA(int32_t, t)[i] = (int32_t)v; break;
    case 8: PF_DATA(int64_t, t)[i] = v; break;
    case 2: PF_DATA(int16_t, t)[i] = (int16_t)v; break;
    default: PF_DATA(int8_t, t)[i] = (int8_t)v;
  }
}
PF_INLINE int64_t pf_in_index(pf_ctx *c, int32_t in, int64_t i) {
  return pf_index_at(c->in[in], c->in_type[in], i);
}
/* the numbers of a vector (or scalar) input: axes, sizes, a shape.  *n <= PF_MAX_DIMS values go to
 * `out` */
PF_LOCAL pf_status pf_in_vector(pf_ctx *c, int32_t in, const char *name, int64_t *out, int32_t *n) {
  const DLTensor *t = c->in[in];
  if (t->ndim > 1) return PF_INVALID(c, "%s must be a vector, got shape %s", name, PF_SHAPE(t).s);
  int64_t count = pf_numel(t);
  if (count > PF_MAX_DIMS)
    return PF_INVALID(c, "%s has %" PRId64 " elements, at most %d are supported", name, count,
                      PF_MAX_DIMS);
  for (int64_t i = 0; i < count; i++) out[i] = pf_in_index(c, in, i);
  *n = (int32_t)count;
  return PF_OK;
}
/* a scalar int32/int64 input, e.g. an axis */
PF_LOCAL pf_status pf_in_scalar(pf_ctx *c, int32_t in, const char *name, int64_t *out) {
  const DLTensor *t = c->in[in];
  if (pf_numel(t) != 1 || t->ndim > 1)
    return PF_INVALID(c, "%s must be a scalar, got shape %s", name, PF_SHAPE(t).s);
  *out = pf_in_index(c, in, 0);
  return PF_OK;
}
/* axis in [-ndim, ndim) -> [0, ndim) */
PF_LOCAL pf_status pf_axis(pf_ctx *c, int64_t axis, int32_t ndim, const char *name, int32_t *out) {
  if (axis < -(int64_t)ndim || axis >= ndim)
    return PF_INVALID(c, "%s must be in the range [%d, %d), got %" PRId64, name, -ndim, ndim, axis);
  *out = (int32_t)(axis < 0 ? axis + ndim : axis);
  return PF_OK;
}
PF_LOCAL pf_status pf_check_rank(pf_ctx *c, const DLTensor *t, const char *name) {
  if (t->ndim <= PF_MAX_DIMS) return PF_OK;
  return pf_failf(c, PF_UNIMPLEMENTED, "%s has rank %d, at most %d is supported", name, t->ndim,
                  PF_MAX_DIMS);
}
/* output i with a checked shape */
PF_LOCAL DLTensor *pf_output_checked(pf_ctx *c, int32_t i, const int64_t *shape, int32_t ndim) {
  int64_t n;
  if (ndim > PF_MAX_DIMS) {
    (void)PF_INVALID(c, "the result has rank %d, at most %d is supported", ndim, PF_MAX_DIMS);
    return NULL;
  }
  for (int32_t d = 0; d < ndim; d++)
    if (shape[d] < 0) {
      (void)PF_INVALID(c, "Dimension %d must be >= 0, got %" PRId64, d, shape[d]);
      return NULL;
    }
  if (!pf_shape_numel(shape, ndim, &n)) {
    (void)PF_INVALID(c, "Shape %s has too many elements", pf_shape_text(shape, ndim).s);
    return NULL;
  }
  return c->host->output(c, i, shape, ndim);
}

/* ---------------------------------------------------------------- threads */
typedef void (*pf_range)(void *arg, int64_t lo, int64_t hi, int32_t worker);
/* fn over [0, n); small loops do not reach the host */
PF_INLINE pf_status pf_parallel(pf_ctx *c, int64_t n, int64_t grain, pf_range fn, void *arg) {
  if (n <= 0) return PF_OK;
  if (n > grain) return c->host->parallel_for(c, n, grain, fn, arg);
  fn(arg, 0, n, 0);
  return PF_OK;
}
/* a grain so that one chunk is about PF_GRAIN elements of work */
PF_INLINE int64_t pf_grain(int64_t work_per_item) {
  return 1 + PF_GRAIN / PF_MAX(work_per_item, 1);
}

/* ----------------------------------------------------- half and bfloat16, round to nearest even */
PF_INLINE uint32_t pf_float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
PF_INLINE float pf_bits_float(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}
PF_INLINE uint64_t pf_double_bits(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return u;
}
PF_INLINE double pf_bits_double(uint64_t u) {
  double x;
  memcpy(&x, &u, 8);
  return x;
}

PF_INLINE float pf_from_half(uint16_t h) {
  uint32_t w = (uint32_t)h << 16, sign = w & 0x80000000u, two = w + w;
  float normal =
      pf_bits_float((two >> 4) + (0xE0u << 23)) * 0x1.0p-112f; /* exponent moved, inf/nan kept */
  float denormal = pf_bits_float((two >> 17) | (126u << 23)) - 0.5f;
  return pf_bits_float(sign | pf_float_bits(two < (1u << 27) ? denormal : normal));
}
PF_INLINE uint16_t pf_to_half(float f) {
  uint32_t w = pf_float_bits(f), sign = (w >> 16) & 0x8000u, a = w & 0x7fffffffu;
  uint32_t normal = a + 0xc8000fffu + ((a >> 13) & 1); /* rebias, round half to even */
  uint32_t denormal = pf_float_bits(pf_bits_float(a) + 0.5f) - 0x3f000000u;
  uint32_t half = a >= 0x477ff000u ? 0x7c00u : a < 0x38800000u ? denormal : normal >> 13;
  return (uint16_t)(sign | (a > 0x7f800000u ? 0x7e00u : half));
}
PF_INLINE float pf_from_bf16(uint16_t h) { return pf_bits_float((uint32_t)h << 16); }
PF_INLINE uint16_t pf_to_bf16(float f) {
  uint32_t w = pf_float_bits(f);
  uint32_t round = (w + 0x7fffu + ((w >> 16) & 1)) >> 16;
  return (uint16_t)((w & 0x7fffffffu) > 0x7f800000u ? (w >> 16) | 0x40u : round);
}
PF_INLINE int pf_is_half(int32_t type) { return type == PF_FLOAT16 || type == PF_BFLOAT16; }
PF_LOCAL void pf_half_to_float(int32_t type, const void *x, float *y, int64_t n) {
  const uint16_t *h = (const uint16_t *)x;
  if (type == PF_BFLOAT16)
    for (int64_t i = 0; i < n; i++) y[i] = pf_from_bf16(h[i]);
  else
    for (int64_t i = 0; i < n; i++) y[i] = pf_from_half(h[i]);
}
PF_LOCAL void pf_float_to_half(int32_t type, const float *x, void *y, int64_t n) {
  uint16_t *h = (uint16_t *)y;
  if (type == PF_BFLOAT16)
    for (int64_t i = 0; i < n; i++) h[i] = pf_to_bf16(x[i]);
  else
    for (int64_t i = 0; i < n; i++) h[i] = pf_to_half(x[i]);
}

/* ----------------------------------------------- lists of element types, X(number, C type, tag) */
#define PF_EACH_SIGNED(X) \
  X(PF_INT8, int8_t, i8) \
  X(PF_INT16, int16_t, i16) X(PF_INT32, int32_t, i32) X(PF_INT64, int64_t, i64)
#define PF_EACH_UNSIGNED(X) \
  X(PF_UINT8, uint8_t, u8) \
  X(PF_UINT16, uint16_t, u16) X(PF_UINT32, uint32_t, u32) X(PF_UINT64, uint64_t, u64)
#define PF_EACH_INT(X) PF_EACH_SIGNED(X) PF_EACH_UNSIGNED(X)
#define PF_EACH_FLOAT(X) X(PF_FLOAT32, float, f32) X(PF_FLOAT64, double, f64)
#define PF_EACH_REAL(X) PF_EACH_FLOAT(X) PF_EACH_INT(X)

/* --------------------------------------------------------- copies of elements, strings included */
/* n elements; esize 0: strings */
PF_LOCAL pf_status pf_copy_run(pf_ctx *c, DLTensor *dst, int64_t di, const DLTensor *src,
                               int64_t si, int64_t n, int64_t esize) {
  if (esize) {
    if (n)
      memcpy(PF_DATA(char, dst) + di * esize, PF_DATA(const char, src) + si * esize,
             (size_t)(n * esize));
    return PF_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    pf_str s;
    PF_TRY(c->host->str_get(src, si + i, &s));
    PF_TRY(c->host->str_set(dst, di + i, s));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- costs */
/* Of the terms of a series for each element of the largest input. */
PF_LOCAL pf_status pf_series_cost(pf_infer *f, double *flops, double *bytes) {
  double most = 1;
  for (int32_t k = 0; k < f->host->infer_n(f, 0); k++) {
    const int64_t *dims;
    int32_t nd;
    double elements = 1;
    PF_TRY(f->host->infer_dims(f, k, &dims, &nd));
    if (nd < 0) return PF_UNKNOWN;
    for (int32_t d = 0; d < nd; d++) {
      if (dims[d] < 0) return PF_UNKNOWN;
      elements *= (double)dims[d];
    }
    if (elements > most) most = elements;
  }
  *flops = 1000 * most;
  *bytes = 16 * most;
  return PF_OK;
}
#endif
