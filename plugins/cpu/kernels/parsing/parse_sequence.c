/* parse_sequence.c - ParseSequenceExample, ParseSequenceExampleV2, ParseSingleSequenceExample:
 * serialized tf.SequenceExamples to tensors: context features, and lists of features, a step each.
 *
 * Invariant: a list's steps are counted once, in `check_list`, and written as counted.
 * Threads: parallel_for over the examples.  Sources: features.h.
 */
#include "parsing/features.h"

typedef struct {
  pf_list context_dense_shapes, feature_list_dense_shapes;
  pf_list context_sparse_keys, context_dense_keys, feature_list_sparse_keys,
      feature_list_dense_keys, feature_list_dense_missing_assumed_empty;
} sequence_state;
typedef struct { int64_t steps, count, most, at_step, at_value; } list_size; /* most: of a step */
typedef struct {
  ex_batch batch;
  ex_features context, lists;
  list_size *sizes;            /* [examples][lists.n] */
  uint8_t *may_miss;           /* [lists.n] */
  int64_t *steps, *most_steps; /* [lists.n]: in all; the most of an example */
  int32_t out_lengths, failed;
} sequence_call;
static list_size *sizes_of(const sequence_call *p, int64_t example) {
  return p->sizes + example * p->lists.n;
}

/* ---------------------------------------------------------------- finding */
static int32_t check_list(const ex_wanted *w, const ex_feature *list, list_size *size,
                          ex_wrong *wrong) {
  ex_feature step;
  int64_t at = 0;
  int more;
  while ((more = ex_next_step(list->bytes, &at, &step)) > 0) {
    *wrong = (ex_wrong){.kind = step.kind, .saw = step.count, .step = size->steps, .in_list = 1};
    if (step.kind && ex_type(step.kind) != w->type) return EX_TYPE;
    if (w->role == EX_DENSE && step.count != w->stride) return EX_COUNT;
    size->steps++;
    size->count += step.count; /* each is a byte of the message, or more */
    size->most = PF_MAX(size->most, step.count);
  }
  return more < 0 ? EX_NO_MESSAGE : EX_FINE;
}
static void check_lists(const sequence_call *p, int64_t example, ex_wrong *wrong) {
  for (int32_t k = 0; k < p->lists.n && !wrong->why; k++) {
    const ex_feature *list = &ex_found(&p->lists, example)[k];
    ex_wrong found = {.in_list = 1};
    int32_t why = EX_FINE;
    if (list->there) why = check_list(&p->lists.want[k], list, &sizes_of(p, example)[k], &found);
    else if (p->lists.want[k].role == EX_DENSE && !p->may_miss[k]) why = EX_NO_LIST;
    if (!why) continue;
    *wrong = found;
    wrong->why = why, wrong->key = k;
  }
}
static void check_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  sequence_call *p = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    pf_str message;
    ex_wrong *wrong = &p->batch.wrong[i];
    if (p->batch.c->host->str_get(p->batch.serialized, i, &message) ||
        !ex_read_sequence(&p->context.table, &p->lists.table, message, ex_found(&p->context, i),
                          ex_found(&p->lists, i))) {
      wrong->why = EX_NO_MESSAGE;
      continue;
    }
    ex_check(&p->context, i, wrong);
    check_lists(p, i, wrong);
  }
}

/* ---------------------------------------------------------------- what is wrong */
static void explain_list(pf_bytes *b, const ex_wanted *w, const ex_wrong *wrong, const char *name,
                         const char *key) {
  if (wrong->why == EX_NO_LIST)
    pf_bytes_printf(b,
                    "Name: %s, Feature list '%s' is required but could not be found.  Did you "
                    "mean to include it in feature_list_dense_missing_assumed_empty or "
                    "feature_list_dense_defaults?",
                    name, key);
  else if (wrong->why == EX_TYPE)
    pf_bytes_printf(b,
                    "Name: %s, Feature list: %s, Index: %" PRId64 ".  Data types don't match. "
                    "Expected type: %s",
                    name, key, wrong->step, pf_type_name(w->type));
  else
    pf_bytes_printf(b,
                    "Name: %s, Key: %s, Index: %" PRId64 ".  Number of values != expected.  "
                    "values size: %" PRId64 " but output shape: %s",
                    name, key, wrong->step, wrong->saw,
                    pf_shape_text(w->shape.dims, w->shape.ndim).s);
}
static void explain_context(pf_bytes *b, const ex_wanted *w, const ex_wrong *wrong,
                            const char *name, const char *key) {
  if (wrong->why == EX_MISSING)
    pf_bytes_printf(b, "Feature: %s (data type: %s) is required but could not be found.", key,
                    pf_type_name(w->type));
  else if (wrong->why == EX_TYPE)
    pf_bytes_printf(b, "Name: %s, Context feature: %s.  Data types don't match. Expected type: %s",
                    name, key, pf_type_name(w->type));
  else
    pf_bytes_printf(b,
                    "Inconsistent max number of elements for feature %s: expected %" PRId64
                    ", but found %" PRId64,
                    key, w->stride, wrong->saw);
}
static pf_status explain(const sequence_call *p, const ex_wrong *wrong, int64_t example) {
  const ex_features *f = wrong->in_list ? &p->lists : &p->context;
  char name[120], key[120];
  pf_str of = ex_name(&p->batch, example), k = f->n ? f->keys[wrong->key] : (pf_str){"", 0};
  pf_bytes b = {0};
  snprintf(name, sizeof name, "%.*s", (int)PF_MIN(of.len, 100), of.data);
  snprintf(key, sizeof key, "%.*s", (int)PF_MIN(k.len, 100), k.data);
  if (wrong->why == EX_NO_MESSAGE || wrong->why == EX_NO_FEATURE)
    pf_bytes_printf(&b, "Invalid protocol message input, example id: %s", name);
  else if (wrong->in_list) explain_list(&b, &f->want[wrong->key], wrong, name, key);
  else explain_context(&b, &f->want[wrong->key], wrong, name, key);
  pf_status st = b.failed ? PF_RESOURCE_EXHAUSTED
                          : p->batch.c->host->fail(p->batch.c, PF_INVALID_ARGUMENT, b.data, b.n);
  pf_bytes_free(&b);
  return st;
}

/* ---------------------------------------------------------------- outputs of lists */
static pf_status dense_list(const sequence_call *p, int32_t k) {
  const ex_wanted *w = &p->lists.want[k];
  pf_ctx *c = p->batch.c;
  int64_t dims[PF_MAX_DIMS + 2];
  int32_t rank = 0;
  if (!p->batch.single) dims[rank++] = p->batch.n;
  dims[rank++] = p->most_steps[k];
  for (int32_t d = 0; d < w->shape.ndim; d++) dims[rank++] = w->shape.dims[d];
  DLTensor *y = pf_output_checked(c, w->out, dims, rank);
  PF_EXHAUSTED(y);
  if (pf_type_size(w->type)) memset(y->data, 0, (size_t)(pf_numel(y) * pf_type_size(w->type)));
  if (p->out_lengths < 0) return PF_OK;
  int32_t out = c->out_start[p->out_lengths] + w->out - c->out_start[p->out_lengths - 1];
  DLTensor *lengths = c->host->output(c, out, &p->batch.n, !p->batch.single);
  PF_EXHAUSTED(lengths);
  for (int64_t i = 0; i < p->batch.n; i++) PF_DATA(int64_t, lengths)[i] = sizes_of(p, i)[k].steps;
  return PF_OK;
}
static pf_status sparse_list(const sequence_call *p, int32_t k) {
  const ex_wanted *w = &p->lists.want[k];
  int64_t dims[3] = {p->batch.n, p->most_steps[k], w->most};
  int32_t single = p->batch.single;
  int64_t at[2] = {w->total, 3 - single};
  PF_EXHAUSTED(pf_output_checked(p->batch.c, w->second, at, 2));
  PF_EXHAUSTED(pf_output_checked(p->batch.c, w->out, &w->total, 1));
  PF_EXHAUSTED(ex_sparse_shape(p->batch.c, w->third, dims + single, 3 - single));
  return PF_OK;
}
static pf_status ragged_list(const sequence_call *p, int32_t k) {
  const ex_wanted *w = &p->lists.want[k];
  pf_ctx *c = p->batch.c;
  int64_t rows = p->batch.n + 1, steps = p->steps[k] + 1;
  int32_t inner_out = w->third, type = c->out_type[w->second];
  if (type == PF_INT32 && (w->total > INT32_MAX || steps > INT32_MAX))
    return PF_INVALID(c, "%" PRId64 " values need row splits of int64", w->total);
  PF_EXHAUSTED(pf_output_checked(c, w->out, &w->total, 1));
  DLTensor *outer = c->host->output(c, w->second, &rows, !p->batch.single),
           *inner = pf_output_checked(c, inner_out, &steps, 1);
  PF_EXHAUSTED(outer);
  PF_EXHAUSTED(inner);
  if (p->batch.single) ex_put_split(outer, type, 0, 0);
  for (int64_t i = 0; i < p->batch.n && !p->batch.single; i++)
    ex_put_split(outer, type, i, sizes_of(p, i)[k].at_step);
  if (!p->batch.single) ex_put_split(outer, type, p->batch.n, p->steps[k]);
  ex_put_split(inner, type, p->steps[k], w->total);
  return PF_OK;
}
static pf_status list_outputs(sequence_call *p) {
  pf_ctx *c = p->batch.c;
  for (int32_t k = 0; k < p->lists.n; k++) {
    ex_wanted *w = &p->lists.want[k];
    for (int64_t i = 0; i < p->batch.n; i++) {
      list_size *s = &sizes_of(p, i)[k];
      s->at_step = p->steps[k], s->at_value = w->total;
      p->most_steps[k] = PF_MAX(p->most_steps[k], s->steps);
      w->most = PF_MAX(w->most, s->most);
      if (!ex_add(&w->total, s->count) || !ex_add(&p->steps[k], s->steps))
        return pf_fail(c, PF_RESOURCE_EXHAUSTED, "too many values");
    }
    PF_TRY(w->role == EX_DENSE    ? dense_list(p, k)
           : w->role == EX_SPARSE ? sparse_list(p, k)
                                  : ragged_list(p, k));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- values of lists */
static pf_status fill_list(const sequence_call *p, int32_t k, int64_t example) {
  const ex_wanted *w = &p->lists.want[k];
  const list_size *size = &sizes_of(p, example)[k];
  const ex_feature *list = &ex_found(&p->lists, example)[k];
  pf_ctx *c = p->batch.c;
  int64_t in = 0, step = 0, value = size->at_value;
  int32_t single = p->batch.single, width = 3 - single;
  ex_feature f;
  if (w->role == EX_DENSE) value = single ? 0 : example * p->most_steps[k] * w->stride;
  while (list->there && ex_next_step(list->bytes, &in, &f) > 0) {
    PF_TRY(ex_values(c->host, &f, c->out[w->out], value));
    if (w->role == EX_SPARSE)
      for (int64_t i = 0; i < f.count; i++) {
        int64_t *at = PF_DATA(int64_t, c->out[w->second]) + (value + i) * width;
        if (!single) *at++ = example;
        at[0] = step, at[1] = i;
      }
    else if (w->role == EX_RAGGED)
      ex_put_split(c->out[w->third], c->out_type[w->third], size->at_step + step, value);
    value += f.count;
    step++;
  }
  return PF_OK;
}
static void fill_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  sequence_call *p = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    pf_status st = ex_fill(&p->context, &p->batch, i);
    for (int32_t k = 0; k < p->lists.n && !st; k++) st = fill_list(p, k, i);
    if (st) __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
  }
}

/* ---------------------------------------------------------------- a call */
static pf_status parse_all(sequence_call *p) {
  int64_t example = 0, grain = pf_grain(800);
  PF_TRY(ex_each(&p->batch, grain, check_range, p));
  const ex_wrong *wrong = ex_first_wrong(&p->batch, &example);
  if (wrong) return explain(p, wrong, example);
  PF_TRY(ex_outputs(&p->context, &p->batch));
  PF_TRY(list_outputs(p));
  PF_TRY(ex_each(&p->batch, grain, fill_range, p));
  return p->failed ? pf_fail(p->batch.c, PF_RESOURCE_EXHAUSTED, "no memory for parsed values")
                   : PF_OK;
}
static pf_status make_lists(sequence_call *p, const ex_asked *lists) {
  int64_t all;
  PF_TRY(ex_features_make(&p->lists, &p->batch, lists));
  for (int32_t k = 0; k < p->lists.n; k++) {
    ex_wanted *w = &p->lists.want[k];
    if (w->variable)
      return PF_INVALID(p->batch.c, "feature_list_dense_shapes must be fully defined");
    if (w->role == EX_RAGGED) /* the third argument, of the inner splits */
      w->third = w->out - p->batch.c->out_start[lists->out_ragged] +
                 p->batch.c->out_start[lists->out_ragged + 2];
  }
  for (int32_t k = 0; k < p->context.n; k++)
    if (p->context.want[k].variable)
      return PF_INVALID(p->batch.c, "context_dense_shapes must be fully defined");
  if (pf_mul(p->batch.n, p->lists.n, &all)) p->sizes = calloc((size_t)all + 1, sizeof *p->sizes);
  p->may_miss = calloc((size_t)p->lists.n + 1, 1);
  p->steps = calloc(2 * ((size_t)p->lists.n + 1), sizeof *p->steps);
  p->most_steps = p->steps + p->lists.n + 1;
  return p->sizes && p->may_miss && p->steps
             ? PF_OK
             : pf_fail(p->batch.c, PF_RESOURCE_EXHAUSTED, "no memory to parse examples");
}
static void allow(sequence_call *p, pf_str key) {
  for (int32_t k = 0; k < p->lists.n; k++)
    if (p->lists.keys[k].len == key.len &&
        !memcmp(p->lists.keys[k].data, key.data, (size_t)key.len))
      p->may_miss[k] = 1;
}
static void end(sequence_call *p) {
  free(p->sizes);
  free(p->may_miss);
  free(p->steps);
  ex_features_free(&p->context);
  ex_features_free(&p->lists);
  ex_batch_free(&p->batch);
}
static pf_status begin(sequence_call *p, pf_ctx *c, int32_t names, int32_t vector,
                       const ex_asked *context, const ex_asked *lists) {
  PF_TRY(ex_batch_make(&p->batch, c, names, 1, vector));
  p->batch.no_splits = 0;
  PF_TRY(ex_features_make(&p->context, &p->batch, context));
  return make_lists(p, lists);
}
static pf_status sequence_v2(pf_ctx *c, const void *state) {
  const sequence_state *s = state;
  const ex_asked
      context = {{NULL, 2, 1}, {NULL, 3, 1}, {NULL, 4, 1}, 9, 0, 3, 4, &s->context_dense_shapes},
      lists = {
        {NULL, 5, 1}, {NULL, 6, 1}, {NULL, 7, 1}, -1, 6, 9, 11, &s->feature_list_dense_shapes};
  sequence_call p = {.out_lengths = 10};
  pf_status st = begin(&p, c, 1, 1, &context, &lists);
  const DLTensor *missing = c->in[8];
  int32_t dense = c->out_start[10] - c->out_start[9],
          first = c->out_start[7] - c->out_start[6]; /* of lists.want: sparse ones come first */
  if (!st && pf_numel(missing) != dense)
    st = PF_INVALID(c,
                    "Expected len(feature_list_dense_keys) == "
                    "len(feature_list_dense_missing_assumed_empty) but got: %d vs. %" PRId64,
                    dense, pf_numel(missing));
  for (int32_t k = 0; !st && k < dense; k++)
    p.may_miss[first + k] = PF_DATA(const uint8_t, missing)[k];
  if (!st) st = parse_all(&p);
  end(&p);
  return st;
}
static pf_status sequence_v1(pf_ctx *c, const void *state) {
  const sequence_state *s = state;
  const pf_list *missing = &s->feature_list_dense_missing_assumed_empty;
  const ex_asked context = {{&s->context_sparse_keys, 0, 0},
                            {&s->context_dense_keys, 0, 0},
                            {NULL, 0, 0},
                            2,
                            0,
                            3,
                            -1,
                            &s->context_dense_shapes},
                 lists = {{&s->feature_list_sparse_keys, 0, 0},
                          {&s->feature_list_dense_keys, 0, 0},
                          {NULL, 0, 0},
                          -1,
                          4,
                          7,
                          -1,
                          &s->feature_list_dense_shapes};
  sequence_call p = {.out_lengths = 8};
  pf_status st = begin(&p, c, 1, 1, &context, &lists);
  for (int64_t k = 0; !st && k < missing->n; k++) allow(&p, ((const pf_str *)missing->items)[k]);
  if (!st) st = parse_all(&p);
  end(&p);
  return st;
}
static pf_status sequence_single(pf_ctx *c, const void *state) {
  const sequence_state *s = state;
  const ex_asked
      context = {{NULL, 2, 0}, {NULL, 3, 0}, {NULL, 0, 0}, 6, 0, 3, -1, &s->context_dense_shapes},
      lists = {
        {NULL, 4, 0}, {NULL, 5, 0}, {NULL, 0, 0}, -1, 4, 7, -1, &s->feature_list_dense_shapes};
  sequence_call p = {.out_lengths = -1};
  pf_status st = begin(&p, c, c->in_start[7], 0, &context, &lists);
  for (int64_t k = 0; !st && k < pf_numel(c->in[1]); k++) {
    pf_str key;
    if (!(st = c->host->str_get(c->in[1], k, &key))) allow(&p, key);
  }
  if (!st) st = parse_all(&p);
  end(&p);
  return st;
}

#define LIST(kind, field) PF_ATTR(sequence_state, kind | PF_ATTR_LIST, field)
#define SHAPES LIST(PF_ATTR_SHAPE, context_dense_shapes), \
  LIST(PF_ATTR_SHAPE, feature_list_dense_shapes)
#define PARSER(op_, compute_, ...) PF_CPU_FLAGS(op_, NULL, PF_KERNEL_DETERMINISTIC | \
  PF_KERNEL_EXPENSIVE, .compute = compute_, .state_size = sizeof(sequence_state), \
  .attrs = PF_ATTRS(SHAPES, __VA_ARGS__))
extern const pf_kernel *const parse_sequence_kernels[];
const pf_kernel *const parse_sequence_kernels[] = {
  PARSER("ParseSequenceExample", sequence_v1, LIST(PF_ATTR_STRING, context_sparse_keys),
         LIST(PF_ATTR_STRING, context_dense_keys), LIST(PF_ATTR_STRING, feature_list_sparse_keys),
         LIST(PF_ATTR_STRING, feature_list_dense_keys),
         LIST(PF_ATTR_STRING, feature_list_dense_missing_assumed_empty)),
  PARSER("ParseSequenceExampleV2", sequence_v2, NULL),
  PARSER("ParseSingleSequenceExample", sequence_single, NULL), NULL};
