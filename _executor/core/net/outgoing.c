/* outgoing.c - tensors of our steps to a peer's: pushed, by shared memory, or announced and fetched.
 *
 *   up to 64 kB, and strings        TENSOR with the bytes
 *   larger, the link has arenas     TENSOR with the place (arenas.c): copied once; CREDIT gives it back
 *   larger                          ANNOUNCE; the receiver makes room where the tensor's reader wants it and says GET; CHUNKs
 *   beyond the reader's window      ANNOUNCE; GET once somebody waits for it; then as above
 *
 * Invariants
 * 1. What waits to be sent to a peer is at most `queue_bytes` and one tensor of each _net.Send that runs: who sends more is told later, or
 *    waits on its thread.  A thread of the net's own never waits.
 * 2. Chunks of a tensor go in their order, each byte once.
 * 3. Announcements that wait at the reader cost it PF_NET_ANNOUNCED at most: who would announce more waits as in 1.
 * 4. What was pushed and is not known to be read is at most the reader's window, or one larger tensor.  So a step whose reader sleeps
 *    keeps its tensors where they were made, and keeps no other step's from going.
 *
 * Threads: any; what waits under the peer's lock `out`.
 */
#include "net/peer.h"

static void put_key(pf_net_out *o, pf_str name) { pf_put_text(o, name); }

/* What may outlive the step and the caller; NULL: out of memory. */
static pf_tensor *lasting(pf_tensor *take) {
  pf_tensor *t = pf_tensor_settled(take);
  if (!t || !(t->flags & PF_T_BORROWED)) return t;
  pf_tensor *own = pf_tensor_copy(t);
  pf_tensor_unref(t);
  return own;
}

static void fill(pf_net_out *o, pf_peer *p, pf_step_key key, uint64_t asked, pf_str name, const pf_tensor *t, int32_t dead,
                 const uint64_t *place) {
  pf_put_head(o, PF_NET_TENSOR, asked ? PF_NET_ASKED : 0, key, p->net->o.epoch);
  if (asked) pf_put64(o, asked);
  put_key(o, name);
  if (place) {
    pf_net_put_shape(o, t, PF_TENSOR_IN_ARENA);
    pf_put32(o, (uint32_t)place[0]), pf_put32(o, 0), pf_put64(o, place[1]);
  } else {
    pf_net_put_tensor(o, t, dead, NULL);
  }
  pf_put_end(o);
}

static const int64_t LONG_COPY = 1 << 20;

/* So much is copied to send it that no thread does it which others wait for. */
static int32_t takes_long(pf_peer *p, const pf_tensor *t) {
  return t && pf_net_tensor_bytes(t) > LONG_COPY && (t->type == PF_STRING || pf_peer_arenas(p).self);
}

static int32_t is_large(const pf_tensor *t) { return t && t->type != PF_STRING && t->nbytes > PF_NET_PUSH; }

/* 0: it is large, and there is no memory that both see: nothing was sent. */
static int32_t send_whole(pf_peer *p, pf_step_key key, uint64_t asked, pf_str name, const pf_tensor *t, int32_t dead) {
  uint8_t memory[4096];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_net_arenas arenas = pf_peer_arenas(p);
  uint32_t arena;
  uint64_t at[2];
  int32_t placed = is_large(t) && arenas.self && arenas.place(p, t, &arena, &at[1]);
  if (is_large(t) && !placed) return 0;
  at[0] = placed ? arena : 0;
  fill(&o, p, key, asked, name, t, dead, placed ? at : NULL);
  pf_peer_send_as(p, &o, 1);
  return 1;
}

typedef struct { pf_step_key key; pf_str name; pf_tensor *t; int32_t dead, pad; pf_sent_fn sent; void *arg; } pf_letter;

static void announce(pf_peer *p, const pf_letter *l) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_transfer *t = calloc(1, sizeof *t + (size_t)l->name.len + 1);
  pf_tensor *own = lasting(l->t);
  if (!t || !own) {
    free(t);
    pf_tensor_unref(own);
    pf_peer_losef(p, PF_RESOURCE_EXHAUSTED, "out of memory for a tensor's announcement");
    if (l->sent) l->sent(l->arg, PF_RESOURCE_EXHAUSTED);
    return;
  }
  t->key = l->key, t->t = own, t->sent = l->sent, t->arg = l->arg;
  t->name = (pf_str){(char *)(t + 1), l->name.len};
  if (l->name.len) memcpy(t + 1, l->name.data, (size_t)l->name.len);
  pthread_mutex_lock(&p->out);
  uint64_t id = t->id = ++p->transfer_ids;
  pf_put_head(&o, PF_NET_ANNOUNCE, 0, l->key, p->net->o.epoch);
  pf_put64(&o, id);
  put_key(&o, l->name);
  pf_net_put_shape(&o, own, PF_TENSOR_ABSENT);
  pf_put_end(&o);
  t->next = p->transfers;
  p->transfers = t;
  p->announcing += pf_cost_announced(t->name);
  p->announced += own->nbytes;
  pthread_mutex_unlock(&p->out);
  pf_peer_send(p, &o);
  if (pf_peer_is(p, PF_PEER_LOST)) pf_transfers_lost(p);
}

/* Out held: pushed, no matter how much waits in the queue. */
static int32_t may_push(pf_peer *p, const pf_tensor *t) {
  return (!is_large(t) || pf_peer_arenas(p).self) && pf_is_within(p->unread, pf_cost_of(t), p->window);
}

/* Without regard to the queue's bound; 1: l->sent follows. */
static int32_t send_now(pf_peer *p, const pf_letter *l) {
  pthread_mutex_lock(&p->out);
  int32_t push = may_push(p, l->t);
  if (push) p->unread += pf_cost_of(l->t);
  pthread_mutex_unlock(&p->out);
  if (push && send_whole(p, l->key, 0, l->name, l->t, l->dead)) {
    pf_tensor_unref(l->t);
    return 0;
  }
  if (push) {
    pthread_mutex_lock(&p->out);
    p->unread -= pf_cost_of(l->t);
    pthread_mutex_unlock(&p->out);
  }
  announce(p, l);
  return l->sent != NULL;
}

static pf_status hold(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead, pf_sent_fn sent, void *arg) {
  pf_held *h = calloc(1, sizeof *h + (size_t)name.len + 1);       /* out held */
  if (!h) return PF_RESOURCE_EXHAUSTED;
  if (take) {
    pf_tensor_ref(take);                        /* the caller's, should there be no memory for a copy */
    pf_tensor *own = lasting(take);
    if (!own) {
      free(h);
      return PF_RESOURCE_EXHAUSTED;
    }
    pf_tensor_unref(take);
    take = own;
  }
  *h = (pf_held){NULL, key, take, dead, 0, sent, arg, {(char *)(h + 1), name.len}};
  memcpy(h + 1, name.data, (size_t)name.len);
  if (p->held_last) p->held_last->next = h;
  else p->held = h;
  p->held_last = h;
  return PF_PENDING;
}

/* Out held: whether it would have to wait. */
static int32_t is_full(pf_peer *p, const pf_tensor *t) {
  int64_t bound = p->net->o.queue_bytes;
  return may_push(p, t) ? p->tensor_bytes > bound : p->announced > bound || p->announcing >= PF_NET_ANNOUNCED;
}

/* On this thread, unless it is one of the net's; what the step failed with meanwhile. */
static pf_status wait_for_room(pf_peer *p, pf_step_key key, const pf_tensor *t, pf_error *err) {
  pf_status st = PF_OK;
  pthread_mutex_lock(&p->out);
  while (!st && !pf_net_is_own_thread() && !pf_peer_is(p, PF_PEER_LOST) && is_full(p, t)) {
    pf_cond_wait_until(&p->roomy, &p->out, pf_now_ns() + 20000000);
    pthread_mutex_unlock(&p->out);
    if (pf_task_error(p->net->task, key, err)) st = err->code;
    pthread_mutex_lock(&p->out);
  }
  pthread_mutex_unlock(&p->out);
  return st;
}

/* The tensor waits for room in the queue, or at once for who asks for it; l->sent follows. */
static pf_status send_later(pf_peer *p, const pf_letter *l) {
  pf_status st = PF_PENDING;
  pthread_mutex_lock(&p->out);
  int32_t keeps = may_push(p, l->t) ? p->tensor_bytes > p->net->o.queue_bytes : p->announcing >= PF_NET_ANNOUNCED;
  if (keeps && !pf_peer_is(p, PF_PEER_LOST)) st = hold(p, l->key, l->name, l->t, l->dead, l->sent, l->arg);
  else keeps = 0;
  pthread_mutex_unlock(&p->out);
  if (st != PF_PENDING) {
    pf_tensor_unref(l->t);
    l->sent(l->arg, st);
  } else if (!keeps && !send_now(p, l)) {
    l->sent(l->arg, PF_OK);
  } else if (keeps && pf_peer_is(p, PF_PEER_LOST)) {
    pf_transfers_lost(p);
  }
  return PF_PENDING;
}

pf_status pf_peer_put(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead, const pf_pend *pend, pf_error *err) {
  pf_letter l = {key, name, take, dead, 0, NULL, NULL};
  pf_status st = dead ? PF_OK : pf_net_tensor_check(take, err);
  if (!st && name.len > PF_NET_MAX_KEY) st = pf_error_set(err, PF_INVALID_ARGUMENT, "a key of %lld bytes", (long long)name.len);
  if (!st && pend && !pf_peer_is(p, PF_PEER_LOST)) {
    pthread_mutex_lock(&p->out);
    int32_t full = is_full(p, take);
    pthread_mutex_unlock(&p->out);
    if (full) {
      l.sent = pend->sent;
      l.arg = pend->begin(pend->ctx);
      if (l.arg) return send_later(p, &l);
      st = pf_error_set(err, PF_CANCELLED, "the step was cancelled, or there is no memory to wait until a tensor can be sent");
    }
  } else if (!st) {
    st = wait_for_room(p, key, take, err);
  }
  if (st == PF_OK && pf_peer_is(p, PF_PEER_LOST)) {
    *err = p->why;
    st = p->why.code;
  }
  if (st) {
    pf_tensor_unref(take);
    return st;
  }
  send_now(p, &l);
  return PF_OK;
}

pf_status pf_peer_announce(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, pf_error *err) {
  pf_letter l = {key, name, take, 0, 0, NULL, NULL};
  pf_status st = pf_net_tensor_check(take, err);
  if (!st && name.len > PF_NET_MAX_KEY) st = pf_error_set(err, PF_INVALID_ARGUMENT, "a key of %lld bytes", (long long)name.len);
  if (!st && pf_peer_is(p, PF_PEER_LOST)) {
    *err = p->why;
    st = p->why.code;
  }
  if (st) pf_tensor_unref(take);
  else announce(p, &l);
  return st;
}

static int64_t room_of(const pf_peer *p) { return p->net->o.queue_bytes - p->tensor_bytes - p->releasing; }
static int64_t bytes_held(const pf_held *h) { return h->t ? h->t->nbytes : 0; }

int32_t pf_may_release(const pf_peer *p) { return p->held && room_of(p) >= 0 && p->announcing < PF_NET_ANNOUNCED; }

pf_held *pf_release_held(pf_peer *p) {
  pf_held *free_now = NULL, **end = &free_now;
  int64_t room = room_of(p), announced = PF_NET_ANNOUNCED - p->announcing;
  if (room >= 0) pthread_cond_broadcast(&p->roomy);
  while (p->held && room >= 0 && announced > 0) {
    pf_held *h = p->held;
    announced -= pf_cost_announced(h->name);
    p->held = h->next;
    if (!p->held) p->held_last = NULL;
    room -= bytes_held(h);
    p->releasing += bytes_held(h);
    h->next = NULL;
    *end = h;
    end = &h->next;
  }
  return free_now;
}

static void send_one(pf_peer *p, pf_held *h) {
  int64_t bytes = bytes_held(h);
  if (!send_now(p, &(pf_letter){h->key, h->name, h->t, h->dead, 0, h->sent, h->arg})) h->sent(h->arg, PF_OK);
  free(h);
  pthread_mutex_lock(&p->out);
  p->releasing -= bytes;
  pthread_mutex_unlock(&p->out);
}

typedef struct { pf_peer *peer; pf_held *held; pf_transfer *transfer; } long_copy;
static void answer_get(pf_peer *p, pf_transfer *t);
static void copy(void *arg) {
  long_copy *c = arg;
  if (c->held) send_one(c->peer, c->held);
  else answer_get(c->peer, c->transfer);
  pf_peer_writable(c->peer);                    /* it may be among the chunks now */
  pf_peer_unref(c->peer);
  free(c);
}

/* One of the two is sent elsewhere; 0: no memory for that. */
static int32_t copy_elsewhere(pf_peer *p, pf_held *h, pf_transfer *t) {
  long_copy *c = malloc(sizeof *c);
  if (!c) return 0;
  *c = (long_copy){p, h, t};
  pf_peer_ref(p);
  pf_net_work(p->net, copy, c);
  return 1;
}

void pf_send_held(pf_peer *p, pf_held *take) {
  while (take) {
    pf_held *h = take;
    take = h->next;
    if (!takes_long(p, h->t) || !copy_elsewhere(p, h, NULL)) send_one(p, h);
  }
}

/* What is not sent in chunks; where it has to be after all, it is among those again. */
static void answer_get(pf_peer *p, pf_transfer *t) {
  int32_t whole = send_whole(p, t->key, t->id, t->name, t->t, 0);
  pthread_mutex_lock(&p->out);
  if (whole) {
    p->announced -= t->t->nbytes;
    p->announcing -= pf_cost_announced(t->name);
  } else {
    t->next = p->transfers;
    p->transfers = t;
  }
  pthread_mutex_unlock(&p->out);
  if (whole) pf_transfers_finished(t);
  else if (pf_peer_is(p, PF_PEER_LOST)) pf_transfers_lost(p);
}

pf_status pf_asked_for(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  uint64_t id = pf_get64(b);
  int32_t refused = h->flags & PF_NET_REFUSED, arenas = pf_peer_arenas(p).self != NULL;
  pf_transfer *taken = NULL;
  if (b->bad) return PF_DATA_LOSS;
  pthread_mutex_lock(&p->out);
  pf_transfer **at = &p->transfers;
  while (*at && (*at)->id != id) at = &(*at)->next;
  if (*at && !(*at)->asked) {
    (*at)->asked = 1;
    if (refused || arenas || !is_large((*at)->t)) {
      taken = *at;
      *at = taken->next;
      taken->next = NULL;
    }
  }
  if (taken && refused) {
    p->announced -= taken->t->nbytes;
    p->announcing -= pf_cost_announced(taken->name);
  }
  pthread_mutex_unlock(&p->out);
  if (!taken || refused) pf_transfers_finished(taken);
  else if (!takes_long(p, taken->t) || !copy_elsewhere(p, NULL, taken)) answer_get(p, taken);
  pf_peer_writable(p);
  return PF_OK;
}

pf_status pf_was_read(pf_peer *p, uint64_t bytes) {
  pthread_mutex_lock(&p->out);
  int32_t known = bytes <= (uint64_t)p->unread;
  if (known) p->unread -= (int64_t)bytes;
  pthread_mutex_unlock(&p->out);
  return known ? PF_OK : PF_DATA_LOSS;
}

pf_out *pf_next_chunk(pf_peer *p) {
  pf_transfer **at = &p->transfers, **end;
  while (*at && !(*at)->asked) at = &(*at)->next;
  pf_transfer *t = *at;
  pf_out *o = t ? calloc(1, sizeof *o) : NULL;
  if (!o) return NULL;
  int64_t n = pf_min64(PF_NET_CHUNK_BYTES, t->t->nbytes - t->at);
  pf_net_head_to(o->head, (pf_net_head){(uint32_t)(PF_NET_CHUNK_HEAD + n), PF_NET_CHUNK, 0, t->key.session, t->key.step, p->net->o.epoch});
  pf_to_le64(o->head + PF_NET_HEAD, t->id);
  pf_to_le64(o->head + PF_NET_HEAD + 8, (uint64_t)t->at);
  o->head_n = PF_NET_HEAD + PF_NET_CHUNK_HEAD;
  o->p = (uint8_t *)t->t->m.dl_tensor.data + t->at;
  o->n = n;
  t->at += n;
  *at = t->next;                                /* the others have their turn */
  t->next = NULL;
  if (t->at == t->t->nbytes) {
    o->last_of = t;
    p->announced -= t->t->nbytes;
    p->announcing -= pf_cost_announced(t->name);
  } else {
    for (end = &p->transfers; *end; end = &(*end)->next) continue;
    *end = t;
  }
  return o;
}

void pf_transfers_finished(pf_transfer *take) {
  while (take) {
    pf_transfer *t = take;
    take = t->next;
    if (t->sent) t->sent(t->arg, PF_OK);
    pf_tensor_unref(t->t);
    free(t);
  }
}

/* ---------------------------------------------------------------- the peer is lost */
void pf_transfers_lost(pf_peer *p) {
  pthread_mutex_lock(&p->out);
  pf_transfer *out = p->transfers;
  pf_held *held = p->held;
  p->transfers = NULL, p->held = p->held_last = NULL;
  p->announced = p->announcing = 0;
  pthread_mutex_unlock(&p->out);
  for (pf_transfer *t = out; t; t = t->next) {
    if (t->sent) t->sent(t->arg, p->why.code ? p->why.code : PF_UNAVAILABLE);
    t->sent = NULL;
  }
  pf_transfers_finished(out);
  while (held) {
    pf_held *h = held;
    held = h->next;
    pf_tensor_unref(h->t);
    h->sent(h->arg, p->why.code ? p->why.code : PF_UNAVAILABLE);
    free(h);
  }
}
