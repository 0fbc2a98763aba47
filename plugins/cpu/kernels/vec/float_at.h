/* float_at.h - element i of a float64, float32, float16 or bfloat16 tensor as a double, for kernels
 * that do more than read and write it.
 * Threads: any.
 */
#ifndef PF_CPU_FLOAT_AT_H
#define PF_CPU_FLOAT_AT_H
#include "base/common.h"

PF_LOCAL double get(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) {
    case PF_FLOAT64: return PF_DATA(const double, t)[i];
    case PF_FLOAT32: return PF_DATA(const float, t)[i];
    case PF_FLOAT16: return pf_from_half(PF_DATA(const uint16_t, t)[i]);
    default: return pf_from_bf16(PF_DATA(const uint16_t, t)[i]);
  }
}
PF_LOCAL void put(DLTensor *t, int32_t type, int64_t i, double v) {
  switch (type) {
    case PF_FLOAT64: PF_DATA(double, t)[i] = v; break;
    case PF_FLOAT32: PF_DATA(float, t)[i] = (float)v; break;
    case PF_FLOAT16: PF_DATA(uint16_t, t)[i] = pf_to_half((float)v); break;
    default: PF_DATA(uint16_t, t)[i] = pf_to_bf16((float)v);
  }
}
#endif
