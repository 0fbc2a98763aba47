/* fused_machines.c - the steps of fused_program.h for float, double and int32, wide and narrow
 * blocks.  Compiled once per instruction set.
 *
 * A wide block is 8 vectors, as many as the calling conventions pass in registers.
 */
#include "fused/fused_program.h"
#include "elementwise/elementwise_exprs.h"
#include "vec/vfloat.h"

enum { PF_VI = PF_VF };
typedef int32_t pf_vi __attribute__((vector_size(4 * PF_VF)));
typedef float fused_vf __attribute__((vector_size(4 * PF_VF)));
typedef double fused_vd __attribute__((vector_size(8 * PF_VD)));

#if defined(__AVX512F__)
#define FUSED_STREAM(p, v) _mm512_stream_si512((void *)(p), (__m512i)(v))
#elif defined(__AVX2__) && defined(__FMA__)
#define FUSED_STREAM(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#elif defined(__SSE2__)
#define FUSED_STREAM(p, v) _mm_stream_si128((__m128i *)(p), (__m128i)(v))
#else
#define FUSED_STREAM(p, v) memcpy((p), &(v), sizeof(v))
#endif

#define TYPE_F32
#define T float
#define TAG f32
#define VEC fused_vf
#define VL PF_VF
#define NV 8
#define WIDTH _wide
#include "fused/fused_steps.h"
#define TYPE_F32
#define T float
#define TAG f32
#define VEC fused_vf
#define VL PF_VF
#define NV 1
#define WIDTH _narrow
#include "fused/fused_steps.h"
#define TYPE_F64
#define T double
#define TAG f64
#define VEC fused_vd
#define VL PF_VD
#define NV 8
#define WIDTH _wide
#include "fused/fused_steps.h"
#define TYPE_F64
#define T double
#define TAG f64
#define VEC fused_vd
#define VL PF_VD
#define NV 1
#define WIDTH _narrow
#include "fused/fused_steps.h"
#define TYPE_I32
#define T int32_t
#define TAG i32
#define VEC pf_vi
#define VL PF_VI
#define NV 8
#define WIDTH _wide
#include "fused/fused_steps.h"
#define TYPE_I32
#define T int32_t
#define TAG i32
#define VEC pf_vi
#define VL PF_VI
#define NV 1
#define WIDTH _narrow
#include "fused/fused_steps.h"

static const fused_machine *const machines[FUSED_KINDS][2] = {
  {&machine_f32_narrow, &machine_f32_wide},
  {&machine_f64_narrow, &machine_f64_wide},
  {&machine_i32_narrow, &machine_i32_wide},
};
static pf_status init(pf_ctx *c, void *state) {
  return fused_init(c, (fused_state *)state, machines);
}

static const pf_attr *const attrs[] = {
  PF_REF(pf_attr, "program", PF_ATTR_STRING, offsetof(fused_state, text)),
  PF_REF(pf_attr, "params", PF_ATTR_FLOAT | PF_ATTR_LIST, offsetof(fused_state, params)),
  PF_REF(pf_attr, "results", PF_ATTR_INT | PF_ATTR_LIST, offsetof(fused_state, results)),
  PF_REF(pf_attr, "nodes", PF_ATTR_STRING | PF_ATTR_LIST, offsetof(fused_state, nodes)),
  PF_REF(pf_attr, "T", PF_ATTR_TYPE, offsetof(fused_state, type)),
  NULL};

const pf_kernel *const PF_ISA_NAME(fused_machines_kernels)[] = {
  PF_CPU("_FusedElementwise", "T=float|double|half|bfloat16|int32",
         .state_size = sizeof(fused_state), .attrs = attrs, .init = init, .compute = fused_compute,
         .args = PF_OVER_ANY("outputs")),
  NULL};
