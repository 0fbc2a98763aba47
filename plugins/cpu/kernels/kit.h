/* kit.h - what the matrix, neural, state and file kernels share: table entries, messages, checked sizes.
 *
 * Invariants
 *   1. Nothing here allocates, except through the host.
 *   2. Every size that comes from a tensor or an attribute is multiplied with pk_mul.
 *   3. A kernel table is `const pf_kernel *const PF_ISA(pf_kernels_xxx)[]`, ended by NULL.
 * Threads: any.
 *
 *   return pk_failf(ctx, PF_INVALID_ARGUMENT, "axis %d is not in [0, %d)", axis, rank);
 */
#ifndef PYFLOW_CPU_KIT_H
#define PYFLOW_CPU_KIT_H
#include <pyflow/kernel.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef PF_ISA                      /* files built once per instruction set get a suffix for their tables */
#define PF_ISA(name) name
#endif

#define PK_LIST(T, ...) ((const T *const[]){__VA_ARGS__, NULL})
#define PK_ATTRS(...) PK_LIST(pf_attr, __VA_ARGS__)
/* One kernel: state type S, `attrs` from PK_ATTRS, flags of pf_kernel. */
#define PK_KERNEL(name, where_, flags_, S, attrs_, init_, compute_, cost_) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = (flags_), .op = (name), .where = (where_), \
    .device = "CPU", .attrs = (attrs_), .state_size = sizeof(S), .init = (init_), \
    .compute = (compute_), .cost = (cost_)})
/* An attribute under another name than its field, or one that older signatures lack. */
#define PK_ATTR_AS(S, name_, kind_, field_) PF_REF(pf_attr, name_, kind_, (int32_t)offsetof(S, field_))
#define PK_ATTR_OPT(S, kind_, field_) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, #field_, kind_, (int32_t)offsetof(S, field_)})

#define PK_TRY(expr) do { pf_status pk_s_ = (expr); if (pk_s_ != PF_OK) return pk_s_; } while (0)

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline pf_status pk_failf(pf_ctx *c, pf_status s, const char *fmt, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (n < 0) n = 0;
  if (n >= (int)sizeof text) n = (int)sizeof text - 1;
  return c->host->fail(c, s, text, n);
}

typedef struct { char s[160]; } pk_text;
static inline pk_text pk_dims(const int64_t *dims, int32_t ndim) { /* "[2,3]", TF's form */
  pk_text t;
  size_t n = 0;
  t.s[n++] = '[';
  for (int32_t i = 0; i < ndim && n < sizeof t.s - 24; i++) {
    n += (size_t)snprintf(t.s + n, sizeof t.s - n, i ? ",%lld" : "%lld", (long long)dims[i]);
  }
  t.s[n++] = ']';
  t.s[n] = 0;
  return t;
}
static inline pk_text pk_shape(const DLTensor *t) { return pk_dims(t->shape, t->ndim); }

static inline int pk_same_shape(const DLTensor *a, const DLTensor *b) {
  return a->ndim == b->ndim &&
         (a->ndim == 0 || !memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)a->ndim));
}
static inline int pk_mul(int64_t a, int64_t b, int64_t *out) { /* 0 on overflow or a negative factor */
  if (a < 0 || b < 0) return 0;
  if (b != 0 && a > INT64_MAX / b) return 0;
  *out = a * b;
  return 1;
}
static inline int64_t pk_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t pk_max(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t pk_size_of(int32_t type) { /* bytes of one element; 0: not plain memory */
  switch (type) {
    case PF_UINT8: case PF_INT8: case PF_BOOL: case PF_QINT8: case PF_QUINT8:
    case PF_FLOAT8_E5M2: case PF_FLOAT8_E4M3FN: return 1;
    case PF_INT16: case PF_UINT16: case PF_FLOAT16: case PF_BFLOAT16: case PF_QINT16:
    case PF_QUINT16: return 2;
    case PF_FLOAT32: case PF_INT32: case PF_UINT32: case PF_QINT32: return 4;
    case PF_FLOAT64: case PF_INT64: case PF_UINT64: case PF_COMPLEX64: return 8;
    case PF_COMPLEX128: return 16;
    default: return 0;
  }
}

/* half and bfloat16 <-> float, round to nearest even */
static inline float pk_bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t pk_f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float pk_from_bf16(uint16_t h) { return pk_bits_f32((uint32_t)h << 16); }
static inline uint16_t pk_to_bf16(float f) {
  uint32_t u = pk_f32_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u); /* NaN stays one */
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float pk_from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, body = h & 0x7fffu;
  if (body >= 0x7c00u) return pk_bits_f32(sign | 0x7f800000u | ((body & 0x3ffu) << 13));
  if (body >= 0x400u) return pk_bits_f32(sign | ((body << 13) + 0x38000000u));
  float f = (float)body * 5.9604644775390625e-8f; /* subnormal: body * 2^-24 */
  return pk_bits_f32(sign | pk_f32_bits(f));
}
static inline uint16_t pk_to_f16(float f) {
  uint32_t u = pk_f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);      /* rounds to infinity */
  if (a < 0x38800000u) {                                        /* subnormal: let the adder round */
    float r = pk_bits_f32(a) + 0.5f;
    return (uint16_t)(sign | (pk_f32_bits(r) - 0x3f000000u));
  }
  return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
}
static inline void pk_widen(const uint16_t *x, float *y, int64_t n, int32_t type) {
  if (type == PF_BFLOAT16) for (int64_t i = 0; i < n; i++) y[i] = pk_from_bf16(x[i]);
  else for (int64_t i = 0; i < n; i++) y[i] = pk_from_f16(x[i]);
}
static inline void pk_narrow(const float *x, uint16_t *y, int64_t n, int32_t type) {
  if (type == PF_BFLOAT16) for (int64_t i = 0; i < n; i++) y[i] = pk_to_bf16(x[i]);
  else for (int64_t i = 0; i < n; i++) y[i] = pk_to_f16(x[i]);
}

/* Element i of an int32 or int64 tensor. */
static inline int64_t pk_index(const DLTensor *t, int32_t type, int64_t i) {
  return type == PF_INT32 ? PF_DATA(const int32_t, t)[i] : PF_DATA(const int64_t, t)[i];
}
static inline double pk_scalar(const DLTensor *t, int32_t type) { /* a real floating scalar as double */
  switch (type) {
    case PF_FLOAT32: return PF_DATA(const float, t)[0];
    case PF_FLOAT64: return PF_DATA(const double, t)[0];
    case PF_FLOAT16: return pk_from_f16(PF_DATA(const uint16_t, t)[0]);
    default: return pk_from_bf16(PF_DATA(const uint16_t, t)[0]);
  }
}
#endif
