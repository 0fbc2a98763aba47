/* scanning.c - ScanDataset: a function of a state and each element gives the next state and an
 * element.
 *
 * Source: TF's ScanDataset.  Threads: as dataset.h.
 */
#include "dataset/dataset.h"

typedef struct {
  pf_list output_types, Tstate;
  pf_str f;
  int32_t preserve_cardinality;
} scan_state;
typedef struct {
  dataset d, state;
  ds_function f;
  ds_row initial;
  int32_t keeps;
} scan;
enum { ASK, ASKED, CALLED };
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot, answer;
  ds_row state;
  int64_t seen, over;
  int at;
} scan_stage;
static const scan *of(const scan_stage *s) { return (const scan *)s->t.s.of; }

/* The state and the element as one row of arguments.  Takes the element. */
static int arguments(scan_stage *s, ds_row *args) {
  ds_row state;
  int32_t n = s->state.n;
  if (!ds_row_share(s->t.s.of->host, &s->state, &state)) return 0;
  if (!ds_row_room(args, n + s->slot.row.n)) return ds_row_clear(&state), 0;
  memcpy(args->v, state.v, sizeof *args->v * (size_t)n);
  memcpy(args->v + n, s->slot.row.v, sizeof *args->v * (size_t)s->slot.row.n);
  state.n = s->slot.row.n = 0;
  ds_row_clear(&state);
  ds_row_clear(&s->slot.row);
  return 1;
}
static pf_status call(scan_stage *s) {
  ds_row args;
  if (arguments(s, &args))
    return ds_call(&s->answer, &s->t, &of(s)->f, &args, ds_mix(s->t.s.path, (uint64_t)s->seen++));
  ds_row_clear(&s->slot.row);
  return s->answer.st = ds_fail(&s->answer.row, PF_RESOURCE_EXHAUSTED, "no memory for a call");
}
static pf_status given(scan_stage *s, ds_row *out) {
  int32_t n = s->state.n, rest = s->answer.row.n - n;
  if (!ds_row_room(out, rest)) {
    ds_row_clear(&s->answer.row);
    return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
  }
  memcpy(out->v, s->answer.row.v + n, sizeof *out->v * (size_t)rest);
  s->answer.row.n = n;
  ds_row_clear(&s->state);
  s->state = s->answer.row;
  s->answer.row = (ds_row){0};
  return DS_OK;
}
static pf_status scan_run(ds_task *t) {
  scan_stage *s = (scan_stage *)t;
  if (s->over) return DS_END;
  if (s->at == ASK) {
    s->at = ASKED;
    if (ds_pull(&s->slot, t, s->in) == PF_PENDING) return PF_PENDING;
  }
  if (s->at == ASKED) {
    if (s->slot.st) return s->at = ASK, *t->out = s->slot.row, s->slot.st;
    s->at = CALLED;
    if (call(s) == PF_PENDING) return PF_PENDING;
  }
  s->at = ASK;
  if (!s->answer.st) return given(s, t->out);
  *t->out = s->answer.row;
  if (s->answer.st != PF_OUT_OF_RANGE || of(s)->keeps)
    return ds_not_the_end(t->out, s->answer.st, PF_INVALID_ARGUMENT);
  ds_row_clear(t->out);
  s->over = 1;
  return DS_END;
}
static void scan_close(ds_stage *t) {
  ds_row_clear(&((scan_stage *)t)->state);
  ds_close(((scan_stage *)t)->in);
  free(t);
}
static void scan_save(ds_stage *t, ds_writer *w) {
  scan_stage *s = (scan_stage *)t;
  ds_put_int(w, s->seen);
  ds_put_int(w, s->over);
  ds_put_row(w, &s->state);
  ds_put_stage(w, s->in);
}
static pf_status scan_load(ds_stage *t, ds_reader *r) {
  scan_stage *s = (scan_stage *)t;
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &s->seen));
  PF_TRY(ds_get_range(r, 0, 1, &s->over));
  ds_row_clear(&s->state);
  PF_TRY(ds_get_row(r, &of(s)->state, &s->state));
  return ds_get_stage(r, s->in);
}
static const ds_stage_kind SCAN_STAGE = {
  .next = ds_task_next, .close = scan_close, .save = scan_save, .load = scan_load};
static pf_status scan_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  scan_stage *s = ds_stage_new(sizeof *s, &SCAN_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = scan_run;
  pf_status st = ds_open(d->in[0], at, error, &s->in);
  if (!st && !ds_row_share(d->host, &of(s)->initial, &s->state))
    st = ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory for a scan's state");
  if (st) return scan_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static void scan_free(dataset *d) {
  ds_function_clear(&((scan *)d)->f);
  ds_row_clear(&((scan *)d)->initial);
  free(((scan *)d)->state.types);
}
static const ds_kind SCAN = {"Scan", scan_open, scan_free, NULL};

/* `state` in scan is a dataset only for the types that ds_get_row reads by. */
static pf_status types_of_state(pf_ctx *c, scan *d, const scan_state *st) {
  int32_t n = (int32_t)st->Tstate.n, all = n + d->d.n_types;
  int32_t *types = malloc(sizeof *types * (size_t)PF_MAX(all, 1));
  if (!types) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a dataset");
  memcpy(types, st->Tstate.items, sizeof *types * (size_t)n);
  memcpy(types + n, d->d.types, sizeof *types * (size_t)d->d.n_types);
  d->state.types = types;
  d->state.n_types = n;
  d->state.host = d->d.host;
  d->state.label = d->d.label;
  return ds_function_gives(c, &d->f, types, all);
}
static pf_status scan_compute(pf_ctx *c, const void *state) {
  const scan_state *st = state;
  int32_t n = (int32_t)st->Tstate.n;
  scan *d = ds_new(c, sizeof *d, &SCAN, NULL, 1, &st->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  d->keeps = st->preserve_cardinality;
  pf_status r = ds_keep_inputs(c, 1, n, &d->initial);
  if (!r) r = ds_function_get(c, st->f, 1 + n, c->n_in - 1 - n, &d->f);
  return ds_out(c, d, r ? r : types_of_state(c, d, st));
}
#define SCANS(op_) \
  PF_CPU(op_, NULL, .compute = scan_compute, .state_size = sizeof(scan_state), \
         .attrs = PF_ATTRS(PF_ATTR(scan_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
                           PF_ATTR(scan_state, PF_ATTR_TYPE | PF_ATTR_LIST, Tstate), \
                           PF_ATTR(scan_state, PF_ATTR_FUNC, f), \
                           PF_ATTR(scan_state, PF_ATTR_BOOL, preserve_cardinality)))
extern const pf_kernel *const scanning_kernels[];
const pf_kernel *const scanning_kernels[] = {SCANS("ScanDataset"), SCANS("ExperimentalScanDataset"),
                                             NULL};
