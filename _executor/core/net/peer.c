/* peer.c - a peer: its references and its end, and what of it the net polls.
 *
 *   GREETING --HELLO, both ways--> OPEN --EOF, silence, BYE, a broken frame, close--> LOST [pf_peer_lose]
 *       `------refused, EOF, too late------------------------------------------------^
 *
 * Invariants
 * 1. A peer is lost once; what its parts do then is life.c's.
 * 2. A descriptor is polled under a slot number that is used once, so a late event finds nothing
 *    rather than another's peer.
 *
 * Threads: any.  net.h has the lock order.
 */
#include <sys/epoll.h>
#include "net/peer.h"

/* ---------------------------------------------------------------- begin and end */
pf_peer *pf_peer_new(pf_net *n, const pf_link *link, pf_link_conn *conn, int32_t initiated) {
  pf_peer *p = calloc(1, sizeof *p);
  if (!p) {
    link->release(conn);
    return NULL;
  }
  pf_a32_store(&p->refs, 1);
  pf_net_ref(n);
  p->net = n, p->link = link, p->conn = conn, p->initiated = initiated;
  p->fd = link->descriptor(conn);
  p->since_ns = pf_now_ns();
  pf_a64_store_rlx(&p->signs.last_in, p->since_ns);
  pthread_mutex_init(&p->out, NULL);
  if (n->life->begin(p)) return p;
  pf_peer_unref(p);
  return NULL;
}

void pf_peer_unref(pf_peer *p) {
  if (!p || !pf_a32_dec_last(&p->refs)) return;
  pf_net *n = p->net;
  n->life->left(p);
  pthread_mutex_destroy(&p->out);
  free(p);
  pf_net_unref(n);
}

void pf_peer_lose(pf_peer *p, const pf_error *why) {
  pf_net *n = p->net;
  pthread_mutex_lock(&n->lock);
  int32_t was = pf_a32_load(&p->state);
  if (was != PF_PEER_LOST) {
    p->why = *why;
    pf_copy_text(p->why.task, sizeof p->why.task, p->name, (int64_t)strlen(p->name));
    pf_a32_store(&p->state, PF_PEER_LOST);
    pthread_cond_broadcast(&n->changed);
  }
  pthread_mutex_unlock(&n->lock);
  if (was == PF_PEER_LOST) return;
  n->life->lost(p, was);
  pf_net_forget(n, p); /* the net's reference goes; the caller has one */
}

void pf_peer_losef(pf_peer *p, pf_status code, const char *fmt, ...) {
  PF_FORMATTED(text, fmt);
  pf_error why;
  pf_error_clear(&why);
  if (p->name[0]) pf_error_set(&why, code, "%s was lost: %.2000s", p->name, text);
  else pf_error_set(&why, code, "%.2000s", text);
  pf_peer_lose(p, &why);
}

/* ---------------------------------------------------------------- what is polled */
static void rearm(pf_peer *p) { /* out held */
  uint32_t events = (p->polled.direct ? 0 : EPOLLIN) | (p->polled.want_out ? EPOLLOUT : 0);
  struct epoll_event e = {.events = events, .data.u64 = p->polled.slot};
  if (!p->polled.registered || p->polled.armed == (int32_t)events) return;
  p->polled.armed = (int32_t)events;
  epoll_ctl(p->net->epfd, EPOLL_CTL_MOD, p->fd, &e);
}

pf_status pf_net_watch(pf_net *n, int fd, uint64_t slot) {
  struct epoll_event e = {.events = EPOLLIN, .data.u64 = slot};
  return epoll_ctl(n->epfd, EPOLL_CTL_ADD, fd, &e) ? PF_UNAVAILABLE : PF_OK;
}

pf_status pf_net_poll_peer(pf_net *n, pf_peer *p) {
  pthread_mutex_lock(&n->lock);
  pf_status st = pf_a32_load(&n->closing) ? PF_CANCELLED : PF_OK;
  if (!st) {
    p->polled.slot = ++n->slots;
    pf_peer_ref(p);
    p->next = n->peers;
    n->peers = p;
  }
  pthread_mutex_lock(&p->out);
  if (!st) st = pf_net_watch(n, p->fd, p->polled.slot);
  p->polled.registered = !st;
  p->polled.armed = EPOLLIN;
  pthread_mutex_unlock(&p->out);
  pthread_mutex_unlock(&n->lock);
  return st;
}

void pf_net_forget(pf_net *n, pf_peer *p) {
  pf_peer **at = &n->peers;
  pthread_mutex_lock(&n->lock);
  while (*at && *at != p) at = &(*at)->next;
  int32_t was = *at != NULL;
  if (was) *at = p->next;
  pthread_mutex_lock(&p->out);
  if (p->polled.registered) epoll_ctl(n->epfd, EPOLL_CTL_DEL, p->fd, NULL);
  p->polled.registered = 0;
  pthread_mutex_unlock(&p->out);
  pthread_mutex_unlock(&n->lock);
  if (was) pf_peer_unref(p);
}

int32_t pf_peer_is_direct(const pf_peer *p) { return p->polled.direct; }

void pf_peer_want_out(pf_peer *p, int32_t want) {
  p->polled.want_out = want;
  rearm(p);
}

int32_t pf_peer_wants_out(const pf_peer *p) { return p->polled.want_out; }

void pf_peer_set_direct(pf_peer *p, int32_t direct) {
  pthread_mutex_lock(&p->out);
  p->polled.direct = direct;
  rearm(p);
  pthread_mutex_unlock(&p->out);
}

/* ---------------------------------------------------------------- the net's list */
pf_peer **pf_net_all_peers(pf_net *n, int32_t *count) { /* each with a reference */
  int32_t k = 0;
  pthread_mutex_lock(&n->lock);
  for (pf_peer *p = n->peers; p; p = p->next) k++;
  pf_peer **all = malloc(sizeof *all * (size_t)(k + 1));
  k = 0;
  for (pf_peer *p = all ? n->peers : NULL; p; p = p->next) {
    pf_peer_ref(p);
    all[k++] = p;
  }
  pthread_mutex_unlock(&n->lock);
  *count = k;
  return all;
}

pf_peer *pf_net_find_peer(pf_net *n, const char *name) { /* lock held; the open one */
  pf_peer *p = n->peers;
  while (p && (strcmp(p->name, name) || !pf_peer_is(p, PF_PEER_OPEN))) p = p->next;
  return p;
}

pf_peer *pf_net_peer(pf_net *n, const char *name) {
  pthread_mutex_lock(&n->lock);
  pf_peer *p = pf_net_find_peer(n, name);
  if (p) pf_peer_ref(p);
  pthread_mutex_unlock(&n->lock);
  return p;
}

pf_peer *pf_net_peer_of_slot(pf_net *n, uint64_t slot) {
  pf_peer *p = n->peers;
  while (p && p->polled.slot != slot) p = p->next;
  return p;
}
