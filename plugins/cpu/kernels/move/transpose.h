/* transpose.h - moving blocks of memory: transposed regions, and runs stored past the caches.
 *
 * The functions are compiled per instruction set (transpose.c); `pf_movers()` gives the set in use.
 * `stream`, `copy`, `gather`, `grid` and `weave` write whole lines with non-temporal stores; who
 * calls them calls `fence` before others read.
 * Threads: pure; they write only y.
 */
#ifndef PF_CPU_TRANSPOSE_H
#define PF_CPU_TRANSPOSE_H
#include "base/common.h"
#include "base/isa.h"
#include "base/machine.h"

/* `turns` times n runs of `bytes`, x_run apart, those of the next turn x_turn from them: n * bytes
 * of y, y_turn apart.  `next`: where the grid begins that is read next */
typedef struct {
  const char *x, *next;
  int64_t bytes, n, turns, x_run, x_turn, y_turn;
} pf_grid;
typedef struct {
  const char *at;
  int64_t bytes, step;
} pf_part; /* a run in every `step` bytes */
/* where the next run goes; of AVX-512, the line that is not whole yet: it has `have` bytes, those
 * of `own` are to be written */
typedef struct {
  char line[64] __attribute__((aligned(64)));
  char *y;
  int64_t have;
  uint64_t own;
} pf_woven;

typedef struct {
  /* y[j * ldy + i] = x[i * ldx + j], i < ni, j < nj; strides in elements of esize bytes */
  void (*transpose)(int64_t esize, const void *x, int64_t ldx, void *y, int64_t ldy, int64_t ni,
                    int64_t nj);
  /* the same past the caches; `next`: what will be read after it, of the same sizes, or NULL */
  void (*stream)(int64_t esize, const void *x, int64_t ldx, void *y, int64_t ldy, int64_t ni,
                 int64_t nj, const void *next);
  void (*copy)(const void *x, void *y, int64_t bytes); /* non-temporal */
  /* rows of `bytes` of x at int32 or (`wide`) int64 indices, one behind the other; non-temporal */
  void (*gather)(const char *x, int64_t bytes, const void *index, int wide, int64_t n, char *y);
  void (*grid)(const pf_grid *g, char *y); /* non-temporal */
  /* Runs that are read in order, one behind the other, in some calls; non-temporal:
   *     pf_woven w = weave_at(y);
   *     weave(&w, part, n, lo, hi);    // run i of each of n parts, i = lo .. hi - 1
   *     weave_end(&w);                 // `fence`, too
   * Only the first and last line of all are stored in part, so that threads write to parts of y
   * that begin anywhere. */
  pf_woven (*weave_at)(char *y);
  void (*weave)(pf_woven *w, const pf_part *part, int64_t n, int64_t lo, int64_t hi);
  void (*weave_end)(const pf_woven *w);
  /* y[i] = x[-i], i < n; elements of 1, 2, 4 or 8 bytes */
  void (*reverse)(int64_t esize, const void *x, void *y, int64_t n);
  void (*reverse_past)(int64_t esize, const void *x, void *y, int64_t n); /* non-temporal */
  /* whole lines of y[i] = x[2 i], non-temporal; elements of 1, 2, 4 or 8 bytes.  y is a multiple of
   * 64.  Returns how many of the bytes are done: 0 where the instruction set has no way */
  int64_t (*every_second)(int64_t esize, const void *x, void *y, int64_t bytes);
  void (*halves_read)(int32_t type, const void *x, float *y, int64_t n); /* half.h's */
  void (*halves_write)(int32_t type, const float *x, void *y, int64_t n);
  void (*fence)(void);
  int32_t blocks; /* `stream` goes along rows of x: pf_rows_apart, pf_strips_pay */
} pf_mover;
/* Rows whose distance is nearly a multiple of 2048 bytes share few places of the nearest cache, and
 * small elements need many rows for a line: such rows are copied near before they are turned. */
PF_LOCAL int pf_rows_apart(int64_t esize, int64_t stride) {
  int64_t off = (stride < 0 ? -stride : stride) % 2048;
  return esize <= 2 || PF_MIN(off, 2048 - off) < 32;
}

/* Planes of ni long rows of nj elements go along these where the caches are far (of shorter rows
 * the hardware does not fetch ahead); those of 8 bytes where y's rows, y_step bytes apart, begin
 * inside lines. */
enum { PF_STRIPS_FROM = 640 };
PF_LOCAL int pf_strips_pay(int64_t esize, int64_t ni, int64_t nj, int64_t y_step) {
  return (esize == 4 || (esize == 8 && y_step % 64)) && ni >= 128 && nj >= PF_STRIPS_FROM &&
         pf_has_far_caches();
}
/* whether `bytes` in so many runs are worth weaving */
PF_LOCAL int pf_weave_pays(int64_t bytes, int64_t runs) {
  return bytes >= PF_STREAM_BYTES && bytes / PF_MAX(runs, 1) >= 64;
}

extern const pf_mover pf_mover_baseline;
#ifdef PF_HAVE_AVX2
extern const pf_mover pf_mover_avx2, pf_mover_avx512;
#endif
PF_LOCAL const pf_mover *pf_movers(void) {
#ifdef PF_HAVE_AVX2
  int isa = pf_cpu_isa();
  return isa == PF_ISA_LEVEL_AVX512 ? &pf_mover_avx512
         : isa == PF_ISA_LEVEL_AVX2 ? &pf_mover_avx2
                                    : &pf_mover_baseline;
#else
  return &pf_mover_baseline;
#endif
}
#endif
