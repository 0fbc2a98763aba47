/* pool_planes_gradient.h - the gradient of maxima 3x3, of stride 1 or 2, over images of one channel
 * (channels first), float, AVX-512: 16 windows side by side, each found and given at once.
 *
 * Row oy of windows covers rows y0 = oy * s - before to y0 + 2.  What its windows give to a row of
 * dx is added, in the order of windows, to what those before gave: rows y0 to y0 + s - 1 are then
 * complete and leave, the others wait in `waiting`.  Columns are counted from -before; with stride
 * 2 even and odd ones are kept apart until they leave.
 *
 * Included by pool_gradient.c.
 *
 * Fast path: max_gradient_3x3_nchw (docs/paths.md).
 */
#if defined(__AVX512F__)
enum { WINDOWS = 1024, VECTORS = WINDOWS / 16 + 2, HELD = 1024 };
/* Lanes of a vector of windows that: are loaded (up to four loads), have a first, second and third
 * column, are windows, leave (one or two vectors of dx).  `whole`: all of all. */
typedef struct {
  __mmask16 load[4], column[3], window, put[2];
  int32_t whole;
} plane_lanes;
typedef struct {
  float waiting[2][16 * VECTORS], tile[HELD + 4 * (WINDOWS + 32)];
  plane_lanes at[VECTORS];
  int64_t windows, vectors; /* vectors of windows, and of columns */
} plane_room;

PF_INLINE __mmask16 lanes_between(int64_t from, int64_t to) {
  const uint32_t below = to >= 16 ? 0xffffu : to <= 0 ? 0 : (1u << to) - 1;
  return (__mmask16)(from >= 16 ? 0 : from <= 0 ? below : below >> from << from);
}
static void set_lanes(const pf_pool *p, plane_room *m) {
  const int64_t s = p->stride[2], b = p->before[2], w = p->in[2];
  m->windows = (p->out[2] + 15) / 16, m->vectors = ((w - 1 + b) / s) / 16 + 1;
  for (int64_t v = 0; v < m->vectors; v++) {
    const int64_t o = 16 * v, c = o * s - b;
    plane_lanes *l = &m->at[v];
    l->window = lanes_between(0, p->out[2] - o);
    l->whole = l->window == 0xffff;
    for (int64_t i = 0; i < 4; i++) {
      const int64_t from = s == 1 ? c + i : c + 16 * (i % 2) + 2 * (i / 2);
      l->load[i] = lanes_between(-from, w - from);
      if (i < s + 2 || s == 2) l->whole &= l->load[i] == 0xffff;
    }
    for (int64_t q = 0; q < 3; q++) {
      const int64_t first = q < b ? (b - q + s - 1) / s : 0, last = (w - 1 - q + b) / s;
      l->column[q] = lanes_between(first - o, (w - 1 - q + b < 0 ? -1 : last) + 1 - o);
      l->whole &= l->column[q] == 0xffff;
    }
    for (int64_t i = 0; i < s; i++) {
      l->put[i] = lanes_between(-c - 16 * i, w - c - 16 * i);
      l->whole &= l->put[i] == 0xffff;
    }
  }
}

#define EVEN _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define PLANE_LOAD(i, p) (whole ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(l->load[i], p))
/* The three columns of 16 windows in the row at x. */
PF_INLINE void three_columns(const float *x, const plane_lanes *l, __m512 *v, const int s,
                             const int whole) {
  if (s == 1) {
    for (int q = 0; q < 3; q++) v[q] = PLANE_LOAD(q, x + q);
    return;
  }
  const __m512i even = EVEN, odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __m512 a = PLANE_LOAD(0, x), b = PLANE_LOAD(1, x + 16);
  const __m512 c = PLANE_LOAD(2, x + 2), d = PLANE_LOAD(3, x + 18);
  v[0] = _mm512_permutex2var_ps(a, even, b);
  v[1] = _mm512_permutex2var_ps(a, odd, b);
  v[2] = _mm512_permutex2var_ps(c, even, d);
}
/* The places, 3 * row + column, of the first maxima in rows [lo, hi) of windows whose row 0 is at
 * x, w numbers from one to the next. */
PF_INLINE __m512i first_places(const float *x, int64_t w, int64_t lo, int64_t hi,
                               const plane_lanes *l, const int s, const int whole) {
  const __m512i one = _mm512_set1_epi32(1);
  __m512i place = _mm512_set1_epi32((int32_t)(3 * lo)), found = place;
  __m512 v[3], best;
  three_columns(x + lo * w, l, v, s, whole);
  best = v[0];
  if (!whole) { /* a window at the left edge begins with its second column */
    best = _mm512_mask_mov_ps(v[1], l->column[0], v[0]);
    found = _mm512_mask_mov_epi32(_mm512_add_epi32(place, one), l->column[0], place);
  }
  for (int64_t r = lo;;) {
    for (int q = 0; q < 3; q++) {
      const __mmask16 more = whole ? _mm512_cmp_ps_mask(v[q], best, _CMP_GT_OQ)
                                   : _mm512_mask_cmp_ps_mask(l->column[q], v[q], best, _CMP_GT_OQ);
      best = whole ? _mm512_max_ps(v[q], best) /* a NaN in the second operand stays */
                   : _mm512_mask_max_ps(best, l->column[q], v[q], best);
      found = _mm512_mask_mov_epi32(found, more, place);
      place = _mm512_add_epi32(place, one);
    }
    if (++r == hi) return found;
    three_columns(x + r * w, l, v, s, whole);
  }
}
PF_INLINE __m512 given(__m512i found, int place, __m512 g) {
  return _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(found, _mm512_set1_epi32(place)), g);
}
#define BEHIND(now, before, by) \
  _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(now), _mm512_castps_si512(before), \
                                          16 - (by)))
PF_INLINE void put_lanes(float *to, __m512 v, __mmask16 k, int whole) {
  if (whole) _mm512_storeu_ps(to, v);
  else _mm512_mask_storeu_ps(to, k, v);
}
PF_INLINE void put_two(float *to, __m512 even, __m512 odd, const plane_lanes *l) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  put_lanes(to, _mm512_permutex2var_ps(even, low, odd), l->put[0], l->whole);
  put_lanes(to + 16, _mm512_permutex2var_ps(even, high, odd), l->put[1], l->whole);
}

/* A row of windows, rows [lo, hi) of which are in the image, x being their row 0 and dy NULL where
 * there are no more windows; rows of dx that leave go to `to`, NULL for one beyond the image. */
PF_INLINE void plane_windows(const pf_pool *p, plane_room *m, const float *x, const float *dy,
                             int64_t lo, int64_t hi, float *const *to, const int s) {
  const __m512 zero = _mm512_setzero_ps();
  __m512 second[3] = {zero, zero, zero}, third[3] = {zero, zero, zero}, e[3];
  for (int64_t v = 0; v < m->vectors; v++) {
    const plane_lanes *l = &m->at[v];
    const int64_t c = 16 * v * s - p->before[2];
    float *first = m->waiting[0] + 16 * v, *other = m->waiting[1] + 16 * v;
    __m512 g = zero;
    __m512i found = _mm512_set1_epi32(-1);
    if (dy && v < m->windows) {
      g = _mm512_maskz_loadu_ps(l->window, dy + 16 * v);
      found = l->whole ? first_places(x + c, p->in[2], lo, hi, l, s, 1)
                       : first_places(x + c, p->in[2], lo, hi, l, s, 0);
    }
    _Pragma("GCC unroll 3") for (int r = 0; r < 3; r++) {
      _Pragma("GCC unroll 3") for (int q = 0; q < 3; q++) e[q] = given(found, 3 * r + q, g);
      if (s == 1) {
        __m512 sum = r == 0 ? _mm512_loadu_ps(first) : r == 1 ? _mm512_loadu_ps(other) : zero;
        sum = ((sum + BEHIND(e[2], third[r], 2)) + BEHIND(e[1], second[r], 1)) + e[0];
        if (r) _mm512_storeu_ps(r == 1 ? first : other, sum);
        else if (to[0]) put_lanes(to[0] + c, sum, l->put[0], l->whole);
        second[r] = e[1];
      } else {
        __m512 even = r ? zero : _mm512_loadu_ps(first), odd = r ? zero : _mm512_loadu_ps(other);
        even = (even + BEHIND(e[2], third[r], 1)) + e[0], odd = odd + e[1];
        if (r == 2) _mm512_storeu_ps(first, even), _mm512_storeu_ps(other, odd);
        else if (to[r]) put_two(to[r] + c, even, odd, l);
      }
      third[r] = e[2];
    }
  }
}
/* Images [lo, hi); `stream`: past the caches, in whole lines. */
PF_INLINE void plane_images(const pf_pool *p, const float *x, const float *dy, float *dx,
                            int64_t lo, int64_t hi, const int s, int stream) {
  const int64_t h = p->in[1], w = p->in[2], b = p->before[1], oh = p->out[1], ow = p->out[2];
  plane_room m;
  int64_t held = 0; /* elements of the tile, which begin at `at` */
  float *at = dx + lo * h * w;
  set_lanes(p, &m);
  for (int64_t i = lo; i < hi; i++) {
    for (int r = 0; r < 2; r++) memset(m.waiting[r], 0, 64 * (size_t)m.vectors);
    for (int64_t oy = 0; oy * s - b < h; oy++) {
      const int64_t y0 = oy * s - b;
      float *to[2] = {NULL, NULL};
      for (int64_t r = 0, rows = 0; r < s; r++)
        if (y0 + r >= 0 && y0 + r < h)
          to[r] = stream ? m.tile + held + rows++ * w : dx + (i * h + y0 + r) * w;
      plane_windows(p, &m, x + (i * h + y0) * w, oy < oh ? dy + (i * oh + oy) * ow : NULL,
                    PF_MAX(-y0, 0), PF_MIN(h - y0, 3), to, s);
      if (!stream) continue;
      held += ((to[0] != NULL) + (to[1] != NULL)) * w;
      if (held < HELD) continue;
      const int64_t left = pf_pool_flushed(m.tile, at, held, sizeof(float), 0);
      at += held - left, held = left;
    }
  }
  if (stream) pf_pool_flushed(m.tile, at, held, sizeof(float), 1), PF_ISA_NAME(pf_mover).fence();
}
typedef struct {
  const pf_pool *p;
  const float *x, *dy;
  float *dx;
  int stream;
} planes_job;
static void plane_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const planes_job *j = arg;
  (void)worker;
  if (j->p->stride[2] == 1) plane_images(j->p, j->x, j->dy, j->dx, lo, hi, 1, j->stream);
  else plane_images(j->p, j->x, j->dy, j->dx, lo, hi, 2, j->stream);
}
static int are_planes(const pf_pool *p, int32_t type) {
  const int64_t s = p->stride[2];
  return type == PF_FLOAT32 && p->c == 1 && p->in[0] == 1 && p->out[0] == 1 && p->k[1] == 3 &&
         p->k[2] == 3 && p->stride[1] == s && s <= 2 && p->before[1] <= 1 && p->before[2] <= 1 &&
         p->out[2] <= WINDOWS && p->in[2] < s * WINDOWS && p->out[1] > 0 && p->out[2] > 0;
}
static pf_status run_planes(pf_ctx *c, const pf_pool *p, const float *x, const float *dy,
                            float *dx) {
  const int64_t image = p->in[1] * p->in[2];
  planes_job j = {p, x, dy, dx, p->n * image * (int64_t)sizeof(float) >= PF_STREAM_BYTES};
  return pf_parallel(c, p->n, pf_grain(4 * image), plane_range, &j);
}
#else
static int are_planes(const pf_pool *p, int32_t type) {
  (void)p, (void)type;
  return 0;
}
static pf_status run_planes(pf_ctx *c, const pf_pool *p, const float *x, const float *dy,
                            float *dx) {
  (void)p, (void)x, (void)dy, (void)dx;
  return pf_fail(c, PF_INTERNAL, "no planes without AVX-512");
}
#endif
