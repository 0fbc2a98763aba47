/* numbers.h - element types as C++ types, and the choice among them at run time.
 *
 *     f16, bf16              16-bit floats, stored; computed as float: up(x) widens, down<T>(y)
 *                            rounds to nearest even
 *     with_float(type, f)    calls f(tag<T>{}) for the T that `type` names; PF_UNIMPLEMENTED for
 *                            others
 *     elements<W>            elements of every type that is computed as W, one kernel for them all
 */
#ifndef PF_CUDA_NUMBERS_H
#define PF_CUDA_NUMBERS_H
#include "common.h"

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
template <class T> struct tag { typedef T type; };
template <class To, class From> PF_BOTH To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "equal sizes");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}

PF_BOTH float up(f16 h) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(h.bits));
#else
  uint32_t w = (uint32_t)h.bits << 16, sign = w & 0x80000000u, two = w + w;
  float normal = bits_as<float>((two >> 4) + (0xE0u << 23)) * 0x1.0p-112f;
  float denormal = bits_as<float>((two >> 17) | (126u << 23)) - 0.5f;
  return bits_as<float>(sign | bits_as<uint32_t>(two < (1u << 27) ? denormal : normal));
#endif
}
PF_BOTH float up(bf16 h) { return bits_as<float>((uint32_t)h.bits << 16); }
template <class T> PF_BOTH T up(T x) { return x; }

template <class T> struct rounder {
  template <class V> static PF_BOTH T from(V v) { return (T)v; }
};
template <> struct rounder<f16> {
  static PF_BOTH f16 from(float f) {
#ifdef __CUDA_ARCH__
    return f16{__half_as_ushort(__float2half_rn(f))};
#else
    uint32_t w = bits_as<uint32_t>(f), sign = (w >> 16) & 0x8000u, a = w & 0x7fffffffu;
    uint32_t normal = a + 0xc8000fffu + ((a >> 13) & 1);
    uint32_t denormal = bits_as<uint32_t>(bits_as<float>(a) + 0.5f) - 0x3f000000u;
    uint32_t h = a >= 0x477ff000u ? 0x7c00u : a < 0x38800000u ? denormal : normal >> 13;
    return f16{(uint16_t)(sign | (a > 0x7f800000u ? 0x7e00u : h))};
#endif
  }
};
template <> struct rounder<bf16> {
  static PF_BOTH bf16 from(float f) {
    uint32_t w = bits_as<uint32_t>(f), round = (w + 0x7fffu + ((w >> 16) & 1)) >> 16;
    return bf16{(uint16_t)((w & 0x7fffffffu) > 0x7f800000u ? (w >> 16) | 0x40u : round)};
  }
};
template <class T, class V> PF_BOTH T down(V v) { return rounder<T>::from(v); }
template <class T> struct wide_of { typedef T type; };
template <> struct wide_of<f16> { typedef float type; };
template <> struct wide_of<bf16> { typedef float type; };
template <class T> using wide = typename wide_of<T>::type; /* what T is computed as */

/* bigger than an index register's natural work: unsigned twins, for arithmetic that wraps */
template <class T> struct unsigned_of { typedef T type; };
template <> struct unsigned_of<int8_t> { typedef uint32_t type; };
template <> struct unsigned_of<int16_t> { typedef uint32_t type; };
template <> struct unsigned_of<uint8_t> { typedef uint32_t type; };
template <> struct unsigned_of<uint16_t> { typedef uint32_t type; };
template <> struct unsigned_of<int32_t> { typedef uint32_t type; };
template <> struct unsigned_of<int64_t> { typedef uint64_t type; };
template <class T> using wraps = typename unsigned_of<T>::type;

template <class T> struct is_float_of { static constexpr bool value = false; };
template <> struct is_float_of<float> { static constexpr bool value = true; };
template <> struct is_float_of<double> { static constexpr bool value = true; };
template <> struct is_float_of<f16> { static constexpr bool value = true; };
template <> struct is_float_of<bf16> { static constexpr bool value = true; };

/* ---------------------------------------------------------------- a type known when a kernel runs
 * `type` is the same for all threads of a launch, so that the branches on it cost next to nothing;
 * a kernel for each type would cost the build minutes.  load gives bits and waits for nothing;
 * value widens them. */
template <class W> struct elements {
  typedef W bits;
  static PF_BOTH W load(const void *x, int64_t i, int32_t) { return ((const W *)x)[i]; }
  static PF_BOTH W value(W b, int32_t) { return b; }
  static PF_BOTH void store(void *y, int64_t i, int32_t, W v) { ((W *)y)[i] = v; }
};
template <> struct elements<float> {
  typedef uint32_t bits;
  static PF_BOTH uint32_t load(const void *x, int64_t i, int32_t type) {
    return type == PF_FLOAT32 ? bits_as<uint32_t>(((const float *)x)[i])
                              : (uint32_t)((const uint16_t *)x)[i];
  }
  static PF_BOTH float value(uint32_t b, int32_t type) {
    return type == PF_FLOAT32   ? bits_as<float>(b)
           : type == PF_FLOAT16 ? up(f16{(uint16_t)b})
                                : up(bf16{(uint16_t)b});
  }
  static PF_BOTH void store(void *y, int64_t i, int32_t type, float v) {
    if (type == PF_FLOAT32) ((float *)y)[i] = v;
    else if (type == PF_FLOAT16) ((uint16_t *)y)[i] = down<f16>(v).bits;
    else ((uint16_t *)y)[i] = down<bf16>(v).bits;
  }
};
/* integers: arithmetic of 64 bits, cut to the element's size, is the element's arithmetic */
template <> struct elements<int64_t> {
  typedef int64_t bits;
  static PF_BOTH int64_t load(const void *x, int64_t i, int32_t type) {
    if (type == PF_INT64) return ((const int64_t *)x)[i];
    if (type == PF_INT32) return ((const int32_t *)x)[i];
    if (type == PF_INT8) return ((const int8_t *)x)[i];
    return ((const uint8_t *)x)[i];
  }
  static PF_BOTH int64_t value(int64_t b, int32_t) { return b; }
  static PF_BOTH void store(void *y, int64_t i, int32_t type, int64_t v) {
    if (type == PF_INT64) ((int64_t *)y)[i] = v;
    else if (type == PF_INT32) ((int32_t *)y)[i] = (int32_t)v;
    else ((uint8_t *)y)[i] = (uint8_t)v;
  }
};

/* ---------------------------------------------------------------- choosing a type */
#define PF_TYPE_CASE(number, T) \
  case number: return f(tag<T>{});
template <class F> pf_status with_float(int32_t type, F f) {
  switch (type) {
    PF_TYPE_CASE(PF_FLOAT32, float)
    PF_TYPE_CASE(PF_FLOAT64, double)
    PF_TYPE_CASE(PF_FLOAT16, f16)
    PF_TYPE_CASE(PF_BFLOAT16, bf16) default : return PF_UNIMPLEMENTED;
  }
}
/* what they are computed as: float or double */
template <class F> pf_status with_wide(int32_t type, F f) {
  if (type == PF_FLOAT64) return f(tag<double>{});
  return type == PF_FLOAT32 || is_half(type) ? f(tag<float>{}) : PF_UNIMPLEMENTED;
}
/* those that are computed as float */
template <class F> pf_status with_float32(int32_t type, F f) {
  switch (type) {
    PF_TYPE_CASE(PF_FLOAT32, float)
    PF_TYPE_CASE(PF_FLOAT16, f16) PF_TYPE_CASE(PF_BFLOAT16, bf16) default : return PF_UNIMPLEMENTED;
  }
}
template <class F> pf_status with_int(int32_t type, F f) {
  switch (type) {
    PF_TYPE_CASE(PF_INT32, int32_t)
    PF_TYPE_CASE(PF_INT64, int64_t)
    PF_TYPE_CASE(PF_INT8, int8_t)
    PF_TYPE_CASE(PF_UINT8, uint8_t) default : return PF_UNIMPLEMENTED;
  }
}
template <class F> pf_status with_real(int32_t type, F f) {
  return is_half(type) || type == PF_FLOAT32 || type == PF_FLOAT64 ? with_float(type, f)
                                                                   : with_int(type, f);
}
template <class F> pf_status with_index(int32_t type, F f) {
  switch (type) {
    PF_TYPE_CASE(PF_INT32, int32_t)
    PF_TYPE_CASE(PF_INT64, int64_t) default : return PF_UNIMPLEMENTED;
  }
}
/* int32 holds sizes, axes and counters: arithmetic on it lives in host memory, as in TensorFlow's
 * GPU kernels */
template <class T> struct host_type { static constexpr bool value = false; };
template <> struct host_type<int32_t> { static constexpr bool value = true; };
/* elements that are only moved: by their size */
struct alignas(16) bytes16 { uint64_t a, b; };
template <class F> pf_status with_size(int64_t size, F f) {
  switch (size) {
    PF_TYPE_CASE(1, uint8_t)
    PF_TYPE_CASE(2, uint16_t)
    PF_TYPE_CASE(4, uint32_t)
    PF_TYPE_CASE(8, uint64_t)
    PF_TYPE_CASE(16, bytes16) default : return PF_UNIMPLEMENTED;
  }
}
#undef PF_TYPE_CASE
#endif
