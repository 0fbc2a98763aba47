/* waiting.c - attempts: tried, listed, ended.  See waiting.h. */
#include "queue/waiting.h"

void pf_waited_init(pf_waited *w, void (*destroy)(pf_waited *)) {
  pthread_mutex_init(&w->lock, NULL);
  w->refs = 1;
  w->destroy = destroy;
}
void pf_waited_unref(void *obj) {
  pf_waited *w = obj;
  if (__atomic_sub_fetch(&w->refs, 1, __ATOMIC_ACQ_REL)) return;
  pthread_mutex_destroy(&w->lock);
  w->destroy(w);
}

/* ---------------------------------------------------------------- lists */
static void append(pf_attempts *l, pf_attempt *a) {
  a->prev = l->last;
  a->next = NULL;
  *(l->last ? &l->last->next : &l->first) = a;
  l->last = a;
  a->listed = 1;
}
static void take_out(pf_attempt *a) {
  pf_attempts *l = &a->on->side[a->kind->side];
  *(a->prev ? &a->prev->next : &l->first) = a->next;
  *(a->next ? &a->next->prev : &l->last) = a->prev;
  a->listed = 0;
  a->next = NULL;
}
static void push(pf_attempt **over, pf_attempt *a) {
  while (*over) over = &(*over)->next;
  *over = a;
}
pf_attempt *pf_attempts_take(pf_waited *w, int side, pf_status status, int32_t taken) {
  pf_attempt *all = w->side[side].first;
  for (pf_attempt *a = all; a; a = a->next) a->listed = 0, a->taken = taken, a->status = status;
  w->side[side] = (pf_attempts){NULL, NULL};
  return all;
}

/* ---------------------------------------------------------------- ends */
static void drop(pf_attempt *a, int32_t n) {
  if (__atomic_sub_fetch(&a->refs, n, __ATOMIC_ACQ_REL)) return;
  pf_waited_unref(a->on);
  free(a);
}
static void clear(pf_attempt *a) {
  if (a->kind->clear) a->kind->clear(a);
}
static void end(pf_attempt *a) {
  const pf_host *host = a->host;
  pf_ctx *c = host->pending(a->ticket);
  int never = host->off_cancel(a->ticket);
  uint64_t ticket = a->ticket;
  pf_status st = a->kind->deliver(c, a);
  clear(a);
  if (st != PF_PENDING) host->done(ticket, st);
  drop(a, never ? 2 : 1);
}
void pf_attempts_end(pf_attempt *over) {
  while (over) {
    pf_attempt *a = over;
    over = a->next;
    end(a);
  }
}

/* ---------------------------------------------------------------- settling */
/* Tries the attempts of one side from the first on; 1 if one got on. */
static int try_side(pf_waited *w, int side, pf_attempt ***over) {
  int moved = 0;
  for (pf_attempt *a = w->side[side].first, *next; a; a = next) {
    next = a->next;
    int got = a->kind->run(a);
    moved |= got != PF_WAITS;
    if (got == PF_OVER) {
      take_out(a);
      **over = a, *over = &a->next;
      next = w->any_order ? next : w->side[side].first;
    } else if (!w->any_order) {
      break;
    }
  }
  return moved;
}
void pf_waited_settle(pf_waited *w, pf_attempt **over) {
  while (*over) over = &(*over)->next;
  for (int moved = 1; moved;) {
    moved = w->side[PF_PUTS].first && try_side(w, PF_PUTS, &over);
    if (w->side[PF_TAKES].first) moved |= try_side(w, PF_TAKES, &over);
  }
}

void pf_waited_abort(void *obj, pf_status why) {
  pf_waited *w = obj;
  pthread_mutex_lock(&w->lock);
  w->aborted = why;
  pf_attempt *over = pf_attempts_take(w, PF_PUTS, why, PF_RESET);
  push(&over, pf_attempts_take(w, PF_TAKES, why, PF_RESET));
  pthread_mutex_unlock(&w->lock);
  pf_attempts_end(over);
}

/* Its step is cancelled; `arg` is the callback's reference to the attempt. */
static void cancelled(void *arg) {
  pf_attempt *a = arg, *over = NULL;
  pf_waited *w = a->on;
  pthread_mutex_lock(&w->lock);
  int mine = a->listed;
  if (mine) {
    take_out(a);
    if (a->kind->undo) a->kind->undo(a);
    pf_waited_settle(w, &over);
  }
  pthread_mutex_unlock(&w->lock);
  if (mine) {
    clear(a);
    (void)pf_fail(a->host->pending(a->ticket), PF_CANCELLED, a->kind->cancelled);
    a->host->done(a->ticket, PF_CANCELLED);
  }
  pf_attempts_end(over);
  drop(a, mine ? 2 : 1);
}

/* ---------------------------------------------------------------- starts */
/* With the lock: a copy of `a` waits.  NULL: it cannot, *st says why; PF_PENDING: the call was
 * deferred already, and `ticket` has to be ended. */
static pf_attempt *let_wait(pf_ctx *c, pf_attempt *a, pf_status *st, uint64_t *ticket) {
  pf_attempt *kept = malloc(a->kind->size);
  pf_ctx *later = kept ? c->host->defer(c, ticket) : NULL;
  *st = PF_RESOURCE_EXHAUSTED;
  if (!later) return free(kept), NULL;
  memcpy(kept, a, a->kind->size);
  kept->host = c->host;
  kept->ticket = *ticket;
  kept->refs = 2;
  append(&a->on->side[a->kind->side], kept);
  *st = PF_PENDING;
  if (!later->host->on_cancel(later, *ticket, cancelled, kept)) {
    __atomic_add_fetch(&a->on->refs, 1, __ATOMIC_RELAXED);
    return kept;
  }
  take_out(kept); /* its step is cancelled already */
  free(kept);
  return NULL;
}

pf_status pf_attempt_start(pf_ctx *c, pf_waited *w, pf_attempt *a) {
  pf_attempt *over = NULL, *kept = NULL;
  pf_status st = PF_OK;
  uint64_t ticket = 0;
  const pf_host *host = c->host;
  int got = PF_WAITS;
  a->on = w;
  pthread_mutex_lock(&w->lock);
  if (w->aborted) a->status = w->aborted, a->taken = PF_RESET, got = PF_OVER;
  else if (w->any_order || !w->side[a->kind->side].first) got = a->kind->run(a);
  if (got != PF_OVER) {
    kept = let_wait(c, a, &st, &ticket);
    if (!kept && a->kind->undo) a->kind->undo(a);
  }
  if (got != PF_WAITS) pf_waited_settle(w, &over);
  pthread_mutex_unlock(&w->lock);
  if (got == PF_OVER) {
    st = a->kind->deliver(c, a);
    clear(a);
  } else if (!kept) {
    clear(a);
    if (st == PF_PENDING) host->done(ticket, PF_CANCELLED);
    else (void)pf_fail(c, st, "no memory for a call that waits");
  }
  pf_attempts_end(over);
  return st;
}
