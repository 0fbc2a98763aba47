/* work.c - a net's references, and what it lets other threads do: what is long (pf_net_work), what
 * Python has to hear (pf_net_tell).
 *
 * Threads: any.
 */
#include <unistd.h>
#include "net/work.h"

static __thread int32_t own_thread;

int32_t pf_net_is_own_thread(void) { return own_thread; }
void pf_net_be_own_thread(void) { own_thread = 1; }

void pf_net_ref(pf_net *n) { pf_a32_add_rlx(&n->refs, 1); }

void pf_net_unref(pf_net *n) {
  if (!n || !pf_a32_dec_last(&n->refs)) return;
  if (n->epfd >= 0) close(n->epfd);
  if (n->wakefd >= 0) close(n->wakefd);
  pthread_mutex_destroy(&n->lock);
  pthread_cond_destroy(&n->changed), pthread_cond_destroy(&n->led), pthread_cond_destroy(&n->told);
  pf_task_unref(n->task);
  free(n->seen), free(n);
}

static void append(pf_tell **first, pf_tell **last, pf_tell *t) { /* lock held */
  if (*last) (*last)->next = t;
  else *first = t;
  *last = t;
}

void pf_net_work(pf_net *n, void (*fn)(void *), void *arg) {
  pf_tell *t = malloc(sizeof *t);
  pthread_mutex_lock(&n->lock);
  int32_t later = t && !pf_a32_load(&n->closing);
  if (later) {
    *t = (pf_tell){NULL, fn, arg};
    append(&n->works, &n->works_last, t);
    pthread_cond_signal(&n->led);
  }
  pthread_mutex_unlock(&n->lock);
  if (later) return;
  free(t);
  fn(arg);
}

static void *teller_main(void *arg) {
  pf_net *n = arg;
  pf_name_thread("pyflow tell", 0);
  pthread_mutex_lock(&n->lock);
  for (;;) {
    while (!n->tells && n->teller_runs == 1) pthread_cond_wait(&n->told, &n->lock);
    pf_tell *t = n->tells;
    if (!t) break;
    n->tells = t->next;
    if (!n->tells) n->tells_last = NULL;
    pthread_mutex_unlock(&n->lock);
    t->fn(t->arg);
    free(t);
    pthread_mutex_lock(&n->lock);
  }
  pthread_mutex_unlock(&n->lock);
  return NULL;
}

void pf_net_tell(pf_net *n, void (*fn)(void *), void *arg) {
  pf_tell *t = malloc(sizeof *t);
  pthread_mutex_lock(&n->lock);
  if (t && n->teller_runs == 0 && n->fork_gen == pf_fork_generation())
    n->teller_runs = pthread_create(&n->teller, NULL, teller_main, n) == 0;
  int32_t there = t && n->teller_runs == 1;
  if (there) {
    *t = (pf_tell){NULL, fn, arg};
    append(&n->tells, &n->tells_last, t);
    pthread_cond_signal(&n->told);
  }
  pthread_mutex_unlock(&n->lock);
  if (there) return;
  free(t);
  fn(arg); /* nobody else is left to do it */
}

void pf_net_end_teller(pf_net *n) {
  pthread_mutex_lock(&n->lock);
  int32_t runs = n->teller_runs;
  n->teller_runs = 2; /* what comes from now on is done by who brings it */
  pthread_cond_signal(&n->told);
  pthread_mutex_unlock(&n->lock);
  if (runs == 1 && n->fork_gen == pf_fork_generation()) pthread_join(n->teller, NULL);
}
