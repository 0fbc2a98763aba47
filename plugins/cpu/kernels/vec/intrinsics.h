/* intrinsics.h - <immintrin.h> less what few files need of it.
 *
 * GCC's header declares every instruction there is, 0.2 s of each file's compile time, most of it
 * for sets that this file is not compiled for (each switches the target twice).  Its parts are left
 * out by their include guards.  meson.build defines PF_FEW_INTRINSICS where a compiler agrees with
 * that (the parts lean on each other, not alike in all versions); a file that, compiled for
 * AVX-512, names instructions beyond it (target("amx-tile")) defines PF_ALL_INTRINSICS before it
 * includes anything.
 */
#ifndef PF_CPU_INTRINSICS_H
#define PF_CPU_INTRINSICS_H
#if defined(PF_FEW_INTRINSICS) && !(defined(PF_ALL_INTRINSICS) && defined(__AVX512F__))
#define _AVXVNNIINTRIN_H_INCLUDED
#define _WMMINTRIN_H_INCLUDED
#define _SHAINTRIN_H_INCLUDED
#define _RTMINTRIN_H_INCLUDED
#define _GFNIINTRIN_H_INCLUDED
#define __VAESINTRIN_H_INCLUDED
#define _VPCLMULQDQINTRIN_H_INCLUDED
#define _AMXTILEINTRIN_H_INCLUDED
#define _AMXINT8INTRIN_H_INCLUDED
#define _AMXBF16INTRIN_H_INCLUDED
#define _KEYLOCKERINTRIN_H_INCLUDED
#define _AVX512ERINTRIN_H_INCLUDED
#define _AVX512PFINTRIN_H_INCLUDED
#define _AVX512CDINTRIN_H_INCLUDED
#define _AVX512IFMAINTRIN_H_INCLUDED
#define _AVX512IFMAVLINTRIN_H_INCLUDED
#define _AVX512VBMIINTRIN_H_INCLUDED
#define _AVX512VBMIVLINTRIN_H_INCLUDED
#define _AVX5124FMAPSINTRIN_H_INCLUDED
#define _AVX5124VNNIWINTRIN_H_INCLUDED
#define _AVX512VPOPCNTDQINTRIN_H_INCLUDED
#define __AVX512VBMI2INTRIN_H_INCLUDED
#define _AVX512VBMI2VLINTRIN_H_INCLUDED
#define __AVX512VNNIINTRIN_H_INCLUDED
#define _AVX512VNNIVLINTRIN_H_INCLUDED
#define _AVX512VPOPCNTDQVLINTRIN_H_INCLUDED
#define _AVX512BITALGINTRIN_H_INCLUDED
#define _AVX512VP2INTERSECTINTRIN_H_INCLUDED
#define _AVX512VP2INTERSECTVLINTRIN_H_INCLUDED
#define __AVX512FP16INTRIN_H_INCLUDED
#define __AVX512FP16VLINTRIN_H_INCLUDED
#define _AVX512BF16VLINTRIN_H_INCLUDED
#define _AVX512BF16INTRIN_H_INCLUDED
#ifndef __AVX512F__
#define _AVX512FINTRIN_H_INCLUDED
#define _AVX512VLINTRIN_H_INCLUDED
#define _AVX512BWINTRIN_H_INCLUDED
#define _AVX512DQINTRIN_H_INCLUDED
#define _AVX512VLBWINTRIN_H_INCLUDED
#define _AVX512VLDQINTRIN_H_INCLUDED
#endif
#endif
#include <immintrin.h>
#endif
