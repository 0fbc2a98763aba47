/* waiting.h - calls that wait on an object without holding a thread: queues, staging areas,
 * accumulators, barriers.
 *
 * A call is an ATTEMPT.  It is tried at once, on its caller's stack; one that cannot be completed
 * is
 * moved to the heap, deferred, and put at the end of one of the object's two lists.  Whatever
 * changes the object SETTLES it: the first attempts of both lists are tried in turn until none gets
 * on.
 *
 *     NEW -> OVER      [pf_attempt_start]       completed by its own caller
 *     NEW -> WAITING   [pf_attempt_start]       in a list
 *     WAITING -> OVER  [settle]                 by whoever changed the object
 *     WAITING -> OVER  [cancelled, pf_waited_abort]   its step is cancelled, its container is reset
 *
 * Invariants
 *   1. Who takes an attempt out of its list, under the object's lock, ends its call.
 *   2. `run` and `undo` are called with the lock; `deliver`, `clear` and the host's `done` without.
 *   3. A waiting attempt has two references, the list's and the cancel callback's, and keeps its
 *      object.
 * Threads: any.  `lock` guards an object's lists and what is in it; no other lock is taken under it
 * but the host's (on_cancel).
 *
 * Source of the order: TF's QueueBase (enqueue attempts first, then dequeue attempts).
 */
#ifndef PF_CPU_WAITING_H
#define PF_CPU_WAITING_H
#include <pthread.h>
#include <stdlib.h>
#include "base/common.h"

typedef struct pf_waited pf_waited;
typedef struct pf_attempt pf_attempt;
enum { PF_WAITS, PF_MOVED, PF_OVER }; /* nothing to be had; got on, but is not done; done */
enum { PF_PUTS, PF_TAKES, PF_SIDES };
enum { PF_MOST_TOLD = sizeof((pf_wait_state *)0)->sources / sizeof(int64_t) };
enum { PF_CUT_OFF = 1, PF_RESET }; /* of pf_attempt.taken: by who closed; by pf_waited_abort */

typedef struct {
  size_t size; /* of the whole attempt, which starts with a pf_attempt */
  int32_t side;
  const char *cancelled;      /* what is said when its step is cancelled */
  int (*run)(pf_attempt *);   /* PF_OVER with a status: it failed */
  void (*undo)(pf_attempt *); /* cancelled: gives back what it took; may be NULL */
  /* the outputs, or the error of its status; PF_PENDING: the call goes on, and is ended by
   * whoever has it now */
  pf_status (*deliver)(pf_ctx *, pf_attempt *);
  void (*clear)(pf_attempt *); /* frees what it holds; may be NULL */
} pf_attempt_kind;

struct pf_attempt {
  const pf_attempt_kind *kind;
  pf_waited *on;
  pf_attempt *next, *prev;
  const pf_host *host;
  uint64_t ticket;
  int32_t refs, listed, taken; /* taken: out of its list by pf_attempts_take, and why */
  pf_status status;
};
typedef struct { pf_attempt *first, *last; } pf_attempts;
/* the first member of what is waited on */
struct pf_waited {
  pthread_mutex_t lock;
  int32_t refs;
  int32_t any_order; /* an attempt behind one that waits is tried too */
  pf_status aborted;
  pf_attempts side[PF_SIDES];
  void (*destroy)(pf_waited *);
};

void pf_waited_init(pf_waited *w, void (*destroy)(pf_waited *));
void pf_waited_unref(void *w);                /* a pf_type's unref */
void pf_waited_abort(void *w, pf_status why); /* a pf_type's abort */

/* Tries the attempt, `a` on the caller's stack, and lets it wait if it must; its status, or
 * PF_PENDING.  Takes what the attempt holds. */
pf_status pf_attempt_start(pf_ctx *c, pf_waited *w, pf_attempt *a);

/* With the lock: takes all waiting attempts of a side out; each is to fail with `status`.  They are
 * ended by pf_attempts_end, without the lock. */
pf_attempt *pf_attempts_take(pf_waited *w, int side, pf_status status, int32_t taken);
/* With the lock: tries what waits; what is over is added to *over. */
void pf_waited_settle(pf_waited *w, pf_attempt **over);
void pf_attempts_end(pf_attempt *over);
#endif
