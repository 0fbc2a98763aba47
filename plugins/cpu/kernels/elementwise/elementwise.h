/* elementwise.h - loops over arrays and the two calls that run them: one input, or two with
 * broadcasting.
 *
 * A loop file (unary_float.c, elementwise_int.c, ...) writes one C loop per op and element type and
 * lists them:
 *
 *     UNARY(Square, f32, float, float, x * x)
 *     static const pf_unary_loop square[PF_TYPE_COUNT] = {[PF_FLOAT32] = Square_f32};
 *
 * `init` picks the loop of the node's type into the state; `compute` (here) checks shapes,
 * broadcasts, splits the work over threads and calls it.  half and bfloat16 run the float loop on
 * blocks converted through a stack buffer.
 *
 * Invariants
 *   1. A loop may be called with y == x (in place): element i depends on element i only.
 *   2. Loops are pure; what they report is a bit set of pf_fault, turned into one error after all
 *      have run.
 */
#ifndef PF_CPU_ELEMENTWISE_H
#define PF_CPU_ELEMENTWISE_H
#include "base/common.h"
#include "base/isa.h"

enum { PF_FAULT_DIVIDE = 1, PF_FAULT_NEGATIVE_POWER = 2 };
enum { PF_VV = 0, PF_SV = 1, PF_VS = 2 }; /* vector-vector, scalar-vector, vector-scalar */

typedef void (*pf_unary_loop)(const void *x, void *y, int64_t n, double p);
typedef int32_t (*pf_binary_loop)(const void *a, const void *b, void *z, int64_t n, int32_t mode,
                                  double p);

typedef struct {
  double p; /* the op's attribute (alpha), first: PF_ATTR fills it */
  pf_unary_loop loop;
  int32_t type; /* input type */
  int32_t in_size, out_size;
  int32_t half_out; /* half in: the output is half too */
} pf_unary_state;

/* Rows past the caches, one line of the result after the other (binary_float.c): x lies as the
 * result, y is repeated: a number of each row, or a row.  `how`: pf_past_how. */
enum pf_past_how { PF_PAST_NUMBER = 1, PF_PAST_SECOND = 2 }; /* y is a number; x is input 1 */
typedef struct {
  void (*lines)(const float *x, const float *y, float *z, int64_t n, int32_t how);
  /* one line: `left` numbers of the row of y, then those of the row of next */
  void (*joint)(const float *x, const float *y, const float *next, float *z, int32_t left,
                int32_t how);
} pf_past;

typedef struct {
  double p;
  pf_binary_loop loop;
  const pf_past *past; /* of floats; NULL: none */
  int32_t type;
  int32_t in_size, out_size;
  int32_t half_out;
  int32_t same_shape;    /* gradients: no broadcasting */
  int32_t shape_error;   /* Equal, NotEqual: attribute incompatible_shape_error */
  int32_t allow_unequal; /* unequal shapes give one bool: 1 false, 2 true */
} pf_binary_state;

typedef struct {
  pf_binary_state add;
  pf_str data_format;
} pf_bias_state;

/* table[type] -> state->loop; a type without a loop is PF_DECLINE */
pf_status pf_unary_init(pf_ctx *c, pf_unary_state *s, const pf_unary_loop *table);
pf_status pf_unary_compute(pf_ctx *c, const void *state);
pf_status pf_binary_init(pf_ctx *c, pf_binary_state *s, const pf_binary_loop *table);
pf_status pf_binary_compute(pf_ctx *c, const void *state);
pf_status pf_bias_compute(pf_ctx *c,
                          const void *state); /* state: pf_bias_state with the Add loop */
pf_status pf_addn_compute(pf_ctx *c,
                          const void *state); /* any number of inputs, with the Add loop */
pf_status pf_fault_error(pf_ctx *c, int32_t faults);

/* two shapes -> the broadcast shape; PF_INVALID_ARGUMENT in TF's words */
pf_status pf_broadcast_shape(pf_ctx *c, const DLTensor *a, const DLTensor *b, int64_t *shape,
                             int32_t *ndim);

/* ---------------------------------------------------------------- writing loops
 * EXPR is an expression of x (and p), or of a, b (and p). */
#define UNARY(NAME, TAG, TX, TY, EXPR) \
  static void NAME##_##TAG(const void *px, void *py, int64_t n, double p) { \
    const TX *xs = (const TX *)px; TY *ys = (TY *)py; (void)p; \
    if (n == 1) { TX x = *xs; *ys = (TY)(EXPR); return; } \
    PF_IVDEP for (int64_t i = 0; i < n; i++) { TX x = xs[i]; ys[i] = (TY)(EXPR); } \
  }
#define BINARY(NAME, TAG, TX, TY, EXPR) \
  static int32_t NAME##_##TAG(const void *pa, const void *pb, void *pz, int64_t n, int32_t mode, \
                              double p) { \
    const TX *as = (const TX *)pa, *bs = (const TX *)pb; \
    TY *zs = (TY *)pz; \
    (void)p; \
    if (n == 1) { \
      TX a = *as, b = *bs; \
      *zs = (TY)(EXPR); \
      return 0; \
    } /* scalars skip the vector set-up */ \
    if (mode == PF_VV) { \
      PF_IVDEP for (int64_t i = 0; i < n; i++) { \
        TX a = as[i], b = bs[i]; \
        zs[i] = (TY)(EXPR); \
      } \
    } else if (mode == PF_SV) { \
      TX a = as[0]; \
      PF_IVDEP for (int64_t i = 0; i < n; i++) { \
        TX b = bs[i]; \
        zs[i] = (TY)(EXPR); \
      } \
    } else { \
      TX b = bs[0]; \
      PF_IVDEP for (int64_t i = 0; i < n; i++) { \
        TX a = as[i]; \
        zs[i] = (TY)(EXPR); \
      } \
    } \
    return 0; \
  }
/* an expression that may set `fault`: integer division, powers */
#define BINARY_FAULT(NAME, TAG, T, EXPR) \
  static int32_t NAME##_##TAG(const void *pa, const void *pb, void *pz, int64_t n, int32_t mode, \
                              double p) { \
    const T *as = (const T *)pa, *bs = (const T *)pb; \
    T *zs = (T *)pz; \
    (void)p; \
    int64_t sa = mode != PF_SV, sb = mode != PF_VS; \
    int32_t fault = 0; \
    for (int64_t i = 0; i < n; i++) { \
      T a = as[i * sa], b = bs[i * sb]; \
      zs[i] = (T)(EXPR); \
    } \
    return fault; \
  }

/* NAME's table and init; TABLE: [PF_FLOAT32] = NAME_f32, ... */
#define UNARY_INIT(NAME, ...) \
  static pf_status NAME##_init(pf_ctx *c, void *state) { \
    static const pf_unary_loop table[PF_TYPE_COUNT] = {__VA_ARGS__}; \
    return pf_unary_init(c, (pf_unary_state *)state, table); \
  }
#define BINARY_INIT(NAME, ...) \
  static pf_status NAME##_init(pf_ctx *c, void *state) { \
    static const pf_binary_loop table[PF_TYPE_COUNT] = {__VA_ARGS__}; \
    return pf_binary_init(c, (pf_binary_state *)state, table); \
  }
#define PF_EQUALITY_ATTRS \
  ((const pf_attr *const[]){PF_REF(pf_attr, "incompatible_shape_error", PF_ATTR_BOOL, \
                                   offsetof(pf_binary_state, shape_error)), \
                            NULL})
#define PF_TOLERANCE PF_ATTRS( \
  PF_REF(pf_attr, "tolerance", PF_ATTR_FLOAT, offsetof(pf_binary_state, p)))
/* NAME with `same_shape`; NAME with incompatible_shape_error (UNEQUAL: see allow_unequal) */
#define STRICT_INIT(NAME) \
  static pf_status NAME##Strict_init(pf_ctx *c, void *state) { \
    ((pf_binary_state *)state)->same_shape = 1; \
    return NAME##_init(c, state); \
  }
#define EQUALITY_INIT(NAME, UNEQUAL) \
  static pf_status NAME##Loose_init(pf_ctx *c, void *state) { \
    pf_binary_state *s = (pf_binary_state *)state; \
    s->allow_unequal = s->shape_error ? 0 : UNEQUAL; \
    return NAME##_init(c, state); \
  }
/* OUT: the output's name; UNARY_KERNEL: `y`, BINARY_KERNEL: `z` */
#define UNARY_KERNEL_TO(OUT, OP, NAME, WHERE, ...) \
  PF_CPU(OP, WHERE, .state_size = sizeof(pf_unary_state), .init = NAME##_init, \
         .compute = pf_unary_compute, .args = PF_OVER(OUT, 0), __VA_ARGS__)
#define UNARY_KERNEL(...) UNARY_KERNEL_TO("y", __VA_ARGS__)
#define BINARY_KERNEL_TO(OUT, OP, NAME, WHERE, ...) \
  PF_CPU(OP, WHERE, .state_size = sizeof(pf_binary_state), .init = NAME##_init, \
         .compute = pf_binary_compute, .args = PF_OVER_ANY(OUT), __VA_ARGS__)
#define BINARY_KERNEL(...) BINARY_KERNEL_TO("z", __VA_ARGS__)
/* Add, AddV2, AddN, AccumulateNV2, BiasAdd and BiasAddV1, from NAME_init */
#define ADD_FAMILY(WHERE, NAME) \
  BINARY_KERNEL("Add", NAME, WHERE), BINARY_KERNEL("AddV2", NAME, WHERE), \
      PF_CPU("AddN", WHERE, .state_size = sizeof(pf_binary_state), .init = NAME##_init, \
             .compute = pf_addn_compute, .args = PF_OVER("sum", 0)), \
      PF_CPU("AccumulateNV2", WHERE, .state_size = sizeof(pf_binary_state), .init = NAME##_init, \
             .compute = pf_addn_compute, .args = PF_OVER("sum", 0)), \
      PF_CPU("BiasAdd", WHERE, .state_size = sizeof(pf_bias_state), .init = NAME##_init, \
             .compute = pf_bias_compute, .args = PF_OVER("output", 0), \
             .attrs = PF_ATTRS(PF_ATTR(pf_bias_state, PF_ATTR_STRING, data_format))), \
      PF_CPU("BiasAddV1", WHERE, .state_size = sizeof(pf_bias_state), .init = NAME##_init, \
             .compute = pf_bias_compute, .args = PF_OVER("output", 0))
#endif
