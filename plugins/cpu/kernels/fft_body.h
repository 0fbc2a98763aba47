/* fft_body.h - complex Fourier transforms of any length, for one real type.  Included by fft.c with
 * REAL and FFT(name) defined.
 *
 * Method: Stockham's autosort transform by factors 4, 2, 3, 5 and other small primes; lengths with
 * a prime factor above MOST_PRIME by Bluestein's chirp (1970): a convolution of a length that is a
 * power of two.  The inverse exchanges real and imaginary parts before and after.
 *
 * Invariants: a plan is read-only after make_plan; `run` needs 3 * room complex numbers of work.
 */

typedef struct { REAL re, im; } FFT(number);
typedef struct FFT(plan) {
  int64_t n, room;                     /* length; complex numbers of one work buffer */
  int factors, factor[64];
  FFT(number) *w;                      /* exp(-2 pi i k / n), k < n */
  FFT(number) *chirp, *filter;         /* Bluestein: exp(-pi i k^2 / n), the filter's spectrum */
  struct FFT(plan) *inner;
} FFT(plan);

PF_INLINE FFT(number) FFT(times)(FFT(number) a, FFT(number) b) {
  return (FFT(number)){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
PF_INLINE FFT(number) FFT(plus)(FFT(number) a, FFT(number) b) {
  return (FFT(number)){a.re + b.re, a.im + b.im};
}
PF_INLINE FFT(number) FFT(minus)(FFT(number) a, FFT(number) b) {
  return (FFT(number)){a.re - b.re, a.im - b.im};
}

/* ---------------------------------------------------------------- one stage */
/* y[q + s (r p + j)] = w^(j p s) * sum over k of x[q + s (p + m k)] * w_r^(j k) */
static void FFT(stage2)(const FFT(plan) *f, int64_t s, int64_t m, const FFT(number) *x,
                        FFT(number) *y) {
  for (int64_t p = 0; p < m; p++) {
    FFT(number) w = f->w[p * s];
    for (int64_t q = 0; q < s; q++) {
      FFT(number) a = x[q + s * p], b = x[q + s * (p + m)];
      y[q + s * 2 * p] = FFT(plus)(a, b);
      y[q + s * (2 * p + 1)] = FFT(times)(FFT(minus)(a, b), w);
    }
  }
}
static void FFT(stage4)(const FFT(plan) *f, int64_t s, int64_t m, const FFT(number) *x,
                        FFT(number) *y) {
  for (int64_t p = 0; p < m; p++) {
    FFT(number) w1 = f->w[p * s], w2 = f->w[2 * p * s], w3 = f->w[3 * p * s];
    for (int64_t q = 0; q < s; q++) {
      FFT(number) a = x[q + s * p], b = x[q + s * (p + m)], c = x[q + s * (p + 2 * m)];
      FFT(number) d = x[q + s * (p + 3 * m)];
      FFT(number) ac = FFT(plus)(a, c), ad = FFT(minus)(a, c), bd = FFT(plus)(b, d);
      FFT(number) t = FFT(minus)(b, d), turned = {t.im, -t.re};     /* -i (b - d) */
      y[q + s * 4 * p] = FFT(plus)(ac, bd);
      y[q + s * (4 * p + 1)] = FFT(times)(FFT(plus)(ad, turned), w1);
      y[q + s * (4 * p + 2)] = FFT(times)(FFT(minus)(ac, bd), w2);
      y[q + s * (4 * p + 3)] = FFT(times)(FFT(minus)(ad, turned), w3);
    }
  }
}
static void FFT(stage)(const FFT(plan) *f, int r, int64_t s, int64_t m, const FFT(number) *x,
                       FFT(number) *y) {
  int64_t step = f->n / r;             /* w_r = w^step */
  for (int64_t p = 0; p < m; p++)
    for (int j = 0; j < r; j++) {
      FFT(number) turn = f->w[j * p * s];
      for (int64_t q = 0; q < s; q++) {
        FFT(number) sum = x[q + s * p];
        for (int k = 1; k < r; k++) {
          FFT(number) w = f->w[(int64_t)(j * k % r) * step];
          sum = FFT(plus)(sum, FFT(times)(x[q + s * (p + m * k)], w));
        }
        y[q + s * (r * p + j)] = FFT(times)(sum, turn);
      }
    }
}

/* x, transformed; the result is in the returned one of x and y */
static FFT(number) *FFT(stages)(const FFT(plan) *f, FFT(number) *x, FFT(number) *y) {
  int64_t s = 1, left = f->n;
  for (int i = 0; i < f->factors; i++) {
    int r = f->factor[i];
    left /= r;
    if (r == 4) FFT(stage4)(f, s, left, x, y);
    else if (r == 2) FFT(stage2)(f, s, left, x, y);
    else FFT(stage)(f, r, s, left, x, y);
    s *= r;
    FFT(number) *t = x;
    x = y, y = t;
  }
  return x;
}
/* x [n] in place; work: 2 * room more numbers */
static void FFT(run)(const FFT(plan) *f, FFT(number) *x, FFT(number) *work) {
  if (!f->inner) {
    FFT(number) *y = FFT(stages)(f, x, work);
    if (y != x) memcpy(x, y, (size_t)f->n * sizeof *x);
    return;
  }
  int64_t n = f->n, size = f->inner->n;
  for (int64_t k = 0; k < n; k++) work[k] = FFT(times)(x[k], f->chirp[k]);
  memset(work + n, 0, (size_t)(size - n) * sizeof *work);
  FFT(number) *z = FFT(stages)(f->inner, work, work + size);
  FFT(number) *other = z == work ? work + size : work;
  for (int64_t k = 0; k < size; k++) {           /* exchanged: the next transform is the inverse */
    FFT(number) v = FFT(times)(z[k], f->filter[k]);
    z[k] = (FFT(number)){v.im, v.re};
  }
  z = FFT(stages)(f->inner, z, other);
  for (int64_t k = 0; k < n; k++)
    x[k] = FFT(times)((FFT(number)){z[k].im, z[k].re}, f->chirp[k]);
}

/* ---------------------------------------------------------------- plans */
/* w[k] = exp(-2 pi i k / n): products of two short tables in double */
static int FFT(roots)(pf_ctx *c, int64_t n, FFT(number) **out) {
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

static int FFT(make_plan)(pf_ctx *c, int64_t n, FFT(plan) *f);
static int FFT(make_chirp)(pf_ctx *c, FFT(plan) *f) {
  int64_t n = f->n, size = 1;
  FFT(number) *twice;
  while (size < 2 * n - 1) size *= 2;
  f->inner = c->host->scratch(c, sizeof *f, 64);
  f->chirp = c->host->scratch(c, (uint64_t)n * sizeof *f->chirp, 64);
  f->filter = c->host->scratch(c, (uint64_t)size * sizeof *f->filter, 64);
  FFT(number) *work = c->host->scratch(c, (uint64_t)size * sizeof *work, 64);
  if (!f->inner || !f->chirp || !f->filter || !work) return 0;
  if (!FFT(make_plan)(c, size, f->inner) || !FFT(roots)(c, 2 * n, &twice)) return 0;
  memset(f->filter, 0, (size_t)size * sizeof *work);
  for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
    FFT(number) w = twice[square];     /* exp(-2 pi i k^2 / 2n) */
    REAL scale = (REAL)1 / (REAL)size;
    f->chirp[k] = w;
    f->filter[k] = f->filter[k ? size - k : 0] = (FFT(number)){w.re * scale, -w.im * scale};
  }
  FFT(number) *z = FFT(stages)(f->inner, f->filter, work);
  if (z != f->filter) memcpy(f->filter, z, (size_t)size * sizeof *z);
  f->room = size;
  return 1;
}
/* 0: out of memory */
static int FFT(make_plan)(pf_ctx *c, int64_t n, FFT(plan) *f) {
  int64_t left = n;
  *f = (FFT(plan)){.n = n, .room = n};
  while (left % 4 == 0) f->factor[f->factors++] = 4, left /= 4;
  for (int r = 2; r <= MOST_PRIME && left > 1; r++)
    while (left % r == 0) f->factor[f->factors++] = r, left /= r;
  if (left > 1) return FFT(make_chirp)(c, f);
  return FFT(roots)(c, n, &f->w);
}

/* ---------------------------------------------------------------- lines of an array */
typedef struct {
  const FFT(plan) *plan;
  FFT(number) *data, *work;            /* in place; a `space` per worker */
  int64_t stride;                      /* between the numbers of a line */
  int inverse;
} FFT(lines);

static FFT(number) *FFT(space)(const FFT(plan) *f, FFT(number) *work, int32_t worker) {
  return work + worker * (2 * f->room + SIDE_BY_SIDE * f->n);
}
/* `count` lines that start beside each other at d, gathered together so that cache lines are used
 * whole, and put back */
static void FFT(gather)(const FFT(lines) *j, const FFT(number) *d, FFT(number) *x, int64_t count) {
  int64_t n = j->plan->n;
  REAL scale = j->inverse ? (REAL)1 / (REAL)n : 1;
  for (int64_t k = 0; k < n; k++)
    for (int64_t b = 0; b < count; b++) {
      FFT(number) v = d[k * j->stride + b];
      x[b * n + k] = j->inverse ? (FFT(number)){v.im * scale, v.re * scale} : v;
    }
}
static void FFT(scatter)(const FFT(lines) *j, FFT(number) *d, const FFT(number) *x, int64_t count) {
  int64_t n = j->plan->n;
  for (int64_t k = 0; k < n; k++)
    for (int64_t b = 0; b < count; b++) {
      FFT(number) v = x[b * n + k];
      d[k * j->stride + b] = j->inverse ? (FFT(number)){v.im, v.re} : v;
    }
}
static void FFT(transform_lines)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const FFT(lines) *j = arg;
  int64_t n = j->plan->n, count;
  FFT(number) *x = FFT(space)(j->plan, j->work, worker);
  for (int64_t i = lo; i < hi; i += count) {
    FFT(number) *d = j->data + i / j->stride * n * j->stride + i % j->stride;
    count = PF_MIN(PF_MIN(hi - i, SIDE_BY_SIDE), j->stride - i % j->stride);
    FFT(gather)(j, d, x, count);
    for (int64_t b = 0; b < count; b++) FFT(run)(j->plan, x + b * n, x + SIDE_BY_SIDE * n);
    FFT(scatter)(j, d, x, count);
  }
}
static FFT(number) *FFT(work_for)(pf_ctx *c, const FFT(plan) *f) {
  int64_t each = 2 * f->room + SIDE_BY_SIDE * f->n;
  return c->host->scratch(c, (uint64_t)(each * c->host->workers(c)) * sizeof(FFT(number)), 64);
}
static int64_t FFT(grain)(const FFT(plan) *f) { return pf_grain(f->room * 24); }

/* data of shape dims [nd], along axis `axis` */
static pf_status FFT(along)(pf_ctx *c, FFT(number) *data, const int64_t *dims, int32_t nd,
                            int32_t axis, int inverse) {
  FFT(plan) f;
  FFT(lines) j = {&f, data, NULL, pf_product(dims, axis + 1, nd), inverse};
  int64_t lines = pf_product(dims, 0, axis) * j.stride;
  if (dims[axis] <= 1 || lines == 0) return PF_OK;
  if (!FFT(make_plan)(c, dims[axis], &f) || !(j.work = FFT(work_for)(c, &f)))
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a Fourier transform");
  return pf_parallel(c, lines, FFT(grain)(&f), FFT(transform_lines), &j);
}

/* ---------------------------------------------------------------- real lines, two at a time */
typedef struct {
  const FFT(plan) *plan;
  const corner *from;                  /* where line i starts in the input */
  const void *in;
  void *out;
  FFT(number) *work;
  int64_t lines;
} FFT(real_lines);

/* Z = X + iY of two real lines; 2 X(k) = Z(k) + conj Z(n-k), 2i Y(k) = Z(k) - conj Z(n-k) */
static void FFT(forward_pairs)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const FFT(real_lines) *j = arg;
  int64_t n = j->plan->n, half = n / 2 + 1;
  FFT(number) *z = FFT(space)(j->plan, j->work, worker);
  for (int64_t i = lo; i < hi; i++) {
    int two = 2 * i + 1 < j->lines;
    const REAL *a = (const REAL *)j->in + start_of(j->from, 2 * i);
    const REAL *b = (const REAL *)j->in + start_of(j->from, 2 * i + two);
    for (int64_t k = 0; k < n; k++) z[k] = (FFT(number)){a[k], two ? b[k] : 0};
    if (n > 1) FFT(run)(j->plan, z, z + n);
    FFT(number) *x = (FFT(number) *)j->out + 2 * i * half, *y = x + half;
    for (int64_t k = 0; k < half; k++) {
      FFT(number) p = z[k], q = z[k ? n - k : 0];
      x[k] = (FFT(number)){(p.re + q.re) / 2, (p.im - q.im) / 2};
      if (two) y[k] = (FFT(number)){(p.im + q.im) / 2, (q.re - p.re) / 2};
    }
  }
}
/* the other way: real parts are the first line, imaginary parts the second */
static void FFT(backward_pairs)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const FFT(real_lines) *j = arg;
  int64_t n = j->plan->n, half = n / 2 + 1;
  FFT(number) *z = FFT(space)(j->plan, j->work, worker);
  REAL scale = (REAL)1 / (REAL)n;
  for (int64_t i = lo; i < hi; i++) {
    int two = 2 * i + 1 < j->lines;
    const FFT(number) *a = (const FFT(number) *)j->in + 2 * i * half, *b = two ? a + half : a;
    for (int64_t k = 0; k < n; k++) {
      int64_t at = k < half ? k : n - k;
      REAL sign = k < half ? 1 : -1, edge = k == 0 || 2 * k == n ? 0 : 1; /* no imaginary part */
      FFT(number) x = {a[at].re, sign * edge * a[at].im};
      FFT(number) y = {two ? b[at].re : 0, two ? sign * edge * b[at].im : 0};
      z[k] = (FFT(number)){(x.im + y.re) * scale, (x.re - y.im) * scale};  /* exchanged X + iY */
    }
    if (n > 1) FFT(run)(j->plan, z, z + n);
    REAL *p = (REAL *)j->out + 2 * i * n;
    for (int64_t k = 0; k < n; k++) {
      p[k] = z[k].im;
      if (two) p[n + k] = z[k].re;
    }
  }
}
static pf_status FFT(real)(pf_ctx *c, const corner *from, const void *in, void *out, int64_t n,
                           int64_t lines, int inverse) {
  FFT(plan) f;
  FFT(real_lines) j = {&f, from, in, out, NULL, lines};
  if (!FFT(make_plan)(c, n, &f) || !(j.work = FFT(work_for)(c, &f)))
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a Fourier transform");
  return pf_parallel(c, (lines + 1) / 2, FFT(grain)(&f),
                     inverse ? FFT(backward_pairs) : FFT(forward_pairs), &j);
}
