/* iterator_make.c - IteratorV2, OneShotIterator, MakeIterator, and iterators' handles as strings.
 *
 * Threads: as iterator.h says.
 */
#include "dataset/iterator.h"

/* ---------------------------------------------------------------- shapes */
/* The list's shapes and their sizes, copied; 0: no memory */
static int keep_shapes(iterator *it, const pf_list *shapes) {
  const pf_shape *given = shapes->items;
  size_t n = (size_t)shapes->n, sizes = 0;
  for (size_t i = 0; i < n; i++) sizes += (size_t)PF_MAX(given[i].ndim, 0);
  it->shapes = calloc(1, (n + 1) * sizeof *given + sizes * sizeof *given->dims);
  if (!it->shapes) return 0;
  int64_t *to = (int64_t *)(it->shapes + n);
  for (size_t i = 0; i < n; i++) {
    it->shapes[i] = (pf_shape){to, given[i].ndim, 0};
    for (int32_t k = 0; k < given[i].ndim; k++) *to++ = given[i].dims[k];
  }
  it->n_shapes = (int32_t)n;
  return 1;
}
static int may_be(pf_shape a, pf_shape b) {
  if (a.ndim < 0 || b.ndim < 0) return 1;
  for (int32_t k = 0; a.ndim == b.ndim && k < a.ndim; k++)
    if (a.dims[k] >= 0 && b.dims[k] >= 0 && a.dims[k] != b.dims[k]) return 0;
  return a.ndim == b.ndim;
}
static const char *shape_text(pf_shape s, char *to, size_t room) {
  size_t n = (size_t)snprintf(to, room, "[");
  for (int32_t k = 0; k < s.ndim && n + 24 < room; k++)
    n += (size_t)snprintf(to + n, room - n, s.dims[k] < 0 ? "%s?" : "%s%" PRId64, k ? "," : "",
                          s.dims[k]);
  snprintf(to + n, room - n, "]");
  return to;
}
/* What a node says of the elements' shapes may be so of the iterator's. */
static pf_status shapes_fit(const iterator *it, const pf_list *declared, ds_row *error) {
  const pf_shape *wanted = declared->items;
  char a[300], b[300];
  for (int32_t i = 0; i < it->n_shapes && i < declared->n; i++)
    if (!may_be(wanted[i], it->shapes[i]))
      return ds_fail(error, PF_INVALID_ARGUMENT,
                     "Incompatible shapes at component %d: expected %s "
                     "but got %s.",
                     i, shape_text(wanted[i], a, sizeof a), shape_text(it->shapes[i], b, sizeof b));
  return PF_OK;
}
/* ---------------------------------------------------------------- making them */

static pf_status iterator_make(pf_ctx *c, void *arg, void **obj) {
  const iterator_state *st = arg;
  iterator *it = calloc(1, sizeof *it);
  size_t bytes = sizeof *it->types * (size_t)PF_MAX(st->output_types.n, 1);
  pf_str name = st->shared_name.len ? st->shared_name : c->host->node_name(c);
  if (!it || !(it->types = malloc(bytes)))
    return free(it), pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an iterator");
  it->container =
      strndup(st->container.len ? st->container.data : "", (size_t)PF_MIN(st->container.len, 400));
  it->name = strndup(name.data, (size_t)PF_MIN(name.len, 600));
  it->n_types = (int32_t)st->output_types.n;
  memcpy(it->types, st->output_types.items, sizeof *it->types * (size_t)it->n_types);
  if (!keep_shapes(it, &st->output_shapes))
    return free(it->types), free(it->container), free(it->name), free(it),
           pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an iterator");
  it->landed.fn = ds_request_landed;
  atomic_store(&it->refs, 1);
  pthread_mutex_init(&it->lock, NULL);
  pthread_cond_init(&it->quiet, NULL);
  it->host = c->host;
  it->last = &it->first;
  if (st->dataset_factory.len) {
    pf_status r = ds_function_get(c, st->dataset_factory, 0, 0, &it->factory);
    if (r) return ds_iterator_free(it), r;
  }
  *obj = it;
  return PF_OK;
}
static pf_status iterator_compute(pf_ctx *c, const void *state) {
  const iterator_state *st = state;
  return c->host->resource_output(c, 0, st->container, st->shared_name, &ds_iterator_type,
                                  iterator_make, (void *)st);
}
static pf_status make_iterator(pf_ctx *c, const void *state) {
  void *obj;
  dataset *d;
  ds_row error = {0}, answer = {0};
  ds_reading *r = NULL, *old;
  pf_status status = DS_OK;
  int64_t kept = 0;
  (void)state;
  PF_TRY(ds_input(c, 0, &d));
  PF_TRY(c->host->resource_get(c, 1, &ds_iterator_type, &obj));
  iterator *it = obj;
  pf_status st = ds_iterator_fits(it, d, &error);
  if (!st) st = ds_reading_open(d, &error, &r);
  if (!st) st = ds_load_pending(it, r, &error, &answer, &status, &kept);
  if (st) {
    ds_reading_unref(r);
    ds_row_clear(&answer);
    return ds_told(c, st, &error);
  }
  pthread_mutex_lock(&it->lock);
  old = it->reading;
  it->reading = r;
  it->kept = kept != 0;
  error = it->answer_row;
  it->answer_row = answer;
  it->answer = status;
  if (it->asked) atomic_store(&it->asked->root.interrupted, 1);
  pthread_mutex_unlock(&it->lock);
  ds_row_clear(&error);
  ds_reading_unref(old);
  return PF_OK;
}

/* ---------------------------------------------------------------- handles as strings
 * "pyflow.Iterator:3:abcname": the length of the container's name, it, and the iterator's own. */
static const char PREFIX[] = "pyflow.Iterator:";
static pf_status to_string_handle(pf_ctx *c, const void *state) {
  void *obj;
  char text[1200];
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &ds_iterator_type, &obj));
  const iterator *it = obj;
  int n = snprintf(text, sizeof text, "%s%zu:%s%s", PREFIX, strlen(it->container), it->container,
                   it->name);
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  return c->host->str_set(y, 0, (pf_str){text, PF_MIN(n, (int)sizeof text - 1)});
}
static pf_status nobody(pf_ctx *c, void *arg, void **obj) {
  (void)arg;
  (void)obj;
  return pf_fail(c, PF_NOT_FOUND,
                 "no iterator has this string handle: it was never made, or its "
                 "container was reset");
}
/* 1: the parts of a string handle */
static int parse_handle(pf_str s, pf_str *container, pf_str *name) {
  int64_t prefix = (int64_t)sizeof PREFIX - 1, at = prefix, n = 0;
  if (s.len < prefix || memcmp(s.data, PREFIX, (size_t)prefix)) return 0;
  for (; at < s.len && s.data[at] >= '0' && s.data[at] <= '9' && n < 100000; at++)
    n = n * 10 + s.data[at] - '0';
  if (at == prefix || at >= s.len || s.data[at] != ':' || n > s.len - at - 1) return 0;
  *container = (pf_str){s.data + at + 1, n};
  *name = (pf_str){s.data + at + 1 + n, s.len - at - 1 - n};
  return name->len > 0;
}
static pf_status from_string_handle(pf_ctx *c, const void *state) {
  const iterator_state *st = state;
  pf_str text, container, name;
  void *obj;
  ds_row error = {0};
  if (pf_numel(c->in[0]) != 1) return PF_INVALID(c, "a string handle must be a scalar");
  PF_TRY(c->host->str_get(c->in[0], 0, &text));
  if (!parse_handle(text, &container, &name))
    return PF_INVALID(c, "this is no string handle of an iterator: '%.*s'",
                      (int)PF_MIN(text.len, 100), text.data);
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, container, name, &ds_iterator_type, nobody, NULL,
                           &obj));
  iterator *it = obj;
  const dataset declared = {.n_types = (int32_t)st->output_types.n,
                            .types = (int32_t *)st->output_types.items};
  if (declared.n_types) {
    pf_status r = ds_iterator_fits(it, &declared, &error);
    if (!r) r = shapes_fit(it, &st->output_shapes, &error);
    if (r) return ds_told(c, r, &error);
  }
  return c->host->resource_output(c, 0, container, name, &ds_iterator_type, nobody, NULL);
}

/* ---------------------------------------------------------------- tables */
#define ITERATOR_ATTRS \
  PF_ATTR(iterator_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
      PF_ATTR(iterator_state, PF_ATTR_SHAPE | PF_ATTR_LIST, output_shapes)
#define NAMED \
  PF_ATTR(iterator_state, PF_ATTR_STRING, shared_name), \
      PF_ATTR(iterator_state, PF_ATTR_STRING, container)
#define MAKES(op_, ...) \
  PF_CPU(op_, NULL, .compute = iterator_compute, .state_size = sizeof(iterator_state), \
         .attrs = PF_ATTRS(ITERATOR_ATTRS, NAMED, ##__VA_ARGS__))
extern const pf_kernel *const iterator_make_kernels[];
const pf_kernel *const iterator_make_kernels[] = {
  MAKES("Iterator"),
  MAKES("IteratorV2"),
  MAKES("OneShotIterator", PF_ATTR(iterator_state, PF_ATTR_FUNC, dataset_factory)),
  PF_CPU_FLAGS("MakeIterator", NULL, PF_KERNEL_BLOCKING, .compute = make_iterator),
  PF_CPU("IteratorToStringHandle", NULL, .compute = to_string_handle),
  PF_CPU("IteratorFromStringHandleV2", NULL, .compute = from_string_handle,
         .state_size = sizeof(iterator_state), .attrs = PF_ATTRS(ITERATOR_ATTRS)),
  NULL};
