/* reduction.c - ReduceDataset, DatasetToSingleElement: a dataset read whole by one node.
 *
 * The node defers; a task reads the dataset, and calls the function of the state and each element.
 * Threads: as dataset.h.
 */
#include "dataset/reading.h"

typedef struct {
  pf_list Tstate, output_types;
  pf_str f;
} reduction_state;
typedef struct {
  ds_task t; /* its `s` has kind and dataset only for those who ask it */
  ds_waiter end;
  atomic_int refs; /* the task's, and on_cancel's */
  ds_reading *reading;
  ds_pull_slot slot, answer;
  ds_function f;
  ds_row state, out;
  pf_ctx *c;
  uint64_t ticket;
  int64_t seen;
  int at;
} reduction;
enum { ASK, ASKED, CALLED };

static void unref(reduction *r, int n) {
  if (atomic_fetch_sub(&r->refs, n) != n) return;
  if (r->f.fn) ds_function_clear(&r->f);
  ds_row_clear(&r->state);
  ds_row_clear(&r->out);
  ds_reading_unref(r->reading);
  free(r);
}
static void called_off(void *arg) {
  reduction *r = arg;
  atomic_store(&r->reading->root.interrupted, 1);
  unref(r, 1);
}
static void over(ds_waiter *w, pf_status st) {
  reduction *r = (reduction *)((char *)w - offsetof(reduction, end));
  const pf_host *h = r->reading->of->host;
  pf_ctx *c = r->c;
  int never = h->off_cancel(r->ticket);
  if (st) {
    pf_failf(c, st, "%s",
             r->out.error         ? r->out.error
             : st == PF_CANCELLED ? "cancelled"
                                  : "no memory");
  } else {
    for (int32_t i = 0; !st && i < c->n_out; i++) {
      ds_tensor *t = r->state.v[i];
      r->state.v[i] = NULL;
      if (h->type_of(t) == c->out_type[i]) st = h->set_output(c, i, t);
      else ds_drop(t), st = PF_INVALID(c, "result %d has another type than the node's", i);
    }
  }
  uint64_t ticket = r->ticket;
  unref(r, never ? 2 : 1);
  h->done(ticket, st);
}
static pf_status call(reduction *r) {
  ds_row args;
  int32_t n = r->state.n, m = r->slot.row.n;
  if (!ds_row_room(&args, n + m)) {
    ds_row_clear(&r->slot.row);
    return r->answer.st = PF_RESOURCE_EXHAUSTED;
  }
  memcpy(args.v, r->state.v, sizeof *args.v * (size_t)n);
  memcpy(args.v + n, r->slot.row.v, sizeof *args.v * (size_t)m);
  r->state.n = r->slot.row.n = 0;
  ds_row_clear(&r->state);
  ds_row_clear(&r->slot.row);
  return ds_call(&r->answer, &r->t, &r->f, &args, ds_mix(1, (uint64_t)r->seen));
}
/* Of a single element: the first is kept, a second one is too many. */
static pf_status single(reduction *r) {
  if (r->slot.st == DS_OK && !r->seen++) {
    r->state = r->slot.row;
    return PF_PENDING;
  }
  if (r->slot.st == DS_END && r->seen) return DS_OK;
  ds_row_clear(&r->slot.row);
  return ds_fail(&r->out, PF_INVALID_ARGUMENT,
                 r->seen ? "Dataset had more than one element." : "Dataset was empty.");
}
static pf_status reduction_run(ds_task *t) {
  reduction *r = (reduction *)t;
  for (;;) {
    if (r->at == ASK) {
      if (atomic_load(&r->reading->root.interrupted)) return PF_CANCELLED;
      r->at = ASKED;
      if (ds_pull(&r->slot, t, r->reading->stage) == PF_PENDING) return PF_PENDING;
    }
    if (r->at == ASKED) {
      r->at = ASK;
      if (r->slot.st && r->slot.st != DS_END) return r->out = r->slot.row, r->slot.st;
      if (!r->f.fn) {
        pf_status st = single(r);
        if (st != PF_PENDING) return st;
        continue;
      }
      if (r->slot.st == DS_END) return DS_OK;
      r->at = CALLED;
      r->seen++;
      if (call(r) == PF_PENDING) return PF_PENDING;
    }
    r->at = ASK;
    if (r->answer.st) return r->out = r->answer.row, r->answer.st;
    r->state = r->answer.row;
    r->answer.row = (ds_row){0};
  }
}
static void start(void *arg) {
  reduction *r = arg;
  pf_status st = reduction_run(&r->t);
  if (st != PF_PENDING) over(&r->end, st);
}
static pf_status failed(pf_ctx *c, reduction *r, pf_status st, ds_row *error) {
  if (st && error->error) pf_failf(c, st, "%s", error->error);
  ds_row_clear(error);
  unref(r, 2);
  return st;
}
static pf_status begin(pf_ctx *c, dataset *d, reduction *r) {
  ds_row error = {0};
  const pf_host *h = c->host;
  pf_status st = ds_reading_open(d, &error, &r->reading);
  if (st) return failed(c, r, st, &error);
  r->t.s.of = d;
  r->t.s.root = &r->reading->root;
  r->t.run = reduction_run;
  r->t.waiter = &r->end;
  r->end.fn = over;
  r->c = c = h->defer(c, &r->ticket);
  st = h->on_cancel(c, r->ticket, called_off, r);
  if (st) return failed(c, r, st, &error);
  if (h->post(h, PF_LANE_CPU, start, r)) start(r);
  return PF_PENDING;
}
static pf_status reduce(pf_ctx *c, const void *state) {
  const reduction_state *st = state;
  dataset *d;
  int32_t n = (int32_t)st->Tstate.n;
  ds_row error = {0};
  PF_TRY(ds_input(c, 0, &d));
  reduction *r = calloc(1, sizeof *r);
  if (!r) return PF_RESOURCE_EXHAUSTED;
  atomic_store(&r->refs, 2);
  pf_status s = ds_keep_inputs(c, 1, n, &r->state);
  if (!s) s = ds_function_get(c, st->f, 1 + n, c->n_in - 1 - n, &r->f);
  if (!s) s = ds_function_gives(c, &r->f, st->Tstate.items, n);
  if (!s && c->n_out != n) s = PF_INVALID(c, "%d outputs of a state of %d", c->n_out, n);
  return s ? failed(c, r, s, &error) : begin(c, d, r);
}
static pf_status single_element(pf_ctx *c, const void *state) {
  dataset *d;
  (void)state;
  PF_TRY(ds_input(c, 0, &d));
  if (d->n_types != c->n_out)
    return PF_INVALID(c, "the dataset's elements have %d components, the node has %d outputs",
                      d->n_types, c->n_out);
  reduction *r = calloc(1, sizeof *r);
  if (!r) return PF_RESOURCE_EXHAUSTED;
  atomic_store(&r->refs, 2);
  return begin(c, d, r);
}
extern const pf_kernel *const reduction_kernels[];
const pf_kernel *const reduction_kernels[] = {
  PF_CPU_FLAGS("ReduceDataset", NULL, PF_KERNEL_ASYNC, .compute = reduce,
               .state_size = sizeof(reduction_state),
               .attrs = PF_ATTRS(PF_ATTR(reduction_state, PF_ATTR_TYPE | PF_ATTR_LIST, Tstate),
                                 PF_ATTR(reduction_state, PF_ATTR_FUNC, f))),
  PF_CPU_FLAGS("DatasetToSingleElement", NULL, PF_KERNEL_ASYNC, .compute = single_element), NULL};
