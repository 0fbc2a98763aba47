/* outgoing.c - tensors of our steps to a peer's: pushed, by shared memory, or announced and
 * fetched.
 *
 *   up to 64 kB, and strings        TENSOR with the bytes
 *   larger, the link has arenas     TENSOR with the place (arenas.c): copied once; CREDIT gives it back
 *   larger                          ANNOUNCE; the receiver makes room where the tensor's reader wants it and says GET; CHUNKs
 *   beyond the reader's window      ANNOUNCE; GET once somebody waits for it; then as above
 *
 * Invariants
 * 1. What waits to be sent to a peer is at most `queue_bytes` and one tensor of each _net.Send that
 *    runs: who sends more is told later, or waits on its thread.  A thread of the net's own never
 *    waits.
 * 2. Chunks of a tensor go in their order, each byte once.
 * 3. Announcements that wait at the reader cost it PF_NET_ANNOUNCED at most: who would announce
 *    more waits as in 1.
 * 4. What was pushed and is not known to be read is at most the reader's window, or one larger
 *    tensor.  So a step whose reader sleeps keeps its tensors where they were made, and keeps no
 *    other step's from going.
 *
 * Threads: any; what waits under the peer's lock `out`.
 */
#include "net/outgoing.h"

static void fill(pf_net_out *o, pf_peer *p, pf_step_key key, uint64_t asked, pf_str name,
                 const pf_tensor *t, int32_t dead, const uint64_t *place) {
  pf_put_head(o, PF_NET_TENSOR, asked ? PF_NET_ASKED : 0, key, p->net->o.epoch);
  if (asked) pf_put64(o, asked);
  pf_put_text(o, name);
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
  return t && pf_net_tensor_bytes(t) > LONG_COPY &&
         (t->type == PF_STRING || pf_peer_arenas(p).self);
}

/* 0: it is large, and there is no memory that both see: nothing was sent. */
static int32_t send_whole(pf_peer *p, pf_step_key key, uint64_t asked, pf_str name,
                          const pf_tensor *t, int32_t dead) {
  uint8_t memory[4096];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_net_arenas arenas = pf_peer_arenas(p);
  uint32_t arena;
  uint64_t at[2];
  int32_t placed = pf_is_large(t) && arenas.self && arenas.place(p, t, &arena, &at[1]);
  if (pf_is_large(t) && !placed) return 0;
  at[0] = placed ? arena : 0;
  fill(&o, p, key, asked, name, t, dead, placed ? at : NULL);
  pf_peer_send_as(p, &o, 1);
  return 1;
}

static void announce(pf_peer *p, const pf_letter *l) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_letter *own = pf_letter_kept(l);
  if (!own) {
    pf_tensor_unref(l->t);
    pf_peer_losef(p, PF_RESOURCE_EXHAUSTED, "out of memory for a tensor's announcement");
    if (l->sent) l->sent(l->arg, PF_RESOURCE_EXHAUSTED);
    return;
  }
  pthread_mutex_lock(&p->out);
  pf_put_head(&o, PF_NET_ANNOUNCE, 0, own->key, p->net->o.epoch);
  pf_put64(&o, pf_letters_announce(&p->letters, own));
  pf_put_text(&o, own->name);
  pf_net_put_shape(&o, own->t, PF_TENSOR_ABSENT);
  pf_put_end(&o);
  pthread_mutex_unlock(&p->out);
  pf_peer_send(p, &o);
  if (pf_peer_is(p, PF_PEER_LOST)) pf_outgoing_lost(p);
}

/* Out held: pushed, no matter how much waits in the queue. */
static int32_t may_push(pf_peer *p, const pf_tensor *t) {
  return (!pf_is_large(t) || pf_peer_arenas(p).self) && pf_letters_may_push(&p->letters, t);
}

/* Without regard to the queue's bound; 1: l->sent follows. */
static int32_t send_now(pf_peer *p, const pf_letter *l) {
  pthread_mutex_lock(&p->out);
  int32_t push = may_push(p, l->t);
  if (push) pf_letters_pushed(&p->letters, pf_cost_of(l->t));
  pthread_mutex_unlock(&p->out);
  if (push && send_whole(p, l->key, 0, l->name, l->t, l->dead)) {
    pf_tensor_unref(l->t);
    return 0;
  }
  if (push) {
    pthread_mutex_lock(&p->out);
    pf_letters_pushed(&p->letters, -pf_cost_of(l->t));
    pthread_mutex_unlock(&p->out);
  }
  announce(p, l);
  return l->sent != NULL;
}

/* Out held: whether it would have to wait. */
static int32_t is_full(pf_peer *p, const pf_tensor *t) {
  int64_t bound = p->net->o.queue_bytes;
  if (may_push(p, t)) return pf_outbox_bytes(p) > bound;
  return pf_letters_waiting(&p->letters) > bound || pf_letters_is_full(&p->letters);
}

/* On this thread, unless it is one of the net's; what the step failed with meanwhile. */
static pf_status wait_for_room(pf_peer *p, pf_step_key key, const pf_tensor *t, pf_error *err) {
  pf_status st = PF_OK;
  pthread_mutex_lock(&p->out);
  while (!st && !pf_net_is_own_thread() && !pf_peer_is(p, PF_PEER_LOST) && is_full(p, t)) {
    pf_letters_wait(&p->letters, &p->out, pf_now_ns() + 20000000);
    pthread_mutex_unlock(&p->out);
    if (pf_task_error(p->net->task, key, err)) st = err->code;
    pthread_mutex_lock(&p->out);
  }
  pthread_mutex_unlock(&p->out);
  return st;
}

/* The tensor waits for room in the queue, or at once for who asks for it; l->sent follows. */
static pf_status send_later(pf_peer *p, const pf_letter *l) {
  pthread_mutex_lock(&p->out);
  int32_t keeps = may_push(p, l->t) ? pf_outbox_bytes(p) > p->net->o.queue_bytes
                                    : pf_letters_is_full(&p->letters);
  keeps = keeps && !pf_peer_is(p, PF_PEER_LOST);
  pf_letter *own = keeps ? pf_letter_kept(l) : NULL;
  if (own) pf_letters_hold(&p->letters, own);
  pthread_mutex_unlock(&p->out);
  if (keeps && !own) {
    pf_tensor_unref(l->t);
    l->sent(l->arg, PF_RESOURCE_EXHAUSTED);
  } else if (!keeps && !send_now(p, l)) {
    l->sent(l->arg, PF_OK);
  } else if (keeps && pf_peer_is(p, PF_PEER_LOST)) {
    pf_outgoing_lost(p);
  }
  return PF_PENDING;
}

pf_status pf_peer_put(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead,
                      const pf_pend *pend, pf_error *err) {
  pf_letter l = {.key = key, .name = name, .t = take, .dead = dead};
  pf_status st = dead ? PF_OK : pf_net_tensor_check(take, err);
  if (!st && name.len > PF_NET_MAX_KEY)
    st = pf_error_set(err, PF_INVALID_ARGUMENT, "a key of %lld bytes", (long long)name.len);
  if (!st && pend && !pf_peer_is(p, PF_PEER_LOST)) {
    pthread_mutex_lock(&p->out);
    int32_t full = is_full(p, take);
    pthread_mutex_unlock(&p->out);
    if (full) {
      l.sent = pend->sent;
      l.arg = pend->begin(pend->ctx);
      if (l.arg) return send_later(p, &l);
      st = pf_error_set(
          err, PF_CANCELLED,
          "the step was cancelled, or there is no memory to wait until a tensor can be sent");
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

pf_status pf_peer_announce(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take,
                           pf_error *err) {
  pf_letter l = {.key = key, .name = name, .t = take};
  pf_status st = pf_net_tensor_check(take, err);
  if (!st && name.len > PF_NET_MAX_KEY)
    st = pf_error_set(err, PF_INVALID_ARGUMENT, "a key of %lld bytes", (long long)name.len);
  if (!st && pf_peer_is(p, PF_PEER_LOST)) {
    *err = p->why;
    st = p->why.code;
  }
  if (st) pf_tensor_unref(take);
  else announce(p, &l);
  return st;
}

static void send_one(pf_peer *p, pf_letter *held) {
  int64_t bytes = pf_bytes_held(held);
  if (!send_now(p, held)) held->sent(held->arg, PF_OK);
  free(held);
  pthread_mutex_lock(&p->out);
  pf_letters_released(&p->letters, bytes);
  pthread_mutex_unlock(&p->out);
}

typedef struct {
  pf_peer *peer;
  pf_letter *letter;
} long_copy;
static void answer_get(pf_peer *p, pf_letter *l);
static void copy(void *arg) {
  long_copy *c = arg;
  if (c->letter->asked) answer_get(c->peer, c->letter);
  else send_one(c->peer, c->letter);
  pf_peer_writable(c->peer); /* it may be among the chunks now */
  pf_peer_unref(c->peer);
  free(c);
}

/* It is sent elsewhere; 0: no memory for that. */
static int32_t copy_elsewhere(pf_peer *p, pf_letter *l) {
  long_copy *c = malloc(sizeof *c);
  if (!c) return 0;
  *c = (long_copy){p, l};
  pf_peer_ref(p);
  pf_net_work(p->net, copy, c);
  return 1;
}

static void send_held(pf_peer *p, pf_letter *take) {
  while (take) {
    pf_letter *l = take;
    take = l->next;
    if (!takes_long(p, l->t) || !copy_elsewhere(p, l)) send_one(p, l);
  }
}

void pf_peer_writable(pf_peer *p) {
  pf_letter *finished = NULL;
  pthread_mutex_lock(&p->out);
  pf_outbox_pump(p, &finished);
  pf_letter *held = pf_letters_release(&p->letters, pf_outbox_room(p));
  pthread_mutex_unlock(&p->out);
  pf_letters_told(finished, PF_OK);
  send_held(p, held);
  pthread_mutex_lock(&p->out);
  if (pf_outbox_may_release(p)) pf_outbox_want_out(p); /* those were posted at once */
  pthread_mutex_unlock(&p->out);
}

/* What is not sent in chunks; where it has to be after all, it is among those again. */
static void answer_get(pf_peer *p, pf_letter *l) {
  int32_t whole = send_whole(p, l->key, l->id, l->name, l->t, 0);
  pthread_mutex_lock(&p->out);
  if (whole) pf_letters_answered(&p->letters, l);
  else pf_letters_back(&p->letters, l);
  pthread_mutex_unlock(&p->out);
  if (whole) pf_letters_told(l, PF_OK);
  else if (pf_peer_is(p, PF_PEER_LOST)) pf_outgoing_lost(p);
}

pf_status pf_asked_for(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  uint64_t id = pf_get64(b);
  int32_t refused = h->flags & PF_NET_REFUSED, in_arenas = pf_peer_arenas(p).self != NULL;
  if (b->bad) return PF_DATA_LOSS;
  pthread_mutex_lock(&p->out);
  pf_letter *taken = pf_letters_ask(&p->letters, id, refused, in_arenas);
  pthread_mutex_unlock(&p->out);
  if (!taken || refused) pf_letters_told(taken, PF_OK);
  else if (!takes_long(p, taken->t) || !copy_elsewhere(p, taken)) answer_get(p, taken);
  pf_peer_writable(p);
  return PF_OK;
}

pf_status pf_was_read(pf_peer *p, uint64_t bytes) {
  pthread_mutex_lock(&p->out);
  int32_t known = pf_letters_read(&p->letters, bytes);
  pthread_mutex_unlock(&p->out);
  return known ? PF_OK : PF_DATA_LOSS;
}

void pf_outgoing_lost(pf_peer *p) {
  pthread_mutex_lock(&p->out);
  pf_letter *all = pf_letters_drop(&p->letters);
  pthread_mutex_unlock(&p->out);
  pf_letters_told(all, p->why.code ? p->why.code : PF_UNAVAILABLE);
}
