/* isa.h - one kernel file, compiled once per instruction set (see meson.build).
 *
 * A file of `isa_kernels` names everything it exports through PF_ISA_NAME, so that its three copies
 * live side by side:
 *
 *     static pf_status relu(pf_ctx *c, const void *s) { ... }
 *     static const pf_kernel relu_f32 = { ... };
 *     const pf_kernel *const PF_ISA_NAME(unary_kernels)[] = { &relu_f32, 0 };       // unary.c: listed in isa_kernels
 *
 * A file of `kernels`, state.c, exports `const pf_kernel *const state_kernels[] = {..., 0};`
 */
#ifndef PYFLOW_CPU_ISA_H
#define PYFLOW_CPU_ISA_H
#include <pyflow/kernel.h>

#define PF_CAT_(a, b) a##_##b
#define PF_CAT(a, b) PF_CAT_(a, b)
#ifdef PF_ISA
#define PF_ISA_NAME(f) PF_CAT(f, PF_ISA)
#define PF_TEXT_(a) #a
#define PF_TEXT(a) PF_TEXT_(a)
#define PF_ISA_TEXT PF_TEXT(PF_ISA) /* its name as a string */
#endif

enum { PF_ISA_LEVEL_BASELINE = 0, PF_ISA_LEVEL_AVX2 = 1, PF_ISA_LEVEL_AVX512 = 2 };
/* the level in use: what the CPU has, lowered by PYFLOW_CPU_ISA=baseline|avx2|avx512 */
int pf_cpu_isa(void);

/* a * b + c, fused where that is one instruction.  Without the macro nothing is contracted
 * (-ffp-contract=off). */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
#define PF_FMA(a, b, c) _Generic((a), float: __builtin_fmaf, default: __builtin_fma)((a), (b), (c))
#else
#define PF_FMA(a, b, c) ((a) * (b) + (c))
#endif
#endif
