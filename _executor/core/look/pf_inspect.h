/* Inspection: steps whose kernels are looked at one by one, on request:
 * Session(check_numerics=True), Session(debug=True).
 *
 * Invariants
 *   1. A step with inspect == NULL makes no call into inspect.pyx: the choice is made once per
 *      block and once per loop.
 *   2. While an inspected call runs, every input is HELD: no kernel works in place on it, no
 *      variable it names is updated in place.  So what a kernel got can be shown after it ran.
 *   3. An inspected step has no extent: its tensors may outlive it.
 */
#ifndef PF_INSPECT_H
#define PF_INSPECT_H
#include "pf_core.h"

struct pf_call;
struct pf_step;
struct pf_instr;

typedef struct pf_held_input {   /* of a call in progress */
  pf_tensor *given;         /* what the kernel gets, one reference; NULL: dead, or dropped */
  pf_tensor *value;         /* given; of a variable's handle: its value before the call, one
                             * reference, or NULL */
} pf_held_input;
typedef struct pf_held_inputs { uint32_t n, pad; pf_held_input in[]; } pf_held_inputs;

typedef struct pf_inspect {
  int32_t numerics;         /* floating-point outputs, and variables that changed, are checked */
  int32_t ordered;          /* one call after the other; asynchronous ones have a while to end */
  void *arg;
  /* before a kernel, nonzero: the step ends with CANCELLED; after it failed */
  int32_t (*before)(void *arg, struct pf_call *c, const struct pf_instr *ins,
                    const pf_held_inputs *held);
  void (*failed)(void *arg, struct pf_call *c, const struct pf_instr *ins,
                 const pf_held_inputs *held);
} pf_inspect;

int32_t pf_run_range_inspected(struct pf_call *c, uint32_t begin, uint32_t end);
/* After an asynchronous call, its outputs in their slots; r, or PF_RUN_STOP. */
int32_t pf_inspect_completed(struct pf_call *c, int32_t r);
pf_status pf_inspect_feeds(struct pf_step *s);      /* NaN in what was fed: the step fails */
/* A new reference to t, or to its copy in host memory; NULL: no memory, or the device failed. */
pf_tensor *pf_inspect_on_host(pf_tensor *t);

/* ---------------------------------------------------------------- counting */
typedef struct pf_finite { int64_t nan, inf, first; } pf_finite;    /* first: index of one; -1 */

/* The exponent of a value that is not finite has all bits set; so this many of n values are not. */
static inline int64_t pf_count_bad16(const uint16_t *p, int64_t n, uint16_t mask) {
  int64_t bad = 0;
  for (int64_t i = 0; i < n; i++) bad += (p[i] & mask) == mask;
  return bad;
}
static inline int64_t pf_count_bad32(const uint32_t *p, int64_t n) {
  int64_t bad = 0;
  for (int64_t at = 0; at < n; at += 1 << 20) {
    uint32_t some = 0;
    int64_t end = n - at < 1 << 20 ? n : at + (1 << 20);
    for (int64_t i = at; i < end; i++) some += (p[i] & 0x7f800000u) == 0x7f800000u;
    bad += some;
  }
  return bad;
}
static inline int64_t pf_count_bad64(const uint64_t *p, int64_t n) {
  const uint64_t mask = 0x7ff0000000000000ull;
  int64_t bad = 0;
  for (int64_t i = 0; i < n; i++) bad += (p[i] & mask) == mask;
  return bad;
}
/* {type, bytes of one real value, mask of its exponent}; bytes 0: not a floating-point type. */
static inline int pf_float_layout(int32_t type, uint64_t *mask) {
  switch (type) {
    case PF_FLOAT32: case PF_COMPLEX64: *mask = 0x7f800000u; return 4;
    case PF_FLOAT64: case PF_COMPLEX128: *mask = 0x7ff0000000000000ull; return 8;
    case PF_FLOAT16: *mask = 0x7c00u; return 2;
    case PF_BFLOAT16: *mask = 0x7f80u; return 2;
    default: *mask = 0; return 0;
  }
}
static inline int64_t pf_count_bad(const void *data, int64_t bytes, int32_t type) {
  uint64_t mask;
  switch (pf_float_layout(type, &mask)) {
    case 2: return pf_count_bad16((const uint16_t *)data, bytes / 2, (uint16_t)mask);
    case 4: return pf_count_bad32((const uint32_t *)data, bytes / 4);
    case 8: return pf_count_bad64((const uint64_t *)data, bytes / 8);
    default: return 0;
  }
}
static inline uint64_t pf_float_bits(const void *data, int64_t i, int size) {
  if (size == 2) return ((const uint16_t *)data)[i];
  return size == 4 ? ((const uint32_t *)data)[i] : ((const uint64_t *)data)[i];
}
/* How many of each; only for tensors that pf_count_bad found something in. */
static inline pf_finite pf_describe_bad(const void *data, int64_t bytes, int32_t type) {
  uint64_t mask, sign;
  int size = pf_float_layout(type, &mask);
  pf_finite f = {0, 0, -1};
  if (!size) return f;
  sign = (uint64_t)1 << (size * 8 - 1);
  for (int64_t i = 0; i < bytes / size; i++) {
    uint64_t x = pf_float_bits(data, i, size);
    if ((x & mask) != mask) continue;
    if (f.first < 0) f.first = i;
    if (x & ~mask & ~sign) f.nan++;
    else f.inf++;
  }
  if (f.first >= 0 && (type == PF_COMPLEX64 || type == PF_COMPLEX128)) f.first /= 2;
  return f;
}
/* Least and largest value of a float or double tensor without NaN; 0: not such a tensor. */
static inline int pf_value_range(const void *data, int64_t bytes, int32_t type, double *low,
                                 double *high) {
  int64_t n = type == PF_FLOAT32 ? bytes / 4 : type == PF_FLOAT64 ? bytes / 8 : 0;
  if (!n) return 0;
  for (int64_t i = 0; i < n; i++) {
    double x = type == PF_FLOAT32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
    if (i == 0 || x < *low) *low = x;
    if (i == 0 || x > *high) *high = x;
  }
  return 1;
}
#endif
