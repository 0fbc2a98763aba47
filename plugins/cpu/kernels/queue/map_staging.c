/* map_staging.c - MapStage, MapUnstage, MapUnstageNoKey, MapPeek, MapSize, MapIncompleteSize,
 * MapClear and the same of OrderedMap: tuples of tensors that wait between steps under a key.
 *
 * Invariants
 *   1. An entry is INCOMPLETE until each of its components was put, then it can be taken, whole or
 *      in parts; it leaves with its last part.
 *   2. Entries lie in the order of their keys, in both kinds of maps.
 *   3. A component is a chunk of one tensor: peeking shares it.
 * Threads: `lock` (waiting.h) guards all fields but the limits.
 *
 * Source: TF 1.15 tf.contrib.staging.MapStagingArea.
 */
#include "queue/staging.h"

typedef struct {
  int64_t key;
  int32_t complete, left;
  pf_chunk **part;
} entry;
typedef struct {
  pf_waited base;
  int64_t capacity, memory_limit, bytes;
  int32_t n_parts; /* of a whole tuple */
  entry *at;       /* n of them, in order */
  int64_t n, n_complete, room;
} map;

static void entry_free(map *m, entry *e) {
  for (int32_t i = 0; i < m->n_parts; i++)
    if (e->part[i]) m->bytes -= pf_chunk_bytes(e->part[i]), pf_chunk_drop(e->part[i], 1);
  free(e->part);
}
static void map_clear(map *m) {
  for (int64_t i = 0; i < m->n; i++) entry_free(m, &m->at[i]);
  m->n = m->n_complete = m->bytes = 0;
}
static void map_free(pf_waited *w) {
  map *m = (map *)w;
  map_clear(m);
  free(m->at);
  free(m);
}
static void map_tell(void *obj, pf_wait_state *to) {
  map *m = obj;
  pthread_mutex_lock(&m->base.lock);
  int n = (int)m->n_complete;
  pthread_mutex_unlock(&m->base.lock);
  if (n) snprintf(to->takes, sizeof to->takes, "staging map with %d other keys", n);
  else snprintf(to->takes, sizeof to->takes, "empty staging map");
  snprintf(to->puts, sizeof to->puts, "full staging map");
}
static const pf_type map_type = {sizeof(pf_type), 0,       "pyflow.MapStagingArea", pf_waited_unref,
                                 pf_waited_abort, map_tell};
static pf_status make(pf_ctx *c, void *arg, void **obj) {
  const pf_staging_state *s = arg;
  map *m = calloc(1, sizeof *m);
  if (!m) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a staging map");
  pf_waited_init(&m->base, map_free);
  m->base.any_order = 1;
  m->capacity = s->capacity, m->memory_limit = s->memory_limit;
  *obj = m;
  return PF_OK;
}
static pf_status map_of(pf_ctx *c, const void *state, map **m) {
  const pf_staging_state *s = state;
  void *obj;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, s->container, name, &map_type, make, (void *)s,
                           &obj));
  *m = obj;
  return PF_OK;
}
/* where the key is, or would be */
static int64_t find(const map *m, int64_t key) {
  int64_t lo = 0, hi = m->n;
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    if (m->at[mid].key < key) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}
static entry *entry_at(map *m, int64_t key) {
  int64_t i = find(m, key);
  return i < m->n && m->at[i].key == key ? &m->at[i] : NULL;
}
static entry *entry_new(map *m, int64_t key) {
  int64_t i = find(m, key);
  if (m->n == m->room) {
    int64_t room = PF_MAX(2 * m->room, 16);
    entry *at = realloc(m->at, (size_t)room * sizeof *at);
    if (!at) return NULL;
    m->at = at, m->room = room;
  }
  pf_chunk **part = calloc((size_t)m->n_parts, sizeof *part);
  if (!part) return NULL;
  memmove(m->at + i + 1, m->at + i, (size_t)(m->n - i) * sizeof *m->at);
  m->at[i] = (entry){key, 0, m->n_parts, part};
  m->n++;
  return &m->at[i];
}
static void remove_entry(map *m, entry *e) {
  m->n_complete -= e->complete;
  entry_free(m, e);
  memmove(e, e + 1, (size_t)(m->at + m->n - e - 1) * sizeof *e);
  m->n--;
}

/* ---------------------------------------------------------------- attempts */
typedef struct {
  pf_attempt base;
  int64_t key, bytes;
  /* any: no key asked for; keep: peek; output: the first value's */
  int32_t n, any, keep, output;
  int32_t *index; /* n of them, and n parts */
  pf_chunk **part;
  int32_t wrong, why; /* an index, and what is wrong with it */
} map_attempt;
enum { OUT_OF_BOUNDS = 1, THERE_ALREADY, GONE };

static int fails(map_attempt *t, int32_t index, int32_t why) {
  t->wrong = index, t->why = why;
  t->base.status = PF_INVALID_ARGUMENT;
  return PF_OVER;
}
static int put_run(pf_attempt *base) {
  map_attempt *t = (map_attempt *)base;
  map *m = (map *)base->on;
  entry *e = entry_at(m, t->key);
  for (int32_t i = 0; i < t->n; i++) {
    if (t->index[i] < 0 || t->index[i] >= m->n_parts) return fails(t, t->index[i], OUT_OF_BOUNDS);
    if (e && e->part[t->index[i]]) return fails(t, t->index[i], THERE_ALREADY);
  }
  if (m->memory_limit && m->n && m->bytes + t->bytes > m->memory_limit) return PF_WAITS;
  int completes = (e ? e->left : m->n_parts) == t->n;
  if (completes && m->capacity && m->n_complete >= m->capacity) return PF_WAITS;
  if (!e && !(e = entry_new(m, t->key))) return base->status = PF_RESOURCE_EXHAUSTED, PF_OVER;
  for (int32_t i = 0; i < t->n; i++, e->left--)
    e->part[t->index[i]] = t->part[i], t->part[i] = NULL;
  m->bytes += t->bytes;
  if (completes) e->complete = 1, e->left = m->n_parts, m->n_complete++;
  return PF_OVER;
}
static entry *wanted_entry(map *m, const map_attempt *t) {
  entry *e = t->any ? m->at : entry_at(m, t->key);
  for (; t->any && e && e < m->at + m->n && !e->complete; e++) {}
  return e && e < m->at + m->n && e->complete ? e : NULL;
}
static int take_run(pf_attempt *base) {
  map_attempt *t = (map_attempt *)base;
  map *m = (map *)base->on;
  entry *e = wanted_entry(m, t);
  if (!e) return PF_WAITS;
  for (int32_t i = 0; i < t->n; i++) {
    if (t->index[i] < 0 || t->index[i] >= m->n_parts) return fails(t, t->index[i], OUT_OF_BOUNDS);
    if (!e->part[t->index[i]]) return fails(t, t->index[i], GONE);
  }
  t->key = e->key;
  for (int32_t i = 0; i < t->n; i++) {
    pf_chunk **part = &e->part[t->index[i]];
    t->part[i] = *part;
    if (t->keep) __atomic_add_fetch(&(*part)->refs, 1, __ATOMIC_RELAXED);
    else m->bytes -= pf_chunk_bytes(*part), *part = NULL, e->left--;
  }
  if (!e->left) remove_entry(m, e);
  return PF_OVER;
}
static pf_status failed(pf_ctx *c, const map_attempt *t) {
  const map *m = (const map *)t->base.on;
  switch (t->why) {
    case OUT_OF_BOUNDS:
      return PF_INVALID(c,
                        "Index '%d' for key '%" PRId64 "' was out of bounds "
                        "'%d'.",
                        t->wrong, t->key, m->n_parts);
    case THERE_ALREADY:
      return PF_INVALID(c,
                        "The tensor for index '%d' for key '%" PRId64 "' was "
                        "already initialized '%d'.",
                        t->wrong, t->key, m->n_parts);
    case GONE:
      return PF_INVALID(c,
                        "Tensor at index '%d' for key '%" PRId64 "' has already been "
                        "removed.",
                        t->wrong, t->key);
    default: return pf_staging_failed(c, &t->base);
  }
}
static pf_status put_deliver(pf_ctx *c, pf_attempt *a) {
  return a->status ? failed(c, (map_attempt *)a) : PF_OK;
}
static pf_status take_deliver(pf_ctx *c, pf_attempt *a) {
  map_attempt *t = (map_attempt *)a;
  if (a->status) return failed(c, t);
  if (t->n != c->n_out - t->output)
    return PF_INVALID(c, "Mismatch stage/unstage: %d vs. %d", t->n, c->n_out - t->output);
  if (t->output) {
    DLTensor *key = c->host->output(c, 0, NULL, 0);
    PF_EXHAUSTED(key);
    PF_DATA(int64_t, key)[0] = t->key;
  }
  for (int32_t i = 0; i < t->n; i++)
    PF_TRY(pf_staging_output(c, t->output + i, t->part[i], 0, !t->keep));
  return PF_OK;
}
static void attempt_clear(pf_attempt *a) {
  map_attempt *t = (map_attempt *)a;
  for (int32_t i = 0; i < t->n; i++)
    if (t->part[i]) pf_chunk_drop(t->part[i], 1);
  free(t->index);
}
static const pf_attempt_kind put_kind = {
  sizeof(map_attempt), PF_PUTS,      "MapStage operation was cancelled", put_run, NULL,
  put_deliver,         attempt_clear};
static const pf_attempt_kind take_kind = {
  sizeof(map_attempt), PF_TAKES,     "MapUnstage operation was cancelled", take_run, NULL,
  take_deliver,        attempt_clear};

/* the indices of input `in`, checked; room for as many parts */
static pf_status set_indices(pf_ctx *c, map_attempt *t, int32_t in) {
  const DLTensor *x = c->in[in];
  if (x->ndim > 1) return PF_INVALID(c, "indices must be a vector, got shape %s", PF_SHAPE(x).s);
  int64_t n = pf_numel(x);
  if (n > 4096) return PF_INVALID(c, "%" PRId64 " indices are too many", n);
  for (int64_t i = 1; i < n; i++)
    if (pf_in_index(c, in, i) <= pf_in_index(c, in, i - 1))
      return PF_INVALID(c, "Indices are not strictly ordered");
  char *memory = calloc((size_t)n + 1, sizeof(int32_t) + sizeof(pf_chunk *) + 4);
  if (!memory) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a staging map's call");
  t->n = (int32_t)n;
  t->index = (int32_t *)memory;
  t->part = (pf_chunk **)(memory + ((size_t)n * sizeof(int32_t) + 7) / 8 * 8);
  for (int64_t i = 0; i < n; i++) t->index[i] = (int32_t)pf_in_index(c, in, i);
  return PF_OK;
}
static pf_status set_values(pf_ctx *c, const map *m, map_attempt *t, const pf_staging_state *s) {
  if (t->n != c->n_in - 2)
    return PF_INVALID(c, "the number of indices, %d, is not the number of values, %d", t->n,
                      c->n_in - 2);
  const int32_t *types = s->dtypes.items;
  for (int32_t i = 0; i < t->n; i++) {
    int32_t at = t->index[i], type = c->in_type[2 + i];
    if (at >= 0 && at < s->dtypes.n && types[at] != type)
      return PF_INVALID(c, "value %d is %s, the map's component %d is %s", i, pf_type_name(type),
                        at, pf_type_name(types[at]));
    if (!(t->part[i] = pf_chunk_of_inputs(c, 2 + i, 1, -1))) return PF_RESOURCE_EXHAUSTED;
    t->bytes += pf_chunk_bytes(t->part[i]);
  }
  return m->memory_limit && t->bytes > m->memory_limit
             ? pf_staging_too_large(c, t->bytes, m->memory_limit)
             : PF_OK;
}
static pf_status stage(pf_ctx *c, const void *state) {
  const pf_staging_state *s = state;
  map *m;
  map_attempt t = {.base.kind = &put_kind};
  PF_TRY(map_of(c, state, &m));
  PF_TRY(pf_in_scalar(c, 0, "key", &t.key));
  pthread_mutex_lock(&m->base.lock);
  if (!m->n_parts) m->n_parts = (int32_t)s->dtypes.n;
  int32_t parts = m->n_parts;
  pthread_mutex_unlock(&m->base.lock);
  if (parts != s->dtypes.n)
    return PF_INVALID(c, "the staging map has %d components, not %" PRId64, parts, s->dtypes.n);
  PF_TRY(set_indices(c, &t, 1));
  t.base.on = &m->base;
  pf_status st = set_values(c, m, &t, s);
  if (st) return attempt_clear(&t.base), st;
  return pf_attempt_start(c, &m->base, &t.base);
}
static pf_status take(pf_ctx *c, const void *state, int32_t any, int32_t keep) {
  map *m;
  map_attempt t = {.base.kind = &take_kind, .any = any, .keep = keep, .output = any};
  PF_TRY(map_of(c, state, &m));
  if (!any) PF_TRY(pf_in_scalar(c, 0, "key", &t.key));
  PF_TRY(set_indices(c, &t, any ? 0 : 1));
  return pf_attempt_start(c, &m->base, &t.base);
}
static pf_status unstage(pf_ctx *c, const void *s) { return take(c, s, 0, 0); }
static pf_status unstage_any(pf_ctx *c, const void *s) { return take(c, s, 1, 0); }
static pf_status peek(pf_ctx *c, const void *s) { return take(c, s, 0, 1); }

static pf_status count(pf_ctx *c, const void *state, int32_t incomplete) {
  map *m;
  PF_TRY(map_of(c, state, &m));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&m->base.lock);
  PF_DATA(int32_t, y)[0] = (int32_t)(incomplete ? m->n - m->n_complete : m->n_complete);
  pthread_mutex_unlock(&m->base.lock);
  return PF_OK;
}
static pf_status size(pf_ctx *c, const void *s) { return count(c, s, 0); }
static pf_status incomplete_size(pf_ctx *c, const void *s) { return count(c, s, 1); }
static pf_status clear_all(pf_ctx *c, const void *state) {
  map *m;
  pf_attempt *over = NULL;
  PF_TRY(map_of(c, state, &m));
  pthread_mutex_lock(&m->base.lock);
  map_clear(m);
  pf_waited_settle(&m->base, &over);
  pthread_mutex_unlock(&m->base.lock);
  pf_attempts_end(over);
  return PF_OK;
}

#define TAKES (PF_KERNEL_ASYNC | PF_KERNEL_TAKES)
#define BOTH(op_, flags_, compute_) \
  PF_STAGING("Map" op_, flags_, compute_), PF_STAGING("OrderedMap" op_, flags_, compute_)
const pf_kernel *const map_staging_kernels[] = {
  BOTH("Stage", PF_KERNEL_ASYNC | PF_KERNEL_PUTS, stage),
  BOTH("Unstage", TAKES, unstage),
  BOTH("UnstageNoKey", TAKES, unstage_any),
  BOTH("Peek", TAKES, peek),
  BOTH("Size", 0, size),
  BOTH("IncompleteSize", 0, incomplete_size),
  BOTH("Clear", 0, clear_all),
  NULL};
