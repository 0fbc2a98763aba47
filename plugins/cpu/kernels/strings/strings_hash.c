/* strings_hash.c - StringToHashBucket, StringToHashBucketFast, StringToHashBucketStrong.
 *
 * Method: MurmurHash64A (Appleby) with TF's seed; FarmHash's Fingerprint64 (Pike), whose numbers
 * are fixed for ever; SipHash-2-4 (Aumasson and Bernstein, 2012) with the op's key.  The bucket is
 * the hash modulo num_buckets.
 *
 * Invariants: bytes are read as little-endian words on every machine.
 * Threads: pure functions of a string.
 */
#include "base/common.h"
#include "base/hash.h"

static uint64_t word64(const char *s) {
  const uint8_t *b = (const uint8_t *)s;
  uint64_t x = 0;
  for (int i = 7; i >= 0; i--) x = x << 8 | b[i];
  return x;
}
static uint32_t word32(const char *s) {
  const uint8_t *b = (const uint8_t *)s;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static uint64_t rotl(uint64_t x, int n) { return x << n | x >> (64 - n); }
static uint64_t rotr(uint64_t x, int n) { return x >> n | x << (64 - n); }

/* ---------------------------------------------------------------- MurmurHash64A */
static uint64_t murmur(const char *s, uint64_t n) {
  const uint64_t m = 0xc6a4a7935bd1e995u;
  uint64_t h = 0xDECAFCAFFEu ^ n * m;
  for (; n >= 8; s += 8, n -= 8) {
    uint64_t k = word64(s) * m;
    k = (k ^ k >> 47) * m;
    h = (h ^ k) * m;
  }
  for (uint64_t i = 0; i < n; i++) h ^= (uint64_t)(uint8_t)s[i] << 8 * i;
  if (n) h *= m;
  h = (h ^ h >> 47) * m;
  return h ^ h >> 47;
}

/* ---------------------------------------------------------------- Fingerprint64 */
#define K0 0xc3a5c85c97cb3127u
#define K1 0xb492b66fbe98f273u
#define K2 0x9ae16a3b2f90404fu
typedef struct { uint64_t a, b; } pair;

static uint64_t mixed(uint64_t x) { return x ^ x >> 47; }
static uint64_t joined(uint64_t u, uint64_t v, uint64_t mul) {
  uint64_t a = mixed((u ^ v) * mul);
  return mixed((v ^ a) * mul) * mul;
}
static uint64_t farm_16(const char *s, uint64_t n) {
  if (n >= 8) {
    uint64_t mul = K2 + n * 2, a = word64(s) + K2, b = word64(s + n - 8);
    return joined(rotr(b, 37) * mul + a, (rotr(a, 25) + b) * mul, mul);
  }
  if (n >= 4) return joined(n + ((uint64_t)word32(s) << 3), word32(s + n - 4), K2 + n * 2);
  if (n == 0) return K2;
  uint8_t a = (uint8_t)s[0], b = (uint8_t)s[n >> 1], c = (uint8_t)s[n - 1];
  uint32_t y = (uint32_t)a + ((uint32_t)b << 8), z = (uint32_t)n + ((uint32_t)c << 2);
  return mixed(y * K2 ^ z * K0) * K2;
}
static uint64_t farm_32(const char *s, uint64_t n) {
  uint64_t mul = K2 + n * 2, a = word64(s) * K1, b = word64(s + 8), c = word64(s + n - 8) * mul;
  uint64_t d = word64(s + n - 16) * K2;
  return joined(rotr(a + b, 43) + rotr(c, 30) + d, a + rotr(b + K2, 18) + c, mul);
}
static uint64_t farm_64(const char *s, uint64_t n) {
  uint64_t mul = K2 + n * 2, a = word64(s) * K2, b = word64(s + 8), c = word64(s + n - 8) * mul;
  uint64_t d = word64(s + n - 16) * K2, y = rotr(a + b, 43) + rotr(c, 30) + d;
  uint64_t z = joined(y, a + rotr(b + K2, 18) + c, mul), e = word64(s + 16) * mul;
  uint64_t f = word64(s + 24), g = (y + word64(s + n - 32)) * mul;
  uint64_t h = (z + word64(s + n - 24)) * mul;
  return joined(rotr(e + f, 43) + rotr(g, 30) + h, e + rotr(f + a, 18) + g, mul);
}
static pair weak(const char *s, uint64_t a, uint64_t b) {
  uint64_t w = word64(s), x = word64(s + 8), y = word64(s + 16), z = word64(s + 24), c;
  a += w;
  b = rotr(b + a + z, 21);
  c = a;
  a += x + y;
  b += rotr(a, 44);
  return (pair){a + z, b + c};
}
static uint64_t farm(const char *s, uint64_t n) {
  if (n <= 16) return farm_16(s, n);
  if (n <= 32) return farm_32(s, n);
  if (n <= 64) return farm_64(s, n);
  uint64_t x = 81, y = 81 * K1 + 113, z = mixed(y * K2 + 113) * K2, mul = K1, nine = 1;
  pair v = {0, 0}, w = {0, 0};
  const char *last = s + (n - 1) / 64 * 64, *tail = s + n - 64;
  x = x * K2 + word64(s);
  for (int end = 0;;) { /* blocks of 64, then the last 64 bytes with other factors */
    x = rotr(x + y + v.a + word64(s + 8), 37) * mul;
    y = rotr(y + v.b + word64(s + 48), 42) * mul;
    x ^= w.b * nine;
    y += v.a * nine + word64(s + 40);
    z = rotr(z + w.a, 33) * mul;
    v = weak(s, v.b * mul, x + w.a);
    w = weak(s + 32, z + w.b, y + word64(s + 16));
    uint64_t t = z;
    z = x, x = t;
    if (end) break;
    s += 64;
    if (s != last) continue;
    end = 1, s = tail, mul = K1 + ((z & 0xff) << 1), nine = 9;
    w.a += (n - 1) & 63;
    v.a += w.a;
    w.a += v.a;
  }
  return joined(joined(v.a, w.a, mul) + mixed(y) * K0 + z, joined(v.b, w.b, mul) + x, mul);
}

/* ---------------------------------------------------------------- SipHash-2-4 */
static void sip_rounds(uint64_t v[4], int n) {
  while (n--) {
    v[0] += v[1], v[1] = rotl(v[1], 13) ^ v[0], v[0] = rotl(v[0], 32);
    v[2] += v[3], v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotl(v[1], 17) ^ v[2], v[2] = rotl(v[2], 32);
  }
}
static uint64_t sip(const char *s, uint64_t n, const uint64_t key[2]) {
  uint64_t v[4] = {0x736f6d6570736575u ^ key[0], 0x646f72616e646f6du ^ key[1],
                   0x6c7967656e657261u ^ key[0], 0x7465646279746573u ^ key[1]};
  uint64_t all = n, last = all << 56;
  for (; n >= 8; s += 8, n -= 8) {
    uint64_t m = word64(s);
    v[3] ^= m;
    sip_rounds(v, 2);
    v[0] ^= m;
  }
  for (uint64_t i = 0; i < n; i++) last |= (uint64_t)(uint8_t)s[i] << 8 * i;
  v[3] ^= last;
  sip_rounds(v, 2);
  v[0] ^= last;
  v[2] ^= 0xff;
  sip_rounds(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t pf_fingerprint64(const char *s, uint64_t n) { return farm(s, n); }
uint64_t pf_keyed_hash(const char *s, uint64_t n, const uint64_t key[2]) { return sip(s, n, key); }

/* ---------------------------------------------------------------- the ops */
enum { MURMUR, FARM, SIP };
typedef struct {
  int64_t buckets;
  pf_list key;
} hash_state;

static pf_status check_key(pf_ctx *c, void *state) {
  const hash_state *s = state;
  if (s->key.n != 2) return PF_INVALID(c, "Key must have 2 elements, got %" PRId64, s->key.n);
  return PF_OK;
}
static pf_status buckets(pf_ctx *c, const hash_state *s, int kind) {
  const DLTensor *x = c->in[0];
  if (s->buckets < 1)
    return PF_INVALID(c, "num_buckets must be at least 1, got %" PRId64, s->buckets);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    pf_str t;
    PF_TRY(c->host->str_get(x, i, &t));
    uint64_t h = kind == MURMUR ? murmur(t.data, (uint64_t)t.len)
                 : kind == FARM ? farm(t.data, (uint64_t)t.len)
                                : sip(t.data, (uint64_t)t.len, (const uint64_t *)s->key.items);
    PF_DATA(int64_t, y)[i] = (int64_t)(h % (uint64_t)s->buckets);
  }
  return PF_OK;
}
static pf_status bucket(pf_ctx *c, const void *s) { return buckets(c, s, MURMUR); }
static pf_status bucket_fast(pf_ctx *c, const void *s) { return buckets(c, s, FARM); }
static pf_status bucket_strong(pf_ctx *c, const void *s) { return buckets(c, s, SIP); }

#define BUCKETS PF_REF(pf_attr, "num_buckets", PF_ATTR_INT, offsetof(hash_state, buckets))
#define STATE .state_size = sizeof(hash_state)
const pf_kernel *const strings_hash_kernels[] = {
  PF_CPU("StringToHashBucket", NULL, .compute = bucket, STATE, .attrs = PF_ATTRS(BUCKETS)),
  PF_CPU_FLAGS("StringToHashBucketFast", NULL, PF_KERNEL_DETERMINISTIC, .compute = bucket_fast,
               STATE, .attrs = PF_ATTRS(BUCKETS)),
  PF_CPU("StringToHashBucketStrong", NULL, .init = check_key, .compute = bucket_strong, STATE,
         .attrs = PF_ATTRS(BUCKETS, PF_ATTR(hash_state, PF_ATTR_INT | PF_ATTR_LIST, key))),
  NULL};
