/* step_gate.c - _StepGate, _StepGateBegin, _StepGateOpen, _StepGateNext: what replicas that train
 * in step have to compute next, instead of TensorFlow's queue of tokens.
 *
 * A step has a LABEL, generation << 40 | step: whoever restores a training begins a generation, so
 * labels of what was lost are no step's ever again.
 *
 *     shut -> open at a label [open_gate]      replicas are let through
 *     open -> shut [begin]                     a generation begins
 *     a shard of the step: FREE -> CLAIMED [claim] -> DELIVERED [next_work]
 *                          CLAIMED -> CLAIMED by another [claim, once it took longer than usual]
 *
 * Invariants
 *   1. Without shards a replica goes through once per label, with the source that it is.
 *   2. With shards a replica gets one that is its own already, its preferred one, the lowest free
 *      one, or the one claimed longest ago, if it took `patience`; who comes twice with the same
 *      work does no harm, because accumulators take each (label, source) once.
 *   3. Labels only grow.
 * Threads: `lock` (waiting.h) guards all fields.  A gate with replicas that wait has a thread that
 * looks whether a claim has become old; it ends when nobody waits.
 */
#include <time.h>
#include "queue/waiting.h"

enum { FREE, CLAIMED, DELIVERED };
enum { TIMES = 16, MAX_SHARDS = 65536, STEP_BITS = 40 };
#define MILLISECOND 1000000LL
#define UNKNOWN_PATIENCE (5000 * MILLISECOND)   /* before it is known how long a shard takes */

typedef struct {
  int32_t state;
  int64_t owner, since;
} shard;
typedef struct {
  pf_waited base;
  int64_t shards, generation, label, open;
  int64_t times[TIMES], n_times; /* how long the last shards took, ns */
  int32_t looked_after;          /* its thread runs */
  shard shard[];
} gate;
typedef struct {
  pf_str container, shared_name;
  int64_t shards;
} make_state;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void gate_free(pf_waited *w) { free(w); }
static void gate_tell(void *obj, pf_wait_state *to) {
  gate *g = obj;
  pthread_mutex_lock(&g->base.lock);
  int64_t step = g->label & ((1LL << STEP_BITS) - 1);
  if (g->label < 0) snprintf(to->takes, sizeof to->takes, "gate at which no step has begun");
  else if (!g->open) snprintf(to->takes, sizeof to->takes, "gate shut before step %" PRId64, step);
  else snprintf(to->takes, sizeof to->takes, "gate in step %" PRId64, step);
  pthread_mutex_unlock(&g->base.lock);
}
static const pf_type gate_type = {sizeof(pf_type), 0,        "pyflow.StepGate", pf_waited_unref,
                                  pf_waited_abort, gate_tell};
static pf_status make(pf_ctx *c, void *arg, void **obj) {
  const make_state *s = arg;
  gate *g = calloc(1, sizeof *g + sizeof *g->shard * (size_t)s->shards);
  if (!g) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a step gate");
  pf_waited_init(&g->base, gate_free);
  g->base.any_order = 1;
  g->shards = s->shards;
  g->label = -1;
  *obj = g;
  return PF_OK;
}
static pf_status make_gate(pf_ctx *c, const void *state) {
  make_state *s = (make_state *)state;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  void *obj;
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, s->container, name, &gate_type, make, s, &obj));
  const gate *g = obj;
  if (g->shards != s->shards)
    return PF_INVALID(c,
                      "the step gate '%.*s' has %" PRId64 " shards, this node asks for %" PRId64
                      ": all replicas must agree",
                      (int)PF_MIN(name.len, 300), name.data, g->shards, s->shards);
  return c->host->resource_output(c, 0, s->container, name, &gate_type, make, s);
}
static pf_status init_gate(pf_ctx *c, void *state) {
  const make_state *s = state;
  if (s->shards >= 0 && s->shards <= MAX_SHARDS) return PF_OK;
  return PF_INVALID(c, "a step gate has 0 to %d shards, got %" PRId64, MAX_SHARDS, s->shards);
}
static pf_status gate_of(pf_ctx *c, gate **g) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &gate_type, &obj));
  *g = obj;
  return PF_OK;
}
static pf_status put_number(pf_ctx *c, int32_t out, int64_t number) {
  DLTensor *y = c->host->output(c, out, NULL, 0);
  PF_EXHAUSTED(y);
  PF_DATA(int64_t, y)[0] = number;
  return PF_OK;
}

/* ---------------------------------------------------------------- the chief's */
static pf_status begin(pf_ctx *c, const void *s) {
  gate *g;
  int64_t step, generation;
  (void)s;
  PF_TRY(gate_of(c, &g));
  PF_TRY(pf_in_scalar(c, 1, "Argument step", &step));
  PF_TRY(pf_in_scalar(c, 2, "Argument generation", &generation));
  if (step < 0 || step >= 1LL << STEP_BITS)
    return PF_INVALID(c, "step must be from 0 to 2^40 - 1, got %" PRId64, step);
  if (generation >= 1LL << 22)
    return PF_INVALID(c, "generation must be below 2^22, got %" PRId64, generation);
  pthread_mutex_lock(&g->base.lock);
  g->generation = PF_MAX(g->generation + 1, generation);
  g->label = g->generation << STEP_BITS | step;
  g->open = 0;
  int64_t label = g->label;
  pthread_mutex_unlock(&g->base.lock);
  return put_number(c, 0, label);
}
static pf_status open_gate(pf_ctx *c, const void *s) {
  gate *g;
  int64_t label;
  (void)s;
  PF_TRY(gate_of(c, &g));
  PF_TRY(pf_in_scalar(c, 1, "Argument label", &label));
  pf_attempt *over = NULL;
  pthread_mutex_lock(&g->base.lock);
  int64_t generation = g->generation;
  if (label >> STEP_BITS == generation) {
    g->label = label, g->open = 1;
    memset(g->shard, 0, sizeof *g->shard * (size_t)g->shards);
    pf_waited_settle(&g->base, &over);
  }
  pthread_mutex_unlock(&g->base.lock);
  pf_attempts_end(over);
  if (label >> STEP_BITS == generation) return PF_OK;
  return pf_failf(c, PF_ABORTED,
                  "generation %" PRId64 " of the training was replaced by %" PRId64
                  ": another chief has begun",
                  label >> STEP_BITS, generation);
}

/* ---------------------------------------------------------------- the replicas' */
/* with the lock: after how long a claim may be another's: a quarter more than is usual */
static int64_t patience(const gate *g) {
  int64_t n = PF_MIN(g->n_times, TIMES), sorted[TIMES];
  if (n < 3) return UNKNOWN_PATIENCE;
  for (int64_t i = 0; i < n; i++) {
    int64_t j = i;
    for (; j && sorted[j - 1] > g->times[i]; j--) sorted[j] = sorted[j - 1];
    sorted[j] = g->times[i];
  }
  return sorted[n / 2] * 5 / 4 + 20 * MILLISECOND;
}
/* with the lock: the shard that `owner` gets; -1: there is none now */
static int64_t claim(gate *g, int64_t owner) {
  int64_t now = now_ns(), found = -1, oldest = now - patience(g);
  for (int64_t i = 0; i < g->shards && found < 0; i++)
    if (g->shard[i].state == CLAIMED && g->shard[i].owner == owner) found = i;
  if (found < 0 && owner >= 0 && owner < g->shards && g->shard[owner].state == FREE) found = owner;
  for (int64_t i = 0; i < g->shards && found < 0; i++)
    if (g->shard[i].state == FREE) found = i;
  for (int64_t i = 0, taken = found >= 0; i < g->shards && !taken; i++)
    if (g->shard[i].state == CLAIMED && g->shard[i].since <= oldest)
      oldest = g->shard[i].since, found = i;
  if (found >= 0) g->shard[found] = (shard){CLAIMED, owner, now};
  return found;
}
typedef struct {
  pf_attempt base;
  int64_t label, source, owner;
} next_attempt;
static int next_run(pf_attempt *base) {
  next_attempt *t = (next_attempt *)base;
  gate *g = (gate *)base->on;
  if (!g->open || (!g->shards && t->label == g->label)) return PF_WAITS;
  int64_t found = g->shards ? claim(g, t->owner) : t->owner;
  if (g->shards && found < 0) return PF_WAITS;
  t->label = g->label, t->source = found;
  return PF_OVER;
}
static pf_status next_deliver(pf_ctx *c, pf_attempt *base) {
  const next_attempt *t = (const next_attempt *)base;
  if (base->status)
    return pf_fail(c, base->status,
                   "the step gate was reset, or its session "
                   "closed");
  PF_TRY(put_number(c, 0, t->label));
  return put_number(c, 1, t->source);
}
static const pf_attempt_kind next_kind = {
  sizeof(next_attempt), PF_TAKES, "waiting for the next step was cancelled", next_run, NULL,
  next_deliver,         NULL};
/* with the lock: this shard is there */
static void deliver(gate *g, int64_t label, int64_t source) {
  if (!g->shards || label != g->label || source < 0 || source >= g->shards) return;
  shard *x = &g->shard[source];
  if (x->state == CLAIMED) g->times[g->n_times++ % TIMES] = now_ns() - x->since;
  x->state = DELIVERED;
}
/* Tries those that wait every few milliseconds, as long as there are any. */
static void *look_after(void *arg) {
  gate *g = arg;
  int waiting = 1;
  while (waiting) {
    struct timespec nap = {0, 5 * MILLISECOND};
    nanosleep(&nap, NULL);
    pf_attempt *over = NULL;
    pthread_mutex_lock(&g->base.lock);
    if (g->open) pf_waited_settle(&g->base, &over);
    waiting = g->looked_after = g->base.side[PF_TAKES].first != NULL;
    pthread_mutex_unlock(&g->base.lock);
    pf_attempts_end(over);
  }
  pf_waited_unref(g);
  return NULL;
}
static void see_to_it(gate *g) {
  pthread_t thread;
  pthread_mutex_lock(&g->base.lock);
  int needed = g->shards && !g->looked_after && g->base.side[PF_TAKES].first;
  if (needed) g->looked_after = 1, __atomic_add_fetch(&g->base.refs, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&g->base.lock);
  if (!needed) return;
  if (!pthread_create(&thread, NULL, look_after, g)) pthread_detach(thread);
  else {
    pthread_mutex_lock(&g->base.lock);
    g->looked_after = 0;
    pthread_mutex_unlock(&g->base.lock);
    pf_waited_unref(g);
  }
}
static pf_status next_work(pf_ctx *c, const void *s) {
  gate *g;
  next_attempt t = {.base.kind = &next_kind};
  (void)s;
  PF_TRY(gate_of(c, &g));
  PF_TRY(pf_in_scalar(c, 1, "Argument label", &t.label));
  PF_TRY(pf_in_scalar(c, 2, "Argument source", &t.source));
  PF_TRY(pf_in_scalar(c, 3, "Argument owner", &t.owner));
  __atomic_add_fetch(&g->base.refs, 1, __ATOMIC_RELAXED); /* the call may end meanwhile */
  pthread_mutex_lock(&g->base.lock);
  deliver(g, t.label, t.source);
  pthread_mutex_unlock(&g->base.lock);
  pf_status st = pf_attempt_start(c, &g->base, &t.base);
  if (st == PF_PENDING) see_to_it(g);
  pf_waited_unref(g);
  return st;
}

/* Who computes which shard depends on timing, the sums of what was computed do not. */
#define SAME PF_KERNEL_DETERMINISTIC
const pf_kernel *const step_gate_kernels[] = {
  PF_CPU_FLAGS("_StepGate", NULL, SAME, .init = init_gate, .compute = make_gate,
               .state_size = sizeof(make_state),
               .attrs = PF_ATTRS(PF_ATTR(make_state, PF_ATTR_STRING, container),
                                 PF_ATTR(make_state, PF_ATTR_STRING, shared_name),
                                 PF_ATTR(make_state, PF_ATTR_INT, shards))),
  PF_CPU_FLAGS("_StepGateBegin", NULL, SAME, .compute = begin),
  PF_CPU_FLAGS("_StepGateOpen", NULL, SAME | PF_KERNEL_PUTS, .compute = open_gate),
  PF_CPU_FLAGS("_StepGateNext", NULL, SAME | PF_KERNEL_ASYNC | PF_KERNEL_TAKES,
               .compute = next_work),
  NULL};
