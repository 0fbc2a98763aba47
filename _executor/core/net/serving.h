/* Plans that a peer may run, and steps of them that it asked for (serving.c). */
#ifndef PF_NET_SERVING_H
#define PF_NET_SERVING_H
#include "net/work.h"

typedef struct pf_served {
  pf_a32 refs;
  uint64_t handle;
  pf_net_plans plans; /* its lists lie behind this struct */
  pf_net *net;
  void *owner;
  void (*drop)(void *);
  pf_a64 run_ns; /* the least of late; 0: there was none */
  /* up to MEASURED; that took too long, on end; how many of its next are not run on a thread
   * that reads */
  pf_a32 runs, late, spared;
  pf_a64 asked_ns; /* when a peer last asked for a step of it; 0: never */
  struct pf_served *next;
} pf_served;
/* one run */
typedef struct pf_serving {
  struct pf_serving *next, *prev; /* the peer's */
  pf_peer *peer;
  pf_served *s;
  uint64_t call;
  pf_step_key key;
  int64_t began_ns, timeout_ns;
  int32_t n_args, listed; /* listed: among the peer's, its lock */
  pf_tensor *args[];
} pf_serving;
/* A lock of its own.  Touched by serving.c. */
typedef struct {
  pthread_mutex_t lock;
  pf_serving *first;
  int64_t n;
} pf_servings;

/* *out: to be begun by pf_steps_begin */
pf_status pf_steps_run(pf_peer *p, const pf_net_head *h, pf_net_in *body, pf_serving **out);
void pf_steps_begin(pf_serving *take);
pf_status pf_steps_cancel(pf_peer *p, const pf_net_head *h, pf_net_in *body);
void pf_served_unref(pf_served *s);
void pf_net_unserve_all(pf_net *n);
void pf_servings_init(pf_peer *p);
void pf_servings_free(pf_peer *p);
void pf_servings_lost(pf_peer *p);
void pf_servings_view(pf_peer *p, pf_peer_view *v);
#endif
