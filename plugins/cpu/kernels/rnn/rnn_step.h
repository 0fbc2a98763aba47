/* rnn_step.h - what the fused recurrent kernels (lstm.c, gru.c) share: matrix products cut for the
 * pool, and float views of half tensors.
 *
 * Invariants
 *   1. Everything is computed in float; half inputs are widened once, half outputs rounded once.
 *   2. A product is cut by its sizes alone, so equal inputs give equal bits on any number of
 *      threads.
 * Threads: each function is called by the kernel's own thread and may use parallel_for inside.
 */
#ifndef PF_CPU_RNN_STEP_H
#define PF_CPU_RNN_STEP_H
#include "base/common.h"
#include "gemm/gemm.h"

/* ---------------------------------------------------------------- tensors as float */
enum { RNN_OUTPUTS = 8 };
typedef struct {
  pf_ctx *c;
  int32_t type;
  DLTensor *out[RNN_OUTPUTS];
  float *wide[RNN_OUTPUTS];
  char *work; /* packing space of products, kept between time steps */
  uint64_t work_bytes;
  int failed; /* an input could not be widened */
} rnn_io;

PF_LOCAL float *rnn_scratch(pf_ctx *c, int64_t n) {
  int64_t bytes;
  float *p = pf_mul(n, 4, &bytes) ? c->host->scratch(c, (uint64_t)bytes + 64, 64) : NULL;
  if (!p) pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a recurrent step");
  return p;
}

/* PF_INVALID_ARGUMENT unless input `in` has this shape */
PF_LOCAL pf_status rnn_want(pf_ctx *c, int32_t in, const char *name, int32_t ndim,
                            const int64_t *shape) {
  const DLTensor *t = c->in[in];
  if (pf_same_dims(t->shape, t->ndim, shape, ndim)) return PF_OK;
  return PF_INVALID(c, "%s must have shape %s, got %s", name, pf_shape_text(shape, ndim).s,
                    PF_SHAPE(t).s);
}

/* input i as float; out of memory: NULL, and io->failed */
PF_LOCAL const float *rnn_in(rnn_io *io, int32_t i) {
  const DLTensor *t = io->c->in[i];
  if (!pf_is_half(io->type)) return PF_DATA(const float, t);
  float *x = rnn_scratch(io->c, pf_numel(t));
  if (x) pf_half_to_float(io->type, PF_DATA(const void, t), x, pf_numel(t));
  else io->failed = 1;
  return x;
}

/* a new output i to be written as float; NULL: an error is recorded */
PF_LOCAL float *rnn_out(rnn_io *io, int32_t i, const int64_t *shape, int32_t ndim) {
  io->out[i] = pf_output_checked(io->c, i, shape, ndim);
  if (!io->out[i]) return NULL;
  io->wide[i] =
      pf_is_half(io->type) ? rnn_scratch(io->c, pf_numel(io->out[i])) : PF_DATA(float, io->out[i]);
  /* an empty output may have no memory: NULL means failure here */
  if (!io->wide[i] && pf_numel(io->out[i]) == 0) io->wide[i] = rnn_scratch(io->c, 1);
  return io->wide[i];
}

PF_LOCAL void rnn_finish(rnn_io *io) {
  if (!pf_is_half(io->type)) return;
  for (int32_t i = 0; i < RNN_OUTPUTS; i++)
    if (io->out[i])
      pf_float_to_half(io->type, io->wide[i], PF_DATA(void, io->out[i]), pf_numel(io->out[i]));
}

PF_LOCAL void rnn_zero(float *x, int64_t n) {
  if (n > 0) memset(x, 0, (size_t)n * sizeof(float));
}

/* ---------------------------------------------------------------- products */
/* c [m, n] = (add ? c : 0) + op(a) op(b); ta: a is stored [k, m]; tb: b is stored [n, k] */
typedef struct {
  int64_t m, n, k;
  const float *a;
  int64_t lda;
  const float *b;
  int64_t ldb;
  float *c;
  int64_t ldc;
  int ta, tb, add;
} rnn_product;

enum { RNN_UNIT = 96, RNN_SPLIT_WORK = 1 << 20 };
typedef struct {
  pf_gemm g;
  int by_rows;
  char *work;
  uint64_t work_bytes;
} rnn_parts;

PF_LOCAL void rnn_units(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const rnn_parts *p = arg;
  pf_gemm g = p->g;
  int64_t first = lo * RNN_UNIT, last = PF_MIN(hi * RNN_UNIT, p->by_rows ? g.m : g.n);
  g.work = p->work + p->work_bytes * (uint64_t)worker;
  if (p->by_rows) {
    g.m = last - first;
    g.a = (const float *)g.a + first * g.a_row;
    g.c = (float *)g.c + first * g.ldc;
  } else {
    g.n = last - first;
    g.b = (const float *)g.b + first * g.b_col;
    g.c = (float *)g.c + first;
  }
  PF_ISA_NAME(pf_gemm_f32)(&g);
}

PF_LOCAL pf_status rnn_multiply(rnn_io *io, rnn_product p) {
  if (p.m == 0 || p.n == 0) return PF_OK;
  if (p.k == 0) {
    for (int64_t i = 0; i < p.m && !p.add; i++) rnn_zero(p.c + i * p.ldc, p.n);
    return PF_OK;
  }
  rnn_parts parts = {.g = {.m = p.m,
                           .n = p.n,
                           .k = p.k,
                           .a = p.a,
                           .b = p.b,
                           .c = p.c,
                           .a_row = p.ta ? 1 : p.lda,
                           .a_col = p.ta ? p.lda : 1,
                           .b_row = p.tb ? 1 : p.ldb,
                           .b_col = p.tb ? p.ldb : 1,
                           .ldc = p.ldc,
                           .add = p.add},
                     .by_rows = p.m >= p.n};
  int64_t units = ((parts.by_rows ? p.m : p.n) + RNN_UNIT - 1) / RNN_UNIT;
  double work = (double)p.m * (double)p.n * (double)p.k;
  int split = units >= 4 && work >= RNN_SPLIT_WORK;
  parts.g.how = PF_ISA_NAME(pf_gemm_how)(&parts.g, 4); /* parts are summed as the whole is */
  parts.work_bytes = (PF_ISA_NAME(pf_gemm_work)(&parts.g, 4) + 63) / 64 * 64;
  uint64_t need = parts.work_bytes * (split ? (uint64_t)io->c->host->workers(io->c) : 1);
  if (need > io->work_bytes) {
    io->work = io->c->host->scratch(io->c, need, 64);
    if (!io->work) return pf_fail(io->c, PF_RESOURCE_EXHAUSTED, "no memory for packing matrices");
    io->work_bytes = need;
  }
  parts.work = io->work;
  if (split) return io->c->host->parallel_for(io->c, units, 1, rnn_units, &parts);
  parts.g.work = parts.work;
  PF_ISA_NAME(pf_gemm_f32)(&parts.g);
  return PF_OK;
}

/* out[j] = sum over rows of x [rows, n] */
PF_LOCAL void rnn_sum_rows(const float *x, int64_t rows, int64_t n, float *out) {
  rnn_zero(out, n);
  for (int64_t r = 0; r < rows; r++, x += n)
    for (int64_t j = 0; j < n; j++) out[j] += x[j];
}
#endif
