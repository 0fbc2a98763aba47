/* Memory of the core: tables and thread-local pointer of memory.pyx and tensor.pyx, for them alone.
 *
 * A block is a 192-byte pf_tensor header and the data of one size class behind it.  Free blocks
 * keep the header's constant fields, so that taking one writes only what differs between tensors.
 */
#ifndef PF_MEMORY_H
#define PF_MEMORY_H
#include "upcalls.h"
#include "values/values.h"
#if defined(__linux__)
#include <sys/mman.h>
#endif

enum {
  PF_SMALL_CLASSES = 7,          /* 64, 128, ... 4096 bytes of data */
  PF_THREAD_CLASSES = 7 + 4 * 6, /* then quarter steps: kept per thread up to 256 KB */
  PF_CLASSES = 7 + 4 * 35,       /* ... and shared up to 128 TB */
  PF_FLUSH_BYTES = 65536,        /* how far a thread's count may run ahead of the heap's */
  PF_HUGE_BYTES = 4 << 20,       /* from here on blocks ask for huge pages */
  PF_HEADER = (int)sizeof(pf_tensor)
};
#if defined(__SANITIZE_ADDRESS__) || defined(PF_NO_BLOCK_CACHE)
enum { PF_CACHE_BLOCKS = 0 }; /* the sanitizer sees each use after free */
#else
enum { PF_CACHE_BLOCKS = 1 };
#endif
#if defined( \
    PF_NO_BLOCK_CACHE) /* the fuzz targets: it also sees uses of what a block has behind its tensor */
void __asan_poison_memory_region(void const volatile *p, size_t n) __attribute__((weak));
static inline void pf_guard_tail(char *data, int64_t n, int64_t room) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(data + n, (size_t)(room - n));
}
#else
static inline void pf_guard_tail(char *data, int64_t n, int64_t room) {
  (void)data, (void)n, (void)room;
}
#endif
static const int64_t PF_SHARED_BYTES = (int64_t)256 << 20; /* cached in any case */

/* Free blocks of one thread; only that thread writes it, others read the counts. */
typedef struct pf_cache {
  pf_tensor *free[PF_THREAD_CLASSES]; /* linked through pf_tensor.owner */
  pf_a32 count[PF_THREAD_CLASSES];
  int32_t max[PF_THREAD_CLASSES];
  pf_a64 delta, allocs; /* bytes in use, allocations: not yet the heap's */
  struct pf_cache *next, *prev;
} pf_cache;

typedef struct pf_memory {
  pthread_mutex_t lock; /* guards the lists and `cached` */
  pf_cache *threads;
  pf_tensor *free[PF_CLASSES];
  int64_t cached;
  pf_a64 in_use, peak, allocs, cap;
  /* all threads' deltas at the last reset: a thread that sleeps does not falsify the peak */
  pf_a64 skew;
  pf_a64 high; /* the peak since the last trim: it bounds the cache */
  pthread_key_t key;
} pf_memory;

/* One pointer of static TLS: 1 ns to read, and small enough for a library opened late. */
#if defined(__GLIBC__) && defined(__linux__)
#define PF_TLS __attribute__((visibility("hidden"), tls_model("initial-exec")))
#else
#define PF_TLS __attribute__((visibility("hidden")))
#endif
extern PF_TLS _Thread_local pf_cache *pf_tls_cache;

/* memory.pyx */
pf_tensor *pf_block_new_slow(int32_t k);
void pf_block_free_slow(pf_tensor *t);
void pf_mem_count(int64_t bytes); /* bytes in use outside blocks */
void pf_drop_reference(DLManagedTensorVersioned *m);

static inline void *pf_block_from_system(uint64_t bytes) {
  if (bytes < PF_HUGE_BYTES) return aligned_alloc(64, (bytes + 63) & ~(uint64_t)63);
  uint64_t step = (uint64_t)2 << 20;
  void *p = aligned_alloc(step, (bytes + step - 1) & ~(step - 1));
#ifdef MADV_HUGEPAGE
  if (p) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return p;
}
static inline int32_t pf_class_of(uint64_t bytes) {
  if (bytes <= 64) return 0;
  if (bytes <= 4096) return 64 - __builtin_clzll((bytes - 1) >> 6);
  int32_t e = 63 - __builtin_clzll(bytes - 1);
  return PF_SMALL_CLASSES + (e - 12) * 4 + (int32_t)(((bytes - 1) >> (e - 2)) & 3);
}
static inline int64_t pf_class_bytes(int32_t k) {
  if (k < PF_SMALL_CLASSES) return (int64_t)64 << k;
  k -= PF_SMALL_CLASSES;
  return (int64_t)(5 + (k & 3)) << (10 + k / 4);
}
static inline int pf_mul_overflows(int64_t a, int64_t b, int64_t *r) {
  return __builtin_mul_overflow(a, b, r);
}

/* The hit in the thread's own list; everything else is slow. */
static inline pf_tensor *pf_block_new(int32_t k) {
  pf_cache *c = pf_tls_cache;
  if (__builtin_expect(!c || k >= PF_THREAD_CLASSES, 0)) return pf_block_new_slow(k);
  pf_tensor *t = c->free[k];
  int64_t delta = pf_a64_load_rlx(&c->delta) + pf_class_bytes(k) + PF_HEADER;
  if (__builtin_expect(!t || delta > PF_FLUSH_BYTES, 0)) return pf_block_new_slow(k);
  c->free[k] = (pf_tensor *)t->owner;
  pf_a64_store_rlx(&c->delta, delta);
  pf_a64_store_rlx(&c->allocs, pf_a64_load_rlx(&c->allocs) + 1);
  pf_a32_store_rlx(&c->count[k], pf_a32_load_rlx(&c->count[k]) - 1);
  return t;
}
static inline void pf_block_release(pf_tensor *t) {
  pf_cache *c = pf_tls_cache;
  int32_t k = (int32_t)t->klass, n;
  if (__builtin_expect(!c || k >= PF_THREAD_CLASSES, 0)) {
    pf_block_free_slow(t);
    return;
  }
  int64_t delta = pf_a64_load_rlx(&c->delta) - pf_class_bytes(k) - PF_HEADER;
  n = pf_a32_load_rlx(&c->count[k]);
  if (__builtin_expect(n >= c->max[k] || delta < -PF_FLUSH_BYTES, 0)) {
    pf_block_free_slow(t);
    return;
  }
  t->owner = c->free[k];
  c->free[k] = t;
  pf_a64_store_rlx(&c->delta, delta);
  pf_a32_store_rlx(&c->count[k], n + 1);
}

/* ---------------------------------------------------------------- element types */
enum { PF_TYPES = 32 };
typedef struct {
  const char *name;
  uint8_t size, code, bits;
} pf_type_row;
static const pf_type_row pf_type_table[PF_TYPES] = {
  [PF_FLOAT32] = {"float", 4, kDLFloat, 32},
  [PF_FLOAT64] = {"double", 8, kDLFloat, 64},
  [PF_INT32] = {"int32", 4, kDLInt, 32},
  [PF_UINT8] = {"uint8", 1, kDLUInt, 8},
  [PF_INT16] = {"int16", 2, kDLInt, 16},
  [PF_INT8] = {"int8", 1, kDLInt, 8},
  [PF_STRING] = {"string", sizeof(pf_str), kDLOpaqueHandle, 8 * sizeof(pf_str)},
  [PF_COMPLEX64] = {"complex64", 8, kDLComplex, 64},
  [PF_INT64] = {"int64", 8, kDLInt, 64},
  [PF_BOOL] = {"bool", 1, kDLBool, 8},
  [PF_QINT8] = {"qint8", 1, kDLInt, 8},
  [PF_QUINT8] = {"quint8", 1, kDLUInt, 8},
  [PF_QINT32] = {"qint32", 4, kDLInt, 32},
  [PF_BFLOAT16] = {"bfloat16", 2, kDLBfloat, 16},
  [PF_QINT16] = {"qint16", 2, kDLInt, 16},
  [PF_QUINT16] = {"quint16", 2, kDLUInt, 16},
  [PF_UINT16] = {"uint16", 2, kDLUInt, 16},
  [PF_COMPLEX128] = {"complex128", 16, kDLComplex, 128},
  [PF_FLOAT16] = {"half", 2, kDLFloat, 16},
  [PF_RESOURCE] = {"resource", sizeof(void *), kDLOpaqueHandle, 8 * sizeof(void *)},
  [PF_VARIANT] = {"variant", sizeof(void *), kDLOpaqueHandle, 8 * sizeof(void *)},
  [PF_UINT32] = {"uint32", 4, kDLUInt, 32},
  [PF_UINT64] = {"uint64", 8, kDLUInt, 64},
  [PF_FLOAT8_E5M2] = {"float8_e5m2", 1, 12, 8},
  [PF_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1, 10, 8},
  [PF_INT4] = {"int4", 1, kDLInt, 8},
  [PF_UINT4] = {"uint4", 1, kDLUInt, 8}, /* a byte each */
};
#endif
