/* What the processor offers, by the names kernels use in `needs`.  -1: an unknown name. */
#ifndef PF_ISA_H
#define PF_ISA_H
#include <string.h>
static inline int pf_isa_has(const char *name) {
#define PF_ISA(text, test) if (!strcmp(name, text)) return !!(test);
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
#define PF_X86(f) PF_ISA(f, __builtin_cpu_supports(f))
  PF_X86("sse4.1")
  PF_X86("sse4.2")
  PF_X86("avx")
  PF_X86("avx2")
  PF_X86("fma")
  PF_X86("bmi2")
  PF_X86("popcnt")
  PF_X86("avx512f")
  PF_X86("avx512bw")
  PF_X86("avx512vl")
  PF_X86("avx512dq")
  PF_X86("avx512vnni")
#if defined(__GNUC__) && (__GNUC__ >= 12 || defined(__clang__))
  PF_X86("avx512bf16")
#endif
#undef PF_X86
  PF_ISA("neon", 0)
#elif defined(__aarch64__)
  PF_ISA("neon", 1)
  PF_ISA("avx", 0)
  PF_ISA("avx2", 0)
  PF_ISA("fma", 0)
  PF_ISA("avx512f", 0)
#else
#if defined(__ARM_NEON)
  PF_ISA("neon", 1)
#else
  PF_ISA("neon", 0)
#endif
  PF_ISA("avx", 0)
  PF_ISA("avx2", 0)
  PF_ISA("fma", 0)
  PF_ISA("avx512f", 0)
#endif
#undef PF_ISA
  return -1;
}
#endif
