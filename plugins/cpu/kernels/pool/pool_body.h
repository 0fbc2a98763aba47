/* pool_body.h - the forward pass of pool_forward.c for one element type and one way to join.
 *
 *   windows    joined in registers, vectors over channels
 *   rolling    windows of three columns that overlap: each column is joined once, and stays in
 *              registers for the next window; two rows of windows at once where they have three
 *              rows, so that what both cover leaves the outer caches once
 *   buffered   other overlaps: the rows of a stretch of columns are joined first, whole vectors
 *              over width and channels alike, into a buffer in L1
 *   flat       few channels: the same with whole rows and their margins, a block of rows at a time
 *   whole      one channel and one window: every image becomes a number
 *
 * The includer defines KIND(name); E and B, elements in memory and in the buffer; V, VL elements of
 * it; E_LOAD, E_PART, B_LOAD, B_PART, E_STORE, E_STORE_PART, E_STREAM, B_STORE, B_STORE_PART;
 * B_PICK(p, at): of 2 VL elements those at `at`; JOIN(a, v), its IDENTITY, END(a, count) and
 * END_EACH(a, counts, factor); FOLD(a), the lanes joined; REST(p, n), a vector that joins in the n
 * elements at p and at most such before them; and QUICK(a, v), which may be wrong where NOTE(t, v)
 * of all v makes t such that UNSURE(t).
 */

/* Four of them, for a sum of all in one would be a chain as long as the loads. */
#define NO_NOTES {ZERO, ZERO, ZERO, ZERO}
#define ALL_NOTES(t) NOTE(NOTE(t[0], t[1]), NOTE(t[2], t[3]))

/* A box of runs, joined element by element. */
#define REDUCE(NAME, X, LOAD, PART, Y, STORE, STORE_PART, STREAM, LAST) \
PF_INLINE void KIND(NAME##_vectors)(const X *x, box b, Y *y, const int u, const int stream, \
                                    V *t) { \
  V a[4]; \
  EACH(u) { a[i] = LOAD(x + i * VL); t[i] = NOTE(t[i], a[i]); } \
  for (int64_t z = 0; z < b.planes; z++) \
    for (int64_t row = 0; row < b.rows; row++) { \
      const X *q = x + z * b.plane_step + row * b.row_step; \
      for (int64_t col = z == 0 && row == 0; col < b.cols; col++) \
        EACH(u) { \
          const V v = LOAD(q + col * b.col_step + i * VL); \
          a[i] = QUICK(a[i], v); \
          t[i] = NOTE(t[i], v); \
        } \
    } \
  if (stream) EACH(u) STREAM(y + i * VL, LAST(a[i], b.count)); \
  else EACH(u) STORE(y + i * VL, LAST(a[i], b.count)); \
} \
/* n elements for sure, vector by vector */ \
__attribute__((noinline)) static void KIND(NAME##_sure)(const X *x, box b, int64_t n, Y *y) { \
  for (int64_t k = 0; k < n; k += VL) { \
    const int left = (int)PF_MIN(n - k, VL); \
    V a = PART(x + k, left); \
    for (int64_t z = 0; z < b.planes; z++) \
      for (int64_t row = 0; row < b.rows; row++) \
        for (int64_t col = z == 0 && row == 0; col < b.cols; col++) \
          a = JOIN(a, PART(x + k + z * b.plane_step + row * b.row_step + col * b.col_step, left)); \
    if (left == VL) STORE(y + k, LAST(a, b.count)); \
    else STORE_PART(y + k, LAST(a, b.count), left); \
  } \
} \
/* n elements; their notes join t, who has them sees whether they are `sure` */ \
PF_INLINE void KIND(NAME##_noted)(const X *x, const box b, int64_t n, Y *y, const int stream, \
                                  V *t) { \
  int64_t k = 0; \
  for (; k + 4 * VL <= n; k += 4 * VL) KIND(NAME##_vectors)(x + k, b, y + k, 4, stream, t); \
  for (; k + 2 * VL <= n; k += 2 * VL) KIND(NAME##_vectors)(x + k, b, y + k, 2, stream, t); \
  if (k + VL <= n) KIND(NAME##_vectors)(x + k, b, y + k, 1, stream, t), k += VL; \
  if (k < n) KIND(NAME##_sure)(x + k, b, n - k, y + k); \
} \
PF_INLINE void KIND(NAME)(const X *x, const box b, int64_t n, Y *y, const int stream) { \
  V t[4] = NO_NOTES; \
  KIND(NAME##_noted)(x, b, n, y, stream, t); \
  if (UNSURE(ALL_NOTES(t))) KIND(NAME##_sure)(x, b, n, y); \
}
#define NOTHING(a, count) (a)
REDUCE(windows, E, E_LOAD, E_PART, E, E_STORE, E_STORE_PART, E_STREAM, END)
REDUCE(columns, E, E_LOAD, E_PART, B, B_STORE, B_STORE_PART, B_STORE, NOTHING)
REDUCE(across, B, B_LOAD, B_PART, E, E_STORE, E_STORE_PART, E_STREAM, END)
#undef NOTHING
#undef REDUCE

/* A window unlike its neighbours.  (Were it not stored past the caches where they are, its lines
 * would be read first.) */
__attribute__((noinline)) static void KIND(edge)(const E *x, box b, int64_t n, E *y, int stream) {
  KIND(windows)(x, b, n, y, stream);
}

/* ---------------------------------------------------------------- rolling */
PF_INLINE void KIND(column)(const E *x, const box b, V *a, V *t, const int u) {
  EACH(u) a[i] = E_LOAD(x + i * VL), t[i] = NOTE(t[i], a[i]);
  for (int64_t z = 0; z < b.planes; z++)
    for (int64_t row = z == 0; row < b.rows; row++) EACH(u) {
        const V v = E_LOAD(x + z * b.plane_step + row * b.row_step + i * VL);
        a[i] = QUICK(a[i], v);
        t[i] = NOTE(t[i], v);
      }
}

/* u vectors of channels of `run` windows of three columns, `step` elements apart (s columns). */
PF_INLINE void KIND(roll)(const E *x, const box b, int64_t run, E *y, const int s, const int u,
                          const int stream, V *t) {
  V first[4], second[4], third[4];
  const int64_t c = b.col_step;
  KIND(column)(x, b, first, t, u);
  if (s == 1) KIND(column)(x + c, b, second, t, u);
  for (int64_t o = 0; o < run; o++, x += s * c, y += c) {
    if (s == 2) KIND(column)(x + c, b, second, t, u);
    KIND(column)(x + 2 * c, b, third, t, u);
    EACH(u) {
      const V v = END(QUICK(QUICK(first[i], second[i]), third[i]), b.count);
      if (stream) E_STREAM(y + i * VL, v);
      else E_STORE(y + i * VL, v);
      first[i] = s == 1 ? second[i] : third[i], second[i] = third[i];
    }
  }
}

/* A vector of the same column of R windows of three rows, s rows apart; `at`: elements behind the
 * rows' beginnings. */
PF_INLINE void KIND(column_rows)(const E *const *x, int64_t at, V *a, V *t, const int s,
                                 const int R) {
  const V p = E_LOAD(x[0] + at), q = E_LOAD(x[1] + at), r = E_LOAD(x[2] + at),
          v = E_LOAD(x[3] + at);
  t[0] = NOTE(NOTE(t[0], p), q);
  t[1] = NOTE(NOTE(t[1], r), v);
  a[0] = QUICK(QUICK(p, q), r);
  if (s == 1) a[1] = QUICK(QUICK(q, r), v);
  if (s == 2 || R == 3) {
    const V w = E_LOAD(x[4] + at);
    t[2] = NOTE(t[2], w);
    a[R - 1] = QUICK(QUICK(r, v), w);
  }
}

/* `roll` for R rows of windows at once, `below` elements apart: what they share is read once.
 * `at`: elements of the rows before the first window. */
PF_INLINE void KIND(roll_rows)(const E *const *from, int64_t at, int64_t c, const double *counts,
                               int64_t run, E *y, int64_t below, const int s, const int R,
                               const int u, const int stream, V *t) {
  V first[4][3], second[4][3], third[3];
  const E *x[5];
  for (int r = 0; r < 5; r++) x[r] = from[PF_MIN(r, 2 + (R - 1) * s)] + at;
  E *z[3] = {y, y + below, y + (R - 1) * below};
  EACH(u) {
    KIND(column_rows)(x, i * VL, first[i], t, s, R);
    if (s == 1) KIND(column_rows)(x, c + i * VL, second[i], t, s, R);
  }
  for (int r = 0; r < 5; r++) x[r] += (3 - s) * c;
  for (int64_t o = 0; o < run; o++) {
    EACH(u) {
      if (s == 2) KIND(column_rows)(x, i * VL, second[i], t, s, R);
      KIND(column_rows)(x, (s - 1) * c + i * VL, third, t, s, R);
      PF_UNROLL for (int q = 0; q < R; q++) {
        const V v = END(QUICK(QUICK(first[i][q], second[i][q]), third[q]), counts[q]);
        if (stream) E_STREAM(z[q] + i * VL, v);
        else E_STORE(z[q] + i * VL, v);
        first[i][q] = s == 1 ? second[i][q] : third[q], second[i][q] = third[q];
      }
    }
    PF_UNROLL for (int r = 0; r < 5; r++) x[r] += s * c;
    PF_UNROLL for (int q = 0; q < 3; q++) z[q] += c;
  }
}

/* `run` windows of a row. */
PF_INLINE void KIND(rolling)(const E *x, const box b, int64_t run, E *y, const int s,
                             const int stream) {
  const int64_t c = b.col_step;
  int64_t k = 0;
  V t[4] = NO_NOTES;
#define ROLL(u) \
  for (; k + u * VL <= c; k += u * VL) KIND(roll)(x + k, b, run, y + k, s, u, stream, t);
  ROLL(2)
  ROLL(1)
#undef ROLL
  if (UNSURE(ALL_NOTES(t))) k = 0;
  for (int64_t o = 0; o < run && k < c; o++)
    KIND(windows_sure)(x + o * s * c + k, b, c - k, y + o * c + k);
}

static void KIND(rolling_row)(const job *j, const E *x, box b, E *y) {
  const pf_pool *p = j->p;
  const int64_t c = p->c;
  const double height = b.count;
  for (int64_t o = 0; o < p->out[2];) {
    const pf_span w = pf_pool_window(p, 2, o);
    const E *q = x + w.lo * c;
    b.cols = w.hi - w.lo;
    b.count = height * (double)b.cols;
    if (o < j->inside.lo || o >= j->inside.hi) {
      KIND(edge)(q, b, c, y + o * c, j->stream);
      o++;
      continue;
    }
    const int64_t run = PF_MIN(j->inside.hi - o, j->chunk);
    if (p->stride[2] == 1) KIND(rolling)(q, b, run, y + o * c, 1, j->stream);
    else KIND(rolling)(q, b, run, y + o * c, 2, j->stream);
    o += run;
  }
}

/* Windows of three rows and columns in as many rows as go at once, those of row oy of the plane x
 * first.  A row beyond the image is its neighbour again, or (averages) zeros. */
PF_INLINE int64_t KIND(roll_inside)(const job *j, const E *x, int64_t oy, E *y, const int s) {
  const pf_pool *p = j->p;
  const int R = s == 1 ? TRIPLE : 2;
  const int64_t c = p->c, width = p->in[2] * c, below = p->out[2] * c;
  const E *rows[5];
  double counts[3] = {0};
  for (int r = 0; r < 5; r++) {
    const int64_t at = oy * s - p->before[1] + r, near = PF_MIN(PF_MAX(at, 0), p->in[1] - 1);
    rows[r] = at == near ? x + at * width : BEYOND(x + near * width, (const E *)j->zeros);
  }
  for (int r = 0; r < R; r++) {
    const pf_span w = pf_pool_window(p, 1, oy + r);
    counts[r] = 3 * (double)(w.hi - w.lo);
  }
  V t[4] = NO_NOTES;
  int64_t k = 0;
  for (int64_t o = j->inside.lo, run; o < j->inside.hi; o += run) {
    const int64_t at = pf_pool_window(p, 2, o).lo * c;
    run = PF_MIN(j->inside.hi - o, j->chunk);
    k = 0;
#define ROLL(u) \
  for (; k + u * VL <= c; k += u * VL) \
    KIND(roll_rows)(rows, at + k, c, counts, run, y + o * c + k, below, s, R, u, j->stream, t);
    if (PAIRED == 4) { ROLL(4) }
    ROLL(2)
    ROLL(1)
#undef ROLL
  }
  return UNSURE(ALL_NOTES(t)) ? 0 : k;
}
static void KIND(rolling_rows)(const job *j, const E *x, int64_t oy, E *y) {
  const pf_pool *p = j->p;
  const int64_t c = p->c, s = p->stride[2], width = p->in[2] * c;
  const int64_t done =
      s == 1 ? KIND(roll_inside)(j, x, oy, y, 1) : KIND(roll_inside)(j, x, oy, y, 2);
  for (int64_t r = oy; r < oy + j->rolls; r++, y += p->out[2] * c) {
    const pf_span h = pf_pool_window(p, 1, r);
    for (int64_t o = 0; o < p->out[2]; o++) {
      const int inside = o >= j->inside.lo && o < j->inside.hi;
      if (inside && done == c) {
        o = j->inside.hi - 1;
        continue;
      }
      const pf_span w = pf_pool_window(p, 2, o);
      const box b = {
        1, h.hi - h.lo, w.hi - w.lo, 0, width, c, (double)((h.hi - h.lo) * (w.hi - w.lo))};
      const E *q = x + h.lo * width + w.lo * c;
      if (inside) KIND(windows_sure)(q + done, b, c - done, y + o * c + done);
      else KIND(edge)(q, b, c, y + o * c, j->stream);
    }
  }
}

/* ---------------------------------------------------------------- buffered */
/* n elements of the rows of `boxes` boxes, `step` apart, into rows of the buffer, `pitch` apart;
 * the last vector of a row may overlap the one before. */
PF_INLINE void KIND(join_vectors)(const E *x, const box b, int64_t n, B *y, int64_t boxes,
                                  int64_t step, int64_t pitch, V *t) {
  for (int64_t r = 0; r < boxes; r++, x += step, y += pitch) {
    int64_t k = 0;
    for (; k + 4 * VL <= n; k += 4 * VL) KIND(columns_vectors)(x + k, b, y + k, 4, 0, t);
    if (k + 2 * VL <= n) KIND(columns_vectors)(x + k, b, y + k, 2, 0, t), k += 2 * VL;
    if (k + VL <= n) KIND(columns_vectors)(x + k, b, y + k, 1, 0, t + 2), k += VL;
    if (k < n) KIND(columns_vectors)(x + n - VL, b, y + n - VL, 1, 0, t + 3);
  }
}
/* The same for any n; returns whether there may have been a NaN. */
static int KIND(join_rows)(const E *x, const box *whole, int64_t n, B *y, int64_t boxes,
                           int64_t step, int64_t pitch) {
  const box b = {whole->planes, whole->rows, 1, whole->plane_step, whole->row_step, 0, 1};
  V t[4] = NO_NOTES;
#define VECTORS(...) KIND(join_vectors)(x, (box){__VA_ARGS__, 0, 1}, n, y, boxes, step, pitch, t)
  if (n >= VL) {
    if (b.planes != 1 || b.rows > 3) VECTORS(b.planes, b.rows, 1, b.plane_step, b.row_step);
    else if (b.rows == 1) VECTORS(1, 1, 1, 0, 0);
    else if (b.rows == 2) VECTORS(1, 2, 1, 0, b.row_step);
    else VECTORS(1, 3, 1, 0, b.row_step);
    if (!UNSURE(ALL_NOTES(t))) return 0;
  }
#undef VECTORS
  for (int64_t r = 0; r < boxes; r++) KIND(columns_sure)(x + r * step, b, n, y + r * pitch);
  return 1;
}

/* `cols` neighbours of n elements of the buffer, c apart. */
static void KIND(join_columns)(const B *x, int64_t cols, int64_t c, int64_t n, double count, E *y,
                               int stream) {
  if (cols == 2) KIND(across)(x, (box){1, 1, 2, 0, 0, c, count}, n, y, stream);
  else if (cols == 3) KIND(across)(x, (box){1, 1, 3, 0, 0, c, count}, n, y, stream);
  else KIND(across)(x, (box){1, 1, cols, 0, 0, c, count}, n, y, stream);
}

/* Results [o, end) of a row from the buffer, which begins at column `first`. */
PF_INLINE void KIND(from_buffer)(const job *j, B *buffer, int64_t first, int64_t o, int64_t end,
                                 double height, E *y) {
  const pf_pool *p = j->p;
  const int64_t c = p->c, s = p->stride[2];
  const int stream = j->stream;
  while (o < end) {
    const pf_span w = pf_pool_window(p, 2, o);
    const int64_t cols = w.hi - w.lo, run = PF_MIN(end, j->inside.hi) - o;
    const double count = height * (double)cols;
    const B *x = buffer + (w.lo - first) * c;
    const int64_t some = o < j->inside.lo || run < 1 || s > 1 ? 1 : run;
    KIND(join_columns)(x, cols, c, some * c, count, y + o * c, stream);
    o += some;
  }
}

static void KIND(buffered_row)(const job *j, const E *x, box b, B *buffer, E *y) {
  const pf_pool *p = j->p;
  const int64_t c = p->c;
  for (int64_t o = 0; o < p->out[2]; o += j->chunk) {
    const int64_t end = PF_MIN(o + j->chunk, p->out[2]);
    const int64_t lo = pf_pool_window(p, 2, o).lo, hi = pf_pool_window(p, 2, end - 1).hi;
    KIND(join_rows)(x + lo * c, &b, (hi - lo) * c, buffer, 1, 0, 0);
    KIND(from_buffer)(j, buffer, lo, o, end, b.count, y);
  }
}

/* Two rows of halves read in step are too short a stream for the processor to see: it is told of
 * the next two in their order, a share with each window. */
static void KIND(direct_row)(const job *j, const E *x, box b, E *y) {
  const pf_pool *p = j->p;
  const int stream = j->stream;
  const int64_t c = p->c, step = p->stride[2] * c;
  const double height = b.count;
  V t[4] = NO_NOTES;
  for (int64_t o = 0; o < p->out[2]; o++) {
    const pf_span w = pf_pool_window(p, 2, o);
    const E *q = x + w.lo * c;
    b.cols = w.hi - w.lo;
    b.count = height * (double)b.cols;
    if (o < j->inside.lo || o >= j->inside.hi || b.planes != 1 || b.rows != 2 || b.cols != 2) {
      KIND(edge)(q, b, c, y + o * c, stream);
      continue;
    }
    const box two = {1, 2, 2, 0, b.row_step, c, b.count};
    const E *ahead = x + 2 * b.row_step;
    for (; o < j->inside.hi; o++, q += step) {
      if (sizeof(E) == 2) EACH_LINE(4 * c * 2) PREFETCH((const char *)(ahead + o * 4 * c) + i);
      KIND(windows_noted)(q, two, c, y + o * c, stream, t);
    }
    o--;
  }
  b.cols = 2, b.count = 2 * height;
  if (!UNSURE(ALL_NOTES(t))) return;
  for (int64_t o = j->inside.lo; o < j->inside.hi; o++)
    KIND(windows_sure)(x + pf_pool_window(p, 2, o).lo * c, b, c, y + o * c);
}

/* ---------------------------------------------------------------- flat */
/* A vector of the elements that begin results: side by side, every second column, or others. */
PF_INLINE V KIND(fetch)(const B *x, const flat *f, int lanes, const int s) {
  if (s == 1) return B_LOAD(x);
  if (s == 2) return B_PICK(x, f->at);
  B v[VL] = {0};
  for (int i = 0; i < lanes; i++) v[i] = x[f->at[i]];
  return B_LOAD(v);
}

/* Rows of results from as many of the buffer, whose windows have `height` rows; s: their stride, 0
 * for any. */
PF_INLINE void KIND(flat_across)(const job *j, const B *row, double height, int64_t rows, E *y,
                                 const int s, const int64_t k, const int sure) {
  const flat *f = &j->flat;
  const int64_t c = j->p->c, n = j->p->out[2] * c, each = s == 1 ? VL : f->each;
  const int64_t step = s == 1 ? VL : f->step;
  const B *counts = (const B *)f->counts;
  for (int64_t r = 0; r < rows; r++, row += f->pitch, y += n) {
    const B *x = row;
    for (int64_t i = 0; i < n; i += each, x += step) {
      const int lanes = (int)PF_MIN(n - i, each);
      V a = KIND(fetch)(x, f, lanes, s);
      for (int64_t q = 1; q < k; q++) {
        const V v = KIND(fetch)(x + q * c, f, lanes, s);
        a = sure ? JOIN(a, v) : QUICK(a, v);
      }
      if (counts) a = END_EACH(a, B_LOAD(counts + i), height);
      if (i + VL <= n) E_STORE(y + i, a);
      else E_STORE_PART(y + i, a, lanes);
    }
  }
}
static void KIND(flat_results)(const job *j, const B *x, double height, int64_t rows, E *y,
                               int sure) {
  const int64_t k = j->p->k[2], s = j->p->stride[2];
#define ACROSS(...) KIND(flat_across)(j, x, height, rows, y, __VA_ARGS__)
  if (s == 1) {
    if (sure) ACROSS(1, k, 1);
    else if (k == 3) ACROSS(1, 3, 0);
    else ACROSS(1, k, 0);
  } else if (s == 2) {
    if (sure) ACROSS(2, k, 1);
    else if (k == 2) ACROSS(2, 2, 0);
    else if (k == 3) ACROSS(2, 3, 0);
    else ACROSS(2, k, 0);
  } else ACROSS(0, k, 1);
#undef ACROSS
}

/* Few channels: blocks of rows in a buffer, each between margins that take part in nothing; then
 * their columns are joined.  Rows of windows of equal height are a block.  Results that go past the
 * caches are kept until they are whole lines. */
static void KIND(flat_rows)(const job *j, int64_t lo, int64_t hi, char *room) {
  const pf_pool *p = j->p;
  const flat *f = &j->flat;
  const int64_t width = p->in[2] * p->c, plane = p->in[1] * width, n = p->out[2] * p->c;
  const int64_t left = p->before[2] * p->c, rows = p->out[1], step = p->stride[1] * width;
  B *buffer = (B *)room;
  E *tile = (E *)(room + f->tile);
  int64_t held = 0; /* results in the tile */
  for (int64_t i = 0; i < f->block * f->pitch; i++)
    if (i % f->pitch < left || i % f->pitch >= left + width) buffer[i] = IDENTITY;
  for (int64_t i = lo, block; i < hi; i += block) {
    const int64_t oy = i % rows, image = i / rows / p->out[0];
    const pf_span z = pf_pool_window(p, 0, i / rows % p->out[0]), w = pf_pool_window(p, 1, oy);
    const box b = {z.hi - z.lo, w.hi - w.lo, 1, plane, width, 0, 1};
    const E *x = (const E *)j->x + (image * p->in[0] + z.lo) * plane + w.lo * width;
    E *y = (E *)j->y + i * n;
    block = 1;
    if (oy >= j->inside_rows.lo && oy < j->inside_rows.hi)
      block = PF_MIN(PF_MIN(f->block, hi - i), j->inside_rows.hi - oy);
    const int sure = KIND(join_rows)(x, &b, width, buffer + left, block, step, f->pitch);
    KIND(flat_results)(j, buffer, (double)(b.planes * b.rows), block, j->stream ? tile + held : y,
                       sure);
    if (j->stream)
      held = pf_pool_flushed(tile, y - held, held + block * n, sizeof(E), i + block == hi);
  }
  if (j->stream) PF_ISA_NAME(pf_mover).fence();
}

/* Windows as large as an image of one channel: what is left is one sum, or maximum, of an image.
 * A vector of results at a time. */
static void KIND(whole)(const job *j, int64_t lo, int64_t hi) {
  const int64_t n = pf_pool_volume(j->p->in);
  const box all = {1, 1, n, 0, 0, 1, (double)n};
  for (int64_t i = lo; i < hi; i += VL) {
    const int results = (int)PF_MIN(VL, hi - i);
    const E *x = (const E *)j->x + i * n;
    E *y = (E *)j->y + i;
    B found[VL] = {0};
    V t = ZERO;
    for (int r = 0; r < results; r++, x += n) {
      V a = E_LOAD(x), b = a, v;
      int64_t k = VL;
      t = NOTE(t, a);
      if (n >= 2 * VL) b = E_LOAD(x + VL), t = NOTE(t, b), k += VL;
      for (; k + 2 * VL <= n; k += 2 * VL) {
        v = E_LOAD(x + k), a = QUICK(a, v), t = NOTE(t, v);
        v = E_LOAD(x + k + VL), b = QUICK(b, v), t = NOTE(t, v);
      }
      if (k + VL <= n) v = E_LOAD(x + k), a = QUICK(a, v), t = NOTE(t, v), k += VL;
      if (k < n) v = REST(x + k, (int)(n - k)), a = QUICK(a, v), t = NOTE(t, v);
      if (n >= 2 * VL) a = QUICK(a, b);
      found[r] = FOLD(a);
    }
    E_STORE_PART(y, END(B_LOAD(found), all.count), results);
    if (!UNSURE(t)) continue;
    for (int r = 0; r < results; r++)
      KIND(windows_sure)((const E *)j->x + (i + r) * n, all, 1, y + r);
  }
}

static void KIND(rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  const pf_pool *p = j->p;
  const int64_t width = p->in[2] * p->c, plane = p->in[1] * width, rows = p->out[1];
  int64_t image = lo / rows / p->out[0], oz = lo / rows % p->out[0], oy = lo % rows;
  B *buffer = (B *)(j->buffers + (uint64_t)worker * j->buffer_bytes);
#if defined(PLANES) && defined(__AVX512F__)
  if (j->planes) {
    for (int64_t i = lo; i < hi; i++)
      if (plane_of(j, i, PLANES)) KIND(flat_rows)(j, i * rows, (i + 1) * rows, (char *)buffer);
    STREAM_FENCE();
    return;
  }
#endif
  if (j->whole) {
    KIND(whole)(j, lo, hi);
    return;
  }
  if (j->flat.block) {
    KIND(flat_rows)(j, lo, hi, (char *)buffer);
    return;
  }
  for (int64_t i = lo; i < hi; i++) {
    const pf_span z = pf_pool_window(p, 0, oz), r = pf_pool_window(p, 1, oy);
    const E *x = (const E *)j->x + (image * p->in[0] + z.lo) * plane + r.lo * width;
    E *y = (E *)j->y + i * p->out[2] * p->c;
    const box b = {
      z.hi - z.lo, r.hi - r.lo, 1, plane, width, p->c, (double)((z.hi - z.lo) * (r.hi - r.lo))};
    if (j->rolls) {
      const int64_t left = PF_MIN(PF_MIN(rows - oy, hi - i), j->rolls), back = j->rolls - left;
      if (j->rolls > 1 && back <= PF_MIN(oy, i - lo)) { /* the last rows may be done again */
        KIND(rolling_rows)(j, (const E *)j->x + (image * p->in[0] + z.lo) * plane, oy - back,
                           y - back * p->out[2] * p->c);
        i += left - 1, oy += left - 1;
      } else KIND(rolling_row)(j, x, b, y);
    } else if (j->chunk) KIND(buffered_row)(j, x, b, buffer, y);
    else KIND(direct_row)(j, x, b, y);
    if (++oy < rows) continue;
    oy = 0, oz = (oz + 1) % p->out[0];
    image += oz == 0;
  }
  STREAM_FENCE();
}
#undef NO_NOTES
#undef ALL_NOTES
#undef KIND
#undef E
#undef B
#undef V
#undef VL
#undef E_LOAD
#undef E_PART
#undef E_STORE
#undef E_STORE_PART
#undef E_STREAM
#undef B_LOAD
#undef B_PART
#undef B_STORE
#undef B_STORE_PART
#undef B_PICK
#undef JOIN
#undef QUICK
#undef NOTE
#undef UNSURE
#undef ZERO
#undef END
#undef END_EACH
#undef IDENTITY
#undef REST
#undef FOLD
#undef PLANES
#undef BEYOND
#undef ELEMENT_HALF
#undef ELEMENT_ORDERED
