/* jit.h - a small compiler of element-wise groups: postfix programs, interpreted tile by tile.  Nothing but
 * pyflow/kernel.h and the C library. */
#ifndef JIT_H
#define JIT_H
#include <pyflow/kernel.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { JIT_MAX_STEPS = 512, JIT_MAX_STACK = 32, JIT_MAX_ARGS = 32, JIT_MAX_NDIM = 8, JIT_TILE = 1024 };

typedef enum {
  JIT_INPUT, JIT_CONST, JIT_SAVED,      /* push: tile of input `arg`, of a scalar, of an earlier value */
  JIT_SAVE, JIT_RESULT,                 /* copy the top: into a saved tile, into result `arg` */
  JIT_POP,
  JIT_ADD, JIT_SUB, JIT_MUL, JIT_DIV, JIT_MAX, JIT_MIN, /* two operands */
  JIT_NEG, JIT_RELU, JIT_SQUARE, JIT_ABS                /* one */
} jit_code;

typedef struct { int32_t code, arg; } jit_step;

typedef struct {
  int32_t n_steps, n_saved, n_consts, n_in, n_out, ndim, depth;
  int64_t dims[JIT_MAX_NDIM];
  uint8_t scalar[JIT_MAX_ARGS];         /* input k has one element for all */
  float consts[JIT_MAX_ARGS];
  jit_step steps[JIT_MAX_STEPS];
} jit_program;

jit_code jit_code_of(pf_str op);        /* JIT_INPUT: not an element-wise op */
int32_t jit_supports(const pf_group_api *, const pf_group *, int32_t node);
pf_status jit_compile(const pf_host *, const pf_group_api *, const pf_group *, void **program);
pf_status jit_run(pf_ctx *, const void *program);
void jit_release(void *program);

extern atomic_int jit_on, jit_fails, jit_compiled, jit_declined, jit_released, jit_run_fails;
#endif
