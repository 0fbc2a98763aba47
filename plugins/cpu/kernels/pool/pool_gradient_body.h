/* pool_gradient_body.h - the passes of pool_gradient.c for T, float or double, with V of VL lanes,
 * I its integer of equal size and VI of VL of those; and V_..., VI_..., GREATER, EQUAL, PICK,
 * I_PICK.
 */

/* ---------------------------------------------------------------- the first maximum of a window */
/* The maxima of n <= u * VL elements at x and the codes of their places: see `place`. */
PF_INLINE void KIND(find)(const T *x, const place w, V *best, VI *at, const int u, const int n) {
  const VI one = VI_SET(1);
#define FETCH(p) (n ? V_LOAD_PART(p, n) : V_LOAD(p))
  EACH(u) best[i] = FETCH(x + i * VL), at[i] = VI_SET(0);
  for (int64_t z = 0; z < w.planes; z++)
    for (int64_t row = 0; row < w.rows; row++) {
      const T *q = x + z * w.plane_step + row * w.row_step;
      VI code = VI_SET((I)(z * w.plane_code + row * w.row_code));
      for (int64_t col = 0; col < w.cols; col++, q += w.c, code = VI_ADD(code, one)) EACH(u) {
          const V v = FETCH(q + i * VL);
          const MASK m = GREATER(v, best[i]);
          best[i] = PICK(m, v, best[i]);
          at[i] = I_PICK(m, code, at[i]);
        }
    }
#undef FETCH
}

/* n elements side by side, each with a window of its own: codes to `at`, maxima to y if there. */
PF_INLINE void KIND(first)(const T *x, const place w, int64_t n, I *at, T *y) {
  V best[4];
  VI found[4];
  int64_t k = 0;
  for (; k + 4 * VL <= n; k += 4 * VL) {
    KIND(find)(x + k, w, best, found, 4, 0);
    EACH(4) VI_STORE(at + k + i * VL, found[i]);
    if (y) EACH(4) V_STORE(y + k + i * VL, best[i]);
  }
  for (; k < n; k += VL) {
    const int left = (int)PF_MIN(n - k, VL);
    KIND(find)(x + k, w, best, found, 1, left);
    VI_STORE_PART(at + k, found[0], left);
    if (y) V_STORE_PART(y + k, best[0], left);
  }
}

/* Row i of windows of three columns: whole vectors, notes as bytes.  A window's code is its row in
 * the window times three and its column. */
PF_INLINE void KIND(window_bytes)(const T *x, const place w, int8_t *at) {
  V best[4];
  VI found[4];
  int64_t k = 0;
  for (; k + 4 * VL <= w.c; k += 4 * VL) {
    KIND(find)(x + k, w, best, found, 4, 0);
    EACH(4) VI_STORE_BYTES(at + k + i * VL, found[i]);
  }
  for (; k + VL <= w.c; k += VL) {
    KIND(find)(x + k, w, best, found, 1, 0);
    VI_STORE_BYTES(at + k, found[0]);
  }
}
static void KIND(first_bytes)(const job *j, int64_t i) {
  const pf_pool *p = j->p;
  const int64_t c = p->c, step = p->in[2] * c;
  const int64_t share = PF_MIN(p->stride[1] * p->stride[2], 16) * c;
  const pf_span rows = pf_pool_window(p, 1, i % p->out[1]);
  const int64_t high = rows.hi - rows.lo;
  const T *x = (const T *)j->x + (i / p->out[1] * p->in[1] + rows.lo) * step;
  const T *ahead = x + high * step;
  int8_t *at = (int8_t *)j->at + i * p->out[2] * c;
  for (int64_t o = 0; o < p->out[2]; o++, at += c, ahead += share) {
    const pf_span cols = j->windows[o];
    for (int64_t b = 0; b < share; b += VL) PREFETCH(ahead + b);
    if (high == 3 && cols.hi - cols.lo == 3)
      KIND(window_bytes)(x + cols.lo * c, (place){1, 3, 3, c, 0, step, 0, 3, 0}, at);
    else
      KIND(window_bytes)(x + cols.lo * c, (place){1, high, cols.hi - cols.lo, c, 0, step, 0, 3, 0},
                         at);
  }
}

/* Rows read in step are no stream the processor sees: it is told of those that the next row of
 * windows reads for the first time, in their order, a share with each window. */
static void KIND(first_rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  const pf_pool *p = j->p;
  const int64_t c = p->c, rows = p->out[0] * p->out[1];
  const int64_t share = PF_MIN(p->stride[1] * p->stride[2], 16) * c;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    if (BYTES && j->bytes) {
      KIND(first_bytes)(j, i);
      continue;
    }
    const T *x = (const T *)j->x + i / rows * pf_pool_volume(p->in) * c;
    const place left = place_of(p, i % rows / p->out[1], i % p->out[1], 0);
    const T *ahead = x + left.start + left.rows * left.row_step;
    I *at = (I *)j->at + i * p->out[2] * c;
    T *y = j->best ? (T *)j->best + i * p->out[2] * c : NULL;
    for (int64_t o = 0; o < p->out[2];) {
      const place w = place_of(p, i % rows / p->out[1], i % p->out[1], o);
      const int64_t run =
          p->stride[2] == 1 && o >= j->inside.lo && o < j->inside.hi ? j->inside.hi - o : 1;
      for (int64_t b = 0; run == 1 && b < share; b += VL) PREFETCH(ahead + o * share + b);
      KIND(first)(x + w.start, w, run * c, at + o * c, y ? y + o * c : NULL);
      o += run;
    }
  }
}

/* ---------------------------------------------------------------- windows that share nothing */
/* dy to the maximum of its window, zero to the other places: u vectors, or n < VL elements. */
PF_INLINE void KIND(give)(const T *x, const place w, const T *dy, T *dx, const int u, const int n,
                          const int stream) {
  V best[4], g[4];
  VI at[4];
  KIND(find)(x, w, best, at, u, n);
  EACH(u) g[i] = n ? V_LOAD_PART(dy, n) : V_LOAD(dy + i * VL);
  for (int64_t z = 0; z < w.planes; z++)
    for (int64_t row = 0; row < w.rows; row++) {
      T *q = dx + z * w.plane_step + row * w.row_step;
      I code = (I)(z * w.plane_code + row * w.row_code);
      for (int64_t col = 0; col < w.cols; col++, q += w.c, code++) EACH(u) {
          const V v = PICK(EQUAL(at[i], VI_SET(code)), g[i], V_SET(0));
          if (n) V_STORE_PART(q, v, n);
          else if (stream) V_STREAM(q + i * VL, v);
          else V_STORE(q + i * VL, v);
        }
    }
}

PF_INLINE void KIND(give_window)(const T *x, const place w, const T *dy, T *dx, int stream) {
  int64_t k = 0;
  for (; k + 4 * VL <= w.c; k += 4 * VL) KIND(give)(x + k, w, dy + k, dx + k, 4, 0, stream);
  for (; k + VL <= w.c; k += VL) KIND(give)(x + k, w, dy + k, dx + k, 1, 0, stream);
  if (k < w.c) KIND(give)(x + k, w, dy + k, dx + k, 1, (int)(w.c - k), 0);
}

/* A row of windows and the rows of the image that are theirs alone. */
static void KIND(give_rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  const pf_pool *p = j->p;
  const int64_t c = p->c, rows = p->out[0] * p->out[1];
  const T *dy = (const T *)j->dy + lo * p->out[2] * c;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t image = i / rows * pf_pool_volume(p->in) * c;
    const int64_t oz = i % rows / p->out[1], oy = i % p->out[1];
    const T *x = (const T *)j->x + image;
    T *dx = (T *)j->dx + image;
    if (j->gaps) clear_own(p, oz, oy, dx, sizeof(T));
    for (int64_t o = 0; o < p->out[2]; o++, dy += c) {
      const place w = place_of(p, oz, oy, o);
      if (w.planes == 1 && w.rows == 2 && w.cols == 2)
        KIND(give_window)(x + w.start, (place){1, 2, 2, c, 0, w.row_step, 0, w.row_code, 0}, dy,
                          dx + w.start, j->stream);
      else KIND(give_window)(x + w.start, w, dy, dx + w.start, j->stream);
    }
  }
  STREAM_FENCE();
}

/* ---------------------------------------------------------------- windows that overlap */
/* What windows `cover` of a row give to u vectors of the place `code` behind its beginning. */
PF_INLINE void KIND(gather)(const I *at, const T *dy, const job *j, pf_span cover, int64_t code,
                            V *sum, const int u, const int n) {
  for (int64_t o = cover.lo; o < cover.hi; o++) {
    const I *a = at + o * j->p->c;
    const T *d = dy + o * j->p->c;
    const VI here = VI_SET((I)(code - j->windows[o].lo));
    EACH(u) {
      const VI from = n ? VI_LOAD_PART(a, n) : VI_LOAD(a + i * VL);
      const V g = n ? V_LOAD_PART(d, n) : V_LOAD(d + i * VL);
      sum[i] = PICK(EQUAL(from, here), sum[i] + g, sum[i]);
    }
  }
}

/* u vectors of dx, or n < VL elements. */
PF_INLINE void KIND(put)(const job *j, T *dx, const V *sum, const int u, const int n) {
  EACH(u) {
    if (n) V_STORE_PART(dx, sum[i], n);
    else if (j->stream) V_STREAM(dx + i * VL, sum[i]);
    else V_STORE(dx + i * VL, sum[i]);
  }
}

PF_INLINE void KIND(gather_place)(const job *j, const rows_of *r, int64_t k, int64_t col, T *dx,
                                  const int u, const int n) {
  const pf_pool *p = j->p;
  const pf_span cover = j->covering[col];
  V sum[4];
  EACH(u) sum[i] = V_SET(0);
  for (int64_t oz = r->z.lo; oz < r->z.hi; oz++)
    for (int64_t oy = r->y.lo; oy < r->y.hi; oy++) {
      const int64_t row = (r->outputs + oz * p->out[1] + oy) * p->out[2] * p->c + k;
      KIND(gather)((const I *)j->at + row, (const T *)j->dy + row, j, cover,
                   row_code(j, r, oz, oy) + col, sum, u, n);
    }
  KIND(put)(j, dx, sum, u, n);
}

/* Few channels: element by element, each at most once per row of windows. */
static void KIND(scatter_row)(const job *j, const rows_of *r, T *dx) {
  const pf_pool *p = j->p;
  memset(dx, 0, sizeof(T) * (size_t)(p->in[2] * p->c));
  for (int64_t oz = r->z.lo; oz < r->z.hi; oz++)
    for (int64_t oy = r->y.lo; oy < r->y.hi; oy++) {
      const int64_t first = (r->outputs + oz * p->out[1] + oy) * p->out[2] * p->c;
      const I *at = (const I *)j->at + first, code = (I)row_code(j, r, oz, oy);
      const T *dy = (const T *)j->dy + first;
      for (int64_t o = 0; o < p->out[2]; o++, at += p->c, dy += p->c) {
        const pf_span w = j->windows[o];
        for (int64_t k = 0; k < p->c; k++) {
          const int64_t col = at[k] - code;
          if (col >= 0 && col < w.hi - w.lo) dx[(w.lo + col) * p->c + k] += dy[k];
        }
      }
    }
}

/* ---------------------------------------------------------------- windows of three columns */
/* Column `col`, if there is one, is complete. */
PF_INLINE void KIND(complete)(const job *j, T *dx, int64_t col, const V *sum, const int u) {
  if (col < 0 || col >= j->p->in[2]) return;
  dx += col * j->p->c;
  if (j->stream) EACH(u) V_STREAM(dx + i * VL, sum[i]);
  else EACH(u) V_STORE(dx + i * VL, sum[i]);
}

/* u vectors of a row, s columns for each window: what it and those before it give.  Columns beyond
 * the image may get anything and are not stored. */
PF_INLINE void KIND(spread)(const job *j, const row_list *l, int64_t k, T *dx, const int s,
                            const int u, const int average, const int bytes) {
  const pf_pool *p = j->p;
  V sum[3][4];
  int64_t col = -p->before[2];
  for (int q = 0; q < 3; q++) EACH(u) sum[q][i] = V_SET(0);
  for (int64_t o = 0; o < p->out[2]; o++, col += s) {
    const pf_span w = j->windows[o];
    for (int r = 0; r < l->n; r++) {
      const T *d = (const T *)j->dy + l->first[r] + o * p->c + k;
      const I *at = average ? NULL : (const I *)j->at + l->first[r] + o * p->c + k;
      const int8_t *small = average ? NULL : (const int8_t *)j->at + l->first[r] + o * p->c + k;
      const I code = (I)(l->code[r] + col - w.lo);
      V share = V_SET(0);
      if (average) share = V_SET(1 / (T)(l->height[r] * (w.hi - w.lo)));
      EACH(u) {
        const V g = V_LOAD(d + i * VL);
        if (average) {
          for (int q = 0; q < 3; q++) sum[q][i] = sum[q][i] + g * share;
        } else {
          const VI from = bytes ? VI_LOAD_BYTES(small + i * VL) : VI_LOAD(at + i * VL);
          for (int q = 0; q < 3; q++)
            sum[q][i] = PICK(EQUAL(from, VI_SET(code + q)), sum[q][i] + g, sum[q][i]);
        }
      }
    }
    for (int q = 0; q < s; q++) KIND(complete)(j, dx, col + q, sum[q], u);
    for (int q = 0; q < 3; q++)
      EACH(u) sum[q][i] = q + s < 3 ? sum[q + s < 3 ? q + s : 2][i] : V_SET(0);
  }
  for (int q = 0; q < 3; q++) KIND(complete)(j, dx, col + q, sum[q], u);
  EACH(u) sum[0][i] = V_SET(0);
  for (col += 3; col < p->in[2]; col++) KIND(complete)(j, dx, col, sum[0], u);
}

/* The vectors of a row; returns the channels that are done. */
static int64_t KIND(spread_row)(const job *j, const rows_of *r, T *dx, int average) {
  row_list l;
  int64_t k = 0;
  const int64_t c = j->p->c, s = j->p->stride[2];
  if (j->p->k[2] != 3 || s > 2 || !list_rows(j, r, &l)) return 0;
#define SPREAD(u) \
  for (; k + u * VL <= c; k += u * VL) { \
    if (average && s == 1) KIND(spread)(j, &l, k, dx + k, 1, u, 1, 0); \
    else if (average) KIND(spread)(j, &l, k, dx + k, 2, u, 1, 0); \
    else if (BYTES && j->bytes && s == 1) KIND(spread)(j, &l, k, dx + k, 1, u, 0, BYTES); \
    else if (BYTES && j->bytes) KIND(spread)(j, &l, k, dx + k, 2, u, 0, BYTES); \
    else if (s == 1) KIND(spread)(j, &l, k, dx + k, 1, u, 0, 0); \
    else KIND(spread)(j, &l, k, dx + k, 2, u, 0, 0); \
  }
  SPREAD(4)
  SPREAD(1)
#undef SPREAD
  return k;
}

/* ---------------------------------------------------------------- averages */
PF_INLINE void KIND(share_place)(const job *j, const rows_of *r, int64_t k, int64_t col, T *dx,
                                 const int u, const int n) {
  const pf_pool *p = j->p;
  const pf_span cover = j->covering[col];
  int64_t last = 1;
  V sum[4], share = V_SET(1);
  EACH(u) sum[i] = V_SET(0);
  for (int64_t oz = r->z.lo; oz < r->z.hi; oz++)
    for (int64_t oy = r->y.lo; oy < r->y.hi; oy++) {
      const pf_span wz = pf_pool_window(p, 0, oz), wy = pf_pool_window(p, 1, oy);
      const int64_t height = (wz.hi - wz.lo) * (wy.hi - wy.lo);
      const T *dy = (const T *)j->dy + (r->outputs + oz * p->out[1] + oy) * p->out[2] * p->c + k;
      for (int64_t o = cover.lo; o < cover.hi; o++) {
        const pf_span w = j->windows[o];
        const int64_t count = height * (w.hi - w.lo);
        const T *d = dy + o * p->c;
        if (count != last) last = count, share = V_SET(1 / (T)count);
        EACH(u) sum[i] = sum[i] + (n ? V_LOAD_PART(d, n) : V_LOAD(d + i * VL)) * share;
      }
    }
  KIND(put)(j, dx, sum, u, n);
}

/* A row of windows that share nothing and leave nothing out; returns the channels that are done. */
static int64_t KIND(share_row)(const job *j, const rows_of *r, T *dx) {
  const pf_pool *p = j->p;
  const int64_t c = p->c / VL * VL, oz = r->z.lo, oy = r->y.lo;
  const pf_span wz = pf_pool_window(p, 0, oz), wy = pf_pool_window(p, 1, oy);
  const int64_t height = (wz.hi - wz.lo) * (wy.hi - wy.lo);
  const T *dy = (const T *)j->dy + (r->outputs + oz * p->out[1] + oy) * p->out[2] * p->c;
  int64_t last = 0;
  V share = V_SET(0);
  for (int64_t o = 0; o < p->out[2]; o++, dy += p->c) {
    const int64_t cols = j->windows[o].hi - j->windows[o].lo;
    if (cols != last) last = cols, share = V_SET(1 / (T)(height * cols));
    for (int64_t col = 0; col < cols; col++, dx += p->c) {
      if (j->stream)
        for (int64_t k = 0; k < c; k += VL) V_STREAM(dx + k, V_LOAD(dy + k) * share);
      else
        for (int64_t k = 0; k < c; k += VL) V_STORE(dx + k, V_LOAD(dy + k) * share);
    }
  }
  return c;
}

/* ---------------------------------------------------------------- rows of dx */
PF_INLINE void KIND(dx_rows)(const job *j, int64_t lo, int64_t hi, const int average) {
  const pf_pool *p = j->p;
  const int64_t c = p->c;
#define PLACE(u, n) \
  if (average) KIND(share_place)(j, &r, k, col, dx + k, u, n); \
  else KIND(gather_place)(j, &r, k, col, dx + k, u, n)
  for (int64_t i = lo; i < hi; i++) {
    const rows_of r = rows_that_cover(p, i);
    T *dx = (T *)j->dx + i * p->in[2] * c;
    if (!average && c < VL) {
      KIND(scatter_row)(j, &r, dx);
      continue;
    }
    const int64_t done =
        average && j->apart ? KIND(share_row)(j, &r, dx) : KIND(spread_row)(j, &r, dx, average);
    for (int64_t col = 0; done < c && col < p->in[2]; col++, dx += c) {
      int64_t k = done;
      for (; k + 4 * VL <= c; k += 4 * VL) { PLACE(4, 0); }
      for (; k + VL <= c; k += VL) { PLACE(1, 0); }
      if (k < c) { PLACE(1, (int)(c - k)); }
    }
  }
#undef PLACE
  STREAM_FENCE();
}
static void KIND(gather_rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  (void)worker;
  KIND(dx_rows)(arg, lo, hi, 0);
}
static void KIND(share_rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  (void)worker;
  KIND(dx_rows)(arg, lo, hi, 1);
}

/* ---------------------------------------------------------------- elements of maxima */
static void KIND(element_rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  const pf_pool *p = j->p;
  const int64_t c = p->c, rows = p->out[0] * p->out[1];
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const I *at = (const I *)j->at + i * p->out[2] * c;
    int64_t *element = j->elements + i * p->out[2] * c;
    for (int64_t o = 0; o < p->out[2]; o++, at += c, element += c) {
      const int64_t start = place_of(p, i % rows / p->out[1], i % p->out[1], o).start;
      for (int64_t k = 0; k < c; k++) element[k] = start + at[k] * c + k;
    }
  }
}
#undef KIND
#undef T
#undef V
#undef VL
#undef I
#undef VI
#undef MASK
#undef V_LOAD
#undef V_LOAD_PART
#undef V_STORE
#undef V_STORE_PART
#undef V_STREAM
#undef V_SET
#undef VI_SET
#undef VI_ADD
#undef VI_LOAD
#undef VI_LOAD_PART
#undef VI_STORE
#undef VI_STORE_BYTES
#undef VI_LOAD_BYTES
#undef VI_STORE_PART
#undef GREATER
#undef EQUAL
#undef PICK
#undef I_PICK
