/* accumulator.c - ConditionalAccumulator, SparseConditionalAccumulator and what applies gradients
 * to them, takes their mean, sets their step and counts: gradients are summed until enough came.
 *
 * Invariants
 *   1. A gradient of a step before the accumulator's own is dropped.
 *   2. Taking the mean makes the accumulator empty and its step one more.
 *   3. A sparse mean divides each row by the number of gradients that had it; rows are merged as TF
 *      merges them, both lists of indices taken to be in increasing order.
 *   4. Gradients that name their source (_AccumulatorApplyFrom and its like) are kept apart, each
 *      source's first of a step alone, and summed in the order of sources when they are taken: the
 *      sum's bits do not depend on who came when, nor on what came twice.  Those of another step
 *      than the accumulator's, earlier or later, are dropped.
 * Threads: `lock` (waiting.h) guards all fields but those set when it is made.
 *
 * Source: TF 1.15 ConditionalAccumulatorBase, SparseConditionalAccumulator.
 */
#include "queue/waiting.h"

typedef struct held held;
/* a gradient of a source, kept until it is taken */
struct held {
  held *next;
  int64_t source, rows, dims[PF_MAX_DIMS];
  DLTensor value, index; /* their data follow this struct */
};
typedef struct {
  pf_waited base;
  int32_t dtype, sparse, sum, ndim; /* ndim -1: of any shape */
  int64_t dims[PF_MAX_DIMS];
  int64_t step, count;
  int64_t shape[PF_MAX_DIMS]; /* of the sum, if count */
  int32_t rank;
  char *total;               /* pf_numel(shape) elements */
  int64_t *index, *times, n; /* sparse: the rows, and how many gradients had each */
  held *held;                /* of sources, in their order; then there is no total */
} accumulator;
typedef struct {
  pf_str container, shared_name, reduction_type;
  pf_shape shape;
  int32_t dtype, sparse;
} make_state;

static void drop_held(accumulator *a) {
  for (held *h = a->held, *next; h; h = next) next = h->next, free(h);
  a->held = NULL;
}
static void forget(accumulator *a) {
  free(a->total);
  free(a->index);
  free(a->times);
  drop_held(a);
  a->total = NULL, a->index = a->times = NULL;
  a->n = a->count = 0;
}
static void accumulator_free(pf_waited *w) {
  forget((accumulator *)w);
  free(w);
}
static void accumulator_tell(void *obj, pf_wait_state *to);
static const pf_type accumulator_type = {
  sizeof(pf_type), 0, "pyflow.Accumulator", pf_waited_unref, pf_waited_abort, accumulator_tell};

static pf_status make(pf_ctx *c, void *arg, void **obj) {
  const make_state *s = arg;
  accumulator *a = calloc(1, sizeof *a);
  if (!a) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an accumulator");
  pf_waited_init(&a->base, accumulator_free);
  a->dtype = s->dtype, a->sparse = s->sparse;
  a->sum = s->reduction_type.len == 3 && !memcmp(s->reduction_type.data, "SUM", 3);
  a->ndim = s->shape.ndim;
  for (int32_t k = 0; k < a->ndim; k++) a->dims[k] = s->shape.dims[k];
  *obj = a;
  return PF_OK;
}
static pf_status open_accumulator(pf_ctx *c, const void *state) {
  make_state *s = (make_state *)state;
  void *obj;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, s->container, name, &accumulator_type, make, s,
                           &obj));
  const accumulator *a = obj;
  if (a->dtype != s->dtype || a->sparse != s->sparse || a->ndim != s->shape.ndim ||
      (a->ndim > 0 && memcmp(a->dims, s->shape.dims, (size_t)a->ndim * sizeof *a->dims)))
    return PF_INVALID(c,
                      "Shared accumulator '%.*s' has another kind, dtype or shape than this "
                      "node asks for: it has "
                      "%s %s",
                      (int)PF_MIN(name.len, 300), name.data, a->sparse ? "sparse" : "dense",
                      pf_type_name(a->dtype));
  return c->host->resource_output(c, 0, s->container, name, &accumulator_type, make, s);
}
static pf_status init_any(pf_ctx *c, make_state *s, int32_t sparse) {
  s->sparse = sparse;
  if (s->shape.ndim > PF_MAX_DIMS)
    return PF_INVALID(c,
                      "an accumulator's shape has at most %d "
                      "dimensions",
                      PF_MAX_DIMS);
  return PF_OK;
}
static pf_status init_dense(pf_ctx *c, void *s) { return init_any(c, s, 0); }
static pf_status init_sparse(pf_ctx *c, void *s) { return init_any(c, s, 1); }

static pf_status accumulator_of(pf_ctx *c, accumulator **a, int32_t sparse) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &accumulator_type, &obj));
  *a = obj;
  if (sparse >= 0 && (*a)->sparse != sparse)
    return PF_INVALID(c, "this accumulator is %s, the operation is for %s ones",
                      sparse ? "dense" : "sparse", sparse ? "sparse" : "dense");
  return PF_OK;
}
static pf_status check_dtype(pf_ctx *c, const accumulator *a, int32_t type) {
  if (a->dtype == type) return PF_OK;
  return PF_INVALID(c, "this accumulator holds %s, the operation is for %s", pf_type_name(a->dtype),
                    pf_type_name(type));
}

/* ---------------------------------------------------------------- arithmetic */
typedef struct {
  float (*from)(uint16_t);
  uint16_t (*to)(float);
} half_type;
static float from_half(uint16_t h) { return pf_from_half(h); }
static float from_bf16(uint16_t h) { return pf_from_bf16(h); }
static uint16_t to_half(float x) { return pf_to_half(x); }
static uint16_t to_bf16(float x) { return pf_to_bf16(x); }
static half_type half_of(int32_t type) {
  if (type == PF_FLOAT16) return (half_type){from_half, to_half};
  return (half_type){from_bf16, to_bf16};
}
static void add_to(int32_t type, void *to, const void *x, int64_t n) {
  half_type h = half_of(type);
  uint16_t *y = to;
  const uint16_t *z = x;
  if (type == PF_FLOAT32)
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] += ((const float *)x)[i];
  else if (type == PF_FLOAT64)
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] += ((const double *)x)[i];
  else
    for (int64_t i = 0; i < n; i++) y[i] = h.to(h.from(y[i]) + h.from(z[i]));
}
static void divide(int32_t type, void *to, int64_t n, int64_t by) {
  half_type h = half_of(type);
  uint16_t *y = to;
  float rounded = h.from(h.to((float)by));
  if (type == PF_FLOAT32)
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] /= (float)by;
  else if (type == PF_FLOAT64)
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] /= (double)by;
  else
    for (int64_t i = 0; i < n; i++) y[i] = h.to(h.from(y[i]) / rounded);
}

/* ---------------------------------------------------------------- applying */
static int fits(const int64_t *dims, int32_t ndim, const DLTensor *t) {
  if (ndim < 0) return 1;
  if (ndim != t->ndim) return 0;
  for (int32_t k = 0; k < ndim; k++)
    if (dims[k] >= 0 && dims[k] != t->shape[k]) return 0;
  return 1;
}
static pf_status no_memory(pf_ctx *c) {
  return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an accumulator's sum");
}
/* with the lock */
static pf_status add_dense(pf_ctx *c, accumulator *a, const DLTensor *g) {
  int64_t bytes = pf_numel(g) * pf_type_size(a->dtype);
  if (!fits(a->count ? a->shape : a->dims, a->count ? a->rank : a->ndim, g)) {
    pf_text want = a->count ? pf_shape_text(a->shape, a->rank) : pf_shape_text(a->dims, a->ndim);
    return PF_INVALID(c, "Shape mismatch: expected %s, got %s", want.s, PF_SHAPE(g).s);
  }
  if (a->count) add_to(a->dtype, a->total, PF_DATA(const char, g), pf_numel(g));
  else {
    if (!(a->total = malloc((size_t)PF_MAX(bytes, 1)))) return no_memory(c);
    memcpy(a->total, PF_DATA(const char, g), (size_t)bytes);
    memcpy(a->shape, g->shape, (size_t)g->ndim * sizeof *a->shape);
    a->rank = g->ndim;
  }
  a->count++;
  return PF_OK;
}
/* the inputs of a sparse gradient: indices, values, shape */
static pf_status check_sparse(pf_ctx *c, const accumulator *a, const DLTensor *index,
                              const DLTensor *g, const DLTensor *shape, int32_t known) {
  if (index->ndim != 1)
    return PF_INVALID(c,
                      "Input indices should be vector but received shape: "
                      "%s",
                      PF_SHAPE(index).s);
  if (g->ndim < 1) return PF_INVALID(c, "Values cannot be 0-dimensional.");
  if (g->shape[0] != index->shape[0])
    return PF_INVALID(c, "Expected %" PRId64 " non-empty input values, got %" PRId64,
                      index->shape[0], g->shape[0]);
  if (g->ndim > PF_MAX_DIMS)
    return PF_INVALID(c, "values have more than %d dimensions", PF_MAX_DIMS);
  int32_t rank = a->count ? a->rank : a->ndim;
  const int64_t *dims = a->count ? a->shape : a->dims;
  if (a->count ? rank != g->ndim : rank > g->ndim)
    return PF_INVALID(c, "Shape mismatch: expected values rank %s%d, got %d",
                      a->count ? "" : "at least ", rank, g->ndim);
  for (int32_t k = 1; k < rank; k++)
    if (dims[k] >= 0 && dims[k] != g->shape[k])
      return PF_INVALID(c, "Shape mismatch: expected values dim %d to be %" PRId64 ", got %" PRId64,
                        k, dims[k], g->shape[k]);
  if (!known) return PF_OK;
  if (shape->ndim != 1 || a->ndim > shape->shape[0])
    return PF_INVALID(c, "Shape mismatch: expected shape rank at least %d, got %s", a->ndim,
                      PF_SHAPE(shape).s);
  for (int32_t k = 0; k < a->ndim; k++)
    if (a->dims[k] >= 0 && a->dims[k] != PF_DATA(const int64_t, shape)[k])
      return PF_INVALID(c, "Shape mismatch: expected shape dim %d to be %" PRId64 ", got %" PRId64,
                        k, a->dims[k], PF_DATA(const int64_t, shape)[k]);
  return PF_OK;
}
/* with the lock: the rows of both in one list */
static pf_status add_sparse(pf_ctx *c, accumulator *a, const DLTensor *index, const DLTensor *g) {
  int64_t m = index->shape[0], row = pf_product(g->shape, 1, g->ndim),
          bytes = row * pf_type_size(a->dtype), all, size;
  if (!pf_mul(a->n + m, PF_MAX(bytes, 1), &all) || !pf_mul(a->n + m, 8, &size)) return no_memory(c);
  const int64_t *x = PF_DATA(const int64_t, index);
  const char *v = PF_DATA(const char, g);
  int64_t *to = malloc((size_t)size + 1), *times = malloc((size_t)size + 1), n = 0, i = 0, j = 0;
  char *total = malloc((size_t)all + 1);
  if (!to || !times || !total) return free(to), free(times), free(total), no_memory(c);
  for (; i < a->n || j < m; n++) {
    int32_t mine = i < a->n && (j == m || a->index[i] <= x[j]);
    int32_t its = j < m && (i == a->n || x[j] <= a->index[i]);
    to[n] = mine ? a->index[i] : x[j];
    times[n] = (mine ? a->times[i] : 0) + its;
    memcpy(total + n * bytes, mine ? a->total + i * bytes : v + j * bytes, (size_t)bytes);
    if (mine && its) add_to(a->dtype, total + n * bytes, v + j * bytes, row);
    i += mine, j += its;
  }
  free(a->total), free(a->index), free(a->times);
  a->total = total, a->index = to, a->times = times, a->n = n;
  memcpy(a->shape, g->shape, (size_t)g->ndim * sizeof *a->shape);
  a->rank = g->ndim;
  a->count++;
  return PF_OK;
}
/* ---------------------------------------------------------------- of sources */
typedef struct { int64_t index, at; } row;
static int row_order(const void *a, const void *b) {
  const row *x = a, *y = b;
  if (x->index != y->index) return x->index < y->index ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}
/* Rows in increasing order, those of one index summed in the order in which they came. */
static void copy_rows(held *h, row *rows, int32_t dtype, const DLTensor *index, const DLTensor *g) {
  int64_t n = index->shape[0], size = pf_product(g->shape, 1, g->ndim),
          bytes = size * pf_type_size(dtype), *to = h->index.data;
  char *values = h->value.data;
  const char *from = PF_DATA(const char, g);
  for (int64_t i = 0; i < n; i++) rows[i] = (row){PF_DATA(const int64_t, index)[i], i};
  qsort(rows, (size_t)n, sizeof *rows, row_order);
  h->rows = 0;
  for (int64_t i = 0; i < n; i++) {
    const char *v = from + rows[i].at * bytes;
    if (h->rows && to[h->rows - 1] == rows[i].index)
      add_to(dtype, values + (h->rows - 1) * bytes, v, size);
    else {
      memcpy(values + h->rows * bytes, v, (size_t)bytes);
      to[h->rows++] = rows[i].index;
    }
  }
  h->dims[0] = h->rows;
}
static held *held_new(int64_t source, int32_t dtype, const DLTensor *index, const DLTensor *g) {
  int64_t bytes = pf_numel(g) * pf_type_size(dtype), n = index ? index->shape[0] : 0;
  held *h = malloc(sizeof *h + (size_t)bytes + (size_t)n * 8);
  row *rows = h && index ? malloc((size_t)n * sizeof *rows + 1) : NULL;
  if (!h || (index && !rows)) return free(h), NULL;
  *h = (held){.source = source, .value = *g};
  memcpy(h->dims, g->shape, (size_t)g->ndim * sizeof *h->dims);
  if (index) h->index = *index;
  h->index.data = h + 1, h->index.shape = &h->rows;
  h->value.data = (char *)(h + 1) + n * 8, h->value.shape = h->dims;
  h->value.byte_offset = h->index.byte_offset = 0;
  h->value.strides = h->index.strides = NULL;
  if (index) copy_rows(h, rows, dtype, index, g);
  else memcpy(h->value.data, PF_DATA(const char, g), (size_t)bytes);
  free(rows);
  return h;
}
/* with the lock: keeps a gradient whose step is the accumulator's, the source's first */
static pf_status hold(pf_ctx *c, accumulator *a, int64_t source, const DLTensor *index,
                      const DLTensor *g) {
  held **at = &a->held;
  if (a->count && !a->held)
    return PF_INVALID(c, "this accumulator has gradients that name no source: either all name "
                         "theirs, or none");
  while (*at && (*at)->source < source) at = &(*at)->next;
  if (*at && (*at)->source == source) return PF_OK;
  if (!index &&
      !fits(a->held ? a->held->value.shape : a->dims, a->held ? a->held->value.ndim : a->ndim, g)) {
    pf_text want = a->held ? PF_SHAPE(&a->held->value) : pf_shape_text(a->dims, a->ndim);
    return PF_INVALID(c, "Shape mismatch: expected %s, got %s", want.s, PF_SHAPE(g).s);
  }
  held *h = held_new(source, a->dtype, index, g);
  if (!h) return no_memory(c);
  h->next = *at, *at = h;
  a->count++;
  memcpy(a->shape, g->shape, (size_t)g->ndim * sizeof *a->shape);
  a->rank = g->ndim;
  return PF_OK;
}
/* what was taken: its gradients summed in the order of their sources */
static pf_status sum_held(pf_ctx *c, accumulator *a) {
  pf_status st = PF_OK;
  a->count = 0;
  for (held *h = a->held; h && !st; h = h->next)
    st = a->sparse ? add_sparse(c, a, &h->index, &h->value) : add_dense(c, a, &h->value);
  drop_held(a);
  return st;
}

enum { ANY_SOURCE = 0, OF_SOURCE = 1 }; /* OF_SOURCE: an input `source` comes after local_step */
static pf_status apply_any(pf_ctx *c, int32_t sparse, int32_t known, int32_t of_source) {
  accumulator *a;
  int32_t at = 2 + of_source; /* the gradient's first input */
  int64_t source = 0;
  PF_TRY(accumulator_of(c, &a, sparse));
  PF_TRY(check_dtype(c, a, c->in_type[sparse ? at + 1 : at]));
  if (c->in[1]->ndim)
    return PF_INVALID(c,
                      "Argument local_step must be scalar, but had bad shape "
                      "%s",
                      PF_SHAPE(c->in[1]).s);
  if (of_source) PF_TRY(pf_in_scalar(c, 2, "Argument source", &source));
  int64_t step = pf_in_index(c, 1, 0);
  const DLTensor *g = c->in[sparse ? at + 1 : at], *index = sparse ? c->in[at] : NULL;
  pf_attempt *over = NULL;
  pf_status st = PF_OK;
  pthread_mutex_lock(&a->base.lock);
  if (of_source ? step == a->step : step >= a->step) {
    if (sparse) st = check_sparse(c, a, index, g, c->in[at + 2], known);
    if (!st && of_source) st = hold(c, a, source, index, g);
    else if (!st && a->held)
      st = PF_INVALID(c, "this accumulator has gradients that name their source, and this one "
                         "names none: either all do, or none");
    else if (!st) st = sparse ? add_sparse(c, a, index, g) : add_dense(c, a, g);
  }
  pf_waited_settle(&a->base, &over);
  pthread_mutex_unlock(&a->base.lock);
  pf_attempts_end(over);
  return st;
}
static pf_status apply_dense(pf_ctx *c, const void *s) {
  return (void)s, apply_any(c, 0, 0, ANY_SOURCE);
}
static pf_status apply_sparse(pf_ctx *c, const void *known) {
  return apply_any(c, 1, *(const int32_t *)known, ANY_SOURCE);
}
static pf_status apply_dense_from(pf_ctx *c, const void *s) {
  return (void)s, apply_any(c, 0, 0, OF_SOURCE);
}
static pf_status apply_sparse_from(pf_ctx *c, const void *known) {
  return apply_any(c, 1, *(const int32_t *)known, OF_SOURCE);
}

/* ---------------------------------------------------------------- taking */
/* at: the step that is taken, or ANY_STEP; got: the sum, moved */
typedef struct {
  pf_attempt base;
  int64_t wanted, at;
  accumulator got;
} take_attempt;
#define ANY_STEP INT64_MIN
static int take_run(pf_attempt *base) {
  take_attempt *t = (take_attempt *)base;
  accumulator *a = (accumulator *)base->on;
  if (t->at != ANY_STEP && t->at != a->step) return base->status = PF_ABORTED, PF_OVER;
  if (a->count < t->wanted) return PF_WAITS;
  t->got = *a;
  a->total = NULL, a->index = a->times = NULL, a->held = NULL;
  a->n = a->count = 0;
  a->step++;
  return PF_OVER;
}
static pf_status deliver_shape(pf_ctx *c, const accumulator *a) {
  int64_t rank = a->rank;
  DLTensor *y = c->host->output(c, 2, &rank, 1);
  PF_EXHAUSTED(y);
  int64_t rows = a->ndim > 0 ? a->dims[0] : -1; /* as declared; values have those that came */
  for (int32_t k = 0; k < a->rank; k++) PF_DATA(int64_t, y)[k] = k ? a->shape[k] : rows;
  return PF_OK;
}
static pf_status take_deliver(pf_ctx *c, pf_attempt *base) {
  accumulator *a = &((take_attempt *)base)->got;
  if (base->status == PF_ABORTED && base->taken != PF_RESET)
    return pf_fail(c, PF_ABORTED,
                   "the accumulator is at another step than this operation takes: "
                   "another chief took its place, or the training went back to a checkpoint");
  if (base->status)
    return pf_fail(c, base->status,
                   "the accumulator was reset, or its session "
                   "closed");
  if (a->held) PF_TRY(sum_held(c, a));
  int64_t size = pf_type_size(a->dtype), row;
  if (a->sparse) a->shape[0] = a->n;
  row = pf_product(a->shape, 1, a->rank);
  DLTensor *y = pf_output_checked(c, a->sparse ? 1 : 0, a->shape, a->rank);
  PF_EXHAUSTED(y);
  if (!a->sum && !a->sparse) divide(a->dtype, a->total, pf_numel(y), a->count);
  for (int64_t i = 0; i < a->n && !a->sum; i++)
    divide(a->dtype, a->total + i * row * size, row, a->times[i]);
  memcpy(PF_DATA(char, y), a->total, (size_t)(pf_numel(y) * size));
  if (!a->sparse) return PF_OK;
  DLTensor *index = c->host->output(c, 0, &a->n, 1);
  PF_EXHAUSTED(index);
  memcpy(PF_DATA(char, index), a->index, (size_t)a->n * sizeof *a->index);
  return deliver_shape(c, a);
}
static void take_clear(pf_attempt *base) {
  take_attempt *t = (take_attempt *)base;
  forget(&t->got);
}
static const pf_attempt_kind take_kind = {
  sizeof(take_attempt), PF_TAKES,  "TakeGrad operation was cancelled", take_run, NULL,
  take_deliver,         take_clear};
static pf_status take_any(pf_ctx *c, int32_t sparse, int32_t at_step) {
  accumulator *a;
  PF_TRY(accumulator_of(c, &a, sparse));
  PF_TRY(check_dtype(c, a, c->out_type[sparse]));
  take_attempt t = {.base.kind = &take_kind, .at = ANY_STEP};
  PF_TRY(pf_in_scalar(c, 1, "Argument num_required", &t.wanted));
  if (t.wanted <= 0)
    return PF_INVALID(c, "Argument num_required must be positive, but was %" PRId64, t.wanted);
  if (at_step) PF_TRY(pf_in_scalar(c, 2, "Argument step", &t.at));
  return pf_attempt_start(c, &a->base, &t.base);
}
static pf_status take_dense(pf_ctx *c, const void *s) { return (void)s, take_any(c, 0, 0); }
static pf_status take_sparse(pf_ctx *c, const void *s) { return (void)s, take_any(c, 1, 0); }
static pf_status take_dense_at(pf_ctx *c, const void *s) { return (void)s, take_any(c, 0, 1); }
static pf_status take_sparse_at(pf_ctx *c, const void *s) { return (void)s, take_any(c, 1, 1); }

/* What the first take that waits lacks. */
static void accumulator_tell(void *obj, pf_wait_state *to) {
  accumulator *a = obj;
  pthread_mutex_lock(&a->base.lock);
  const take_attempt *t = (const take_attempt *)a->base.side[PF_TAKES].first;
  to->there = a->count, to->needed = t ? t->wanted : 0;
  for (const held *h = a->held; h && to->n_sources < PF_MOST_TOLD; h = h->next)
    to->sources[to->n_sources++] = h->source;
  int64_t step = a->step & ((1LL << 40) - 1); /* of a gate's label, too */
  snprintf(to->takes, sizeof to->takes,
           "accumulator with %" PRId64 " of %" PRId64 " gradients for "
           "step %" PRId64,
           to->there, to->needed, step);
  pthread_mutex_unlock(&a->base.lock);
}

static pf_status count(pf_ctx *c, const void *s) {
  accumulator *a;
  (void)s;
  PF_TRY(accumulator_of(c, &a, -1));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&a->base.lock);
  PF_DATA(int32_t, y)[0] = (int32_t)a->count;
  pthread_mutex_unlock(&a->base.lock);
  return PF_OK;
}
static pf_status set_step(pf_ctx *c, const void *s) {
  accumulator *a;
  int64_t step;
  (void)s;
  PF_TRY(accumulator_of(c, &a, -1));
  PF_TRY(pf_in_scalar(c, 1, "Argument new_global_step", &step));
  pf_attempt *over = NULL;
  pthread_mutex_lock(&a->base.lock);
  if (a->held && a->step != step) drop_held(a), a->count = 0;
  a->step = step;
  pf_waited_settle(&a->base, &over);
  pthread_mutex_unlock(&a->base.lock);
  pf_attempts_end(over);
  return PF_OK;
}

#define TYPES "dtype=float|double|half|bfloat16"
#define TAKES (PF_KERNEL_ASYNC | PF_KERNEL_TAKES)
#define SAME PF_KERNEL_DETERMINISTIC    /* sums in the order of sources */
#define MAKE(op_, init_) PF_CPU_FLAGS(op_, TYPES, SAME, .init = init_, \
  .compute = open_accumulator, .state_size = sizeof(make_state), .attrs = PF_ATTRS( \
    PF_ATTR(make_state, PF_ATTR_STRING, container), PF_ATTR(make_state, PF_ATTR_STRING, \
                                                            shared_name), \
    PF_ATTR(make_state, PF_ATTR_STRING, reduction_type), PF_ATTR(make_state, PF_ATTR_TYPE, dtype), \
    PF_ATTR(make_state, PF_ATTR_SHAPE, shape)))
const pf_kernel *const accumulator_kernels[] = {
  MAKE("ConditionalAccumulator", init_dense),
  MAKE("ResourceConditionalAccumulator", init_dense),
  MAKE("SparseConditionalAccumulator", init_sparse),
  PF_CPU_FLAGS("AccumulatorApplyGradient", TYPES, PF_KERNEL_PUTS, .compute = apply_dense),
  PF_CPU_FLAGS("ResourceAccumulatorApplyGradient", TYPES, PF_KERNEL_PUTS, .compute = apply_dense),
  PF_CPU_FLAGS("SparseAccumulatorApplyGradient", TYPES, PF_KERNEL_PUTS, .compute = apply_sparse,
               .state_size = 8,
               .attrs = PF_ATTRS(PF_REF(pf_attr, "has_known_shape", PF_ATTR_BOOL, 0))),
  PF_CPU_FLAGS("_AccumulatorApplyFrom", TYPES, SAME | PF_KERNEL_PUTS, .compute = apply_dense_from),
  PF_CPU_FLAGS("_SparseAccumulatorApplyFrom", TYPES, SAME | PF_KERNEL_PUTS,
               .compute = apply_sparse_from, .state_size = 8,
               .attrs = PF_ATTRS(PF_REF(pf_attr, "has_known_shape", PF_ATTR_BOOL, 0))),
  PF_CPU_FLAGS("_AccumulatorTakeAt", TYPES, SAME | TAKES, .compute = take_dense_at),
  PF_CPU_FLAGS("_SparseAccumulatorTakeAt", TYPES, SAME | TAKES, .compute = take_sparse_at),
  PF_CPU_FLAGS("AccumulatorTakeGradient", TYPES, TAKES, .compute = take_dense),
  PF_CPU_FLAGS("ResourceAccumulatorTakeGradient", TYPES, TAKES, .compute = take_dense),
  PF_CPU_FLAGS("SparseAccumulatorTakeGradient", TYPES, TAKES, .compute = take_sparse),
  PF_CPU_FLAGS("AccumulatorNumAccumulated", NULL, 0, .compute = count),
  PF_CPU_FLAGS("ResourceAccumulatorNumAccumulated", NULL, 0, .compute = count),
  PF_CPU_FLAGS("AccumulatorSetGlobalStep", NULL, SAME, .compute = set_step),
  PF_CPU_FLAGS("ResourceAccumulatorSetGlobalStep", NULL, SAME, .compute = set_step),
  NULL};
