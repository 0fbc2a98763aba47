/* candidate.h - what the candidate samplers share: a stream of random words, the drawing of classes
 * with expected counts, and a hash table of classes.
 *
 * Invariants
 *   1. Words come in Philox's order, and are used as TF's samplers use them: equal seeds give TF's
 *      candidates.
 *   2. Unique candidates are drawn again until they are new; the number of tries is what the
 *      expected counts are computed from, and it is limited.
 * Threads: a sampler is used by one thread at a time.
 */
#ifndef PF_CPU_CANDIDATE_H
#define PF_CPU_CANDIDATE_H
#include "base/common.h"

enum { CANDIDATE_RESERVED = 512, MAX_CANDIDATES = 1 << 26, MAX_TRIES = 1 << 28 };

/* ---------------------------------------------------------------- random words */
typedef struct {
  uint64_t key, lo, hi;
  uint32_t word[4];
  int at;
} candidate_rng;

PF_LOCAL void candidate_block(candidate_rng *r) {
  uint32_t x[4] = {(uint32_t)r->lo, (uint32_t)(r->lo >> 32), (uint32_t)r->hi,
                   (uint32_t)(r->hi >> 32)};
  uint32_t k0 = (uint32_t)r->key, k1 = (uint32_t)(r->key >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t a = (uint64_t)x[0] * 0xD2511F53u, b = (uint64_t)x[2] * 0xCD9E8D57u;
    uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ k0, y2 = (uint32_t)(a >> 32) ^ x[3] ^ k1;
    x[1] = (uint32_t)b;
    x[3] = (uint32_t)a;
    x[0] = y0;
    x[2] = y2;
  }
  memcpy(r->word, x, sizeof x);
  r->hi += ++r->lo == 0;
  r->at = 0;
}
PF_LOCAL pf_status candidate_open(pf_ctx *c, int64_t samples, candidate_rng *r) {
  uint64_t key[2], counter[2];
  PF_TRY(c->host->rng(c, CANDIDATE_RESERVED * (uint64_t)samples, key, counter));
  *r = (candidate_rng){.key = key[0], .lo = counter[0], .hi = counter[1], .at = 4};
  return PF_OK;
}
PF_LOCAL uint32_t candidate_word(candidate_rng *r) {
  if (r->at == 4) candidate_block(r);
  return r->word[r->at++];
}
PF_LOCAL uint64_t candidate_long(candidate_rng *r) {
  uint64_t lo = candidate_word(r);
  return lo | (uint64_t)candidate_word(r) << 32;
}
PF_LOCAL float candidate_float(candidate_rng *r) {
  return pf_bits_float((candidate_word(r) & 0x7fffffu) | 0x3f800000u) - 1.0f;
}
PF_LOCAL double candidate_double(candidate_rng *r) {
  uint64_t hi = candidate_word(r), lo = candidate_word(r);
  return pf_bits_double((hi & 0xfffffu) << 32 | lo | 0x3ff0000000000000u) - 1.0;
}

/* ---------------------------------------------------------------- classes seen */
typedef struct {
  int64_t *key;
  int32_t *value;
  int64_t slots;
} candidate_set; /* value -1: free */

PF_LOCAL pf_status candidate_set_open(pf_ctx *c, int64_t n, candidate_set *s) {
  s->slots = 16;
  while (s->slots < 2 * n) s->slots *= 2;
  s->key = c->host->scratch(c, (uint64_t)s->slots * 8, 64);
  s->value = c->host->scratch(c, (uint64_t)s->slots * 4, 64);
  if (!s->key || !s->value)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a table of classes");
  memset(s->value, 0xff, (size_t)s->slots * 4);
  return PF_OK;
}
/* the slot of a class, or the free one where it belongs */
PF_LOCAL int64_t candidate_slot(const candidate_set *s, int64_t key) {
  int64_t i = (int64_t)((uint64_t)key * 0x9e3779b97f4a7c15ull >> 20) & (s->slots - 1);
  while (s->value[i] >= 0 && s->key[i] != key) i = (i + 1) & (s->slots - 1);
  return i;
}

/* ---------------------------------------------------------------- samplers */
/* the attributes of every sampler */
typedef struct {
  int64_t num_true, num_sampled, range_max;
  int32_t unique;
} candidate_attrs;
typedef struct candidate_sampler candidate_sampler;
struct candidate_sampler {
  int64_t range;
  int64_t (*draw)(const candidate_sampler *, candidate_rng *);
  float (*probability)(const candidate_sampler *, int64_t value);
  const void *data;
};

/* Outputs 0 to 2 of a sampler op. */
pf_status pf_candidates(pf_ctx *c, const candidate_attrs *a, const candidate_sampler *s);
pf_status pf_candidate_check(pf_ctx *c, const candidate_attrs *a);

#define CANDIDATE_FIELD(S, name, kind, field) PF_REF(pf_attr, name, kind, offsetof(S, field))
#define CANDIDATE_ATTRS(S) \
  CANDIDATE_FIELD(S, "num_true", PF_ATTR_INT, a.num_true), \
      CANDIDATE_FIELD(S, "num_sampled", PF_ATTR_INT, a.num_sampled), \
      CANDIDATE_FIELD(S, "unique", PF_ATTR_BOOL, a.unique)
#endif
