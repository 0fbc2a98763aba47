/* common.h - what every file of the CUDA plugin shares: errors, shapes, element types, table
 * entries.
 *
 * Invariants
 *   1. C-like C++: no exceptions, no RTTI, no standard library; nothing here needs libstdc++.
 *   2. Every product of sizes that comes from a user goes through mul_ok.
 *   3. What a file keeps for itself is in an unnamed namespace: functions and structs of one name
 *      in two files must not meet.
 *   4. Ranks are at most MAX_DIMS wherever a kernel keeps dimensions on its stack. Threads: all
 *      functions are pure or write only through their arguments.
 */
#ifndef PF_CUDA_COMMON_H
#define PF_CUDA_COMMON_H
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime.h"
#include <pyflow/kernel.h>

enum { MAX_DIMS = 32 };
#define PF_TRY(expr)       \
  do {                     \
    pf_status s_ = (expr); \
    if (s_) return s_;     \
  } while (0)
#define PF_EXHAUSTED(t)                     \
  do {                                      \
    if (!(t)) return PF_RESOURCE_EXHAUSTED; \
  } while (0)

template <class T> PF_BOTH T least(T a, T b) { return a < b ? a : b; }
template <class T> PF_BOTH T most(T a, T b) { return a > b ? a : b; }

/* ---------------------------------------------------------------- table entries
 * attrs and args are lists of pointers into themselves, made while compiling:
 *     static constexpr attr_list leaky({ATTR(leaky_state, PF_ATTR_FLOAT, alpha)}); */
template <int N> struct attr_list {
  pf_attr item[N];
  const pf_attr *at[N + 1];
  constexpr attr_list(const pf_attr (&from)[N]) : item{}, at{} {
    for (int i = 0; i < N; i++) item[i] = from[i], at[i] = &item[i];
  }
};
template <int N> struct arg_list {
  pf_arg item[N];
  const pf_arg *at[N + 1];
  constexpr arg_list(const pf_arg (&from)[N]) : item{}, at{} {
    for (int i = 0; i < N; i++) item[i] = from[i], at[i] = &item[i];
  }
};
typedef struct {
  const pf_kernel *first;
  int n;
} kernel_list;
#define ATTR_NAMED(name, S, kind, field) \
  pf_attr { sizeof(pf_attr), 0, name, kind, (int32_t)offsetof(S, field) }
#define ATTR(S, kind, field) ATTR_NAMED(#field, S, kind, field)
#define ATTR_OPTIONAL(name, S, kind, field) \
  pf_attr { sizeof(pf_attr), PF_ATTR_OPTIONAL, name, kind, (int32_t)offsetof(S, field) }
#define HOST_IN(name) pf_arg{sizeof(pf_arg), 0, name, PF_MEM_HOST, 0}
#define HOST_OUT(name) pf_arg{sizeof(pf_arg), PF_ARG_WRITTEN, name, PF_MEM_HOST, 0}
#define ANY_IN(name) pf_arg{sizeof(pf_arg), 0, name, PF_MEM_ANY, 0}
/* Kernels enqueue, and come back. */
#define WITH_BRIEF(flags_) \
  ((uint32_t)(flags_) | ((flags_) & (PF_KERNEL_ASYNC | PF_KERNEL_BLOCKING) ? 0u : (uint32_t)PF_KERNEL_BRIEF))
#define GPU(op_, where_, flags_, ...)                                                   \
  pf_kernel {                                                                           \
    .size = sizeof(pf_kernel), .flags = WITH_BRIEF(flags_), .op = op_, .where = where_, \
    .device = "GPU", __VA_ARGS__                                                        \
  }
#define KERNELS(name, table)     \
  extern const kernel_list name; \
  const kernel_list name = {table, (int)(sizeof table / sizeof table[0])};
#define SAME PF_KERNEL_DETERMINISTIC

#define T_FLOATS "float|double|half|bfloat16"
#define T_DEVICE_INTS "int64|int8|uint8"
#define T_WIDE T_FLOATS "|" T_DEVICE_INTS

/* ---------------------------------------------------------------- errors */
__attribute__((format(printf, 3, 4), unused, cold)) static pf_status
failf(pf_ctx *c, pf_status status, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return c->host->fail(c, status, text, n < 0 ? 0 : least(n, (int)sizeof text - 1));
}
#define INVALID(c, ...) (failf(c, PF_INVALID_ARGUMENT, __VA_ARGS__), PF_INVALID_ARGUMENT)

typedef struct { char s[256]; } shape_string;
static inline shape_string shape_of(const int64_t *shape, int32_t ndim) {
  shape_string t;
  size_t n = 0;
  t.s[n++] = '[';
  for (int32_t i = 0; i < ndim && n < sizeof t.s - 24; i++)
    n += (size_t)snprintf(t.s + n, sizeof t.s - n, i ? ",%" PRId64 : "%" PRId64, shape[i]);
  t.s[n++] = ']';
  t.s[n] = 0;
  return t;
}
#define SHAPE(t) shape_of((t)->shape, (t)->ndim).s

/* ---------------------------------------------------------------- shapes */
PF_BOTH bool mul_ok(int64_t a, int64_t b, int64_t *out) {
  if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b)) return false;
  *out = a * b;
  return true;
}
/* elements of a shape; false when the product of its non-zero sizes, times 16 bytes, overflows */
static inline bool numel_ok(const int64_t *shape, int32_t ndim, int64_t *out) {
  int64_t n = 1, bytes;
  bool empty = false;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 0) empty = true;
    else if (!mul_ok(n, shape[i], &n)) return false;
  }
  *out = empty ? 0 : n;
  return mul_ok(n, 16, &bytes);
}
static inline bool same_dims(const int64_t *a, int32_t na, const int64_t *b, int32_t nb) {
  if (na != nb) return false;
  for (int32_t i = 0; i < na; i++)
    if (a[i] != b[i]) return false;
  return true;
}
static inline bool same_shape(const DLTensor *a, const DLTensor *b) {
  return same_dims(a->shape, a->ndim, b->shape, b->ndim);
}
static inline void row_major(const int64_t *shape, int32_t ndim, int64_t *stride) {
  int64_t n = 1;
  for (int32_t i = ndim - 1; i >= 0; i--) stride[i] = n, n *= shape[i];
}
static inline int64_t product(const int64_t *shape, int32_t lo, int32_t hi) {
  int64_t n = 1;
  for (int32_t i = lo; i < hi; i++) n *= shape[i];
  return n;
}
static inline pf_status check_rank(pf_ctx *c, const DLTensor *t, const char *name) {
  if (t->ndim <= MAX_DIMS) return PF_OK;
  return failf(c, PF_UNIMPLEMENTED, "%s has rank %d, at most %d is supported", name, t->ndim,
               MAX_DIMS);
}
static inline DLTensor *output_checked(pf_ctx *c, int32_t i, const int64_t *shape, int32_t ndim) {
  int64_t n;
  for (int32_t d = 0; d < ndim; d++)
    if (shape[d] < 0) {
      (void)INVALID(c, "Dimension %d must be >= 0, got %" PRId64, d, shape[d]);
      return NULL;
    }
  if (!numel_ok(shape, ndim, &n)) {
    (void)INVALID(c, "Shape %s has too many elements", shape_of(shape, ndim).s);
    return NULL;
  }
  return c->host->output(c, i, shape, ndim);
}

/* ---------------------------------------------------------------- element types */
/* bytes of one element; 0 for types whose elements are not plain bytes (string, resource, variant)
 */
static inline int64_t type_size(int32_t type) {
  static const uint8_t size[32] = {0, 4, 8, 4, 1, 2,  1, 0, 8, 8, 1, 1, 1,
                                   4, 2, 2, 2, 2, 16, 2, 0, 0, 4, 8, 1, 1};
  return type >= 0 && type < 32 ? size[type] : 0;
}
static inline bool is_half(int32_t type) { return type == PF_FLOAT16 || type == PF_BFLOAT16; }
static inline bool on_host(const DLTensor *t) {
  return t->device.device_type == kDLCPU || t->device.device_type == kDLCUDAHost;
}

/* -------------------------------------------------- inputs in host memory: axes, sizes, indices */
static inline int64_t index_at(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) {
    case PF_INT32: return PF_DATA(const int32_t, t)[i];
    case PF_INT16: return PF_DATA(const int16_t, t)[i];
    case PF_INT8: return PF_DATA(const int8_t, t)[i];
    case PF_UINT8: return PF_DATA(const uint8_t, t)[i];
    default: return PF_DATA(const int64_t, t)[i];
  }
}
static inline int64_t in_index(pf_ctx *c, int32_t in, int64_t i) {
  return index_at(c->in[in], c->in_type[in], i);
}
static inline pf_status in_vector(pf_ctx *c, int32_t in, const char *name, int64_t *out,
                                  int32_t *n) {
  const DLTensor *t = c->in[in];
  int64_t count = pf_numel(t);
  if (t->ndim > 1) return INVALID(c, "%s must be a vector, got shape %s", name, SHAPE(t));
  if (count > MAX_DIMS)
    return INVALID(c, "%s has %" PRId64 " elements, at most %d are supported", name, count,
                   MAX_DIMS);
  for (int64_t i = 0; i < count; i++) out[i] = in_index(c, in, i);
  *n = (int32_t)count;
  return PF_OK;
}
static inline pf_status in_scalar(pf_ctx *c, int32_t in, const char *name, int64_t *out) {
  const DLTensor *t = c->in[in];
  if (pf_numel(t) != 1 || t->ndim > 1)
    return INVALID(c, "%s must be a scalar, got shape %s", name, SHAPE(t));
  *out = in_index(c, in, 0);
  return PF_OK;
}
static inline pf_status check_axis(pf_ctx *c, int64_t axis, int32_t ndim, const char *name,
                                   int32_t *out) {
  if (axis < -(int64_t)ndim || axis >= ndim)
    return INVALID(c, "%s must be in the range [%d, %d), got %" PRId64, name, -ndim, ndim, axis);
  *out = (int32_t)(axis < 0 ? axis + ndim : axis);
  return PF_OK;
}
static inline bool str_is(pf_str s, const char *text) {
  return s.len == (int64_t)strlen(text) && !memcmp(s.data, text, (size_t)s.len);
}
#endif
