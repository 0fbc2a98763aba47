/* greeting.c - who a peer is: HELLO both ways, BYE, and signs of life.
 *
 * Invariants
 * 1. With one task there is one OPEN connection: a newer one takes the older one's place, unless
 *    both connected at once; then the one stays that the task of the lesser name began.
 * 2. A task that was replaced stays out: its epoch is over.
 *
 * Threads: whoever receives for the peer, or says something to it.
 */
#include "net/greeting.h"

static const pf_step_key none;

void pf_peer_hello(pf_peer *p, int32_t flags) {
  uint8_t memory[512];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_HELLO, flags, none, p->net->o.epoch);
  pf_put32(&o, PF_NET_MAGIC), pf_put32(&o, PF_NET_VERSION);
  pf_put64(&o, p->net->incarnation), pf_put64(&o, p->incarnation);
  pf_put_text(&o, pf_str_of(p->net->task->name)), pf_put_text(&o, pf_str_of(p->name));
  pf_put64(&o, (uint64_t)p->net->o.window_bytes);
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

void pf_peer_bye(pf_peer *p, pf_status st, const char *text) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_BYE, 0, none, p->net->o.epoch);
  pf_put32(&o, (uint32_t)st);
  pf_put_text(&o, (pf_str){text, pf_min64((int64_t)strlen(text), 800)});
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

__attribute__((format(printf, 3, 4))) pf_status pf_peer_refuse(pf_peer *p, pf_status code,
                                                               const char *fmt, ...) {
  PF_FORMATTED(text, fmt);
  pf_error why;
  pf_peer_bye(p, code, text);
  pf_error_clear(&why);
  pf_error_set(&why, code, "%.2000s", text);
  pf_peer_lose(p, &why);
  return code;
}

/* OPEN from now on, in the place of an older connection with the same task. 0: that one stays.
 * Who was called answers before anybody here can find the peer: what others send comes behind
 * the greeting, which needs no memory but its own and so loses no peer under this lock. */
static int32_t opened(pf_peer *p) {
  pf_net *n = p->net;
  pf_peer *old = NULL;
  int32_t stays = 0;
  pthread_mutex_lock(&n->lock);
  for (pf_peer *q = n->peers; q; q = q->next) {
    if (q == p || strcmp(q->name, p->name) || pf_peer_is(q, PF_PEER_LOST)) continue;
    int32_t ours_first = q->initiated && !p->initiated && strcmp(n->task->name, p->name) < 0 &&
                         q->incarnation == p->incarnation;
    if (pf_peer_is(q, PF_PEER_OPEN)) {
      int64_t now = pf_now_ns(), heard = pf_a64_load_rlx(&q->signs.last_in);
      int32_t alive = now - heard < n->o.lease_ns / 2 || q->link->flags & PF_LINK_WATCHES;
      /* both connected at once: the other one was late */
      if (ours_first && (alive || now - q->since_ns < n->o.lease_ns)) stays = 1;
      else old = q;
    } else if (ours_first) {
      stays = 1;
    }
  }
  if (!stays && pf_peer_is(p, PF_PEER_GREETING)) {
    p->since_ns = pf_now_ns();
    if (!p->initiated) pf_peer_hello(p, PF_NET_REPLY);
    pf_a32_store(&p->state, PF_PEER_OPEN);
    pthread_cond_broadcast(&n->changed);
  }
  if (old && !stays) pf_peer_ref(old);
  pthread_mutex_unlock(&n->lock);
  if (old && !stays) {
    if (old->incarnation != p->incarnation) pf_peer_losef(old, PF_ABORTED, "it was started anew");
    else pf_peer_losef(old, PF_UNAVAILABLE, "it connected again");
    pf_peer_unref(old);
  }
  return !stays;
}

/* Epochs are a task's own: one that was replaced stays out, whatever others' are.  0: `epoch` is
 * none of the past; else the one that was seen of the task.  Of more than MOST_SEEN tasks
 * nothing is remembered. */
enum { MOST_SEEN = 16384 };
static uint64_t outdated(pf_net *n, pf_str name, uint64_t epoch) {
  uint64_t newer = 0;
  int32_t i = 0;
  pthread_mutex_lock(&n->lock);
  while (i < n->n_seen && !pf_str_is(name, n->seen[i].name)) i++;
  if (i == n->n_seen && i < MOST_SEEN && epoch) {
    struct pf_seen *grown = i % 64 ? n->seen : realloc(n->seen, (size_t)(i + 64) * sizeof *grown);
    if (grown) {
      n->seen = grown;
      pf_copy_text(grown[i].name, sizeof grown[i].name, name.data, name.len);
      grown[i].epoch = epoch, n->n_seen++;
    }
  } else if (i < n->n_seen) {
    if (epoch < n->seen[i].epoch) newer = n->seen[i].epoch;
    else n->seen[i].epoch = epoch;
  }
  pthread_mutex_unlock(&n->lock);
  return newer;
}

pf_status pf_greeted(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  pf_net *n = p->net;
  uint32_t magic = pf_get32(b), version = pf_get32(b);
  uint64_t incarnation = pf_get64(b), expected = pf_get64(b);
  pf_str name = pf_get_text(b, 127), to = pf_get_text(b, 127);
  int64_t window = (int64_t)pf_get64(b);
  if (version != PF_NET_VERSION) b->bad = 0;
  if (b->bad || window < 0 || magic != PF_NET_MAGIC || name.len == 0)
    return pf_peer_refuse(p, PF_INVALID_ARGUMENT, "who connected does not speak pyflow's frames");
  if (version != PF_NET_VERSION)
    return pf_peer_refuse(p, PF_FAILED_PRECONDITION,
                          "frames of version %u were offered, this is version %d", version,
                          PF_NET_VERSION);
  if (!pf_str_is(to, n->task->name))
    return pf_peer_refuse(p, PF_NOT_FOUND, "%.*s was asked for, this is %s", (int)to.len, to.data,
                          n->task->name);
  if (expected != n->incarnation)
    return pf_peer_refuse(p, PF_ABORTED,
                          "%s is not of the incarnation that was asked for: it was started anew",
                          n->task->name);
  if (p->initiated && (!pf_str_is(name, p->name) || incarnation != p->incarnation))
    return pf_peer_refuse(p, PF_ABORTED, "%s was asked for, %.*s of another incarnation answered",
                          p->name, (int)name.len, name.data);
  uint64_t newer = outdated(n, name, h->epoch);
  if (newer)
    return pf_peer_refuse(p, PF_ABORTED, "%.*s is of epoch %llu, which is over: %llu has been here",
                          (int)name.len, name.data, (unsigned long long)h->epoch,
                          (unsigned long long)newer);
  pthread_mutex_lock(&p->out);
  pf_letters_welcome(&p->letters, window);
  pthread_mutex_unlock(&p->out);
  pthread_mutex_lock(&n->lock);
  p->epoch = h->epoch;
  if (!p->initiated) {
    p->incarnation = incarnation;
    pf_copy_text(p->name, sizeof p->name, name.data, name.len);
  }
  pthread_mutex_unlock(&n->lock);
  if (!opened(p))
    return pf_peer_refuse(p, PF_ALREADY_EXISTS, "%s is connected with %s already", n->task->name,
                          p->name);
  return PF_OK;
}

pf_status pf_bid_farewell(pf_peer *p, pf_net_in *b) {
  uint32_t st = pf_get32(b);
  pf_str text = pf_get_text(b, PF_NET_MAX_TEXT);
  if (b->bad || st > 16) return PF_DATA_LOSS;
  if (st == 0) pf_peer_losef(p, PF_UNAVAILABLE, "it ended");
  else {
    pf_error why;
    pf_error_clear(&why);
    pf_error_set(&why, (pf_status)st, "%.*s", (int)text.len, text.data);
    pf_peer_lose(p, &why);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- signs of life */
void pf_peer_ping(pf_peer *p, int32_t flags, int64_t heard) {
  uint8_t memory[64];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_PING, flags, none, p->net->o.epoch);
  pf_put64(&o, (uint64_t)pf_now_ns()), pf_put64(&o, (uint64_t)heard);
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

pf_status pf_pinged(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  int64_t theirs = (int64_t)pf_get64(b), ours = (int64_t)pf_get64(b), now = pf_now_ns(), best;
  if (b->bad || theirs < 0 || ours < 0) return PF_DATA_LOSS;
  int64_t rtt = now - ours;
  if (!(h->flags & PF_NET_REPLY)) {
    pf_peer_ping(p, PF_NET_REPLY, theirs);
    return PF_OK;
  }
  if (rtt < 0 || ours == 0) return PF_OK;
  best = pf_a64_load_rlx(&p->signs.rtt_ns);
  if (best == 0 || rtt <= best + best / 8) { /* the least of late: its clock is the surest */
    pf_a64_store_rlx(&p->signs.rtt_ns, rtt);
    pf_a64_store_rlx(&p->signs.clock_offset_ns, theirs - ours - rtt / 2);
  } else {
    pf_a64_store_rlx(&p->signs.rtt_ns, best + best / 64 + 1);
  }
  return PF_OK;
}
