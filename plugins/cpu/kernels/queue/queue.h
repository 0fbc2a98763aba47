/* queue.h - queues of tuples of tensors: the store, and putting and taking as attempts.
 *
 * An ELEMENT is a tuple: one row of a CHUNK, the tensors that came in one call (of many rows), or
 * the tensors as they are.  Elements move under the lock; rows are copied outside of it, neighbours
 * of one chunk at once, and a chunk that leaves whole is not copied at all.
 *
 * Invariants
 *   1. A chunk has a reference for each of its elements that was not given out yet.
 *   2. The components' types, and the shapes where there are any, are checked before an attempt
 *      starts: what is in a queue fits it.
 *   3. A queue that takes elements out of order (`scattered`) never holds chunks of more than twice
 *      the rows it has, and SLACK.
 * Threads: any; a queue's fields are guarded by its lock, those set when it is made never change.
 *
 * Source: TF 1.15 FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue, PriorityQueue.
 */
#ifndef PF_CPU_QUEUE_H
#define PF_CPU_QUEUE_H
#include "queue/waiting.h"
#include "random/philox.h"

typedef DLManagedTensorVersioned pf_tensor;
typedef struct pf_queue pf_queue;
typedef struct pf_chunk {
  int32_t refs, n;
  int64_t rows;           /* -1: one element */
  int64_t *held;          /* its queue's count of rows; NULL: nobody counts */
  int64_t here, next;     /* while compacting: rows in the queue; rows moved to it */
  struct pf_chunk *moved; /* while compacting: where its rows go */
  pf_tensor *part[];
} pf_chunk;
typedef struct {
  pf_chunk *chunk;
  int64_t row; /* -1: the chunk as it is */
  int64_t key; /* of a priority queue, and the order among equal ones */
  uint64_t turn;
} pf_element;

/* how the kinds of queues differ */
typedef struct {
  const char *op;                      /* "FIFOQueue" */
  pf_element (*take)(pf_queue *);      /* of a queue that is not empty */
  void (*put)(pf_queue *, pf_element); /* there is room for it */
  /* it was taken and is not wanted: last taken, first back */
  void (*put_back)(pf_queue *, pf_element);
  int32_t padded, keyed, scattered;
} pf_queue_kind;

struct pf_queue {
  pf_waited base;
  const pf_queue_kind *kind;
  const pf_host *host;
  char *name;
  int32_t n_parts, closed, unspecified; /* unspecified: shapes has no meaning (but for a key) */
  int32_t *types;
  pf_shape *shapes;
  int64_t capacity, min_after;
  int64_t seed, seed2; /* as asked for */
  pf_element *at;      /* a ring of `room`, a power of two, from `head` on */
  int64_t head, n, room;
  int64_t held; /* rows of its chunks; atomic */
  uint64_t turns;
  pf_philox random;
  uint32_t drawn[4];
  int32_t n_drawn;
};
extern const pf_queue_kind pf_queue_kinds[];
extern const pf_type pf_queue_type;
enum { PF_FIFO, PF_PADDING_FIFO, PF_RANDOM_SHUFFLE, PF_PRIORITY };

/* A chunk of the inputs [first, first + n) of a call; rows -1: one element.  NULL: no memory. */
pf_chunk *pf_chunk_of_inputs(pf_ctx *c, int32_t first, int32_t n, int64_t rows);
void pf_chunk_drop(pf_chunk *k, int64_t refs);

/* ---------------------------------------------------------------- attempts */
typedef struct {
  pf_attempt base;
  pf_chunk *chunk; /* NULL: all is in the queue */
  int64_t row, left;
} pf_enqueue;
typedef struct {
  pf_attempt base;
  pf_element one, *got; /* got: NULL while `one` has room for all */
  /* taken, still wanted; size: of the queue, for the message */
  int64_t n, room, left, size;
  int32_t many, up_to;
} pf_dequeue;
typedef struct { pf_attempt base; } pf_close;
extern const pf_attempt_kind pf_enqueue_kind, pf_dequeue_kind, pf_close_kind;
pf_status pf_queue_close(pf_ctx *c, pf_queue *q, int32_t cancel_pending);
void pf_queue_free(pf_waited *w);
/* 0: no memory */
int pf_queue_set_parts(pf_queue *q, const int32_t *leading, int32_t n_leading, const pf_list *types,
                       const pf_list *shapes, pf_str name);
int pf_queue_room(pf_queue *q, int64_t more); /* for as many elements more */
#endif
