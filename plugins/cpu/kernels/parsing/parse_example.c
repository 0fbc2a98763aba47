/* parse_example.c - ParseExample, ParseExampleV2, ParseSingleExample: serialized tf.Examples to
 * tensors.
 *
 * Threads: parallel_for over the examples.  Sources: features.h.
 */
#include "parsing/features.h"

typedef struct { pf_list dense_shapes, sparse_keys, dense_keys; } example_state;
typedef struct {
  ex_batch batch;
  ex_features features;
  int32_t failed;
} example_call;

static void check_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  example_call *p = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    pf_str message;
    ex_wrong *wrong = &p->batch.wrong[i];
    if (p->batch.c->host->str_get(p->batch.serialized, i, &message) ||
        !ex_read_example(&p->features.table, message, ex_found(&p->features, i)))
      wrong->why = EX_NO_MESSAGE;
    else ex_check(&p->features, i, wrong);
  }
}
static void fill_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  example_call *p = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++)
    if (ex_fill(&p->features, &p->batch, i)) __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
}

/* "Name: x, Key: a, Index: 0.  ", for one example "Key: a.  " */
static void begin_text(pf_bytes *b, const example_call *p, int64_t example, pf_str key) {
  pf_str name = ex_name(&p->batch, example);
  if (!p->batch.single) {
    pf_bytes_text(b, "Name: ");
    pf_bytes_add(b, name.data, name.len);
    pf_bytes_text(b, ", ");
  }
  pf_bytes_text(b, "Key: ");
  pf_bytes_add(b, key.data, key.len);
  if (!p->batch.single) pf_bytes_printf(b, ", Index: %" PRId64, example);
  pf_bytes_text(b, ".  ");
}
static const char *kind_name(int32_t kind) {
  return kind == EX_BYTES ? "bytes" : kind == EX_FLOATS ? "float" : "int64";
}
static pf_text dims_text(const ex_wanted *w) {
  pf_text t = pf_shape_text(w->shape.dims, w->shape.ndim);
  if (w->variable) memmove(t.s + 2, t.s + 3, strlen(t.s + 2)), t.s[1] = '?';
  return t;
}
static void end_text(pf_bytes *b, const ex_wanted *w, const ex_wrong *wrong) {
  const char *theirs = pf_type_name(ex_type(wrong->kind)), *ours = pf_type_name(w->type);
  if (wrong->why == EX_NO_FEATURE) pf_bytes_text(b, "Can't parse serialized Example.");
  else if (wrong->why == EX_TYPE && w->role == EX_DENSE)
    pf_bytes_printf(b, "Data types don't match. Data type: %s but expected type: %s", theirs, ours);
  else if (wrong->why == EX_TYPE)
    pf_bytes_printf(b, "Data types don't match. Expected type: %s, Actual type: %s", ours, theirs);
  else if (wrong->why == EX_COUNT)
    pf_bytes_printf(
        b, "Number of %s values != expected.  Values size: %" PRId64 " but output shape: %s",
        kind_name(wrong->kind), wrong->saw, dims_text(w).s);
  else
    pf_bytes_printf(b,
                    "Number of %s values is not a multiple of stride length. Saw %" PRId64
                    " values but output shape is: %s",
                    kind_name(wrong->kind), wrong->saw, dims_text(w).s);
}
static pf_status explain(const example_call *p, const ex_wrong *wrong, int64_t example) {
  pf_ctx *c = p->batch.c;
  pf_bytes b = {0};
  pf_str key = p->features.n ? p->features.keys[wrong->key] : (pf_str){"", 0}, message,
         name = ex_name(&p->batch, example);
  const ex_wanted *w = &p->features.want[wrong->key];
  if (wrong->why == EX_NO_MESSAGE) {
    PF_TRY(c->host->str_get(p->batch.serialized, example, &message));
    pf_bytes_text(&b, "Could not parse example input, value: '");
    pf_bytes_add(&b, message.data, PF_MIN(message.len, 500));
    pf_bytes_text(&b, "'");
  } else if (wrong->why == EX_MISSING) {
    if (!p->batch.single) pf_bytes_text(&b, "Name: ");
    if (!p->batch.single) pf_bytes_add(&b, name.data, name.len);
    pf_bytes_text(&b, p->batch.single ? "Feature: " : ", Feature: ");
    pf_bytes_add(&b, key.data, key.len);
    pf_bytes_printf(&b, " (data type: %s) is required but could not be found.",
                    pf_type_name(w->type));
  } else {
    begin_text(&b, p, example, key);
    end_text(&b, w, wrong);
  }
  pf_status st =
      b.failed ? PF_RESOURCE_EXHAUSTED : c->host->fail(c, PF_INVALID_ARGUMENT, b.data, b.n);
  pf_bytes_free(&b);
  return st;
}

static pf_status parse_all(example_call *p) {
  int64_t example = 0, grain = pf_grain(400);
  PF_TRY(ex_each(&p->batch, grain, check_range, p));
  const ex_wrong *wrong = ex_first_wrong(&p->batch, &example);
  if (wrong) return explain(p, wrong, example);
  PF_TRY(ex_outputs(&p->features, &p->batch));
  PF_TRY(ex_each(&p->batch, grain, fill_range, p));
  return p->failed ? pf_fail(p->batch.c, PF_RESOURCE_EXHAUSTED, "no memory for parsed values")
                   : PF_OK;
}
static pf_status parse(pf_ctx *c, const ex_asked *asked, int32_t names, int32_t scalar,
                       int32_t vector) {
  example_call p = {0};
  pf_status st = ex_batch_make(&p.batch, c, names, scalar, vector);
  if (!st) st = ex_features_make(&p.features, &p.batch, asked);
  if (!st) st = parse_all(&p);
  ex_features_free(&p.features);
  ex_batch_free(&p.batch);
  return st;
}
static pf_status parse_v1(pf_ctx *c, const void *state) {
  const example_state *s = state;
  ex_asked asked = {{NULL, 2, 0}, {NULL, 3, 0}, {NULL, 0, 0}, 4, 0, 3, -1, &s->dense_shapes};
  return parse(c, &asked, 1, 0, 1);
}
static pf_status parse_v2(pf_ctx *c, const void *state) {
  const example_state *s = state;
  ex_asked asked = {{NULL, 2, 1}, {NULL, 3, 1}, {NULL, 4, 1}, 5, 0, 3, 4, &s->dense_shapes};
  return parse(c, &asked, 1, 1, 1);
}
static pf_status parse_single(pf_ctx *c, const void *state) {
  const example_state *s = state;
  ex_asked asked = {{&s->sparse_keys, 0, 0}, {&s->dense_keys, 0, 0}, {NULL, 0, 0}, 1, 0, 3, -1,
                    &s->dense_shapes};
  return parse(c, &asked, -1, 1, 0);
}

#define SHAPES PF_ATTR(example_state, PF_ATTR_SHAPE | PF_ATTR_LIST, dense_shapes)
#define KEYS(name) PF_ATTR(example_state, PF_ATTR_STRING | PF_ATTR_LIST, name)
#define PARSER(op_, compute_, ...) PF_CPU_FLAGS(op_, NULL, PF_KERNEL_DETERMINISTIC | \
  PF_KERNEL_EXPENSIVE, .compute = compute_, .state_size = sizeof(example_state), \
  .attrs = PF_ATTRS(SHAPES, __VA_ARGS__))
extern const pf_kernel *const parse_example_kernels[];
const pf_kernel *const parse_example_kernels[] = {
  PARSER("ParseExample", parse_v1, NULL), PARSER("ParseExampleV2", parse_v2, NULL),
  PARSER("ParseSingleExample", parse_single, KEYS(sparse_keys), KEYS(dense_keys)), NULL};
