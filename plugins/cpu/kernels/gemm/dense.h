/* dense.h - batches of matrices for the dense linear algebra kernels: shapes, and elements in the
 * work type.
 *
 * Work is done in double or double complex whatever the element type, and rounded once: float
 * results are then exact to float.  The included bodies make each function twice, x_d (real) and
 * x_z (complex).
 *
 * Threads: pure functions of their arguments.
 */
#ifndef PF_CPU_DENSE_H
#define PF_CPU_DENSE_H
#include <complex.h>
#include <float.h>
#include "base/common.h"
#include "linalg/lapack.h"

#define DENSE_TYPES "float|double|complex64|complex128"

typedef struct { int64_t m, n, count; } matrices; /* `count` matrices [m, n] */

PF_LOCAL pf_status pf_matrices(pf_ctx *c, int32_t in, const char *name, matrices *s) {
  const DLTensor *a = c->in[in];
  PF_TRY(pf_check_rank(c, a, name));
  if (a->ndim < 2)
    return PF_INVALID(c, "%s must have rank >= 2, got shape %s", name, PF_SHAPE(a).s);
  s->m = a->shape[a->ndim - 2], s->n = a->shape[a->ndim - 1];
  s->count = pf_product(a->shape, 0, a->ndim - 2);
  return PF_OK;
}
PF_LOCAL pf_status pf_squares(pf_ctx *c, int32_t in, const char *name, matrices *s) {
  PF_TRY(pf_matrices(c, in, name, s));
  if (s->m == s->n) return PF_OK;
  return PF_INVALID(c, "%s: matrices must be square, got shape %s", name, PF_SHAPE(c->in[in]).s);
}
/* room for `matrices` matrices of [m, n] work elements, and the same amount of 64-bit integers
 * beside */
PF_LOCAL void *pf_room(pf_ctx *c, int64_t matrices, int64_t m, int64_t n) {
  int64_t bytes;
  if (!pf_mul(PF_MAX(m, 1), PF_MAX(n, 1), &bytes) || !pf_mul(bytes, 16 * matrices, &bytes)) {
    (void)PF_INVALID(c, "matrices of %" PRId64 " x %" PRId64 " are too large", m, n);
    return NULL;
  }
  return c->host->scratch(c, (uint64_t)bytes + 64, 64);
}
PF_LOCAL DLTensor *pf_dense_output(pf_ctx *c, int32_t out, int32_t like, int32_t nd, int64_t m,
                                   int64_t n) {
  int64_t shape[PF_MAX_DIMS];
  int32_t batch = c->in[like]->ndim - 2;
  memcpy(shape, c->in[like]->shape, sizeof(int64_t) * (size_t)batch);
  shape[batch] = m;
  if (nd > 1) shape[batch + 1] = n;
  return pf_output_checked(c, out, shape, batch + nd);
}

#define LOAD(TYPE, E) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) x[i] = ((const E *)from)[at + i]; \
    break;
#define LOAD_HALF \
  case PF_FLOAT16: \
    for (int64_t i = 0; i < n; i++) x[i] = pf_from_half(((const uint16_t *)from)[at + i]); \
    break;
#define STORE_HALF \
  case PF_FLOAT16: \
    for (int64_t i = 0; i < n; i++) ((uint16_t *)to)[at + i] = pf_to_half((float)x[i]); \
    break;
#define STORE(TYPE, E) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) ((E *)to)[at + i] = (E)x[i]; \
    break;
PF_LOCAL void load_d(const void *from, int32_t type, int64_t at, int64_t n, double *x) {
  switch (type) { LOAD(PF_FLOAT32, float) LOAD(PF_FLOAT64, double) LOAD_HALF }
}
PF_LOCAL void store_d(void *to, int32_t type, int64_t at, int64_t n, const double *x) {
  switch (type) { STORE(PF_FLOAT32, float) STORE(PF_FLOAT64, double) STORE_HALF }
}
PF_LOCAL void load_z(const void *from, int32_t type, int64_t at, int64_t n, double _Complex *x) {
  switch (type) { LOAD(PF_COMPLEX64, float _Complex) LOAD(PF_COMPLEX128, double _Complex) }
}
PF_LOCAL void store_z(void *to, int32_t type, int64_t at, int64_t n, const double _Complex *x) {
  switch (type) { STORE(PF_COMPLEX64, float _Complex) STORE(PF_COMPLEX128, double _Complex) }
}
#undef LOAD
#undef STORE
#undef LOAD_HALF
#undef STORE_HALF
PF_INLINE int pf_is_complex(int32_t type) { return type == PF_COMPLEX64 || type == PF_COMPLEX128; }
/* compute functions of ops that are written in a body */
#define PF_DENSE(f) \
  static pf_status f(pf_ctx *c, const void *state) { \
    return pf_is_complex(c->in_type[0]) ? f##_z(c, state) : f##_d(c, state); \
  }
#define PF_D(f) f##_d
#define PF_Z(f) f##_z
#define PF_SAME(x) (x)
#endif
