/* vmath512.h - exp, log, tanh, sigmoid and erf of sixteen floats by AVX-512: tables in registers,
 * and instructions that scale by 2^n or take a number apart whatever it is (denormal, zero,
 * infinite).
 *
 * What unary_float.c and fused_steps.h compute where the machine has these instructions; elsewhere
 * it is vmath.h's, whose stated errors hold here too (tests/ops/test_vmath.py).  Operations of a
 * vector, on the two multiplying units / all, and the greatest error found, in ulp:
 *
 *     exp 9/14, 0.8   log 7/15, 1.0   tanh 13/14 and a division, 5.3
 *     sigmoid 9/17 and a division, 2.5   erf 8/19, 2.0
 *     tanh of halves 4/10, 2.9e-5 of the result; exp 4/9, 1e-6; sigmoid 7/14, 1e-6
 *
 * Tables: 2^(j / 16) and what its rounding lost; 1 / c and log c of 32 pieces of [0.75, 1.5), c
 * chosen so that log c is nearly a float; polynomials of degree 5 of erf about 16 points c_k, some
 * 17/64 apart, chosen so that erf(c_k) is nearly a float, interpolated at Chebyshev's points in
 * 200-bit arithmetic; polynomials of degree 2 of tanh x / x, least error of the result.
 * Threads: pure.
 *
 * Fast path: tanh, exp, erf (docs/paths.md).
 */
#ifndef PF_CPU_VMATH512_H
#define PF_CPU_VMATH512_H
#include "vec/simd.h"
#if defined(__AVX512F__)

static const float pf_erf_pieces[7][16] __attribute__((aligned(64))) = {
  {0.112128392f, 0.0757785812f, -0.00172596122f, -0.059438698f, -0.0659493059f, -0.036870148f,
   -0.00512103969f, 0.0109173339f, 0.0124458736f, 0.00807118043f, 0.00382864452f, 0.00142883172f,
   0.000433421257f, 0.000108796674f, 2.2851993e-05f, 0.0f},
  {0.0f, 0.132012516f, 0.182217181f, 0.136811525f, 0.0483423136f, -0.0219369736f, -0.0487408675f,
   -0.0429950282f, -0.0264184438f, -0.0125445835f, -0.00483381376f, -0.00154192734f,
   -0.000411172281f, -9.18725127e-05f, -1.75226487e-05f, 0.0f},
  {-0.3761217f, -0.300983489f, -0.123587079f, 0.053873077f, 0.1529302f, 0.162970349f, 0.121106952f,
   0.0700452849f, 0.0330549628f, 0.0128940661f, 0.00424414733f, 0.00118511391f, 0.000281293615f,
   5.66031522e-05f, 9.82104302e-06f, 0.0f},
  {0.0f, -0.279395461f, -0.452015102f, -0.47648111f, -0.38785547f, -0.257006526f, -0.141976491f,
   -0.0660427138f, -0.0262400992f, -0.00886256248f, -0.00257872767f, -0.000646126631f,
   -0.000139186741f, -2.56490875e-05f, -4.10721168e-06f, 0.0f},
  {0.128379166f, 1.05144894f, 0.850973547f, 0.597865045f, 0.365146786f, 0.193561211f, 0.0891045779f,
   0.0355110466f, 0.0123493765f, 0.00370633812f, 0.000970779744f, 0.000221194263f, 4.3687658e-05f,
   7.43084411e-06f, 1.1052897e-06f, 0.0f},
  {0.0f, 0.292934924f, 0.547472298f, 0.740298033f, 0.866943479f, 0.939582527f, 0.975761056f,
   0.99146384f, 0.997343957f, 0.999280035f, 0.99982816f, 0.999964058f, 0.999993443f, 0.999998987f,
   0.999999881f, 1.0f},
  {0.0f, 0.265731215f, 0.531184018f, 0.796977103f, 1.06218553f, 1.32775891f, 1.59333825f,
   1.85975635f, 2.12483692f, 2.39133716f, 2.65672612f, 2.9218576f, 3.18735433f, 3.45407867f,
   3.71970367f, 3.984375f},
};
static const float pf_roots_of_two[2][16] __attribute__((aligned(64))) = {
  {1.0f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
   1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f,
   1.91520655f},
  {0.0f, 4.83347016e-08f, -1.30775399e-08f, 5.38622231e-08f, 3.79763527e-08f, 4.4968381e-08f,
   -4.01899953e-08f, -1.01233493e-08f, 2.4203235e-08f, -4.50089885e-08f, 8.07090483e-09f,
   9.83621717e-09f, -2.47553267e-08f, -9.23577037e-09f, -1.1239278e-08f, 9.84532811e-09f},
};
static const float pf_log_pieces[2][32] __attribute__((aligned(64))) = {
  {1.0f,         0.955204308f, 0.927508712f, 0.90150708f,  0.876879811f, 0.853420496f, 0.831118524f,
   0.810058892f, 0.790293694f, 0.771181643f, 0.753079772f, 0.735656381f, 0.719033003f, 0.703149915f,
   0.688253343f, 0.67381382f,  1.3199116f,   1.29299295f,  1.26704812f,  1.2427001f,   1.21936977f,
   1.19632959f,  1.17464662f,  1.15317214f,  1.13293564f,  1.11291265f,  1.09413958f,  1.07561791f,
   1.0575074f,   1.04052722f,  1.02408326f,  1.0f},
  {0.0f,           0.0458300263f, 0.0752530918f, 0.103687383f,   0.131385341f,   0.158502892f,
   0.184982866f,   0.210648328f,  0.235350639f,  0.259831339f,   0.283584118f,   0.306992143f,
   0.329848021f,   0.35218516f,   0.373598278f,  0.394801438f,   -0.277564764f,  -0.256959647f,
   -0.23668988f,   -0.217286512f, -0.198334143f, -0.179258198f,  -0.16096735f,   -0.142516524f,
   -0.124812178f,  -0.106980592f, -0.089968279f, -0.0728952959f, -0.0559146255f, -0.0397275314f,
   -0.0237978287f, 0.0f},
};

/* tanh x / x of |x| in pieces of 1 / 5.75: coefficients of |x|^2, |x|, 1 */
static const float pf_tanh_pieces[3][32] __attribute__((aligned(64))) = {
  {-0.331513047f,  -0.308785409f, -0.246753111f, -0.164919764f, -0.0834887102f, -0.0162424762f,
   0.0314696543f,  0.0605747402f, 0.0750254765f, 0.079358615f,  0.0774254948f,  0.0720791966f,
   0.0651940107f,  0.0579168387f, 0.0508906916f, 0.0444365442f, 0.0386815928f,  0.0336433984f,
   0.0292822216f,  0.0255321879f, 0.0223190188f, 0.019569546f,  0.0172163695f,  0.0151997339f,
   0.0134678921f,  0.0119766956f, 0.0106888283f, 0.0095729325f, 0.00860274117f, 0.0077562877f,
   0.00701519847f, 0.0065184664f},
  {-8.19480483e-05f, -0.00529115926f, -0.0385098234f, -0.109969147f, -0.208931699f, -0.313757092f,
   -0.404544145f,    -0.469921201f,   -0.507300675f,  -0.519900739f, -0.513384938f, -0.493790358f,
   -0.466219068f,    -0.434571773f,   -0.401584983f,  -0.369045556f, -0.338033378f, -0.30913341f,
   -0.282601178f,    -0.258483231f,   -0.236700788f,  -0.217105582f, -0.199516252f, -0.183741003f,
   -0.169591114f,    -0.156888649f,   -0.145470157f,  -0.135188192f, -0.125911236f, -0.11752297f,
   -0.109921031f,    -0.104668923f},
  {1.00000048f,  1.00029647f,  1.00477922f,  1.02042985f,  1.0505476f,   1.0914402f,   1.13465643f,
   1.17138648f,  1.19556606f,  1.2047261f,   1.19923663f,  1.18127966f,  1.15367353f,  1.11926162f,
   1.08054006f,  1.03952324f,  0.99774009f,  0.956293046f, 0.915936589f, 0.877156258f, 0.840237856f,
   0.805322826f, 0.772452593f, 0.741600573f, 0.71269685f,  0.685645044f, 0.660334587f, 0.636649132f,
   0.614472032f, 0.59368974f,  0.574194491f, 0.560314238f},
};

PF_INLINE pf_vf pf_vf_pick32(__m512i at, const float *t) { /* the lower 5 bits of `at` */
  return _mm512_permutex2var_ps(_mm512_load_ps(t), at, _mm512_load_ps(t + 16));
}
/* x = k ln 2 + r, k a multiple of 1/16, |r| <= 0.022; e^x = 2^floor(k) s (1 + r q(r)), where s in
 * two parts is 2^(k - floor(k)) */
PF_INLINE pf_vf pf_vf_exp(pf_vf x) {
  const pf_vf magic = pf_vf_set(786432.0f); /* 1.5 * 2^19: its last digit is 1 / 16 */
  pf_vf t = PF_VF_FMA(x, pf_vf_set(1.44269504f), magic), k = t - magic;
  pf_vf r = PF_VF_FMA(k, pf_vf_set(-0.693147182f), x);
  r = PF_VF_FMA(k, pf_vf_set(1.90465430e-9f), r);
  r = _mm512_range_ps(r, pf_vf_set(0.5f), 2); /* the smaller one, of infinite x too */
  __m512i at = _mm512_castps_si512(t);
  pf_vf s = _mm512_permutexvar_ps(at, _mm512_load_ps(pf_roots_of_two[0]));
  pf_vf rest = _mm512_permutexvar_ps(at, _mm512_load_ps(pf_roots_of_two[1]));
  pf_vf q = PF_VF_FMA(pf_vf_set(0.166669592f), r, pf_vf_set(0.500014663f));
  q = PF_VF_FMA(q, r, pf_vf_set(1.0f));
  return _mm512_scalef_ps(s + PF_VF_FMA(s * r, q, rest), k); /* 2^floor(k); NaN comes from k */
}
PF_INLINE pf_vf pf_vf_sigmoid(pf_vf x) {
  return pf_vf_set(1.0f) / (pf_vf_set(1.0f) + pf_vf_exp(-x));
}
/* x = 2^e m, m in [0.75, 1.5), m = (1 + r) c; zero and infinity by e, NaN and x < 0 by m */
PF_INLINE pf_vf pf_vf_log(pf_vf x) {
  pf_vf m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  pf_vf e = _mm512_getexp_ps(x) - _mm512_getexp_ps(m);
  __m512i at = _mm512_srli_epi32(_mm512_castps_si512(m), 18);
  pf_vf r = _mm512_fmsub_ps(m, pf_vf_pick32(at, pf_log_pieces[0]), pf_vf_set(1.0f));
  pf_vf q = PF_VF_FMA(pf_vf_set(0.194953039f), r, pf_vf_set(-0.250030667f));
  q = PF_VF_FMA(q, r, pf_vf_set(0.333334416f));
  q = PF_VF_FMA(q, r, pf_vf_set(-0.5f));
  pf_vf y = pf_vf_pick32(at, pf_log_pieces[1]) + PF_VF_FMA(r * r, q, r);
  return PF_VF_FMA(e, pf_vf_set(0.693147182f), y);
}
PF_INLINE pf_vf pf_vf_tanh(pf_vf x) { /* vmath.h's, with its bits */
  pf_vf z = _mm512_min_ps(pf_vf_set(81.0f), x * x);
  pf_vf p = PF_VF_FMA(pf_vf_set(1.33186431e-08f), z, pf_vf_set(2.05831639e-05f));
  pf_vf q = PF_VF_FMA(pf_vf_set(7.76184152e-07f), z, pf_vf_set(0.000328306109f));
  p = PF_VF_FMA(p, z, pf_vf_set(0.0034940152f));
  q = PF_VF_FMA(q, z, pf_vf_set(0.0258709993f));
  p = PF_VF_FMA(p, z, pf_vf_set(0.13379702f));
  q = PF_VF_FMA(q, z, pf_vf_set(0.467130184f));
  p = PF_VF_FMA(p, z, pf_vf_set(1.0f));
  q = PF_VF_FMA(q, z, pf_vf_set(1.0f));
  pf_vf y = _mm512_max_ps(pf_vf_set(-1.0f), x * p / q);
  return _mm512_min_ps(pf_vf_set(1.0f), y); /* the second one where that is NaN */
}
/* 2.9e-5 of the result: an eighth of what rounding to float16 may lose */
PF_INLINE pf_vf pf_vf_tanh_half(pf_vf x) {
  const pf_vf magic = pf_vf_set(12582912.0f), sign = pf_vf_set(-0.0f);
  pf_vf a = _mm512_min_ps(pf_vf_set(5.39130449f), _mm512_andnot_ps(sign, x));
  __m512i at = _mm512_castps_si512(PF_VF_FMA(a, pf_vf_set(5.75f), magic));
  pf_vf y = PF_VF_FMA(pf_vf_pick32(at, pf_tanh_pieces[0]), a, pf_vf_pick32(at, pf_tanh_pieces[1]));
  y = a * PF_VF_FMA(y, a, pf_vf_pick32(at, pf_tanh_pieces[2]));
  return _mm512_or_ps(y, _mm512_and_ps(x, sign));
}
/* x log2(e) = k + r, |r| <= 1/32; 1e-6 of the result where |x| < 100 */
PF_INLINE pf_vf pf_vf_exp_half(pf_vf x) {
  const pf_vf magic = pf_vf_set(786432.0f), scale = pf_vf_set(1.44269504f);
  pf_vf t = PF_VF_FMA(x, scale, magic), k = t - magic, r = _mm512_fmsub_ps(x, scale, k);
  r = _mm512_range_ps(r, pf_vf_set(0.5f), 2); /* as in pf_vf_exp */
  pf_vf s = _mm512_permutexvar_ps(_mm512_castps_si512(t), _mm512_load_ps(pf_roots_of_two[0]));
  pf_vf q = PF_VF_FMA(pf_vf_set(0.240226507f), r, pf_vf_set(0.693187833f));
  return _mm512_scalef_ps(PF_VF_FMA(s * r, q, s), k);
}
PF_INLINE pf_vf pf_vf_sigmoid_half(pf_vf x) { /* Newton's step after 14 bits; 0 of infinity */
  pf_vf d = pf_vf_set(1.0f) + pf_vf_exp_half(-x), r = _mm512_rcp14_ps(d);
  pf_vf e = _mm512_min_ps(_mm512_fnmadd_ps(d, r, pf_vf_set(1.0f)), pf_vf_set(1.0f));
  return PF_VF_FMA(r, e, r);
}
PF_INLINE pf_vf pf_vf_erf(pf_vf x) {
  const pf_vf magic = pf_vf_set(12582912.0f), sign = pf_vf_set(-0.0f);
  pf_vf a = _mm512_min_ps(pf_vf_set(3.984375f), _mm512_andnot_ps(sign, x));
  pf_vf n = PF_VF_FMA(a, pf_vf_set(64 / 17.0f), magic);
  __m512i at = _mm512_castps_si512(n);
#define PF_PIECE(k) _mm512_permutexvar_ps(at, _mm512_load_ps(pf_erf_pieces[k]))
  pf_vf t = a - PF_PIECE(6), c = PF_PIECE(5), y = PF_VF_FMA(PF_PIECE(0), t, PF_PIECE(1));
  /* near zero 2 / sqrt(pi) = 1 + 0.128...: one rounding less */
  c = _mm512_mask_add_ps(c, _mm512_cmp_ps_mask(n, magic, _CMP_EQ_OQ), c, t);
  y = PF_VF_FMA(y, t, PF_PIECE(2));
  y = PF_VF_FMA(y, t, PF_PIECE(3));
  y = PF_VF_FMA(y, t, PF_PIECE(4));
  y = PF_VF_FMA(y, t, c);
#undef PF_PIECE
  return _mm512_or_ps(y, _mm512_and_ps(x, sign));
}
#endif
#endif
