/* machine.h - what the kernels know of processors: sizes of caches, and what one can or does better
 * than another.
 *
 * No other file asks for a maker, a feature at run time or the size of a cache
 * (tests/portability/test_machine.py).  A kernel's threshold that means a cache is a multiple or a
 * part of one of these; a kernel's way that was measured on both makers' processors asks for the
 * property it is about.
 *
 * The sizes are those of the servers measured on (AMD Zen 4 and 5, Intel Sapphire Rapids), the
 * smaller of the two where they differ: constants, so that results and their bits are the same
 * everywhere.
 */
#ifndef PYFLOW_CPU_MACHINE_H
#define PYFLOW_CPU_MACHINE_H
#include "base/isa.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
  PF_LINE = 64,
  PF_PAGE = 4096,               /* rows a multiple of it apart share places in the nearest cache */
  PF_L1_BYTES = 32 << 10,       /* of a core, data: 32 and 48 KB */
  PF_L2_BYTES = 1 << 20,        /* of a core: 1 and 2 MB */
  PF_L3_BYTES = 8 << 20,        /* what a core at work has of the shared one, about */
  PF_STREAM_BYTES = PF_L3_BYTES /* results of that size do not stay in the caches anyway */
};

#define PF_MACHINE static inline __attribute__((unused)) int

#if defined(__x86_64__)
PF_MACHINE pf_machine_intel(void) { return __builtin_cpu_is("intel") != 0; }
#else
PF_MACHINE pf_machine_intel(void) { return 0; }
#endif

/* The third cache is far and the second one, too: what is read next is worth fetching earlier
 * and nearer. */
PF_MACHINE pf_has_far_caches(void) { return pf_machine_intel(); }
/* Few buffers for lines that are stored past the caches: fewer places at a time. */
PF_MACHINE pf_has_few_line_buffers(void) { return pf_machine_intel(); }
/* A half vector takes a whole one's time, and one port alone sums across a vector. */
PF_MACHINE pf_has_whole_vectors_only(void) { return pf_machine_intel(); }

#if defined(__x86_64__)
/* Products of pairs of bfloat16 at twice floats' speed.  Intel's have the instruction, too, but
 * run it at half the multiplications of float's (112 GF/s beside 223 in a loop of either). */
PF_MACHINE pf_has_fast_pairs(void) {
  return __builtin_cpu_supports("avx512bf16") && !pf_machine_intel();
}
/* Permutation of bytes across two registers. */
PF_MACHINE pf_has_byte_permutation(void) { return __builtin_cpu_supports("avx512vbmi") != 0; }
/* Sums of four products of neighbouring bytes. */
PF_MACHINE pf_has_byte_products(void) { return __builtin_cpu_supports("avx512vnni") != 0; }
/* CRC-32C as an instruction. */
PF_MACHINE pf_has_crc32c(void) { return __builtin_cpu_supports("sse4.2") != 0; }
/* Products of polynomials over bits, of which any CRC can be made. */
PF_MACHINE pf_has_bit_products(void) {
  return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
/* Tiles of bfloat16 (AMX) and AVX-512's bfloat16; the system must be asked for the tiles before
 * they are used. */
PF_MACHINE pf_has_tiles(void) {
  const unsigned tiles = 1u << 22 | 1u << 24, bf16 = 1u << 5; /* of leaf 7: edx; 7.1: eax */
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles) != tiles) return 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bf16) != 0;
}
/* The widest instruction set of those that kernels are compiled for. */
PF_MACHINE pf_machine_isa(void) {
  __builtin_cpu_init();
  if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")))
    return PF_ISA_LEVEL_BASELINE;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return PF_ISA_LEVEL_AVX512;
  return PF_ISA_LEVEL_AVX2;
}
#endif
#endif
