/* select.c - Select, SelectV2 (choose by a condition), Where (coordinates of what is true),
 * Cross. */
#include "move/strided.h"
#include "elementwise/elementwise.h"

typedef struct { char b[16]; } e16;
#define CHOOSE(T, NAME) \
  static void choose_##NAME(const uint8_t *cond, const void *pa, const void *pb, void *pz, \
                            int64_t n) { \
    const T *a = (const T *)pa, *b = (const T *)pb; \
    T *z = (T *)pz; \
    PF_IVDEP for (int64_t i = 0; i < n; i++) { \
      T x = a[i], y = b[i]; \
      z[i] = cond[i] ? x : y; \
    } \
  }
CHOOSE(uint8_t, 1)
CHOOSE(uint16_t, 2)
CHOOSE(uint32_t, 4)
CHOOSE(uint64_t, 8)
CHOOSE(e16, 16)
typedef void (*choose_loop)(const uint8_t *, const void *, const void *, void *, int64_t);
static choose_loop choose(int64_t esize) {
  return esize == 1   ? choose_1
         : esize == 2 ? choose_2
         : esize == 4 ? choose_4
         : esize == 8 ? choose_8
                      : choose_16;
}
typedef struct {
  const uint8_t *cond;
  const char *a, *b;
  char *z;
  int64_t esize;
} choose_task;
static void choose_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const choose_task *t = (const choose_task *)arg;
  (void)worker;
  choose(t->esize)(t->cond + lo, t->a + lo * t->esize, t->b + lo * t->esize, t->z + lo * t->esize,
                   hi - lo);
}
/* all three of one shape */
static pf_status select_same(pf_ctx *c, int64_t esize) {
  const DLTensor *cond = c->in[0], *a = c->in[1], *b = c->in[2];
  int64_t n = pf_numel(a);
  DLTensor *z = esize ? c->host->forward(c, 1, 0, a->shape, a->ndim) : pf_output_like(c, 0, a);
  PF_EXHAUSTED(z);
  const uint8_t *p = PF_DATA(const uint8_t, cond);
  for (int64_t i = 0; !esize && i < n; i++) PF_TRY(pf_copy_run(c, z, i, p[i] ? a : b, i, 1, 0));
  if (!esize) return PF_OK;
  choose_task t = {p, PF_DATA(const char, a), PF_DATA(const char, b), PF_DATA(char, z), esize};
  return pf_parallel(c, n, PF_GRAIN, choose_range, &t);
}
static pf_status select_v1(pf_ctx *c, const void *state) {
  const DLTensor *cond = c->in[0], *a = c->in[1], *b = c->in[2];
  int64_t esize = pf_type_size(c->in_type[1]);
  (void)state;
  if (!pf_same_shape(a, b))
    return PF_INVALID(c, "'then' and 'else' must have the same size.  but received: %s vs. %s",
                      PF_SHAPE(a).s, PF_SHAPE(b).s);
  if (pf_same_shape(cond, a)) return select_same(c, esize);
  if (cond->ndim == 0)
    return c->host->alias(c, *PF_DATA(const uint8_t, cond) ? 1 : 2, 0, a->shape, a->ndim);
  if (cond->ndim != 1 || a->ndim < 1 || cond->shape[0] != a->shape[0])
    return PF_INVALID(c,
                      "'cond' must be a scalar, of the shape of 'then' %s, or a vector of its "
                      "first dimension, got %s",
                      PF_SHAPE(a).s, PF_SHAPE(cond).s);
  DLTensor *z = pf_output_like(c, 0, a);
  PF_EXHAUSTED(z);
  int64_t row = pf_product(a->shape, 1, a->ndim);
  for (int64_t i = 0; i < a->shape[0]; i++)
    PF_TRY(
        pf_copy_run(c, z, i * row, PF_DATA(const uint8_t, cond)[i] ? a : b, i * row, row, esize));
  return PF_OK;
}
/* element strides with which `t` walks a broadcast shape */
static void broadcast_strides(const DLTensor *t, int32_t nd, int64_t *stride) {
  int64_t step = 1;
  for (int32_t d = 1; d <= nd; d++) {
    int64_t n = d <= t->ndim ? t->shape[t->ndim - d] : 1;
    stride[nd - d] = n == 1 ? 0 : step;
    step *= n;
  }
}
static pf_status select_v2(pf_ctx *c, const void *state) {
  const DLTensor *in[3] = {c->in[0], c->in[1], c->in[2]};
  int64_t shape[PF_MAX_DIMS], stride[3][PF_MAX_DIMS], at[PF_MAX_DIMS] = {0}, pos[3] = {0};
  int64_t esize = pf_type_size(c->in_type[1]);
  int32_t nd;
  (void)state;
  if (pf_same_shape(in[0], in[1]) && pf_same_shape(in[1], in[2])) return select_same(c, esize);
  PF_TRY(pf_broadcast_shape(c, in[1], in[2], shape, &nd));
  DLTensor both = {.shape = shape, .ndim = nd};
  int64_t with_cond[PF_MAX_DIMS];
  PF_TRY(pf_broadcast_shape(c, in[0], &both, with_cond, &nd));
  DLTensor *z = pf_output_checked(c, 0, with_cond, nd);
  PF_EXHAUSTED(z);
  if (pf_numel(z) == 0) return PF_OK;
  for (int32_t k = 0; k < 3; k++) broadcast_strides(in[k], nd, stride[k]);
  int64_t inner = nd ? with_cond[nd - 1] : 1, n = pf_numel(z);
  int64_t s0 = nd ? stride[0][nd - 1] : 0, s1 = nd ? stride[1][nd - 1] : 0,
          s2 = nd ? stride[2][nd - 1] : 0;
  for (int64_t done = 0; done < n; done += inner) {
    const uint8_t *p = PF_DATA(const uint8_t, in[0]) + pos[0];
    const char *a = PF_DATA(const char, in[1]) + pos[1] * esize,
               *b = PF_DATA(const char, in[2]) + pos[2] * esize;
    char *y = PF_DATA(char, z) + done * esize;
    if (s0 && s1 && s2 && esize) choose(esize)(p, a, b, y, inner);
    else
      for (int64_t j = 0; j < inner; j++) {
        int32_t yes = p[j * s0];
        if (esize)
          memcpy(y + j * esize, yes ? a + j * s1 * esize : b + j * s2 * esize, (size_t)esize);
        else
          PF_TRY(pf_copy_run(c, z, done + j, yes ? in[1] : in[2],
                             yes ? pos[1] + j * s1 : pos[2] + j * s2, 1, 0));
      }
    for (int32_t d = nd - 2; d >= 0; d--) {
      for (int32_t k = 0; k < 3; k++) pos[k] += stride[k][d];
      if (++at[d] < with_cond[d]) break;
      for (int32_t k = 0; k < 3; k++) pos[k] -= stride[k][d] * at[d];
      at[d] = 0;
    }
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Where
 * What is true is found block by block, twice: counted, then listed without branches. */
enum { TRUTHS = 512 };
typedef void (*truth_loop)(const void *x, int64_t n, uint8_t *truth);
#define TRUTH(TAG, T, EXPR) \
  static void truth_##TAG(const void *px, int64_t n, uint8_t *truth) { \
    const T *x = (const T *)px; \
    for (int64_t i = 0; i < n; i++) truth[i] = (uint8_t)((EXPR) != 0); \
  }
TRUTH(1, uint8_t, x[i])
TRUTH(2, uint16_t, x[i])
TRUTH(4, uint32_t, x[i])
TRUTH(8, uint64_t, x[i])
TRUTH(half, uint16_t, x[i] & 0x7fff) /* both zeros are false */
TRUTH(float, uint32_t, x[i] << 1)
TRUTH(double, uint64_t, x[i] << 1)
TRUTH(complex, uint32_t, (x[2 * i] | x[2 * i + 1]) << 1)
TRUTH(complex128, uint64_t, (x[2 * i] | x[2 * i + 1]) << 1)
static const truth_loop truth_loops[PF_TYPE_COUNT] = {[PF_BOOL] = truth_1,
                                                      [PF_INT8] = truth_1,
                                                      [PF_UINT8] = truth_1,
                                                      [PF_INT16] = truth_2,
                                                      [PF_UINT16] = truth_2,
                                                      [PF_INT32] = truth_4,
                                                      [PF_UINT32] = truth_4,
                                                      [PF_INT64] = truth_8,
                                                      [PF_UINT64] = truth_8,
                                                      [PF_FLOAT16] = truth_half,
                                                      [PF_BFLOAT16] = truth_half,
                                                      [PF_FLOAT32] = truth_float,
                                                      [PF_FLOAT64] = truth_double,
                                                      [PF_COMPLEX64] = truth_complex,
                                                      [PF_COMPLEX128] = truth_complex128};

static int64_t count_true(truth_loop loop, const char *x, int64_t n, int64_t esize) {
  uint8_t truth[TRUTHS];
  int64_t found = 0;
  for (int64_t i = 0, b; i < n; i += b) {
    uint32_t sum = 0;
    b = PF_MIN(TRUTHS, n - i);
    loop(x + i * esize, b, truth);
    for (int64_t j = 0; j < b; j++) sum += truth[j];
    found += sum;
  }
  return found;
}
/* places of the block's true elements, which begins at element `first`; how many */
static int64_t list_true(const uint8_t *truth, int64_t b, int64_t *at, int64_t first) {
  int64_t m = 0;
  for (int64_t j = 0; j < b; j++) at[m] = first + j, m += truth[j];
  return m;
}
/* the places of elements as coordinates; in rows of PER_ROW or more they share all but the last */
enum { PER_ROW = 16 };
static void put_places(const DLTensor *x, const int64_t *at, int64_t m, int64_t *out) {
  int64_t nd = x->ndim, last = x->shape[nd - 1], row = m ? at[0] / last * last : 0, rest;
  if (nd == 1) {
    memcpy(out, at, (size_t)m * 8);
  } else if (nd == 2 && last >= PER_ROW) {
    for (int64_t k = 0, r = row / last; k < m; k++) out[2 * k] = r, out[2 * k + 1] = at[k] - row;
  } else if (last >= PER_ROW) {
    int64_t head[PF_MAX_DIMS];
    rest = row / last;
    for (int64_t d = nd - 2; d >= 0; d--) head[d] = rest % x->shape[d], rest /= x->shape[d];
    for (int64_t k = 0; k < m; k++, out += nd) {
      for (int64_t d = 0; d < nd - 1; d++) out[d] = head[d];
      out[nd - 1] = at[k] - row;
    }
  } else {
    for (int64_t k = 0; k < m; k++, out += nd) {
      rest = at[k];
      for (int64_t d = nd - 1; d >= 0; d--) out[d] = rest % x->shape[d], rest /= x->shape[d];
    }
  }
}
static pf_status where(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  truth_loop loop = truth_loops[c->in_type[0]];
  const char *data = PF_DATA(const char, x);
  int64_t n = pf_numel(x), esize = pf_type_size(c->in_type[0]), at[TRUTHS + 1];
  uint8_t truth[TRUTHS];
  (void)state;
  PF_TRY(pf_check_rank(c, x, "condition"));
  if (!loop)
    return pf_failf(c, PF_UNIMPLEMENTED, "Where is not defined for %s",
                    pf_type_name(c->in_type[0]));
  int64_t shape[2] = {count_true(loop, data, n, esize), x->ndim};
  DLTensor *y = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(y);
  if (shape[0] == 0 || x->ndim == 0) return PF_OK;
  int64_t *out = PF_DATA(int64_t, y), last = x->shape[x->ndim - 1];
  for (int64_t i = 0, b; i < n; i += b) {
    b = PF_MIN(TRUTHS, n - i);
    if (last >= PER_ROW) b = PF_MIN(b, last - i % last);
    loop(data + i * esize, b, truth);
    int64_t m = list_true(truth, b, at, i);
    put_places(x, at, m, out);
    out += m * x->ndim;
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Cross */
#define CROSS(TYPE, T, U) \
  case TYPE: \
    for (int64_t i = 0; i < n; i += 3) { \
      const T *a = PF_DATA(const T, c->in[0]) + i, *b = PF_DATA(const T, c->in[1]) + i; \
      T *z = PF_DATA(T, y) + i; \
      for (int k = 0; k < 3; k++) { \
        int p = (k + 1) % 3, q = (k + 2) % 3; \
        z[k] = (T)((U)a[p] * (U)b[q] - (U)a[q] * (U)b[p]); \
      } \
    } \
    break;
#define CROSS_HALF(TYPE) \
  case TYPE: \
    for (int64_t i = 0; i < n; i += 3) { \
      float a[3], b[3], z[3]; \
      pf_half_to_float(TYPE, PF_DATA(const uint16_t, c->in[0]) + i, a, 3); \
      pf_half_to_float(TYPE, PF_DATA(const uint16_t, c->in[1]) + i, b, 3); \
      for (int k = 0; k < 3; k++) \
        z[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3]; \
      pf_float_to_half(TYPE, z, PF_DATA(uint16_t, y) + i, 3); \
    } \
    break;
static pf_status cross(pf_ctx *c, const void *state) {
  const DLTensor *a = c->in[0];
  (void)state;
  if (!pf_same_shape(a, c->in[1]))
    return PF_INVALID(c, "Both inputs must be of same shape: %s vs. %s", PF_SHAPE(a).s,
                      PF_SHAPE(c->in[1]).s);
  if (a->ndim < 1 || a->shape[a->ndim - 1] != 3)
    return PF_INVALID(c, "Cross-products are only defined for 3-element vectors, got shape %s",
                      PF_SHAPE(a).s);
  DLTensor *y = pf_output_like(c, 0, a);
  PF_EXHAUSTED(y);
  int64_t n = pf_numel(a);
  switch (c->in_type[0]) {
    CROSS(PF_FLOAT32, float, float)
    CROSS(PF_FLOAT64, double, double)
    CROSS(PF_INT8, int8_t, uint32_t)
    CROSS(PF_INT16, int16_t, uint32_t)
    CROSS(PF_INT32, int32_t, uint32_t)
    CROSS(PF_INT64, int64_t, uint64_t)
    CROSS(PF_UINT8, uint8_t, uint32_t)
    CROSS(PF_UINT16, uint16_t, uint32_t)
    CROSS(PF_UINT32, uint32_t, uint32_t)
    CROSS(PF_UINT64, uint64_t, uint64_t)
    CROSS_HALF(PF_FLOAT16)
    CROSS_HALF(PF_BFLOAT16)
    default:
      return pf_failf(c, PF_UNIMPLEMENTED, "Cross is not defined for %s",
                      pf_type_name(c->in_type[0]));
  }
  return PF_OK;
}

const pf_kernel *const select_kernels[] = {
  PF_CPU("Select", NULL, .compute = select_v1), PF_CPU("SelectV2", NULL, .compute = select_v2),
  PF_CPU("Where", NULL, .compute = where), PF_CPU("Cross", "T=" PF_REAL, .compute = cross), NULL};
