/* exercise.h - what the files of the test plugin share.  The plugin uses each function of kernel.h at least once;
 * test_exercise.py builds it, loads it, and checks what comes out.  Nothing but pyflow/kernel.h is included. */
#ifndef EXERCISE_H
#define EXERCISE_H
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const pf_host *the_host; /* for shape functions, which get no ctx */

#define OP(op_, sig_, ...) (&(const pf_op){.size = sizeof(pf_op), .name = op_, .sig = sig_, __VA_ARGS__})
#define KERNEL(op_, compute_, ...) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .op = op_, .device = "CPU", .compute = compute_, __VA_ARGS__})
#define TABLE(kind, ...) ((const kind *const[]){__VA_ARGS__, NULL})

static inline pf_str text(const char *s) { return (pf_str){s, (int64_t)strlen(s)}; }
static inline pf_status scalar_float(pf_ctx *c, int32_t out, float value) {
  DLTensor *y = c->host->output(c, out, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = value;
  return PF_OK;
}
static inline pf_status scalar_int(pf_ctx *c, int32_t out, int64_t value) {
  DLTensor *y = c->host->output(c, out, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(int64_t, y) = value;
  return PF_OK;
}
static inline pf_status scalar_string(pf_ctx *c, int32_t out, const char *value) {
  DLTensor *y = c->host->output(c, out, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  return c->host->str_set(y, 0, text(value));
}

/* One table of each per file; plugin.c joins them. */
extern const pf_op *const basic_ops[], *const async_ops[], *const state_ops[], *const device_ops[];
extern const pf_kernel *const basic_kernels[], *const async_kernels[], *const state_kernels[], *const device_kernels[];
extern const pf_device *const exercise_devices[];
#endif
