/* pool_planes.h - windows of images of one channel (channels first), float, AVX-512: an image is
 * joined in registers as one run of numbers, whatever its rows' width, so that only whole vectors
 * are read and whole lines leave.
 *
 *   stride 1   3x3, padded to the image's own size: number n is joined with n - w and n + w, then
 *              each with its neighbours, unless it stands at a row's end
 *   stride 2   maxima of 2x2 and 3x3, w a multiple of 16 numbers: rows are joined, then the even
 *              and odd columns of two vectors
 *
 * Included by pool_forward.c.  Each function does one image and returns whether a maximum may have
 * missed a NaN.
 *
 * Fast path: max_3x3_s2_nchw, avg_3x3_s1_nchw (docs/paths.md).
 */
#if defined(__AVX512F__)
/* Quotients by a number of places: x * high + x * low in one rounding is x / count to the bit (but
 * for the smallest numbers), in a fifth of a division's time.  high < 1 / count, so that infinities
 * stay. */
typedef struct { float high, low; } reciprocal;
static reciprocal reciprocal_of(int count) {
  const double exact = 1.0 / count;
  float high = (float)exact;
  if ((double)high >= exact) high = nextafterf(high, 0);
  return (reciprocal){high, (float)(exact - (double)high)};
}

/* One image of stride 1: sizes, ends of rows by the column of a vector's first lane. */
typedef struct {
  const float *x;
  int64_t h, w, n;
  const uint32_t *ends;         /* lanes of first columns, and << 16 of last ones */
  reciprocal full, less, least; /* of 9, 6 and 4 places */
} plane;

PF_INLINE __m512 join_f32(__m512 a, __m512 b, int average) {
  if (average) return a + b;
  return _mm512_max_ps(a, b);
}
PF_INLINE __mmask16 lanes_of(int64_t from, int64_t to) { /* lanes [from, to) of a vector */
  const uint32_t below = to >= 16 ? 0xffffu : to <= 0 ? 0 : (1u << to) - 1;
  return (__mmask16)(from >= 16 ? 0 : from <= 0 ? below : below >> from << from);
}
/* Numbers n ... n + 15 of a plane, each joined with those above and below; t notes what may be a
 * NaN: those below, which were or become the middle ones of other vectors. */
PF_INLINE __m512 joined_rows(const plane *p, int64_t n, int average, __m512 *t) {
  const float *x = p->x + n;
  if (n >= p->w && n + 16 + p->w <= p->n) {
    const __m512 v = _mm512_loadu_ps(x + p->w);
    if (!average) *t += v;
    return join_f32(join_f32(_mm512_loadu_ps(x - p->w), _mm512_loadu_ps(x), average), v, average);
  }
  const __m512 v = _mm512_maskz_loadu_ps(lanes_of(-n, p->n - n), x);
  const __m512 none = average ? _mm512_setzero_ps() : v;
  const __m512 up = _mm512_mask_loadu_ps(none, lanes_of(p->w - n, p->n + p->w - n), x - p->w);
  const __m512 down = _mm512_mask_loadu_ps(none, lanes_of(-p->w - n, p->n - p->w - n), x + p->w);
  if (!average) *t += v + down;
  return join_f32(join_f32(up, v, average), down, average);
}
/* Sums that begin at number n, divided by their places. */
PF_INLINE __m512 shares(const plane *p, int64_t n, __m512 sum, __mmask16 ends, int inside) {
  const __m512 less = _mm512_set1_ps(p->less.high), rest = _mm512_set1_ps(p->less.low);
  __m512 high = _mm512_mask_mov_ps(_mm512_set1_ps(p->full.high), ends, less);
  __m512 low = _mm512_mask_mov_ps(_mm512_set1_ps(p->full.low), ends, rest);
  if (!inside && (n < p->w || n + 16 + p->w > p->n)) {
    const __mmask16 rows = lanes_of(0, p->w - n) | lanes_of(p->n - p->w - n, 16);
    high = _mm512_mask_mov_ps(high, rows, less);
    low = _mm512_mask_mov_ps(low, rows, rest);
    high = _mm512_mask_mov_ps(high, rows & ends, _mm512_set1_ps(p->least.high));
    low = _mm512_mask_mov_ps(low, rows & ends, _mm512_set1_ps(p->least.low));
  }
  return _mm512_fmadd_ps(sum, high, sum * low);
}
/* The same of rows with neighbours. */
PF_INLINE __m512 joined_inside(const plane *p, int64_t n, int average, __m512 *t) {
  const float *x = p->x + n;
  const __m512 down = _mm512_loadu_ps(x + p->w);
  const __m512 v = join_f32(_mm512_loadu_ps(x - p->w), _mm512_loadu_ps(x), average);
  if (!average) *t += down;
  return join_f32(v, down, average);
}
/* The results at number n of the joined rows before, at and after it. */
PF_INLINE __m512 joined_columns(const plane *p, __m512 before, __m512 at, __m512 after, int64_t n,
                                uint32_t ends, const int inside, const int average) {
  const __m512i first = _mm512_castps_si512(before), second = _mm512_castps_si512(at);
  const __m512i third = _mm512_castps_si512(after);
  const __m512 left = _mm512_castsi512_ps(_mm512_alignr_epi32(second, first, 15));
  const __m512 right = _mm512_castsi512_ps(_mm512_alignr_epi32(third, second, 1));
  __m512 r = at;
  if (inside && !ends) {
    r = join_f32(join_f32(left, r, average), right, average);
    if (!average) return r;
    return _mm512_fmadd_ps(r, _mm512_set1_ps(p->full.high), r * _mm512_set1_ps(p->full.low));
  }
  const __mmask16 has_left = (__mmask16)~ends, has_right = (__mmask16)(~ends >> 16);
  if (!average) {
    r = _mm512_mask_max_ps(r, has_left, left, r);
    return _mm512_mask_max_ps(r, has_right, r, right);
  }
  r = _mm512_mask_add_ps(r, has_left, left, r);
  r = _mm512_mask_add_ps(r, has_right, r, right);
  return shares(p, n, r, (__mmask16)(ends | ends >> 16), inside);
}
/* Vectors of joined rows that a step goes by: those before and at number n, which begins in
 * `column`. */
typedef struct {
  __m512 before, at, t;
  int64_t n, column;
} joined;
PF_INLINE void next_vectors(joined *v, int64_t w, int64_t step, __m512 after) {
  v->before = v->at, v->at = after, v->n += 16;
  v->column += v->column + step < w ? step : step - w;
}
/* All whole groups of rows with neighbours.  A group's rows are read before the results of the one
 * ahead are stored: loads wait for stores under way to addresses of the same last 12 bits. */
enum { GROUP = 4 };
#define EACH_OF_GROUP _Pragma("GCC unroll 4") for (int i = 0; i < GROUP; i++)
PF_INLINE void groups_3x3(const plane *p, joined *v, float *y, const int stream,
                          const int average) {
  const int64_t last = p->n - p->w - 32 * GROUP, step = 16 % p->w;
  __m512 here[GROUP], next[GROUP + 1];
  if (v->n < p->w || v->n > last) return;
  EACH_OF_GROUP here[i] = i ? joined_inside(p, v->n + 16 * i, average, &v->t) : v->at;
  while (v->n <= last) {
    EACH_OF_GROUP next[i] = joined_inside(p, v->n + 16 * (GROUP + i), average, &v->t);
    EACH_OF_GROUP {
      const __m512 after = i + 1 < GROUP ? here[i + 1] : next[0];
      here[i] = joined_columns(p, v->before, v->at, after, v->n, p->ends[v->column], 1, average);
      next_vectors(v, p->w, step, after);
    }
    EACH_OF_GROUP {
      float *to = y + v->n - 16 * (GROUP - i);
      if (stream) _mm512_stream_ps(to, here[i]);
      else _mm512_storeu_ps(to, here[i]);
      here[i] = next[i];
    }
  }
}
PF_INLINE int joined_3x3(const plane *p, float *y, const int stream, const int average) {
  const int64_t step = 16 % p->w, head = (int64_t)((uintptr_t)y / sizeof(float) % 16);
  joined v = {.t = _mm512_setzero_ps(), .n = -head, .column = (p->w - head % p->w) % p->w};
  v.before = joined_rows(p, v.n - 16, average, &v.t), v.at = joined_rows(p, v.n, average, &v.t);
  while (v.n < p->n) {
    groups_3x3(p, &v, y, stream, average);
    const int64_t n = v.n;
    const __m512 after = joined_rows(p, n + 16, average, &v.t);
    const __m512 r = joined_columns(p, v.before, v.at, after, n, p->ends[v.column], 0, average);
    if (n < 0 || n + 16 > p->n) _mm512_mask_storeu_ps(y + n, lanes_of(-n, p->n - n), r);
    else if (stream) _mm512_stream_ps(y + n, r);
    else _mm512_storeu_ps(y + n, r);
    next_vectors(&v, p->w, step, after);
  }
  return _mm512_cmp_ps_mask(v.t, v.t, _CMP_UNORD_Q) != 0;
}

/* Functions of their own: a register that is saved in the loop is a store beside those past the
 * caches, which waits for them. */
__attribute__((noinline)) static int plane_maxima(plane p, float *y, int stream) {
  return joined_3x3(&p, y, stream, 0);
}
__attribute__((noinline)) static int plane_averages(plane p, float *y, int stream) {
  return joined_3x3(&p, y, stream, 1);
}

/* The vectors of a plane's joined rows, one after another, for windows k rows high, 2 apart.  Two
 * rows read in turn are no stream the processor sees: it is told what is read AHEAD rows later, and
 * FAR rows later for the second cache (a tenth where the third one is far). */
enum { AHEAD = 4, FAR = 12 };
typedef struct {
  const pf_pool *p;
  const float *x, *row[3];
  int64_t w, column, o;
} vectors_of;
PF_INLINE void next_row(vectors_of *v) {
  const pf_span w = pf_pool_window(v->p, 1, PF_MIN(v->o, v->p->out[1] - 1));
  for (int64_t r = 0; r < 3; r++) v->row[r] = v->x + PF_MIN(w.lo + r, w.hi - 1) * v->w;
  v->column = 0, v->o++;
}
PF_INLINE __m512 next_vector(vectors_of *v, const int k, __m512 *t) {
  const __m512 a = _mm512_loadu_ps(v->row[0] + v->column);
  const __m512 b = _mm512_loadu_ps(v->row[1] + v->column);
  __m512 r = _mm512_max_ps(a, b);
  const char *near = (const char *)(v->row[0] + AHEAD * v->w + 2 * v->column);
  const char *far = (const char *)(v->row[0] + FAR * v->w + 2 * v->column);
  _mm_prefetch(near, _MM_HINT_T0);
  _mm_prefetch(near + 64, _MM_HINT_T0);
  _mm_prefetch(far, _MM_HINT_T1);
  _mm_prefetch(far + 64, _MM_HINT_T1);
  *t += a;
  *t += b;
  if (k == 3) {
    const __m512 c = _mm512_loadu_ps(v->row[2] + v->column);
    r = _mm512_max_ps(r, c);
    *t += c;
  }
  v->column += 16;
  if (v->column == v->w) next_row(v);
  return r;
}
PF_INLINE int joined_stride_2(const pf_pool *p, const float *x, float *y, int stream, const int k) {
  const int64_t w = p->in[2], ow = p->out[2], n = p->out[1] * ow;
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  vectors_of v = {.p = p, .x = x, .w = w};
  next_row(&v);
  __m512 t = _mm512_setzero_ps(), a = next_vector(&v, k, &t), b = next_vector(&v, k, &t);
  int64_t end = ow - 1; /* the next last column, from the vector's first lane */
  stream &= (uintptr_t)y % 64 == 0;
  for (int64_t i = 0; i < n; i += 16) {
    const __m512 c = next_vector(&v, k, &t), d = next_vector(&v, k, &t);
    const __m512 first = _mm512_permutex2var_ps(a, even, b);
    __m512 r = _mm512_max_ps(first, _mm512_permutex2var_ps(a, odd, b));
    if (k == 3) {
      const __m512 after = _mm512_permutex2var_ps(c, even, d);
      const __m512i third =
          _mm512_alignr_epi32(_mm512_castps_si512(after), _mm512_castps_si512(first), 1);
      uint32_t ends = 0;
      for (; end < 16; end += ow) ends |= 1u << end;
      r = _mm512_mask_max_ps(r, (__mmask16)~ends, r, _mm512_castsi512_ps(third));
    }
    end -= 16;
    if (i + 16 > n) _mm512_mask_storeu_ps(y + i, lanes_of(0, n - i), r);
    else if (stream) _mm512_stream_ps(y + i, r);
    else _mm512_storeu_ps(y + i, r);
    a = c, b = d;
  }
  return _mm512_cmp_ps_mask(t, t, _CMP_UNORD_Q) != 0;
}

__attribute__((noinline)) static int plane_of_stride_2(const pf_pool *p, const float *x, float *y,
                                                       int stream) {
  return p->k[2] == 3 ? joined_stride_2(p, x, y, stream, 3) : joined_stride_2(p, x, y, stream, 2);
}

/* Image i. */
PF_INLINE int plane_of(const job *j, int64_t i, const int average) {
  const pf_pool *p = j->p;
  const int64_t in = p->in[1] * p->in[2], out = p->out[1] * p->out[2];
  const float *x = (const float *)j->x + i * in;
  float *y = (float *)j->y + i * out;
  if (average || p->stride[2] == 1) {
    const plane a = {x,       p->in[1],         p->in[2],         in,
                     j->ends, reciprocal_of(9), reciprocal_of(6), reciprocal_of(4)};
    if (average) return plane_averages(a, y, j->stream);
    return plane_maxima(a, y, j->stream);
  }
  return plane_of_stride_2(p, x, y, j->stream);
}
#endif

/* Whether images are done here; the ends of rows. */
static pf_status set_planes(pf_ctx *c, job *j, int32_t type, int max) {
#if defined(__AVX512F__)
  enum { FEW = 8 }; /* images that are no work for threads */
  const pf_pool *p = j->p;
  const int64_t k = p->k[2], s = p->stride[2], w = p->in[2];
  if (type != PF_FLOAT32 || p->n < FEW || p->c != 1 || p->in[0] != 1 || p->out[0] != 1 ||
      p->k[1] != k || p->stride[1] != s || !j->flat.block) /* maxima with a NaN go by `flat` */
    return PF_OK;
  if (s == 2 && max && (k == 2 || k == 3) && w % 16 == 0 && 2 * p->out[2] == w && !p->before[2])
    j->planes = 1;
  if (s != 1 || k != 3 || p->in[1] != p->out[1] || w != p->out[2] || p->in[1] < 2 || w < 2 ||
      p->before[1] != 1 || p->before[2] != 1) /* explicit padding may be on one side only */
    return PF_OK;
  uint32_t *ends = c->host->scratch(c, (uint64_t)w * sizeof *ends, 64);
  if (!ends) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the ends of rows");
  for (int64_t column = 0; column < w; column++) {
    ends[column] = 0;
    for (int64_t i = (w - column) % w; i < 16; i += w) ends[column] |= 1u << i;
    for (int64_t i = w - 1 - column; i < 16; i += w) ends[column] |= 0x10000u << i;
  }
  j->ends = ends, j->planes = 1;
#endif
  return PF_OK;
}
