/* fft_body.h - Fourier transforms of any length, for the real type of tile_begin.h.  Included by
 * fft.c with REAL and FFT(name) defined.
 *
 * Method: Stockham's autosort transform by factors 4, 2, 3, 5 and other small primes, of as many
 * lines side by side as a vector has lanes.  A long line, or one of few, is cut in two: n = n1 n2,
 * n2 transforms of length n1 side by side, a turn, and n1 of length n2 (Bailey's four steps, 1990).
 * Lengths with a prime factor above MOST_PRIME go by Bluestein's chirp (1970): a convolution of a
 * length that is a power of two.  The inverse exchanges real and imaginary parts before and after.
 *
 * Invariants: a plan is read-only after make_plan; length and number of lines decide how a line is
 * transformed, never its place or the threads.
 */

typedef struct { REAL re, im; } FFT(number);
typedef struct { V re, im; } FFT(wide); /* of VL lines, the same place of each */
typedef struct FFT(plan) {
  int64_t n;
  int64_t room; /* wide numbers that `run` needs in each of two places */
  int factors, factor[64];
  FFT(number) * w;              /* exp(-2 pi i k / n), k < n */
  FFT(number) * chirp, *filter; /* Bluestein: exp(-pi i k^2 / n), the filter's spectrum */
  struct FFT(plan) * inner;
  struct FFT(plan) * first, *second; /* of n1 and n2, where single lines are cut; or NULL */
  FFT(number) * turn;                /* exp(-2 pi i j k / n), [n1, n2] */
} FFT(plan);

PF_INLINE FFT(number) FFT(product)(FFT(number) a, FFT(number) b) {
  return (FFT(number)){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
PF_INLINE FFT(wide) FFT(times)(FFT(wide) a, FFT(number) w) {
  const V re = V_SET(w.re), im = V_SET(w.im);
  return (FFT(wide)){V_FMA(a.re, re, -(a.im * im)), V_FMA(a.re, im, a.im * re)};
}
PF_INLINE FFT(wide) FFT(plus)(FFT(wide) a, FFT(wide) b) {
  return (FFT(wide)){a.re + b.re, a.im + b.im};
}
PF_INLINE FFT(wide) FFT(minus)(FFT(wide) a, FFT(wide) b) {
  return (FFT(wide)){a.re - b.re, a.im - b.im};
}
/* VL numbers side by side */
PF_INLINE FFT(wide) FFT(load)(const FFT(number) * p) {
  return (FFT(wide)){FFT(evens)(&p->re), FFT(odds)(&p->re)};
}
PF_INLINE void FFT(save)(FFT(number) * p, FFT(wide) v) { FFT(zip)(&p->re, v.re, v.im); }

/* ---------------------------------------------------------------- one stage */
/* y[q + s (r p + j)] = w^(j p s) * sum over k of x[q + s (p + m k)] * w_r^(j k) */
static void FFT(stage2)(const FFT(plan) * f, int64_t s, int64_t m, const FFT(wide) * x,
                        FFT(wide) * y) {
  for (int64_t p = 0; p < m; p++) {
    const FFT(number) w = f->w[p * s];
    for (int64_t q = 0; q < s; q++) {
      const FFT(wide) a = x[q + s * p], b = x[q + s * (p + m)];
      y[q + s * 2 * p] = FFT(plus)(a, b);
      y[q + s * (2 * p + 1)] = FFT(times)(FFT(minus)(a, b), w);
    }
  }
}
static void FFT(stage4)(const FFT(plan) * f, int64_t s, int64_t m, const FFT(wide) * x,
                        FFT(wide) * y) {
  for (int64_t p = 0; p < m; p++) {
    const FFT(number) w1 = f->w[p * s], w2 = f->w[2 * p * s], w3 = f->w[3 * p * s];
    for (int64_t q = 0; q < s; q++) {
      const FFT(wide) a = x[q + s * p], b = x[q + s * (p + m)], c = x[q + s * (p + 2 * m)];
      const FFT(wide) d = x[q + s * (p + 3 * m)];
      const FFT(wide) ac = FFT(plus)(a, c), ad = FFT(minus)(a, c), bd = FFT(plus)(b, d);
      const FFT(wide) t = FFT(minus)(b, d), turned = {t.im, -t.re}; /* -i (b - d) */
      y[q + s * 4 * p] = FFT(plus)(ac, bd);
      y[q + s * (4 * p + 1)] = FFT(times)(FFT(plus)(ad, turned), w1);
      y[q + s * (4 * p + 2)] = FFT(times)(FFT(minus)(ac, bd), w2);
      y[q + s * (4 * p + 3)] = FFT(times)(FFT(minus)(ad, turned), w3);
    }
  }
}
/* Odd r: sums and differences of x[k] and x[r - k] serve outputs j and r - j. */
PF_INLINE void FFT(stage_odd)(const FFT(plan) * f, const int r, int64_t s, int64_t m,
                              const FFT(wide) * x, FFT(wide) * y) {
  const int64_t step = f->n / r; /* w_r = w^step */
  for (int64_t p = 0; p < m; p++)
    for (int64_t q = 0; q < s; q++) {
      const FFT(wide) first = x[q + s * p];
      FFT(wide) plus[MOST_PRIME / 2], minus[MOST_PRIME / 2], all = first;
      for (int k = 1; k <= r / 2; k++) {
        const FFT(wide) a = x[q + s * (p + m * k)], b = x[q + s * (p + m * (r - k))];
        plus[k - 1] = FFT(plus)(a, b), minus[k - 1] = FFT(minus)(a, b);
        all = FFT(plus)(all, plus[k - 1]);
      }
      y[q + s * r * p] = all;
      for (int j = 1; j <= r / 2; j++) {
        FFT(wide) even = first, odd = {{0}, {0}};
        for (int k = 1; k <= r / 2; k++) {
          const FFT(number) w = f->w[(int64_t)(j * k % r) * step];
          const V re = V_SET(w.re), im = V_SET(w.im);
          even.re = V_FMA(plus[k - 1].re, re, even.re);
          even.im = V_FMA(plus[k - 1].im, re, even.im);
          odd.re = V_FMA(minus[k - 1].im, im, odd.re);
          odd.im = V_FMA(minus[k - 1].re, im, odd.im);
        }
        const FFT(wide) one = {even.re - odd.re, even.im + odd.im};
        const FFT(wide) other = {even.re + odd.re, even.im - odd.im};
        y[q + s * (r * p + j)] = FFT(times)(one, f->w[j * p * s]);
        y[q + s * (r * p + r - j)] = FFT(times)(other, f->w[(r - j) * p * s]);
      }
    }
}

/* x, transformed; the result is in the returned one of x and y */
static FFT(wide) * FFT(stages)(const FFT(plan) * f, FFT(wide) * x, FFT(wide) * y) {
  int64_t s = 1, left = f->n;
  for (int i = 0; i < f->factors; i++) {
    const int r = f->factor[i];
    left /= r;
    if (r == 4) FFT(stage4)(f, s, left, x, y);
    else if (r == 2) FFT(stage2)(f, s, left, x, y);
    else if (r == 3) FFT(stage_odd)(f, 3, s, left, x, y);
    else if (r == 5) FFT(stage_odd)(f, 5, s, left, x, y);
    else FFT(stage_odd)(f, r, s, left, x, y);
    s *= r;
    FFT(wide) *t = x;
    x = y, y = t;
  }
  return x;
}
/* x [room], of which n count, in place or in work [room]: where the result is */
static FFT(wide) * FFT(run)(const FFT(plan) * f, FFT(wide) * x, FFT(wide) * work) {
  if (!f->inner) return FFT(stages)(f, x, work);
  const int64_t n = f->n, size = f->inner->n;
  for (int64_t k = 0; k < n; k++) x[k] = FFT(times)(x[k], f->chirp[k]);
  memset(x + n, 0, (size_t)(size - n) * sizeof *x);
  FFT(wide) *z = FFT(stages)(f->inner, x, work);
  for (int64_t k = 0; k < size; k++) { /* exchanged: the next transform is the inverse */
    const FFT(wide) v = FFT(times)(z[k], f->filter[k]);
    z[k] = (FFT(wide)){v.im, v.re};
  }
  z = FFT(stages)(f->inner, z, z == x ? work : x);
  for (int64_t k = 0; k < n; k++) z[k] = FFT(times)((FFT(wide)){z[k].im, z[k].re}, f->chirp[k]);
  return z;
}

/* ---------------------------------------------------------------- one line */
/* x [n] to y [n], another place, in four steps; middle: n + VL * n2 numbers; a, b: the longer of n1
 * and n2 */
static void FFT(cut_line)(const FFT(plan) * f, const FFT(number) * x, FFT(number) * y,
                          FFT(number) * middle, FFT(wide) * a, FFT(wide) * b) {
  const int64_t n1 = f->first->n, n2 = f->second->n;
  for (int64_t j = 0; j < n2; j += VL) { /* the last ones are done again with others */
    const int64_t at = PF_MIN(j, n2 - VL);
    for (int64_t k = 0; k < n1; k++) a[k] = FFT(load)(x + k * n2 + at);
    FFT(wide) *z = FFT(stages)(f->first, a, b);
    for (int64_t k = 0; k < n1; k++) {
      const FFT(wide) w = FFT(load)(f->turn + k * n2 + at);
      FFT(save)(middle + k * n2 + at, (FFT(wide)){V_FMA(z[k].re, w.re, -(z[k].im * w.im)),
                                                  V_FMA(z[k].re, w.im, z[k].im * w.re)});
    }
  }
  FFT(number) *turned = middle + f->n;
  for (int64_t j = 0; j < n1; j += VL) {
    const int64_t at = PF_MIN(j, n1 - VL);
    pf_movers()->transpose(sizeof *x, middle + at * n2, n2, turned, VL, VL, n2);
    for (int64_t k = 0; k < n2; k++) a[k] = FFT(load)(turned + k * VL);
    FFT(wide) *z = FFT(stages)(f->second, a, b);
    for (int64_t k = 0; k < n2; k++) FFT(save)(y + k * n1 + at, z[k]);
  }
}
/* x [n] in place; work as line_room says */
static void FFT(line)(const FFT(plan) * f, FFT(number) * x, FFT(number) * work) {
  const FFT(plan) *cut = f->inner ? f->inner : f;
  FFT(wide) *a = (FFT(wide) *)work, *b = a + PF_MAX(cut->first->n, cut->second->n);
  FFT(number) *y = (FFT(number) *)(b + PF_MAX(cut->first->n, cut->second->n));
  FFT(number) *middle = y + cut->n, *z = middle + cut->n + VL * cut->second->n;
  const int64_t n = f->n, size = cut->n;
  if (!f->inner) {
    FFT(cut_line)(f, x, y, middle, a, b);
    memcpy(x, y, (size_t)n * sizeof *x);
    return;
  }
  for (int64_t k = 0; k < n; k++) z[k] = FFT(product)(x[k], f->chirp[k]);
  memset(z + n, 0, (size_t)(size - n) * sizeof *z);
  FFT(cut_line)(cut, z, y, middle, a, b);
  for (int64_t k = 0; k < size; k++) {
    const FFT(number) v = FFT(product)(y[k], f->filter[k]);
    z[k] = (FFT(number)){v.im, v.re};
  }
  FFT(cut_line)(cut, z, y, middle, a, b);
  for (int64_t k = 0; k < n; k++) x[k] = FFT(product)((FFT(number)){y[k].im, y[k].re}, f->chirp[k]);
}
static int64_t FFT(line_room)(const FFT(plan) * f) { /* numbers, a multiple of a vector's */
  const FFT(plan) *cut = f->inner ? f->inner : f;
  const int64_t longer = PF_MAX(cut->first->n, cut->second->n);
  return (2 * VL * longer + 3 * cut->n + VL * cut->second->n + VL) / VL * VL;
}
/* ---------------------------------------------------------------- plans */
/* w[k] = exp(-2 pi i k / n): products of two short tables in double */
static int FFT(roots)(pf_ctx *c, int64_t n, FFT(number) * *out) {
  int64_t short_n = 1;
  while (short_n * short_n < n) short_n *= 2;
  FFT(number) *w = c->host->scratch(c, (uint64_t)n * sizeof *w, 64);
  double *low = c->host->scratch(c, (uint64_t)short_n * 16, 64);
  if (!w || !low) return 0;
  for (int64_t k = 0; k < short_n; k++) {
    double at = -6.283185307179586 * (double)k / (double)n;
    low[2 * k] = cos(at), low[2 * k + 1] = sin(at);
  }
  for (int64_t first = 0; first < n; first += short_n) {
    double at = -6.283185307179586 * (double)first / (double)n, re = cos(at), im = sin(at);
    for (int64_t k = 0; k < PF_MIN(short_n, n - first); k++) {
      w[first + k].re = (REAL)(re * low[2 * k] - im * low[2 * k + 1]);
      w[first + k].im = (REAL)(re * low[2 * k + 1] + im * low[2 * k]);
    }
  }
  *out = w;
  return 1;
}

static int FFT(make_plan)(pf_ctx *c, int64_t n, int single, FFT(plan) * f);

/* The spectrum of the chirp's conjugate, as one line by the plan that will use it. */
static int FFT(make_chirp)(pf_ctx *c, int single, FFT(plan) * f) {
  int64_t n = f->n, size = VL * VL;
  FFT(number) * twice;
  while (size < 2 * n - 1) size *= 2;
  f->inner = c->host->scratch(c, sizeof *f, 64);
  f->chirp = c->host->scratch(c, (uint64_t)n * sizeof *f->chirp, 64);
  f->filter = c->host->scratch(c, (uint64_t)size * sizeof *f->filter, 64);
  if (!f->inner || !f->chirp || !f->filter || !FFT(make_plan)(c, size, 1, f->inner)) return 0;
  FFT(number) *work = c->host->scratch(c, (uint64_t)FFT(line_room)(f->inner) * sizeof *work, 64);
  if (!work || !FFT(roots)(c, 2 * n, &twice)) return 0;
  memset(f->filter, 0, (size_t)size * sizeof *work);
  for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
    FFT(number) w = twice[square]; /* exp(-2 pi i k^2 / 2n) */
    REAL scale = (REAL)1 / (REAL)size;
    f->chirp[k] = w;
    f->filter[k] = f->filter[k ? size - k : 0] = (FFT(number)){w.re * scale, -w.im * scale};
  }
  FFT(line)(f->inner, f->filter, work);
  f->room = single ? 0 : size;
  return 1;
}
/* n = n1 n2, as even as its factors allow, each at least a vector: where single lines are cut.
 * Returns 0 if memory is out, leaving first NULL where n cannot be cut. */
static int FFT(make_cut)(pf_ctx *c, FFT(plan) * f) {
  int64_t n1 = 0;
  for (int64_t k = VL; k <= f->n / k; k++)
    if (f->n % k == 0 && f->n / k >= VL) n1 = k;
  if (!n1) return 1;
  const int64_t n2 = f->n / n1;
  FFT(plan) *parts = c->host->scratch(c, 2 * sizeof *parts, 64);
  f->turn = c->host->scratch(c, (uint64_t)f->n * sizeof *f->turn, 64);
  if (!parts || !f->turn || !FFT(make_plan)(c, n1, 0, parts) ||
      !FFT(make_plan)(c, n2, 0, parts + 1))
    return 0;
  f->first = parts, f->second = parts + 1;
  for (int64_t k = 0; k < n1; k++)
    for (int64_t j = 0; j < n2; j++) f->turn[k * n2 + j] = f->w[k * j];
  return 1;
}
/* `single`: lines will be transformed one by one, if that can be.  0: out of memory */
static int FFT(make_plan)(pf_ctx *c, int64_t n, int single, FFT(plan) * f) {
  int64_t left = n;
  *f = (FFT(plan)){.n = n, .room = n};
  while (left % 4 == 0) f->factor[f->factors++] = 4, left /= 4;
  for (int r = 2; r <= MOST_PRIME && left > 1; r++)
    while (left % r == 0) f->factor[f->factors++] = r, left /= r;
  if (left > 1) return FFT(make_chirp)(c, single, f);
  return FFT(roots)(c, n, &f->w) && (!single || FFT(make_cut)(c, f));
}

/* ---------------------------------------------------------------- lines of an array */
typedef struct {
  const FFT(plan) * plan;
  FFT(number) * data, *work; /* in place; `each` numbers of work per worker */
  int64_t each, stride;      /* between the numbers of a line */
  int inverse, single;
} FFT(lines);

PF_INLINE FFT(wide) FFT(exchanged)(FFT(wide) v, REAL scale) {
  const V s = V_SET(scale);
  return (FFT(wide)){v.im * s, v.re * s};
}
/* `count` lines whose numbers k are at d + k * step, side by side (fewer than VL: in a copy) */
static void FFT(side_by_side)(const FFT(lines) * j, FFT(number) * d, int64_t step, int64_t count,
                              FFT(wide) * a, FFT(wide) * b) {
  const int64_t n = j->plan->n;
  const REAL scale = j->inverse ? (REAL)1 / (REAL)n : 1;
  FFT(number) some[VL] = {{0}};
  for (int64_t k = 0; k < n; k++) {
    if (count < VL) memcpy(some, d + k * step, (size_t)count * sizeof *d);
    const FFT(wide) v = FFT(load)(count < VL ? some : d + k * step);
    a[k] = j->inverse ? FFT(exchanged)(v, scale) : v;
  }
  const FFT(wide) *z = FFT(run)(j->plan, a, b);
  for (int64_t k = 0; k < n; k++) {
    const FFT(wide) v = j->inverse ? (FFT(wide)){z[k].im, z[k].re} : z[k];
    FFT(save)(count < VL ? some : d + k * step, v);
    if (count < VL) memcpy(d + k * step, some, (size_t)count * sizeof *d);
  }
}
static void FFT(one_line)(const FFT(lines) * j, FFT(number) * d, FFT(number) * work) {
  const int64_t n = j->plan->n, step = j->stride;
  const REAL scale = j->inverse ? (REAL)1 / (REAL)n : 1;
  FFT(number) *x = work + FFT(line_room)(j->plan);
  for (int64_t k = 0; k < n; k++) {
    const FFT(number) v = d[k * step];
    x[k] = j->inverse ? (FFT(number)){v.im * scale, v.re * scale} : v;
  }
  FFT(line)(j->plan, x, work);
  for (int64_t k = 0; k < n; k++) d[k * step] = j->inverse ? (FFT(number)){x[k].im, x[k].re} : x[k];
}
/* Lines [lo, hi), in groups that lie side by side, or are turned to. */
static void FFT(transform_lines)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const FFT(lines) *j = arg;
  const int64_t n = j->plan->n;
  FFT(number) *work = j->work + worker * j->each;
  FFT(wide) *a = (FFT(wide) *)work, *b = a + j->plan->room;
  for (int64_t i = lo, count; i < hi; i += count) {
    FFT(number) *d = j->data + i / j->stride * n * j->stride + i % j->stride;
    count = PF_MIN(hi - i, VL);
    if (j->single) {
      count = 1;
      FFT(one_line)(j, d, work);
    } else if (j->stride == 1) {
      FFT(number) *turned = (FFT(number) *)(b + j->plan->room);
      pf_movers()->transpose(sizeof *d, d, n, turned, VL, count, n);
      FFT(side_by_side)(j, turned, VL, VL, a, b);
      pf_movers()->transpose(sizeof *d, turned, VL, d, n, n, count);
    } else {
      count = PF_MIN(count, j->stride - i % j->stride);
      FFT(side_by_side)(j, d, j->stride, count, a, b);
    }
  }
}
/* Few lines, or long ones, are transformed one by one. */
static int FFT(is_single)(int64_t n, int64_t lines) { return lines < VL / 2 || n > WIDE_NUMBERS; }
/* A plan for `lines` of length n, and work for each worker; `single` may become 0. */
static pf_status FFT(prepare)(pf_ctx *c, int64_t n, int64_t lines, FFT(plan) * f, int *single,
                              int64_t *each, FFT(number) * *work) {
  *single = FFT(is_single)(n, lines);
  int made = FFT(make_plan)(c, n, *single, f);
  if (made && *single && !f->first && !f->inner) *single = 0;
  *each = made ? *single ? FFT(line_room)(f) + n + 1 : 2 * VL * f->room + VL * (n + 1) : 0;
  *each = (*each + VL - 1) / VL * VL;
  *work = made ? c->host->scratch(c, (uint64_t)(*each * c->host->workers(c)) * sizeof **work, 64)
               : NULL;
  return *work ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a Fourier transform");
}

/* data of shape dims [nd], along axis `axis` */
static pf_status FFT(along)(pf_ctx *c, FFT(number) * data, const int64_t *dims, int32_t nd,
                            int32_t axis, int inverse) {
  FFT(plan) f;
  FFT(lines)
  j = {.plan = &f, .data = data, .stride = pf_product(dims, axis + 1, nd), .inverse = inverse};
  const int64_t n = dims[axis], lines = pf_product(dims, 0, axis) * j.stride;
  if (n <= 1 || lines == 0) return PF_OK;
  PF_TRY(FFT(prepare)(c, n, lines, &f, &j.single, &j.each, &j.work));
  const int64_t grain = pf_grain(n * 12);
  return pf_parallel(c, lines, j.single ? grain : (grain + VL - 1) / VL * VL, FFT(transform_lines),
                     &j);
}

/* ---------------------------------------------------------------- real lines */
/* A line of even length n = 2h is transformed as the h numbers x(2k) + i x(2k+1).  Of their
 * spectrum Z and the line's X, with w = exp(-2 pi i k / n),
 *   2 X(k) = s - i w d      2 X(h-k) = conj(s + i w d)     s, d = Z(k) +- conj Z(h-k)
 *     Z(k) = s + i w' d       Z(h-k) = conj(s - i w' d)    s, d = X(k) +- conj X(h-k), w' = conj w
 * (Z twice what it is).  Odd lengths are transformed as complex ones.  Inverses are transforms read
 * backwards. */
typedef struct {
  const FFT(plan) * plan; /* of n / 2, or of n where that is odd */
  const FFT(number) * w;  /* exp(-2 pi i k / n), k < n; NULL where n is odd */
  const corner *from;     /* where line i starts in the input */
  const void *in;
  void *out;
  FFT(number) * work;
  int64_t each, n;
  int single;
} FFT(real_lines);

/* Number k of a line, or of VL lines side by side. */
PF_INLINE FFT(number) FFT(number_at)(const FFT(number) * x, int64_t k) { return x[k]; }
PF_INLINE void FFT(number_put)(FFT(number) * x, int64_t k, FFT(number) v) { x[k] = v; }
PF_INLINE FFT(wide) FFT(wide_at)(const FFT(number) * x, int64_t k) { return FFT(load)(x + k * VL); }
PF_INLINE void FFT(wide_put)(FFT(number) * x, int64_t k, FFT(wide) v) { FFT(save)(x + k * VL, v); }

#define REAL_SPECTRA(kind, R, SET) \
  /* p and q as above: (s + u d) by, conj(s - u d) by */ \
  PF_INLINE void FFT(kind##_woven)(FFT(kind) *p, FFT(kind) *q, FFT(number) u, REAL by) { \
    const R re = SET(u.re), im = SET(u.im), scale = SET(by); \
    const FFT(kind) s = {p->re + q->re, p->im - q->im}, d = {p->re - q->re, p->im + q->im}; \
    const FFT(kind) t = {d.re * re - d.im * im, d.re * im + d.im * re}; \
    *p = (FFT(kind)){(s.re + t.re) * scale, (s.im + t.im) * scale}; \
    *q = (FFT(kind)){(s.re - t.re) * scale, (t.im - s.im) * scale}; \
  } \
  /* Z to X [n / 2 + 1], which may be the same place */ \
  PF_INLINE void FFT(kind##_spectrum)(const FFT(real_lines) *j, const FFT(kind) *z, \
                                      FFT(number) *x) { \
    const int64_t h = j->n / 2; \
    const FFT(kind) first = z[0]; \
    if (!j->w) { \
      FFT(kind##_put)(x, 0, (FFT(kind)){first.re, SET(0)}); \
      for (int64_t k = 1; k <= h; k++) FFT(kind##_put)(x, k, z[k]); \
      return; \
    } \
    FFT(kind##_put)(x, 0, (FFT(kind)){first.re + first.im, SET(0)}); \
    FFT(kind##_put)(x, h, (FFT(kind)){first.re - first.im, SET(0)}); \
    for (int64_t k = 1; k <= h / 2; k++) { \
      FFT(kind) p = z[k], q = z[h - k]; \
      FFT(kind##_woven)(&p, &q, (FFT(number)){j->w[k].im, -j->w[k].re}, (REAL)0.5); \
      FFT(kind##_put)(x, k, p); \
      FFT(kind##_put)(x, h - k, q); \
    } \
  } \
  /* X to Z / n, likewise; imaginary parts of what a real line has none of are not read */ \
  PF_INLINE void FFT(kind##_halves)(const FFT(real_lines) *j, const FFT(number) *x, \
                                    FFT(kind) *z) { \
    const int64_t n = j->n, h = n / 2; \
    const REAL by = (REAL)1 / (REAL)n; \
    const R scale = SET(by), first = FFT(kind##_at)(x, 0).re, last = FFT(kind##_at)(x, h).re; \
    z[0] = (FFT(kind)){first * scale, SET(0)}; \
    for (int64_t k = 1; !j->w && k <= h; k++) { \
      const FFT(kind) v = FFT(kind##_at)(x, k); \
      z[k] = (FFT(kind)){v.re * scale, v.im * scale}; \
      z[n - k] = (FFT(kind)){v.re * scale, -v.im * scale}; \
    } \
    if (!j->w) return; \
    z[0] = (FFT(kind)){(first + last) * scale, (first - last) * scale}; \
    for (int64_t k = 1; k <= h / 2; k++) { \
      FFT(kind) p = FFT(kind##_at)(x, k), q = FFT(kind##_at)(x, h - k); \
      FFT(kind##_woven)(&p, &q, (FFT(number)){j->w[k].im, j->w[k].re}, by); \
      z[k] = p, z[h - k] = q; \
    } \
  }
REAL_SPECTRA(number, REAL, )
REAL_SPECTRA(wide, V, V_SET)
#undef REAL_SPECTRA

/* Real lines [lo, lo + count) to the columns of `rows`. */
static void FFT(read_real)(const FFT(real_lines) * j, int64_t lo, int64_t count, REAL *rows) {
  const REAL *in = j->in;
  for (int64_t i = 0, many; i < count; i += many) {
    const int64_t at = start_of(j->from, lo + i);
    const int64_t next = i + 1 < count ? start_of(j->from, lo + i + 1) - at : 0;
    for (many = 1; i + many < count; many++) /* as many as lie evenly */
      if (start_of(j->from, lo + i + many) != at + many * next) break;
    pf_movers()->transpose(sizeof(REAL), in + at, next, rows + i, VL, many, j->n);
  }
}
/* Up to VL lines, one in each lane. */
static void FFT(forward_wide)(const FFT(real_lines) * j, int64_t lo, int64_t count, FFT(wide) * a,
                              FFT(wide) * b, FFT(number) * rows) {
  const int64_t n = j->n, half = n / 2 + 1;
  REAL *reals = &rows->re;
  if (count < VL) memset(reals, 0, (size_t)(n * VL) * sizeof *reals);
  FFT(read_real)(j, lo, count, reals);
  for (int64_t k = 0; k < j->plan->n; k++)
    a[k] = j->w ? (FFT(wide)){V_LOAD(reals + 2 * k * VL), V_LOAD(reals + (2 * k + 1) * VL)}
                : (FFT(wide)){V_LOAD(reals + k * VL), V_SET(0)};
  FFT(wide_spectrum)(j, FFT(run)(j->plan, a, b), rows);
  pf_movers()->transpose(sizeof *rows, rows, VL, (FFT(number) *)j->out + lo * half, half, half,
                         count);
}
static void FFT(backward_wide)(const FFT(real_lines) * j, int64_t lo, int64_t count, FFT(wide) * a,
                               FFT(wide) * b, FFT(number) * rows) {
  const int64_t n = j->n, half = n / 2 + 1, m = j->plan->n;
  REAL *reals = &rows->re;
  if (count < VL) memset(rows, 0, (size_t)(half * VL) * sizeof *rows);
  pf_movers()->transpose(sizeof *rows, (const FFT(number) *)j->in + lo * half, half, rows, VL,
                         count, half);
  FFT(wide_halves)(j, rows, a);
  const FFT(wide) *z = FFT(run)(j->plan, a, b);
  for (int64_t k = 0; k < m; k++) {
    const FFT(wide) v = z[k ? m - k : 0];
    V_STORE(reals + (j->w ? 2 * k : k) * VL, v.re);
    if (j->w) V_STORE(reals + (2 * k + 1) * VL, v.im);
  }
  pf_movers()->transpose(sizeof(REAL), reals, VL, (REAL *)j->out + lo * n, n, n, count);
}

/* One line by itself. */
static void FFT(forward_one)(const FFT(real_lines) * j, int64_t i, FFT(number) * work) {
  const int64_t n = j->n, half = n / 2 + 1;
  const REAL *x = (const REAL *)j->in + start_of(j->from, i);
  FFT(number) *z = work + FFT(line_room)(j->plan);
  if (j->w) memcpy(z, x, (size_t)n * sizeof *x);
  for (int64_t k = 0; !j->w && k < n; k++) z[k] = (FFT(number)){x[k], 0};
  FFT(line)(j->plan, z, work);
  FFT(number_spectrum)(j, z, z);
  memcpy((FFT(number) *)j->out + i * half, z, (size_t)half * sizeof *z);
}
static void FFT(backward_one)(const FFT(real_lines) * j, int64_t i, FFT(number) * work) {
  const int64_t n = j->n, half = n / 2 + 1, m = j->plan->n;
  FFT(number) *z = work + FFT(line_room)(j->plan);
  REAL *x = (REAL *)j->out + i * n;
  memcpy(z, (const FFT(number) *)j->in + i * half, (size_t)half * sizeof *z);
  FFT(number_halves)(j, z, z);
  FFT(line)(j->plan, z, work);
  for (int64_t k = 0; k < m; k++) {
    const FFT(number) v = z[k ? m - k : 0];
    x[j->w ? 2 * k : k] = v.re;
    if (j->w) x[2 * k + 1] = v.im;
  }
}
#define REAL_LINES(which) \
  static void FFT(which##_lines)(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
    const FFT(real_lines) *j = arg; \
    FFT(number) *work = j->work + worker * j->each; \
    FFT(wide) *a = (FFT(wide) *)work, *b = a + j->plan->room; \
    for (; j->single && lo < hi; lo++) FFT(which##_one)(j, lo, work); \
    for (; lo < hi; lo += VL) \
      FFT(which##_wide)(j, lo, PF_MIN(hi - lo, VL), a, b, (FFT(number) *)(b + j->plan->room)); \
  }
REAL_LINES(forward)
REAL_LINES(backward)
#undef REAL_LINES

static pf_status FFT(real)(pf_ctx *c, const corner *from, const void *in, void *out, int64_t n,
                           int64_t lines, int inverse) {
  FFT(plan) f;
  FFT(number) *w = NULL;
  FFT(real_lines) j = {.plan = &f, .from = from, .in = in, .out = out, .n = n};
  const int64_t m = n % 2 ? n : n / 2, grain = pf_grain(m * 12);
  if (n % 2 == 0 && !FFT(roots)(c, n, &w))
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a Fourier transform");
  j.w = w;
  PF_TRY(FFT(prepare)(c, m, lines, &f, &j.single, &j.each, &j.work));
  return pf_parallel(c, lines, j.single ? grain : (grain + VL - 1) / VL * VL,
                     inverse ? FFT(backward_lines) : FFT(forward_lines), &j);
}
