/* Inputs and outputs of a call: what host.pyx, host_state.pyx and jobs.pyx share. */
#ifndef PF_OUTPUTS_H
#define PF_OUTPUTS_H
#include "step/step.h"

enum { PF_MAX_CALL_DEPTH = 1 << 16 }; /* calls of functions in each other: about 8 kB each */

static inline int pf_has_input(const pf_call *c, int32_t i) {
  return i >= 0 && i < c->ctx.n_in && c->slab && c->in[i];
}
static inline void pf_put_output(pf_call *c, int32_t i, pf_tensor *take) {
  DLTensor *old = c->ctx.out[i];
  pf_ctx_out(&c->ctx)[i] = pf_dl(take);
  if (pf_alive(old)) pf_dl_unref(old);
}
static inline int pf_is_plain(const pf_tensor *t) {
  return !(t->flags & (PF_T_BORROWED | PF_T_HANDLE | PF_T_VIEW | PF_T_FOREIGN | PF_T_CONSTANT));
}
/* Input i is read for the last time, and by nobody else. */
static inline int pf_last_reader(pf_call *c, int32_t i) {
  if (!c->slab || i < 0 || i >= c->ctx.n_in || !c->in[i]) return 0;
  uint32_t e = c->plan->ins[c->instr->in_begin + (uint32_t)i];
  if (e & (uint32_t)(PF_IN_DEREF | PF_IN_NOFWD) || !(e & (uint32_t)(PF_IN_LAST | PF_IN_SHARED)))
    return 0;
  if (c->slab->slots[e & (uint32_t)PF_IN_SLOT] != c->in[i]) return 0; /* handed over already */
  if (e & (uint32_t)PF_IN_SHARED &&
      pf_a32_load(c->slab->uses +
                  c->plan->slot_use[c->slab->def->slot_base + (e & (uint32_t)PF_IN_SLOT)] - 1) != 1)
    return 0;
  return pf_tensor_unique(pf_tensor_of(c->in[i]));
}
/* ... and its buffer is ours. */
static inline int pf_owned_alone(pf_call *c, int32_t i) {
  return pf_last_reader(c, i) && pf_is_plain(pf_tensor_of(c->in[i]));
}

/* host.pyx */
int pf_no_output(pf_call *c, int32_t i); /* 1: there is no output i now, which the kernel is told */
/* 0: output o is no handle, which the kernel is told */
int pf_handle_fits(pf_call *c, int32_t o, const pf_object *object);
/* host_state.pyx */
/* the functions about variables, resources and random streams */
void pf_host_fill_state(pf_host *table);
/* transport.pyx */
const pf_transport *pf_transport_table(void);
const pf_transport2 *pf_transport2_table(void);
const pf_functions_api *pf_functions_table(void); /* function_calls.pyx */
#endif
