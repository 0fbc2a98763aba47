/* optional.c - OptionalNone, OptionalFromValue, OptionalHasValue, OptionalGetValue: what
 * TensorFlow's gradients of conditionals keep the values of the branch taken in.
 *
 * An optional is a tensor_list of element type LIST_OPTIONAL, whose items may have any types, with
 * `max` 1 if it has a value and 0 if it is None (a value may have no components).  So lists hold
 * optionals as they hold lists, and ZerosLike and AddN are those of lists.
 *
 * Threads: compute is concurrent.
 */
#include "containers/tensor_list.h"

static pf_status optional_in(pf_ctx *c, int32_t in, tensor_list **out) {
  PF_TRY(list_in(c, in, 0, out));
  if ((*out)->type == LIST_OPTIONAL) return PF_OK;
  return PF_INVALID(c, "input %d is a list, expected an optional", in);
}
static pf_status optional_make(pf_ctx *c, int32_t n, int has_value) {
  tensor_list *l = list_new(c, LIST_OPTIONAL, n);
  PF_EXHAUSTED(l);
  l->max = has_value;
  for (int32_t i = 0; i < n; i++) {
    l->items[i] = (list_item){value_retained(c, i), -1};
    if (!l->items[i].v) {
      list_unref(l);
      return PF_RESOURCE_EXHAUSTED;
    }
  }
  return list_out(c, 0, l);
}
static pf_status optional_none(pf_ctx *c, const void *state) {
  (void)state;
  return optional_make(c, 0, 0);
}
static pf_status optional_from_value(pf_ctx *c, const void *state) {
  (void)state;
  return optional_make(c, c->n_in, 1);
}
static pf_status optional_has_value(pf_ctx *c, const void *state) {
  tensor_list *l;
  (void)state;
  PF_TRY(optional_in(c, 0, &l));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  PF_DATA(uint8_t, y)[0] = l->max == 1;
  return PF_OK;
}
static pf_status optional_get_value(pf_ctx *c, const void *state) {
  tensor_list *l;
  (void)state;
  PF_TRY(optional_in(c, 0, &l));
  if (l->max != 1) return PF_INVALID(c, "The given optional does not have a value.");
  if (l->n != c->n_out)
    return PF_INVALID(c, "The given optional has %" PRId64 " components, expected %d.", l->n,
                      c->n_out);
  for (int32_t i = 0; i < c->n_out; i++) {
    const list_value *v = l->items[i].v;
    int32_t type = v->list ? PF_VARIANT : c->host->type_of(v->t);
    if (type != c->out_type[i])
      return PF_INVALID(c,
                        "The given optional does not match the expected type for component %d. "
                        "Expected: %s. Actual: %s.",
                        i, pf_type_name(c->out_type[i]), pf_type_name(type));
    PF_TRY(item_publish(c, i, &l->items[i]));
  }
  return PF_OK;
}

const pf_kernel *const optional_kernels[] = {
  PF_CPU("OptionalNone", NULL, .compute = optional_none),
  PF_CPU("OptionalFromValue", NULL, .compute = optional_from_value),
  PF_CPU("OptionalHasValue", NULL, .compute = optional_has_value),
  PF_CPU("OptionalGetValue", NULL, .compute = optional_get_value), NULL};
