/* weave.h - large results made of runs from several places, one behind the other: Concat, Pack,
 * Pad.
 *
 *     pf_weaver w = {.move = pf_movers(), .y = y};
 *     for (...) pf_weave(&w, x, bytes);
 *     pf_weave_end(&w);
 *
 * Lines of y are stored whole and past the caches, whatever runs they are made of; only the first
 * and last line of all may be stored in part, so that threads write to parts of y that begin
 * anywhere.
 */
#ifndef PF_CPU_WEAVE_H
#define PF_CPU_WEAVE_H
#include "transpose.h"

enum { PF_WOVEN = 512 };
typedef struct {
  const pf_mover *move;
  char *y;                              /* where run[0] goes */
  int64_t n;
  pf_run run[PF_WOVEN];
} pf_weaver;

PF_LOCAL void pf_weave_some(pf_weaver *w, int64_t n) {
  w->move->runs(w->run, n, w->n - n, w->y, 0);
  for (int64_t i = 0; i < n; i++) w->y += w->run[i].bytes;
  memmove(w->run, w->run + n, (size_t)(w->n - n) * sizeof w->run[0]);
  w->n -= n;
}
PF_LOCAL void pf_weave(pf_weaver *w, const void *x, int64_t bytes) {
  if (w->n == PF_WOVEN) pf_weave_some(w, PF_WOVEN - PF_RUNS_LATER);
  if (bytes) w->run[w->n++] = (pf_run){(const char *)x, bytes};
}
PF_LOCAL void pf_weave_end(pf_weaver *w) {
  if (w->n) pf_weave_some(w, w->n);
  w->move->fence();
}
/* whether `bytes` in so many runs are worth it */
PF_LOCAL int pf_weave_pays(int64_t bytes, int64_t runs) {
  return bytes >= PF_STREAM_BYTES && bytes / PF_MAX(runs, 1) >= 64;
}
#endif
