/* random.cu - RandomUniform, RandomStandardNormal, TruncatedNormal, RandomUniformInt: the CPU
 * plugin's numbers on the GPU.
 *
 * Method: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).  The
 * host gives every call its own range of 128-bit counters, laid out as TensorFlow's kernels do;
 * element i depends on the key, its counter and nothing else. Uniform numbers and integers equal
 * the CPU's bit for bit, normals to the rounding of log, sin and cos.
 */
#include "launch.h"

namespace {

enum { RESERVED = 256 };                    /* counters reserved per element, as TensorFlow does */
struct stream_at { uint64_t key, lo, hi; }; /* the next counter is hi:lo */
struct four { uint32_t x[4]; };
PF_BOTH stream_at skip(stream_at s, uint64_t n) {
  s.lo += n;
  s.hi += s.lo < n;
  return s;
}
PF_BOTH four philox(stream_at s) {
  uint32_t x0 = (uint32_t)s.lo, x1 = (uint32_t)(s.lo >> 32), x2 = (uint32_t)s.hi,
           x3 = (uint32_t)(s.hi >> 32);
  uint32_t k0 = (uint32_t)s.key, k1 = (uint32_t)(s.key >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t a = (uint64_t)x0 * 0xD2511F53u, b = (uint64_t)x2 * 0xCD9E8D57u;
    uint32_t y0 = (uint32_t)(b >> 32) ^ x1 ^ k0, y2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
    x1 = (uint32_t)b, x3 = (uint32_t)a, x0 = y0, x2 = y2;
  }
  return four{{x0, x1, x2, x3}};
}

/* ---------------------------------------------------------------- bits to numbers */
PF_BOTH float unit_f32(uint32_t x) { return bits_as<float>((x & 0x7fffffu) | 0x3f800000u) - 1.0f; }
PF_BOTH double unit_f64(uint32_t hi, uint32_t lo) {
  return bits_as<double>((uint64_t)(hi & 0xfffffu) << 32 | lo | 0x3ff0000000000000u) - 1.0;
}
template <class T> struct unit;
template <> struct unit<float> {
  static PF_BOTH float of(uint32_t x) { return unit_f32(x); }
};
template <> struct unit<f16> {
  static PF_BOTH float of(uint32_t x) { return up(f16{(uint16_t)((x & 0x3ffu) | 0x3c00u)}) - 1.0f; }
};
template <> struct unit<bf16> {
  static PF_BOTH float of(uint32_t x) { return up(bf16{(uint16_t)((x & 0x7fu) | 0x3f80u)}) - 1.0f; }
};

/* Box and Muller: two uniforms to two normals */
struct two_floats { float p, q; };
struct two_doubles { double p, q; };
PF_BOTH two_floats normals_f32(uint32_t a, uint32_t b) {
  float u = unit_f32(a), v = (float)(6.283185307179586 * (double)unit_f32(b));
  u = u < 1.0e-7f ? 1.0e-7f : u;
  float r = sqrtf(-2.0f * logf(u));
  return two_floats{sinf(v) * r, cosf(v) * r};
}
PF_BOTH two_doubles normals_f64(const uint32_t *x) {
  double u = unit_f64(x[0], x[1]), v = 6.283185307179586 * unit_f64(x[2], x[3]);
  u = u < 1.0e-7 ? 1.0e-7 : u;
  double r = sqrt(-2.0 * log(u));
  return two_doubles{sin(v) * r, cos(v) * r};
}

/* ------------------------------------------- one counter's elements: four of 32 bits, two of 64 */
template <class T> struct uniform_each {
  stream_at s;
  T *out;
  int64_t n;
  PF_BOTH void operator()(int64_t g) const {
    four w = philox(skip(s, (uint64_t)g));
    for (int i = 0; i < 4 && g * 4 + i < n; i++) out[g * 4 + i] = down<T>(unit<T>::of(w.x[i]));
  }
};
template <> struct uniform_each<double> {
  stream_at s;
  double *out;
  int64_t n;
  PF_BOTH void operator()(int64_t g) const {
    four w = philox(skip(s, (uint64_t)g));
    for (int i = 0; i < 2 && g * 2 + i < n; i++)
      out[g * 2 + i] = unit_f64(w.x[2 * i], w.x[2 * i + 1]);
  }
};
template <class T> struct normal_each {
  stream_at s;
  T *out;
  int64_t n;
  PF_BOTH void operator()(int64_t g) const {
    four w = philox(skip(s, (uint64_t)g));
    two_floats a = normals_f32(w.x[0], w.x[1]), b = normals_f32(w.x[2], w.x[3]);
    float y[4] = {a.p, a.q, b.p, b.q};
    for (int i = 0; i < 4 && g * 4 + i < n; i++) out[g * 4 + i] = down<T>(y[i]);
  }
};
template <> struct normal_each<double> {
  stream_at s;
  double *out;
  int64_t n;
  PF_BOTH void operator()(int64_t g) const {
    four w = philox(skip(s, (uint64_t)g));
    two_doubles y = normals_f64(w.x);
    out[g * 2] = y.p;
    if (g * 2 + 1 < n) out[g * 2 + 1] = y.q;
  }
};
/* each group draws from its own RESERVED counters per element until it is full of numbers inside
 * (-2, 2) */
template <class T> struct truncated_each {
  stream_at s;
  T *out;
  int64_t n;
  PF_BOTH void operator()(int64_t g) const {
    int have = 0, last = (int)least((int64_t)4, n - g * 4);
    for (uint64_t turn = 0; have < last; turn++) {
      four w = philox(skip(s, (uint64_t)g * RESERVED + turn));
      two_floats a = normals_f32(w.x[0], w.x[1]), b = normals_f32(w.x[2], w.x[3]);
      float y[4] = {a.p, a.q, b.p, b.q};
      for (int i = 0; i < 4 && have < last; i++)
        if (fabsf(y[i]) < 2.0f) out[g * 4 + have++] = down<T>(y[i]);
    }
  }
};
template <> struct truncated_each<double> {
  stream_at s;
  double *out;
  int64_t n;
  PF_BOTH void operator()(int64_t g) const {
    int have = 0, last = (int)least((int64_t)2, n - g * 2);
    for (uint64_t turn = 0; have < last; turn++) {
      four w = philox(skip(s, (uint64_t)g * (RESERVED / 2) + turn));
      two_doubles y = normals_f64(w.x);
      if (fabs(y.p) < 2.0) out[g * 2 + have++] = y.p;
      if (have < last && fabs(y.q) < 2.0) out[g * 2 + have++] = y.q;
    }
  }
};
struct int32_each {
  stream_at s;
  int32_t *out;
  int64_t n, low;
  uint64_t range;
  PF_BOTH void operator()(int64_t g) const {
    four w = philox(skip(s, (uint64_t)g));
    for (int i = 0; i < 4 && g * 4 + i < n; i++)
      out[g * 4 + i] = (int32_t)((uint32_t)low + w.x[i] % (uint32_t)range);
  }
};
struct int64_each {
  stream_at s;
  int64_t *out;
  int64_t n, low;
  uint64_t range;
  PF_BOTH void operator()(int64_t g) const {
    four w = philox(skip(s, (uint64_t)g));
    for (int i = 0; i < 2 && g * 2 + i < n; i++) {
      uint64_t bits = w.x[2 * i] | (uint64_t)w.x[2 * i + 1] << 32;
      out[g * 2 + i] = (int64_t)((uint64_t)low + bits % range);
    }
  }
};

/* ---------------------------------------------------------------- kernels */
static pf_status reserve(pf_ctx *c, int64_t elements, stream_at *s) {
  uint64_t key[2] = {0, 0}, counter[2] = {0, 0};
  PF_TRY(c->host->rng(c, (uint64_t)elements * RESERVED, key, counter));
  *s = stream_at{key[0], counter[0], counter[1]};
  return PF_OK;
}
static pf_status shaped_output(pf_ctx *c, DLTensor **out) {
  int64_t shape[MAX_DIMS];
  int32_t n = 0;
  if (c->in[0]->ndim != 1)
    return INVALID(c, "shape must be a vector, got shape %s", SHAPE(c->in[0]));
  PF_TRY(in_vector(c, 0, "shape", shape, &n));
  *out = output_checked(c, 0, shape, n);
  return *out ? PF_OK : PF_INVALID_ARGUMENT;
}
template <template <class> class Each> pf_status fill(pf_ctx *c, const void *) {
  DLTensor *out = NULL;
  stream_at s;
  PF_TRY(shaped_output(c, &out));
  int64_t n = pf_numel(out);
  if (n == 0) return PF_OK;
  PF_TRY(reserve(c, n, &s));
  return with_float(c->out_type[0], [&](auto t) {
    typedef typename decltype(t)::type T;
    int64_t per = sizeof(T) == 8 ? 2 : 4;
    return each(c, (n + per - 1) / per, Each<T>{s, PF_DATA(T, out), n});
  });
}
static pf_status random_uniform_int(pf_ctx *c, const void *) {
  DLTensor *out = NULL;
  stream_at s;
  int64_t lo, hi;
  PF_TRY(in_scalar(c, 1, "minval", &lo));
  PF_TRY(in_scalar(c, 2, "maxval", &hi));
  PF_TRY(shaped_output(c, &out));
  int64_t n = pf_numel(out);
  if (n == 0) return PF_OK;
  if (lo >= hi) return INVALID(c, "Need minval < maxval, got %" PRId64 " >= %" PRId64, lo, hi);
  PF_TRY(reserve(c, n, &s));
  uint64_t range = (uint64_t)hi - (uint64_t)lo;
  if (c->out_type[0] == PF_INT64)
    return each(c, (n + 1) / 2, int64_each{s, PF_DATA(int64_t, out), n, lo, range});
  return each(c, (n + 3) / 4, int32_each{s, PF_DATA(int32_t, out), n, lo, range});
}

static constexpr arg_list shape_on_host({HOST_IN("shape")});
static constexpr arg_list all_on_host({HOST_IN("shape"), HOST_IN("minval"), HOST_IN("maxval")});
#define ENTRY(op, fn) GPU(op, "dtype=" T_FLOATS, SAME, .args = shape_on_host.at, .compute = fn)
static const pf_kernel table[] = {
  ENTRY("RandomUniform", fill<uniform_each>),
  ENTRY("RandomStandardNormal", fill<normal_each>),
  ENTRY("TruncatedNormal", fill<truncated_each>),
  GPU("RandomUniformInt", "Tout=int32|int64", SAME, .args = all_on_host.at,
      .compute = random_uniform_int),
};
} // namespace
KERNELS(random_kernels, table)
