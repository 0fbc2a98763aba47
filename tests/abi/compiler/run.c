/* run.c - interprets a program over tiles that stay in the first-level cache. */
#include "jit.h"
#include <math.h>

atomic_int jit_run_fails;

typedef struct {
  const jit_program *p;
  const float *in[JIT_MAX_ARGS];
  float *out[JIT_MAX_ARGS];
  float *memory;                        /* per worker: tiles_of(p) tiles */
} job;

#define EACH(expression) \
  for (int64_t i = 0; i < n; i++) { const float a = x[i], b = y[i]; (void)b; to[i] = (expression); }

/* NaNs as the CPU kernels have them: an operand that is NaN wins.  `to` may be x or y. */
static void apply(int32_t code, float *to, const float *x, const float *y, int64_t n) {
  switch (code) {
    case JIT_ADD: EACH(a + b) break;
    case JIT_SUB: EACH(a - b) break;
    case JIT_MUL: EACH(a * b) break;
    case JIT_DIV: EACH(a / b) break;
    case JIT_MAX: EACH(a > b || a != a ? a : b) break;
    case JIT_MIN: EACH(a < b || a != a ? a : b) break;
    case JIT_NEG: EACH(-a) break;
    case JIT_RELU: EACH(a > 0 || a != a ? a : 0) break;
    case JIT_SQUARE: EACH(a * a) break;
    default: EACH(fabsf(a)) break;
  }
}

static float *spread(float *tile, float value) {
  for (int32_t i = 0; i < JIT_TILE; i++) tile[i] = value;
  return tile;
}

/* Tiles of a worker: saved values, constants and inputs of one element, the stack. */
static int64_t tiles_of(const jit_program *p) { return p->n_saved + p->n_consts + p->n_in + p->depth; }

static void tile(const job *j, float *memory, int64_t lo, int64_t n) {
  const jit_program *p = j->p;
  float *consts = memory + p->n_saved * JIT_TILE, *scalars = consts + p->n_consts * JIT_TILE;
  float *temporary = scalars + p->n_in * JIT_TILE;
  const float *stack[JIT_MAX_STACK + 1];
  int32_t top = -1;
  for (int32_t k = 0; k < p->n_steps; k++) {
    const jit_step *s = p->steps + k;
    switch (s->code) {
      case JIT_INPUT: stack[++top] = p->scalar[s->arg] ? scalars + s->arg * JIT_TILE : j->in[s->arg] + lo; break;
      case JIT_CONST: stack[++top] = consts + s->arg * JIT_TILE; break;
      case JIT_SAVED: stack[++top] = memory + s->arg * JIT_TILE; break;
      case JIT_SAVE: stack[top] = memcpy(memory + s->arg * JIT_TILE, stack[top], sizeof(float) * (size_t)n); break;
      case JIT_RESULT: memcpy(j->out[s->arg] + lo, stack[top], sizeof(float) * (size_t)n); break;
      case JIT_POP: top--; break;
      default:
        if (s->code <= JIT_MIN) top--;
        apply(s->code, temporary + top * JIT_TILE, stack[top], s->code <= JIT_MIN ? stack[top + 1] : stack[top], n);
        stack[top] = temporary + top * JIT_TILE;
    }
  }
}

static void range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  const jit_program *p = j->p;
  float *memory = j->memory + worker * tiles_of(p) * JIT_TILE, *at = memory + p->n_saved * JIT_TILE;
  for (int32_t k = 0; k < p->n_consts; k++, at += JIT_TILE) spread(at, p->consts[k]);
  for (int32_t k = 0; k < p->n_in; k++, at += JIT_TILE)
    if (p->scalar[k]) spread(at, *j->in[k]);
  for (; lo < hi; lo += JIT_TILE) tile(j, memory, lo, hi - lo < JIT_TILE ? hi - lo : JIT_TILE);
}

static int fits(const jit_program *p, const DLTensor *t, int32_t k) {
  if (p->scalar[k]) return pf_numel(t) == 1;
  int64_t n = 1;
  for (int32_t d = 0; d < p->ndim; d++) n *= p->dims[d];
  return pf_numel(t) == n;
}

pf_status jit_run(pf_ctx *c, const void *program) {
  const jit_program *p = program;
  job j = {.p = p};
  int64_t n = 1;
  if (jit_run_fails) return pf_fail(c, PF_DATA_LOSS, "the test asked for a failure");
  for (int32_t d = 0; d < p->ndim; d++) n *= p->dims[d];
  for (int32_t k = 0; k < p->n_in; k++) {
    if (!fits(p, c->in[k], k)) return pf_fail(c, PF_INVALID_ARGUMENT, "an input has not the shape it was planned with");
    j.in[k] = PF_DATA(const float, c->in[k]);
  }
  uint64_t tiles = (uint64_t)c->host->workers(c) * (uint64_t)tiles_of(p);
  j.memory = c->host->scratch(c, tiles * JIT_TILE * sizeof(float), 64);
  if (!j.memory) return PF_RESOURCE_EXHAUSTED;
  for (int32_t k = 0; k < p->n_out; k++) {
    DLTensor *y = c->host->output(c, k, p->dims, p->ndim);
    if (!y) return PF_RESOURCE_EXHAUSTED;
    j.out[k] = PF_DATA(float, y);
  }
  return c->host->parallel_for(c, n, 16 * JIT_TILE, range, &j);
}
