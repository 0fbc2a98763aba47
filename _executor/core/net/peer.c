/* peer.c - a peer: its references and its end, and what of it the net polls.
 *
 *   GREETING --HELLO, both ways--> OPEN --EOF, silence, BYE, a broken frame, close--> LOST [pf_peer_lose]
 *       `------refused, EOF, too late------------------------------------------------^
 *
 * Invariants
 * 1. A peer is lost once; what its parts do then is ends.c's.
 * 2. A descriptor is polled under a slot number that is used once, so a late event finds nothing rather than another's peer.
 *
 * Threads: any.  net.h has the lock order.
 */
#include <sys/epoll.h>
#include "net/peer.h"

/* ---------------------------------------------------------------- begin and end */
pf_peer *pf_peer_new(pf_net *n, const pf_link *link, pf_link_conn *conn, int32_t initiated) {
  pf_peer *p = calloc(1, sizeof *p);
  uint8_t *buf = malloc(PF_NET_BUFFER);
  if (!p || !buf) {
    free(p), free(buf);
    link->release(conn);
    return NULL;
  }
  pf_a32_store(&p->refs, 1);
  pf_net_ref(n);
  p->net = n, p->link = link, p->conn = conn, p->initiated = initiated;
  p->fd = link->descriptor(conn);
  p->buf = buf;
  p->since_ns = pf_now_ns();
  pf_a64_store_rlx(&p->last_in, p->since_ns);
  pthread_mutex_init(&p->reading, NULL), pthread_mutex_init(&p->out, NULL), pthread_mutex_init(&p->lock, NULL);
  pf_cond_init(&p->roomy);
  return p;
}

void pf_peer_unref(pf_peer *p) {
  if (!p || !pf_a32_dec_last(&p->refs)) return;
  pf_net *n = p->net;
  pf_incoming_free(p);
  pf_arenas_free(p);
  p->link->release(p->conn);
  pthread_mutex_destroy(&p->reading), pthread_mutex_destroy(&p->out), pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->roomy);
  pf_tensor_unref(p->body);
  free(p->buf);
  free(p);
  pf_net_unref(n);
}

typedef struct { pf_net *n; char name[128]; uint64_t incarnation; pf_error why; } loss;
static void tell_loss(void *arg) {
  loss *l = arg;
  l->n->o.lost(l->n->o.lost_arg, l->name, l->incarnation, &l->why);
  pf_net_unref(l->n);
  free(l);
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
  p->link->close(p->conn);
  pthread_mutex_lock(&p->out);
  pf_outbox_drop(p);
  pthread_mutex_unlock(&p->out);
  pf_calls_lost(p);
  pf_servings_lost(p);
  pf_transfers_lost(p);
  pf_incoming_lost(p);
  loss *l = was == PF_PEER_OPEN && n->o.lost && !pf_a32_load(&n->closing) ? malloc(sizeof *l) : NULL;
  if (l) {
    *l = (loss){.n = n, .incarnation = p->incarnation, .why = p->why};
    memcpy(l->name, p->name, sizeof l->name);
    pf_net_ref(n);
    pf_net_tell(n, tell_loss, l);
  }
  pf_net_forget(n, p);                          /* the net's reference goes; the caller has one */
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
void pf_peer_rearm(pf_peer *p) {                 /* out held */
  uint32_t events = (p->direct ? 0 : EPOLLIN) | (p->want_out ? EPOLLOUT : 0);
  struct epoll_event e = {.events = events, .data.u64 = p->slot};
  if (!p->registered || p->armed == (int32_t)events) return;
  p->armed = (int32_t)events;
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
    p->slot = ++n->slots;
    pf_peer_ref(p);
    p->next = n->peers;
    n->peers = p;
  }
  pthread_mutex_lock(&p->out);
  if (!st) st = pf_net_watch(n, p->fd, p->slot);
  p->registered = !st;
  p->armed = EPOLLIN;
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
  if (p->registered) epoll_ctl(n->epfd, EPOLL_CTL_DEL, p->fd, NULL);
  p->registered = 0;
  pthread_mutex_unlock(&p->out);
  pthread_mutex_unlock(&n->lock);
  if (was) pf_peer_unref(p);
}

void pf_peer_set_direct(pf_peer *p, int32_t direct) {
  pthread_mutex_lock(&p->out);
  p->direct = direct;
  pf_peer_rearm(p);
  pthread_mutex_unlock(&p->out);
}

/* ---------------------------------------------------------------- the net's list */
pf_peer **pf_net_all_peers(pf_net *n, int32_t *count) {       /* each with a reference */
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

pf_peer *pf_net_find_peer(pf_net *n, const char *name) {            /* lock held; the open one */
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
