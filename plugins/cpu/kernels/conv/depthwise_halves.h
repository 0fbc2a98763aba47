/* depthwise_halves.h - depthwise_roll.h for halves that are widened as they are loaded and
 * rounded as they are stored: roll_halves_f16, roll_halves_bf16. */
typedef struct {
  const pf_conv *g;
  const S *x;
  const T *f;
  S *out;
  const pf_epilogue *after;
} TILE(depth);
#include "conv/depthwise_roll.h"

/* PF_DECLINE: not for this filter, or something follows on the sums before they are rounded. */
static pf_status TILE(roll_halves)(pf_ctx *c, const pf_conv_call *call) {
  TILE(depth) d = {call->g, call->x, call->f, call->out, NULL};
  if (call->after || !TILE(rolls)(call->g)) return PF_DECLINE;
  return TILE(roll_forward)(c, &d);
}
