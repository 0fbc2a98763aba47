/* C11 atomics under short names, for Cython.  Orders: loads acquire, stores release,
 * read-modify-writes acq_rel, unless the name says otherwise (_rlx relaxed, _sc sequentially
 * consistent). */
#ifndef PF_ATOMIC_H
#define PF_ATOMIC_H
#include <stdatomic.h>
#include <stdint.h>

typedef struct { _Atomic int32_t v; } pf_a32;
typedef struct { _Atomic int64_t v; } pf_a64;
typedef struct { _Atomic uintptr_t v; } pf_aptr;

#define PF_I static inline __attribute__((always_inline))
PF_I int32_t pf_a32_load(pf_a32 *a) { return atomic_load_explicit(&a->v, memory_order_acquire); }
PF_I int32_t pf_a32_load_rlx(pf_a32 *a) {
  return atomic_load_explicit(&a->v, memory_order_relaxed);
}
PF_I void pf_a32_store(pf_a32 *a, int32_t x) {
  atomic_store_explicit(&a->v, x, memory_order_release);
}
PF_I void pf_a32_store_rlx(pf_a32 *a, int32_t x) {
  atomic_store_explicit(&a->v, x, memory_order_relaxed);
}
PF_I int32_t pf_a32_add(pf_a32 *a, int32_t x) {
  return atomic_fetch_add_explicit(&a->v, x, memory_order_acq_rel);
}
PF_I int32_t pf_a32_add_rlx(pf_a32 *a, int32_t x) {
  return atomic_fetch_add_explicit(&a->v, x, memory_order_relaxed);
}
PF_I int32_t pf_a32_add_sc(pf_a32 *a, int32_t x) {
  return atomic_fetch_add_explicit(&a->v, x, memory_order_seq_cst);
}
PF_I int32_t pf_a32_xchg(pf_a32 *a, int32_t x) {
  return atomic_exchange_explicit(&a->v, x, memory_order_acq_rel);
}
PF_I int pf_a32_cas(pf_a32 *a, int32_t from, int32_t to) {
  return atomic_compare_exchange_strong_explicit(&a->v, &from, to, memory_order_acq_rel,
                                                 memory_order_acquire);
}
/* 1 for the caller that takes the count to zero; a unique owner pays no read-modify-write */
PF_I int pf_a32_dec_last(pf_a32 *a) {
  if (atomic_load_explicit(&a->v, memory_order_acquire) == 1) return 1;
  return atomic_fetch_sub_explicit(&a->v, 1, memory_order_acq_rel) == 1;
}
PF_I int64_t pf_a64_load(pf_a64 *a) { return atomic_load_explicit(&a->v, memory_order_acquire); }
PF_I int64_t pf_a64_load_rlx(const pf_a64 *a) {
  return atomic_load_explicit(&a->v, memory_order_relaxed);
}
PF_I void pf_a64_store(pf_a64 *a, int64_t x) {
  atomic_store_explicit(&a->v, x, memory_order_release);
}
PF_I void pf_a64_store_rlx(pf_a64 *a, int64_t x) {
  atomic_store_explicit(&a->v, x, memory_order_relaxed);
}
PF_I int64_t pf_a64_add(pf_a64 *a, int64_t x) {
  return atomic_fetch_add_explicit(&a->v, x, memory_order_acq_rel);
}
PF_I int64_t pf_a64_add_rlx(pf_a64 *a, int64_t x) {
  return atomic_fetch_add_explicit(&a->v, x, memory_order_relaxed);
}
PF_I int pf_a64_cas(pf_a64 *a, int64_t from, int64_t to) {
  return atomic_compare_exchange_strong_explicit(&a->v, &from, to, memory_order_acq_rel,
                                                 memory_order_acquire);
}
PF_I void *pf_aptr_load(pf_aptr *a) {
  return (void *)atomic_load_explicit(&a->v, memory_order_acquire);
}
PF_I void pf_aptr_store(pf_aptr *a, void *p) {
  atomic_store_explicit(&a->v, (uintptr_t)p, memory_order_release);
}
PF_I int pf_aptr_cas(pf_aptr *a, void *from, void *to) {
  uintptr_t f = (uintptr_t)from;
  return atomic_compare_exchange_strong_explicit(&a->v, &f, (uintptr_t)to, memory_order_acq_rel,
                                                 memory_order_acquire);
}
PF_I void pf_fence(void) { atomic_thread_fence(memory_order_seq_cst); }
PF_I void pf_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}
/* a lock for sections of a few instructions */
PF_I void pf_spin_lock(pf_a32 *a) {
  while (atomic_exchange_explicit(&a->v, 1, memory_order_acquire))
    while (atomic_load_explicit(&a->v, memory_order_relaxed)) pf_cpu_relax();
}
PF_I void pf_spin_unlock(pf_a32 *a) { atomic_store_explicit(&a->v, 0, memory_order_release); }
#endif
