/* stack.c - StackV2, StackPushV2, StackPopV2, StackCloseV2: what loop gradients keep forward values
 * in.  Stack, StackPush, StackPop, StackClose are TF's first ones, whose handle is a reference and
 * which have no limit.  _StackPushHost and _StackPopHost are the pair of
 * while_loop(swap_memory=True).
 *
 * Invariants
 *   1. A stack lives as long as its step; values left over are released with it, on error too.
 *   2. Push keeps a reference to its input, never a copy; pop hands that reference on.
 *   3. The kernels serve every device: values stay in the memory they were pushed from.  The Host
 *      pair takes and gives host memory, so the host puts copies around it where there is other.
 *   4. `lock` guards items, n, room and closed, and is held for a few instructions only.
 * Threads: any number of pushes and pops at once.
 */
#include "base/common.h"
#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
  atomic_flag lock;
  int32_t type, closed;
  int64_t n, room, max; /* max < 0: no limit */
  DLManagedTensorVersioned **items;
  char name[128];
} stack;
typedef struct {
  int32_t T;
  pf_str name;
} stack_state;

static void lock(stack *s) {
  while (atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire)) {}
}
static void unlock(stack *s) { atomic_flag_clear_explicit(&s->lock, memory_order_release); }

static void stack_free(void *obj) {
  stack *s = obj;
  for (int64_t i = 0; i < s->n; i++) s->items[i]->deleter(s->items[i]);
  free(s->items);
  free(s);
}
static const pf_type STACK = {.size = sizeof(pf_type), .id = "pyflow.Stack", .unref = stack_free};

static pf_status stack_new(pf_ctx *c, const void *state) {
  const stack_state *st = state;
  const DLTensor *max = c->n_in ? c->in[0] : NULL;
  if (max && max->ndim != 0)
    return PF_INVALID(c, "Stack size must be a scalar, but had shape: %s", PF_SHAPE(max).s);
  stack *s = calloc(1, sizeof *s);
  if (!s) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a stack");
  atomic_flag_clear(&s->lock);
  s->type = st->T;
  s->max = max ? PF_DATA(const int32_t, max)[0] : -1;
  pf_str name = st->name.len ? st->name : c->host->node_name(c);
  memcpy(s->name, name.data, (size_t)PF_MIN(name.len, (int64_t)sizeof s->name - 1));
  return c->host->resource_handle(c, 0, PF_SCOPE_STEP, &STACK, s);
}

/* 1 if item i fits; grows under the lock */
static int make_room(stack *s) {
  if (s->n < s->room) return 1;
  int64_t room = s->room ? s->room * 2 : 16;
  void *items = realloc(s->items, sizeof *s->items * (size_t)room);
  if (!items) return 0;
  s->items = items;
  s->room = room;
  return 1;
}

static pf_status stack_push(pf_ctx *c, const void *state) {
  const stack_state *st = state;
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &STACK, &obj));
  stack *s = obj;
  if (s->type != st->T)
    return PF_INVALID(c, "Stack[%s]: must have type %s but got %s", s->name, pf_type_name(s->type),
                      pf_type_name(st->T));
  DLManagedTensorVersioned *item = c->host->retain(c, 1);
  if (!item) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to keep a value");
  lock(s);
  int closed = s->closed, full = s->max >= 0 && s->n >= s->max,
      room = !closed && !full && make_room(s);
  if (room) s->items[s->n++] = item;
  unlock(s);
  if (room) return c->host->alias(c, 1, 0, c->in[1]->shape, c->in[1]->ndim);
  item->deleter(item);
  if (closed) return PF_INVALID(c, "Stack[%s] has already been closed.", s->name);
  if (full)
    return PF_INVALID(c, "Stack[%s] overflowed its max_size (%" PRId64 ")", s->name, s->max);
  return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for Stack[%s]", s->name);
}

static pf_status stack_pop(pf_ctx *c, const void *state) {
  const stack_state *st = state;
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &STACK, &obj));
  stack *s = obj;
  if (s->type != st->T)
    return PF_INVALID(c, "Stack[%s]: must have type %s but got %s", s->name, pf_type_name(s->type),
                      pf_type_name(st->T));
  lock(s);
  int closed = s->closed;
  DLManagedTensorVersioned *item = s->n > 0 && !closed ? s->items[--s->n] : NULL;
  unlock(s);
  if (item) return c->host->set_output(c, 0, item);
  if (closed) return PF_INVALID(c, "Stack[%s] has already been closed.", s->name);
  return PF_INVALID(c, "Stack[%s] is empty when calling Pop().", s->name);
}

static pf_status stack_close(pf_ctx *c, const void *state) {
  void *obj;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &STACK, &obj));
  stack *s = obj;
  lock(s);
  DLManagedTensorVersioned **items = s->items;
  int64_t n = s->n;
  s->items = NULL;
  s->n = s->room = 0;
  s->closed = 1;
  unlock(s);
  for (int64_t i = 0; i < n; i++) items[i]->deleter(items[i]);
  free(items);
  return PF_OK;
}

#define TYPE(name_) PF_REF(pf_attr, name_, PF_ATTR_TYPE, offsetof(stack_state, T))
#define WRITTEN(name) (&(const pf_arg){sizeof(pf_arg), PF_ARG_WRITTEN, name, PF_MEM_HOST, 0})
#define ANY_DEVICE(op_, ...) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = PF_WITH_BRIEF(PF_KERNEL_DETERMINISTIC), .op = op_, \
                      .device = "*", __VA_ARGS__})
const pf_kernel *const stack_kernels[] = {
  ANY_DEVICE("StackV2",
             .attrs = PF_ATTRS(TYPE("elem_type"),
                               &(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, "stack_name",
                                                PF_ATTR_STRING, offsetof(stack_state, name)}),
             .args = PF_ARGS(PF_REF(pf_arg, "max_size", PF_MEM_HOST, 0)),
             .state_size = sizeof(stack_state), .compute = stack_new),
  ANY_DEVICE("Stack",
             .attrs = PF_ATTRS(TYPE("elem_type"),
                               &(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, "stack_name",
                                                PF_ATTR_STRING, offsetof(stack_state, name)}),
             .state_size = sizeof(stack_state), .compute = stack_new),
  ANY_DEVICE("StackPush", .attrs = PF_ATTRS(TYPE("T")), .state_size = sizeof(stack_state),
             .compute = stack_push),
  ANY_DEVICE("StackPop", .attrs = PF_ATTRS(TYPE("elem_type")), .state_size = sizeof(stack_state),
             .compute = stack_pop),
  ANY_DEVICE("StackClose", .compute = stack_close),
  ANY_DEVICE("StackPushV2", .attrs = PF_ATTRS(TYPE("T")), .state_size = sizeof(stack_state),
             .compute = stack_push),
  ANY_DEVICE("StackPopV2", .attrs = PF_ATTRS(TYPE("elem_type")), .state_size = sizeof(stack_state),
             .compute = stack_pop),
  ANY_DEVICE("_StackPushHost", .attrs = PF_ATTRS(TYPE("T")), .state_size = sizeof(stack_state),
             .args = PF_ARGS(PF_REF(pf_arg, "elem", PF_MEM_HOST, 0), WRITTEN("output")),
             .compute = stack_push),
  ANY_DEVICE("_StackPopHost", .attrs = PF_ATTRS(TYPE("elem_type")),
             .args = PF_ARGS(WRITTEN("elem")), .state_size = sizeof(stack_state),
             .compute = stack_pop),
  ANY_DEVICE("StackCloseV2", .compute = stack_close),
  NULL};
