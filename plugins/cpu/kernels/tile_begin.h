/* tile_begin.h - names of the element type for the code between this and tile_end.h; TILE_F32 or
 * TILE_F64 says which.
 * PF_ISA_NAME-d names of the type: TILE_NAME(f) is f_f32_<isa>. */
#ifdef TILE_F32
#define T float
#define TILE(name) name##_f32
#define TILE_NAME(name) PF_ISA_NAME(name##_f32)
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
#endif
