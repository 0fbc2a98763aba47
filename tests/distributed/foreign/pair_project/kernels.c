/* kernels.c - acme.Send and acme.Recv.  Keys are those of _Send and _Recv, one tensor per key and step: so `cluster why` can say
 * who waits for whom. */
#include "acme.h"
#include <inttypes.h>

typedef struct { pf_str tensor_name, send_device, recv_device; int64_t incarnation; } ends;

const pf_transport2 *transport(const pf_host *h) { return h->extension("pyflow.transport/2"); }

static char *key_of(pf_ctx *c, const ends *s, int64_t *n) {
  pf_str frame = {0};
  int64_t turn = c->host->frame_iter(c, &frame);
  size_t room = (size_t)(s->tensor_name.len + s->send_device.len + s->recv_device.len + frame.len) + 80;
  char *key = malloc(room);
  if (key)
    *n = snprintf(key, room, "%.*s;%016" PRIx64 ";%.*s;%.*s;%.*s:%" PRId64, (int)s->send_device.len, s->send_device.data,
                  (uint64_t)s->incarnation, (int)s->recv_device.len, s->recv_device.data, (int)s->tensor_name.len, s->tensor_name.data,
                  (int)frame.len, frame.data, turn);
  return key;
}

static pf_status send_(pf_ctx *c, const void *state) {
  const pf_transport2 *t = transport(c->host);
  pf_task *task = t->task(c);
  int64_t n = 0;
  int failed = serve(c->host, task);
  t->release(task);
  char *key = key_of(c, state, &n);
  int dead = c->host->is_dead(c, -1);
  DLManagedTensorVersioned *value = dead || !key ? NULL : c->host->retain(c, 0);
  pf_status st = failed ? pf_fail(c, PF_UNAVAILABLE, "acme: no socket to be asked at")
               : !key || (!dead && !value) ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "acme: out of memory")
                                           : t->send(c, (pf_str){key, n}, value, dead);
  if (failed && value) value->deleter(value);
  free(key);
  return st;
}

/* The tensor came, was put by a progress thread, or the step fails. */
static void arrived(void *arg, pf_status st, DLManagedTensorVersioned *take, int32_t dead) {
  request *r = arg;
  __atomic_store_n(&r->over, 1, __ATOMIC_RELEASE);
  pf_ctx *c = r->host->pending(r->ticket);
  if (c && st == PF_OK && dead) st = c->host->set_dead(c, -1);
  else if (c && st == PF_OK) st = c->host->bring_output(c, 0, take), take = NULL;
  if (take) take->deleter(take);
  if (c && st != PF_PENDING) r->host->done(r->ticket, st);
  request_unref(r);
}

static pf_status recv_(pf_ctx *c, const void *state) {
  const pf_transport2 *t = transport(c->host);
  const ends *s = state;
  if (c->host->is_dead(c, -1)) return c->host->set_dead(c, -1);
  request *r = calloc(1, sizeof *r);
  if (r) r->key = key_of(c, s, &r->key_n);
  if (!r || !r->key) {
    free(r);
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "acme: out of memory");
  }
  r->refs = 2;                          /* this function's, and the one that `arrived` ends */
  r->host = c->host, r->task = t->task(c), r->sender = (uint64_t)s->incarnation;
  t->key(c, &r->step);
  pf_ctx *kept = c->host->defer(c, &r->ticket);
  pf_status st = kept ? t->recv(kept, 0, (pf_str){r->key, r->key_n}, arrived, r) : PF_RESOURCE_EXHAUSTED;
  if (st) {
    request_unref(r);
    if (kept) r->host->done(r->ticket, st), request_unref(r);
    return kept ? PF_PENDING : st;
  }
  if (ask(r)) {
    pf_str why = {"acme: no thread to ask with", 27}, nobody = {"", 0};
    t->fail(r->task, r->step, t->incarnation(r->task), PF_RESOURCE_EXHAUSTED, 0, nobody, why);
  }
  request_unref(r);
  return PF_PENDING;
}

void request_unref(request *r) {
  if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL)) return;
  transport(r->host)->release(r->task);
  free(r->key);
  free(r);
}

/* ---------------------------------------------------------------- tables */
#define ENDS "tensor_name: string, send_device: string, send_device_incarnation: int, recv_device: string, client_terminated: bool = false"
#define NUMBERS "float|double|int8|int16|int32|int64|uint8|uint16|uint32|uint64|half|bfloat16|bool|complex64|complex128"
#define STRING(field) PF_ATTR(ends, PF_ATTR_STRING, field)
static const pf_attr *const attrs[] = {STRING(tensor_name), STRING(send_device), STRING(recv_device),
  PF_REF(pf_attr, "send_device_incarnation", PF_ATTR_INT, (int32_t)offsetof(ends, incarnation)), 0};
static const pf_arg *const host_memory[] = {PF_REF(pf_arg, "tensor", PF_MEM_HOST, 0), 0};
static const pf_op send_op = {.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = "acme.Send", .sig = "tensor: T -> ; T: type, " ENDS},
  recv_op = {.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = "acme.Recv", .sig = "-> tensor: tensor_type; tensor_type: type, " ENDS};
#define KERNEL(opname, types, bits, fn) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_DETERMINISTIC | PF_KERNEL_URGENT | PF_KERNEL_DEAD | (bits), \
  .op = opname, .device = "*", .where = types "=" NUMBERS, .args = host_memory, .attrs = attrs, .state_size = sizeof(ends), .compute = fn}
static const pf_kernel send_kernel = KERNEL("acme.Send", "T", 0, send_), recv_kernel = KERNEL("acme.Recv", "tensor_type", PF_KERNEL_ASYNC, recv_);
static const pf_op *const ops[] = {&send_op, &recv_op, NULL};
static const pf_kernel *const kernels[] = {&send_kernel, &recv_kernel, NULL};
static void stop(const pf_host *h) {
  (void)h;
  stop_servers();
}
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.acme.pair", .version = "1.0", .ops = ops, .kernels = kernels, .stop = stop,
  .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 1};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) {
  (void)h;
  return &plugin;
}
