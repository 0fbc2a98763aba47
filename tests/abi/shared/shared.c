/* shared.c - kernels that share what they make of a constant (pf_host.shared).
 *
 *     acme.Total   x + the sum of constant w, which is added up once for all nodes with equal w and
 *                  `form`; a negative first element of w fails to be made
 *     acme.Counts  [sums made so far, sums let go so far]
 */
#include <stdlib.h>
#include <string.h>
#include <pyflow/kernel.h>

typedef struct { pf_str form; const float *sum; } total_state;
static int64_t made, gone;

static void let_go(void *obj) {
  __atomic_add_fetch(&gone, 1, __ATOMIC_SEQ_CST);
  free(obj);
}
static const pf_type sum_type = {sizeof(pf_type), 0, "acme.sum", let_go, 0};

static pf_status add_up(pf_ctx *c, void *arg, void **obj) {
  const DLTensor *w = arg;
  float *sum = calloc(1, sizeof *sum);
  if (!sum) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(w); i++) *sum += PF_DATA(const float, w)[i];
  if (pf_numel(w) && PF_DATA(const float, w)[0] < 0) {
    free(sum);
    return pf_fail(c, PF_OUT_OF_RANGE, "w begins with a negative number");
  }
  __atomic_add_fetch(&made, 1, __ATOMIC_SEQ_CST);
  *obj = sum;
  return PF_OK;
}

static pf_status init(pf_ctx *c, void *state) {
  total_state *s = state;
  const DLTensor *w = c->host->constant(c, 1);
  void *sum;
  if (!PF_HAS(c->host, pf_host, shared)) return pf_fail(c, PF_UNIMPLEMENTED, "an older host");
  pf_status st = c->host->shared(c, 1, s->form, &sum_type, add_up, (void *)w, &sum);
  if (st) return st;
  s->sum = sum;
  return c->host->drop_constant(c, 1);
}

static pf_status total(pf_ctx *c, const void *state) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  if (c->in[1]) return pf_fail(c, PF_INTERNAL, "w was dropped and is here");
  for (int64_t i = 0; i < pf_numel(y); i++)
    PF_DATA(float, y)[i] = PF_DATA(const float, c->in[0])[i] + *((const total_state *)state)->sum;
  return PF_OK;
}

static pf_status counts(pf_ctx *c, const void *state) {
  const int64_t two = 2;
  DLTensor *y = c->host->output(c, 0, &two, 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  PF_DATA(int64_t, y)[0] = __atomic_load_n(&made, __ATOMIC_SEQ_CST);
  PF_DATA(int64_t, y)[1] = __atomic_load_n(&gone, __ATOMIC_SEQ_CST);
  return PF_OK;
}

static const pf_op *const ops[] = {
  PF_REF(pf_op, "acme.Total", "x: float, w: float -> y: float; form: string = \"\"", 0, 0, 0, 0),
  &(const pf_op){sizeof(pf_op), PF_OP_STATEFUL, "acme.Counts", " -> y: int64", 0, 0, 0, 0}, 0};
static const pf_kernel *const kernels[] = {
  &(const pf_kernel){.size = sizeof(pf_kernel), .op = "acme.Total", .device = "CPU", .min_minor = 2,
    .attrs = (const pf_attr *const[]){PF_ATTR(total_state, PF_ATTR_STRING, form), 0},
    .state_size = sizeof(total_state), .init = init, .compute = total},
  &(const pf_kernel){.size = sizeof(pf_kernel), .op = "acme.Counts", .device = "CPU", .compute = counts}, 0};
static const pf_plugin plugin = {.size = sizeof(pf_plugin), .id = "com.acme.shared", .version = "1", .ops = ops,
  .kernels = kernels, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 2};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) { return &plugin; }
