/* fused_elementwise.c - runs the programs of fused_program.h: shapes, buffers, blocks, threads.
 *
 * A call goes
 *
 *     equal shapes, scalars, vectors over the last axes     one result: no shapes are computed
 *     anything else       infer_shapes: each instruction's shape; a mismatch names the user's node
 *
 * then classifies the inputs against the result's shape, compiles the steps, and runs them over
 * blocks: wide ones, and a narrow loop for what is left.  A result that is large is stored past the
 * caches, unless it takes the place of an input.
 *
 * Invariants
 *   1. Instructions run at the shape of the result: what broadcasting would repeat is computed
 *      again, with equal bits.
 *   2. Results of unequal shapes are computed one after the other.
 *   3. The buffer of an input is taken only for the result that is stored last: nothing is read
 *      after it, in a block or for results of other shapes.
 *
 * Fast path: chain_1048576, chain_10485760 (docs/paths.md).
 */
#include "base/machine.h"
#include "fused/fused_program.h"
#include "move/transpose.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#define STREAM_FENCE() _mm_sfence()
#else
#define STREAM_FENCE() (void)0
#endif

enum { PERIOD_COPIED = 65536 };
enum { X_UNUSED, X_SCALAR, X_DIRECT, X_CONVERTED, X_PERIOD, X_FILL };

typedef struct {
  const char *data;
  int32_t how, type, nd;
  int64_t period;
  int64_t dims[PF_MAX_DIMS];    /* X_FILL: of the result, outermost first */
  int64_t strides[PF_MAX_DIMS]; /* of the input; 0: repeated */
} fused_input;

typedef struct {
  const fused_state *s;
  int32_t n_in, esize;
  int64_t n;
  int32_t streams;
  int32_t again;   /* results of other shapes read the inputs after this one */
  fused_past past; /* the whole program, or NULL */
  int32_t wanted[FUSED_RESULTS], out_size[FUSED_RESULTS], n_out;
  char *out[FUSED_RESULTS];
  uint8_t scalar[FUSED_INPUTS], halves[FUSED_INPUTS];
  int16_t store[FUSED_RESULTS];
  double scalars[FUSED_INPUTS];
  fused_step wide[FUSED_STEPS], narrow[FUSED_STEPS];
  fused_input in[FUSED_INPUTS];
} fused_task;

/* ---------------------------------------------------------------- init */
static int32_t kind_of(int32_t type) {
  return type == PF_FLOAT64 ? FUSED_F64 : type == PF_INT32 ? FUSED_I32 : FUSED_F32;
}
pf_status fused_init(pf_ctx *c, fused_state *s, const fused_machine *const (*machines)[2]) {
  s->kind = kind_of(s->type);
  s->machines = machines;
  PF_TRY(fused_parse(c, s));
  for (int32_t i = 0; i < c->n_in + c->n_out; i++) {
    int32_t type = i < c->n_in ? c->in_type[i] : c->out_type[i - c->n_in];
    if (type != s->type && type != PF_BOOL)
      return PF_INVALID(c, "Types must be %s or bool, got %s for %s %d", pf_type_name(s->type),
                        pf_type_name(type), i < c->n_in ? "input" : "output",
                        i < c->n_in ? i : i - c->n_in);
  }
  for (int32_t k = 0; k < s->program.n_instructions; k++)
    if (!machines[s->kind][0]->run[s->program.code[k].op][0])
      return PF_INVALID(c, "program: instruction %d does not exist for %s", k,
                        pf_type_name(s->type));
  return PF_OK;
}

/* ---------------------------------------------------------------- shapes */
typedef struct {
  const int64_t *dims;
  int32_t nd;
} fused_shape;

static pf_status fail_at(pf_ctx *c, const fused_state *s, int32_t k, const char *what,
                         fused_shape a, fused_shape b) {
  const pf_str *node = k < s->nodes.n ? (const pf_str *)s->nodes.items + k : NULL;
  return PF_INVALID(c, "%s%.*s%s%s: %s vs. %s", node ? "{{node " : "",
                    node ? (int)PF_MIN(node->len, 256) : 0, node ? node->data : "",
                    node ? "}} " : "", what, pf_shape_text(a.dims, a.nd).s,
                    pf_shape_text(b.dims, b.nd).s);
}

/* a's shape broadcast with b's, into out */
static pf_status join_shapes(pf_ctx *c, const fused_state *s, int32_t k, fused_shape a,
                             fused_shape b, int64_t *out, int32_t *nd) {
  *nd = PF_MAX(a.nd, b.nd);
  for (int32_t i = 1; i <= *nd; i++) {
    int64_t da = i <= a.nd ? a.dims[a.nd - i] : 1, db = i <= b.nd ? b.dims[b.nd - i] : 1;
    if (da != db && da != 1 && db != 1) return fail_at(c, s, k, "Incompatible shapes", a, b);
    out[*nd - i] = da == 1 ? db : da;
  }
  return PF_OK;
}

/* The shape of every value; `room` holds those of instructions. */
static pf_status infer_shapes(pf_ctx *c, const fused_state *s, fused_shape *shapes,
                              int64_t (*room)[PF_MAX_DIMS]) {
  const fused_program *p = &s->program;
  for (int32_t i = 0; i < p->n_in; i++) shapes[i] = (fused_shape){c->in[i]->shape, c->in[i]->ndim};
  for (int32_t k = 0; k < p->n_instructions; k++) {
    const fused_instruction *i = &p->code[k];
    fused_shape *made = &shapes[p->n_in + k];
    *made = shapes[i->arg[0]];
    for (int32_t a = 1; a < i->n; a++) {
      fused_shape other = shapes[i->arg[a]];
      if (pf_same_dims(made->dims, made->nd, other.dims, other.nd)) continue;
      if (i->strict) return fail_at(c, s, k, "Inputs must have the same shape", *made, other);
      int64_t joined[PF_MAX_DIMS];
      int32_t nd;
      PF_TRY(join_shapes(c, s, k, *made, other, joined, &nd));
      memcpy(room[k], joined, sizeof joined);
      *made = (fused_shape){room[k], nd};
    }
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- inputs */
static int64_t type_bytes(const fused_task *t, const fused_input *x) {
  return x->type == PF_BOOL ? 1 : pf_is_half(x->type) ? 2 : t->esize;
}
static int is_converted(const fused_task *t, const fused_input *x) {
  return type_bytes(t, x) != t->esize;
}
/* n elements of x from element `at` on, as the accumulator's type */
static void convert(const fused_task *t, const fused_input *x, int64_t at, int64_t n, char *y) {
  const char *from = x->data + at * type_bytes(t, x);
  if (pf_is_half(x->type)) pf_movers()->halves_read(x->type, from, (float *)y, n);
  else if (x->type != PF_BOOL) memcpy(y, from, (size_t)(n * t->esize));
  else if (t->s->kind == FUSED_F32)
    for (int64_t i = 0; i < n; i++) ((float *)y)[i] = from[i] != 0;
  else if (t->s->kind == FUSED_F64)
    for (int64_t i = 0; i < n; i++) ((double *)y)[i] = from[i] != 0;
  else
    for (int64_t i = 0; i < n; i++) ((int32_t *)y)[i] = from[i] != 0;
}
static void repeat(const fused_task *t, char *y, int64_t n) { /* y[0] to y[0 .. n) */
  if (t->esize == 4)
    for (int64_t i = 1; i < n; i++) ((uint32_t *)y)[i] = *(uint32_t *)y;
  else
    for (int64_t i = 1; i < n; i++) ((uint64_t *)y)[i] = *(uint64_t *)y;
}

/* elements [pos, pos + n) of the result's shape from a broadcast or converted input */
static void fill(const fused_task *t, const fused_input *x, int64_t pos, int64_t n, char *y) {
  int64_t at[PF_MAX_DIMS], off = 0, rest = pos;
  int32_t last = x->nd - 1;
  for (int32_t d = last; d >= 0; d--) {
    at[d] = rest % x->dims[d], rest /= x->dims[d];
    off += at[d] * x->strides[d];
  }
  while (n > 0) {
    int64_t run = PF_MIN(n, x->dims[last] - at[last]);
    if (x->strides[last]) convert(t, x, off, run, y);
    else convert(t, x, off, 1, y), repeat(t, y, run);
    y += run * t->esize, n -= run;
    at[last] += run, off += run * x->strides[last];
    for (int32_t d = last; d > 0 && at[d] == x->dims[d]; d--) {
      off += x->strides[d - 1] - at[d] * x->strides[d];
      at[d] = 0, at[d - 1]++;
    }
  }
}

static void take_scalar(fused_task *t, int32_t i) {
  fused_input *x = &t->in[i];
  x->how = X_SCALAR;
  if (is_converted(t, x)) {
    convert(t, x, 0, 1, (char *)&t->scalars[i]);
    x->data = (const char *)&t->scalars[i];
  }
  double v = t->s->kind == FUSED_F32   ? *(const float *)x->data
             : t->s->kind == FUSED_F64 ? *(const double *)x->data
                                       : 0;
  t->scalar[i] = v == v && v != 0 ? FUSED_PLAIN : 1;
}

/* A vector over the last axes, repeated: read where it lies when blocks never wrap around, else
 * from a copy that goes on past its end. */
static pf_status take_period(pf_ctx *c, fused_task *t, int32_t i, int64_t period) {
  fused_input *x = &t->in[i];
  int64_t block = t->s->machines[t->s->kind][1]->elements;
  x->how = X_PERIOD, x->period = period;
  if (!is_converted(t, x) && period % block == 0) return PF_OK;
  if (period > PERIOD_COPIED) {
    x->how = X_FILL, x->nd = 2;
    x->dims[0] = t->n / period, x->dims[1] = period, x->strides[0] = 0, x->strides[1] = 1;
    return PF_OK;
  }
  char *copy = c->host->scratch(c, (uint64_t)((period + block) * t->esize), 64);
  PF_EXHAUSTED(copy);
  convert(t, x, 0, period, copy);
  for (int64_t k = period; k < period + block; k += PF_MIN(period, period + block - k))
    memcpy(copy + k * t->esize, copy, (size_t)(PF_MIN(period, period + block - k) * t->esize));
  x->data = copy;
  return PF_OK;
}

/* neighbouring axes that broadcast alike become one */
static void take_broadcast(fused_task *t, int32_t i, fused_shape x, fused_shape to) {
  fused_input *in = &t->in[i];
  int64_t stride = 1, dims[PF_MAX_DIMS], strides[PF_MAX_DIMS];
  int32_t n = 0, before = -1;
  for (int32_t k = 1; k <= to.nd; k++) {
    int64_t size = to.dims[to.nd - k], own = k <= x.nd ? x.dims[x.nd - k] : 1;
    int32_t repeated = own != size;
    if (size == 1) continue;
    if (repeated == before) dims[n - 1] *= size;
    else dims[n] = size, strides[n] = repeated ? 0 : stride, n++;
    before = repeated;
    stride *= own;
  }
  in->how = X_FILL, in->nd = n;
  for (int32_t k = 0; k < n; k++)
    in->dims[k] = dims[n - 1 - k], in->strides[k] = strides[n - 1 - k];
}

/* How input i is read when the result has shape `to`. */
static pf_status take_input(pf_ctx *c, fused_task *t, int32_t i, fused_shape to) {
  fused_input *x = &t->in[i];
  const DLTensor *tensor = c->in[i];
  fused_shape own = {tensor->shape, tensor->ndim};
  int64_t period = 1, outer = 0;
  x->data = PF_DATA(const char, tensor), x->type = c->in_type[i], x->how = X_UNUSED;
  t->scalar[i] = t->halves[i] = 0;
  if (own.nd > to.nd) return PF_OK; /* an input no wanted result needs */
  for (int32_t k = 1; k <= own.nd; k++) {
    int64_t size = own.dims[own.nd - k];
    if (size != 1 && size != to.dims[to.nd - k]) return PF_OK;
    if (size != to.dims[to.nd - k]) outer = PF_MAX(outer, 1); /* ones: fine in front */
    else if (outer && size != 1) outer = 2;
    period *= size;
  }
  if (period == 1) return take_scalar(t, i), PF_OK;
  if (period == t->n) {
    x->how = is_converted(t, x) ? X_CONVERTED : X_DIRECT;
    t->halves[i] = (uint8_t)pf_is_half(x->type);
    return PF_OK;
  }
  if (period < t->n && outer < 2) return take_period(c, t, i, period);
  return take_broadcast(t, i, own, to), PF_OK;
}

/* ---------------------------------------------------------------- outputs */
static int32_t last_result(const fused_state *s, const fused_task *t) {
  int32_t last = -1;
  for (int32_t r = 0; r < s->program.n_results; r++)
    if (t->wanted[r] && (last < 0 || s->program.result[r] >= s->program.result[last])) last = r;
  return last;
}
static int32_t input_to_overwrite(pf_ctx *c, const fused_task *t, int32_t r, fused_shape to) {
  for (int32_t i = 0; i < t->n_in; i++)
    if (t->in[i].how == X_DIRECT && c->in_type[i] == c->out_type[r] && c->in[i]->ndim == to.nd &&
        PF_HAS(c->host, pf_host, can_forward) && c->host->can_forward(c, i))
      return i;
  return -1;
}
/* How a large result is stored: past the caches; bools, few beside what is read, through them, but
 * the next inputs are fetched. */
static const int16_t streams[][2] = {{FUSED_store, FUSED_stream},
                                     {FUSED_store_half, FUSED_stream_half},
                                     {FUSED_store_bfloat16, FUSED_stream_bfloat16},
                                     {FUSED_store_bool, FUSED_fetch_bool}};
static int16_t past_the_caches(int16_t store) { /* 0: there is no such code */
  for (int32_t k = 0; k < PF_LEN(streams); k++)
    if (streams[k][0] == store) return streams[k][1];
  return 0;
}
static int16_t into_the_caches(int16_t store) {
  for (int32_t k = 0; k < PF_LEN(streams); k++)
    if (streams[k][1] == store) return streams[k][0];
  return store;
}
static pf_status make_outputs(pf_ctx *c, fused_task *t, fused_shape to) {
  const fused_state *s = t->s;
  int32_t last = last_result(s, t);
  for (int32_t r = 0; r < s->program.n_results; r++) {
    t->store[r] = -1;
    if (!t->wanted[r]) continue;
    int32_t in = r == last && !t->again ? input_to_overwrite(c, t, r, to) : -1;
    int32_t type = c->out_type[r];
    DLTensor *y = in >= 0 ? c->host->forward(c, in, r, to.dims, to.nd)
                          : pf_output_checked(c, r, to.dims, to.nd);
    PF_EXHAUSTED(y);
    t->out[r] = PF_DATA(char, y), t->out_size[r] = (int32_t)pf_type_size(type);
    t->store[r] = (int16_t)(type == PF_BOOL       ? FUSED_store_bool
                            : type == PF_FLOAT16  ? FUSED_store_half
                            : type == PF_BFLOAT16 ? FUSED_store_bfloat16
                                                  : FUSED_store);
    int16_t past = past_the_caches(t->store[r]);
    if (past && in < 0 && t->n * t->out_size[r] >= PF_STREAM_BYTES &&
        (uintptr_t)t->out[r] % 64 == 0)
      t->store[r] = past, t->streams = 1;
  }
  return PF_OK;
}

/* A program of one instruction has a loop of its own where a block's overhead would be felt. */
static fused_past past_of(const fused_task *t) {
  const fused_machine *m = t->s->machines[t->s->kind][1];
  const fused_program *p = &t->s->program;
  if (!m->past || p->n_instructions != 1 || p->n_results != 1 || p->result[0] != p->n_in)
    return NULL;
  for (int32_t k = 0; k < p->code[0].n; k++) {
    int32_t i = p->code[0].arg[k];
    if (t->in[i].how != X_DIRECT && !t->halves[i]) return NULL;
  }
  return t->store[0] == FUSED_stream            ? m->past[0][p->code[0].op]
         : t->store[0] == FUSED_stream_half     ? m->past[1][p->code[0].op]
         : t->store[0] == FUSED_stream_bfloat16 ? m->past[2][p->code[0].op]
                                                : NULL;
}
static void choose_steps(fused_task *t) {
  const fused_state *s = t->s;
  t->past = past_of(t);
  if (t->past) return;
  fused_choice how = {s->machines[s->kind][1], t->scalar, t->store, t->halves, s->type};
  int64_t block = how.machine->elements;
  if (t->n >= block) fused_specialise(&s->program, &how, t->wide);
  if (t->n % block == 0) return;
  for (int32_t r = 0; r < s->program.n_results; r++) t->store[r] = into_the_caches(t->store[r]);
  how.machine = s->machines[s->kind][0];
  fused_specialise(&s->program, &how, t->narrow);
}

/* ---------------------------------------------------------------- blocks */
typedef struct {
  fused_frame frame;
  /* filled inputs, temporaries */
  char blocks[FUSED_VALUES][FUSED_BLOCK_BYTES] __attribute__((aligned(64)));
  char tail[FUSED_INPUTS + FUSED_RESULTS][64] __attribute__((aligned(64)));
} fused_worker;

static void start_worker(const fused_task *t, fused_worker *w) {
  w->frame.ahead[0] = w->frame.ahead[1] = NULL;
  for (int32_t i = 0; i < t->n_in; i++)
    w->frame.at[i] = t->in[i].how == X_SCALAR ? (void *)t->in[i].data : (void *)w->blocks[i];
  for (int32_t i = FUSED_INPUTS; i < FUSED_INPUTS + t->s->program.n_temporaries; i++)
    w->frame.at[i] = w->blocks[i];
}
static void place(const fused_task *t, fused_worker *w, int64_t pos, int64_t n) {
  for (int32_t i = 0; i < t->n_in; i++) {
    const fused_input *x = &t->in[i];
    if (x->how == X_DIRECT) w->frame.at[i] = (void *)(x->data + pos * t->esize);
    else if (x->how == X_PERIOD) w->frame.at[i] = (void *)(x->data + pos % x->period * t->esize);
    else if (t->halves[i]) w->frame.halves[i] = (void *)(x->data + pos * 2);
    else if (x->how == X_CONVERTED) convert(t, x, pos, n, w->blocks[i]);
    else if (x->how == X_FILL) fill(t, x, pos, n, w->blocks[i]);
  }
  for (int32_t r = 0; r < t->n_out; r++)
    if (t->wanted[r]) w->frame.at[FUSED_VALUES + r] = t->out[r] + pos * t->out_size[r];
}
/* Two large inputs: the hardware alone fetches 512 bytes here, 512 there too late. */
static int32_t fetched_inputs(const fused_task *t, int32_t which[2]) {
  int32_t n = 0;
  for (int32_t i = 0; t->streams && i < t->n_in && n < 2; i++)
    if (t->in[i].how == X_DIRECT || t->halves[i]) which[n++] = i;
  return n;
}
/* fewer elements than a vector has: through buffers of a whole vector */
static void run_tail(const fused_task *t, fused_worker *w, const fused_machine *m, int64_t pos,
                     int64_t n) {
  for (int32_t i = 0; i < t->n_in; i++)
    if (t->in[i].how == X_FILL || t->in[i].how == X_CONVERTED) memset(w->blocks[i], 0, 64);
  place(t, w, pos, n);
  for (int32_t i = 0; i < t->n_in; i++) {
    memset(w->tail[i], 0, 64);
    if (t->in[i].how == X_DIRECT)
      w->frame.at[i] = memcpy(w->tail[i], w->frame.at[i], (size_t)(n * t->esize));
    else if (t->halves[i])
      w->frame.halves[i] = memcpy(w->tail[i], w->frame.halves[i], (size_t)(n * 2));
  }
  for (int32_t r = 0; r < t->n_out; r++) w->frame.at[FUSED_VALUES + r] = w->tail[FUSED_INPUTS + r];
  m->enter(t->narrow, &w->frame);
  for (int32_t r = 0; r < t->n_out; r++)
    if (t->wanted[r])
      memcpy(t->out[r] + pos * t->out_size[r], w->tail[FUSED_INPUTS + r],
             (size_t)(n * t->out_size[r]));
}
/* Sets the pointers that go on from block to block; 0 where an input is repeated or converted: its
 * blocks are placed one by one. */
static int set_moving(const fused_task *t, fused_frame *f, int64_t elements, const int32_t *which,
                      int32_t ahead) {
  fused_moving *m = f->moving;
  int32_t n = 0;
  for (int32_t i = 0; i < t->n_in; i++) {
    int32_t how = t->in[i].how;
    if (how == X_DIRECT) m[n++] = (fused_moving){&f->at[i], elements * t->esize};
    else if (t->halves[i]) m[n++] = (fused_moving){&f->halves[i], elements * 2};
    else if (how != X_SCALAR && how != X_UNUSED) return 0;
  }
  for (int32_t r = 0; r < t->n_out; r++)
    if (t->wanted[r]) m[n++] = (fused_moving){&f->at[FUSED_VALUES + r], elements * t->out_size[r]};
  for (int32_t k = 0; k < ahead; k++)
    m[n++] = (fused_moving){&f->ahead[k], elements * type_bytes(t, &t->in[which[k]])};
  f->n_moving = n;
  for (; n < FUSED_MOVED; n++) f->unused[n] = f, m[n] = (fused_moving){&f->unused[n], 0};
  return 1;
}
/* whole wide blocks of [pos, end); returns where the rest begins */
static int64_t run_wide(const fused_task *t, fused_worker *w, int64_t pos, int64_t end) {
  const fused_machine *m = t->s->machines[t->s->kind][1];
  int64_t wide = m->elements, step = wide;
  int32_t which[2], ahead = fetched_inputs(t, which);
  if (pos + wide > end) return pos;
  if (set_moving(t, &w->frame, wide, which, ahead)) step = (end - pos) / wide * wide;
  w->frame.left = step / wide;
  for (; pos + wide <= end; pos += step) {
    place(t, w, pos, wide);
    for (int32_t k = 0; k < ahead; k++) {
      int32_t i = which[k];
      char *x = (char *)(t->halves[i] ? w->frame.halves[i] : w->frame.at[i]);
      w->frame.ahead[k] = x + wide * type_bytes(t, &t->in[i]);
    }
    m->enter(t->wide, &w->frame);
  }
  return pos;
}
static void run_blocks(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const fused_task *t = (const fused_task *)arg;
  const fused_machine *const *machine = t->s->machines[t->s->kind];
  int64_t wide = machine[1]->elements, narrow = machine[0]->elements;
  int64_t pos = lo * wide, end = PF_MIN(hi * wide, t->n);
  fused_worker w;
  (void)worker;
  if (t->past) {
    const fused_instruction *op = &t->s->program.code[0];
    int64_t from = pos * t->out_size[0];
    t->past(t->in[op->arg[0]].data + from, t->in[op->arg[op->n - 1]].data + from, t->out[0] + from,
            end - pos);
    return;
  }
  start_worker(t, &w);
  pos = run_wide(t, &w, pos, end);
  for (; pos + narrow <= end; pos += narrow) {
    place(t, &w, pos, narrow);
    machine[0]->enter(t->narrow, &w.frame);
  }
  if (pos < end) run_tail(t, &w, machine[0], pos, end - pos);
  if (t->streams) STREAM_FENCE();
}

/* ---------------------------------------------------------------- a call */
static pf_status run_results(pf_ctx *c, fused_task *t, fused_shape to) {
  const fused_state *s = t->s;
  t->streams = 0;
  if (!pf_shape_numel(to.dims, to.nd, &t->n))
    return PF_INVALID(c, "Shape %s has too many elements", pf_shape_text(to.dims, to.nd).s);
  for (int32_t i = 0; i < t->n_in; i++) PF_TRY(take_input(c, t, i, to));
  PF_TRY(make_outputs(c, t, to));
  if (t->n == 0) return PF_OK;
  choose_steps(t);
  int64_t block = s->machines[s->kind][1]->elements, blocks = (t->n + block - 1) / block;
  int64_t grain = PF_MAX(4, PF_GRAIN * 4 / (4 + s->program.n_instructions) / block);
  return pf_parallel(c, blocks, grain, run_blocks, t);
}

__attribute__((noinline)) static pf_status run_shaped(pf_ctx *c, fused_task *t) {
  const fused_program *p = &t->s->program;
  fused_shape shapes[FUSED_VALUES];
  int64_t room[FUSED_INSTRUCTIONS][PF_MAX_DIMS];
  for (int32_t i = 0; i < c->n_in; i++) PF_TRY(pf_check_rank(c, c->in[i], "input"));
  PF_TRY(infer_shapes(c, t->s, shapes, room));
  int32_t equal = 1;
  for (int32_t r = 1; r < p->n_results; r++) {
    fused_shape a = shapes[p->result[0]], b = shapes[p->result[r]];
    equal &= pf_same_dims(a.dims, a.nd, b.dims, b.nd);
  }
  if (equal) return run_results(c, t, shapes[p->result[0]]);
  for (int32_t r = 0; r < p->n_results; r++) {
    for (int32_t k = 0; k < p->n_results; k++) t->wanted[k] = k == r;
    t->again = r + 1 < p->n_results;
    PF_TRY(run_results(c, t, shapes[p->result[r]]));
  }
  return PF_OK;
}

/* The input whose shape is the result's when the others are scalars or lie along its last axes, or
 * NULL: shapes must be inferred. */
static const DLTensor *whole_input(pf_ctx *c, const fused_program *p) {
  const DLTensor *whole = c->in[0];
  for (int32_t i = 1; i < c->n_in; i++)
    if (c->in[i]->ndim > whole->ndim) whole = c->in[i];
  if (whole->ndim > PF_MAX_DIMS) return NULL;
  int32_t vary = p->strict || p->n_results > 1 || p->unread;
  for (int32_t i = 0; i < c->n_in; i++) {
    const DLTensor *x = c->in[i];
    int32_t skip = whole->ndim - x->ndim;
    if (x == whole) continue;
    if ((skip && vary) || !pf_same_dims(x->shape, x->ndim, whole->shape + skip, x->ndim))
      return NULL;
  }
  return whole;
}

pf_status fused_compute(pf_ctx *c, const void *state) {
  const fused_state *s = (const fused_state *)state;
  fused_task t;
  t.s = s, t.n_in = c->n_in, t.n_out = c->n_out, t.esize = s->kind == FUSED_F64 ? 8 : 4;
  t.again = 0;
  for (int32_t r = 0; r < c->n_out; r++) t.wanted[r] = 1;
  const DLTensor *whole = whole_input(c, &s->program);
  if (!whole) return run_shaped(c, &t);
  return run_results(c, &t, (fused_shape){whole->shape, whole->ndim});
}
