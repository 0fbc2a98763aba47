/* sendrecv.c - _Send and _Recv between devices, of any kind, of one task, over the step's
 * rendezvous ("pyflow.transport/1"); _net.Send to a _Recv of another task.
 *
 * Invariants
 *   1. A key is "send device;incarnation;receive device;tensor;frame:iteration": one tensor per key
 *      and step.
 *   2. Dead values travel as such; a dead control input makes a Send send deadness.
 *   3. _net.Send ends at once where there is room on the way, else once there is.
 *   4. _Recv ends exactly once: by the callback of recv, which may run at once or on the sender's
 *      thread.
 * Threads: compute is concurrent; `arrived` runs on any thread.
 */
#include "base/bytes.h"

typedef struct {
  pf_str tensor_name, send_device, recv_device;
  int64_t incarnation;
} ends;

static pf_status transport_of(pf_ctx *c, const pf_transport **t) {
  *t = c->host->extension ? c->host->extension("pyflow.transport/1") : NULL;
  return *t ? PF_OK : pf_fail(c, PF_UNIMPLEMENTED, "this host offers no pyflow.transport/1");
}

static pf_status make_key(pf_ctx *c, const ends *s, pf_bytes *b) {
  pf_str frame = {0};
  int64_t iter = c->host->frame_iter(c, &frame);
  pf_bytes_add(b, s->send_device.data, s->send_device.len);
  pf_bytes_printf(b, ";%016" PRIx64 ";", (uint64_t)s->incarnation);
  pf_bytes_add(b, s->recv_device.data, s->recv_device.len);
  pf_bytes_text(b, ";");
  pf_bytes_add(b, s->tensor_name.data, s->tensor_name.len);
  pf_bytes_text(b, ";");
  pf_bytes_add(b, frame.data, frame.len);
  pf_bytes_printf(b, ":%" PRId64, iter);
  return b->failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a rendezvous key") : PF_OK;
}

static pf_status send(pf_ctx *c, const void *state) {
  const pf_transport *t;
  pf_bytes key = {0};
  DLManagedTensorVersioned *value = NULL;
  PF_TRY(transport_of(c, &t));
  PF_TRY(make_key(c, state, &key));
  int dead = c->host->is_dead(c, -1);
  if (!dead) value = c->host->retain(c, 0);
  pf_status r = dead || value ? t->send(c, (pf_str){key.data, key.n}, value, dead)
                              : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to send a tensor");
  pf_bytes_free(&key);
  return r;
}

typedef struct {
  const pf_host *host;
  uint64_t ticket;
} waiter;
static void arrived(void *arg, pf_status s, DLManagedTensorVersioned *value, int32_t dead) {
  waiter w = *(waiter *)arg;
  free(arg);
  pf_ctx *c = w.host->pending(w.ticket);
  if (!c) { /* the step is over: nobody waits */
    if (value) value->deleter(value);
    return;
  }
  if (s == PF_OK && dead) s = w.host->set_dead(c, -1);
  else if (s == PF_OK && value) s = w.host->bring_output(c, 0, value), value = NULL;
  else if (s == PF_OK) s = pf_fail(c, PF_INTERNAL, "a rendezvous delivered nothing");
  if (value) value->deleter(value);
  /* else the host ends the call when its copy is done */
  if (s != PF_PENDING) w.host->done(w.ticket, s);
}

static pf_status recv(pf_ctx *c, const void *state) {
  const pf_transport *t;
  pf_bytes key = {0};
  PF_TRY(transport_of(c, &t));
  if (c->host->is_dead(c, -1)) return c->host->set_dead(c, -1);
  PF_TRY(make_key(c, state, &key));
  waiter *w = malloc(sizeof *w);
  uint64_t ticket = 0;
  pf_ctx *kept = w ? c->host->defer(c, &ticket) : NULL;
  if (!kept) {
    free(w);
    pf_bytes_free(&key);
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to wait for a tensor");
  }
  *w = (waiter){c->host, ticket};
  pf_status r = t->recv(kept, (pf_str){key.data, key.n}, arrived, w);
  pf_bytes_free(&key);
  if (r != PF_OK) { /* refused: `arrived` will not run */
    free(w);
    c->host->done(ticket, r);
  }
  return PF_PENDING;
}

/* The task of a device: '/job:ps/replica:0/task:1' of '/job:ps/replica:0/task:1/device:CPU:0'. */
static pf_str task_of(pf_str device) {
  static const char mark[] = "/device:";
  for (int64_t i = 0; i + (int64_t)sizeof mark - 1 <= device.len; i++)
    if (!memcmp(device.data + i, mark, sizeof mark - 1)) return (pf_str){device.data, i};
  return device;
}

/* _net.Send: as _Send, to the same step in another server ("pyflow.transport/2"). */
static pf_status post(pf_ctx *c, const void *state) {
  const pf_transport2 *t = c->host->extension ? c->host->extension("pyflow.transport/2") : NULL;
  const ends *s = state;
  pf_bytes key = {0};
  DLManagedTensorVersioned *value = NULL;
  if (!t || t->size < offsetof(pf_transport2, post) + sizeof t->post)
    return pf_fail(
        c, PF_UNIMPLEMENTED,
        "this host sends nothing to other servers: it offers no post of pyflow.transport/2");
  PF_TRY(make_key(c, state, &key));
  int dead = c->host->is_dead(c, -1);
  if (!dead) value = c->host->retain(c, 0);
  pf_status r = dead || value
                    ? t->post(c, task_of(s->recv_device), (pf_str){key.data, key.n}, value, dead)
                    : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to send a tensor");
  pf_bytes_free(&key);
  return r;
}

#define STRING(field) PF_ATTR(ends, PF_ATTR_STRING, field)
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_URGENT | PF_KERNEL_DEAD)
#define ENTRY(id, opname, bits, memory, fn) static const pf_kernel id##_entry = { \
  .size = sizeof(pf_kernel), .flags = PF_WITH_BRIEF(FLAGS | (bits)), .op = opname, .device = "*", .args = memory, \
  .attrs = PF_ATTRS(STRING(tensor_name), STRING(send_device), STRING(recv_device), \
                    PF_REF(pf_attr, "send_device_incarnation", PF_ATTR_INT, \
                           offsetof(ends, incarnation))), \
  .state_size = sizeof(ends), .compute = fn}
static const pf_arg *const any_memory[] = {PF_REF(pf_arg, "tensor", PF_MEM_ANY, 0), NULL};
static const pf_arg *const host_memory[] = {PF_REF(pf_arg, "tensor", PF_MEM_HOST, 0), NULL};
ENTRY(_Send, "_Send", 0, any_memory, send);
ENTRY(_Recv, "_Recv", PF_KERNEL_ASYNC, any_memory, recv);
ENTRY(_net_Send, "_net.Send", PF_KERNEL_ASYNC, host_memory, post);
const pf_kernel *const sendrecv_kernels[] = {&_Send_entry, &_Recv_entry, &_net_Send_entry, NULL};
