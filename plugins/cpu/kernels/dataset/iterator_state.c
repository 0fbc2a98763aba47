/* iterator_state.c - _SaveIterator, _RestoreIterator: an iterator's state, kept and loaded again.
 *
 * A save or a restore takes the place of a request, and background stages pause meanwhile.
 * Threads: as iterator.h says.
 */
#include "dataset/iterator.h"
#include <time.h>

/* With the lock: 0: the call was cancelled meanwhile */
static int wait_a_while(pf_ctx *c, pthread_cond_t *cond, pthread_mutex_t *lock) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 50000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_cond_timedwait(cond, lock, &until);
  return !c->host->cancelled(c);
}
/* Waits until no request is on, and takes the place of one. */
static pf_status begin_quietly(pf_ctx *c, iterator *it) {
  int go = 1;
  pthread_mutex_lock(&it->lock);
  while (it->busy && go) go = wait_a_while(c, &it->quiet, &it->lock);
  if (go) it->busy = 1;
  pthread_mutex_unlock(&it->lock);
  return go ? PF_OK : PF_CANCELLED;
}
static void end_quietly(iterator *it) {
  pthread_mutex_lock(&it->lock);
  int more = ds_go_on(it);
  if (more) atomic_fetch_add(&it->refs, 1);
  pthread_mutex_unlock(&it->lock);
  if (more && it->host->post(it->host, PF_LANE_CPU, ds_ask_later, it)) ds_ask_later(it);
}
/* Background stages begin nothing more, and what they have begun is over. */
static pf_status pause(pf_ctx *c, ds_root *root) {
  int go = 1;
  pthread_mutex_lock(&root->lock);
  atomic_store(&root->paused, 1);
  while (atomic_load(&root->busy) && go) go = wait_a_while(c, &root->idle, &root->lock);
  pthread_mutex_unlock(&root->lock);
  return go ? PF_OK : PF_CANCELLED;
}
static void put_reading(ds_writer *w, iterator *it, ds_reading *r, ds_row *shared) {
  pthread_mutex_lock(&it->lock); /* the kept answer: an initializer may take it away */
  int kept = it->reading == r && it->kept && (it->answer == DS_OK || it->answer == DS_END);
  int end = it->answer == DS_END;
  if (kept && !end && !ds_row_share(it->host, &it->answer_row, shared)) w->failed = 1;
  pthread_mutex_unlock(&it->lock);
  ds_put_int(w, kept ? 1 + end : 0);
  if (kept && !end) ds_put_row(w, shared);
  ds_row_clear(shared);
  ds_put_stage(w, r->stage);
}
static pf_status save_state(pf_ctx *c, const void *state) {
  void *obj;
  ds_writer w;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &ds_iterator_type, &obj));
  iterator *it = obj;
  PF_TRY(begin_quietly(c, it));
  pthread_mutex_lock(&it->lock);
  ds_reading *r = it->reading;
  ds_row none = {0};
  if (r) ds_reading_ref(r); /* an initializer may replace it meanwhile */
  pthread_mutex_unlock(&it->lock);
  if (!r && !it->pending.data && !it->factory.fn) {
    end_quietly(it);
    return pf_fail(c, PF_FAILED_PRECONDITION,
                   "Save() failed because the iterator has not been "
                   "initialized. Ensure that you have run the initializer operation for this "
                   "iterator before saving it.");
  }
  pf_status st = r ? pause(c, &r->root) : PF_OK;
  ds_write_begin(&w, it->host);
  if (!r && it->pending.data) ds_put_again(&w, it->pending); /* as it was restored */
  else ds_put_int(&w, r != NULL);
  if (r) {
    if (!st) put_reading(&w, it, r, &none);
    atomic_store(&r->root.paused, 0);
  }
  end_quietly(it);
  ds_reading_unref(r);
  if (st) return free(w.bytes), st;
  DLTensor *y = w.failed ? NULL : c->host->output(c, 0, NULL, 0);
  if (w.failed == 2)
    st = pf_fail(c, PF_UNIMPLEMENTED,
                 "the state of this iterator cannot be saved: an element that "
                 "it holds has a resource or variant, or a stage holds what cannot be written");
  else if (!y || c->host->str_set(y, 0, (pf_str){w.bytes, (int64_t)w.n}))
    st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an iterator's state");
  free(w.bytes);
  return st;
}
static pf_status load_into(ds_reading *r, ds_reader *in, ds_row *answer, pf_status *status,
                           int64_t *kept) {
  PF_TRY(ds_get_range(in, 0, 2, kept));
  *status = *kept == 2 ? DS_END : DS_OK;
  if (*kept == 1) PF_TRY(ds_get_row(in, r->of, answer));
  PF_TRY(ds_get_stage(in, r->stage));
  return ds_read_end(in);
}
/* The dataset of a one-shot iterator that has not been asked yet; the kernel is BLOCKING. */
static pf_status open_one_shot(iterator *it, ds_row *error, ds_reading **out) {
  ds_row none = {0}, made;
  pf_status st = ds_call_and_wait(it->host, &it->factory, &none, 0, &made);
  if (st) return *error = made, st;
  st = ds_open_made(it, &made, error, out);
  ds_row_clear(&made);
  return st;
}
/* A fresh reading of the iterator's dataset. */
static pf_status open_again(iterator *it, ds_row *error, ds_reading **out) {
  pthread_mutex_lock(&it->lock);
  ds_reading *now = it->reading; /* an initializer may replace it meanwhile */
  if (now) ds_reading_ref(now);
  pthread_mutex_unlock(&it->lock);
  if (now) {
    pf_status st = ds_reading_open(now->of, error, out);
    return ds_reading_unref(now), st;
  }
  return open_one_shot(it, error, out);
}
/* A state that came before the dataset is known waits for the initializer. */
static pf_status keep_pending(iterator *it, pf_str bytes) {
  char *copy = malloc((size_t)PF_MAX(bytes.len, 1));
  if (!copy) return PF_RESOURCE_EXHAUSTED;
  memcpy(copy, bytes.data, (size_t)bytes.len);
  pthread_mutex_lock(&it->lock);
  char *old = it->pending.data ? (char *)it->pending.data : NULL;
  it->pending = (pf_str){copy, bytes.len};
  pthread_mutex_unlock(&it->lock);
  free(old);
  return PF_OK;
}
/* The state that waited, if any, into a fresh reading; ds_told once, whether it ds_iterator_fits
 * or not. */
pf_status ds_load_pending(iterator *it, ds_reading *r, ds_row *error, ds_row *answer,
                          pf_status *status, int64_t *kept) {
  ds_reader in;
  int64_t there;
  pthread_mutex_lock(&it->lock);
  pf_str bytes = it->pending;
  it->pending = (pf_str){0};
  pthread_mutex_unlock(&it->lock);
  if (!bytes.data) return PF_OK;
  pf_status st = ds_read_begin(&in, it->host, bytes);
  if (!st) st = ds_get_range(&in, 0, 1, &there);
  if (!st && there) st = load_into(r, &in, answer, status, kept);
  if (st) ds_fail(error, st, "%s", in.why[0] ? in.why : "the saved state could not be read");
  free((char *)bytes.data);
  return st;
}
static pf_status restore_state(pf_ctx *c, const void *state) {
  void *obj;
  pf_str bytes;
  ds_reader in;
  ds_row error = {0}, answer = {0};
  ds_reading *r = NULL, *old = NULL;
  int64_t there, kept = 0;
  pf_status status = DS_OK;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &ds_iterator_type, &obj));
  if (pf_numel(c->in[1]) != 1) return PF_INVALID(c, "an iterator's state must be a scalar string");
  PF_TRY(c->host->str_get(c->in[1], 0, &bytes));
  iterator *it = obj;
  PF_TRY(begin_quietly(c, it));
  pf_status st = ds_read_begin(&in, it->host, bytes);
  if (!st) st = ds_get_range(&in, 0, 1, &there);
  int waits = !st && there && !it->reading && !it->factory.fn;
  if (waits) {
    st = keep_pending(it, bytes);
    there = 0;
  } else if (!st && there) {
    st = open_again(it, &error, &r);
    if (!st) st = load_into(r, &in, &answer, &status, &kept);
  }
  if (!st && there) {
    pthread_mutex_lock(&it->lock);
    old = it->reading;
    it->reading = r;
    error = it->answer_row;
    it->answer_row = answer;
    it->answer = status;
    it->kept = kept != 0;
    pthread_mutex_unlock(&it->lock);
    r = NULL;
  }
  end_quietly(it);
  ds_reading_unref(old);
  ds_reading_unref(r);
  if (st && in.why[0] && !error.error) {
    ds_row_clear(&answer);
    return pf_failf(c, st, "%s", in.why);
  }
  if (st) return ds_row_clear(&answer), ds_told(c, st, &error);
  ds_row_clear(&error);
  return PF_OK;
}

/* ---------------------------------------------------------------- tables */
#define WAITS (PF_KERNEL_BLOCKING | PF_KERNEL_TAKES)     /* for the request that is on */
extern const pf_kernel *const iterator_state_kernels[];
const pf_kernel *const iterator_state_kernels[] = {
  PF_CPU_FLAGS("_SaveIterator", NULL, WAITS, .compute = save_state),
  PF_CPU_FLAGS("_RestoreIterator", NULL, WAITS, .compute = restore_state), NULL};
