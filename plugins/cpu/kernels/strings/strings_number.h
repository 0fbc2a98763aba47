/* strings_number.h - decimal text of integers and of reals, and back.
 *
 * Method: both ways are exact, in integers of 128 bits, rounded to nearest, ties to even, as by
 * the C library's printf and strtod, for the cases that fit; 0 says that one does not, and the
 * caller asks the library.  Printing multiplies the mantissa by a power of ten.  Reading takes up
 * to 19 digits and powers of ten from -27 to 27: 5^27 is below 2^64, so one division tells all.
 *
 * Threads: pure functions.
 */
#ifndef PF_CPU_STRINGS_NUMBER_H
#define PF_CPU_STRINGS_NUMBER_H
#include "base/common.h"
#include <stdlib.h>

enum { PF_DIGITS = 24, PF_FIXED_ROOM = 48, PF_MOST_PLACES = 9, PF_MOST_POWER = 27 };
#ifdef __SIZEOF_INT128__
typedef unsigned __int128 pf_wide;
#endif

/* ---------------------------------------------------------------- printing */
/* the digits of v end at `end`; -> the first */
PF_LOCAL char *pf_digits_before(char *end, uint64_t v) {
  static const char pairs[] =
      "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445"
      "46474849505152535455565758596061626364656667686970717273747576777879808182838485868788899091"
      "9293949596979899";
  while (v >= 100) {
    uint64_t rest = v / 100;
    end -= 2;
    memcpy(end, pairs + 2 * (v - 100 * rest), 2);
    v = rest;
  }
  if (v < 10) {
    *--end = (char)('0' + v);
    return end;
  }
  end -= 2;
  memcpy(end, pairs + 2 * v, 2);
  return end;
}
/* "%d" of v, ending at `end` */
PF_LOCAL char *pf_integer_before(char *end, int64_t v) {
  char *s = pf_digits_before(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
  if (v < 0) *--s = '-';
  return s;
}
#ifdef __SIZEOF_INT128__
/* "%.*f" of x with up to PF_MOST_PLACES places, ending at `end`; NULL: not by this way */
PF_LOCAL char *pf_fixed_before(char *end, double x, int places) {
  static const uint32_t tens[PF_MOST_PLACES + 1] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  uint64_t bits = pf_double_bits(x), m = bits & (((uint64_t)1 << 52) - 1), ten = tens[places], r;
  int e = (int)(bits >> 52 & 0x7ff);
  if (!(fabs(x) < 9e18 / (double)ten)) return NULL; /* NaN, too */
  m |= (uint64_t)(e != 0) << 52;
  e = (e ? e : 1) - 1075; /* |x| = m 2^e */
  pf_wide v = (pf_wide)m * ten;
  if (e >= 0) r = (uint64_t)(v << e);
  else if (e <= -128) r = 0;
  else {
    pf_wide half = (pf_wide)1 << (-e - 1), rest = v & (2 * half - 1);
    r = (uint64_t)(v >> -e);
    r += rest > half || (rest == half && (r & 1));
  }
  uint64_t whole = r / ten, part = r - whole * ten;
  char *s = end;
  if (places) {
    s = pf_digits_before(end, part);
    while (s > end - places) *--s = '0';
    *--s = '.';
  }
  s = pf_digits_before(s, whole);
  if (bits >> 63) *--s = '-';
  return s;
}

/* |x| 10^k = m 2^e 10^k to the nearest whole number, for -18 <= k <= 19 and results below 2^63 */
PF_LOCAL uint64_t pf_scaled(uint64_t m, int e, int k) {
  uint64_t ten = 1;
  for (int i = k < 0 ? -k : k; i > 0; i--) ten *= 10;
  pf_wide top = k < 0 ? m : (pf_wide)m * ten, under = k < 0 ? ten : 1, whole, twice;
  if (e >= 0) top <<= e;
  else under <<= -e;
  if (k < 0) whole = top / under;
  else whole = e < 0 ? top >> -e : top;
  twice = 2 * (top - whole * under);
  return (uint64_t)whole + (twice > under || (twice == under && (whole & 1)));
}
/* "%g" of x, six digits, ending at `end`; NULL: not by this way */
PF_LOCAL char *pf_general_before(char *end, double x) {
  uint64_t bits = pf_double_bits(x), m = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52, r;
  int e = (int)(bits >> 52 & 0x7ff) - 1075, power, n = 6;
  char out[24], *o = out, digit[8];
  if (!(fabs(x) >= 1e-12 && fabs(x) < 1e17)) return NULL;
  power = ((e + 52) * 1233) >> 12; /* of ten: right, or one off */
  while (1) {
    r = pf_scaled(m, e, 5 - power);
    if (r < 100000) power--;
    else if (r >= 1000000) power++;
    else break;
  }
  (void)pf_digits_before(digit + 6, r);
  while (digit[n - 1] == '0') n--;
  if (bits >> 63) *o++ = '-';
  if (power < -4 || power >= 6) {
    *o++ = digit[0];
    if (n > 1) *o++ = '.';
    for (int i = 1; i < n; i++) *o++ = digit[i];
    *o++ = 'e', *o++ = power < 0 ? '-' : '+';
    *o++ = (char)('0' + abs(power) / 10), *o++ = (char)('0' + abs(power) % 10);
  } else {
    if (power < 0) *o++ = '0', *o++ = '.';
    for (int i = -1; i > power; i--) *o++ = '0';
    for (int i = 0; i < n || i <= power; i++) {
      if (i == power + 1 && power >= 0) *o++ = '.';
      *o++ = digit[i];
    }
  }
  return memcpy(end - (o - out), out, (size_t)(o - out));
}

#else /* machines of 32 bits: the library has them all */
PF_LOCAL char *pf_fixed_before(char *end, double x, int places) {
  (void)end, (void)x, (void)places;
  return NULL;
}
PF_LOCAL char *pf_general_before(char *end, double x) {
  (void)end, (void)x;
  return NULL;
}
#endif

/* ---------------------------------------------------------------- reading */
/* digits 10^power; integer: written without a point or an exponent */
typedef struct {
  uint64_t digits;
  int32_t power, negative, integer;
} pf_decimal;

/* eight digits at s as a number; 0: they are not all digits */
PF_INLINE int pf_eight_digits(const char *s, uint64_t *v) {
  uint64_t x;
  memcpy(&x, s, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  x = __builtin_bswap64(x);
#endif
  if (((x & 0xf0f0f0f0f0f0f0f0u) | ((x + 0x0606060606060606u) & 0xf0f0f0f0f0f0f0f0u) >> 4) !=
      0x3333333333333333u)
    return 0;
  x = (x & 0x0f0f0f0f0f0f0f0fu) * 2561 >> 8;
  x = (x & 0x00ff00ff00ff00ffu) * 6553601 >> 16;
  *v = (x & 0x0000ffff0000ffffu) * 42949672960001u >> 32;
  return 1;
}
/* a run of digits behind *v, which must end below 10^19: -> behind the run */
PF_INLINE const char *pf_read_digits(const char *s, const char *end, uint64_t *v, int *count) {
  const char *from = s;
  uint64_t eight;
  while (end - s >= 8 && *v < 10000000000u && pf_eight_digits(s, &eight))
    *v = *v * 100000000 + eight, s += 8;
  for (; s < end && (unsigned)(*s - '0') < 10; s++) {
    if (*v > 999999999999999998u) *count = 1 << 20; /* 19 digits are there: one too many */
    *v = *v * 10 + (uint64_t)(*s - '0');
  }
  *count += (int)PF_MIN(s - from, 1 << 20);
  return s;
}
/* [+-]digits[.digits][e[+-]digits], the whole text; 0: something else, or too long */
PF_LOCAL int pf_read_decimal(const char *s, int64_t n, pf_decimal *d) {
  const char *end = s + n;
  int whole = 0, part = 0;
  if (n <= 0 || n > 64) return 0;
  *d = (pf_decimal){0, 0, *s == '-', 0};
  s += *s == '-' || *s == '+';
  s = pf_read_digits(s, end, &d->digits, &whole);
  d->integer = s == end;
  if (s < end && *s == '.') {
    s = pf_read_digits(s + 1, end, &d->digits, &part);
    d->power = -part;
  }
  if (whole + part == 0 || whole + part >= 1 << 20) return 0;
  if (s < end && (*s | 0x20) == 'e') {
    int less = ++s < end && *s == '-', power = 0;
    const char *first = s += s < end && (*s == '-' || *s == '+');
    for (; s < end && (unsigned)(*s - '0') < 10 && s - first < 4; s++)
      power = power * 10 + *s - '0';
    if (s == first) return 0;
    d->power += less ? -power : power;
  }
  return s == end;
}
#ifdef __SIZEOF_INT128__
/* |d| as `keep` bits of mantissa (24: a float's, 53: a double's); 0: not by this way */
PF_LOCAL int pf_decimal_value(const pf_decimal *d, int keep, double *out) {
  uint64_t five = 1, q = d->digits, rest;
  int e = d->power, k = e < 0 ? -e : e;
  if (q == 0) return *out = d->negative ? -0.0 : 0.0, 1;
  if (k > PF_MOST_POWER) return 0;
  for (uint64_t base = 5; k; k >>= 1, base *= base)
    if (k & 1) five *= base;
  if (e >= 0) { /* q = the top 64 bits, rest: more */
    pf_wide v = (pf_wide)q * five;
    int up = v >> 64 ? __builtin_clzll((uint64_t)(v >> 64)) : 64 + __builtin_clzll((uint64_t)v);
    v <<= up;
    q = (uint64_t)(v >> 64), rest = (uint64_t)v, e += 64 - up;
  } else {
    int a = __builtin_clzll(q), b = __builtin_clzll(five);
    pf_wide v = (pf_wide)(q << a) << 64;
    five <<= b;
    e += b - a - 64;
    if (q << a >= five) v >>= 1, e++;
    rest = (uint64_t)(v % five), q = (uint64_t)(v / five);
  }
  int drop = 64 - keep;
  uint64_t m = q >> drop, low = q & (((uint64_t)1 << drop) - 1), half = (uint64_t)1 << (drop - 1);
  m += low > half || (low == half && (rest || (m & 1)));
  *out = (double)m * pf_bits_double((uint64_t)(e + drop + 1023) << 52);
  if (d->negative) *out = -*out;
  return 1;
}
#else
PF_LOCAL int pf_decimal_value(const pf_decimal *d, int keep, double *out) {
  (void)keep;
  if (d->digits == 0) *out = d->negative ? -0.0 : 0.0;
  return d->digits == 0;
}
#endif
#endif
