/* devices.c - a make-believe accelerator with its own memory and streams, host-memory arguments, and a Send/Recv pair. */
#include "exercise.h"

/* ---------------------------------------------------------------- device "TOY": two of them, sharing the host's memory */
typedef struct { int32_t ordinal; atomic_int live, streams, copies; } toy;
static toy toys[2];

static int32_t count(void *self) { return 2; }
static pf_status open_toy(const pf_host *h, void *self, int32_t ordinal, void **dev, char *err, int32_t err_len) {
  if (ordinal < 0 || ordinal > 1) { snprintf(err, (size_t)err_len, "there are two toys"); return PF_NOT_FOUND; }
  toys[ordinal].ordinal = ordinal;
  *dev = &toys[ordinal];
  return PF_OK;
}
static void close_toy(void *dev) {}
static void *toy_alloc(void *dev, uint64_t bytes, uint64_t align, int32_t mem, void *stream) {
  void *p = NULL;
  if (posix_memalign(&p, align < 64 ? 64 : align, bytes ? bytes : 64)) return NULL;
  atomic_fetch_add(&((toy *)dev)->live, 1);
  return p;
}
static void toy_free(void *dev, void *p, uint64_t bytes, int32_t mem, void *stream) {
  atomic_fetch_sub(&((toy *)dev)->live, 1);
  free(p);
}
static pf_status stream_new(void *dev, void **stream) { *stream = &((toy *)dev)->streams; atomic_fetch_add(&((toy *)dev)->streams, 1); return PF_OK; }
static void stream_del(void *dev, void *stream) { atomic_fetch_sub(&((toy *)dev)->streams, 1); }
static pf_status event_record(void *dev, void *stream, void **event) { *event = dev; return PF_OK; }
static pf_status event_wait(void *dev, void *stream, void *event) { return PF_OK; }
static void event_del(void *dev, void *event) {}
typedef struct { void (*fn)(void *, pf_status); void *arg; } call;
static void *when_thread(void *arg) { call *c = arg; c->fn(c->arg, PF_OK); free(c); return NULL; }
static pf_status when(void *dev, void *event, void (*fn)(void *, pf_status), void *arg) {
  pthread_t id;
  call *c = malloc(sizeof *c);
  *c = (call){fn, arg};
  pthread_create(&id, NULL, when_thread, c);
  pthread_detach(id);
  return PF_OK;
}
static pf_status toy_copy(void *dev, void *stream, const DLTensor *src, DLTensor *dst) {
  memcpy(PF_DATA(char, dst), PF_DATA(char, src), (size_t)pf_numel(src) * (src->dtype.bits / 8));
  atomic_fetch_add(&((toy *)dev)->copies, 1);
  return PF_OK;
}
static pf_status peer_copy(void *from, void *to, void *stream, const DLTensor *src, DLTensor *dst) { return toy_copy(to, stream, src, dst); }
static int32_t can_peer(void *dev, const char *type, void *other) { return !strcmp(type, "TOY"); }
static pf_status info(void *dev, const char *key, char *out, int32_t len) {
  if (strcmp(key, "name")) return PF_NOT_FOUND;
  snprintf(out, (size_t)len, "toy %d", ((toy *)dev)->ordinal);
  return PF_OK;
}
static const void *native(void *dev, void *stream, const char *what) { return strcmp(what, "toy.device") ? NULL : dev; }

static const pf_device toy_device = {
  .size = sizeof toy_device, .type = "TOY", .dl_type = kDLCPU, .priority = -1, .count = count, .open = open_toy,
  .close = close_toy, .alloc = toy_alloc, .free = toy_free, .stream_new = stream_new, .stream_del = stream_del,
  .event_record = event_record, .event_wait = event_wait, .event_del = event_del, .when = when, .copy = toy_copy,
  .peer_copy = peer_copy, .can_peer = can_peer, .info = info, .native = native };
const pf_device *const exercise_devices[] = { &toy_device, 0 };

/* A kernel on the toy whose second argument is read on the host, and whose second output is left there. */
static pf_status toy_fill(pf_ctx *c, const void *s) {
  if (c->in[1]->device.device_type != kDLCPU) return pf_fail(c, PF_INTERNAL, "dims are not in host memory");
  int64_t n = *PF_DATA(int32_t, c->in[1]);
  DLTensor *y = c->host->output(c, 0, &n, 1);
  if (!y || !c->dev) return y ? pf_fail(c, PF_INTERNAL, "no device") : PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < n; i++) PF_DATA(float, y)[i] = *PF_DATA(float, c->in[0]);
  return scalar_int(c, 1, ((toy *)c->dev)->ordinal);
}
static pf_status toy_after(pf_ctx *c, void *arg) {
  const DLTensor *x = c->in[0];
  DLTensor *y = pf_output_like(c, 0, x);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(x); i++) PF_DATA(float, y)[i] = -PF_DATA(float, x)[i];
  return PF_OK;
}
static pf_status toy_negate(pf_ctx *c, const void *s) { return c->host->after(c, toy_after, NULL); }

/* ---------------------------------------------------------------- Send and Recv as two ordinary kernels */
typedef struct { pf_str tensor_name, send_device, recv_device; } edge;
static atomic_int sent, received;

static pf_str edge_key(pf_ctx *c, const edge *e, char *room, size_t n) {
  pf_str frame = {0, 0};
  int64_t iteration = c->host->frame_iter(c, &frame);
  int len = snprintf(room, n, "%.*s;%.*s;%.*s;%.*s:%lld", (int)e->send_device.len, e->send_device.data, (int)e->recv_device.len,
                     e->recv_device.data, (int)e->tensor_name.len, e->tensor_name.data, (int)frame.len, frame.data, (long long)iteration);
  return (pf_str){room, len};
}
static pf_status send(pf_ctx *c, const void *s) {
  const pf_transport *t = c->host->extension("pyflow.transport/1");
  char room[2048];
  int32_t dead = c->host->is_dead(c, 0);
  atomic_fetch_add(&sent, 1);
  if (!t || !t->incarnation(c)) return pf_fail(c, PF_INTERNAL, "no transport");
  return t->send(c, edge_key(c, s, room, sizeof room), dead ? NULL : c->host->retain(c, 0), dead);
}
typedef struct { const pf_host *host; uint64_t ticket; } waiting;
static void arrived(void *arg, pf_status st, DLManagedTensorVersioned *take, int32_t dead) {
  waiting *w = arg;
  pf_ctx *c = w->host->pending(w->ticket);
  if (c && st == PF_OK) st = dead ? w->host->set_dead(c, -1) : w->host->bring_output(c, 0, take);
  else if (take) take->deleter(take);
  atomic_fetch_add(&received, 1);
  if (st != PF_PENDING) w->host->done(w->ticket, st);
  free(w);
}
static pf_status recv(pf_ctx *c, const void *s) {
  const pf_transport *t = c->host->extension("pyflow.transport/1");
  char room[2048];
  waiting *w = malloc(sizeof *w);
  *w = (waiting){c->host, 0};
  c = c->host->defer(c, &w->ticket);
  pf_status st = t ? t->recv(c, edge_key(c, s, room, sizeof room), arrived, w) : PF_INTERNAL;
  if (st) { c->host->done(w->ticket, st); free(w); }
  return PF_PENDING;
}
/* A progress thread, as NCCL's or gRPC's would, puts a tensor where a recv of this step waits; and an abort wakes a waiter. */
typedef struct { const pf_host *host; int64_t step; uint64_t incarnation; } message;
static void *progress(void *arg) {
  message *m = arg;
  const pf_transport *t = m->host->extension("pyflow.transport/1");
  DLManagedTensorVersioned *tensor = m->host->tensor_new(m->host, NULL, PF_MEM_DEVICE, PF_FLOAT32, NULL, 0);
  *PF_DATA(float, &tensor->dl_tensor) = 77;
  if (t->inject(m->host, m->step, m->incarnation, (pf_str){"from afar", 9}, tensor, 0))
    m->host->log(PF_LOG_WARNING, "the tensor came too late", 24); /* it is the host's in any case */
  free(m);
  return NULL;
}
static pf_status from_afar(pf_ctx *c, const void *s) {
  const pf_transport *t = c->host->extension("pyflow.transport/1");
  waiting *w = calloc(1, sizeof *w);
  message *m = malloc(sizeof *m);
  pthread_t id;
  *m = (message){c->host, c->step, t->incarnation(c)};
  w->host = c->host;
  c = c->host->defer(c, &w->ticket);
  pf_status st = t->recv(c, (pf_str){"from afar", 9}, arrived, w);
  if (st) return st;
  pthread_create(&id, NULL, progress, m);
  pthread_detach(id);
  return PF_PENDING;
}
static pf_status give_up(pf_ctx *c, const void *s) {
  const pf_transport *t = c->host->extension("pyflow.transport/1");
  waiting *w = calloc(1, sizeof *w);
  w->host = c->host;
  c = c->host->defer(c, &w->ticket);
  pf_status st = t->recv(c, (pf_str){"never sent", 10}, arrived, w);
  return st ? st : t->abort(c, PF_UNAVAILABLE, "the peer is gone", 16) ? PF_INTERNAL : PF_PENDING;
}
static pf_status transferred(pf_ctx *c, const void *s) { return scalar_int(c, 0, sent * 1000 + received); }

#define E(field) PF_REF(pf_attr, #field, PF_ATTR_STRING, (int32_t)offsetof(edge, field))
static const pf_attr *const edge_attrs[] = { E(tensor_name), E(send_device), E(recv_device), 0 };

const pf_op *const device_ops[] = {
  OP("exercise.ToyFill", "value: float, n: int32 -> y: float, ordinal: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.ToyNegate", "x: float -> y: float"),
  OP("exercise.Send", "tensor: T -> ; T: type, tensor_name: string, send_device: string, send_device_incarnation: int, "
     "recv_device: string, client_terminated: bool = false", .flags = PF_OP_STATEFUL),
  OP("exercise.Recv", " -> tensor: tensor_type; tensor_type: type, tensor_name: string, send_device: string, "
     "send_device_incarnation: int, recv_device: string, client_terminated: bool = false", .flags = PF_OP_STATEFUL),
  OP("exercise.FromAfar", " -> y: float", .flags = PF_OP_STATEFUL),
  OP("exercise.GiveUp", " -> y: float", .flags = PF_OP_STATEFUL),
  OP("exercise.Transferred", " -> n: int64", .flags = PF_OP_STATEFUL),
  0 };

#define TOY(op_, compute_, ...) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .op = op_, .device = "TOY", .compute = compute_, __VA_ARGS__})
static const pf_arg *const edge_args[] = { PF_REF(pf_arg, "tensor", PF_MEM_ANY, 0), 0 };
#define SEND .args = edge_args, .flags = PF_KERNEL_DEAD | PF_KERNEL_URGENT, .attrs = edge_attrs, .state_size = sizeof(edge)
#define RECV .args = edge_args, .flags = PF_KERNEL_DEAD | PF_KERNEL_ASYNC | PF_KERNEL_URGENT, .attrs = edge_attrs, .state_size = sizeof(edge)
const pf_kernel *const device_kernels[] = {
  TOY("exercise.ToyFill", toy_fill, .args = TABLE(pf_arg, PF_REF(pf_arg, "n", PF_MEM_HOST, 0), PF_REF(pf_arg, "ordinal", PF_MEM_HOST, 0))),
  TOY("exercise.ToyNegate", toy_negate, .flags = PF_KERNEL_ASYNC),
  KERNEL("exercise.FromAfar", from_afar, .flags = PF_KERNEL_ASYNC),
  KERNEL("exercise.GiveUp", give_up, .flags = PF_KERNEL_ASYNC),
  KERNEL("exercise.Transferred", transferred),
  KERNEL("exercise.Send", send, SEND), TOY("exercise.Send", send, SEND),
  KERNEL("exercise.Recv", recv, RECV), TOY("exercise.Recv", recv, RECV),
  0 };
