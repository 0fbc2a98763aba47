/* conv_cudnn.cu - Conv2D and its gradients through cuDNN, with the algorithm found once per shape.
 *
 * What cuDNN does not take is brought into its form by box copies on the same stream, and back:
 *   filters     TensorFlow's [kh, kw, c, o] becomes [o, c, kh, kw] (NCHW) or [o, kh, kw, c] (NHWC)
 *   padding     cuDNN pads both sides alike; an image that needs more at the end is copied into a
 *               larger, zeroed one
 *   layout      where no NHWC algorithm exists (double, old GPUs), images are transposed to NCHW
 *
 * Autotuning: the first call with some (pass, type, layout, sizes, strides, dilations, padding,
 * groups, device) times cuDNN's algorithms on its own data (cudnnFind*Ex; it waits for the device)
 * and keeps the fastest that fits WORKSPACE; later calls look it up. PYFLOW_CUDA_AUTOTUNE=0 takes
 * cuDNN's guess instead; PYFLOW_CUDA_DETERMINISTIC=1 takes only algorithms that repeat their bits.
 *
 * Threads: the table of choices has a lock, held for look-up and insertion; two threads may time
 * the same shape, the first one's choice stays.  Handles: stream->lock (device.h).
 */
#include "conv.h"
#include "libraries.h"
#include "walk.h"

namespace {

enum { WORKSPACE = 512 << 20, BUCKETS = 256 };

/* ---------------------------------------------------------------- the choices made so far */
typedef struct choice {
  conv key;                     /* compared as bytes */
  int device, algo, math, nchw; /* nchw: the layout cuDNN gets; algo -1: cuDNN has nothing */
  size_t workspace;
  choice *next;
} choice;
static pthread_mutex_t choices_lock = PTHREAD_MUTEX_INITIALIZER;
static choice *choices[BUCKETS];

static unsigned bucket_of(const conv *g) {
  const int64_t *v = (const int64_t *)(const void *)g;
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < sizeof *g / 8; i++) h = (h ^ (uint64_t)v[i]) * 1099511628211u;
  return (unsigned)(h >> 32) % BUCKETS;
}
static bool look_up(const conv *g, int device, choice *found) {
  bool yes = false;
  pthread_mutex_lock(&choices_lock);
  for (choice *k = choices[bucket_of(g)]; k && !yes; k = k->next)
    if (k->device == device && !memcmp(&k->key, g, sizeof *g)) *found = *k, yes = true;
  pthread_mutex_unlock(&choices_lock);
  return yes;
}
static void remember(const choice *made) {
  choice *k = (choice *)malloc(sizeof *k), seen;
  if (!k || look_up(&made->key, made->device, &seen)) {
    free(k);
    return;
  }
  *k = *made;
  pthread_mutex_lock(&choices_lock);
  unsigned b = bucket_of(&k->key);
  k->next = choices[b];
  choices[b] = k;
  pthread_mutex_unlock(&choices_lock);
}

/* ---------------------------------------------------------------- descriptors */
struct descriptors {
  const dnn_library *d;
  dnn_tensor x, y;
  dnn_filter f;
  dnn_conv conv;
  explicit descriptors(const dnn_library *lib) : d(lib), x(NULL), y(NULL), f(NULL), conv(NULL) {}
  descriptors(const descriptors &) = delete;
  ~descriptors() {
    if (x) d->tensor_del(x);
    if (y) d->tensor_del(y);
    if (f) d->filter_del(f);
    if (conv) d->conv_del(conv);
  }
};
static int dnn_type(int32_t type) {
  return type == PF_FLOAT64    ? DNN_DOUBLE
         : type == PF_FLOAT16  ? DNN_HALF
         : type == PF_BFLOAT16 ? DNN_BFLOAT16
                               : DNN_FLOAT;
}
/* float32 in full precision unless asked otherwise; halves on tensor cores */
static int math_of(int32_t type) {
  if (is_half(type)) return DNN_TENSOR_OP_MATH;
  return type == PF_FLOAT32 && option("PYFLOW_CUDA_TF32") ? DNN_DEFAULT_MATH : DNN_FMA_MATH;
}
/* g has equal padding before and after */
static int describe(descriptors *s, const conv *g, int nchw) {
  const dnn_library *d = s->d;
  int type = dnn_type(g->type), format = nchw ? DNN_NCHW : DNN_NHWC, e = 0;
  e = e ? e : d->tensor_new(&s->x);
  e = e ? e : d->tensor_new(&s->y);
  e = e ? e : d->filter_new(&s->f);
  e = e ? e : d->conv_new(&s->conv);
  e = e ? e : d->tensor_4d(s->x, format, type, (int)g->n, (int)g->c, (int)g->h, (int)g->w);
  e = e ? e : d->tensor_4d(s->y, format, type, (int)g->n, (int)g->oc, (int)g->oh, (int)g->ow);
  e = e ? e : d->filter_4d(s->f, type, format, (int)g->oc, (int)g->fc, (int)g->kh, (int)g->kw);
  e = e ? e
        : d->conv_2d(s->conv, (int)g->pt, (int)g->pl, (int)g->sh, (int)g->sw, (int)g->dh,
                     (int)g->dw, DNN_CROSS_CORRELATION,
                     g->type == PF_FLOAT64 ? DNN_DOUBLE : DNN_FLOAT);
  e = e ? e : d->conv_groups(s->conv, (int)g->groups);
  return e ? e : d->conv_math(s->conv, math_of(g->type));
}

/* ---------------------------------------------------------------- autotuning */
static int ask(const descriptors *s, dnn_handle h, const conv *g, const conv_data *b, void *space,
               size_t bytes, int *found, dnn_perf *perf) {
  const dnn_library *d = s->d;
  const char *tune = getenv("PYFLOW_CUDA_AUTOTUNE");
  bool guess = tune && !strcmp(tune, "0");
  if (g->pass == CONV_FORWARD)
    return guess ? d->forward_guess(h, s->x, s->f, s->conv, s->y, DNN_MAX_ALGOS, found, perf)
                 : d->forward_find(h, s->x, b->x, s->f, b->f, s->conv, s->y, b->out, DNN_MAX_ALGOS,
                                   found, perf, space, bytes);
  if (g->pass == CONV_INPUT)
    return guess ? d->input_guess(h, s->f, s->y, s->conv, s->x, DNN_MAX_ALGOS, found, perf)
                 : d->input_find(h, s->f, b->f, s->y, b->dy, s->conv, s->x, b->out, DNN_MAX_ALGOS,
                                 found, perf, space, bytes);
  return guess ? d->filter_guess(h, s->x, s->y, s->conv, s->f, DNN_MAX_ALGOS, found, perf)
               : d->filter_find(h, s->x, b->x, s->y, b->dy, s->conv, s->f, b->out, DNN_MAX_ALGOS,
                                found, perf, space, bytes);
}
/* the first (fastest) of cuDNN's list that worked, fits, and repeats its bits where that is wanted
 */
static bool choose(pf_ctx *c, const descriptors *s, dnn_handle h, const conv *g, const conv_data *b,
                   choice *out) {
  dnn_perf perf[DNN_MAX_ALGOS];
  int found = 0;
  bool repeat = option("PYFLOW_CUDA_DETERMINISTIC");
  size_t bytes = WORKSPACE;
  void *space = NULL;
  while (bytes >= 1 << 20 && !(space = gpu_alloc(c->dev, bytes, 256, PF_MEM_DEVICE, c->stream)))
    bytes /= 2;
  int e = ask(s, h, g, b, space, space ? bytes : 0, &found, perf);
  if (space) gpu_free(c->dev, space, bytes, PF_MEM_DEVICE, c->stream);
  for (int i = 0; !e && i < found; i++)
    if (perf[i].status == 0 && perf[i].memory <= WORKSPACE &&
        (!repeat || perf[i].determinism == 1)) {
      out->algo = perf[i].algo, out->math = perf[i].math, out->workspace = perf[i].memory;
      return true;
    }
  return false;
}

static int call(const descriptors *s, dnn_handle h, const conv *g, const conv_data *b,
                const choice *k, void *space) {
  float one32 = 1, zero32 = 0;
  double one64 = 1, zero64 = 0;
  bool wide64 = g->type == PF_FLOAT64;
  const void *one = wide64 ? (const void *)&one64 : &one32,
             *zero = wide64 ? (const void *)&zero64 : &zero32;
  if (g->pass == CONV_FORWARD)
    return s->d->forward(h, one, s->x, b->x, s->f, b->f, s->conv, k->algo, space, k->workspace,
                         zero, s->y, b->out);
  if (g->pass == CONV_INPUT)
    return s->d->input(h, one, s->f, b->f, s->y, b->dy, s->conv, k->algo, space, k->workspace, zero,
                       s->x, b->out);
  return s->d->filter(h, one, s->x, b->x, s->y, b->dy, s->conv, k->algo, space, k->workspace, zero,
                      s->f, b->out);
}

/* ---------------------------------------------------------------- into cuDNN's form and back */
/* strides of n, c, h, w in an image of that layout */
static void image_strides(int nchw, int64_t c, int64_t h, int64_t w, int64_t *s) {
  s[0] = c * h * w;
  s[1] = nchw ? h * w : 1;
  s[2] = nchw ? w : w * c;
  s[3] = nchw ? 1 : c;
}
/* the part both have of two images of h x w and h2 x w2, offset (top, left) in the larger one */
static box image_box(const conv *g, int64_t channels, int dst_nchw, int64_t dst_h, int64_t dst_w,
                     int src_nchw, int64_t src_h, int64_t src_w) {
  int64_t shape[4] = {g->n, channels, least(dst_h, src_h), least(dst_w, src_w)};
  box b = box_of(type_size(g->type), shape, 4);
  image_strides(dst_nchw, channels, dst_h, dst_w, b.dst_stride);
  image_strides(src_nchw, channels, src_h, src_w, b.src_stride);
  return b;
}
/* strides of o, c, kh, kw in a filter: TensorFlow's, or cuDNN's for a layout */
static void filter_strides(const conv *g, int form, int64_t *s) {
  if (form < 0) s[0] = 1, s[1] = g->oc, s[2] = g->kw * g->fc * g->oc, s[3] = g->fc * g->oc;
  else image_strides(form, g->fc, g->kh, g->kw, s);
}
static box filter_box(const conv *g, int dst_form, int src_form) {
  int64_t shape[4] = {g->oc, g->fc, g->kh, g->kw};
  box b = box_of(type_size(g->type), shape, 4);
  filter_strides(g, dst_form, b.dst_stride);
  filter_strides(g, src_form, b.src_stride);
  return b;
}

/* one attempt with the images in layout `nchw` */
struct attempt {
  pf_ctx *c;
  const conv *g; /* as TensorFlow has it */
  conv e;        /* as cuDNN gets it: equal padding, perhaps larger images */
  int nchw;
  room x, y, f;
  int64_t top, left; /* where the image lies in the larger one */
  attempt(pf_ctx *c_, const conv *g_, int nchw_)
      : c(c_), g(g_), e(*g_), nchw(nchw_), x(c_), y(c_), f(c_) {
    int64_t down_more = g->pb - g->pt, right_more = g->pr - g->pl;
    top = down_more < 0 ? -down_more : 0, left = right_more < 0 ? -right_more : 0;
    e.h += down_more < 0 ? -down_more : down_more, e.w += right_more < 0 ? -right_more : right_more;
    e.pt = e.pb = least(g->pt, g->pb), e.pl = e.pr = least(g->pl, g->pr);
    e.nchw = nchw;
  }
  bool image_changes() const { return e.h != g->h || e.w != g->w || nchw != g->nchw; }
  int64_t size() const { return type_size(g->type); }
  int64_t shift() const { /* elements before the image in the larger one */
    int64_t s[4];
    image_strides(nchw, g->c, e.h, e.w, s);
    return top * s[2] + left * s[3];
  }
  pf_status bring(const conv_data *d, conv_data *b) {
    *b = *d;
    int64_t image = e.n * e.c * e.h * e.w * size(), result = e.n * e.oc * e.oh * e.ow * size();
    PF_TRY(f.take((uint64_t)(g->oc * g->fc * g->kh * g->kw * size())));
    if (g->pass == CONV_FILTER) b->out = f.data;
    else {
      box k = filter_box(g, nchw, -1);
      PF_TRY(box_copy(c, &k, f.data, d->f, false));
      b->f = f.data;
    }
    if (image_changes()) {
      PF_TRY(x.take((uint64_t)image));
      if (g->pass == CONV_INPUT) b->out = x.data;
      else {
        PF_TRY(bring_image(d->x, image));
        b->x = x.data;
      }
    }
    if (nchw == g->nchw) return PF_OK;
    PF_TRY(y.take((uint64_t)result));
    if (g->pass == CONV_FORWARD) b->out = y.data;
    else {
      box k = image_box(g, g->oc, nchw, g->oh, g->ow, g->nchw, g->oh, g->ow);
      PF_TRY(box_copy(c, &k, y.data, d->dy, false));
      b->dy = y.data;
    }
    return PF_OK;
  }
  pf_status bring_image(const void *from, int64_t bytes) {
    if (e.h != g->h || e.w != g->w)
      PF_TRY(check_cuda(c, cudaMemsetAsync(x.data, 0, (size_t)bytes, stream_of(c)->cuda),
                        "cudaMemsetAsync"));
    box k = image_box(g, g->c, nchw, e.h, e.w, g->nchw, g->h, g->w);
    k.dst_at = shift();
    return box_copy(c, &k, x.data, from, false);
  }
  pf_status take_home(const conv_data *d, const conv_data *b) {
    if (b->out == d->out) return PF_OK;
    box k;
    if (g->pass == CONV_FILTER) k = filter_box(g, -1, nchw);
    else if (g->pass == CONV_FORWARD)
      k = image_box(g, g->oc, g->nchw, g->oh, g->ow, nchw, g->oh, g->ow);
    else {
      k = image_box(g, g->c, g->nchw, g->h, g->w, nchw, e.h, e.w);
      k.src_at = shift();
    }
    return box_copy(c, &k, d->out, b->out, false);
  }
};

/* PF_DECLINE: cuDNN has no algorithm for this layout */
static pf_status try_layout(pf_ctx *c, const conv *g, const conv_data *d, int nchw, bool known,
                            choice *k) {
  const dnn_library *lib = dnn();
  gpu_stream *s = stream_of(c);
  descriptors desc(lib);
  attempt a(c, g, nchw);
  conv_data b;
  int e = describe(&desc, &a.e, nchw);
  if (e) return PF_DECLINE;
  PF_TRY(a.bring(d, &b));
  pthread_mutex_lock(&s->lock);
  dnn_handle h = dnn_of(s);
  bool ok = h && (known || choose(c, &desc, h, &a.e, &b, k));
  room space(c);
  pf_status taken = PF_OK;
  if (ok && lib->conv_math(desc.conv, k->math)) ok = false;
  if (ok && k->workspace) taken = space.take(k->workspace);
  if (ok && !taken) e = call(&desc, h, &a.e, &b, k, space.data);
  pthread_mutex_unlock(&s->lock);
  PF_TRY(taken);
  if (!ok) return PF_DECLINE;
  if (e)
    return failf(c, PF_INTERNAL, "cuDNN failed: %s (algorithm %d)", lib->error_string(e), k->algo);
  return a.take_home(d, &b);
}

static bool fits(const conv *g) {
  int64_t most_dim =
      most(most(most(g->n, g->c), most(g->h, g->w)), most(most(g->oc, g->oh), g->ow));
  return most_dim <= INT32_MAX && g->n * g->c * g->h * g->w <= INT32_MAX &&
         g->n * g->oc * g->oh * g->ow <= INT32_MAX;
}
} // namespace

pf_status conv_cudnn(pf_ctx *c, const conv *g, const conv_data *d) {
  gpu_device *dev = device_of(c);
  choice k;
  memset(&k, 0, sizeof k);
  if (!fits(g)) return PF_DECLINE;
  PF_TRY(check_cuda(c, select_device(dev), "cudaSetDevice"));
  if (!dnn()) {
    pthread_mutex_lock(&stream_of(c)->lock);
    dnn_of(stream_of(c)); /* says once that it is absent */
    pthread_mutex_unlock(&stream_of(c)->lock);
    return PF_DECLINE;
  }
  if (look_up(g, dev->ordinal, &k))
    return k.algo < 0 ? PF_DECLINE : try_layout(c, g, d, k.nchw, true, &k);
  k.key = *g, k.device = dev->ordinal, k.nchw = g->nchw;
  pf_status s = try_layout(c, g, d, g->nchw, false, &k);
  if (s == PF_DECLINE && !g->nchw) {
    k.nchw = 1;
    s = try_layout(c, g, d, 1, false, &k);
  }
  if (s == PF_DECLINE) k.algo = -1;
  if (s == PF_OK || s == PF_DECLINE) remember(&k);
  return s;
}
