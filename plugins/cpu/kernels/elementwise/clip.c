/* clip.c - ClipByValue: max(min(x, high), low), as TF computes it; halves as float.
 *
 * The bounds are scalars or have the input's shape.  A NaN in x becomes `high`.
 * Threads: parallel_for over elements; pure.  Compiled once per instruction set.
 */
#include "base/common.h"
#include "vec/half.h"
#include "base/isa.h"

enum { CLIP_BLOCK = 1024 };
/* n elements; a bound's step is 0 for a scalar, else 1 */
typedef void (*clip_loop)(const void *x, const void *low, const void *high, void *y, int64_t n,
                          int64_t low_step, int64_t high_step);

#define CLIP_AS(T, LOW, HIGH) \
  PF_IVDEP for (int64_t i = 0; i < n; i++) { \
    const T v = x[i] < HIGH ? x[i] : HIGH; \
    y[i] = v > LOW ? v : LOW; \
  }
#define CLIP(TYPE, T, TAG) \
static void clip_##TAG(const void *px, const void *plow, const void *phigh, void *py, int64_t n, \
                       int64_t low_step, int64_t high_step) { \
  const T *x = px, *low = plow, *high = phigh; \
  T *y = py; \
  if (n > 0 && !low_step && !high_step) { \
    const T least = *low, most = *high; \
    CLIP_AS(T, least, most) \
  } else { \
    CLIP_AS(T, low[i * low_step], high[i * high_step]) \
  } \
}
PF_EACH_REAL(CLIP)

PF_INLINE void clip_halves(int32_t type, const uint16_t *x, const uint16_t *low,
                           const uint16_t *high, uint16_t *y, int64_t n, int64_t low_step,
                           int64_t high_step) {
  float v[CLIP_BLOCK], least[CLIP_BLOCK], most[CLIP_BLOCK];
  for (int64_t i = 0; i < n; i += CLIP_BLOCK) {
    const int64_t m = PF_MIN(CLIP_BLOCK, n - i);
    halves_read(type, x + i, v, m);
    if (low_step || i == 0) halves_read(type, low + i * low_step, least, low_step ? m : 1);
    if (high_step || i == 0) halves_read(type, high + i * high_step, most, high_step ? m : 1);
    clip_f32(v, least, most, v, m, low_step, high_step);
    halves_write(type, v, y + i, m);
  }
}
#define CLIP_HALF(TYPE, TAG) \
static void clip_##TAG(const void *x, const void *low, const void *high, void *y, int64_t n, \
                       int64_t low_step, int64_t high_step) { \
  clip_halves(TYPE, x, low, high, y, n, low_step, high_step); \
}
CLIP_HALF(PF_FLOAT16, f16)
CLIP_HALF(PF_BFLOAT16, bf16)

#define ROW(TYPE, T, TAG) [TYPE] = clip_##TAG,
static const clip_loop loops[PF_TYPE_COUNT] = {PF_EACH_REAL(ROW) ROW(PF_FLOAT16, , f16)
                                                   ROW(PF_BFLOAT16, , bf16)};

typedef struct {
  clip_loop loop;
  const char *x, *low, *high;
  char *y;
  int64_t size, low_step, high_step; /* bytes of an element; elements */
} task;
static void clip_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const task *t = arg;
  const int64_t at = lo * t->size;
  (void)worker;
  t->loop(t->x + at, t->low + at * t->low_step, t->high + at * t->high_step, t->y + at, hi - lo,
          t->low_step, t->high_step);
}

static pf_status clip(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  (void)state;
  for (int i = 1; i < 3; i++)
    if (c->in[i]->ndim && !pf_same_shape(c->in[i], x))
      return PF_INVALID(c,
                        "clip_value_min and clip_value_max must be either of the same shape as "
                        "input, or a scalar. input %s, clip_value_%s %s",
                        PF_SHAPE(x).s, i == 1 ? "min" : "max", PF_SHAPE(c->in[i]).s);
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  const task t = {loops[c->in_type[0]],
                  PF_DATA(const char, x),
                  PF_DATA(const char, c->in[1]),
                  PF_DATA(const char, c->in[2]),
                  PF_DATA(char, y),
                  pf_type_size(c->in_type[0]),
                  c->in[1]->ndim > 0,
                  c->in[2]->ndim > 0};
  return pf_parallel(c, pf_numel(x), PF_GRAIN, clip_range, (void *)&t);
}

const pf_kernel *const PF_ISA_NAME(clip_kernels)[] = {
  PF_CPU("ClipByValue", "T=" PF_FLOATS "|" PF_INTS, .compute = clip), NULL};
