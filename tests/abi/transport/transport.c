/* transport.c - a kernel pair and a progress thread on pyflow.transport/2.  See test_transport.py. */
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define H (c->host)
typedef struct { pf_str key, text; int64_t code, derived, session, step; } state;
static const pf_transport2 *transport(const pf_host *h) { return h->extension("pyflow.transport/2"); }

/* ---------------------------------------------------------------- a pair for the step it is in */
static pf_status sends(pf_ctx *c, const void *s) { return transport(H)->send(c, ((const state *)s)->key, H->retain(c, 0), 0); }

typedef struct { const pf_host *host; uint64_t ticket; } waiter;
static void arrived(void *arg, pf_status st, DLManagedTensorVersioned *take, int32_t dead) {
  waiter w = *(waiter *)arg;
  free(arg);
  pf_ctx *c = w.host->pending(w.ticket);
  if (c && st == PF_OK && take) st = H->bring_output(c, 0, take), take = NULL;
  else if (c && st) st = H->fail(c, st, "the tensor did not come", 23);
  if (take) take->deleter(take);
  if (st != PF_PENDING) w.host->done(w.ticket, st);
}
static pf_status receives(pf_ctx *c, const void *s) {
  waiter *w = malloc(sizeof *w);
  uint64_t ticket = 0;
  pf_ctx *kept = H->defer(c, &ticket);
  *w = (waiter){H, ticket};
  pf_status st = transport(H)->recv(kept, 0, ((const state *)s)->key, arrived, w);
  if (st) free(w), H->done(ticket, st);
  return PF_PENDING;
}

/* ---------------------------------------------------------------- what a step knows of itself */
static pf_status knows(pf_ctx *c, const void *s) {
  const pf_transport2 *t = transport(H);
  int64_t four = 4;
  DLTensor *y = H->output(c, 0, &four, 1);
  pf_step_key key;
  pf_status st = t->key(c, &key);
  pf_task *task = t->task(c);
  if (!y || st) return PF_INTERNAL;
  PF_DATA(int64_t, y)[0] = (int64_t)key.session;
  PF_DATA(int64_t, y)[1] = (int64_t)key.step;
  PF_DATA(int64_t, y)[2] = (int64_t)t->incarnation(task);
  PF_DATA(int64_t, y)[3] = t->deadline(c);
  t->release(task);
  return PF_OK;
}
static pf_status aborts(pf_ctx *c, const void *vs) {
  const state *s = vs;
  return transport(H)->abort(c, (pf_status)s->code, s->derived ? PF_ERROR_DERIVED : 0, s->text.data, s->text.len);
}

/* ---------------------------------------------------------------- a progress thread: any step of the task */
typedef struct { const pf_host *host; pf_task *task; pf_step_key step; pf_str key; char name[64]; uint64_t incarnation; float value;
                 pf_status st; int32_t on_host; float got; volatile int over; } message;
static void *puts_there(void *arg) {
  message *m = arg;
  const pf_transport2 *t = transport(m->host);
  const int64_t one = 1;
  DLManagedTensorVersioned *room = t->room(m->task, m->step, m->key, PF_FLOAT32, &one, 1);
  if (!room) { m->st = PF_RESOURCE_EXHAUSTED; return NULL; }
  m->on_host = room->dl_tensor.device.device_type == kDLCPU;
  *PF_DATA(float, &room->dl_tensor) = m->value;
  m->st = t->put(m->task, m->step, m->incarnation, m->key, room, 0);
  return NULL;
}
static void took(void *arg, pf_status st, DLManagedTensorVersioned *take, int32_t dead) {
  message *m = arg;
  if (st == PF_OK && take) m->got = *PF_DATA(float, &take->dl_tensor);
  if (take) take->deleter(take);
  m->st = st;
  m->over = 1;
}
static void *takes_there(void *arg) {
  message *m = arg;
  m->st = transport(m->host)->take(m->task, m->step, m->incarnation, m->key, took, m);
  if (m->st) m->over = 1;
  for (int k = 0; k < 20000 && !m->over; k++) usleep(500);
  return NULL;
}
static void *fails_there(void *arg) {
  message *m = arg;
  pf_str text = {"told by a link", 14}, task = {"/job:peer/task:9", 16};
  m->st = transport(m->host)->fail(m->task, m->step, m->incarnation, PF_DATA_LOSS, 0, task, text);
  return NULL;
}
static pf_status on_a_thread(pf_ctx *c, const state *s, void *(*fn)(void *), float value, int64_t incarnation) {
  const pf_transport2 *t = transport(H);
  message m = {H, t->task(c), {(uint64_t)s->session, (uint64_t)s->step}, s->key, "", 0, value, PF_OK, 0, 0, 0};
  pthread_t id;
  int64_t three = 3;
  DLTensor *y = H->output(c, 0, &three, 1);
  m.incarnation = incarnation ? (uint64_t)incarnation : t->incarnation(m.task);
  t->retain(m.task);
  t->release(m.task);
  pthread_create(&id, NULL, fn, &m);
  pthread_join(id, NULL);
  t->release(m.task);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  PF_DATA(float, y)[0] = (float)m.st;
  PF_DATA(float, y)[1] = m.got;
  PF_DATA(float, y)[2] = (float)m.on_host;
  return PF_OK;
}
static float first(pf_ctx *c) { return *PF_DATA(float, c->in[0]); }
static pf_status puts_(pf_ctx *c, const void *s) { return on_a_thread(c, s, puts_there, first(c), ((const state *)s)->code); }
static pf_status takes(pf_ctx *c, const void *s) { return on_a_thread(c, s, takes_there, 0, ((const state *)s)->code); }
static pf_status fails(pf_ctx *c, const void *s) { return on_a_thread(c, s, fails_there, 0, ((const state *)s)->code); }
static pf_status asks(pf_ctx *c, const void *vs) {
  const state *s = vs;
  const pf_transport2 *t = transport(H);
  pf_task *task = t->task(c);
  char text[200] = "";
  int32_t flags = 7;
  int64_t three = 3;
  DLTensor *y = H->output(c, 0, &three, 1);
  pf_status st = t->error(task, (pf_step_key){(uint64_t)s->session, (uint64_t)s->step}, &flags, text, sizeof text);
  t->release(task);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  PF_DATA(float, y)[0] = (float)st;
  PF_DATA(float, y)[1] = (float)flags;
  PF_DATA(float, y)[2] = (float)!strcmp(text, "told by a link");
  return PF_OK;
}
/* what nobody should call: each must be refused, none may crash */
static pf_status misuses(pf_ctx *c, const void *vs) {
  const pf_transport2 *t = transport(H);
  pf_task *task = t->task(c);
  pf_step_key key;
  const pf_str k = {"k", 1}, bad = {NULL, 3}, negative = {"k", -1};
  const int64_t minus = -1;
  const uint64_t me = t->incarnation(task);
  int n = 0;
  t->key(c, &key);
  n += t->key(c, NULL) == PF_INVALID_ARGUMENT;
  n += t->key(NULL, &key) == PF_INVALID_ARGUMENT;
  n += t->put(NULL, key, me, k, NULL, 1) == PF_INVALID_ARGUMENT;
  n += t->put(task, key, me, bad, NULL, 1) == PF_INVALID_ARGUMENT;
  n += t->put(task, key, me, k, NULL, 0) == PF_INVALID_ARGUMENT;
  n += t->put(task, key, me + 1, k, NULL, 1) == PF_ABORTED;
  n += t->take(task, key, me, negative, took, NULL) == PF_INVALID_ARGUMENT;
  n += t->take(task, key, me, k, NULL, NULL) == PF_INVALID_ARGUMENT;
  n += t->take(task, key, me + 1, k, took, NULL) == PF_ABORTED;
  n += t->room(task, key, k, PF_STRING, NULL, 0) == NULL;
  n += t->room(task, key, k, 12345, NULL, 0) == NULL;
  n += t->room(task, key, k, PF_FLOAT32, &minus, 1) == NULL;
  n += t->room(task, key, k, PF_FLOAT32, NULL, 1) == NULL;
  n += t->room(task, key, k, PF_FLOAT32, &minus, 100) == NULL;
  n += t->fail(task, key, me + 1, PF_ABORTED, 0, k, k) == PF_ABORTED;
  n += t->fail(task, key, me, PF_ABORTED, 0, bad, k) == PF_INVALID_ARGUMENT;
  n += t->deadline(NULL) == -1;
  t->release(NULL);
  t->release(task);
  DLTensor *y = H->output(c, 0, NULL, 0);
  if (y) *PF_DATA(int32_t, y) = n;
  return PF_OK;
}

/* ---------------------------------------------------------------- tables */
#define OP_(name_, sig_) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = name_, .sig = sig_})
#define KERNEL(op_, fn, flags_) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = (flags_), .op = op_, .device = "*", .compute = fn, .attrs = attrs, \
                      .state_size = sizeof(state)})
#define MORE "; key: string = 'k', text: string = '', code: int = 0, derived: int = 0, session: int = 0, step: int = 0"
static const pf_attr *const attrs[] = {
  PF_REF(pf_attr, "key", PF_ATTR_STRING, (int32_t)offsetof(state, key)), PF_REF(pf_attr, "text", PF_ATTR_STRING, (int32_t)offsetof(state, text)),
  PF_REF(pf_attr, "code", PF_ATTR_INT, (int32_t)offsetof(state, code)), PF_REF(pf_attr, "derived", PF_ATTR_INT, (int32_t)offsetof(state, derived)),
  PF_REF(pf_attr, "session", PF_ATTR_INT, (int32_t)offsetof(state, session)), PF_REF(pf_attr, "step", PF_ATTR_INT, (int32_t)offsetof(state, step)),
  0};
static const pf_op *const ops[] = {
  OP_("transport.Send", "x: float -> " MORE), OP_("transport.Recv", "-> y: float" MORE), OP_("transport.Knows", "-> y: int64" MORE),
  OP_("transport.Abort", "x: float -> " MORE), OP_("transport.Put", "x: float -> y: float" MORE), OP_("transport.Take", "-> y: float" MORE),
  OP_("transport.Fail", "-> y: float" MORE), OP_("transport.Error", "-> y: float" MORE), OP_("transport.Misuse", "-> y: int32" MORE), 0};
static const pf_kernel *const kernels[] = {
  KERNEL("transport.Send", sends, 0), KERNEL("transport.Recv", receives, PF_KERNEL_ASYNC), KERNEL("transport.Knows", knows, 0),
  KERNEL("transport.Abort", aborts, 0), KERNEL("transport.Put", puts_, PF_KERNEL_BLOCKING), KERNEL("transport.Take", takes, PF_KERNEL_BLOCKING),
  KERNEL("transport.Fail", fails, PF_KERNEL_BLOCKING), KERNEL("transport.Error", asks, 0), KERNEL("transport.Misuse", misuses, 0), 0};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.example.transport", .version = "1", .ops = ops, .kernels = kernels,
                                 .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 1};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { return &plugin; }
