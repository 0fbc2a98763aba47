/* Net: what a task says to its peers, and hears from them, without Python.  Above every floor of
 * the core; the library is linked into the Python extension alone.
 *
 *   pf_net      of one task: ports, peers, plans by handle, threads (net.c)
 *   pf_peer     one connection with one other task (peer.h): frames in and out, tensors, calls
 *   pf_remote   a step of a plan at a peer, seen from who asked for it (calls.c)
 *
 * Files, the lowest first: each includes headers of those before it and calls functions of those
 * before it alone (tests/abi has a test that reads this list).  What a peer is made of lies in
 * parts, each touched by one file (peer.h).
 *
 *   frames  codec     what tasks say, as bytes
 *   net.h             what others may use of all this
 *   offered           links
 *   work              a net, and what it lets its threads do
 *   letters           tensors that wait to go
 *   outbox.h  arenas.h  calls.h  serving.h  incoming.h  inbox.h  peer.h       the parts of a peer, and the whole
 *   peer              its references and its end
 *   outbox            frames out
 *   arenas            memory that both ends see
 *   calls             steps that we asked for
 *   serving           steps that the peer asked for
 *   outgoing          tensors to the peer
 *   incoming          tensors from it
 *   greeting          who it is, and signs of life
 *   inbox             frames in, and what is done about each
 *   life              what the end of a peer brings about in its parts
 *   net               threads, ports, connections
 *
 * Lock order (outermost first): pf_inbox.reading, pf_net.lock, the locks of pf_calls, pf_servings
 * and pf_arrivals (one at a time), pf_peer.out.  Nothing of tasks, rendezvous, steps or `done`
 * functions is called with any but `reading` held.
 */
#ifndef PF_NET_H
#define PF_NET_H
#include "net/frames.h"

typedef struct pf_net pf_net;
typedef struct pf_peer pf_peer;

typedef struct {
  /* silence after which a peer is lost; it is asked for a sign five times as often */
  int64_t lease_ns;
  int64_t queue_bytes;    /* tensors that wait to be sent to a peer: who sends more waits */
  int64_t arena_bytes;    /* memory shared with a peer, each way */
  int64_t incoming_bytes; /* announced tensors under way from a peer */
  /* tensors from a peer that wait here to be read; it keeps what is more until that is asked for */
  int64_t window_bytes;
  /* this task's fencing number: of a peer's, older ones than were seen of it are refused */
  uint64_t epoch;
  /* on the thread that tells; may be NULL */
  void (*lost)(void *arg, const char *name, uint64_t incarnation, const pf_error *why);
  void *lost_arg;
} pf_net_options;

pf_net *pf_net_new(pf_task *task, const pf_net_options *o, pf_error *err);
/* peers hear BYE; threads end; idempotent; not from a thread of the net's own */
void pf_net_close(pf_net *n);
void pf_net_unref(pf_net *n);
pf_status pf_net_add_link(const pf_link *link); /* of the process; kept for ever */
/* a plugin's, checked (offered.c) */
pf_status pf_net_offer_link(const pf_link *theirs, const pf_link **out, pf_error *err);
const pf_link *pf_net_link(const char *kind); /* NULL */
pf_status pf_net_listen(pf_net *n, const char *kind, const char *address, int32_t flags,
                        char *bound, int32_t room, pf_error *err);
/* Returns once the peer has answered.  PF_OK at once where it is connected already. */
pf_status pf_net_connect(pf_net *n, const char *name, uint64_t incarnation, const char *kind,
                         const char *address, int32_t flags, int64_t timeout_ns, pf_error *err);
pf_status pf_net_disconnect(pf_net *n, const char *name, uint64_t incarnation, const char *why);
/* fn(arg) on a thread that may wait for the GIL */
void pf_net_tell(pf_net *n, void (*fn)(void *), void *arg);

/* For links whose bytes another thread brings: receives on this thread what has come by a
 * connection, unless another one does. */
void pf_net_receive(pf_net *n, pf_link_conn *conn);

pf_peer *pf_net_peer(pf_net *n, const char *name); /* new reference to the connected one; NULL */
/* The kind of the open connection with that task, of that incarnation where it is not 0; 0:
 * there is none. */
int32_t pf_net_kind(pf_net *n, const char *name, uint64_t incarnation, char *to, int64_t room);
void pf_peer_unref(pf_peer *p);

/* ---------------------------------------------------------------- what peers() shows */
typedef struct {
  char name[128], kind[16];
  uint64_t incarnation, epoch;
  int32_t state, initiated;
  int64_t since_ns, bytes_in, bytes_out, queued, announced, unread, stored, arena_bytes, arena_used,
      rtt_ns, clock_offset_ns, silent_ns, remotes, serving;
} pf_peer_view;
enum { PF_PEER_GREETING = 0, PF_PEER_OPEN = 1, PF_PEER_LOST = 2 };
int32_t pf_net_views(pf_net *n, pf_peer_view *to, int32_t room); /* how many there are */

/* -------------------------------------------------- plans by handle, steps (serving.c, calls.c) */
/* Plans of one step, in one pool, and whose argument and result is which: argument k, plan after
 * plan, is what the peer sends as number arg_of[k], result k what it gets as number ret_of[k].
 * Both lists are copied. */
typedef struct {
  pf_plan **plans;
  const int32_t *arg_of, *ret_of;
  int32_t n, n_args, n_rets, n_feeds;
} pf_net_plans;
/* `drop(owner)` is called by the thread that tells, once nothing runs it any more. */
pf_status pf_net_serve(pf_net *n, uint64_t handle, const pf_net_plans *plans, void *owner,
                       void (*drop)(void *), pf_error *err);
pf_status pf_net_unserve(pf_net *n, uint64_t handle); /* PF_NOT_FOUND */
/* ns since a peer last asked for a step of it; -1: nobody has */
int64_t pf_net_asked(pf_net *n, uint64_t handle);

typedef struct pf_remote {
  pf_a32 refs;
  struct pf_remote *next; /* in the peer's table */
  uint64_t call;
  pf_step_key key;
  pf_peer *peer;
  pthread_mutex_t lock;
  pthread_cond_t cond;
  pf_a32 over; /* 1: status, error and rets are there */
  pf_status status;
  pf_error error;
  int64_t n_rets;
  pf_tensor **rets;
  /* NULL, or called with `object` by the thread that tells, once it is over */
  void (*told)(void *);
  void *object;
} pf_remote;
/* Lends args.  Failure: nothing was sent.  *out: one reference; with `told` one more, which the
 * function called drops. */
pf_status pf_net_run(pf_net *n, const char *peer, uint64_t handle, pf_step_key key,
                     pf_tensor *const *args, int32_t n_args, int64_t timeout_ns,
                     void (*told)(void *), void *object, pf_remote **out, pf_error *err);
/* 1: over; the caller receives frames meanwhile */
int32_t pf_remote_wait(pf_remote *r, int64_t until_ns);
/* Works for a step of this process, of which r is another part, and receives where there is
 * nothing to do.  1: `own` is over; 0: r has failed, or the time has come. */
int32_t pf_remote_help(pf_remote *r, pf_started *own, int64_t until_ns);
/* the step there fails; the answer comes as ever */
void pf_remote_cancel(pf_remote *r, pf_status code, const char *message);
void pf_remote_unref(pf_remote *r);
pf_status pf_net_cancel(pf_net *n, const char *peer, pf_step_key key, const pf_error *why);
/* soon: with the next frame */
pf_status pf_net_clean(pf_net *n, const char *peer, pf_step_key key, int32_t all, int32_t soon);

/* ---------------------------------------------------------------- tensors (outgoing.c) */
/* To the rendezvous of the peer's step.  PF_OK: on its way, or in the queue; PF_PENDING:
 * pend->sent follows; pend NULL: waits for room in the queue, as long as the step has not failed
 * here.  Takes the tensor in any case. */
pf_status pf_peer_put(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead,
                      const pf_pend *pend, pf_error *err);
/* The same, but nothing is sent before somebody there waits for it, or has room for it: the
 * peer's step need not have begun.  Does not wait. */
pf_status pf_peer_announce(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take,
                           pf_error *err);
#endif
