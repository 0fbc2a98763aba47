/* pool_body.h - the forward pass of pool_forward.c for one element type and one way to join.
 *
 *   rows       a row of results needs a few rows of the image.  Where windows overlap or channels
 *              are few, these are joined first, whole vectors over width and channels alike, into
 *              a buffer in L1; neighbouring windows then share its columns.
 *   windows    otherwise each window is joined in registers, vectors over channels.
 *
 * The includer defines KIND(name); E and B, elements in memory and in the buffer; V, VL elements of
 * it; E_LOAD, E_PART, B_LOAD, B_PART, E_STORE, E_STORE_PART, E_STREAM, B_STORE, B_STORE_PART;
 * JOIN(a, v) and END(a, count).
 */

/* A box of runs, each joined element by element; `out` may lie at the box's beginning. */
#define REDUCE(NAME, X, LOAD, PART, Y, STORE, STORE_PART, STREAM, LAST) \
PF_INLINE void KIND(NAME##_vectors)(const X *x, box b, Y *y, const int u, const int stream) { \
  V a[4]; \
  EACH(u) a[i] = LOAD(x + i * VL); \
  for (int64_t col = 1; col < b.cols; col++) \
    EACH(u) a[i] = JOIN(a[i], LOAD(x + col * b.col_step + i * VL)); \
  for (int64_t z = 0; z < b.planes; z++) \
    for (int64_t row = z == 0; row < b.rows; row++) { \
      const X *q = x + z * b.plane_step + row * b.row_step; \
      for (int64_t col = 0; col < b.cols; col++, q += b.col_step) \
        EACH(u) a[i] = JOIN(a[i], LOAD(q + i * VL)); \
    } \
  if (stream) EACH(u) STREAM(y + i * VL, LAST(a[i], b.count)); \
  else EACH(u) STORE(y + i * VL, LAST(a[i], b.count)); \
} \
__attribute__((noinline)) static void KIND(NAME##_part)(const X *x, box b, Y *y, int n) { \
  V a = PART(x, n); \
  for (int64_t z = 0; z < b.planes; z++) \
    for (int64_t row = 0; row < b.rows; row++) \
      for (int64_t col = z == 0 && row == 0; col < b.cols; col++) \
        a = JOIN(a, PART(x + z * b.plane_step + row * b.row_step + col * b.col_step, n)); \
  STORE_PART(y, LAST(a, b.count), n); \
} \
PF_INLINE void KIND(NAME)(const X *x, const box b, int64_t n, Y *y, const int stream) { \
  int64_t i = 0; \
  for (; i + 4 * VL <= n; i += 4 * VL) KIND(NAME##_vectors)(x + i, b, y + i, 4, stream); \
  for (; i + VL <= n; i += VL) KIND(NAME##_vectors)(x + i, b, y + i, 1, stream); \
  if (i < n) KIND(NAME##_part)(x + i, b, y + i, (int)(n - i)); \
}
#define NOTHING(a, count) (a)
REDUCE(windows, E, E_LOAD, E_PART, E, E_STORE, E_STORE_PART, E_STREAM, END)
REDUCE(columns, E, E_LOAD, E_PART, B, B_STORE, B_STORE_PART, B_STORE, NOTHING)
REDUCE(across, B, B_LOAD, B_PART, E, E_STORE, E_STORE_PART, E_STREAM, END)
REDUCE(along, B, B_LOAD, B_PART, B, B_STORE, B_STORE_PART, B_STORE, NOTHING)
#undef NOTHING
#undef REDUCE

/* The rows of a box into the buffer. */
static void KIND(join_rows)(const E *x, box b, int64_t n, B *y) {
  if (b.planes == 1 && b.rows == 1)
    KIND(columns)(x, (box){1, 1, 1, 0, 0, 0, b.count}, n, y, 0);
  else if (b.planes == 1 && b.rows == 2)
    KIND(columns)(x, (box){1, 2, 1, 0, b.row_step, 0, b.count}, n, y, 0);
  else if (b.planes == 1 && b.rows == 3)
    KIND(columns)(x, (box){1, 3, 1, 0, b.row_step, 0, b.count}, n, y, 0);
  else KIND(columns)(x, b, n, y, 0);
}

/* `cols` neighbours of n elements of the buffer, c apart. */
static void KIND(join_columns)(const B *x, int64_t cols, int64_t c, int64_t n, double count,
                                  E *y, int stream) {
  if (cols == 2) KIND(across)(x, (box){1, 1, 2, 0, 0, c, count}, n, y, stream);
  else if (cols == 3) KIND(across)(x, (box){1, 1, 3, 0, 0, c, count}, n, y, stream);
  else KIND(across)(x, (box){1, 1, cols, 0, 0, c, count}, n, y, stream);
}

/* Few channels and a stride: columns are joined as for stride 1, then every stride-th is kept. */
static void KIND(join_strided)(B *x, const pf_pool *p, int64_t count, double in_window, E *y) {
  const int64_t c = p->c, s = p->stride[2], n = ((count - 1) * s + 1) * c;
  const box b = {1, 1, p->k[2], 0, 0, c, in_window};
  KIND(along)(x, b, n, x, 0);
  if (c == 1 && s == 2) for (int64_t i = 0; i < count; i++) x[i] = x[2 * i];
  else
    for (int64_t i = 0; i < count; i++)
      for (int64_t k = 0; k < c; k++) x[i * c + k] = x[i * s * c + k];
  KIND(across)(x, (box){1, 1, 1, 0, 0, c, in_window}, count * c, y, 0);
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
    B *x = buffer + (w.lo - first) * c;
    if (o < j->inside.lo || run < 1 || (s > 1 && c >= VL)) {
      KIND(join_columns)(x, cols, c, c, count, y + o * c, stream);
      o++;
      continue;
    }
    if (s == 1) KIND(join_columns)(x, cols, c, run * c, count, y + o * c, stream);
    else KIND(join_strided)(x, p, run, count, y + o * c);
    o += run;
  }
}

static void KIND(buffered_row)(const job *j, const E *x, box b, B *buffer, E *y) {
  const pf_pool *p = j->p;
  const int64_t c = p->c;
  for (int64_t o = 0; o < p->out[2]; o += j->chunk) {
    const int64_t end = PF_MIN(o + j->chunk, p->out[2]);
    const int64_t lo = pf_pool_window(p, 2, o).lo, hi = pf_pool_window(p, 2, end - 1).hi;
    KIND(join_rows)(x + lo * c, b, (hi - lo) * c, buffer);
    KIND(from_buffer)(j, buffer, lo, o, end, b.count, y);
  }
}

static void KIND(direct_row)(const job *j, const E *x, box b, E *y) {
  const pf_pool *p = j->p;
  const int stream = j->stream;
  const int64_t c = p->c;
  const double height = b.count;
  for (int64_t o = 0; o < p->out[2]; o++) {
    const pf_span w = pf_pool_window(p, 2, o);
    const E *q = x + w.lo * c;
    b.cols = w.hi - w.lo;
    b.count = height * (double)b.cols;
    if (b.planes == 1 && b.rows == 2 && b.cols == 2)
      KIND(windows)(q, (box){1, 2, 2, 0, b.row_step, c, b.count}, c, y + o * c, stream);
    else KIND(windows)(q, b, c, y + o * c, stream);
  }
}

static void KIND(rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  const pf_pool *p = j->p;
  const int64_t width = p->in[2] * p->c, plane = p->in[1] * width;
  B *buffer = (B *)(j->buffers + (uint64_t)worker * j->buffer_bytes);
  for (int64_t i = lo; i < hi; i++) {
    const int64_t image = i / (p->out[0] * p->out[1]), at = i % (p->out[0] * p->out[1]);
    const pf_span z = pf_pool_window(p, 0, at / p->out[1]), r = pf_pool_window(p, 1, at % p->out[1]);
    const E *x = (const E *)j->x + (image * p->in[0] + z.lo) * plane + r.lo * width;
    E *y = (E *)j->y + i * p->out[2] * p->c;
    const box b = {z.hi - z.lo, r.hi - r.lo, 1, plane, width, p->c,
                   (double)((z.hi - z.lo) * (r.hi - r.lo))};
    if (j->chunk) KIND(buffered_row)(j, x, b, buffer, y);
    else KIND(direct_row)(j, x, b, y);
  }
  STREAM_FENCE();
}
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
#undef JOIN
#undef END
#undef ELEMENT_HALF
#undef ELEMENT_ORDERED
