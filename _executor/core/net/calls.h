/* Steps at a peer that this task asked for (calls.c); net.h has pf_remote. */
#ifndef PF_NET_CALLS_H
#define PF_NET_CALLS_H
#include "net/work.h"

enum { PF_NET_BUCKETS = 64 };

/* A lock of its own.  Touched by calls.c. */
typedef struct {
  pthread_mutex_t lock;
  pf_remote *remotes[PF_NET_BUCKETS]; /* by call */
  int64_t n;
  uint64_t last;
} pf_calls;

pf_status pf_steps_done(pf_peer *p, const pf_net_head *h, pf_net_in *body);
void pf_send_cancel(pf_peer *p, pf_step_key key, const pf_error *why); /* the step failed here */
void pf_calls_init(pf_peer *p);
void pf_calls_free(pf_peer *p);
void pf_calls_lost(pf_peer *p);
void pf_calls_view(pf_peer *p, pf_peer_view *v);
#endif
