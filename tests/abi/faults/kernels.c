/* kernels.c - ops whose functions do what attribute `fault` names; test_faults.py lists what must happen.
 *
 * faults.Sync (flags 0), faults.Brief, faults.Lane (BLOCKING), faults.Async: "x: float -> y: float"; faults.Text: of strings;
 * faults.Shaped has a shape function, faults.Init an init, faults.Costly a cost function. */
#include "faults.h"

typedef struct { pf_str fault; } state;
static int is(const state *s, const char *name) {
  return s->fault.len == (int64_t)strlen(name) && !memcmp(s->fault.data, name, strlen(name));
}
#define H (c->host)
#define ON(name) if (is(s, name))
#define NOTHING ((pf_str){NULL, 5})

static pf_status give(pf_ctx *c, float value) {
  DLTensor *y = H->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = value;
  return PF_OK;
}
static pf_status refused(pf_ctx *c, int32_t ok, pf_status st) { /* the host must have said no; then the step goes on */
  return ok && st == PF_OK ? pf_fail(c, PF_DATA_LOSS, "the host took it") : st;
}
#define NO(call) return refused(c, 1, (call))
#define NONE(call) return (call) ? pf_fail(c, PF_DATA_LOSS, "the host took it") : PF_RESOURCE_EXHAUSTED

/* ---------------------------------------------------------------- tensors that are no tensors */
static void deleted(DLManagedTensorVersioned *m) { free(m); }
static int64_t dims_of_4[1] = {4}, negative[1] = {-4}, huge[2] = {1ll << 40, 1ll << 40};
static DLManagedTensorVersioned *foreign(const state *s) {
  static _Alignas(64) double data[8];
  DLManagedTensorVersioned *m = calloc(1, sizeof *m);
  m->version.major = 1;
  m->deleter = deleted;
  m->dl_tensor = (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = dims_of_4};
  ON("tensor_of_doubles") m->dl_tensor.dtype.bits = 64;
  ON("tensor_of_ints") m->dl_tensor.dtype.code = kDLInt;
  ON("tensor_of_lanes") m->dl_tensor.dtype.lanes = 4;
  ON("tensor_of_version_9") m->version.major = 9;
  ON("tensor_without_data") m->dl_tensor.data = NULL;
  ON("tensor_of_negative_size") m->dl_tensor.shape = negative;
  ON("tensor_of_negative_rank") m->dl_tensor.ndim = -3;
  return m;
}

/* a tensor of the host's, of the op's type, whose header somebody wrote over */
static DLManagedTensorVersioned *own(pf_ctx *c, const state *s) {
  static float elsewhere[16];
  static int64_t minus_2[1] = {-2}, strides[1] = {2};
  DLManagedTensorVersioned *m = H->tensor_new(H, NULL, PF_MEM_HOST, is(s, "own_of_ints") ? PF_INT32 : PF_FLOAT32, dims_of_4, 1);
  DLTensor *t = &m->dl_tensor;
  ON("own_without_data") t->data = NULL;
  ON("own_with_other_data") t->data = elsewhere;
  ON("own_with_byte_offset") t->byte_offset = 8;
  ON("own_of_more") t->shape[0] = 1 << 30;
  ON("own_of_negative_size") t->shape[0] = -4;
  ON("own_with_other_shape") t->shape = minus_2;
  ON("own_without_shape") t->shape = NULL;
  ON("own_of_rank_200") t->ndim = 200;
  ON("own_with_strides") t->strides = strides;
  ON("own_said_to_be_ints") t->dtype.code = kDLInt;
  return m;
}
static pf_status given_twice(pf_ctx *c) {
  DLManagedTensorVersioned *m = H->tensor_new(H, NULL, PF_MEM_HOST, PF_FLOAT32, NULL, 0);
  *(float *)m->dl_tensor.data = 3;
  pf_status st = H->set_output(c, 0, m);
  return st ? st : H->set_output(c, 0, m);
}

/* ---------------------------------------------------------------- compute */
static pf_status make_nothing(pf_ctx *c, void *arg, void **obj) { return PF_DATA_LOSS; }
static void unref(void *obj) {}
static const pf_type usable_type = {sizeof(pf_type), 0, "faults.Object", unref, NULL}, empty_type = {0, 0, NULL, NULL, NULL},
                     nameless_type = {sizeof(pf_type), 0, NULL, unref, NULL};

static pf_status statuses(pf_ctx *c, const state *s) {
  ON("returns_77") return 77;
  ON("returns_minus_77") return -77;
  ON("returns_pending") return PF_PENDING;
  ON("returns_decline") return PF_DECLINE;
  ON("returns_ok_without_output") return PF_OK;
  ON("fails_without_text") return H->fail(c, PF_DATA_LOSS, NULL, 1000);
  ON("fails_with_negative_length") return H->fail(c, PF_DATA_LOSS, "text", -5);
  ON("fails_with_status_ok") return H->fail(c, PF_OK, "it is fine", 10);
  ON("fails_with_percent") return H->fail(c, PF_DATA_LOSS, "100 %s %n", 9);
  ON("fails_not_in_utf8") return H->fail(c, PF_DATA_LOSS, "broken \xff\xfe text", 14);
  ON("fails_at_length") {
    char *text = malloc(100000);
    memset(text, 'x', 100000);
    pf_status st = H->fail(c, PF_DATA_LOSS, text, 100000);
    free(text);
    return st;
  }
  return PF_OK;
}
static pf_status outputs(pf_ctx *c, const state *s) {
  ON("output_7") NONE(H->output(c, 7, NULL, 0));
  ON("output_minus_1") NONE(H->output(c, -1, NULL, 0));
  ON("output_of_rank_minus_1") NONE(H->output(c, 0, dims_of_4, -1));
  ON("output_of_rank_300") NONE(H->output(c, 0, dims_of_4, 300));
  ON("output_at_no_address") NONE(H->output(c, 0, NULL, 2));
  ON("output_of_negative_size") NONE(H->output(c, 0, negative, 1));
  ON("output_of_huge_size") NONE(H->output(c, 0, huge, 2));
  ON("output_twice") { give(c, 1); return give(c, 3); }
  ON("set_output_of_nothing") NO(H->set_output(c, 0, NULL));
  ON("set_output_9") NO(H->set_output(c, 9, foreign(s)));
  if (s->fault.len > 7 && !memcmp(s->fault.data, "tensor_", 7)) NO(H->set_output(c, 0, foreign(s)));
  ON("bring_output_before_defer") NO(H->bring_output(c, 0, foreign(s)));
  if (s->fault.len > 4 && !memcmp(s->fault.data, "own_", 4)) NO(H->set_output(c, 0, own(c, s)));
  ON("set_output_twice") NO(given_twice(c));
  ON("forward_of_input_5") return H->forward(c, 5, 0, NULL, 0) ? give(c, 3) : PF_INTERNAL;
  ON("forward_to_output_5") NONE(H->forward(c, 0, 5, NULL, 0));
  ON("forward_at_no_address") NONE(H->forward(c, 0, 0, NULL, 3));
  ON("alias_of_input_5") NO(H->alias(c, 5, 0, NULL, 0));
  ON("alias_to_output_5") NO(H->alias(c, 0, 5, NULL, 0));
  ON("alias_of_other_size") NO(H->alias(c, 0, 0, dims_of_4, 1));
  ON("alias_of_rank_minus_3") NO(H->alias(c, 0, 0, dims_of_4, -3));
  ON("scratch_huge") NONE(H->scratch(c, UINT64_MAX, 64));
  ON("scratch_aligned_to_4096") NONE(H->scratch(c, 64, 4096));
  ON("retain_of_input_5") NONE(H->retain(c, 5));
  ON("retain_of_input_minus_1") NONE(H->retain(c, -1));
  return PF_OK;
}
static pf_status variables(pf_ctx *c, const state *s) {
  void *obj = NULL;
  pf_var v = {0, PF_VAR_UPDATE}, beyond = {9, PF_VAR_UPDATE}, strange = {0, 9};
  pf_shape shape = {NULL, 3, 0};
  ON("var_lock_of_no_variable") NO(H->var_lock(c, &v, 1));
  ON("var_lock_of_input_9") NO(H->var_lock(c, &beyond, 1));
  ON("var_lock_of_nothing") NO(H->var_lock(c, NULL, 3));
  ON("var_lock_in_mode_9") NO(H->var_lock(c, &strange, 1));
  ON("var_get_unlocked") NONE(H->var_get(c, 0));
  ON("var_swap_of_nothing") NO(H->var_swap(c, 0, NULL));
  ON("var_swap_of_no_variable") NO(H->var_swap(c, 0, foreign(s)));
  ON("var_assign_of_no_variable") NO(H->var_assign(c, 0, 0));
  ON("var_read_of_no_variable") NO(H->var_read(c, 0, 0));
  ON("var_handle_without_name") NO(H->var_handle(c, 0, NOTHING, NOTHING, PF_FLOAT32, shape));
  ON("resource_without_type") NO(H->resource(c, 0, (pf_str){0}, (pf_str){0}, NULL, make_nothing, NULL, &obj));
  ON("resource_of_empty_type") NO(H->resource(c, 0, (pf_str){0}, (pf_str){0}, &empty_type, make_nothing, NULL, &obj));
  ON("resource_of_nameless_type") NO(H->resource(c, 1, (pf_str){0}, (pf_str){0}, &nameless_type, make_nothing, NULL, &obj));
  ON("resource_to_nowhere") NO(H->resource(c, 0, (pf_str){0}, (pf_str){0}, &usable_type, make_nothing, NULL, NULL));
  ON("resource_that_cannot_be_made") NO(H->resource(c, 0, (pf_str){0}, (pf_str){0}, &usable_type, make_nothing, NULL, &obj));
  ON("resource_of_the_step_not_there") NO(H->resource(c, 1, (pf_str){0}, (pf_str){0}, &usable_type, NULL, NULL, &obj));
  ON("resource_get_of_no_handle") NO(H->resource_get(c, 0, &usable_type, &obj));
  ON("resource_get_without_type") NO(H->resource_get(c, 0, NULL, &obj));
  ON("resource_delete_of_no_handle") NO(H->resource_delete(c, 0));
  ON("resource_delete_of_input_9") NO(H->resource_delete(c, 9));
  ON("resource_handle_without_type") NO(H->resource_handle(c, 0, 0, NULL, NULL));
  ON("resource_output_without_make") NO(H->resource_output(c, 0, (pf_str){0}, (pf_str){0}, &usable_type, NULL, NULL));
  ON("rng_to_nowhere") NO(H->rng(c, 5, NULL, NULL));
  ON("set_dead_undeclared") NO(H->set_dead(c, 0));
  ON("drop_constant_in_compute") NO(H->drop_constant(c, 0));
  return PF_OK;
}
static void received(void *arg, pf_status st, DLManagedTensorVersioned *take, int32_t dead) {}
static void called(void *arg) {}
static pf_status tickets(pf_ctx *c, const state *s) {
  uint64_t ticket = 0;
  const pf_transport *t = H->extension("pyflow.transport/1");
  pf_str key = {"key", 3};
  ON("defer_undeclared") NONE(H->defer(c, &ticket));
  ON("defer_without_ticket") NONE(H->defer(c, NULL));
  ON("done_of_nobody") { H->done(0, PF_OK); H->done(UINT64_MAX, PF_OK); return give(c, 3); }
  ON("on_cancel_of_nobody") NO(H->on_cancel(c, 4711, called, NULL));
  ON("on_cancel_without_function") NO(H->on_cancel(c, 0, NULL, NULL));
  ON("after_without_function") NO(H->after(c, NULL, NULL));
  ON("parallel_for_without_function") NO(H->parallel_for(c, 100, 1, NULL, NULL));
  ON("post_without_function") NO(H->post(H, 0, NULL, NULL));
  ON("post_caller_without_function") NO(H->post_caller(c, NULL, NULL));
  ON("send_of_nothing") NO(t->send(c, key, NULL, 0));
  ON("send_under_no_key") NO(t->send(c, NOTHING, H->retain(c, 0), 0));
  ON("send_twice") { t->send(c, key, H->retain(c, 0), 0); NO(t->send(c, key, H->retain(c, 0), 0)); }
  ON("recv_without_function") NO(t->recv(c, key, NULL, NULL));
  ON("recv_under_no_key") NO(t->recv(c, NOTHING, received, NULL));
  ON("recv_twice") { t->recv(c, key, received, NULL); NO(t->recv(c, key, received, NULL)); }
  ON("inject_into_no_step") NO(t->inject(H, c->step + 1000000, t->incarnation(c), key, H->retain(c, 0), 0));
  ON("inject_into_step_0") NO(t->inject(H, 0, t->incarnation(c), key, H->retain(c, 0), 0));
  ON("inject_of_another_incarnation") NO(t->inject(H, c->step, 1, key, H->retain(c, 0), 0));
  ON("inject_of_nothing") NO(t->inject(H, c->step, t->incarnation(c), key, NULL, 0));
  ON("abort_without_text") NO(t->abort(c, PF_UNAVAILABLE, NULL, 100));
  ON("everything_of_nobody") {    /* no context at all */
    int64_t dims = 1;
    uint64_t key2[2];
    void *obj;
    int bad = (H->output(NULL, 0, &dims, 1) != NULL) + (H->forward(NULL, 0, 0, &dims, 1) != NULL) + (H->scratch(NULL, 1, 1) != NULL) +
              (H->defer(NULL, &ticket) != NULL) + (H->retain(NULL, 0) != NULL) + (H->var_get(NULL, 0) != NULL) +
              (H->constant(NULL, 0) != NULL) + (H->native(NULL, "x") != NULL) + !H->set_output(NULL, 0, NULL) + !H->alias(NULL, 0, 0, &dims, 1) +
              !H->after(NULL, NULL, NULL) + !H->post_caller(NULL, called, NULL) + !H->var_lock(NULL, NULL, 1) + !H->var_read(NULL, 0, 0) +
              !H->var_swap(NULL, 0, NULL) + !H->var_assign(NULL, 0, 0) + !H->resource_get(NULL, 0, &usable_type, &obj) +
              !H->resource_delete(NULL, 0) + !H->rng(NULL, 1, key2, key2) + !H->set_dead(NULL, 0) + !H->drop_constant(NULL, 0) +
              !H->bring_output(NULL, 0, NULL) + !t->send(NULL, key, NULL, 1) + !t->recv(NULL, key, received, NULL) +
              !t->abort(NULL, 1, "x", 1) + H->var_initialized(NULL, 0) + H->is_dead(NULL, 0) + H->can_forward(NULL, 0) + (H->workers(NULL) != 1);
    H->frame_iter(NULL, NULL);
    return H->node_name(NULL).len + bad ? pf_fail(c, PF_DATA_LOSS, "the host took it") : give(c, 3);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- ends */
static void crash_in_loop(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  if (worker) *(volatile int *)8 = 1;   /* on a helper */
  usleep(1000);
}
static int deep(volatile int *p) {
  volatile int here[1000] = {p ? p[0] : 0};
  return here[999] < 0 ? 1 : deep(here) + here[999];
}
static pf_status ends(pf_ctx *c, const state *s) {
  static volatile int zero;
  ON("crash") *(volatile int *)8 = 1;
  ON("abort") abort();
  ON("divide") zero = 1000 / zero;
  ON("exit") exit(0);
  ON("overflow") zero = deep(NULL);
  ON("crash_in_loop") H->parallel_for(c, 1000, 1, crash_in_loop, NULL);
  return PF_OK;
}
static pf_status compute(pf_ctx *c, const void *state_) {
  const state *s = state_;
  pf_status (*const groups[])(pf_ctx *, const state *) = {statuses, outputs, variables, tickets, ends};
  for (int k = 0; k < 5; k++) {
    pf_status st = groups[k](c, s);
    if (st || c->out[0]) return st;
    ON("returns_ok_without_output") return PF_OK;
  }
  return give(c, 3);
}

/* ---------------------------------------------------------------- asynchronous */
static pf_status async(pf_ctx *c, const void *state_) {
  const state *s = state_;
  const pf_host *host = H;
  uint64_t ticket, again;
  ON("fails_before_defer") return pf_fail(c, PF_DATA_LOSS, "not even begun");
  pf_ctx *d = host->defer(c, &ticket);
  ON("defers_twice") {
    pf_ctx *e = host->defer(c, &again);
    if (e != d || again != ticket) return pf_fail(d, PF_DATA_LOSS, "two calls of one");
  }
  ON("done_of_strange_status") { host->done(ticket, -77); return PF_PENDING; }
  ON("done_without_output") { host->done(ticket, PF_OK); return PF_PENDING; }
  ON("done_and_ok") { pf_status st = give(d, 3); host->done(ticket, st); return PF_OK; }
  ON("ok_and_no_done") return give(d, 3);
  ON("delivers_another_shape") {
    DLTensor *y = host->output(d, 0, dims_of_4, 1);
    host->done(ticket, y ? PF_OK : PF_INTERNAL);
    return PF_PENDING;
  }
  ON("brings_nothing") { host->done(ticket, refused(d, 1, host->bring_output(d, 0, NULL))); return PF_PENDING; }
  ON("crash") *(volatile int *)8 = 1;
  host->done(ticket, give(d, 3));
  return PF_PENDING;
}

/* ---------------------------------------------------------------- shape, init, cost, strings */
static pf_str fault_of(pf_infer *f) {
  pf_str fault = {"", 0};
  f->host->infer_attr(f, "fault", PF_ATTR_STRING, &fault);
  return fault;
}
static pf_status infer(pf_infer *f) {
  const pf_host *h = f->host;
  const state *s = &(const state){fault_of(f)};
  const int64_t ten[1] = {10}, strange[1] = {-7}, *dims;
  int32_t n;
  ON("infer_fails_without_text") return PF_INVALID_ARGUMENT;
  ON("infer_fails_with_no_text") return h->infer_fail(f, NULL, 10);
  ON("infer_fails_with_empty_text") return h->infer_fail(f, "", 0);
  ON("infer_returns_minus_77") return -77;
  ON("infer_says_and_forgets") { h->infer_fail(f, "meant, but not returned", 23); return PF_OK; }
  ON("infer_output_9") return h->infer_set(f, 9, ten, 1);
  ON("infer_rank_300") return h->infer_set(f, 0, ten, 300);
  ON("infer_negative_size") return h->infer_set(f, 0, strange, 1);
  ON("infer_at_no_address") return h->infer_set(f, 0, NULL, 2);
  ON("infer_dims_of_input_9") return h->infer_dims(f, 9, &dims, &n);
  ON("infer_dims_to_nowhere") return h->infer_dims(f, 0, NULL, NULL);
  ON("infer_attr_unknown") return h->infer_attr(f, "nope", PF_ATTR_INT, &n);
  ON("infer_attr_of_no_name") return h->infer_attr(f, NULL, PF_ATTR_INT, NULL);
  ON("infer_of_nobody") return h->infer_n(NULL, 0) + h->infer_type(NULL, 0) + (h->infer_constant(NULL, 0) != NULL) ? PF_OK : h->infer_set(NULL, 0, ten, 1);
  ON("infer_crash") *(volatile int *)8 = 1;
  ON("lies_about_rank") return h->infer_set(f, 0, ten, 1);
  ON("lies_about_size") return h->infer_set(f, 0, ten, 1);
  ON("keeps_its_word") { const int64_t any[1] = {-1}; return h->infer_set(f, 0, any, 1); }
  return PF_OK;
}
static pf_status shaped(pf_ctx *c, const void *state_) {
  const state *s = state_;
  const int64_t many = 1 << 20;
  DLTensor *y = H->output(c, 0, &many, is(s, "lies_about_rank") ? 0 : 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  memset(y->data, 0, sizeof(float) * (size_t)pf_numel(y));
  return PF_OK;
}
static pf_status init(pf_ctx *c, void *state_) {
  const state *s = state_;
  pf_var v = {0, 0};
  void *obj;
  ON("init_fails_without_text") return PF_DATA_LOSS;
  ON("init_fails_with_text") return pf_fail(c, PF_DATA_LOSS, "no such model");
  ON("init_returns_minus_77") return -77;
  ON("init_returns_pending") return PF_PENDING;
  ON("init_declines") return PF_DECLINE;
  ON("init_output") NONE(H->output(c, 0, NULL, 0));
  ON("init_forward") NONE(H->forward(c, 0, 0, NULL, 0));
  ON("init_alias") NO(H->alias(c, 0, 0, NULL, 0));
  ON("init_retain") NONE(H->retain(c, 0));
  ON("init_defer") NONE(H->defer(c, &(uint64_t){0}));
  ON("init_var_lock") NO(H->var_lock(c, &v, 1));
  ON("init_resource_of_the_step") NO(H->resource(c, 1, (pf_str){0}, (pf_str){0}, &usable_type, make_nothing, NULL, &obj));
  ON("init_resource_get") NO(H->resource_get(c, 0, &usable_type, &obj));
  ON("init_drop_of_no_constant") NO(H->drop_constant(c, 5));
  ON("init_set_dead") NO(H->set_dead(c, 0));
  ON("init_crash") *(volatile int *)8 = 1;
  return H->cancelled(c) + H->is_dead(c, 0) + H->can_forward(c, 0) + H->var_initialized(c, 0) ? PF_DATA_LOSS : PF_OK;
}
static pf_status plain(pf_ctx *c, const void *s) { return give(c, 3); }
static pf_status cost(pf_infer *f, double *flops, double *bytes) {
  const state *s = &(const state){fault_of(f)};
  *flops = *bytes = 0.0 / 0.0;
  ON("cost_negative") *flops = -1e300;
  ON("cost_crash") *(volatile int *)8 = 1;
  return is(s, "cost_fails") ? PF_DATA_LOSS : PF_OK;
}
static pf_status texts(pf_ctx *c, const void *state_) {
  const state *s = state_;
  pf_str t = {"x", 1};
  DLTensor *y = H->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  ON("str_set_beyond") NO(H->str_set(y, 1, t));
  ON("str_set_before") NO(H->str_set(y, -1, t));
  ON("str_set_of_nothing") NO(H->str_set(y, 0, NOTHING));
  ON("str_set_negative") NO(H->str_set(y, 0, (pf_str){"x", -1}));
  ON("str_set_of_nobody") NO(H->str_set(NULL, 0, t));
  ON("str_set_of_an_input") NO(H->str_set((DLTensor *)c->in[0], 0, (pf_str){"xyz", -3}));
  ON("str_get_beyond") NO(H->str_get(c->in[0], 100, &t));
  ON("str_get_to_nowhere") NO(H->str_get(c->in[0], 0, NULL));
  return H->str_set(y, 0, t);
}

/* ---------------------------------------------------------------- tables */
#define OP_(name_, sig_, ...) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = name_, .sig = sig_, __VA_ARGS__})
#define KERNEL(op_, fn, flags_, ...) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = (flags_), .op = op_, .device = "CPU", .compute = fn, .attrs = attrs, \
                      .state_size = sizeof(state), __VA_ARGS__})
#define X "x: float -> y: float; fault: string"
static const pf_attr *const attrs[] = {PF_ATTR(state, PF_ATTR_STRING, fault), 0};
static const pf_op *const ops[] = {
  OP_("faults.Sync", X, 0), OP_("faults.Brief", X, 0), OP_("faults.Lane", X, 0), OP_("faults.Async", X, 0),
  OP_("faults.Shaped", X, .infer = infer), OP_("faults.Init", X, 0), OP_("faults.Costly", X, 0),
  OP_("faults.Text", "x: string -> y: string; fault: string", 0), 0};
static const pf_kernel *const kernels[] = {
  KERNEL("faults.Sync", compute, 0, 0), KERNEL("faults.Brief", compute, PF_KERNEL_BRIEF, 0),
  KERNEL("faults.Lane", compute, PF_KERNEL_BLOCKING, 0), KERNEL("faults.Async", async, PF_KERNEL_ASYNC, 0),
  KERNEL("faults.Shaped", shaped, 0, 0), KERNEL("faults.Init", plain, 0, .init = init),
  KERNEL("faults.Costly", plain, PF_KERNEL_EXPENSIVE, .cost = cost), KERNEL("faults.Text", texts, 0, 0), 0};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.example.faults", .version = "1", .ops = ops, .kernels = kernels,
                                 .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) { return &plugin; }
