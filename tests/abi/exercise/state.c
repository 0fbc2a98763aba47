/* state.c - variables, resources of a container and of a step, handles, random counters. */
#include "exercise.h"

/* ---------------------------------------------------------------- variables, by handle: input 0 is the handle */
static pf_status variable(pf_ctx *c, const void *s) {
  static const int64_t dims[] = {2};
  return c->host->var_handle(c, 0, text(""), text("exercise_variable"), PF_FLOAT32, (pf_shape){dims, 1, 0});
}
static pf_status var_bump(pf_ctx *c, const void *s) { /* in place, under the lock */
  pf_status st = c->host->var_lock(c, &(pf_var){0, PF_VAR_UPDATE}, 1);
  DLTensor *v = st ? NULL : c->host->var_get(c, 0);
  if (!v) return st ? st : PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(v); i++) PF_DATA(float, v)[i] += *PF_DATA(float, c->in[1]);
  return PF_OK;
}
static pf_status var_set(pf_ctx *c, const void *s) {
  pf_status st = c->host->var_lock(c, &(pf_var){0, PF_VAR_REPLACE}, 1);
  return st ? st : c->host->var_assign(c, 0, 1);
}
static pf_status var_exchange(pf_ctx *c, const void *s) { /* two variables at once, buffers swapped for new ones */
  pf_var both[] = {{0, PF_VAR_UPDATE}, {1, PF_VAR_UPDATE}};
  pf_status st = c->host->var_lock(c, both, 2);
  if (st) return st;
  DLManagedTensorVersioned *fresh[2];
  for (int k = 0; k < 2; k++) {
    DLTensor *from = c->host->var_get(c, 1 - k);
    fresh[k] = c->host->tensor_new(c->host, NULL, PF_MEM_DEVICE, PF_FLOAT32, from->shape, from->ndim);
    if (!fresh[k]) return PF_RESOURCE_EXHAUSTED;
    memcpy(PF_DATA(char, &fresh[k]->dl_tensor), PF_DATA(char, from), (size_t)pf_numel(from) * sizeof(float));
  }
  st = c->host->var_swap(c, 0, fresh[0]);
  return st ? st : c->host->var_swap(c, 1, fresh[1]);
}
static pf_status var_look(pf_ctx *c, const void *s) {
  pf_status st = scalar_int(c, 1, c->host->var_initialized(c, 0));
  return st ? st : c->host->var_read(c, 0, 0);
}
static pf_status var_there(pf_ctx *c, const void *s) { return scalar_int(c, 0, c->host->var_initialized(c, 0)); }

/* ---------------------------------------------------------------- resources */
typedef struct { atomic_int n; } box;
static atomic_int freed_boxes, aborted_boxes;
static void unref_box(void *obj) { atomic_fetch_add(&freed_boxes, 1); free(obj); }
static void abort_box(void *obj, pf_status st) { atomic_fetch_add(&aborted_boxes, 1); }
static const pf_type box_type = {sizeof box_type, 0, "exercise.Box", unref_box, abort_box};
static const pf_type other_type = {sizeof other_type, 0, "exercise.Other", unref_box, NULL};

static pf_status make_box(pf_ctx *c, void *arg, void **obj) {
  box *b = calloc(1, sizeof *b);
  b->n = (int)(intptr_t)arg;
  *obj = b;
  return PF_OK;
}
static pf_status count_in(pf_ctx *c, int32_t scope, intptr_t from) {
  void *obj;
  pf_status st = c->host->resource(c, scope, text(""), text("exercise_counter"), &box_type, make_box, (void *)from, &obj);
  return st ? st : scalar_int(c, 0, atomic_fetch_add(&((box *)obj)->n, 1) + 1);
}
static pf_status container_counter(pf_ctx *c, const void *s) { return count_in(c, PF_SCOPE_CONTAINER, 0); }
static pf_status step_counter(pf_ctx *c, const void *s) { return count_in(c, PF_SCOPE_STEP, 100); }
static pf_status wrong_type(pf_ctx *c, const void *s) {
  void *obj;
  pf_status st = c->host->resource(c, PF_SCOPE_CONTAINER, text(""), text("exercise_counter"), &other_type, make_box, NULL, &obj);
  return st ? st : pf_fail(c, PF_INTERNAL, "a resource was found under another type");
}
static pf_status missing(pf_ctx *c, const void *s) {
  void *obj;
  return scalar_int(c, 0, c->host->resource(c, PF_SCOPE_CONTAINER, text("nowhere"), text("nothing"), &box_type, NULL, NULL, &obj));
}

static pf_status new_box(pf_ctx *c, const void *s) {
  void *obj = NULL;
  make_box(c, (void *)7, &obj);
  return c->host->resource_handle(c, 0, PF_SCOPE_STEP, &box_type, obj);
}
static pf_status named_box(pf_ctx *c, const void *s) {
  return c->host->resource_output(c, 0, text(""), text("exercise_box"), &box_type, make_box, (void *)20);
}
static pf_status open_box(pf_ctx *c, const void *s) {
  void *obj;
  pf_status st = c->host->resource_get(c, 0, &box_type, &obj);
  return st ? st : scalar_int(c, 0, atomic_fetch_add(&((box *)obj)->n, 1) + 1);
}
static pf_status delete_box(pf_ctx *c, const void *s) { return c->host->resource_delete(c, 0); }
static pf_status freed(pf_ctx *c, const void *s) { return scalar_int(c, 0, freed_boxes * 1000 + aborted_boxes); }

/* ---------------------------------------------------------------- random counters: key, and first of n reserved */
static pf_status reserve(pf_ctx *c, const void *s) {
  uint64_t key[2], counter[2];
  int64_t four = 4;
  pf_status st = c->host->rng(c, 10, key, counter);
  DLTensor *y = st ? NULL : c->host->output(c, 0, &four, 1);
  if (!y) return st ? st : PF_RESOURCE_EXHAUSTED;
  memcpy(PF_DATA(char, y), key, 16);
  memcpy(PF_DATA(char, y) + 16, counter, 16);
  return PF_OK;
}

const pf_op *const state_ops[] = {
  OP("exercise.Variable", " -> handle: resource", .flags = PF_OP_STATEFUL),
  OP("exercise.VarBump", "handle: resource, by: float -> ", .flags = PF_OP_STATEFUL),
  OP("exercise.VarSet", "handle: resource, value: float -> ", .flags = PF_OP_STATEFUL),
  OP("exercise.VarExchange", "a: resource, b: resource -> ", .flags = PF_OP_STATEFUL),
  OP("exercise.VarLook", "handle: resource -> value: float, initialized: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.VarThere", "handle: resource -> initialized: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.Counter", " -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.StepCounter", " -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.WrongType", " -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.Missing", " -> status: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.NewBox", " -> box: resource", .flags = PF_OP_STATEFUL),
  OP("exercise.NamedBox", " -> box: resource", .flags = PF_OP_STATEFUL),
  OP("exercise.OpenBox", "box: resource -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.DeleteBox", "box: resource -> ", .flags = PF_OP_STATEFUL),
  OP("exercise.Freed", " -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.Reserve", " -> range: uint64; seed: int = 0, seed2: int = 0", .flags = PF_OP_STATEFUL),
  0 };

const pf_kernel *const state_kernels[] = {
  KERNEL("exercise.Variable", variable),
  KERNEL("exercise.VarBump", var_bump),
  KERNEL("exercise.VarSet", var_set),
  KERNEL("exercise.VarExchange", var_exchange),
  KERNEL("exercise.VarLook", var_look),
  KERNEL("exercise.VarThere", var_there),
  KERNEL("exercise.Counter", container_counter),
  KERNEL("exercise.StepCounter", step_counter),
  KERNEL("exercise.WrongType", wrong_type),
  KERNEL("exercise.Missing", missing),
  KERNEL("exercise.NewBox", new_box),
  KERNEL("exercise.NamedBox", named_box),
  KERNEL("exercise.OpenBox", open_box),
  KERNEL("exercise.DeleteBox", delete_box),
  KERNEL("exercise.Freed", freed),
  KERNEL("exercise.Reserve", reserve),
  0 };
