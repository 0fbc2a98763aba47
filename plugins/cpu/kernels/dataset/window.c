/* window.c - WindowDataset: elements whose components are datasets of `size` elements each.
 *
 * The buffer holds what the window spans, (size - 1) * stride + 1 elements; then the first `shift`
 * of it are let go, and read over where it has fewer.  An error of the input stands in the place of
 * an element: each window that would have this one fails with it.
 * Source: TF's WindowDataset.  Threads: as dataset.h.
 */
#include "dataset/rows.h"

typedef struct { pf_list output_types; } window_state;
typedef struct {
  dataset d;
  int64_t size, shift, stride;
  int32_t drop;
} window;
typedef struct {
  ds_row row;
  pf_status st;
} held_row; /* st: DS_OK, or the row has the error */
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot;
  held_row *rows;
  int64_t n, held, over, asked, behind; /* behind: elements to read over first */
} window_stage;
static const window *of(const window_stage *s) { return (const window *)s->t.s.of; }
static int64_t span(const window_stage *s) { return (of(s)->size - 1) * of(s)->stride + 1; }

static int keep(window_stage *s, pf_status st) {
  if (s->n == s->held) {
    int64_t held = PF_MIN(PF_MAX(16, s->held * 2), span(s));
    held_row *more = realloc(s->rows, sizeof *more * (size_t)held);
    if (!more) return 0;
    s->rows = more;
    s->held = held;
  }
  s->rows[s->n++] = (held_row){s->slot.row, st};
  return 1;
}
static void let_go(window_stage *s, int64_t n) {
  for (int64_t i = 0; i < n; i++) ds_row_clear(&s->rows[i].row);
  memmove(s->rows, s->rows + n, sizeof *s->rows * (size_t)(s->n - n));
  s->n -= n;
}
/* The window that the buffer holds, `n` elements of it; they are lent, not shared. */
static pf_status given(window_stage *s, int64_t n, ds_row *out) {
  const dataset *d = s->t.s.of, *in = d->in[0];
  ds_row *picked = malloc(sizeof *picked * (size_t)n);
  if (!picked || !ds_row_room(out, d->n_types)) goto none;
  for (int64_t i = 0; i < n; i++) picked[i] = s->rows[i * of(s)->stride].row;
  for (int32_t k = 0; k < d->n_types; k++) {
    dataset *made = ds_rows_new(in, in->types, in->n_types, picked, n, k);
    if (!made || !(out->v[k] = ds_variant(made))) goto none;
  }
  free(picked);
  return DS_OK;
none:
  free(picked);
  return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for a window");
}
/* The first error among the window's n elements. */
static pf_status failed(const window_stage *s, int64_t n, ds_row *out) {
  for (int64_t i = 0; i < n; i++) {
    const held_row *r = &s->rows[i * of(s)->stride];
    if (r->st) return ds_fail(out, r->st, "%s", r->row.error ? r->row.error : "");
  }
  return DS_OK;
}
static pf_status window_run(ds_task *t) {
  window_stage *s = (window_stage *)t;
  while (!s->over && (s->n < span(s) || s->behind)) {
    if (!s->asked) {
      if (ds_interrupted(t->s.root)) return PF_CANCELLED;
      s->asked = 1;
      if (ds_pull(&s->slot, t, s->in) == PF_PENDING) return PF_PENDING;
    }
    s->asked = 0;
    if (s->slot.st == DS_END) {
      s->over = 1;
    } else if (s->slot.st && (s->behind || ds_stopped(s->slot.st, &s->slot.row))) {
      return *t->out = s->slot.row, s->slot.st;
    } else if (s->behind) {
      s->behind--;
      ds_row_clear(&s->slot.row);
    } else if (!keep(s, s->slot.st)) {
      ds_row_clear(&s->slot.row);
      return ds_fail(t->out, PF_RESOURCE_EXHAUSTED, "no memory for a window");
    }
  }
  int64_t n = s->n ? (s->n - 1) / of(s)->stride + 1 : 0;
  if (!n || (of(s)->drop && n < of(s)->size)) return DS_END;
  pf_status st = failed(s, n, t->out);
  if (!st) PF_TRY(given(s, n, t->out));
  s->behind = PF_MAX(of(s)->shift - s->n, 0);
  let_go(s, PF_MIN(of(s)->shift, s->n));
  return st;
}
static void window_close(ds_stage *t) {
  window_stage *s = (window_stage *)t;
  let_go(s, s->n);
  free(s->rows);
  ds_close(s->in);
  free(s);
}
static void window_save(ds_stage *t, ds_writer *w) {
  window_stage *s = (window_stage *)t;
  ds_put_int(w, s->over);
  ds_put_int(w, s->behind);
  int64_t errors = 0;
  for (int64_t i = 0; i < s->n; i++) errors += s->rows[i].st != DS_OK;
  ds_put_int(w, errors ? -1 - s->n : s->n); /* below 0: each with its status before it */
  for (int64_t i = 0; i < s->n; i++) {
    if (errors) ds_put_int(w, s->rows[i].st);
    if (!s->rows[i].st) ds_put_row(w, &s->rows[i].row);
  }
  ds_put_stage(w, s->in);
}
static pf_status window_load(ds_stage *t, ds_reader *r) {
  window_stage *s = (window_stage *)t;
  int64_t n;
  PF_TRY(ds_get_range(r, 0, 1, &s->over));
  PF_TRY(ds_get_range(r, 0, of(s)->shift, &s->behind));
  PF_TRY(ds_get_range(r, -1 - span(s), span(s), &n));
  int errors = n < 0;
  if (errors) n = -1 - n;
  for (int64_t i = 0; i < n; i++) {
    int64_t st = DS_OK;
    if (errors) PF_TRY(ds_get_range(r, PF_OK, PF_UNAUTHENTICATED, &st));
    if (st)
      ds_fail(&s->slot.row, (pf_status)st, "an element that failed before the state was saved");
    else PF_TRY(ds_get_row(r, t->of->in[0], &s->slot.row));
    if (!keep(s, (pf_status)st)) return ds_row_clear(&s->slot.row), PF_RESOURCE_EXHAUSTED;
  }
  return ds_get_stage(r, s->in);
}
static const ds_stage_kind WINDOW_STAGE = {
  .next = ds_task_next, .close = window_close, .save = window_save, .load = window_load};
static pf_status window_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  window_stage *s = ds_stage_new(sizeof *s, &WINDOW_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = window_run;
  pf_status st = ds_open(d->in[0], at, error, &s->in);
  if (st) return window_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static const ds_kind WINDOW = {"Window", window_open, NULL, NULL};

static pf_status window_compute(pf_ctx *c, const void *state) {
  int64_t all;
  window *d = ds_new(c, sizeof *d, &WINDOW, NULL, 1, &((const window_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pf_status st = ds_scalar_in(c, 1, "size", &d->size);
  if (!st) st = ds_scalar_in(c, 2, "shift", &d->shift);
  if (!st) st = ds_scalar_in(c, 3, "stride", &d->stride);
  if (!st) st = ds_bool_in(c, 4, "drop_remainder", &d->drop);
  if (!st && (d->size < 1 || d->shift < 1 || d->stride < 1))
    st = PF_INVALID(c, "Window size, shift and stride must be greater than zero.");
  if (!st && (!pf_mul(d->size, d->stride, &all) || all > INT32_MAX))
    st = PF_INVALID(c, "a window spans at most 2^31 - 1 elements");
  if (!st && d->d.n_types != d->d.in[0]->n_types)
    st = PF_INVALID(c, "a window has a dataset for each of the %d components, the node says %d",
                    d->d.in[0]->n_types, d->d.n_types);
  for (int32_t k = 0; !st && k < d->d.n_types; k++)
    if (d->d.types[k] != PF_VARIANT) st = PF_INVALID(c, "component %d of a window is a variant", k);
  return ds_out(c, d, st);
}
extern const pf_kernel *const window_kernels[];
const pf_kernel *const window_kernels[] = {
  PF_CPU("WindowDataset", NULL, .compute = window_compute, .state_size = sizeof(window_state),
         .attrs = PF_ATTRS(PF_ATTR(window_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types))),
  NULL};
