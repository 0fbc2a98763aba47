/* search.c - Unique, ListDiff (hash tables over elements) and InTopK.
 *
 * Invariants: of equal elements the first counts; elements compare by bytes, except that -0 is 0.
 * Threads: one per call. */
#include "base/common.h"
#include <time.h>

/* A number that changes from call to call: which elements collide cannot be chosen from outside. */
static uint64_t fresh_number(void) {
  struct timespec now = {0};
  (void)timespec_get(&now, TIME_UTC);
  uint64_t h = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)(uintptr_t)&now;
  h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

/* ------------------------------------------- a set of elements, in order of first appearance
 * Open addressing in a table that grows.  Elements compare by bytes, except that -0 is 0; a key is
 * an element of less than 16 bytes itself and its length, or the hash and length of a longer one.
 * Searches go on side by side, so that their loads overlap. */
typedef struct {
  uint64_t a, b;
  int64_t rank;
} entry; /* rank: counted from 1; 0 is free */
typedef struct {
  pf_ctx *c;
  int64_t esize, n, room;
  uint64_t salt;
  int32_t type;
  entry *slot;
  int64_t *first; /* first[rank]: where it was first seen */
  const DLTensor *t;
} set;
enum { SIDE_BY_SIDE = 32, FIRST_ROOM = 1024 };
#define LONG_KEY 0xff00000000000000u

static pf_str element(const set *s, const DLTensor *t, int64_t i) {
  static const char zero[16];
  pf_str e = {"", 0};
  if (!s->esize) {
    s->c->host->str_get(t, i, &e);
    return e;
  }
  e = (pf_str){PF_DATA(const char, t) + i * s->esize, s->esize};
  if ((s->type == PF_FLOAT32 && *(const float *)e.data == 0) ||
      (s->type == PF_FLOAT64 && *(const double *)e.data == 0))
    e.data = zero;
  return e;
}
static uint64_t hash(pf_str e, uint64_t salt) {
  uint64_t h = salt ^ (uint64_t)e.len, w;
  for (; e.len >= 8; e.data += 8, e.len -= 8)
    memcpy(&w, e.data, 8), h = (h ^ w) * 0xff51afd7ed558ccdu, h ^= h >> 32;
  w = 0;
  if (e.len) memcpy(&w, e.data, (size_t)e.len);
  h = (h ^ w) * 0xff51afd7ed558ccdu;
  return h ^ h >> 29;
}
static entry key_of(const set *s, pf_str e) {
  entry k = {0, (uint64_t)e.len << 56, 0};
  uint32_t head, tail;
  if (e.len > 15) return (entry){hash(e, s->salt), LONG_KEY | (uint64_t)e.len, 0};
  if (e.len >= 8) {
    memcpy(&k.a, e.data, 8);
    for (int64_t i = 8; i < e.len; i++) k.b |= (uint64_t)(uint8_t)e.data[i] << 8 * (i - 8);
  } else if (e.len >= 4) { /* they may overlap */
    memcpy(&head, e.data, 4), memcpy(&tail, e.data + e.len - 4, 4);
    k.a = head | (uint64_t)tail << 32;
  } else {
    for (int64_t i = 0; i < e.len; i++) k.a |= (uint64_t)(uint8_t)e.data[i] << 8 * i;
  }
  return k;
}
static entry *place(const set *s, const entry *key, uint64_t step) {
  uint64_t h = (key->a ^ s->salt) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 32 ^ key->b) * 0xc4ceb9fe1a85ec53u;
  return s->slot + (((h ^ h >> 29) + step) & (uint64_t)(s->room - 1));
}
static pf_status set_grow(set *s) {
  int64_t old = s->room;
  const entry *from = s->slot;
  s->room = old ? 4 * old : FIRST_ROOM;
  s->slot = (entry *)s->c->host->scratch(s->c, (uint64_t)s->room * sizeof *s->slot, 64);
  PF_EXHAUSTED(s->slot);
  memset(s->slot, 0, (size_t)s->room * sizeof *s->slot);
  for (int64_t k = 0; k < old; k++) {
    uint64_t step = 0;
    if (!from[k].rank) continue;
    while (place(s, &from[k], step)->rank) step++;
    *place(s, &from[k], step) = from[k];
  }
  return PF_OK;
}
static pf_status set_new(pf_ctx *c, const DLTensor *t, int32_t type, set *s) {
  *s = (set){.c = c, .esize = pf_type_size(type), .type = type, .t = t, .salt = fresh_number()};
  s->first = (int64_t *)c->host->scratch(c, (uint64_t)pf_numel(t) * 8 + 8, 64);
  PF_EXHAUSTED(s->first);
  return set_grow(s);
}
/* element i of `t` has a long key's hash and length: is it `rank`'s */
static int same(const set *s, const DLTensor *t, int64_t i, int64_t rank) {
  pf_str e = element(s, t, i), o = element(s, s->t, s->first[rank]);
  return o.len == e.len && !memcmp(o.data, e.data, (size_t)e.len);
}
static int64_t set_take(set *s, const DLTensor *t, int64_t i, const entry *key, int add) {
  for (uint64_t step = 0;; step++) {
    entry *at = place(s, key, step);
    if (!at->rank) {
      if (!add) return -1;
      *at = *key, s->first[s->n] = i, at->rank = ++s->n;
      return s->n - 1;
    }
    if (at->a == key->a && at->b == key->b && (key->b < LONG_KEY || same(s, t, i, at->rank - 1)))
      return at->rank - 1;
  }
}
/* ranks of the n <= SIDE_BY_SIDE elements of `t` from i on; -1: absent and not to be added */
static pf_status set_find(set *s, const DLTensor *t, int64_t i, int64_t n, int add, int64_t *rank) {
  entry key[SIDE_BY_SIDE];
  if (2 * (s->n + n) > s->room) PF_TRY(set_grow(s));
  for (int64_t k = 0; k < n; k++) {
    key[k] = key_of(s, element(s, t, i + k));
    __builtin_prefetch(place(s, &key[k], 0));
  }
  for (int64_t k = 0; k < n; k++) rank[k] = set_take(s, t, i + k, &key[k], add);
  return PF_OK;
}

/* ------------------------------------------------- distinct numbers of 1, 2, 4 or 8 bytes
 * Keys lie beside their ranks in a table that doubles when half of it is taken, so that few
 * distinct numbers stay in the caches however long the vector is.  Where a key lies is for its
 * product with a number to say (Fibonacci's at first, Knuth 3, 6.4); after too many steps past
 * others' keys, keys made to collide, it is another number's turn. */
typedef struct { int64_t n, *first; } distinct; /* first: where each was first seen */
enum {
  TOGETHER = 256, /* elements between looks at the table */
  MOST_STEPS = 8
}; /* past others' keys, per element and place */
#define DISTINCT(U, TAG, MULTIPLIER) \
  typedef struct { U key, rank; } slot_##TAG;         /* rank: counted from 1; 0 is free */ \
  typedef struct { slot_##TAG *s; int64_t room, steps; U multiplier; } table_##TAG; \
  PF_INLINE slot_##TAG *find_##TAG(const table_##TAG *t, U key, int64_t *steps) { \
    U shift = (U)(8 * sizeof(U) - (unsigned)__builtin_ctzll((uint64_t)t->room)); \
    U at = (U)(key * t->multiplier) >> shift; \
    for (; t->s[at].rank && t->s[at].key != key; ++*steps) at = (at + 1) & (U)(t->room - 1); \
    return t->s + at; \
  } \
  /* a larger table, or one of the same size by another multiplier */ \
  static pf_status renew_##TAG(pf_ctx *c, table_##TAG *t, int larger, const U *x, \
                               const distinct *d) { \
    if (larger) { \
      t->room = t->room ? t->room * (t->room < 65536 ? 4 : 2) : 1024; \
      t->s = c->host->scratch(c, (uint64_t)t->room * sizeof *t->s, 64); \
      PF_EXHAUSTED(t->s); \
    } else t->multiplier = (U)fresh_number() | 1; \
    memset(t->s, 0, (size_t)t->room * sizeof *t->s); \
    t->steps = 0; \
    for (int64_t k = 0; k < d->n; k++) \
      *find_##TAG(t, x[d->first[k]], &t->steps) = (slot_##TAG){x[d->first[k]], (U)(k + 1)}; \
    return PF_OK; \
  } \
  static pf_status distinct_##TAG(pf_ctx *c, const U *x, int64_t n, DLTensor *idx, int32_t type, \
                                  distinct *d) { \
    table_##TAG t = {.multiplier = (U)(MULTIPLIER)}; \
    for (int64_t i = 0; i < n;) { \
      int64_t end = PF_MIN(i + TOGETHER, n), m = d->n, steps = 0, *first = d->first; \
      int full = 2 * (m + TOGETHER) > t.room; \
      if (full || t.steps > MOST_STEPS * (i + t.room)) PF_TRY(renew_##TAG(c, &t, full, x, d)); \
      const table_##TAG now = t; \
      for (; i < end; i++) { \
        slot_##TAG *at = find_##TAG(&now, x[i], &steps); \
        if (__builtin_expect(!at->rank, 0)) first[m] = i, *at = (slot_##TAG){x[i], (U)++m}; \
        if (type == PF_INT32) PF_DATA(int32_t, idx)[i] = (int32_t)(at->rank - 1); \
        else PF_DATA(int64_t, idx)[i] = (int64_t)(at->rank - 1); \
      } \
      d->n = m, t.steps += steps; \
    } \
    return PF_OK; \
  }
DISTINCT(uint32_t, u32, 2654435769u)
DISTINCT(uint64_t, u64, 11400714819323198485u)
#define WIDEN(T, U, EXPR) \
  for (int64_t i = 0; i < n; i++) { U v = ((const T *)x)[i]; ((U *)wide)[i] = EXPR; }
static pf_status distinct_numbers(pf_ctx *c, DLTensor *idx, distinct *d) {
  const void *x = PF_DATA(const void, c->in[0]);
  int64_t n = pf_numel(c->in[0]), esize = pf_type_size(c->in_type[0]);
  int32_t type = c->in_type[0];
  if (esize < 4 || type == PF_FLOAT32 || type == PF_FLOAT64) {
    void *wide = c->host->scratch(c, (uint64_t)n * 8 + 8, 64);
    PF_EXHAUSTED(wide);
    if (esize == 1) {
      WIDEN(uint8_t, uint32_t, v)
    } else if (esize == 2) {
      WIDEN(uint16_t, uint32_t, v)
    } else if (esize == 4) {
      WIDEN(uint32_t, uint32_t, v << 1 ? v : 0)
    } else {
      WIDEN(uint64_t, uint64_t, v << 1 ? v : 0)
    }
    x = wide;
  }
  return esize == 8 ? distinct_u64(c, x, n, idx, c->out_type[1], d)
                    : distinct_u32(c, x, n, idx, c->out_type[1], d);
}

static pf_status unique_vector(pf_ctx *c) { /* y, idx and, for UniqueWithCounts, count */
  const DLTensor *x = c->in[0];
  int64_t n = pf_numel(x), esize = pf_type_size(c->in_type[0]);
  if (x->ndim != 1)
    return PF_INVALID(c, "unique expects a 1D vector, got shape %s.", PF_SHAPE(x).s);
  DLTensor *idx = pf_output_like(c, 1, x);
  PF_EXHAUSTED(idx);
  distinct d = {0};
  if (esize && esize <= 8 && n < 1 << 28) {
    d.first = c->host->scratch(c, (uint64_t)n * 8 + 8, 64);
    PF_EXHAUSTED(d.first);
    PF_TRY(distinct_numbers(c, idx, &d));
  } else {
    set s;
    int64_t rank[SIDE_BY_SIDE];
    PF_TRY(set_new(c, x, c->in_type[0], &s));
    for (int64_t i = 0; i < n; i += SIDE_BY_SIDE) {
      int64_t m = PF_MIN(SIDE_BY_SIDE, n - i);
      PF_TRY(set_find(&s, x, i, m, 1, rank));
      for (int64_t k = 0; k < m; k++) pf_put_index(idx, c->out_type[1], i + k, rank[k]);
    }
    d.n = s.n, d.first = s.first;
  }
  DLTensor *y = c->host->output(c, 0, &d.n, 1);
  PF_EXHAUSTED(y);
  for (int64_t k = 0; k < d.n; k++) PF_TRY(pf_copy_run(c, y, k, x, d.first[k], 1, esize));
  if (c->n_out < 3) return PF_OK;
  DLTensor *count = c->host->output(c, 2, &d.n, 1);
  PF_EXHAUSTED(count);
  if (d.n) memset(PF_DATA(char, count), 0, (size_t)(d.n * pf_type_size(c->out_type[2])));
  if (c->out_type[1] == PF_INT32 && c->out_type[2] == PF_INT32)
    for (int64_t i = 0; i < n; i++) PF_DATA(int32_t, count)[PF_DATA(int32_t, idx)[i]]++;
  else
    for (int64_t i = 0; i < n; i++) {
      int64_t k = pf_index_at(idx, c->out_type[1], i);
      pf_put_index(count, c->out_type[2], k, pf_index_at(count, c->out_type[2], k) + 1);
    }
  return PF_OK;
}
static pf_status unique(pf_ctx *c, const void *state) {
  (void)state;
  return unique_vector(c);
}
static pf_status unique_v2(pf_ctx *c, const void *state) {
  int64_t axis[PF_MAX_DIMS];
  int32_t n;
  (void)state;
  PF_TRY(pf_in_vector(c, 1, "axis", axis, &n));
  if (n > 1 || (n == 1 && axis[0] != 0 && axis[0] != -1) || c->in[0]->ndim != 1)
    return pf_failf(c, PF_UNIMPLEMENTED, "UniqueV2 is only implemented for vectors, got shape %s",
                    PF_SHAPE(c->in[0]).s);
  return unique_vector(c);
}
static pf_status list_diff(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *y = c->in[1];
  int64_t n = pf_numel(x), m = 0, rank[SIDE_BY_SIDE], count;
  set s;
  (void)state;
  if (x->ndim != 1) return PF_INVALID(c, "x should be a 1D vector, got shape %s.", PF_SHAPE(x).s);
  if (y->ndim != 1) return PF_INVALID(c, "y should be a 1D vector, got shape %s.", PF_SHAPE(y).s);
  PF_TRY(set_new(c, y, c->in_type[0], &s));
  for (int64_t i = 0; i < y->shape[0]; i += count) {
    count = PF_MIN(SIDE_BY_SIDE, y->shape[0] - i);
    PF_TRY(set_find(&s, y, i, count, 1, rank));
  }
  int64_t *kept = (int64_t *)c->host->scratch(c, (uint64_t)n * 8 + 8, 8);
  PF_EXHAUSTED(kept);
  for (int64_t i = 0; i < n; i += count) {
    count = PF_MIN(SIDE_BY_SIDE, n - i);
    PF_TRY(set_find(&s, x, i, count, 0, rank));
    for (int64_t k = 0; k < count; k++)
      if (rank[k] < 0) kept[m++] = i + k;
  }
  DLTensor *out = c->host->output(c, 0, &m, 1);
  PF_EXHAUSTED(out);
  DLTensor *idx = c->host->output(c, 1, &m, 1);
  PF_EXHAUSTED(idx);
  for (int64_t i = 0; i < m; i++) {
    PF_TRY(pf_copy_run(c, out, i, x, kept[i], 1, s.esize));
    pf_put_index(idx, c->out_type[1], i, kept[i]);
  }
  return PF_OK;
}

/* ------------------------------------------------- InTopK: fewer than k classes beat the target */
enum { AHEAD = 8, BLOCK = 64 };
/* how many of a row are above v; INT64_MAX when one is not finite.  Stops early at k. */
static int64_t beaten(const float *p, int64_t n, float v, int64_t k) {
  int64_t above = 0, odd = 0;
  for (int64_t i = 0; i < n && above < k && !odd; i += BLOCK) {
    int64_t end = PF_MIN(i + BLOCK, n);
    for (int64_t j = i; j < end; j++) above += p[j] > v, odd |= !isfinite(p[j]);
  }
  return odd ? INT64_MAX : above;
}
static pf_status in_top(pf_ctx *c, int64_t k) {
  const DLTensor *x = c->in[0], *target = c->in[1];
  if (x->ndim != 2)
    return PF_INVALID(c, "predictions must be 2-dimensional, got shape %s", PF_SHAPE(x).s);
  if (target->ndim != 1)
    return PF_INVALID(c, "targets must be 1-dimensional, got shape %s", PF_SHAPE(target).s);
  int64_t rows = x->shape[0], cols = x->shape[1];
  if (target->shape[0] != rows)
    return PF_INVALID(
        c, "First dimension of predictions %" PRId64 " must match length of targets %" PRId64, rows,
        target->shape[0]);
  DLTensor *y = c->host->output(c, 0, &rows, 1);
  PF_EXHAUSTED(y);
  const float *p = PF_DATA(const float, x);
  for (int64_t r = 0; r < rows; r++, p += cols) {
    int64_t t = pf_in_index(c, 1, r);
    if (r + AHEAD < rows) {
      int64_t later = pf_in_index(c, 1, r + AHEAD);
      __builtin_prefetch(p + AHEAD * cols);
      __builtin_prefetch(p + AHEAD * cols + (later >= 0 && later < cols ? later : 0));
    }
    PF_DATA(uint8_t, y)[r] = t >= 0 && t < cols && isfinite(p[t]) && beaten(p, cols, p[t], k) < k;
  }
  return PF_OK;
}
typedef struct { int64_t k; } k_state;
static pf_status in_top_k(pf_ctx *c, const void *state) {
  return in_top(c, ((const k_state *)state)->k);
}
static pf_status in_top_k_v2(pf_ctx *c, const void *state) {
  int64_t k;
  (void)state;
  PF_TRY(pf_in_scalar(c, 2, "k", &k));
  return in_top(c, k);
}

const pf_kernel *const search_kernels[] = {
  PF_CPU("Unique", NULL, .compute = unique),
  PF_CPU("UniqueV2", NULL, .compute = unique_v2),
  PF_CPU("UniqueWithCountsV2", NULL, .compute = unique_v2),
  PF_CPU("UniqueWithCounts", NULL, .compute = unique),
  PF_CPU("ListDiff", NULL, .compute = list_diff),
  PF_CPU("InTopK", NULL, .compute = in_top_k, .state_size = sizeof(k_state),
         .attrs = PF_ATTRS(PF_ATTR(k_state, PF_ATTR_INT, k))),
  PF_CPU("InTopKV2", NULL, .compute = in_top_k_v2),
  NULL};
