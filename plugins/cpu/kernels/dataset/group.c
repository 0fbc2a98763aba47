/* group.c - GroupByWindowDataset: elements of one key together, reduced when their window is full.
 *
 *     ASK -> KEYED [an element's key] -> SIZED [of a new key: its window's size] -> ASK
 *     ASK -> REDUCED [a window is full, or the input has ended] -> READ [its dataset] -> ASK
 *
 * Invariants
 *   1. Groups lie sorted by key; at the end they are reduced in that order.
 *   2. What is being read keeps its key and elements: a saved state has these, and it is made
 *      again.
 *
 * Source: TF's GroupByWindowDataset.  Threads: as dataset.h.
 */
#include "dataset/rows.h"

typedef struct {
  pf_list output_types, Tkey_func_other_arguments, Treduce_func_other_arguments,
      Twindow_size_func_other_arguments;
  pf_str key_func, reduce_func, window_size_func;
} group_state;
typedef struct {
  dataset d;
  ds_function key, reduce, size;
} grouping;
typedef struct {
  int64_t key, size, n, held;
  ds_row *rows;
} group;
enum { ASK, ASKED, KEYED, SIZED, REDUCED, READ };
typedef struct {
  ds_task t;
  ds_stage *in, *open;
  dataset *opened;
  ds_pull_slot slot, answer;
  group *groups, now; /* now: what is reduced or read */
  int64_t n_groups, key, over, seen, reduced;
  int at;
} group_stage;

static const grouping *of(const group_stage *s) { return (const grouping *)s->t.s.of; }

static void group_clear(group *g) {
  for (int64_t i = 0; i < g->n; i++) ds_row_clear(&g->rows[i]);
  free(g->rows);
  *g = (group){0};
}
/* Takes the row. */
static int group_add(group *g, ds_row *row) {
  if (g->n == g->held) {
    int64_t held = PF_MAX(8, g->held * 2);
    ds_row *more = realloc(g->rows, sizeof *more * (size_t)held);
    if (!more) return ds_row_clear(row), 0;
    g->rows = more;
    g->held = held;
  }
  g->rows[g->n++] = *row;
  *row = (ds_row){0};
  return 1;
}
static int64_t place_of(const group_stage *s, int64_t key) {
  int64_t lo = 0, hi = s->n_groups;
  while (lo < hi) {
    int64_t mid = (lo + hi) / 2;
    if (s->groups[mid].key < key) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}
static group *found(group_stage *s, int64_t key) {
  int64_t i = place_of(s, key);
  return i < s->n_groups && s->groups[i].key == key ? &s->groups[i] : NULL;
}
static group *insert(group_stage *s, int64_t key, int64_t size) {
  int64_t i = place_of(s, key);
  group *more = realloc(s->groups, sizeof *more * (size_t)(s->n_groups + 1));
  if (!more) return NULL;
  s->groups = more;
  memmove(more + i + 1, more + i, sizeof *more * (size_t)(s->n_groups++ - i));
  more[i] = (group){.key = key, .size = size};
  return &more[i];
}
static void take_out(group_stage *s, group *g) {
  s->now = *g;
  memmove(g, g + 1, sizeof *g * (size_t)(--s->n_groups - (g - s->groups)));
}
static pf_status no_memory(ds_row *out) {
  return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory to group elements");
}
static uint64_t stream_of(const group_stage *s, uint64_t which, int64_t n) {
  return ds_mix(ds_mix(s->t.s.path, which), (uint64_t)n);
}
/* A function's scalar int64 */
static pf_status number_of(group_stage *s, const char *what, int64_t *out) {
  ds_row *row = &s->answer.row;
  if (s->answer.st) return *s->t.out = *row, ds_not_the_end(s->t.out, s->answer.st, PF_INTERNAL);
  const DLTensor *t = &row->v[0]->dl_tensor;
  int ok = row->n == 1 && pf_numel(t) == 1 && s->t.s.of->host->type_of(row->v[0]) == PF_INT64;
  if (ok) *out = PF_DATA(const int64_t, t)[0];
  ds_row_clear(row);
  return ok ? PF_OK : ds_fail(s->t.out, PF_INVALID_ARGUMENT, "%s must give a scalar int64", what);
}
static pf_status ask_key(group_stage *s) {
  ds_row args;
  if (!ds_row_share(s->t.s.of->host, &s->slot.row, &args))
    return s->answer.st = no_memory(&s->answer.row);
  return ds_call(&s->answer, &s->t, &of(s)->key, &args, stream_of(s, 1, s->seen++));
}
static ds_tensor *key_tensor(const group_stage *s, int64_t key) {
  return ds_scalar_int64(s->t.s.of->host, key);
}
static pf_status ask_size(group_stage *s) {
  ds_row args;
  if (!ds_row_room(&args, 1) || !(args.v[0] = key_tensor(s, s->key)))
    return ds_row_clear(&args), s->answer.st = no_memory(&s->answer.row);
  return ds_call(&s->answer, &s->t, &of(s)->size, &args, stream_of(s, 2, s->seen));
}
/* The arguments of the reducing function: the key, and the window as a dataset. */
static int reduce_args(const group_stage *s, ds_row *args) {
  const dataset *in = s->t.s.of->in[0];
  dataset *window = ds_rows_new(in, in->types, in->n_types, s->now.rows, s->now.n, -1);
  if (!ds_row_room(args, 2)) return ds_unref(window), 0;
  if (window && (args->v[0] = key_tensor(s, s->now.key)) && (args->v[1] = ds_variant(window)))
    return 1;
  if (!args->v[0]) ds_unref(window);
  return ds_row_clear(args), 0;
}
static pf_status ask_reduced(group_stage *s) {
  ds_row args;
  if (!reduce_args(s, &args)) return s->answer.st = no_memory(&s->answer.row);
  return ds_call(&s->answer, &s->t, &of(s)->reduce, &args, stream_of(s, 3, s->reduced));
}
/* The dataset that came of it is read from now on. */
static pf_status read_made(group_stage *s, ds_row *made, ds_row *error) {
  const dataset *d = s->t.s.of;
  ds_place at = {s->t.s.root, stream_of(s, 4, s->reduced)};
  pf_status st = ds_made(d->host, made, error, &s->opened);
  ds_row_clear(made);
  if (!st && !ds_types_equal(s->opened, d->types, d->n_types))
    st = ds_fail(error, PF_INVALID_ARGUMENT,
                 "reduce_func made a dataset of other element types "
                 "than output_types");
  return st ? st : ds_open(s->opened, at, error, &s->open);
}
static void shut(group_stage *s) {
  ds_close(s->open);
  ds_unref(s->opened);
  group_clear(&s->now);
  s->open = NULL;
  s->opened = NULL;
}
/* An element came: it goes to its group, whose window it may fill. */
static int joined(group_stage *s, group *g) {
  if (!g || !group_add(g, &s->slot.row)) return 0;
  s->at = ASK;
  if (g->n < g->size) return 1;
  take_out(s, g);
  s->at = REDUCED;
  return 1;
}
static pf_status failed(group_stage *s, pf_status st) {
  ds_row_clear(&s->slot.row);
  s->at = ASK;
  return st;
}

static pf_status group_run(ds_task *t) {
  group_stage *s = (group_stage *)t;
  for (;;) {
    pf_status st;
    group *g;
    switch (s->at) {
      case ASK:
        if (ds_interrupted(t->s.root)) return PF_CANCELLED;
        if (!s->open && s->over) {
          if (!s->n_groups) return DS_END;
          take_out(s, s->groups);
          s->at = REDUCED;
          if (ask_reduced(s) == PF_PENDING) return PF_PENDING;
          continue;
        }
        s->at = s->open ? READ : ASKED;
        if (ds_pull(&s->slot, t, s->open ? s->open : s->in) == PF_PENDING) return PF_PENDING;
        continue;
      case READ:
        s->at = ASK;
        if (s->slot.st != DS_END) return *t->out = s->slot.row, s->slot.st;
        shut(s);
        continue;
      case ASKED:
        s->at = ASK;
        if (s->slot.st == DS_END) {
          s->over = 1;
          continue;
        }
        if (s->slot.st) return *t->out = s->slot.row, s->slot.st;
        s->at = KEYED;
        if (ask_key(s) == PF_PENDING) return PF_PENDING;
        continue;
      case KEYED:
        if ((st = number_of(s, "key_func", &s->key))) return failed(s, st);
        if (!(g = found(s, s->key))) {
          s->at = SIZED;
          if (ask_size(s) == PF_PENDING) return PF_PENDING;
          continue;
        }
        if (!joined(s, g)) return failed(s, no_memory(t->out));
        if (s->at == REDUCED && ask_reduced(s) == PF_PENDING) return PF_PENDING;
        continue;
      case SIZED: {
        int64_t size = 0;
        if ((st = number_of(s, "window_size_func", &size))) return failed(s, st);
        if (size < 1)
          return failed(s, ds_fail(t->out, PF_INVALID_ARGUMENT,
                                   "Window size must be greater than "
                                   "zero, but got %" PRId64 ".",
                                   size));
        if (!joined(s, insert(s, s->key, size))) return failed(s, no_memory(t->out));
        if (s->at == REDUCED && ask_reduced(s) == PF_PENDING) return PF_PENDING;
        continue;
      }
      default: /* REDUCED */
        s->at = ASK;
        if (s->answer.st) {
          *t->out = s->answer.row;
          st = ds_not_the_end(t->out, s->answer.st, PF_INTERNAL);
        } else {
          st = read_made(s, &s->answer.row, t->out);
        }
        s->reduced++;
        if (st) return shut(s), st;
    }
  }
}

static void group_close(ds_stage *t) {
  group_stage *s = (group_stage *)t;
  shut(s);
  for (int64_t i = 0; i < s->n_groups; i++) group_clear(&s->groups[i]);
  free(s->groups);
  ds_close(s->in);
  free(s);
}
static void put_group(ds_writer *w, const group *g) {
  ds_put_int(w, g->key);
  ds_put_int(w, g->size);
  ds_put_int(w, g->n);
  for (int64_t i = 0; i < g->n; i++) ds_put_row(w, &g->rows[i]);
}
static pf_status get_group(ds_reader *r, const dataset *in, group *g) {
  int64_t n;
  PF_TRY(ds_get_int(r, &g->key));
  PF_TRY(ds_get_range(r, 1, INT64_MAX, &g->size));
  PF_TRY(ds_get_range(r, 1, g->size, &n));
  for (int64_t i = 0; i < n; i++) {
    ds_row row = {0};
    PF_TRY(ds_get_row(r, in, &row));
    if (!group_add(g, &row)) return PF_RESOURCE_EXHAUSTED;
  }
  return PF_OK;
}
static void group_save(ds_stage *t, ds_writer *w) {
  group_stage *s = (group_stage *)t;
  ds_put_int(w, s->over);
  ds_put_int(w, s->seen);
  ds_put_int(w, s->reduced);
  ds_put_int(w, s->n_groups);
  for (int64_t i = 0; i < s->n_groups; i++) put_group(w, &s->groups[i]);
  ds_put_int(w, s->open != NULL);
  if (s->open) {
    put_group(w, &s->now);
    ds_put_stage(w, s->open);
  }
  ds_put_stage(w, s->in);
}
static pf_status load_open(group_stage *s, ds_reader *r) {
  const dataset *d = s->t.s.of;
  ds_row args, made, error = {0};
  PF_TRY(get_group(r, d->in[0], &s->now));
  if (!reduce_args(s, &args)) return PF_RESOURCE_EXHAUSTED;
  s->reduced--; /* as it was when it was made */
  pf_status st =
      ds_call_and_wait(d->host, &of(s)->reduce, &args, stream_of(s, 3, s->reduced), &made);
  if (!st) st = read_made(s, &made, &error);
  else error = made;
  s->reduced++;
  return st ? ds_load_failed(r, st, &error) : ds_get_stage(r, s->open);
}
static pf_status group_load(ds_stage *t, ds_reader *r) {
  group_stage *s = (group_stage *)t;
  int64_t n, open;
  PF_TRY(ds_get_range(r, 0, 1, &s->over));
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &s->seen));
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &s->reduced));
  PF_TRY(ds_get_range(r, 0, 1 << 24, &n));
  for (int64_t i = 0; i < n; i++) {
    group g = {0}, *at;
    pf_status st = get_group(r, t->of->in[0], &g);
    if (!st && (found(s, g.key) || !(at = insert(s, g.key, g.size)))) st = PF_DATA_LOSS;
    if (st) return group_clear(&g), st;
    *at = g;
  }
  PF_TRY(ds_get_range(r, 0, 1, &open));
  if (open) PF_TRY(load_open(s, r));
  return ds_get_stage(r, s->in);
}
static const ds_stage_kind GROUP_STAGE = {
  .next = ds_task_next, .close = group_close, .save = group_save, .load = group_load};
static pf_status group_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  group_stage *s = ds_stage_new(sizeof *s, &GROUP_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = group_run;
  pf_status st = ds_open(d->in[0], at, error, &s->in);
  if (st) return group_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static void grouping_free(dataset *d) {
  grouping *g = (grouping *)d;
  ds_function_clear(&g->key);
  ds_function_clear(&g->reduce);
  ds_function_clear(&g->size);
}
static const ds_kind GROUP = {"GroupByWindow", group_open, grouping_free, NULL};
static pf_status group_compute(pf_ctx *c, const void *state) {
  const group_state *st = state;
  grouping *d = ds_new(c, sizeof *d, &GROUP, NULL, 1, &st->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  int32_t key = (int32_t)st->Tkey_func_other_arguments.n,
          reduce = (int32_t)st->Treduce_func_other_arguments.n,
          size = (int32_t)st->Twindow_size_func_other_arguments.n;
  pf_status r = ds_function_get(c, st->key_func, 1, key, &d->key);
  if (!r) r = ds_function_get(c, st->reduce_func, 1 + key, reduce, &d->reduce);
  if (!r) r = ds_function_get(c, st->window_size_func, 1 + key + reduce, size, &d->size);
  return ds_out(c, d, r);
}
#define TYPES(field_) PF_ATTR(group_state, PF_ATTR_TYPE | PF_ATTR_LIST, field_)
#define FUNC(field_) PF_ATTR(group_state, PF_ATTR_FUNC, field_)
extern const pf_kernel *const group_kernels[];
const pf_kernel *const group_kernels[] = {
  PF_CPU("GroupByWindowDataset", NULL, .compute = group_compute, .state_size = sizeof(group_state),
         .attrs =
             PF_ATTRS(TYPES(output_types), TYPES(Tkey_func_other_arguments),
                      TYPES(Treduce_func_other_arguments), TYPES(Twindow_size_func_other_arguments),
                      FUNC(key_func), FUNC(reduce_func), FUNC(window_size_func))),
  NULL};
