/* serving.c - plans by handle, and steps of them that a peer asks for: begun by its RUN, answered
 * by DONE.
 *
 *   asker   pf_net_run --RUN--> pf_steps_run -> pf_steps_begin -> pf_step_start     worker
 *           pf_steps_done <----------DONE------ finish <---------- `done`
 *
 * The step has the frame's key in the worker's task, so CANCEL and CLEAN are that task's table's,
 * and tensors that peers send for it find it (step_table.pyx).
 *
 * Invariants
 * 1. Each RUN is answered by one DONE, or the connection is lost; then every step that the lost
 *    peer had begun here fails with it.
 * 2. A thread that reads links runs a step itself (help.pyx) only where its plan says that a
 *    hundredth of the lease is enough for it (plan/cost.pyx: no loops, calls, callbacks, unknown
 *    sizes) and its steps are brief: the least of late, since a thread that had to wait for a
 *    processor, or a step for the pool, takes long and computes no more.  Any other goes to the
 *    plan's pool. Two on end that took longer all the same are followed by SPARED that go there.
 *    net.c has what happens meanwhile.
 *
 * Threads: any.
 */
#include "net/peer.h"

enum { FEW_RETS = 16, LEASE_OVER = 100, MEASURED = 8, SPARED = 1000 };
static const int64_t BRIEF_NS = 100000;

/* ---------------------------------------------------------------- plans by handle */
static pf_served **place_of(pf_net *n, uint64_t handle) { /* lock held */
  pf_served **at = &n->served[(handle ^ handle >> 6 ^ handle >> 17) % PF_NET_HANDLES];
  while (*at && (*at)->handle != handle) at = &(*at)->next;
  return at;
}

static pf_served *new_served(const pf_net_plans *plans) {
  size_t pointers = sizeof(void *) * (size_t)plans->n,
         args = sizeof(int32_t) * (size_t)plans->n_args;
  pf_served *s = calloc(1, sizeof *s + pointers + args + sizeof(int32_t) * (size_t)plans->n_rets);
  if (!s) return NULL;
  char *behind = (char *)(s + 1);
  memcpy(behind, plans->plans, pointers);
  if (plans->n_args) memcpy(behind + pointers, plans->arg_of, args);
  if (plans->n_rets)
    memcpy(behind + pointers + args, plans->ret_of, sizeof(int32_t) * (size_t)plans->n_rets);
  s->plans = *plans;
  s->plans.plans = (pf_plan **)behind;
  s->plans.arg_of = (int32_t *)(behind + pointers);
  s->plans.ret_of = (int32_t *)(behind + pointers + args);
  pf_a32_store(&s->refs, 1);
  return s;
}

pf_status pf_net_serve(pf_net *n, uint64_t handle, const pf_net_plans *plans, void *owner,
                       void (*drop)(void *), pf_error *err) {
  pf_served *s = new_served(plans);
  if (!s) return pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a plan's handle");
  s->handle = handle, s->net = n, s->owner = owner, s->drop = drop;
  pthread_mutex_lock(&n->lock);
  pf_served **at = place_of(n, handle);
  pf_status st = pf_a32_load(&n->closing) ? PF_CANCELLED : *at ? PF_ALREADY_EXISTS : PF_OK;
  if (!st) {
    pf_net_ref(n);
    *at = s;
  }
  pthread_mutex_unlock(&n->lock);
  if (!st) return PF_OK;
  free(s);
  return pf_error_set(err, st,
                      st == PF_CANCELLED ? "the net was closed"
                                         : "a plan is served under handle %llx already",
                      (unsigned long long)handle);
}

void pf_served_unref(pf_served *s) {
  if (!s || !pf_a32_dec_last(&s->refs)) return;
  pf_net *n = s->net;
  pf_net_tell(n, s->drop, s->owner);
  free(s);
  pf_net_unref(n);
}

pf_status pf_net_unserve(pf_net *n, uint64_t handle) {
  pthread_mutex_lock(&n->lock);
  pf_served **at = place_of(n, handle), *s = *at;
  if (s) *at = s->next;
  pthread_mutex_unlock(&n->lock);
  pf_served_unref(s);
  return s ? PF_OK : PF_NOT_FOUND;
}

static pf_served *served(pf_net *n, uint64_t handle) {
  pthread_mutex_lock(&n->lock);
  pf_served *s = *place_of(n, handle);
  if (s) pf_a32_add_rlx(&s->refs, 1);
  pthread_mutex_unlock(&n->lock);
  return s;
}

int64_t pf_net_asked(pf_net *n, uint64_t handle) {
  pf_served *s = served(n, handle);
  int64_t at = s ? pf_a64_load_rlx(&s->asked_ns) : 0;
  pf_served_unref(s);
  int64_t ago = pf_now_ns() - at;
  return !at ? -1 : ago < 0 ? 0 : ago;
}

/* ---------------------------------------------------------------- the worker's end */
static void answer(pf_peer *p, pf_step_key key, uint64_t call, pf_status st, const pf_error *err,
                   pf_tensor **rets, int32_t n) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_net_arenas arenas = pf_peer_arenas(p);
  pf_error why;
  for (int32_t k = 0; !st && k < n; k++) {
    pf_error_clear(&why);
    st = pf_net_tensor_check(rets[k], &why);
    if (st) err = &why;
  }
  pf_put_head(&o, PF_NET_DONE, 0, key, p->net->o.epoch);
  pf_put64(&o, call);
  if (st) {
    if (err) why = *err;
    else pf_error_clear(&why);
    if (!why.task[0])
      pf_copy_text(why.task, sizeof why.task, p->net->task->name,
                   (int64_t)strlen(p->net->task->name));
    pf_net_put_error(&o, st, &why);
  } else {
    pf_put32(&o, 0), pf_put32(&o, (uint32_t)n);
    for (int32_t k = 0; k < n; k++) pf_net_put_tensor(&o, rets[k], 0, arenas.self ? &arenas : NULL);
  }
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

static void list(pf_serving *s) {
  pf_peer *p = s->peer;
  pthread_mutex_lock(&p->servings.lock);
  s->prev = NULL, s->next = p->servings.first;
  if (p->servings.first) p->servings.first->prev = s;
  p->servings.first = s;
  p->servings.n++;
  s->listed = 1;
  pthread_mutex_unlock(&p->servings.lock);
}

static void unlist(pf_serving *s) {
  pf_peer *p = s->peer;
  pthread_mutex_lock(&p->servings.lock);
  if (s->listed) {
    if (s->prev) s->prev->next = s->next;
    else p->servings.first = s->next;
    if (s->next) s->next->prev = s->prev;
    p->servings.n--;
  }
  pthread_mutex_unlock(&p->servings.lock);
}

/* The node of the plans that gives this result. */
static void name_ret(const pf_net_plans *all, int32_t number, pf_error *err) {
  for (int32_t j = 0, at = 0; j < all->n; j++)
    for (uint32_t k = 0; k < all->plans[j]->n_rets; k++)
      if (all->ret_of[at++] == number)
        pf_copy_text(err->node, sizeof err->node, all->plans[j]->ret_name[k].data,
                     all->plans[j]->ret_name[k].len);
}

/* The least of late: it grows by a quarter with each that took longer. */
static void note_time(pf_served *s, int64_t ns) {
  int64_t least = pf_a64_load_rlx(&s->run_ns);
  pf_a64_store_rlx(&s->run_ns, least ? pf_min64(ns, least + least / 4 + 1000) : ns);
  if (pf_a32_load_rlx(&s->runs) < MEASURED) pf_a32_add_rlx(&s->runs, 1);
}

/* A thread that reads ran one, which took so long. */
static void note_use(pf_served *s, int64_t ns, int64_t lease_ns) {
  if (ns <= lease_ns / LEASE_OVER) pf_a32_store_rlx(&s->late, 0);
  else if (pf_a32_add(&s->late, 1)) pf_a32_store_rlx(&s->spared, SPARED);
}

/* It is over, in one way or another. */
static void finish(pf_serving *s, pf_status st, const pf_error *err, pf_tensor **rets) {
  pf_tensor *few[FEW_RETS], **ordered = few;
  pf_error why;
  int32_t n = st ? 0 : s->s->plans.n_rets;
  note_time(s->s, pf_now_ns() - s->began_ns);
  unlist(s);
  if (n > FEW_RETS) ordered = malloc(sizeof *ordered * (size_t)n);
  if (!ordered) {
    pf_error_clear(&why);
    st = pf_error_set(&why, PF_RESOURCE_EXHAUSTED, "out of memory for a step's results");
    err = &why;
  }
  for (int32_t k = 0; ordered && k < n; k++) ordered[s->s->plans.ret_of[k]] = rets[k];
  int32_t large = !st && ordered ? pf_net_too_large(ordered, n) : -1;
  if (large >= 0) {
    st = pf_net_say_too_large("result", large, ordered[large], &why);
    name_ret(&s->s->plans, large, &why);
    err = &why;
  }
  answer(s->peer, s->key, s->call, st, err, ordered, n);
  for (int32_t k = 0; k < n; k++) pf_tensor_unref(rets[k]);
  if (ordered != few) free(ordered);
  pf_served_unref(s->s);
  pf_peer_unref(s->peer);
  free(s);
}

static void step_done(void *arg, pf_status st, const pf_error *err, pf_tensor **take_rets) {
  finish(arg, st, err, take_rets);
}

/* Whether this thread, which reads links, may run it. */
static int32_t may_run_here(pf_served *s, int64_t lease_ns) {
  int32_t is_measured = 0;
  int64_t cost = pf_plans_cost(s->plans.plans, s->plans.n, &is_measured);
  if (cost < 0 || cost > lease_ns / LEASE_OVER ||
      (is_measured && pf_a32_load_rlx(&s->runs) < MEASURED))
    return 0;
  if (pf_a32_load_rlx(&s->spared) > 0) {
    pf_a32_add_rlx(&s->spared, -1);
    return 0;
  }
  return pf_a64_load_rlx(&s->run_ns) < BRIEF_NS;
}

void pf_steps_begin(pf_serving *s) {
  const pf_net_plans *plans = &s->s->plans;
  int64_t lease_ns = s->peer->net->o.lease_ns, began_ns;
  pf_error err;
  pf_run_options o = {.timeout_ns = s->timeout_ns, .task = s->peer->net->task, .key = s->key};
  o.here = may_run_here(s->s, lease_ns);
  pf_error_clear(&err);
  s->began_ns = began_ns = pf_now_ns();
  list(s);
  if (pf_peer_is(s->peer, PF_PEER_LOST)) { /* it may have been listed too late to be told */
    for (int32_t k = 0; k < s->n_args; k++) pf_tensor_unref(s->args[k]);
    finish(s, PF_CANCELLED, NULL, NULL);
    return;
  }
  pf_served *served = s->s;
  /* the plans and their pool are there until this thread is through with them */
  pf_a32_add_rlx(&served->refs, 1);
  pf_status st = pf_step_start(plans->plans, plans->n, s->args, &o, step_done, s, NULL, &err);
  if (st) finish(s, st, &err, NULL);
  if (o.here) note_use(served, pf_now_ns() - began_ns, lease_ns);
  pf_served_unref(served);
}

static int32_t fits(const pf_shape *want, const pf_tensor *t) {
  if (want->ndim < 0) return 1;
  if (want->ndim != t->m.dl_tensor.ndim) return 0;
  for (int32_t k = 0; k < want->ndim; k++)
    if (want->dims[k] >= 0 && want->dims[k] != t->m.dl_tensor.shape[k]) return 0;
  return 1;
}

/* What the peer sent, up to n; what is amiss is said in err, and what the frame breaks in the
 * status. */
static pf_status take_feeds(pf_peer *p, pf_net_in *b, pf_tensor **feeds, int32_t n, pf_error *err) {
  pf_net_arenas arenas = pf_peer_arenas(p);
  for (int32_t k = 0; k < n; k++) {
    int32_t dead = 0;
    pf_error broken;
    pf_error_clear(&broken);
    pf_status st = pf_net_get_tensor(b, arenas.self ? &arenas : NULL, &feeds[k], &dead, &broken);
    if (dead) st = PF_DATA_LOSS;
    if (st) pf_error_set(err, st, "argument %d: %.4000s", k, broken.message);
    if (st) return st == PF_DATA_LOSS ? st : PF_OK;
  }
  return PF_OK;
}

/* Each plan's arguments, as it wants them. */
static void give_args(const pf_net_plans *all, pf_tensor **feeds, pf_serving *s, pf_error *err) {
  for (int32_t j = 0; j < all->n; j++) {
    const pf_plan *plan = all->plans[j];
    for (uint32_t k = 0; k < plan->n_args; k++) {
      int32_t number = all->arg_of[s->n_args];
      pf_tensor *t = feeds[number];
      if (t->type != plan->arg_type[k])
        pf_error_set(err, PF_INVALID_ARGUMENT,
                     "argument %d of the plan ('%.*s') is of type %s, a peer sent %s", number,
                     (int)plan->arg_name[k].len, plan->arg_name[k].data,
                     pf_type_name(plan->arg_type[k]), pf_type_name(t->type));
      else if (!fits(plan->arg_shape + k, t))
        pf_error_set(err, PF_INVALID_ARGUMENT,
                     "argument %d of the plan ('%.*s') has another shape than what a peer sent",
                     number, (int)plan->arg_name[k].len, plan->arg_name[k].data);
      pf_tensor_ref(t);
      s->args[s->n_args++] = t;
    }
  }
}

static void drop_serving(pf_serving *s) {
  for (int32_t k = 0; s && k < s->n_args; k++) pf_tensor_unref(s->args[k]);
  free(s);
}

/* A step of the plans with what the frame holds; NULL: err, or the status, says why. */
static pf_serving *with_args(pf_peer *p, pf_net_in *b, const pf_net_plans *plans, pf_status *st,
                             pf_error *err) {
  pf_tensor *few[FEW_RETS] = {NULL}, **feeds = plans->n_feeds > FEW_RETS
                                                   ? calloc((size_t)plans->n_feeds, sizeof *feeds)
                                                   : few;
  pf_serving *s = feeds ? calloc(1, sizeof *s + sizeof(void *) * (size_t)plans->n_args) : NULL;
  if (!s) pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a step");
  else *st = take_feeds(p, b, feeds, plans->n_feeds, err);
  if (!*st && !err->code) give_args(plans, feeds, s, err);
  for (int32_t k = 0; feeds && k < plans->n_feeds; k++) pf_tensor_unref(feeds[k]);
  if (feeds != few) free(feeds);
  if (!*st && !err->code) return s;
  drop_serving(s);
  return NULL;
}

pf_status pf_steps_run(pf_peer *p, const pf_net_head *h, pf_net_in *b, pf_serving **out) {
  pf_step_key key = {h->session, h->step};
  uint64_t call = pf_get64(b), handle = pf_get64(b);
  int64_t timeout_ns = (int64_t)pf_get64(b);
  uint32_t n = pf_get32(b);
  pf_get32(b);
  pf_error err;
  pf_error_clear(&err);
  pf_status st = PF_OK;
  if (b->bad || timeout_ns < 0) return PF_DATA_LOSS;
  pf_served *plan = served(p->net, handle);
  if (!plan)
    pf_error_set(
        &err, PF_ABORTED,
        "%s has no plan under handle %llx: its session was closed, or the server restarted",
        p->net->task->name, (unsigned long long)handle);
  else if ((uint32_t)plan->plans.n_feeds != n)
    pf_error_set(&err, PF_INVALID_ARGUMENT, "the plan takes %d arguments, a peer sent %u",
                 plan->plans.n_feeds, n);
  if (plan) pf_a64_store_rlx(&plan->asked_ns, pf_now_ns());
  pf_serving *s = plan && !err.code ? with_args(p, b, &plan->plans, &st, &err) : NULL;
  if (!s) {
    pf_served_unref(plan);
    if (!st) answer(p, key, call, err.code, &err, NULL, 0);
    return st;
  }
  s->s = plan, s->call = call, s->key = key, s->timeout_ns = timeout_ns, s->peer = p;
  pf_peer_ref(p);
  *out = s;
  return PF_OK;
}

pf_status pf_steps_cancel(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  pf_error why;
  if (pf_net_get_error(b, &why) == PF_DATA_LOSS && b->bad) return PF_DATA_LOSS;
  pf_task_fail(p->net->task, (pf_step_key){h->session, h->step}, &why);
  return PF_OK;
}

/* ---------------------------------------------------------------- the peer is lost */
static pf_step_key *keys_of(pf_peer *p, int64_t *count) {
  int64_t k = 0;
  pthread_mutex_lock(&p->servings.lock);
  pf_step_key *keys = p->servings.n ? malloc(sizeof *keys * (size_t)p->servings.n) : NULL;
  for (pf_serving *s = keys ? p->servings.first : NULL; s; s = s->next) keys[k++] = s->key;
  pthread_mutex_unlock(&p->servings.lock);
  *count = k;
  return keys;
}

void pf_servings_lost(pf_peer *p) {
  int64_t count;
  pf_step_key *keys = keys_of(p, &count);
  for (int64_t k = 0; k < count; k++) pf_task_fail(p->net->task, keys[k], &p->why);
  free(keys);
}

void pf_net_unserve_all(pf_net *n) {
  for (int32_t k = 0; k < PF_NET_HANDLES; k++)
    while (n->served[k]) pf_net_unserve(n, n->served[k]->handle);
}

void pf_servings_init(pf_peer *p) { pthread_mutex_init(&p->servings.lock, NULL); }

void pf_servings_free(pf_peer *p) { pthread_mutex_destroy(&p->servings.lock); }

void pf_servings_view(pf_peer *p, pf_peer_view *v) {
  pthread_mutex_lock(&p->servings.lock);
  v->serving = p->servings.n;
  pthread_mutex_unlock(&p->servings.lock);
}
