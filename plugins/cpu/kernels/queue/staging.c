/* staging.c - Stage, Unstage, StagePeek, StageSize, StageClear: tuples of tensors that wait between
 * steps, first in, first out, in a bounded number and number of bytes.
 *
 * Invariants
 *   1. A tuple that alone is beyond memory_limit is refused; others wait until there is room.
 *   2. Peeking copies; taking hands the tensors on.
 * Threads: `lock` (waiting.h) guards all fields but the limits.
 *
 * Source: TF 1.15 tf.contrib.staging.StagingArea.
 */
#include "queue/staging.h"

typedef struct {
  pf_waited base;
  int64_t capacity, memory_limit, bytes; /* limits: 0: none */
  pf_chunk **at;                         /* a ring of `room`, a power of two */
  int64_t head, n, room;
} area;

static pf_chunk **place(area *a, int64_t i) { return &a->at[(a->head + i) & (a->room - 1)]; }
static void area_clear(area *a) {
  for (; a->n; a->n--) pf_chunk_drop(*place(a, a->n - 1), 1);
  a->bytes = 0;
}
static void area_free(pf_waited *w) {
  area *a = (area *)w;
  area_clear(a);
  free(a->at);
  free(a);
}
static void area_tell(void *obj, pf_wait_state *to) {
  (void)obj;
  snprintf(to->takes, sizeof to->takes, "empty staging area");
  snprintf(to->puts, sizeof to->puts, "full staging area");
}
static const pf_type area_type = {sizeof(pf_type), 0,        "pyflow.StagingArea", pf_waited_unref,
                                  pf_waited_abort, area_tell};
static pf_status make(pf_ctx *c, void *arg, void **obj) {
  const pf_staging_state *s = arg;
  area *a = calloc(1, sizeof *a);
  if (!a) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a staging area");
  pf_waited_init(&a->base, area_free);
  a->base.any_order = 1;
  a->capacity = s->capacity, a->memory_limit = s->memory_limit;
  *obj = a;
  return PF_OK;
}
static pf_status area_of(pf_ctx *c, const void *state, area **a) {
  const pf_staging_state *s = state;
  void *obj;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, s->container, name, &area_type, make, (void *)s,
                           &obj));
  *a = obj;
  return PF_OK;
}

typedef struct {
  pf_attempt base;
  pf_chunk *chunk;
  int64_t bytes, index;
} stage_attempt;
static int make_room(area *a) {
  if (a->n < a->room) return 1;
  int64_t room = PF_MAX(2 * a->room, 16);
  pf_chunk **at = malloc((size_t)room * sizeof *at);
  if (!at) return 0;
  for (int64_t i = 0; i < a->n; i++) at[i] = *place(a, i);
  free(a->at);
  a->at = at, a->room = room, a->head = 0;
  return 1;
}
static int put_run(pf_attempt *base) {
  stage_attempt *s = (stage_attempt *)base;
  area *a = (area *)base->on;
  if (a->capacity && a->n >= a->capacity) return PF_WAITS;
  if (a->memory_limit && a->n && a->bytes + s->bytes > a->memory_limit) return PF_WAITS;
  if (!make_room(a)) return base->status = PF_RESOURCE_EXHAUSTED, PF_OVER;
  a->n++, *place(a, a->n - 1) = s->chunk;
  a->bytes += s->bytes;
  s->chunk = NULL;
  return PF_OVER;
}
static int take_run(pf_attempt *base) {
  stage_attempt *s = (stage_attempt *)base;
  area *a = (area *)base->on;
  if (!a->n) return PF_WAITS;
  s->chunk = *place(a, 0);
  a->head++, a->n--;
  a->bytes -= pf_chunk_bytes(s->chunk);
  return PF_OVER;
}
static int peek_run(pf_attempt *base) {
  stage_attempt *s = (stage_attempt *)base;
  area *a = (area *)base->on;
  if (a->n <= s->index) return PF_WAITS;
  s->chunk = *place(a, s->index);
  __atomic_add_fetch(&s->chunk->refs, 1, __ATOMIC_RELAXED);
  return PF_OVER;
}
static pf_status put_deliver(pf_ctx *c, pf_attempt *a) {
  return a->status ? pf_staging_failed(c, a) : PF_OK;
}
static pf_status deliver(pf_ctx *c, pf_attempt *a) {
  stage_attempt *s = (stage_attempt *)a;
  if (a->status) return pf_staging_failed(c, a);
  if (s->chunk->n != c->n_out)
    return PF_INVALID(c, "Mismatch stage/unstage: %d vs. %d", s->chunk->n, c->n_out);
  for (int32_t i = 0; i < c->n_out; i++)
    PF_TRY(pf_staging_output(c, i, s->chunk, i, a->kind->run == take_run));
  return PF_OK;
}
static void clear(pf_attempt *a) {
  stage_attempt *s = (stage_attempt *)a;
  if (s->chunk) pf_chunk_drop(s->chunk, 1);
}
static const pf_attempt_kind put_kind = {
  sizeof(stage_attempt), PF_PUTS, "Stage operation was cancelled", put_run, NULL,
  put_deliver,           clear};
static const pf_attempt_kind take_kind = {sizeof(stage_attempt),
                                          PF_TAKES,
                                          "Unstage operation was cancelled",
                                          take_run,
                                          NULL,
                                          deliver,
                                          clear};
static const pf_attempt_kind peek_kind = {sizeof(stage_attempt),
                                          PF_TAKES,
                                          "StagePeek operation was cancelled",
                                          peek_run,
                                          NULL,
                                          deliver,
                                          clear};

static pf_status stage(pf_ctx *c, const void *state) {
  area *a;
  PF_TRY(area_of(c, state, &a));
  stage_attempt s = {.base.kind = &put_kind};
  if (!(s.chunk = pf_chunk_of_inputs(c, 0, c->n_in, -1))) return PF_RESOURCE_EXHAUSTED;
  s.bytes = pf_chunk_bytes(s.chunk);
  if (a->memory_limit && s.bytes > a->memory_limit) {
    pf_chunk_drop(s.chunk, 1);
    return pf_staging_too_large(c, s.bytes, a->memory_limit);
  }
  return pf_attempt_start(c, &a->base, &s.base);
}
static pf_status unstage(pf_ctx *c, const void *state) {
  area *a;
  PF_TRY(area_of(c, state, &a));
  stage_attempt s = {.base.kind = &take_kind};
  return pf_attempt_start(c, &a->base, &s.base);
}
static pf_status peek(pf_ctx *c, const void *state) {
  area *a;
  PF_TRY(area_of(c, state, &a));
  stage_attempt s = {.base.kind = &peek_kind};
  PF_TRY(pf_in_scalar(c, 0, "index", &s.index));
  if (s.index < 0) return PF_INVALID(c, "index must not be negative, got %" PRId64, s.index);
  return pf_attempt_start(c, &a->base, &s.base);
}
static pf_status size(pf_ctx *c, const void *state) {
  area *a;
  PF_TRY(area_of(c, state, &a));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&a->base.lock);
  PF_DATA(int32_t, y)[0] = (int32_t)a->n;
  pthread_mutex_unlock(&a->base.lock);
  return PF_OK;
}
static pf_status clear_all(pf_ctx *c, const void *state) {
  area *a;
  PF_TRY(area_of(c, state, &a));
  pf_attempt *over = NULL;
  pthread_mutex_lock(&a->base.lock);
  area_clear(a);
  pf_waited_settle(&a->base, &over);
  pthread_mutex_unlock(&a->base.lock);
  pf_attempts_end(over);
  return PF_OK;
}

const pf_kernel *const staging_kernels[] = {
  PF_STAGING("Stage", PF_KERNEL_ASYNC | PF_KERNEL_PUTS, stage),
  PF_STAGING("Unstage", PF_KERNEL_ASYNC | PF_KERNEL_TAKES, unstage),
  PF_STAGING("StagePeek", PF_KERNEL_ASYNC | PF_KERNEL_TAKES, peek),
  PF_STAGING("StageSize", 0, size),
  PF_STAGING("StageClear", 0, clear_all),
  NULL};
