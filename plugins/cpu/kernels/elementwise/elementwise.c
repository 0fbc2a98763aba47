/* elementwise.c - runs the loops of elementwise.h: threads, half floats, broadcasting, faults.
 *
 * Paths of a binary op, the cheap ones first:
 *   both one element, or equal shapes   one loop, vector-vector
 *   one side one element                one loop, scalar-vector or vector-scalar
 *   else                                neighbouring dimensions that broadcast alike are merged;
 *   the innermost
 *                                       one runs as a loop, the others as an odometer
 * A large result in new memory is computed in blocks that the nearest cache holds, and stored past
 * the caches; rows of floats with an operand that repeats, line by line (pf_past).
 */
#include "base/machine.h"
#include "elementwise/elementwise.h"
#include "move/transpose.h"

enum { HALF_BLOCK = 512, STREAM_BLOCK = 2048, PAST_LINE = 16 };

/* ---------------------------------------------------------------- one input */
pf_status pf_unary_init(pf_ctx *c, pf_unary_state *s, const pf_unary_loop *table) {
  int32_t in = c->in_type[0], out = c->out_type[0], half = pf_is_half(in);
  s->loop = table[half && !table[in] ? PF_FLOAT32 : in]; /* of floats, too */
  if (!s->loop) return PF_DECLINE;
  s->type = in;
  s->in_size = (int32_t)pf_type_size(in);
  s->out_size = (int32_t)pf_type_size(out);
  s->half_out = half && pf_is_half(out);
  return PF_OK;
}

static void unary_half(const pf_unary_state *s, const char *x, char *y, int64_t n) {
  const pf_mover *move = pf_movers();
  float in[HALF_BLOCK], out[HALF_BLOCK];
  for (int64_t i = 0; i < n; i += HALF_BLOCK) {
    int64_t k = PF_MIN(n - i, HALF_BLOCK);
    move->halves_read(s->type, x + 2 * i, in, k);
    s->loop(in, s->half_out ? (void *)out : y + i * s->out_size, k, s->p);
    if (s->half_out) move->halves_write(s->type, out, y + 2 * i, k);
  }
}

typedef struct {
  const pf_unary_state *s;
  const char *x;
  char *y;
} unary_task;
static void unary_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const unary_task *t = (const unary_task *)arg;
  const pf_unary_state *s = t->s;
  const char *x = t->x + lo * s->in_size;
  char *y = t->y + lo * s->out_size;
  (void)worker;
  if (pf_is_half(s->type)) unary_half(s, x, y, hi - lo);
  else s->loop(x, y, hi - lo, s->p);
}

pf_status pf_unary_compute(pf_ctx *c, const void *state) {
  const pf_unary_state *s = (const pf_unary_state *)state;
  const DLTensor *x = c->in[0];
  DLTensor *y = s->in_size == s->out_size ? c->host->forward(c, 0, 0, x->shape, x->ndim)
                                          : c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  unary_task t = {s, PF_DATA(const char, x), PF_DATA(char, y)};
  return pf_parallel(c, pf_numel(x), PF_GRAIN, unary_range, &t);
}

/* ---------------------------------------------------------------- two inputs */
pf_status pf_binary_init(pf_ctx *c, pf_binary_state *s, const pf_binary_loop *table) {
  int32_t in = c->in_type[0], out = c->out_type[0], half = pf_is_half(in);
  s->loop = table[half ? PF_FLOAT32 : in];
  if (!s->loop) return PF_DECLINE;
  s->type = in;
  s->in_size = (int32_t)pf_type_size(in);
  s->out_size = (int32_t)pf_type_size(out);
  s->half_out = half && pf_is_half(out);
  return PF_OK;
}

pf_status pf_fault_error(pf_ctx *c, int32_t faults) {
  if (faults & PF_FAULT_DIVIDE) return PF_INVALID(c, "Integer division by zero");
  if (faults & PF_FAULT_NEGATIVE_POWER)
    return PF_INVALID(c, "Integers to negative integer powers are not allowed");
  return PF_OK;
}

pf_status pf_broadcast_shape(pf_ctx *c, const DLTensor *a, const DLTensor *b, int64_t *shape,
                             int32_t *ndim) {
  int32_t nd = PF_MAX(a->ndim, b->ndim);
  if (nd > PF_MAX_DIMS)
    return pf_failf(c, PF_UNIMPLEMENTED, "Broadcast of rank %d; at most %d is supported", nd,
                    PF_MAX_DIMS);
  for (int32_t i = 1; i <= nd; i++) {
    int64_t da = i <= a->ndim ? a->shape[a->ndim - i] : 1,
            db = i <= b->ndim ? b->shape[b->ndim - i] : 1;
    if (da != db && da != 1 && db != 1)
      return PF_INVALID(c, "Incompatible shapes: %s vs. %s", PF_SHAPE(a).s, PF_SHAPE(b).s);
    shape[nd - i] = da == 1 ? db : da;
  }
  *ndim = nd;
  return PF_OK;
}

static int32_t binary_half(const pf_binary_state *s, const char *a, const char *b, char *z,
                           int64_t n, int32_t mode) {
  const pf_mover *move = pf_movers();
  float fa[HALF_BLOCK], fb[HALF_BLOCK];
  int32_t faults = 0;
  if (mode == PF_SV) move->halves_read(s->type, a, fa, 1);
  if (mode == PF_VS) move->halves_read(s->type, b, fb, 1);
  for (int64_t i = 0; i < n; i += HALF_BLOCK) {
    int64_t k = PF_MIN(n - i, HALF_BLOCK);
    if (mode != PF_SV) move->halves_read(s->type, a + 2 * i, fa, k);
    if (mode != PF_VS) move->halves_read(s->type, b + 2 * i, fb, k);
    float *out = mode == PF_SV ? fb : fa; /* the other one still holds the scalar */
    faults |= s->loop(fa, fb, s->half_out ? (void *)out : z + i * s->out_size, k, mode, s->p);
    if (s->half_out) move->halves_write(s->type, out, z + 2 * i, k);
  }
  return faults;
}
static inline int32_t run_loop(const pf_binary_state *s, const char *a, const char *b, char *z,
                               int64_t n, int32_t mode) {
  return pf_is_half(s->type) ? binary_half(s, a, b, z, n, mode) : s->loop(a, b, z, n, mode, s->p);
}

/* where a walk over rows stands: outer indices, elements before it in a and b, in a row */
typedef struct { int64_t at[PF_MAX_DIMS], oa, ob, col; } walk;
typedef struct binary_task {
  const pf_binary_state *s;
  const char *a, *b;
  char *z;
  int32_t (*run)(const struct binary_task *, walk *w, char *z, int64_t lo, int64_t hi);
  int32_t mode, nd;     /* mode of the innermost dimension; nd outer dimensions */
  int32_t second;       /* the input of the result's shape is the second */
  int32_t faults;       /* atomic */
  const char *whole[2]; /* the inputs of the result's shape, first; else NULL */
  int64_t inner;        /* elements of the innermost dimension */
  int64_t shape[PF_MAX_DIMS], sa[PF_MAX_DIMS], sb[PF_MAX_DIMS];
} binary_task;

/* elements [lo, hi) of the result into z; returns faults */
static int32_t run_same(const binary_task *t, walk *w, char *z, int64_t lo, int64_t hi) {
  const pf_binary_state *s = t->s;
  (void)w;
  return run_loop(s, t->mode == PF_SV ? t->a : t->a + lo * s->in_size,
                  t->mode == PF_VS ? t->b : t->b + lo * s->in_size, z, hi - lo, t->mode);
}
static void start_walk(const binary_task *t, walk *w, int64_t lo) {
  int64_t row = lo / t->inner;
  w->col = lo % t->inner, w->oa = w->ob = 0;
  for (int32_t d = t->nd - 1; d >= 0; d--) {
    w->at[d] = row % t->shape[d], row /= t->shape[d];
    w->oa += w->at[d] * t->sa[d], w->ob += w->at[d] * t->sb[d];
  }
}
/* goes on where w stands, at lo */
static int32_t run_rows(const binary_task *t, walk *w, char *z, int64_t lo, int64_t hi) {
  const pf_binary_state *s = t->s;
  int32_t faults = 0;
  while (lo < hi) {
    int64_t n = PF_MIN(t->inner - w->col, hi - lo);
    faults |=
        run_loop(s, t->a + (w->oa + (t->mode == PF_SV ? 0 : w->col)) * s->in_size,
                 t->b + (w->ob + (t->mode == PF_VS ? 0 : w->col)) * s->in_size, z, n, t->mode);
    lo += n, z += n * s->out_size, w->col += n;
    if (w->col < t->inner) break;
    w->col = 0;
    for (int32_t d = t->nd - 1; d >= 0; d--) {
      w->oa += t->sa[d], w->ob += t->sb[d];
      if (++w->at[d] < t->shape[d]) break;
      w->oa -= t->sa[d] * w->at[d], w->ob -= t->sb[d] * w->at[d], w->at[d] = 0;
    }
  }
  return faults;
}
static void binary_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  binary_task *t = (binary_task *)arg;
  walk w;
  if (t->run == run_rows) start_walk(t, &w, lo);
  int32_t faults = t->run(t, &w, t->z + lo * t->s->out_size, lo, hi);
  (void)worker;
  if (faults) __atomic_fetch_or(&t->faults, faults, __ATOMIC_RELAXED);
}
static void fetch(const char *x, int64_t bytes) {
  for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(x + k);
}
/* Short blocks: stores past the caches, and loads, go on while the next block is computed.  A block
 * is STREAM_BLOCK bytes of the wider side: comparisons of 8-byte numbers would fetch 16 kB of each
 * input at once, more than the nearest cache has left. */
static void streamed_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  binary_task *t = (binary_task *)arg;
  const pf_mover *move = pf_movers();
  char room[STREAM_BLOCK] __attribute__((aligned(64)));
  const int64_t size = t->s->out_size, block = STREAM_BLOCK / PF_MAX(t->s->in_size / size, 1);
  int32_t faults = 0;
  walk w;
  (void)worker;
  if (t->run == run_rows) start_walk(t, &w, lo);
  for (int64_t n = 0; lo < hi; lo += n) {
    char *z = t->z + lo * size; /* all blocks but the first begin with a line of z */
    int64_t past = (int64_t)((uintptr_t)z % 64);
    n = PF_MIN(hi - lo, (block - past) / size);
    int64_t next = (lo + n) * t->s->in_size;
    for (int32_t k = 0; k < 2 && t->whole[k]; k++) fetch(t->whole[k] + next, n * t->s->in_size);
    faults |= t->run(t, &w, room + past, lo, lo + n);
    move->copy(room + past, z, n * size);
  }
  move->fence();
  if (faults) __atomic_fetch_or(&t->faults, faults, __ATOMIC_RELAXED);
}
/* Whole lines [lo, hi) of a result whose rows may begin inside lines. */
static void past_lines(binary_task *t, int64_t lo, int64_t hi) {
  const pf_past *past = t->s->past;
  const int second = t->second, number = t->mode == (second ? PF_SV : PF_VS);
  const int32_t how = (number ? PF_PAST_NUMBER : 0) | (second ? PF_PAST_SECOND : 0);
  const float *x = (const float *)t->whole[0], *rows = (const float *)(second ? t->a : t->b);
  const int64_t *strides = second ? t->sa : t->sb;
  float *z = (float *)t->z;
  walk w;
  start_walk(t, &w, lo);
  const float *y = rows + (second ? w.oa : w.ob);
  while (lo < hi) {
    int64_t left = PF_MIN(t->inner - w.col, hi - lo), n = left / PAST_LINE * PAST_LINE;
    past->lines(x + lo, number ? y : y + w.col, z + lo, n, how);
    lo += n, w.col += n;
    if (lo == hi) return;
    const float *at = number ? y : y + w.col;
    left = t->inner - w.col;
    for (int32_t d = t->nd - 1; d >= 0; d--) {
      y += strides[d];
      if (++w.at[d] < t->shape[d]) break;
      y -= strides[d] * w.at[d], w.at[d] = 0;
    }
    w.col = left ? PAST_LINE - left : 0;
    if (!left) continue;
    past->joint(x + lo, at, y, z + lo, (int32_t)left, how);
    lo += PAST_LINE;
  }
}
static void past_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  binary_task *t = (binary_task *)arg;
  int64_t off = (int64_t)((uintptr_t)t->z / sizeof(float)) % PAST_LINE;
  int64_t from = (lo + off + PAST_LINE - 1) / PAST_LINE * PAST_LINE - off;
  int64_t to = (hi + off) / PAST_LINE * PAST_LINE - off;
  if (to <= from) {
    binary_range(t, lo, hi, worker);
    return;
  }
  if (lo < from) binary_range(t, lo, from, worker);
  past_lines(t, from, to);
  if (to < hi) binary_range(t, to, hi, worker);
  pf_movers()->fence();
}
static pf_status run_task(pf_ctx *c, binary_task *t, int64_t n) {
  int fresh = t->z != t->a && t->z != t->b;
  t->faults = 0;
  const int past = fresh && n * t->s->out_size >= PF_STREAM_BYTES;
  const int rows = t->s->past && t->run == run_rows && t->whole[0] && t->inner >= PAST_LINE;
  PF_TRY(pf_parallel(c, n, PF_GRAIN, !past ? binary_range : rows ? past_range : streamed_range, t));
  return pf_fault_error(c, t->faults);
}

/* merges neighbouring dimensions that broadcast alike; the last one becomes `inner` and `mode` */
static void plan_broadcast(binary_task *t, const DLTensor *a, const DLTensor *b,
                           const int64_t *shape, int32_t nd) {
  int32_t kind_before = -1, k = -1;
  int64_t sa = 1, sb = 1, wa = 0, wb = 0;
  int64_t dims[PF_MAX_DIMS], xa[PF_MAX_DIMS], xb[PF_MAX_DIMS];
  int32_t kinds[PF_MAX_DIMS];
  for (int32_t i = 1; i <= nd; i++) { /* from the innermost outwards */
    int64_t n = shape[nd - i];
    int64_t da = i <= a->ndim ? a->shape[a->ndim - i] : 1,
            db = i <= b->ndim ? b->shape[b->ndim - i] : 1;
    int32_t kind = da == db ? PF_VV : da == 1 ? PF_SV : PF_VS;
    wa = sa, wb = sb, sa *= da, sb *= db;
    if (n == 1) continue;
    if (kind == kind_before) dims[k] *= n;
    else {
      k++;
      dims[k] = n, kinds[k] = kind_before = kind;
      xa[k] = kind == PF_SV ? 0 : wa, xb[k] = kind == PF_VS ? 0 : wb;
    }
  }
  t->inner = k < 0 ? 1 : dims[0];
  t->mode = k < 0 ? PF_VV : kinds[0];
  t->nd = PF_MAX(k, 0);
  for (int32_t d = 0; d < t->nd; d++)
    t->shape[d] = dims[k - d], t->sa[d] = xa[k - d], t->sb[d] = xb[k - d];
}

/* a buffer for the output: an input's own when the kernel may overwrite it */
static inline DLTensor *make_output(pf_ctx *c, const pf_binary_state *s, int32_t in,
                                    const int64_t *shape, int32_t nd) {
  return in >= 0 && s->in_size == s->out_size ? c->host->forward(c, in, 0, shape, nd)
                                              : c->host->output(c, 0, shape, nd);
}

/* a and b are inputs 0 and 1, perhaps seen with another shape */
static pf_status run_flat(pf_ctx *c, const pf_binary_state *s, const DLTensor *shaped, int32_t in,
                          int64_t n, int32_t mode) {
  DLTensor *z = make_output(c, s, in, shaped->shape, shaped->ndim);
  PF_EXHAUSTED(z);
  const char *a = PF_DATA(const char, c->in[0]), *b = PF_DATA(const char, c->in[1]);
  if (n <= PF_GRAIN) {
    if (n == 0) return PF_OK;
    int32_t faults = run_loop(s, a, b, PF_DATA(char, z), n, mode);
    return __builtin_expect(faults, 0) ? pf_fault_error(c, faults) : PF_OK;
  }
  binary_task t;
  t.s = s, t.a = a, t.b = b, t.z = PF_DATA(char, z), t.mode = mode;
  t.run = mode == PF_VV ? run_same : run_rows; /* beside a number: one long row */
  t.nd = 0, t.inner = n, t.second = mode == PF_SV;
  t.whole[0] = mode == PF_SV ? b : a, t.whole[1] = mode == PF_VV ? b : NULL;
  return run_task(c, &t, n);
}

__attribute__((noinline)) static pf_status run_broadcast(pf_ctx *c, const pf_binary_state *s,
                                                         const DLTensor *a, const DLTensor *b) {
  binary_task t;
  int64_t shape[PF_MAX_DIMS], n;
  int32_t nd;
  PF_TRY(pf_broadcast_shape(c, a, b, shape, &nd));
  if (!pf_shape_numel(shape, nd, &n))
    return PF_INVALID(c, "Broadcast of %s and %s has too many elements", PF_SHAPE(a).s,
                      PF_SHAPE(b).s);
  int32_t in = pf_same_dims(a->shape, a->ndim, shape, nd)   ? 0
               : pf_same_dims(b->shape, b->ndim, shape, nd) ? 1
                                                            : -1;
  DLTensor *z = make_output(c, s, in, shape, nd);
  PF_EXHAUSTED(z);
  if (n == 0) return PF_OK;
  plan_broadcast(&t, a, b, shape, nd);
  t.s = s, t.run = run_rows;
  t.a = PF_DATA(const char, a), t.b = PF_DATA(const char, b), t.z = PF_DATA(char, z);
  t.whole[0] = in == 0 ? t.a : in == 1 ? t.b : NULL, t.whole[1] = NULL, t.second = in == 1;
  return run_task(c, &t, n);
}

static pf_status unequal_shapes(pf_ctx *c, const pf_binary_state *s) {
  const DLTensor *a = c->in[0], *b = c->in[1];
  if (!s->allow_unequal)
    return PF_INVALID(c, "Inputs must have the same shape: got %s and %s", PF_SHAPE(a).s,
                      PF_SHAPE(b).s);
  DLTensor *z = c->host->output(c, 0, NULL, 0); /* one bool: they differ */
  PF_EXHAUSTED(z);
  *PF_DATA(uint8_t, z) = s->allow_unequal == 2;
  return PF_OK;
}
static int can_broadcast(const DLTensor *a, const DLTensor *b) {
  for (int32_t i = 1; i <= PF_MIN(a->ndim, b->ndim); i++) {
    int64_t da = a->shape[a->ndim - i], db = b->shape[b->ndim - i];
    if (da != db && da != 1 && db != 1) return 0;
  }
  return 1;
}

pf_status pf_binary_compute(pf_ctx *c, const void *state) {
  const pf_binary_state *s = (const pf_binary_state *)state;
  const DLTensor *a = c->in[0], *b = c->in[1];
  if ((a->ndim | b->ndim) == 0) { /* two scalars: the cost of a step is counted in them */
    DLTensor *z = make_output(c, s, 0, a->shape, 0);
    PF_EXHAUSTED(z);
    int32_t faults =
        run_loop(s, PF_DATA(const char, a), PF_DATA(const char, b), PF_DATA(char, z), 1, PF_VV);
    return __builtin_expect(faults, 0) ? pf_fault_error(c, faults) : PF_OK;
  }
  if (pf_same_shape(a, b)) { /* over either input that nobody else needs */
    int32_t in = PF_HAS(c->host, pf_host, can_forward) && !c->host->can_forward(c, 0) &&
                 c->host->can_forward(c, 1);
    return run_flat(c, s, a, in, pf_numel(a), PF_VV);
  }
  if (s->same_shape) return unequal_shapes(c, s);
  int64_t na = pf_numel(a), nb = pf_numel(b);
  if (nb == 1 && b->ndim <= a->ndim) return run_flat(c, s, a, 0, na, PF_VS);
  if (na == 1 && a->ndim <= b->ndim) return run_flat(c, s, b, 1, nb, PF_SV);
  if (s->allow_unequal && !can_broadcast(a, b)) return unequal_shapes(c, s);
  return run_broadcast(c, s, a, b);
}

/* --------------------------------------------------- BiasAdd, AddN: other uses of the Add loops */
pf_status pf_bias_compute(pf_ctx *c, const void *state) {
  const pf_bias_state *s = (const pf_bias_state *)state;
  const DLTensor *x = c->in[0], *bias = c->in[1];
  int32_t nchw = s->data_format.len >= 2 && !memcmp(s->data_format.data, "NC", 2);
  if (x->ndim < 2) return PF_INVALID(c, "Input tensor must be at least 2D: %s", PF_SHAPE(x).s);
  PF_TRY(pf_check_rank(c, x, "value"));
  if (bias->ndim != 1) return PF_INVALID(c, "Biases must be 1D: %s", PF_SHAPE(bias).s);
  int32_t channel = nchw ? 1 : x->ndim - 1;
  if (bias->shape[0] != x->shape[channel])
    return PF_INVALID(
        c,
        "Must provide as many biases as the channel dimension of the input tensor: %s vs. %" PRId64
        " in %s",
        PF_SHAPE(bias).s, x->shape[channel], PF_SHAPE(x).s);
  int64_t shape[PF_MAX_DIMS];
  DLTensor b = *bias; /* [C, 1, 1, ...] */
  b.ndim = x->ndim - channel, b.shape = shape;
  for (int32_t i = 0; i < b.ndim; i++) shape[i] = i ? 1 : bias->shape[0];
  return run_broadcast(c, &s->add, x, &b);
}

enum { ADDN_BLOCK = 4096 };
typedef struct {
  pf_ctx *c;
  const pf_binary_state *s;
  char *z;
} addn_task;
static void addn_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const addn_task *t = (const addn_task *)arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i += ADDN_BLOCK) { /* a block of the sum stays in cache */
    int64_t n = PF_MIN(ADDN_BLOCK, hi - i), at = i * t->s->in_size;
    const char *sum = PF_DATA(const char, t->c->in[0]) + at;
    for (int32_t k = 1; k < t->c->n_in; k++, sum = t->z + at)
      run_loop(t->s, sum, PF_DATA(const char, t->c->in[k]) + at, t->z + at, n, PF_VV);
  }
}
pf_status pf_addn_compute(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  for (int32_t i = 1; i < c->n_in; i++)
    if (!pf_same_shape(x, c->in[i]))
      return PF_INVALID(
          c, "Inputs to operation must have the same size and shape.  Input 0: %s != input %d: %s",
          PF_SHAPE(x).s, i, PF_SHAPE(c->in[i]).s);
  if (c->n_in == 1) return c->host->alias(c, 0, 0, x->shape, x->ndim);
  DLTensor *z = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(z);
  addn_task t = {c, (const pf_binary_state *)state, PF_DATA(char, z)};
  return pf_parallel(c, pf_numel(x), PF_GRAIN, addn_range, &t);
}
