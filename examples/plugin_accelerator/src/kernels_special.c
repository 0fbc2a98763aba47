/* kernels_special.c - what is special about a device: an output whose size is known after device
 * work (Where), a host-memory output written by the stream (fake.HostSum), work that takes its time
 * (fake.Busy), and a kernel that is wrong on purpose (fake.Misplaced).
 */
#include "launch.h"
#include <unistd.h>

/* ---------------------------------------------------------------- Where */
/* Written by the stream, read after it.  If the device fails, the host does not come back
 * (`after`'s function is not called), so the device keeps a list of these, freed at its end. */
typedef struct found {
  fake_mail mail;
  int64_t n;
} found;

static int32_t holds(const fake_array *x, int64_t i) {
  return is_real(x) ? get(x, i) != 0 : get_int(x, i) != 0;
}
static pf_status run_count(fake_call *c) {
  found *f = c->p.pointer;
  for (int64_t i = 0; i < c->x[0].n; i++) f->n += holds(&c->x[0], i);
  return PF_OK;
}
static pf_status run_where(fake_call *c) {
  const fake_array *x = &c->x[0];
  int64_t row = 0;
  for (int64_t i = 0; i < x->n; i++) {
    if (!holds(x, i)) continue;
    int64_t rest = i;
    for (int32_t d = x->ndim - 1; d >= 0; rest /= x->shape[d], d--)
      put_int(&c->y[0], row * x->ndim + d, rest % x->shape[d]);
    row++;
  }
  return PF_OK;
}
/* On a pool thread, once the stream has counted: now the output's size is known. */
static pf_status where_counted(pf_ctx *c, void *arg) {
  found *f = arg;
  int64_t shape[2] = {f->n, c->in[0]->ndim};
  fake_mail_free(c->dev, &f->mail);
  DLTensor *y = c->host->output(c, 0, shape, 2);
  return y ? launch(c, run_where, NULL) : PF_RESOURCE_EXHAUSTED;
}
static pf_status where(pf_ctx *c, const void *s) {
  found *f = fake_mail_new(c->dev, sizeof *f);
  (void)s;
  if (!f) return PF_RESOURCE_EXHAUSTED;
  fake_tensors t = {.x = {c->in[0]}, .n_x = 1};
  fake_params p = {.pointer = f};
  pf_status status = launch_on(c, run_count, &p, &t);
  if (!status) return c->host->after(c, where_counted, f);
  fake_mail_free(c->dev, &f->mail);
  return status;
}

/* ---------------------------------------------------------------- fake.HostSum */
static pf_status run_host_sum(fake_call *c) {
  double sum = 0;
  for (int64_t i = 0; i < c->x[0].n; i++) sum += get(&c->x[0], i);
  put(&c->y[0], 0, sum);
  return PF_OK;
}
static pf_status host_sum(pf_ctx *c, const void *s) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  fake_tensors t = {.x = {c->in[0]}, .y = {y}, .n_x = 1, .n_y = 1, .host_y = 1};
  (void)s;
  return y ? launch_on(c, run_host_sum, NULL, &t) : PF_RESOURCE_EXHAUSTED;
}

/* ---------------------------------------------------------------- fake.Busy */
static pf_status run_busy(fake_call *c) {
  usleep((useconds_t)c->p.i[0]);
  memcpy(c->y[0].data, c->x[0].data, (size_t)(c->x[0].n * c->x[0].width));
  return PF_OK;
}
static pf_status busy(pf_ctx *c, const void *s) {
  fake_params p = {.i = {((const fake_state *)s)->micros}};
  return pf_output_like(c, 0, c->in[0]) ? launch(c, run_busy, &p) : PF_RESOURCE_EXHAUSTED;
}

/* ---------------------------------------------------------------- fake.Misplaced */
/* Declares `x` as host memory and hands it to the device all the same: an INTERNAL error. */
static pf_status misplaced(pf_ctx *c, const void *s) {
  fake_params p = {.i = {0}};
  (void)s;
  return pf_output_like(c, 0, c->in[0]) ? launch(c, run_busy, &p) : PF_RESOURCE_EXHAUSTED;
}

/* ---------------------------------------------------------------- shape functions */
static pf_status like_x(pf_infer *f) {
  const int64_t *dims;
  int32_t ndim;
  pf_status s = fake_host->infer_dims(f, 0, &dims, &ndim);
  return s ? s : fake_host->infer_set(f, 0, dims, ndim);
}
static pf_status scalar(pf_infer *f) { return fake_host->infer_set(f, 0, NULL, 0); }

#define OP(name_, sig_, infer_, doc_) \
  (&(const pf_op){.size = sizeof(pf_op), .name = name_, .sig = sig_, .infer = infer_, .doc = doc_})
const pf_op *const special_ops[] = {
  OP("fake.HostSum", "x: float -> sum: float", scalar, "The sum of x, left in host memory."),
  OP("fake.Busy", "x: T -> y: T; micros: int = 1000, T: {float, double, int32, int64}", like_x,
     "A copy of x that takes the device so many microseconds."),
  OP("fake.Misplaced", "x: float -> y: float", like_x, "Fails: host memory handed to the device."),
  NULL};

const pf_kernel *const special_kernels[] = {
  FAKE_FLAGS(PF_KERNEL_ASYNC, "Where", "T=" FAKE_NUMBERS "|bool", where),
  FAKE("fake.HostSum", NULL, host_sum, ARGS(ON_HOST("sum"))),
  FAKE("fake.Busy", NULL, busy, ATTRS(ATTR(PF_ATTR_INT, micros))),
  FAKE("fake.Misplaced", NULL, misplaced, ARGS(ON_HOST("x"))), NULL};
