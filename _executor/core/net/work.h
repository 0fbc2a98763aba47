/* A net, for the modules of core/net (net.h says what it is), and what it lets other threads do
 * (work.c). */
#ifndef PF_NET_WORK_H
#define PF_NET_WORK_H
#include "net/net.h"

enum { PF_NET_THREADS = 8, PF_NET_HANDLES = 64 };

/* Begin, loss and end of a peer's parts, which life.c knows. */
typedef struct {
  int32_t (*begin)(pf_peer *p); /* 0: no memory */
  /* `was`: its state before; on the thread that lost it, once */
  void (*lost)(pf_peer *p, int32_t was);
  void (*left)(pf_peer *p); /* nobody has it any more */
} pf_peer_life;
typedef struct pf_port {
  struct pf_port *next;
  const pf_link *link;
  pf_link_port *port;
  uint64_t slot;
} pf_port;
typedef struct pf_tell {
  struct pf_tell *next;
  void (*fn)(void *);
  void *arg;
} pf_tell;

struct pf_net {
  pf_a32 refs, closing;
  pf_a64 incoming_cost; /* of all peers */
  pf_task *task;
  pf_net_options o;
  const pf_peer_life *life;
  uint64_t incarnation;
  int32_t fork_gen, epfd, wakefd;
  pthread_mutex_t lock;   /* guards all below */
  pthread_cond_t changed; /* a peer's state */
  pf_peer *peers;
  pf_port *ports;
  uint64_t slots;
  int64_t n_greeting;
  /* of each task that greeted, its highest epoch */
  struct pf_seen {
    char name[128];
    uint64_t epoch;
  } *seen;
  int32_t n_seen;
  struct pf_served *served[PF_NET_HANDLES];
  /* threads */
  struct pf_net_thread {
    pthread_t thread;
    int32_t state, pad;
  } threads[PF_NET_THREADS];
  pthread_t teller;
  /* standing: threads that stand by, or are about to; leader: 0 nobody, else 1 + a place */
  int32_t standing, teller_runs, leader;
  /* the leader's; atomics, for one that was replaced may be at its last step */
  int64_t busy_since, next_tick, last_tick;
  pthread_cond_t led, told;
  pf_tell *tells, *tells_last, *works, *works_last;
};

static inline int64_t pf_min64(int64_t a, int64_t b) { return a < b ? a : b; }

void pf_net_ref(pf_net *n);
int32_t pf_net_is_own_thread(void);
void pf_net_be_own_thread(void); /* this thread is one, to its end */
/* something long, on a thread of the net's that reads nothing meanwhile */
void pf_net_work(pf_net *n, void (*fn)(void *), void *arg);
void pf_net_end_teller(pf_net *n); /* what comes from now on is done by who brings it */
#endif
