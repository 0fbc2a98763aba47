/* Ticks: the processor's own counter where it runs at one rate, for traces; else nanoseconds.
 * Chosen by trace.pyx. */
#ifndef PF_CLOCK_H
#define PF_CLOCK_H
#include "values/values.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
enum { PF_READY_SHIFT = 6 };      /* pf_item.ready: 25 ns steps, 100 s range at 2.6 GHz */
extern int32_t pf_ticks_from_tsc; /* 1: the time stamp counter runs at one rate and never stops */
static inline int pf_tsc_is_invariant(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(0x80000000u, &a, &b, &c, &d) || a < 0x80000007u) return 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d >> 8 & 1);
}
static inline int64_t pf_cpu_ticks(void) {
  uint32_t lo, hi;
  __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
  return (int64_t)((uint64_t)hi << 32 | lo);
}
#elif defined(__aarch64__)
enum { PF_READY_SHIFT = 0 }; /* 25 MHz to 1 GHz */
extern int32_t pf_ticks_from_tsc;
static inline int pf_tsc_is_invariant(void) { return 1; }
static inline int64_t pf_cpu_ticks(void) {
  int64_t t;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
}
#else
enum { PF_READY_SHIFT = 6 };
extern int32_t pf_ticks_from_tsc;
static inline int pf_tsc_is_invariant(void) { return 0; }
static inline int64_t pf_cpu_ticks(void) { return 0; }
#endif
static inline int64_t pf_ticks(void) {
  if (pf_ticks_from_tsc) return pf_cpu_ticks();
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000000ll + ts.tv_nsec;
}
static inline uint32_t pf_ready_stamp(void) { return (uint32_t)(pf_ticks() >> PF_READY_SHIFT); }
/* The tick at which `stamp` was taken, not after `now`. */
static inline int64_t pf_ready_tick(uint32_t stamp, int64_t now) {
  int64_t ago = (int64_t)(uint32_t)((uint32_t)(now >> PF_READY_SHIFT) - stamp) << PF_READY_SHIFT;
  return now - ago;
}
#endif
