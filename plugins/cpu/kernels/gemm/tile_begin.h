/* tile_begin.h - names of the element type for the code between this and tile_end.h: TILE_F32 or
 * TILE_F64 says which; with AVX-512 also TILE_F16 or TILE_BF16, floats that lie as halves (half.h).
 * T is what is computed with, S what lies in memory.
 * PF_ISA_NAME-d names of the type: TILE_NAME(f) is f_f32_<isa>. */
#if defined(TILE_F32) || defined(TILE_F16) || defined(TILE_BF16)
#define T float
#if defined(TILE_F32)
#define TILE(name) name##_f32
#define TILE_NAME(name) PF_ISA_NAME(name##_f32)
#elif defined(TILE_F16)
#define TILE(name) name##_f16
#define S_LOAD(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define S_LOAD_PART(p, n) _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(S_MASK(n), p))
#define S_STORE(p, v) _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph(v, 0))
#define S_STORE_PART(p, v, n) _mm256_mask_storeu_epi16(p, S_MASK(n), _mm512_cvtps_ph(v, 0))
#else
#define TILE(name) name##_bf16
#define S_LOAD(p) bfloat16_floats(_mm256_loadu_si256((const __m256i *)(p)))
#define S_LOAD_PART(p, n) bfloat16_floats(_mm256_maskz_loadu_epi16(S_MASK(n), p))
#define S_STORE(p, v) _mm256_storeu_si256((__m256i *)(p), bfloat16_of_floats(v))
#define S_STORE_PART(p, v, n) _mm256_mask_storeu_epi16(p, S_MASK(n), bfloat16_of_floats(v))
#endif
#if !defined(TILE_F32)
#define S uint16_t
#define S_MASK(n) ((__mmask16)((1u << (n)) - 1))
#endif
#define V pf_vf
#define VL PF_VF
#define V_LOAD pf_vf_load
#define V_STORE pf_vf_store
#define V_SET pf_vf_set
#define V_SUM pf_vf_sum
#define V_LOAD_PART pf_vf_load_part
#define V_STORE_PART pf_vf_store_part
#define V_FMA PF_VF_FMA
#define TRANSPOSE_4X4 transpose_4x4_f32
#define TRANSPOSE_8X4 transpose_8x4_f32
#if defined(__AVX512F__)
/* half a vector */
#define VH __m256
#define VHL (VL / 2)
#define VH_SET _mm256_set1_ps
#define VH_OF(v) _mm512_castps512_ps256(v)
#define VH_LOAD _mm256_loadu_ps
#define VH_STORE _mm256_storeu_ps
#define VH_FMA _mm256_fmadd_ps
#define VH_LOAD_PART(p, n) _mm256_maskz_loadu_ps((__mmask8)((1u << (n)) - 1), p)
#define VH_STORE_PART(p, v, n) _mm256_mask_storeu_ps(p, (__mmask8)((1u << (n)) - 1), v)
#define VH_BLEND(m, v, w) _mm256_mask_blend_ps((__mmask8)(m), v, w)
#define VH_REPEAT repeat_f32          /* n elements again and again */
#define V_STREAM _mm512_stream_ps   /* a whole line, past the caches */
#define V_FENCE _mm_sfence
#endif
#else
#define T double
#define TILE(name) name##_f64
#define TILE_NAME(name) PF_ISA_NAME(name##_f64)
#define V pf_vd
#define VL PF_VD
#define V_LOAD pf_vd_load
#define V_STORE pf_vd_store
#define V_SET pf_vd_set
#define V_SUM pf_vd_sum
#define V_LOAD_PART pf_vd_load_part
#define V_STORE_PART pf_vd_store_part
#define V_FMA PF_VD_FMA
#define TRANSPOSE_4X4 transpose_4x4_f64
#define TRANSPOSE_8X4 transpose_8x4_f64
#if defined(__AVX512F__)
#define VH __m256d
#define VHL (VL / 2)
#define VH_SET _mm256_set1_pd
#define VH_OF(v) _mm512_castpd512_pd256(v)
#define VH_LOAD _mm256_loadu_pd
#define VH_STORE _mm256_storeu_pd
#define VH_FMA _mm256_fmadd_pd
#define VH_LOAD_PART(p, n) _mm256_maskz_loadu_pd((__mmask8)((1u << (n)) - 1), p)
#define VH_STORE_PART(p, v, n) _mm256_mask_storeu_pd(p, (__mmask8)((1u << (n)) - 1), v)
#define VH_BLEND(m, v, w) _mm256_mask_blend_pd((__mmask8)(m), v, w)
#define VH_REPEAT repeat_f64
#define V_STREAM _mm512_stream_pd   /* a whole line, past the caches */
#define V_FENCE _mm_sfence
#endif
#endif
#if !defined(S)
#define S T
#define S_LOAD V_LOAD
#define S_LOAD_PART V_LOAD_PART
#define S_STORE V_STORE
#define S_STORE_PART V_STORE_PART
#endif
/* elsewhere nothing uses one */
#if !defined(VH)
#define VH V
#define VH_OF(v) (v)
#define VH_FMA V_FMA
#define VH_LOAD_PART V_LOAD_PART
#define VH_STORE_PART V_STORE_PART
#define V_STREAM V_STORE
#define V_FENCE() (void)0
#endif
