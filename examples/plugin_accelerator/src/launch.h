/* launch.h - how a kernel puts work on its stream.
 *
 *     static pf_status run_double(fake_call *c) {          // later, on the stream's thread
 *       for (int64_t i = 0; i < c->y[0].n; i++) put(&c->y[0], i, 2 * get(&c->x[0], i));
 *       return PF_OK;
 *     }
 *     static pf_status twice(pf_ctx *ctx, const void *state) {
 *       if (!pf_output_like(ctx, 0, ctx->in[0])) return PF_RESOURCE_EXHAUSTED;
 *       return launch(ctx, run_double, NULL);              // PF_OK: enqueued
 *     }
 *
 * `launch` copies pointers, shapes and parameters, so nothing of the ctx is needed afterwards.  The
 * addresses become readable only when the stream's thread runs the call.
 */
#ifndef FAKE_LAUNCH_H
#define FAKE_LAUNCH_H
#include "fake.h"

enum { FAKE_ARRAYS = 24, MAX_HOST_VALUES = 16 };

/* a tensor as a call sees it */
typedef struct {
  char *data;
  int64_t n;
  int32_t ndim, width; /* width: bytes of an element */
  int32_t kind;        /* 'f' float, 'd' double, 'i' int32, 'l' int64, 'b' bool, or 0 */
  int32_t on_host;
  int64_t shape[FAKE_RANK];
} fake_array;

typedef struct {
  double (*f)(double, double);    /* the arithmetic, for floating point ... */
  int64_t (*g)(int64_t, int64_t); /* ... and for integers */
  int64_t i[FAKE_PARAMS];
  double d[2];
  void *pointer;
  double flops;
} fake_params;

typedef struct fake_call {
  fake_op op;
  pf_status (*run)(struct fake_call *);
  fake_device *dev;
  fake_params p;
  int32_t n_x, n_y, fails;
  fake_array *x, *y; /* inputs and outputs, in `arrays` */
  fake_array arrays[];
} fake_call;

/* x and y: tensors of the call; `host_x`, `host_y`: bits of those that lie in host memory. */
typedef struct {
  const DLTensor *x[FAKE_ARRAYS], *y[FAKE_ARRAYS];
  int32_t n_x, n_y;
  uint32_t host_x, host_y;
} fake_tensors;

pf_status launch(pf_ctx *c, pf_status (*run)(fake_call *), const fake_params *p);
/* with all inputs and outputs of `c`, which are all in device memory */
pf_status launch_on(pf_ctx *c, pf_status (*run)(fake_call *), const fake_params *p,
                    const fake_tensors *t);

/* ---------------------------------------------------------------- arguments and failures */
pf_status failf(pf_ctx *c, pf_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* a HOST int32 or int64 tensor: how many values, or -1 after a failure */
int32_t host_ints(pf_ctx *c, int32_t in, int64_t *values);
pf_status host_vector(pf_ctx *c, int32_t out, const int64_t *values, int32_t n, int32_t is_scalar);
pf_status axes_mask(pf_ctx *c, int32_t in, int32_t ndim, uint32_t *mask);
pf_status one_axis(pf_ctx *c, int64_t axis, int32_t ndim, int64_t *out);
const char *shape_text(const int64_t *shape, int32_t ndim, char *room, size_t n);

/* ------------------------------------------------ elements, any type as a double or as an int64 */
static inline double get(const fake_array *a, int64_t i) {
  const char *p = a->data + i * a->width;
  switch (a->kind) {
    case 'f': return *(const float *)(const void *)p;
    case 'd': return *(const double *)(const void *)p;
    case 'i': return *(const int32_t *)(const void *)p;
    case 'l': return (double)*(const int64_t *)(const void *)p;
    default: return *(const uint8_t *)p;
  }
}
static inline int64_t get_int(const fake_array *a, int64_t i) {
  const char *p = a->data + i * a->width;
  switch (a->kind) {
    case 'f': return (int64_t)*(const float *)(const void *)p;
    case 'd': return (int64_t)*(const double *)(const void *)p;
    case 'i': return *(const int32_t *)(const void *)p;
    case 'l': return *(const int64_t *)(const void *)p;
    default: return *(const uint8_t *)p;
  }
}
static inline void put_int(fake_array *a, int64_t i, int64_t v) {
  char *p = a->data + i * a->width;
  switch (a->kind) {
    case 'f': *(float *)(void *)p = (float)v; break;
    case 'd': *(double *)(void *)p = (double)v; break;
    case 'i': *(int32_t *)(void *)p = (int32_t)v; break;
    case 'l': *(int64_t *)(void *)p = v; break;
    case 'b': *(uint8_t *)p = v != 0; break;
    default: *(uint8_t *)p = (uint8_t)v;
  }
}
static inline void put(fake_array *a, int64_t i, double v) {
  char *p = a->data + i * a->width;
  if (a->kind == 'f') *(float *)(void *)p = (float)v;
  else if (a->kind == 'd') *(double *)(void *)p = v;
  else if (a->kind == 'b') *(uint8_t *)p = v != 0;
  else put_int(a, i, (int64_t)v);
}
static inline int32_t is_real(const fake_array *a) { return a->kind == 'f' || a->kind == 'd'; }
static inline void put_element(fake_array *to, int64_t i, const fake_array *from, int64_t j) {
  memcpy(to->data + i * to->width, from->data + j * from->width, (size_t)to->width);
}

/* ---------------------------------------------------------------- tables of kernels */
/* one state for all kernels; each declares some fields */
typedef struct {
  int64_t axis, num, micros, bytes;
  int32_t keep_dims, transpose_a, transpose_b, validate_shape, use_nesterov, fake_pad;
  pf_list squeeze_dims;
} fake_state;

#define FAKE_FLOATS "float|double"
#define FAKE_NUMBERS "float|double|int32|int64"
#define FAKE_ANY "float|double|int32|int64|bool|uint8|int8|int16|uint16|uint32|uint64|half|bfloat16"
#define TABLE(kind, ...) ((const kind *const[]){__VA_ARGS__, NULL})
#define ON_HOST(name) PF_REF(pf_arg, name, PF_MEM_HOST, 0)
#define WRITTEN(name) (&(const pf_arg){sizeof(pf_arg), PF_ARG_WRITTEN, name, PF_MEM_HOST, 0})
#define REUSES(name, in) PF_REF(pf_arg, name, PF_MEM_DEVICE, 1 + (in))
#define ARGS(...) .args = TABLE(pf_arg, __VA_ARGS__)
#define ATTR(kind, field) PF_ATTR(fake_state, kind, field)
#define ATTRS(...) .attrs = TABLE(pf_attr, __VA_ARGS__), .state_size = sizeof(fake_state)
#define FAKE_FLAGS(flags_, op_, where_, compute_, ...) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = PF_KERNEL_DETERMINISTIC | (flags_), \
                      .op = op_, .where = where_, .device = "FAKE", .compute = compute_, \
                      __VA_ARGS__})
#define FAKE(...) FAKE_FLAGS(0, __VA_ARGS__)

extern const pf_kernel *const math_kernels[],
    *const shape_kernels[], *const array_kernels[], *const conv_kernels[],
                                                        *const nn_kernels[],
                                                            *const state_kernels[],
                                                                *const random_kernels[],
                                                                    *const special_kernels[];
extern const pf_op *const special_ops[];
#endif
