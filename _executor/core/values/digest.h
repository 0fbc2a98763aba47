/* A keyed digest of 128 bits of a constant's bytes: what tells whether two constants are the same.
 *
 * The key is the process's own, drawn when it is first needed, so nobody can prepare two constants
 * that collide; of others a pair does with a chance of about 2^-120.  Eight lanes, each folded with
 * a product of 64 by 64 bits per 16 bytes, run as fast as memory is read.
 *
 *     pf_digest d = pf_digest_of(key, data, n);
 */
#ifndef PF_DIGEST_H
#define PF_DIGEST_H
#include <stdint.h>
#include <string.h>

enum { PF_DIGEST_LANES = 4, PF_DIGEST_BLOCK = 16 * PF_DIGEST_LANES };
typedef struct { uint64_t a, b; } pf_digest;
typedef struct { uint64_t k[4 * PF_DIGEST_LANES]; } pf_digest_key;

static inline uint64_t pf_fold_product(uint64_t x, uint64_t y) {
#ifdef __SIZEOF_INT128__
  const unsigned __int128 p = (unsigned __int128)x * y;
  return (uint64_t)p ^ (uint64_t)(p >> 64);
#else
  const uint64_t x0 = (uint32_t)x, x1 = x >> 32, y0 = (uint32_t)y, y1 = y >> 32;
  const uint64_t low = x0 * y0, mid = x1 * y0 + (low >> 32), cross = x0 * y1 + (uint32_t)mid;
  return (cross << 32 | (uint32_t)low) ^ (x1 * y1 + (mid >> 32) + (cross >> 32));
#endif
}
static inline uint64_t pf_digest_word(const char *p) {
  uint64_t w;
  memcpy(&w, p, sizeof w);
  return w;
}
/* splitmix64: words of a key from one of entropy */
static inline void pf_digest_key_from(pf_digest_key *key, uint64_t seed) {
  for (int i = 0; i < 4 * PF_DIGEST_LANES; i++) {
    uint64_t z = seed += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    key->k[i] = z ^ (z >> 31);
  }
}
static inline void pf_digest_block(const uint64_t *k, const char *p, uint64_t *a, uint64_t *b) {
  for (int i = 0; i < PF_DIGEST_LANES; i++) {
    const uint64_t x = pf_digest_word(p + 16 * i), y = pf_digest_word(p + 16 * i + 8);
    a[i] = pf_fold_product(x ^ k[4 * i], y ^ k[4 * i + 1] ^ a[i]);
    b[i] = pf_fold_product(x ^ k[4 * i + 2] ^ b[i], y ^ k[4 * i + 3]);
  }
}
static inline pf_digest pf_digest_of(const pf_digest_key *key, const void *data, uint64_t n) {
  const char *p = (const char *)data;
  uint64_t a[PF_DIGEST_LANES], b[PF_DIGEST_LANES], rest = n;
  char last[PF_DIGEST_BLOCK] = {0};
  pf_digest d = {n, ~n};
  for (int i = 0; i < PF_DIGEST_LANES; i++) a[i] = key->k[i], b[i] = key->k[PF_DIGEST_LANES + i];
  for (; rest >= PF_DIGEST_BLOCK; rest -= PF_DIGEST_BLOCK, p += PF_DIGEST_BLOCK)
    pf_digest_block(key->k, p, a, b);
  if (rest) memcpy(last, p, (size_t)rest);
  pf_digest_block(key->k, last, a, b);
  for (int i = 0; i < PF_DIGEST_LANES; i++) {
    d.a = pf_fold_product(d.a ^ a[i] ^ key->k[2 * i], key->k[2 * i + 1] ^ b[i]);
    d.b = pf_fold_product(d.b ^ b[i] ^ key->k[2 * i + 1], key->k[2 * i] ^ a[i]);
  }
  return d;
}
#endif
