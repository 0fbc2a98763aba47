/* device.c - the table pf_device: opening, copies, and what the device says about itself.
 *
 * Invariants
 *   1. A copy runs on its stream's thread, through the second mapping; what it moves is checked
 *      again there, when its turn has come (memory.c).
 *   2. An open device keeps one completion thread, and its arena for ever: an address of a device
 *      that was closed still traps.
 * Threads: [any].
 */
#include "fake.h"

static int32_t count(void *self) {
  (void)self;
  return fake_count();
}

static pf_status refuse(char *err, int32_t err_len, pf_status status, const char *why, int32_t i) {
  if (err && err_len > 0) snprintf(err, (size_t)err_len, "FAKE:%d %s", i, why);
  return status;
}

static pf_status open_device(const pf_host *host, void *self, int32_t ordinal, void **out,
                             char *err, int32_t err_len) {
  (void)host, (void)self;
  if (ordinal < 0 || ordinal >= fake_count())
    return refuse(err, err_len, PF_NOT_FOUND, "does not exist; see PYFLOW_FAKE_DEVICES", ordinal);
  fake_device *dev = &fake_devices[ordinal];
  if (atomic_load(&dev->knobs.fail_open) != 0)
    return refuse(err, err_len, PF_UNAVAILABLE, "cannot be opened: fail_open is set", ordinal);
  if (fake_map(dev) != PF_OK)
    return refuse(err, err_len, PF_RESOURCE_EXHAUSTED, "has no address space", ordinal);
  if (dev->opened) return refuse(err, err_len, PF_ALREADY_EXISTS, "is open", ordinal);
  dev->closing = 0;
  if (pthread_create(&dev->completer, NULL, fake_complete, dev))
    return refuse(err, err_len, PF_RESOURCE_EXHAUSTED, "has no thread", ordinal);
  dev->opened = 1;
  *out = dev;
  return PF_OK;
}

static void close_device(void *d) {
  fake_device *dev = d;
  while (dev->streams) {
    fake_violation(dev, "closed with a stream left");
    fake_stream_del(dev, dev->streams);
  }
  if (dev->n_blocks) fake_violation(dev, "closed with %lld blocks left", (long long)dev->n_blocks);
  if (atomic_load(&dev->counters.events)) fake_violation(dev, "closed with events left");
  fake_forget_blocks(dev);
  while (dev->mail) fake_mail_free(dev, dev->mail);
  pthread_mutex_lock(&dev->lock);
  dev->closing = 1;
  pthread_cond_signal(&dev->completed);
  pthread_mutex_unlock(&dev->lock);
  pthread_join(dev->completer, NULL);
  dev->opened = 0;
}

/* ---------------------------------------------------------------- copies */
typedef struct {
  fake_op op;
  const char *src;
  char *dst;
  fake_device *src_dev, *dst_dev; /* NULL: host memory */
  uint64_t bytes;
  int32_t fails;
} copy_op;

static pf_status run_copy(fake_stream *s, fake_op *op) {
  copy_op *c = (copy_op *)op;
  if (c->fails) {
    fake_log(PF_LOG_WARNING, "FAKE:%d: a copy fails because fail_copy_late says so",
             s->dev->ordinal);
    return (pf_status)atomic_load(&s->dev->knobs.fail_status);
  }
  const char *src = c->src_dev ? fake_reach(c->src_dev, s, c->src, c->bytes) : c->src;
  char *dst = c->dst_dev ? fake_reach(c->dst_dev, s, c->dst, c->bytes) : c->dst;
  if (!src || !dst) return PF_INTERNAL;
  memcpy(dst, src, c->bytes);
  return PF_OK;
}

static uint64_t bytes_of(const DLTensor *t) {
  return (uint64_t)pf_numel(t) * t->dtype.lanes * ((uint64_t)(t->dtype.bits + 7) / 8);
}

static void count_copy(fake_device *dev, const copy_op *c) {
  fake_counters *n = &dev->counters;
  if (c->src_dev && c->dst_dev)
    atomic_fetch_add(c->src_dev == c->dst_dev ? &n->copies_within : &n->copies_peer, 1);
  else atomic_fetch_add(c->dst_dev ? &n->copies_in : &n->copies_out, 1);
  if (!c->src_dev) atomic_fetch_add(&n->bytes_in, (int64_t)c->bytes);
  if (!c->dst_dev) atomic_fetch_add(&n->bytes_out, (int64_t)c->bytes);
}

static pf_status push_copy(fake_device *dev, fake_stream *s, const DLTensor *src, DLTensor *dst,
                           fake_device *src_dev, fake_device *dst_dev) {
  uint64_t bytes = bytes_of(src);
  if (bytes != bytes_of(dst) || src->dtype.code != dst->dtype.code ||
      src->dtype.bits != dst->dtype.bits || src->strides || dst->strides) {
    fake_violation(dev, "copy of %llu bytes into %llu, or of other types or strides",
                   (unsigned long long)bytes, (unsigned long long)bytes_of(dst));
    return PF_INTERNAL;
  }
  if (s->dev != dev) fake_violation(dev, "copy on a stream of FAKE:%d", s->dev->ordinal);
  if (fake_take_failure(dev, &dev->knobs.fail_copy))
    return (pf_status)atomic_load(&dev->knobs.fail_status);
  if (bytes == 0) return PF_OK;
  copy_op *c = fake_op_new(sizeof *c, run_copy);
  if (!c) return PF_RESOURCE_EXHAUSTED;
  c->src = PF_DATA(const char, src);
  c->dst = PF_DATA(char, dst);
  c->src_dev = src_dev;
  c->dst_dev = dst_dev;
  c->bytes = bytes;
  c->fails = fake_take_failure(dev, &dev->knobs.fail_copy_late);
  c->op.seconds =
      atomic_load(&dev->knobs.latency) +
      (double)bytes / atomic_load(src_dev == dst_dev ? &dev->knobs.bandwidth : &dev->knobs.link);
  count_copy(dev, c);
  fake_push(s, &c->op);
  return PF_OK;
}

static pf_status copy(void *d, void *stream, const DLTensor *src, DLTensor *dst) {
  fake_device *dev = d, *from = fake_owner(PF_DATA(char, src));
  fake_device *to = fake_owner(PF_DATA(char, dst));
  if (bytes_of(src) == 0) return PF_OK;
  if ((from && from != dev) || (to && to != dev) || (!from && !to)) {
    fake_violation(dev, "copy from %p to %p: neither to, from nor within FAKE:%d",
                   (void *)PF_DATA(char, src), (void *)PF_DATA(char, dst), dev->ordinal);
    return PF_INTERNAL;
  }
  return push_copy(dev, stream, src, dst, from, to);
}

static pf_status peer_copy(void *src_dev, void *dst_dev, void *stream, const DLTensor *src,
                           DLTensor *dst) {
  fake_device *dev = dst_dev;
  if (bytes_of(src) == 0) return PF_OK;
  if (fake_owner(PF_DATA(char, src)) != src_dev || fake_owner(PF_DATA(char, dst)) != dev ||
      src_dev == dst_dev || atomic_load(&dev->knobs.can_peer) == 0) {
    fake_violation(dev, "peer_copy from %p to %p", (void *)PF_DATA(char, src),
                   (void *)PF_DATA(char, dst));
    return PF_INTERNAL;
  }
  return push_copy(dev, stream, src, dst, src_dev, dev);
}

static int32_t can_peer(void *dev, const char *type, void *other) {
  (void)other;
  return !strcmp(type, "FAKE") && atomic_load(&((fake_device *)dev)->knobs.can_peer) != 0;
}

/* ---------------------------------------------------------------- facts */
static pf_status info(void *d, const char *key, char *text, int32_t len) {
  fake_device *dev = d;
  static const char *const names[] = {"memory", "flops", "bandwidth", "link", "latency"};
  _Atomic double *const values[] = {&dev->knobs.memory, &dev->knobs.flops, &dev->knobs.bandwidth,
                                    &dev->knobs.link, &dev->knobs.latency};
  if (!strcmp(key, "name")) {
    snprintf(text, (size_t)len, "fake accelerator %d", dev->ordinal);
    return PF_OK;
  }
  for (int i = 0; i < 5; i++)
    if (!strcmp(key, names[i])) {
      snprintf(text, (size_t)len, i == 0 ? "%.0f" : "%.9g", atomic_load(values[i]));
      return PF_OK;
    }
  return PF_NOT_FOUND;
}

static const void *native(void *dev, void *stream, const char *what) {
  if (!strcmp(what, "fake.device")) return dev;
  return strcmp(what, "fake.stream") ? NULL : stream;
}

const pf_device fake_device_table = {.size = sizeof fake_device_table,
                                     .type = "FAKE",
                                     .dl_type = kDLExtDev,
                                     .priority = -1,
                                     .count = count,
                                     .open = open_device,
                                     .close = close_device,
                                     .alloc = fake_alloc,
                                     .free = fake_free,
                                     .stream_new = fake_stream_new,
                                     .stream_del = fake_stream_del,
                                     .event_record = fake_event_record,
                                     .event_wait = fake_event_wait,
                                     .event_del = fake_event_del,
                                     .when = fake_when,
                                     .copy = copy,
                                     .peer_copy = peer_copy,
                                     .can_peer = can_peer,
                                     .info = info,
                                     .native = native,
                                     .event_time = fake_event_time};
