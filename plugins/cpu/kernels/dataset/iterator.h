/* iterator.h - iterators as resources: who waits for an element, one reading, saving and loading.
 *
 * A READING is a chain of stages that is being read. An ITERATOR is a named resource that has one,
 * or none before it is initialised; MakeIterator gives it a new one, and the old one ends with its
 * last request. GetNext calls wait in the order they came:
 *
 *     IDLE -> ASKING [ask]        the first call that finds no answer asks, on its own thread
 *     ASKING -> IDLE [landed]     the answer goes to the first call that waits; kept if none does
 *
 * Invariants
 *   1. One request is under way at a reading; a request and each background stage's work hold it.
 *   2. An element that nobody waits for any more is the next call's: none is lost.
 *   3. A call that is cancelled ends at once; the request goes on, or stops between elements.
 * Threads: any; `lock` guards waiting calls, the answer and what is asked.
 */
#ifndef PF_CPU_DATASET_ITERATOR_H
#define PF_CPU_DATASET_ITERATOR_H
#include "dataset/reading.h"
#include "dataset/state.h"

typedef struct iterator iterator;
/* references: the list's and the cancel callback's */
typedef struct waiting {
  struct waiting *next;
  atomic_int refs;
  int listed, optional;
  iterator *it;
  pf_ctx *c;
  uint64_t ticket;
} waiting;
struct iterator {
  ds_waiter landed; /* first: of the request */
  atomic_int refs;
  pthread_mutex_t lock;
  pthread_cond_t quiet; /* busy has become 0 */
  const pf_host *host;
  ds_reading *reading, *asked; /* asked: of the request, while busy */
  ds_function factory;         /* of a one-shot iterator */
  ds_flight flight;
  waiting *first, **last;
  int busy, kept;         /* a request, or a save, is on; `answer` waits for a call */
  ds_row row, answer_row; /* the request's; the kept answer's */
  pf_status answer;
  int32_t n_types, *types, n_shapes;
  pf_shape *shapes; /* with their sizes behind them, in one piece */
  char *container, *name;
  pf_str pending; /* a state that was restored before the dataset is known */
};
typedef struct {
  pf_list output_types, output_shapes;
  pf_str shared_name, container, dataset_factory;
} iterator_state;

/* iterator.c: who waits for an element, and gets it */
extern const pf_type ds_iterator_type;
void ds_iterator_free(void *obj); /* a reference less */
void ds_request_landed(ds_waiter *w, pf_status st);
int ds_go_on(iterator *it);   /* lock held, the request over.  1: another one begins */
void ds_ask_later(void *arg); /* asks, on another thread */
pf_status ds_iterator_fits(const iterator *it, const dataset *d, ds_row *error); /* its types */
/* A reading of the dataset that a factory made. */
pf_status ds_open_made(iterator *it, ds_row *made, ds_row *error, ds_reading **out);
pf_status ds_told(pf_ctx *c, pf_status st, ds_row *error); /* the call fails with that */
/* iterator_state.c: the state that waited, if any, into a fresh reading; told once, whether it
 * fits or not. */
pf_status ds_load_pending(iterator *it, ds_reading *r, ds_row *error, ds_row *answer,
                          pf_status *status, int64_t *kept);
#endif
