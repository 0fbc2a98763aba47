/* A peer, for the modules of core/net: what it is made of, who may touch which part, and under
 * which lock.  net.h says what it is. */
#ifndef PF_NET_PEER_H
#define PF_NET_PEER_H
#include "net/outbox.h"
#include "net/arenas.h"
#include "net/calls.h"
#include "net/serving.h"
#include "net/incoming.h"
#include "net/inbox.h"

/* Atomics. */
typedef struct { pf_a64 last_in, bytes_in, bytes_out, rtt_ns, clock_offset_ns; } pf_signs;
/* What the net's epoll knows of it.  Lock: `out`; the slot and whether it is there: the net's,
 * too.  Touched by peer.c. */
typedef struct {
  uint64_t slot;
  int32_t registered, armed, want_out, direct;
} pf_polled;

struct pf_peer {
  pf_a32 refs, state;
  pf_net *net;
  const pf_link *link;
  pf_link_conn *conn;
  int32_t fd, initiated;
  struct pf_peer *next; /* the net's list, its lock */
  char name[128];       /* from here on written before the state is OPEN */
  uint64_t incarnation, epoch;
  int64_t since_ns;
  pf_error why; /* written before the state is LOST */
  pf_signs signs;
  pf_inbox inbox;      /* under its `reading` */
  pthread_mutex_t out; /* guards the four below */
  pf_polled polled;
  pf_outbox outbox;
  pf_letters letters;
  pf_arenas arenas;
  pf_calls calls; /* each of these has its own lock */
  pf_servings servings;
  pf_arrivals arrivals;
};

static inline int32_t pf_peer_is(pf_peer *p, int32_t state) {
  return pf_a32_load(&p->state) == state;
}
static inline void pf_peer_ref(pf_peer *p) { pf_a32_add_rlx(&p->refs, 1); }

/* peer.c */
pf_peer *pf_peer_new(pf_net *n, const pf_link *link, pf_link_conn *conn, int32_t initiated);
void pf_peer_lose(pf_peer *p, const pf_error *why); /* once; later reasons are not heard */
__attribute__((format(printf, 3, 4))) void pf_peer_losef(pf_peer *p, pf_status code,
                                                         const char *fmt, ...);
pf_status pf_net_watch(pf_net *n, int fd, uint64_t slot); /* the net's lock held */
/* adds it to the list and to what is polled; takes a reference of its own */
pf_status pf_net_poll_peer(pf_net *n, pf_peer *p);
void pf_net_forget(pf_net *n, pf_peer *p); /* out of both; 1 reference less, if it was there */
/* a thread receives that waits for an answer: the net is not woken for that */
void pf_peer_set_direct(pf_peer *p, int32_t direct);
int32_t pf_peer_is_direct(const pf_peer *p);
/* out held: the net is woken when its link takes bytes */
void pf_peer_want_out(pf_peer *p, int32_t want);
int32_t pf_peer_wants_out(const pf_peer *p);            /* out held */
pf_peer **pf_net_all_peers(pf_net *n, int32_t *count);  /* each with a reference */
pf_peer *pf_net_find_peer(pf_net *n, const char *name); /* the net's lock held; the open one */
pf_peer *pf_net_peer_of_slot(pf_net *n, uint64_t slot); /* the net's lock held */
#endif
