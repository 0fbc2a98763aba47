/* strided.c - box copies: normalise, choose an inner loop, run the rest as an odometer over
 * threads.
 *
 *   runs       innermost dimension contiguous on both sides: memcpy; runs of 2, 4, 8, 16 bytes
 *              become one element
 *   transpose  dst contiguous in one dimension, src in another: transpose.c, piece by piece
 *   strided    anything else, zero strides (broadcast) included
 */
#include "base/machine.h"
#include "move/strided.h"
#include "move/transpose.h"
#include <stdlib.h>

/* Pieces of a transposed plane.  In the caches: as many lines of dst as the nearest one holds.
 * Past them: STREAM_PIECE bytes each, rows of src of STREAM_WIDE bytes at most where it has as
 * many.  Planes that go in strips: whole rows, STRIP_PIECE of them; or, of up to STRIP_WHOLE rows,
 * all of them and columns for each thread. */
enum {
  COLUMNS = 128,
  PIECE = 512,
  STREAM_PIECE = PF_L2_BYTES,
  STREAM_WIDE = 4096,
  STRIP_PIECE = 2048,
  STRIP_WHOLE = 8192
};

/* b = a without dimensions of size 1 and with neighbours merged that lie together on both sides; 0:
 * nothing to copy */
static int normalise(const pf_box *a, pf_box *b) {
  int32_t k = 0;
  b->esize = a->esize, b->dst_at = a->dst_at, b->src_at = a->src_at;
  for (int32_t i = 0; i < a->nd; i++) {
    int64_t n = a->shape[i], d = a->dst_stride[i], s = a->src_stride[i];
    if (n == 0) return 0;
    if (n == 1) continue;
    if (k > 0 && b->dst_stride[k - 1] == d * n && b->src_stride[k - 1] == s * n) b->shape[--k] *= n;
    else b->shape[k] = n;
    b->dst_stride[k] = d, b->src_stride[k] = s;
    k++;
  }
  if (k == 0) b->shape[0] = b->dst_stride[0] = b->src_stride[0] = 1, k = 1;
  b->nd = k;
  return 1;
}

/* a short contiguous run is one larger element when everything is a multiple of it */
static void widen(pf_box *b) {
  int32_t last = b->nd - 1;
  int64_t n = b->shape[last], bytes = n * b->esize;
  if (last == 0 || b->dst_stride[last] != 1 || b->src_stride[last] != 1) return;
  if (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) return;
  if (b->dst_at % n || b->src_at % n) return;
  for (int32_t i = 0; i < last; i++)
    if (b->dst_stride[i] % n || b->src_stride[i] % n) return;
  for (int32_t i = 0; i < last; i++) b->dst_stride[i] /= n, b->src_stride[i] /= n;
  b->dst_at /= n, b->src_at /= n, b->esize = bytes, b->nd = last;
}

/* ---------------------------------------------------------------- inner loops, by element size */
/* An element may be several narrower ones (widen): it lies where those may and aliases them. */
#define ELEMENT(BITS) \
  typedef uint##BITS##_t element_##BITS __attribute__((aligned(1), may_alias));
ELEMENT(8)
ELEMENT(16)
ELEMENT(32)
ELEMENT(64)
typedef struct { char b[16]; } element_128;
#define STRIDED(T, NAME) \
  static void strided_##NAME(char *dst, const char *src, int64_t n, int64_t ds, int64_t ss) { \
    T *d = (T *)dst; \
    const T *s = (const T *)src; \
    if (ds == 1 && ss == 0) { \
      T v = *s; \
      for (int64_t i = 0; i < n; i++) d[i] = v; \
    } else if (ds == 1 && ss == 2) { \
      PF_IVDEP for (int64_t i = 0; i < n; i++) d[i] = s[2 * i]; \
    } else \
      for (int64_t i = 0; i < n; i++) d[i * ds] = s[i * ss]; \
  }
STRIDED(element_8, 1)
STRIDED(element_16, 2)
STRIDED(element_32, 4)
STRIDED(element_64, 8)
STRIDED(element_128, 16)
#define BY_SIZE(NAME, ESIZE, ...) \
  do { switch (ESIZE) { \
    case 1: NAME##_1(__VA_ARGS__); break; \
    case 2: NAME##_2(__VA_ARGS__); break; \
    case 4: NAME##_4(__VA_ARGS__); break; \
    case 8: NAME##_8(__VA_ARGS__); break; \
    default: NAME##_16(__VA_ARGS__); } } while (0)

/* ---------------------------------------------------------------- the odometer */
typedef struct {
  const pf_box *b;
  char *dst;
  const char *src;
  int64_t n, ds, ss;                   /* the innermost loop: in pieces, if it is long */
  int32_t outer[PF_BOX_DIMS], n_outer; /* the other dimensions, outermost first */
  int64_t nj, dj, columns, tiles; /* transpose: second inner dimension, pieces of it; all pieces */
  int64_t piece, width;           /* elements of a piece: of the innermost one, and of nj */
  int64_t times, apart;           /* long runs: each piece goes to so many places of dst */
  const pf_mover *move;           /* transpose, or stores past the caches; else NULL */
  int32_t stream;
} copy_task;

/* where a thread is: offsets in elements, the outer dimensions and the piece of the plane */
typedef struct { int64_t at[PF_BOX_DIMS], d, s, tile; } place;

static void place_at(const copy_task *t, int64_t row, place *p) {
  p->d = t->b->dst_at, p->s = t->b->src_at, p->tile = row % t->tiles, row /= t->tiles;
  for (int32_t k = t->n_outer - 1; k >= 0; k--) {
    int32_t i = t->outer[k];
    p->at[k] = row % t->b->shape[i], row /= t->b->shape[i];
    p->d += p->at[k] * t->b->dst_stride[i], p->s += p->at[k] * t->b->src_stride[i];
  }
}
static inline void place_next(const copy_task *t, place *p) {
  if (++p->tile < t->tiles) return;
  p->tile = 0;
  for (int32_t k = t->n_outer - 1; k >= 0; k--) {
    int32_t i = t->outer[k];
    int64_t d = t->b->dst_stride[i], s = t->b->src_stride[i];
    p->d += d, p->s += s;
    if (++p->at[k] < t->b->shape[i]) return;
    p->d -= d * p->at[k], p->s -= s * p->at[k], p->at[k] = 0;
  }
}
static inline const char *plane_source(const copy_task *t, const place *p) {
  int64_t j = p->tile % t->columns * t->width, i = p->tile / t->columns * t->piece;
  return t->src + (p->s + i * t->ss + j) * t->b->esize;
}

static void planes_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const copy_task *t = (const copy_task *)arg;
  int64_t esize = t->b->esize;
  place p;
  (void)worker;
  place_at(t, lo, &p);
  for (; lo < hi; lo++) {
    int64_t j = p.tile % t->columns * t->width, i = p.tile / t->columns * t->piece;
    int64_t ni = PF_MIN(t->piece, t->n - i), nj = PF_MIN(t->width, t->nj - j);
    const char *x = plane_source(t, &p);
    char *y = t->dst + (p.d + j * t->dj + i) * esize;
    place_next(t, &p);
    if (t->stream)
      t->move->stream(esize, x, t->ss, y, t->dj, ni, nj, lo + 1 < hi ? plane_source(t, &p) : NULL);
    else t->move->transpose(esize, x, t->ss, y, t->dj, ni, nj);
  }
  if (t->stream) t->move->fence();
}
/* Runs that lie one behind the other in dst, from p on: as many as the innermost of the outer
 * dimensions has, `most` at most; if these are all it has, as often as the next dimension says.  p
 * is at the last of them then; returns how many. */
static int64_t stream_runs(const copy_task *t, place *p, int64_t most) {
  int64_t esize = t->b->esize;
  int32_t k = t->n_outer - 1, i = t->outer[k], o = k > 0 ? t->outer[k - 1] : -1;
  pf_grid g = {.x = t->src + p->s * esize, .bytes = t->n * esize, .turns = 1};
  char *y = t->dst + p->d * esize;
  g.n = PF_MIN(most, t->b->shape[i] - p->at[k]);
  g.x_run = t->b->src_stride[i] * esize;
  if (o >= 0 && g.n == t->b->shape[i]) {
    g.turns = PF_MIN(most / g.n, t->b->shape[o] - p->at[k - 1]);
    g.x_turn = t->b->src_stride[o] * esize, g.y_turn = t->b->dst_stride[o] * esize;
    p->at[k - 1] += g.turns - 1;
    p->s += (g.turns - 1) * t->b->src_stride[o], p->d += (g.turns - 1) * t->b->dst_stride[o];
  }
  p->at[k] += g.n - 1;
  p->s += (g.n - 1) * t->b->src_stride[i], p->d += (g.n - 1) * t->b->dst_stride[i];
  place then = *p;
  place_next(t, &then);
  g.next = t->src + then.s * esize;
  t->move->grid(&g, y);
  return g.n * g.turns;
}
static void copy_strided(const copy_task *t, const char *x, char *y, int64_t n) {
  int64_t esize = t->b->esize;
  if (t->ds == 1 && t->ss == -1 && esize <= 8) pf_movers()->reverse(esize, x, y, n);
  else BY_SIZE(strided, esize, y, x, n, t->ds, t->ss);
}
/* n elements of a large result, in pieces that the nearest cache holds */
static void stream_strided(const copy_task *t, const char *x, char *y, int64_t n) {
  char room[1024] __attribute__((aligned(64)));
  int64_t esize = t->b->esize;
  if (t->ss == -1 && esize <= 8) {
    t->move->reverse_past(esize, x, y, n);
    return;
  }
  for (int64_t done; n; n -= done, x += done * t->ss * esize, y += done * esize) {
    done = 0;
    if (t->ss == 2 && (uintptr_t)y % 64 == 0)
      done = t->move->every_second(esize, x, y, n * esize) / esize;
    if (done) continue;
    done = PF_MIN(n, ((int64_t)sizeof room - (int64_t)((uintptr_t)y % 64)) / esize);
    copy_strided(t, x, room, done);
    t->move->copy(room, y, done * esize);
  }
}
/* Short runs, from p on: as many as the innermost of the outer dimensions has, `most` at most; p
 * is at the last of them then.  In sizes the compiler knows: the last piece overlaps its
 * neighbour. */
enum { SHORT_RUN = 256 };
#define PIECES(N) { \
    for (int64_t k = 0; k < bytes - N; k += N) memcpy(y + k, x + k, N); \
    memcpy(y + bytes - N, x + bytes - N, N); \
  }
static inline void copy_short(char *y, const char *x, int64_t bytes) {
  if (bytes >= 16) PIECES(16)
  else if (bytes >= 8) PIECES(8)
  else if (bytes >= 4) PIECES(4)
  else PIECES(1)
}
static int64_t short_runs(const copy_task *t, place *p, int64_t most) {
  int32_t k = t->n_outer - 1, i = t->outer[k];
  int64_t esize = t->b->esize, bytes = t->n * esize, n = PF_MIN(most, t->b->shape[i] - p->at[k]);
  int64_t from = t->b->src_stride[i], to = t->b->dst_stride[i];
  const char *x = t->src + p->s * esize;
  char *y = t->dst + p->d * esize;
  for (int64_t r = 0; r < n; r++, x += from * esize, y += to * esize) copy_short(y, x, bytes);
  p->at[k] += n - 1, p->s += (n - 1) * from, p->d += (n - 1) * to;
  return n;
}
static void runs_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const copy_task *t = (const copy_task *)arg;
  int64_t esize = t->b->esize;
  int32_t last = t->n_outer ? t->outer[t->n_outer - 1] : -1;
  int run = t->ds == 1 && t->ss == 1, whole = t->piece == t->n;
  int adjoin = run && whole && t->stream && last >= 0 && t->b->dst_stride[last] == t->n;
  int brief = run && whole && !t->stream && last >= 0 && t->n * esize <= SHORT_RUN;
  place p;
  (void)worker;
  place_at(t, lo, &p);
  for (; lo < hi; lo++, place_next(t, &p)) {
    if (adjoin || brief) {
      lo += (adjoin ? stream_runs : short_runs)(t, &p, hi - lo) - 1;
      continue;
    }
    int64_t i = p.tile * t->piece, n = PF_MIN(t->piece, t->n - i);
    const char *x = t->src + (p.s + i * t->ss) * esize;
    char *y = t->dst + (p.d + i * t->ds) * esize;
    if (run && t->stream)
      for (int64_t k = 0; k < t->times; k++, y += t->apart * esize) t->move->copy(x, y, n * esize);
    else if (run) memcpy(y, x, (size_t)(n * esize));
    else if (t->stream && t->ds == 1 && t->ss) stream_strided(t, x, y, n);
    else copy_strided(t, x, y, n);
  }
  if (t->stream) t->move->fence();
}

static pf_status copy_strings(pf_ctx *c, const pf_box *b, DLTensor *dst, const DLTensor *src) {
  int64_t at[PF_BOX_DIMS] = {0}, d = b->dst_at, s = b->src_at;
  int64_t n = pf_product(b->shape, 0, b->nd);
  for (int64_t k = 0; k < n; k++) {
    PF_TRY(pf_copy_run(c, dst, d, src, s, 1, 0));
    for (int32_t i = b->nd - 1; i >= 0; i--) {
      d += b->dst_stride[i], s += b->src_stride[i];
      if (++at[i] < b->shape[i]) break;
      d -= b->dst_stride[i] * at[i], s -= b->src_stride[i] * at[i], at[i] = 0;
    }
  }
  return PF_OK;
}

typedef struct {
  char *dst;
  const char *src;
  const pf_mover *move;
} flat_task;
static void flat_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const flat_task *t = (const flat_task *)arg;
  (void)worker;
  if (!t->move) {
    memcpy(t->dst + lo, t->src + lo, (size_t)(hi - lo));
    return;
  }
  t->move->copy(t->src + lo, t->dst + lo, hi - lo);
  t->move->fence();
}

/* Runs are read as they lie, one behind the other: writes past the caches do not mind the jumps.
 * Long runs (WHOLE bytes: their first and last lines do not count) are read upwards too. */
enum { WHOLE = 1024 };
static void read_in_order(copy_task *t, pf_box *b) {
  for (int32_t k = 0; k < t->n_outer && t->ds == 1 && t->n * b->esize >= WHOLE; k++) {
    int32_t i = t->outer[k];
    if (b->src_stride[i] >= 0) continue;
    b->src_at += (b->shape[i] - 1) * b->src_stride[i], b->src_stride[i] = -b->src_stride[i];
    b->dst_at += (b->shape[i] - 1) * b->dst_stride[i], b->dst_stride[i] = -b->dst_stride[i];
  }
  for (int32_t k = 1; k < t->n_outer; k++)
    for (int32_t m = k; m > 0; m--) {
      int32_t a = t->outer[m - 1], b = t->outer[m];
      if (llabs(t->b->src_stride[a]) >= llabs(t->b->src_stride[b])) break;
      t->outer[m - 1] = b, t->outer[m] = a;
    }
}

/* Short runs that lie one behind the other in dst, but not in src, where dst is written in more
 * places than `most`: in turns of TURN_BYTES bytes, so that neither side jumps with each run.
 * (Fewer still where there are few buffers for lines that are stored past the caches.) */
enum { TURN_BYTES = 2048, MOST_PLACES = 64, MOST_PLACES_FEW = 8 };
static void take_turns(copy_task *t, pf_box *b) {
  int64_t bytes = t->n * b->esize, n = TURN_BYTES / bytes, places = 1;
  int64_t most = pf_has_few_line_buffers() ? MOST_PLACES_FEW : MOST_PLACES;
  if (t->ds != 1 || t->ss != 1 || n < 2 || b->nd == PF_BOX_DIMS) return;
  for (int32_t k = t->n_outer - 1; k >= 0; k--) {
    int32_t i = t->outer[k], last = b->nd;
    int64_t inside = places;
    places *= b->shape[i];
    if (inside <= most || b->dst_stride[i] != t->n) continue;
    if (b->shape[i] % n || b->shape[i] == n) continue;
    b->dst_stride[last] = b->dst_stride[i], b->src_stride[last] = b->src_stride[i];
    b->shape[last] = n, b->shape[i] /= n, b->dst_stride[i] *= n, b->src_stride[i] *= n;
    t->outer[t->n_outer++] = last, b->nd++;
    return;
  }
}

static void plan_pieces(copy_task *t, int64_t nj, int64_t dj, int64_t workers) {
  t->nj = nj, t->dj = dj;
  if (t->stream) {
    int64_t all = STREAM_PIECE / t->b->esize, few = 1024, esize = t->b->esize;
    int64_t wide = PF_MIN(nj, STREAM_WIDE / esize);
    if (t->move->blocks && pf_strips_pay(esize, t->n, nj, dj * esize)) {
      wide = nj, few = STRIP_PIECE;
      if (t->n <= STRIP_WHOLE && t->b->nd == 2 && nj >= workers * PF_STRIPS_FROM)
        few = t->n, nj = PF_MIN(nj, nj / workers / 64 * 64 + 64);
    } else if (t->move->blocks && pf_rows_apart(esize, t->ss * esize)) {
      wide = nj, /* whole rows, 4 or 64 lines of columns; one piece: columns for each thread */
          few = (dj * esize % 64 ? 4096 : 256) / esize;
      if (t->n <= few && t->b->nd == 2) nj = PF_MIN(nj, nj / workers / 64 * 64 + 64);
    }
    t->piece = PF_MIN(t->n, PF_MAX(all / wide, few) / few * few); /* whole lines */
    t->width = PF_MIN(nj, PF_MAX(wide, (all / t->piece + 63) / 64 * 64));
  } else { /* narrow planes: as many elements */
    t->piece = PF_MIN(t->n, PIECE * PF_MAX(1, COLUMNS / nj));
    t->width = PF_MIN(nj, COLUMNS * PF_MAX(1, PIECE / t->n));
  }
  t->columns = (t->nj + t->width - 1) / t->width;
  t->tiles = t->columns * ((t->n + t->piece - 1) / t->piece);
}

/* Runs are cut where they are few and long: each thread is to have its part of them. */
enum { LONG_RUN = 4 * PF_GRAIN, FEW_RUNS = 32, NEAR_RUN = PF_L1_BYTES / 2 };
static void cut_runs(copy_task *t, int64_t rows) {
  t->piece = rows < FEW_RUNS ? PF_MIN(t->n, LONG_RUN) : t->n;
  if (t->times > 1) t->piece = NEAR_RUN / t->b->esize;
  t->tiles = (t->n + t->piece - 1) / t->piece;
}
/* Long runs that go to several places are cut into pieces that the nearest cache holds, so that
 * each is read once.  Returns to how many places. */
static int64_t repeat_pieces(copy_task *t) {
  int32_t i = t->n_outer ? t->outer[t->n_outer - 1] : -1;
  if (i < 0 || t->ds != 1 || t->ss != 1 || t->n * t->b->esize <= NEAR_RUN) return 1;
  if (t->b->src_stride[i]) return 1;
  t->n_outer--, t->times = t->b->shape[i], t->apart = t->b->dst_stride[i];
  return t->times;
}

pf_status pf_box_copy(pf_ctx *c, const pf_box *box, DLTensor *dst, const DLTensor *src) {
  pf_box b;
  if (!normalise(box, &b)) return PF_OK;
  if (b.esize == 0) return copy_strings(c, &b, dst, src);
  widen(&b);
  copy_task t;
  t.b = &b, t.dst = PF_DATA(char, dst), t.src = PF_DATA(const char, src), t.tiles = 1, t.nj = 0,
  t.n_outer = 0, t.times = 1, t.apart = 0;
  int32_t inner = b.nd - 1, second = -1;
  for (int32_t i = 0; i < b.nd; i++) /* write along dst's contiguous dimension */
    if (b.dst_stride[i] == 1) inner = i;
  if (b.src_stride[inner] != 1 && b.src_stride[inner] != 0 && b.dst_stride[inner] == 1)
    for (int32_t i = 0; i < b.nd; i++)
      if (i != inner && b.src_stride[i] == 1) second = i;
  t.n = b.shape[inner], t.ds = b.dst_stride[inner], t.ss = b.src_stride[inner];
  if (b.nd == 1 && t.ds == 1 && t.ss == 1) {
    flat_task f = {t.dst + b.dst_at * b.esize, t.src + b.src_at * b.esize,
                   t.n * b.esize >= PF_STREAM_BYTES ? pf_movers() : NULL};
    return pf_parallel(c, t.n * b.esize, 16 * PF_GRAIN, flat_range, &f);
  }
  int64_t bytes = pf_product(b.shape, 0, b.nd) * b.esize;
  t.stream = bytes >= PF_STREAM_BYTES && (second >= 0 || t.n * b.esize >= 128);
  t.move = second >= 0 || t.stream ? pf_movers() : NULL;
  if (second >= 0) plan_pieces(&t, b.shape[second], b.dst_stride[second], c->host->workers(c));
  int64_t rows = t.tiles;
  for (int32_t i = 0; i < b.nd; i++)
    if (i != inner && i != second) t.outer[t.n_outer++] = i, rows *= b.shape[i];
  if (t.stream) read_in_order(&t, &b);
  if (t.stream && second < 0) take_turns(&t, &b);
  if (t.stream && second < 0) rows /= repeat_pieces(&t);
  if (second < 0) cut_runs(&t, rows);
  int64_t grain = pf_grain(t.piece * (second < 0 ? t.times : t.width));
  if (second < 0) return pf_parallel(c, rows * t.tiles, grain, runs_range, &t);
  return pf_parallel(c, rows, grain, planes_range, &t);
}

pf_status pf_zero(pf_ctx *c, DLTensor *dst, int64_t at, int64_t n, int64_t esize) {
  if (esize) {
    if (n) memset(PF_DATA(char, dst) + at * esize, 0, (size_t)(n * esize));
    return PF_OK;
  }
  for (int64_t i = 0; i < n; i++) PF_TRY(c->host->str_set(dst, at + i, (pf_str){"", 0}));
  return PF_OK;
}

pf_status pf_fill(pf_ctx *c, DLTensor *dst, int64_t di, int64_t n, const DLTensor *src, int64_t si,
                  int64_t esize) {
  pf_box b = pf_box_of(esize, &n, 1);
  b.dst_at = di, b.src_at = si, b.src_stride[0] = 0;
  return pf_box_copy(c, &b, dst, src);
}
