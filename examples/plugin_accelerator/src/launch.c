/* launch.c - a kernel's call becomes an operation of its stream (launch.h).
 *
 * Invariants
 *   1. A pointer that is not where it was declared to be is an INTERNAL error before anything runs.
 *   2. On the stream, every array is looked up again: whether it may be touched is a question of
 *      stream order (fake_reach).
 * Threads: `launch` [compute]; run_call on the stream's thread.
 */
#include "launch.h"
#include <stdarg.h>

pf_status failf(pf_ctx *c, pf_status status, const char *format, ...) {
  char text[FAKE_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return pf_fail(c, status, text);
}

const char *shape_text(const int64_t *shape, int32_t ndim, char *room, size_t n) {
  size_t used = (size_t)snprintf(room, n, "[");
  for (int32_t i = 0; i < ndim && used < n; i++)
    used += (size_t)snprintf(room + used, n - used, i ? ",%lld" : "%lld", (long long)shape[i]);
  if (used < n) snprintf(room + used, n - used, "]");
  return room;
}

/* ---------------------------------------------------------------- host-memory arguments */
int32_t host_ints(pf_ctx *c, int32_t in, int64_t *values) {
  const DLTensor *t = c->in[in];
  int64_t n = pf_numel(t);
  if (n > 0 && fake_owner(PF_DATA(char, t))) {
    failf(c, PF_INTERNAL, "input %d is in device memory, declared as host memory", in);
    return -1;
  }
  if (n > MAX_HOST_VALUES) {
    failf(c, PF_UNIMPLEMENTED, "input %d has %lld values, FAKE takes %d", in, (long long)n,
          MAX_HOST_VALUES);
    return -1;
  }
  for (int64_t i = 0; i < n; i++)
    values[i] = t->dtype.bits == 64 ? PF_DATA(int64_t, t)[i] : PF_DATA(int32_t, t)[i];
  return (int32_t)n;
}

/* An int32 or int64 host-memory output, written at once (PF_ARG_WRITTEN). */
pf_status host_vector(pf_ctx *c, int32_t out, const int64_t *values, int32_t n, int32_t is_scalar) {
  int64_t dim = n;
  DLTensor *y = c->host->output(c, out, &dim, is_scalar ? 0 : 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  if (n > 0 && fake_owner(PF_DATA(char, y)))
    return failf(c, PF_INTERNAL, "output %d is in device memory, declared as host memory", out);
  for (int32_t i = 0; i < n; i++) {
    if (y->dtype.bits == 64) PF_DATA(int64_t, y)[i] = values[i];
    else PF_DATA(int32_t, y)[i] = (int32_t)values[i];
  }
  return PF_OK;
}

pf_status one_axis(pf_ctx *c, int64_t axis, int32_t ndim, int64_t *out) {
  *out = 0;
  if (axis < -ndim || axis >= ndim)
    return failf(c, PF_INVALID_ARGUMENT, "axis %lld is not in the range [%d, %d)", (long long)axis,
                 -ndim, ndim);
  *out = axis < 0 ? axis + ndim : axis;
  return PF_OK;
}

pf_status axes_mask(pf_ctx *c, int32_t in, int32_t ndim, uint32_t *mask) {
  int64_t values[MAX_HOST_VALUES], axis;
  int32_t n = host_ints(c, in, values);
  *mask = 0;
  for (int32_t i = 0; i < n; i++) {
    pf_status s = one_axis(c, values[i], ndim, &axis);
    if (s) return s;
    *mask |= 1u << axis;
  }
  return n < 0 ? PF_INVALID_ARGUMENT : PF_OK;
}

/* ---------------------------------------------------------------- building a call */
static int32_t kind_of(DLDataType t) {
  if (t.code == kDLFloat) return t.bits == 32 ? 'f' : t.bits == 64 ? 'd' : 0;
  if (t.code == kDLInt) return t.bits == 32 ? 'i' : t.bits == 64 ? 'l' : 0;
  return t.code == kDLBool ? 'b' : 0;
}

static pf_status add_array(pf_ctx *c, fake_array *a, const DLTensor *t, int32_t on_host) {
  if (!t) return failf(c, PF_INTERNAL, "a tensor of the call is missing");
  if (t->ndim > FAKE_RANK)
    return failf(c, PF_UNIMPLEMENTED, "FAKE takes up to %d dimensions, got %d", FAKE_RANK, t->ndim);
  *a = (fake_array){.data = PF_DATA(char, t),
                    .n = pf_numel(t),
                    .ndim = t->ndim,
                    .width = (t->dtype.bits + 7) / 8,
                    .kind = kind_of(t->dtype),
                    .on_host = on_host};
  memcpy(a->shape, t->shape, sizeof(int64_t) * (size_t)t->ndim);
  if (a->n == 0) return PF_OK;
  fake_device *dev = c->dev, *owner = fake_owner(a->data);
  if (on_host && owner)
    return failf(c, PF_INTERNAL, "device pointer %p where host memory belongs", (void *)a->data);
  if (!on_host && owner != dev) {
    fake_violation(dev, "%s pointer %p on FAKE:%d", owner ? "another device's" : "host",
                   (void *)a->data, dev->ordinal);
    return failf(c, PF_INTERNAL, "%s pointer %p on FAKE:%d", owner ? "another device's" : "host",
                 (void *)a->data, dev->ordinal);
  }
  return PF_OK;
}

static pf_status run_call(fake_stream *s, fake_op *op) {
  fake_call *c = (fake_call *)op;
  if (c->fails) {
    fake_log(PF_LOG_WARNING, "FAKE:%d: a kernel fails because fail_launch_late says so",
             c->dev->ordinal);
    return (pf_status)atomic_load(&c->dev->knobs.fail_status);
  }
  for (int32_t i = 0; i < c->n_x + c->n_y; i++) {
    fake_array *a = &c->arrays[i];
    if (a->n == 0 || a->on_host) continue;
    a->data = fake_reach(c->dev, s, a->data, (uint64_t)(a->n * a->width));
    if (!a->data) return PF_INTERNAL;
  }
  return c->run(c);
}

static double duration(const fake_call *c) {
  const fake_knobs *k = &c->dev->knobs;
  double bytes = 0, flops = c->p.flops;
  for (int32_t i = 0; i < c->n_x + c->n_y; i++)
    bytes += (double)(c->arrays[i].n * c->arrays[i].width);
  if (flops == 0)
    for (int32_t i = 0; i < c->n_y; i++) flops += (double)c->y[i].n;
  return atomic_load(&k->latency) + flops / atomic_load(&k->flops) +
         bytes / atomic_load(&k->bandwidth);
}

pf_status launch_on(pf_ctx *c, pf_status (*run)(fake_call *), const fake_params *p,
                    const fake_tensors *t) {
  fake_device *dev = c->dev;
  pf_status status = PF_OK;
  if (!c->stream) return failf(c, PF_INTERNAL, "no stream to launch on");
  if (fake_take_failure(dev, &dev->knobs.fail_launch))
    return failf(c, (pf_status)atomic_load(&dev->knobs.fail_status),
                 "the launch fails because fail_launch says so");
  fake_call *call =
      fake_op_new(sizeof *call + sizeof(fake_array) * (size_t)(t->n_x + t->n_y), run_call);
  if (!call) return failf(c, PF_RESOURCE_EXHAUSTED, "no memory to launch a kernel");
  call->run = run;
  call->dev = dev;
  if (p) call->p = *p;
  call->n_x = t->n_x;
  call->n_y = t->n_y;
  call->x = call->arrays;
  call->y = call->arrays + t->n_x;
  for (int32_t i = 0; i < t->n_x && !status; i++)
    status = add_array(c, &call->x[i], t->x[i], t->host_x >> i & 1);
  for (int32_t i = 0; i < t->n_y && !status; i++)
    status = add_array(c, &call->y[i], t->y[i], t->host_y >> i & 1);
  if (status) {
    free(call);
    return status;
  }
  call->fails = fake_take_failure(dev, &dev->knobs.fail_launch_late);
  call->op.seconds = duration(call);
  atomic_fetch_add(&dev->counters.launches, 1);
  fake_push(c->stream, &call->op);
  return PF_OK;
}

pf_status launch(pf_ctx *c, pf_status (*run)(fake_call *), const fake_params *p) {
  fake_tensors t = {.n_x = c->n_in, .n_y = c->n_out};
  if (c->n_in > FAKE_ARRAYS || c->n_out > FAKE_ARRAYS)
    return failf(c, PF_UNIMPLEMENTED, "FAKE takes up to %d tensors, got %d", FAKE_ARRAYS,
                 c->n_in > c->n_out ? c->n_in : c->n_out);
  for (int32_t i = 0; i < c->n_in; i++) t.x[i] = c->in[i];
  for (int32_t i = 0; i < c->n_out; i++) t.y[i] = c->out[i];
  return launch_on(c, run, p, &t);
}
