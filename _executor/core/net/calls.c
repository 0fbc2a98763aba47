/* calls.c - steps of plans at a peer, seen from who asked for them: RUN goes out, DONE comes back
 * (serving.c has the other end).
 *
 * Invariants
 * 1. Each call ends once: with the answer, or with the error that the connection was lost with.
 *
 * Threads: any.
 */
#include "net/peer.h"

void pf_remote_unref(pf_remote *r) {
  if (!r || !pf_a32_dec_last(&r->refs)) return;
  for (int64_t k = 0; k < r->n_rets; k++) pf_tensor_unref(r->rets ? r->rets[k] : NULL);
  free(r->rets);
  pthread_mutex_destroy(&r->lock);
  pthread_cond_destroy(&r->cond);
  pf_peer_unref(r->peer);
  free(r);
}

/* Takes the table's reference. */
static void land(pf_remote *r, pf_status st, const pf_error *err) {
  pthread_mutex_lock(&r->lock);
  r->status = st;
  if (st) {
    r->error = *err;
    r->error.code = st;
  }
  pf_a32_store(&r->over, 1);
  pthread_cond_broadcast(&r->cond);
  pthread_mutex_unlock(&r->lock);
  if (r->told) pf_net_tell(r->peer->net, r->told, r->object);
  pf_remote_unref(r);
}

static pf_remote *taken_out(pf_peer *p, uint64_t call) {
  pthread_mutex_lock(&p->calls.lock);
  pf_remote **at = &p->calls.remotes[call % PF_NET_BUCKETS];
  while (*at && (*at)->call != call) at = &(*at)->next;
  pf_remote *r = *at;
  if (r) {
    *at = r->next;
    p->calls.n--;
  }
  pthread_mutex_unlock(&p->calls.lock);
  return r;
}

static pf_status take_rets(pf_peer *p, pf_net_in *b, pf_remote *r, pf_error *err) {
  pf_net_arenas arenas = pf_peer_arenas(p);
  uint32_t n = pf_get32(b);
  if (b->bad || n > b->n / 24)
    return pf_error_set(err, PF_DATA_LOSS, "a peer sent results that are none");
  r->rets = calloc((size_t)n + 1, sizeof(void *));
  if (!r->rets)
    return pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a step's results");
  for (uint32_t k = 0; k < n; k++) {
    int32_t dead = 0;
    pf_status st = pf_net_get_tensor(b, arenas.self ? &arenas : NULL, &r->rets[k], &dead, err);
    if (!st && dead) st = pf_error_set(err, PF_DATA_LOSS, "a peer sent a dead result");
    if (st) return st;
    r->n_rets = k + 1;
  }
  return PF_OK;
}

pf_status pf_steps_done(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  uint64_t call = pf_get64(b);
  pf_error err;
  pf_error_clear(&err);
  if (b->bad) return PF_DATA_LOSS;
  pf_remote *r = taken_out(p, call);
  if (!r) return PF_OK; /* answered already */
  pf_status st = PF_DATA_LOSS;
  if (b->n >= 4 && pf_le32(b->p) == 0) {
    pf_get32(b);
    st = take_rets(p, b, r, &err);
  } else {
    st = pf_net_get_error(b, &err);
  }
  land(r, st, &err);
  return st == PF_DATA_LOSS && b->bad ? PF_DATA_LOSS : PF_OK;
}

static void put_run(pf_net_out *o, pf_remote *r, uint64_t handle, pf_tensor *const *args, int32_t n,
                    int64_t timeout_ns) {
  pf_net_arenas arenas = pf_peer_arenas(r->peer);
  pf_put_head(o, PF_NET_RUN, 0, r->key, r->peer->net->o.epoch);
  pf_put64(o, r->call), pf_put64(o, handle), pf_put64(o, (uint64_t)timeout_ns),
      pf_put32(o, (uint32_t)n), pf_put32(o, 0);
  for (int32_t k = 0; k < n; k++) pf_net_put_tensor(o, args[k], 0, arenas.self ? &arenas : NULL);
  pf_put_end(o);
}

static void enter(pf_peer *p, pf_remote *r) {
  pthread_mutex_lock(&p->calls.lock);
  r->call = ++p->calls.last;
  r->next = p->calls.remotes[r->call % PF_NET_BUCKETS];
  p->calls.remotes[r->call % PF_NET_BUCKETS] = r;
  p->calls.n++;
  pthread_mutex_unlock(&p->calls.lock);
}

static pf_status unconnected(pf_error *err, const char *peer) {
  pf_copy_text(err->task, sizeof err->task, peer, (int64_t)strlen(peer));
  return pf_error_set(err, PF_UNAVAILABLE, "there is no connection with %.127s", peer);
}

pf_status pf_net_run(pf_net *n, const char *peer, uint64_t handle, pf_step_key key,
                     pf_tensor *const *args, int32_t n_args, int64_t timeout_ns,
                     void (*told)(void *), void *object, pf_remote **out, pf_error *err) {
  uint8_t memory[2048];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  for (int32_t k = 0; k < n_args; k++) {
    pf_status st = pf_net_tensor_check(args[k], err);
    if (st) return st;
  }
  pf_peer *p = pf_net_peer(n, peer);
  if (!p) return unconnected(err, peer);
  int32_t large = pf_net_too_large(args, n_args);
  if (large >= 0) {
    pf_net_say_too_large("argument", large, args[large], err);
    pf_peer_unref(p);
    return err->code;
  }
  pf_remote *r = calloc(1, sizeof *r);
  if (!r) {
    pf_peer_unref(p);
    return pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a step");
  }
  pf_a32_store(&r->refs, 2); /* the caller's, the table's */
  r->key = key, r->peer = p, r->told = told, r->object = object;
  pthread_mutex_init(&r->lock, NULL);
  pf_cond_init(&r->cond);
  enter(p, r);
  put_run(&o, r, handle, args, n_args, timeout_ns);
  *out = r;
  pf_peer_send(p, &o);
  if (pf_peer_is(p, PF_PEER_LOST)) pf_calls_lost(p); /* it may have been entered too late */
  return PF_OK;
}

void pf_send_cancel(pf_peer *p, pf_step_key key, const pf_error *why) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_CANCEL, 0, key, p->net->o.epoch);
  pf_net_put_error(&o, why->code, why);
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

void pf_remote_cancel(pf_remote *r, pf_status code, const char *message) {
  pf_error why;
  pf_error_clear(&why);
  pf_error_set(&why, code, "%s", message);
  if (!pf_a32_load(&r->over)) pf_send_cancel(r->peer, r->key, &why);
}

pf_status pf_net_cancel(pf_net *n, const char *peer, pf_step_key key, const pf_error *why) {
  pf_peer *p = pf_net_peer(n, peer);
  if (!p) return PF_UNAVAILABLE;
  pf_send_cancel(p, key, why);
  pf_peer_unref(p);
  return PF_OK;
}

pf_status pf_net_clean(pf_net *n, const char *peer, pf_step_key key, int32_t all, int32_t soon) {
  uint8_t memory[PF_NET_HEAD];
  pf_net_head h = {0, PF_NET_CLEAN, all ? PF_NET_ALL : 0, key.session, key.step, n->o.epoch};
  pf_peer *p = pf_net_peer(n, peer);
  if (!p) return PF_UNAVAILABLE;
  if (soon) {
    pf_peer_send_soon(p, &h);
  } else {
    pf_net_out o = {.p = memory, .n = PF_NET_HEAD, .room = PF_NET_HEAD};
    pf_net_head_to(memory, h);
    pf_peer_send(p, &o);
  }
  pf_peer_unref(p);
  return PF_OK;
}

void pf_calls_lost(pf_peer *p) {
  pf_remote *all = NULL;
  pthread_mutex_lock(&p->calls.lock);
  for (int k = 0; k < PF_NET_BUCKETS; k++)
    while (p->calls.remotes[k]) {
      pf_remote *r = p->calls.remotes[k];
      p->calls.remotes[k] = r->next;
      r->next = all;
      all = r;
    }
  p->calls.n = 0;
  pthread_mutex_unlock(&p->calls.lock);
  while (all) {
    pf_remote *r = all;
    all = r->next;
    land(r, p->why.code, &p->why);
  }
}

void pf_calls_init(pf_peer *p) { pthread_mutex_init(&p->calls.lock, NULL); }

void pf_calls_free(pf_peer *p) { pthread_mutex_destroy(&p->calls.lock); }

void pf_calls_view(pf_peer *p, pf_peer_view *v) {
  pthread_mutex_lock(&p->calls.lock);
  v->remotes = p->calls.n;
  pthread_mutex_unlock(&p->calls.lock);
}
