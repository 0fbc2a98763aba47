/* emulation/cudnn.cpp - cuDNN's convolutions as loops, written from its documentation: symmetric
 * padding, cross-correlation, groups, tensors and filters in NCHW or NHWC.  Like the library, it
 * has no NHWC algorithm for double, and checks the sizes it is given. */
#include <stdint.h>
#include <stdlib.h>
#include "../source/libraries.h"
#include "../source/numbers.h"

struct tensor { int format, type, n, c, h, w; };
struct filter { int format, type, k, c, h, w; };
struct convolution { int ph, pw, u, v, dh, dw, mode, type, groups, math; };
enum { BAD_PARAM = 2000, NOT_SUPPORTED = 3000 };

static int64_t at4(int nhwc, int c_, int h_, int w_, int n, int c, int h, int w) {
  return nhwc ? (((int64_t)n * h_ + h) * w_ + w) * c_ + c
              : (((int64_t)n * c_ + c) * h_ + h) * w_ + w;
}
template <class T> struct view {
  T *p;
  int nhwc, c, h, w;
  T &operator()(int n, int ch, int y, int x) const { return p[at4(nhwc, c, h, w, n, ch, y, x)]; }
};
static int check(const tensor *x, const filter *f, const convolution *g, const tensor *y) {
  if (x->type != f->type || f->type != y->type || x->format != f->format || f->format != y->format)
    return BAD_PARAM;
  if (x->c != f->c * g->groups || y->c != f->k || f->k % g->groups || x->n != y->n ||
      g->mode != DNN_CROSS_CORRELATION)
    return BAD_PARAM;
  int oh = 1 + (x->h + 2 * g->ph - ((f->h - 1) * g->dh + 1)) / g->u,
      ow = 1 + (x->w + 2 * g->pw - ((f->w - 1) * g->dw + 1)) / g->v;
  if (oh != y->h || ow != y->w) return BAD_PARAM;
  return x->type == DNN_DOUBLE && x->format == DNN_NHWC ? NOT_SUPPORTED : 0;
}
/* visits every (x, f, y) triple of elements that are multiplied */
template <class V>
static void visit(const tensor *x, const filter *f, const convolution *g, const tensor *y, V v) {
  int per = f->k / g->groups;
  for (int n = 0; n < x->n; n++)
    for (int o = 0; o < f->k; o++)
      for (int oy = 0; oy < y->h; oy++)
        for (int ox = 0; ox < y->w; ox++)
          for (int c = 0; c < f->c; c++)
            for (int a = 0; a < f->h; a++)
              for (int b = 0; b < f->w; b++) {
                int iy = oy * g->u - g->ph + a * g->dh, ix = ox * g->v - g->pw + b * g->dw;
                if (iy >= 0 && iy < x->h && ix >= 0 && ix < x->w)
                  v(at4(x->format, x->c, x->h, x->w, n, o / per * f->c + c, iy, ix),
                    at4(f->format, f->c, f->h, f->w, o, c, a, b),
                    at4(y->format, y->c, y->h, y->w, n, o, oy, ox));
              }
}
enum { FORWARD, DATA, FILTER };
template <class T>
static int run(int pass, const tensor *x, void *xd, const filter *f, void *fd, const convolution *g,
               const tensor *y, void *yd) {
  T *xs = (T *)xd, *fs = (T *)fd, *ys = (T *)yd;
  int64_t n = pass == FORWARD ? (int64_t)y->n * y->c * y->h * y->w
              : pass == DATA  ? (int64_t)x->n * x->c * x->h * x->w
                              : (int64_t)f->k * f->c * f->h * f->w;
  wide<T> *sum = (wide<T> *)calloc((size_t)n + 1, sizeof *sum);
  visit(x, f, g, y, [&](int64_t i, int64_t j, int64_t k) {
    if (pass == FORWARD) sum[k] += up(xs[i]) * up(fs[j]);
    else if (pass == DATA) sum[i] += up(fs[j]) * up(ys[k]);
    else sum[j] += up(xs[i]) * up(ys[k]);
  });
  T *out = pass == FORWARD ? ys : pass == DATA ? xs : fs;
  for (int64_t i = 0; i < n; i++) out[i] = down<T>(sum[i]);
  free(sum);
  return 0;
}
static int any(int pass, const void *x, const void *xd, const void *f, const void *fd,
               const void *g, const void *y, const void *yd) {
  const tensor *a = (const tensor *)x, *b = (const tensor *)y;
  const filter *w = (const filter *)f;
  const convolution *v = (const convolution *)g;
  int e = check(a, w, v, b);
  if (e) return e;
  void *p = (void *)xd, *q = (void *)fd, *r = (void *)yd;
  return a->type == DNN_FLOAT    ? run<float>(pass, a, p, w, q, v, b, r)
         : a->type == DNN_DOUBLE ? run<double>(pass, a, p, w, q, v, b, r)
         : a->type == DNN_HALF   ? run<f16>(pass, a, p, w, q, v, b, r)
                                 : run<bf16>(pass, a, p, w, q, v, b, r);
}
/* one algorithm that works, after one that fails and one that needs too much memory */
static int list(int e, int wanted, int *found, dnn_perf *perf) {
  *found = least(wanted, 3);
  for (int i = 0; i < *found; i++)
    perf[i] = dnn_perf{i,        i == 0 ? NOT_SUPPORTED : e,
                       1.0f,     i == 1 ? (size_t)1 << 40 : (size_t)4096,
                       1,        DNN_FMA_MATH,
                       {0, 0, 0}};
  return 0;
}
template <class T> static int made(void **p) {
  *p = calloc(1, sizeof(T));
  return 0;
}
static int dropped(void *p) {
  free(p);
  return 0;
}

extern "C" {
int cudnnCreate(void **h) { return made<tensor>(h); }
int cudnnDestroy(void *h) { return dropped(h); }
int cudnnSetStream(void *, cudaStream_t) { return 0; }
const char *cudnnGetErrorString(int e) {
  return e == BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_NOT_SUPPORTED";
}
int cudnnCreateTensorDescriptor(void **p) { return made<tensor>(p); }
int cudnnDestroyTensorDescriptor(void *p) { return dropped(p); }
int cudnnSetTensor4dDescriptor(void *p, int format, int type, int n, int c, int h, int w) {
  *(tensor *)p = tensor{format, type, n, c, h, w};
  return n > 0 && c > 0 && h > 0 && w > 0 ? 0 : BAD_PARAM;
}
int cudnnCreateFilterDescriptor(void **p) { return made<filter>(p); }
int cudnnDestroyFilterDescriptor(void *p) { return dropped(p); }
int cudnnSetFilter4dDescriptor(void *p, int type, int format, int k, int c, int h, int w) {
  *(filter *)p = filter{format, type, k, c, h, w};
  return 0;
}
int cudnnCreateConvolutionDescriptor(void **p) { return made<convolution>(p); }
int cudnnDestroyConvolutionDescriptor(void *p) { return dropped(p); }
int cudnnSetConvolution2dDescriptor(void *p, int ph, int pw, int u, int v, int dh, int dw, int mode,
                                    int type) {
  *(convolution *)p = convolution{ph, pw, u, v, dh, dw, mode, type, 1, 0};
  return 0;
}
int cudnnSetConvolutionGroupCount(void *p, int groups) {
  ((convolution *)p)->groups = groups;
  return 0;
}
int cudnnSetConvolutionMathType(void *p, int math) {
  ((convolution *)p)->math = math;
  return 0;
}
int cudnnFindConvolutionForwardAlgorithmEx(void *, void *x, const void *xd, void *f, const void *fd,
                                           void *g, void *y, void *yd, int wanted, int *found,
                                           dnn_perf *perf, void *, size_t) {
  return list(any(FORWARD, x, xd, f, fd, g, y, yd), wanted, found, perf);
}
int cudnnFindConvolutionBackwardDataAlgorithmEx(void *, void *f, const void *fd, void *y,
                                                const void *yd, void *g, void *x, void *xd,
                                                int wanted, int *found, dnn_perf *perf, void *,
                                                size_t) {
  return list(any(DATA, x, xd, f, fd, g, y, yd), wanted, found, perf);
}
int cudnnFindConvolutionBackwardFilterAlgorithmEx(void *, void *x, const void *xd, void *y,
                                                  const void *yd, void *g, void *f, void *fd,
                                                  int wanted, int *found, dnn_perf *perf, void *,
                                                  size_t) {
  return list(any(FILTER, x, xd, f, fd, g, y, yd), wanted, found, perf);
}
int cudnnGetConvolutionForwardAlgorithm_v7(void *, void *x, void *f, void *g, void *y, int wanted,
                                           int *found, dnn_perf *perf) {
  return list(check((tensor *)x, (filter *)f, (convolution *)g, (tensor *)y), wanted, found, perf);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *, void *f, void *y, void *g, void *x,
                                                int wanted, int *found, dnn_perf *perf) {
  return list(check((tensor *)x, (filter *)f, (convolution *)g, (tensor *)y), wanted, found, perf);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, void *x, void *y, void *g, void *f,
                                                  int wanted, int *found, dnn_perf *perf) {
  return list(check((tensor *)x, (filter *)f, (convolution *)g, (tensor *)y), wanted, found, perf);
}
int cudnnConvolutionForward(void *, const void *, void *x, const void *xd, void *f, const void *fd,
                            void *g, int algo, void *, size_t, const void *, void *y, void *yd) {
  return algo == 2 ? any(FORWARD, x, xd, f, fd, g, y, yd) : BAD_PARAM;
}
int cudnnConvolutionBackwardData(void *, const void *, void *f, const void *fd, void *y,
                                 const void *yd, void *g, int algo, void *, size_t, const void *,
                                 void *x, void *xd) {
  return algo == 2 ? any(DATA, x, xd, f, fd, g, y, yd) : BAD_PARAM;
}
int cudnnConvolutionBackwardFilter(void *, const void *, void *x, const void *xd, void *y,
                                   const void *yd, void *g, int algo, void *, size_t, const void *,
                                   void *f, void *fd) {
  return algo == 2 ? any(FILTER, x, xd, f, fd, g, y, yd) : BAD_PARAM;
}
}
