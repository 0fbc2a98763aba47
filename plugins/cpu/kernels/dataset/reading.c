/* reading.c - readings of datasets: reading.h.
 *
 * Threads: any.
 */
#include "dataset/reading.h"

void ds_reading_ref(ds_reading *r) { atomic_fetch_add(&r->refs, 1); }
void ds_reading_unref(ds_reading *r) {
  if (!r || atomic_fetch_sub(&r->refs, 1) > 1) return;
  ds_close(r->stage);
  ds_unref(r->of);
  pthread_cond_destroy(&r->root.idle);
  pthread_mutex_destroy(&r->root.lock);
  free(r);
}
void ds_hold(ds_root *root) {
  ds_reading_ref((ds_reading *)root);
  atomic_fetch_add(&root->busy, 1);
}
void ds_release(ds_root *root) {
  pthread_mutex_lock(&root->lock);
  if (atomic_fetch_sub(&root->busy, 1) == 1) pthread_cond_broadcast(&root->idle);
  pthread_mutex_unlock(&root->lock);
  ds_reading_unref((ds_reading *)root);
}
pf_status ds_reading_open(dataset *of, ds_row *error, ds_reading **out) {
  ds_reading *r = calloc(1, sizeof *r);
  *out = NULL;
  if (!r) return ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory for an iterator");
  atomic_store(&r->refs, 1);
  r->root.host = of->host;
  pthread_mutex_init(&r->root.lock, NULL);
  pthread_cond_init(&r->root.idle, NULL);
  ds_ref(r->of = of);
  pf_status st = ds_open(of, (ds_place){&r->root, 1}, error, &r->stage);
  if (st) ds_reading_unref(r);
  else *out = r;
  return st;
}

static _Thread_local pf_ctx *asking; /* the call on whose stack a request runs */
pf_ctx *ds_asks(pf_ctx *c) {
  pf_ctx *was = asking;
  asking = c;
  return was;
}
int ds_asker_gone(const ds_root *r) { return asking && r->host->cancelled(asking); }
