/* tensor_message.c - SerializeTensor, ParseTensor: tensors as TensorFlow's TensorProtos.
 *
 * Threads: one.
 */
#include "parsing/tensor_message.h"

static int has_bytes(int32_t type) { return type == PF_STRING || pf_type_size(type) > 0; }
static pf_status serialize(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  pf_bytes b = {0};
  (void)state;
  if (!has_bytes(c->in_type[0]))
    return pf_failf(c, PF_UNIMPLEMENTED, "a tensor of %s cannot be serialized",
                    pf_type_name(c->in_type[0]));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pf_status st = put_tensor(c, &b, c->in_type[0], x->shape, x->ndim, PF_DATA(const char, x), x, 0,
                            pf_numel(x));
  if (!st && b.failed) st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string");
  if (!st) st = c->host->str_set(y, 0, (pf_str){b.data ? b.data : "", b.n});
  pf_bytes_free(&b);
  return st;
}
static pf_status parse(pf_ctx *c, const void *state) {
  proto t;
  pf_str s;
  (void)state;
  if (c->in[0]->ndim)
    return PF_INVALID(c, "Expected `serialized` to be a scalar, got shape: %s",
                      PF_SHAPE(c->in[0]).s);
  PF_TRY(c->host->str_get(c->in[0], 0, &s));
  if (!read_proto(s, &t) || !believable(&t)) {
    char text[120];
    snprintf(text, sizeof text, "%.*s", (int)PF_MIN(s.len, 100), s.data);
    return PF_INVALID(c, "Could not parse `serialized` as TensorProto: '%s'", text);
  }
  if (t.type != c->out_type[0])
    return PF_INVALID(c, "Type mismatch between parsed tensor (%s) and dtype (%s)",
                      pf_type_name(t.type), pf_type_name(c->out_type[0]));
  DLTensor *y = pf_output_checked(c, 0, t.dims, t.rank);
  PF_EXHAUSTED(y);
  if (!t.n || read_values(c, &t, y, PF_DATA(char, y), 0)) return PF_OK;
  return PF_INVALID(c, "the TensorProto has another number of values than its shape %s says",
                    pf_shape_text(t.dims, t.rank).s);
}
extern const pf_kernel *const tensor_message_kernels[];
const pf_kernel *const tensor_message_kernels[] = {
  PF_CPU_FLAGS("SerializeTensor", NULL, PF_KERNEL_DETERMINISTIC, .compute = serialize),
  PF_CPU("ParseTensor", NULL, .compute = parse), NULL};
