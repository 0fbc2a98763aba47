/* basics.c - outputs, attributes, lists, strings, constants, threads, shape and cost functions. */
#include "exercise.h"

/* ---------------------------------------------------------------- outputs: output, forward, alias, scratch, set_output, retain */
static pf_status copy_through_scratch(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  uint64_t bytes = (uint64_t)pf_numel(x) * sizeof(float);
  float *room = c->host->scratch(c, bytes ? bytes : 1, 64);
  DLTensor *y = pf_output_like(c, 0, x);
  if (!room || !y) return PF_RESOURCE_EXHAUSTED;
  if ((uintptr_t)room % 64) return pf_fail(c, PF_INTERNAL, "scratch is not aligned");
  memcpy(room, PF_DATA(float, x), bytes);
  memcpy(PF_DATA(float, y), room, bytes);
  return PF_OK;
}

static pf_status twice_in_place(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  const float *from = PF_DATA(const float, x);
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(y); i++) PF_DATA(float, y)[i] = 2 * from[i];
  return scalar_int(c, 1, PF_DATA(float, y) == from);
}

static pf_status flatten(pf_ctx *c, const void *s) {
  int64_t n = pf_numel(c->in[0]);
  return c->host->alias(c, 0, 0, &n, 1);
}

/* A tensor made outside the output call, published; and an input kept alive and handed on. */
static pf_status publish(pf_ctx *c, const void *s) {
  int64_t shape[2] = {2, 3};
  DLManagedTensorVersioned *t = c->host->tensor_new(c->host, NULL, PF_MEM_DEVICE, PF_INT32, shape, 2);
  if (!t) return PF_RESOURCE_EXHAUSTED;
  for (int i = 0; i < 6; i++) PF_DATA(int32_t, &t->dl_tensor)[i] = i * i;
  if (c->host->type_of(t) != PF_INT32) return pf_fail(c, PF_INTERNAL, "type_of disagrees with tensor_new");
  pf_status st = c->host->set_output(c, 0, t);
  return st ? st : c->host->set_output(c, 1, c->host->retain(c, 0));
}

static pf_status refuse(pf_ctx *c, const void *s) {
  c->host->log(PF_LOG_INFO, "about to refuse", 15);
  return pf_fail(c, PF_FAILED_PRECONDITION, "exercise refuses on purpose");
}

/* ---------------------------------------------------------------- attributes of every kind, in order of kernel.h */
typedef struct {
  int64_t i; double f; int32_t b; pf_str s; int32_t t; pf_shape sh; pf_const te; pf_str fn;
  pf_list li, lf, lb, ls, lt, lsh;
  int64_t defaulted;
} attrs;

static int add_shape(char *to, size_t room, pf_shape s) {
  int n = snprintf(to, room, "[");
  for (int i = 0; i < s.ndim; i++) n += snprintf(to + n, room - n, "%s%lld", i ? "," : "", (long long)s.dims[i]);
  return n + snprintf(to + n, room - n, s.ndim < 0 ? "?]" : "]");
}
static pf_status describe(pf_ctx *c, const void *state) {
  const attrs *a = state;
  char out[1024];
  int n = snprintf(out, sizeof out, "i=%lld f=%g b=%d s=%.*s t=%d sh=", (long long)a->i, a->f, a->b, (int)a->s.len, a->s.data, a->t);
  n += add_shape(out + n, sizeof out - n, a->sh);
  n += snprintf(out + n, sizeof out - n, " te=%d:%lld:%g fn=%.*s li=", a->te.type, (long long)pf_numel(a->te.tensor),
                PF_DATA(float, a->te.tensor)[1], (int)a->fn.len, a->fn.data);
  for (int i = 0; i < a->li.n; i++) n += snprintf(out + n, sizeof out - n, "%lld,", (long long)((const int64_t *)a->li.items)[i]);
  n += snprintf(out + n, sizeof out - n, " lf=");
  for (int i = 0; i < a->lf.n; i++) n += snprintf(out + n, sizeof out - n, "%g,", ((const double *)a->lf.items)[i]);
  n += snprintf(out + n, sizeof out - n, " lb=");
  for (int i = 0; i < a->lb.n; i++) n += snprintf(out + n, sizeof out - n, "%d,", ((const int32_t *)a->lb.items)[i]);
  n += snprintf(out + n, sizeof out - n, " ls=");
  for (int i = 0; i < a->ls.n; i++)
    n += snprintf(out + n, sizeof out - n, "%.*s,", (int)((const pf_str *)a->ls.items)[i].len, ((const pf_str *)a->ls.items)[i].data);
  n += snprintf(out + n, sizeof out - n, " lt=");
  for (int i = 0; i < a->lt.n; i++) n += snprintf(out + n, sizeof out - n, "%d,", ((const int32_t *)a->lt.items)[i]);
  n += snprintf(out + n, sizeof out - n, " lsh=");
  for (int i = 0; i < a->lsh.n; i++) n += add_shape(out + n, sizeof out - n, ((const pf_shape *)a->lsh.items)[i]);
  snprintf(out + n, sizeof out - n, " d=%lld", (long long)a->defaulted);
  return scalar_string(c, 0, out);
}
#define A(kind, field) PF_ATTR(attrs, kind, field)
static const pf_attr *const all_attrs[] = {
  A(PF_ATTR_INT, i), A(PF_ATTR_FLOAT, f), A(PF_ATTR_BOOL, b), A(PF_ATTR_STRING, s), A(PF_ATTR_TYPE, t), A(PF_ATTR_SHAPE, sh),
  A(PF_ATTR_TENSOR, te), A(PF_ATTR_FUNC, fn), A(PF_ATTR_LIST | PF_ATTR_INT, li), A(PF_ATTR_LIST | PF_ATTR_FLOAT, lf),
  A(PF_ATTR_LIST | PF_ATTR_BOOL, lb), A(PF_ATTR_LIST | PF_ATTR_STRING, ls), A(PF_ATTR_LIST | PF_ATTR_TYPE, lt),
  A(PF_ATTR_LIST | PF_ATTR_SHAPE, lsh), A(PF_ATTR_INT, defaulted), 0 };

/* ---------------------------------------------------------------- lists of arguments, of one type and of many */
static pf_status reversed(pf_ctx *c, const void *s) {
  int32_t n = c->in_start[1] - c->in_start[0];
  if (c->n_in_args != 2 || c->n_out_args != 2 || c->out_start[1] - c->out_start[0] != n)
    return pf_fail(c, PF_INTERNAL, "argument ranges are wrong");
  for (int32_t k = 0; k < n; k++) {
    pf_status st = c->host->alias(c, c->in_start[0] + n - 1 - k, c->out_start[0] + k, c->in[n - 1 - k]->shape, c->in[n - 1 - k]->ndim);
    if (st) return st;
  }
  int64_t types = 0;
  for (int32_t k = c->in_start[1]; k < c->in_start[2]; k++) types = types * 100 + c->in_type[k];
  return scalar_int(c, c->out_start[1], types);
}

/* ---------------------------------------------------------------- strings */
static pf_status shout(pf_ctx *c, const void *s) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(y); i++) {
    pf_str x;
    pf_status st = c->host->str_get(c->in[0], i, &x);
    char *copy = c->host->scratch(c, (uint64_t)x.len + 1, 1);
    if (st || !copy) return st ? st : PF_RESOURCE_EXHAUSTED;
    for (int64_t k = 0; k < x.len; k++) copy[k] = x.data[k] >= 'a' && x.data[k] <= 'z' ? x.data[k] - 32 : x.data[k];
    if ((st = c->host->str_set(y, i, (pf_str){copy, x.len}))) return st;
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- a constant seen in init, then dropped */
typedef struct { float factor; int32_t dropped; } prepared;
static pf_status prepare(pf_ctx *c, void *state) {
  prepared *p = state;
  const DLTensor *factor = c->host->constant(c, 1);
  if (!factor) return PF_OK;
  p->factor = *PF_DATA(float, factor);
  p->dropped = c->host->drop_constant(c, 1) == PF_OK;
  return PF_OK;
}
static pf_status scale(pf_ctx *c, const void *state) {
  const prepared *p = state;
  if (p->dropped && c->in[1]) return pf_fail(c, PF_INTERNAL, "a dropped constant came back");
  float factor = p->dropped ? p->factor : *PF_DATA(float, c->in[1]);
  pf_status st = scalar_float(c, 0, *PF_DATA(float, c->in[0]) * factor);
  return st ? st : scalar_int(c, 1, p->dropped);
}
static atomic_int finished;
static void unprepare(void *state) { atomic_fetch_add(&finished, 1); }
static pf_status count_finished(pf_ctx *c, const void *s) { return scalar_int(c, 0, finished); }

/* Two kernels of one op: the one of higher priority declines vectors, politely. */
static pf_status decline_vectors(pf_ctx *c, void *state) { return *(int64_t *)state == 1 ? PF_DECLINE : PF_OK; }
static pf_status first_choice(pf_ctx *c, const void *s) { return scalar_string(c, 0, "first"); }
static pf_status second_choice(pf_ctx *c, const void *s) { return scalar_string(c, 0, "second"); }
typedef struct { int64_t rank; } rank_attr;

/* ---------------------------------------------------------------- threads */
typedef struct { const float *x; double part[64]; _Atomic int64_t seen; } sum_job;
static void sum_part(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  sum_job *j = arg;
  for (int64_t i = lo; i < hi; i++) j->part[worker] += j->x[i];
  atomic_fetch_add(&j->seen, hi - lo);
}
static pf_status parallel_sum(pf_ctx *c, const void *s) {
  sum_job j = {PF_DATA(const float, c->in[0]), {0}, 0};
  int32_t workers = c->host->workers(c);
  if (workers < 1 || workers > 64) return pf_fail(c, PF_INTERNAL, "workers() is out of range");
  pf_status st = c->host->parallel_for(c, pf_numel(c->in[0]), 1000, sum_part, &j);
  double total = 0;
  for (int i = 0; i < workers; i++) total += j.part[i];
  if (st || j.seen != pf_numel(c->in[0])) return st ? st : pf_fail(c, PF_INTERNAL, "parallel_for lost elements");
  return scalar_float(c, 0, (float)total);
}

/* ---------------------------------------------------------------- strings set again and again, by several threads */
typedef struct { pf_ctx *c; DLTensor *y; int64_t times; _Atomic int32_t wrong; } rewriting;
static void set_and_check(rewriting *j, int64_t i, pf_str value) {
  pf_str got;
  pf_status st = j->c->host->str_set(j->y, i, value);
  if (!st) st = j->c->host->str_get(j->y, i, &got);
  if (st || got.len != value.len || memcmp(got.data, value.data, (size_t)value.len) || got.data[got.len]) j->wrong = 1;
}
static void rewrite_part(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  rewriting *j = arg;
  char filler[5000];
  memset(filler, 'f', sizeof filler);
  for (int64_t i = lo; i < hi; i++) {
    pf_str x, own;
    if (j->c->host->str_get(j->c->in[0], i, &x)) j->wrong = 1;
    set_and_check(j, i, x);
    for (int64_t k = 0; k < j->times; k++) {
      set_and_check(j, i, (pf_str){filler, (i * 7919 + k * 104729) % (k % 50 ? 40 : 5000)});
      set_and_check(j, i, (pf_str){"", 0});
    }
    set_and_check(j, i, x);
    if (x.len > 1 && !j->c->host->str_get(j->y, i, &own)) {            /* the value is a part of what it replaces */
      own.data++, own.len--;
      if (j->c->host->str_set(j->y, i, own)) j->wrong = 1;
    }
  }
}
static pf_status rewrite(pf_ctx *c, const void *s) {
  const int64_t *times = s;
  rewriting j = {c, pf_output_like(c, 0, c->in[0]), *times, 0};
  pf_str x;
  if (!j.y) return PF_RESOURCE_EXHAUSTED;
  pf_status st = c->host->parallel_for(c, pf_numel(j.y), 50, rewrite_part, &j);
  if (c->host->str_get(j.y, pf_numel(j.y), &x) != PF_OUT_OF_RANGE || c->host->str_set(j.y, -1, x) != PF_OUT_OF_RANGE) j.wrong = 1;
  return st ? st : j.wrong ? pf_fail(c, PF_INTERNAL, "a string is not what was set") : PF_OK;
}

/* ---------------------------------------------------------------- where am I */
static pf_status where_am_i(pf_ctx *c, const void *s) {
  pf_str frame = {0, 0}, name = c->host->node_name(c);
  int64_t iteration = c->host->frame_iter(c, &frame);
  char out[256];
  snprintf(out, sizeof out, "%.*s|%lld|%d", (int)name.len, name.data, (long long)iteration, frame.len > 0);
  return scalar_string(c, 0, out);
}

/* ---------------------------------------------------------------- shape and cost functions */
static pf_status repeat_shape(pf_infer *f) { /* x [n], times (constant or not) -> [n * times]; refuses times over `limit` */
  const pf_host *h = the_host;
  const int64_t *dims;
  int32_t ndim;
  int64_t limit, n = -1;
  if (h->infer_n(f, 0) != 2 || h->infer_n(f, 1) != 1 || h->infer_type(f, 1) != PF_INT32) return h->infer_fail(f, "arity", 5);
  pf_status st = h->infer_dims(f, 0, &dims, &ndim);
  if (st || (st = h->infer_attr(f, "limit", PF_ATTR_INT, &limit))) return st;
  const DLTensor *times = h->infer_constant(f, 1);
  if (times && *PF_DATA(int32_t, times) > limit) return h->infer_fail(f, "times exceeds limit", 19);
  if (times && ndim == 1 && dims[0] >= 0) n = dims[0] * *PF_DATA(int32_t, times);
  return h->infer_set(f, 0, &n, 1);
}
static pf_status repeat_cost(pf_infer *f, double *flops, double *bytes) { *flops = 0; *bytes = 1e3; return PF_OK; }
static pf_status repeat(pf_ctx *c, const void *s) {
  int64_t n = pf_numel(c->in[0]), times = *PF_DATA(int32_t, c->in[1]), total = n * times;
  DLTensor *y = c->host->output(c, 0, &total, 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < total; i++) PF_DATA(float, y)[i] = PF_DATA(float, c->in[0])[i % n];
  return PF_OK;
}

const pf_op *const basic_ops[] = {
  OP("exercise.Copy", "x: float -> y: float"),
  OP("exercise.Twice", "x: float -> y: float, in_place: int64"),
  OP("exercise.Flatten", "x: T -> y: T; T: {float, int32}"),
  OP("exercise.Publish", "x: float -> y: int32, same: float"),
  OP("exercise.Refuse", "x: float -> y: float", .doc = "Fails."),
  OP("exercise.Describe", " -> text: string; i: int, f: float, b: bool, s: string, t: type, sh: shape, te: tensor, fn: func, "
     "li: list(int), lf: list(float), lb: list(bool), ls: list(string), lt: list(type), lsh: list(shape), defaulted: int = 42"),
  OP("exercise.Reversed", "xs: N * float, more: Tmore -> ys: N * float, types: int64; N: int >= 1, Tmore: list(type)"),
  OP("exercise.Shout", "x: string -> y: string"),
  OP("exercise.Rewrite", "x: string -> y: string; times: int"),
  OP("exercise.Scale", "x: float, factor: float -> y: float, dropped: int64"),
  OP("exercise.Finished", " -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.Choice", " -> which: string; rank: int"),
  OP("exercise.ParallelSum", "x: float -> y: float"),
  OP("exercise.WhereAmI", "x: float -> y: string", .flags = PF_OP_STATEFUL),
  OP("exercise.Repeat", "x: float, times: int32 -> y: float; limit: int = 10", .infer = repeat_shape),
  0 };

const pf_kernel *const basic_kernels[] = {
  KERNEL("exercise.Copy", copy_through_scratch),
  KERNEL("exercise.Twice", twice_in_place, .args = TABLE(pf_arg, PF_REF(pf_arg, "y", PF_MEM_DEVICE, 1))),
  KERNEL("exercise.Flatten", flatten, .where = "T=float|int32"),
  KERNEL("exercise.Publish", publish),
  KERNEL("exercise.Refuse", refuse),
  KERNEL("exercise.Describe", describe, .attrs = all_attrs, .state_size = sizeof(attrs)),
  KERNEL("exercise.Reversed", reversed),
  KERNEL("exercise.Shout", shout),
  KERNEL("exercise.Scale", scale, .init = prepare, .fini = unprepare, .state_size = sizeof(prepared)),
  KERNEL("exercise.Finished", count_finished),
  KERNEL("exercise.Choice", first_choice, .priority = 5, .init = decline_vectors, .state_size = sizeof(rank_attr),
         .attrs = TABLE(pf_attr, PF_ATTR(rank_attr, PF_ATTR_INT, rank))),
  KERNEL("exercise.Choice", second_choice),
  KERNEL("exercise.Choice", refuse, .priority = 9, .needs = "avx2,neon"),
  KERNEL("exercise.Rewrite", rewrite, .state_size = sizeof(int64_t), .flags = PF_KERNEL_EXPENSIVE,
         .attrs = TABLE(pf_attr, PF_REF(pf_attr, "times", PF_ATTR_INT, 0))),
  KERNEL("exercise.ParallelSum", parallel_sum, .flags = PF_KERNEL_EXPENSIVE),
  KERNEL("exercise.WhereAmI", where_am_i),
  KERNEL("exercise.Repeat", repeat, .cost = repeat_cost),
  0 };
