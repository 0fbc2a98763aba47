/* pool.cu - MaxPool, AvgPool and their gradients, own kernels.
 *
 * Invariants
 *   1. Padding takes no part: it is never the maximum and does not count in an average.
 *   2. A maximum's gradient goes to its first position in row-major order, as on the CPU.
 *   3. Gradients are gathered: one thread per input element sums over the windows that hold it, in
 *      a fixed order.  No atomics.
 */
#include "window.h"

namespace {

typedef struct {
  int64_t n, h, w, c, oh, ow, pt, pl, kh, kw, sh, sw;
  int32_t nchw;
} pool;
typedef struct { int64_t n, y, x, c; } spot;
PF_BOTH spot spot_of(const pool &p, int64_t i, int64_t h, int64_t w) {
  spot s;
  if (p.nchw) {
    s.x = i % w, i /= w, s.y = i % h, i /= h;
    s.c = i % p.c, s.n = i / p.c;
  } else {
    s.c = i % p.c, i /= p.c;
    s.x = i % w, i /= w, s.y = i % h, s.n = i / h;
  }
  return s;
}
PF_BOTH int64_t index_of(const pool &p, int64_t n, int64_t y, int64_t x, int64_t c, int64_t h,
                         int64_t w) {
  return p.nchw ? ((n * p.c + c) * h + y) * w + x : ((n * h + y) * w + x) * p.c + c;
}
typedef struct { int64_t y0, y1, x0, x1; } field;
PF_BOTH field field_at(const pool &p, int64_t oy, int64_t ox) {
  int64_t y = oy * p.sh - p.pt, x = ox * p.sw - p.pl;
  return field{most(y, (int64_t)0), least(y + p.kh, p.h), most(x, (int64_t)0),
               least(x + p.kw, p.w)};
}
template <class T> PF_BOTH wide<T> max_in(const pool &p, const T *x, spot s, field v) {
  wide<T> best = up(x[index_of(p, s.n, v.y0, v.x0, s.c, p.h, p.w)]);
  for (int64_t y = v.y0; y < v.y1; y++)
    for (int64_t z = v.x0; z < v.x1; z++) {
      wide<T> q = up(x[index_of(p, s.n, y, z, s.c, p.h, p.w)]);
      best = q > best || q != q ? q : best;
    }
  return best;
}
template <class T> struct max_each {
  pool p;
  const T *x;
  T *out;
  PF_BOTH void operator()(int64_t i) const {
    spot s = spot_of(p, i, p.oh, p.ow);
    out[i] = down<T>(max_in(p, x, s, field_at(p, s.y, s.x)));
  }
};
template <class T> struct avg_each {
  pool p;
  const T *x;
  T *out;
  PF_BOTH void operator()(int64_t i) const {
    spot s = spot_of(p, i, p.oh, p.ow);
    field v = field_at(p, s.y, s.x);
    wide<T> sum = 0;
    for (int64_t y = v.y0; y < v.y1; y++)
      for (int64_t z = v.x0; z < v.x1; z++) sum += up(x[index_of(p, s.n, y, z, s.c, p.h, p.w)]);
    out[i] = down<T>(sum / (wide<T>)((v.y1 - v.y0) * (v.x1 - v.x0)));
  }
};
/* the windows that hold input row y (or column): [first, last] of [0, out) */
PF_BOTH int64_t first_window(int64_t y, int64_t before, int64_t k, int64_t stride) {
  int64_t t = y + before - k + 1;
  return t <= 0 ? 0 : (t + stride - 1) / stride;
}
template <class T> struct max_grad_each {
  pool p;
  const T *x, *dy;
  T *dx;
  PF_BOTH bool is_first(spot s, field v, wide<T> best) const {
    for (int64_t y = v.y0; y < v.y1; y++)
      for (int64_t z = v.x0; z < v.x1; z++)
        if (up(x[index_of(p, s.n, y, z, s.c, p.h, p.w)]) == best) return y == s.y && z == s.x;
    return false;
  }
  PF_BOTH void operator()(int64_t i) const {
    spot s = spot_of(p, i, p.h, p.w);
    wide<T> sum = 0, mine = up(x[i]);
    int64_t last_y = least((s.y + p.pt) / p.sh, p.oh - 1),
            last_x = least((s.x + p.pl) / p.sw, p.ow - 1);
    for (int64_t oy = first_window(s.y, p.pt, p.kh, p.sh); oy <= last_y; oy++)
      for (int64_t ox = first_window(s.x, p.pl, p.kw, p.sw); ox <= last_x; ox++) {
        field v = field_at(p, oy, ox);
        wide<T> best = max_in(p, x, s, v);
        if (mine == best && is_first(s, v, best))
          sum += up(dy[index_of(p, s.n, oy, ox, s.c, p.oh, p.ow)]);
      }
    dx[i] = down<T>(sum);
  }
};
template <class T> struct avg_grad_each {
  pool p;
  const T *dy;
  T *dx;
  PF_BOTH void operator()(int64_t i) const {
    spot s = spot_of(p, i, p.h, p.w);
    wide<T> sum = 0;
    int64_t last_y = least((s.y + p.pt) / p.sh, p.oh - 1),
            last_x = least((s.x + p.pl) / p.sw, p.ow - 1);
    for (int64_t oy = first_window(s.y, p.pt, p.kh, p.sh); oy <= last_y; oy++)
      for (int64_t ox = first_window(s.x, p.pl, p.kw, p.sw); ox <= last_x; ox++) {
        field v = field_at(p, oy, ox);
        wide<T> share = 1 / (wide<T>)((v.y1 - v.y0) * (v.x1 - v.x0));
        sum += up(dy[index_of(p, s.n, oy, ox, s.c, p.oh, p.ow)]) * share;
      }
    dx[i] = down<T>(sum);
  }
};

/* ---------------------------------------------------------------- checks */
static pf_status pool_init(pf_ctx *c, void *state) {
  window_state *s = (window_state *)state;
  PF_TRY(window_init(c, s));
  if (s->pad == PAD_EXPLICIT && (most(s->pt, s->pb) >= s->kh || most(s->pl, s->pr) >= s->kw))
    return INVALID(c, "explicit padding must be smaller than the window (ksize)");
  return PF_OK;
}
static pf_status pool_sizes(pf_ctx *c, const window_state *s, const int64_t *shape, int32_t ndim,
                            pool *p, int64_t *out_shape) {
  int64_t d[4] = {0};
  extent eh, ew;
  PF_TRY(window_dims(c, s, shape, ndim, "tensor_in", d));
  PF_TRY(window_size(c, s, false, d[1], s->kh, &eh));
  PF_TRY(window_size(c, s, true, d[2], s->kw, &ew));
  *p = pool{d[0],      d[1],  d[2],  d[3],  eh.out, ew.out, eh.before,
            ew.before, s->kh, s->kw, s->sh, s->sw,  s->nchw};
  window_shape(s, p->n, p->oh, p->ow, p->c, out_shape);
  return PF_OK;
}
template <bool is_max> pf_status forward(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[4];
  pool p;
  PF_TRY(pool_sizes(c, (const window_state *)state, x->shape, x->ndim, &p, shape));
  DLTensor *out = output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(out);
  return with_float(c->in_type[0], [&](auto t) {
    typedef typename decltype(t)::type T;
    if constexpr (is_max)
      return each(c, pf_numel(out), max_each<T>{p, PF_DATA(const T, x), PF_DATA(T, out)});
    else return each(c, pf_numel(out), avg_each<T>{p, PF_DATA(const T, x), PF_DATA(T, out)});
  });
}
static pf_status check_grad(pf_ctx *c, const DLTensor *dy, const int64_t *shape, const char *what) {
  if (same_dims(dy->shape, dy->ndim, shape, 4)) return PF_OK;
  return INVALID(c, "Expected %s shape to be %s, but got %s", what, shape_of(shape, 4).s,
                 SHAPE(dy));
}
static pf_status max_pool_grad(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t shape[4];
  pool p;
  PF_TRY(pool_sizes(c, (const window_state *)state, x->shape, x->ndim, &p, shape));
  PF_TRY(check_grad(c, c->in[1], shape, "orig_output"));
  PF_TRY(check_grad(c, dy, shape, "grad"));
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  return with_float(c->in_type[0], [&](auto t) {
    typedef typename decltype(t)::type T;
    return each(c, pf_numel(out),
                max_grad_each<T>{p, PF_DATA(const T, x), PF_DATA(const T, dy), PF_DATA(T, out)});
  });
}
static pf_status avg_pool_grad(pf_ctx *c, const void *state) {
  const DLTensor *dy = c->in[1];
  int64_t in_shape[4], shape[4];
  pool p;
  PF_TRY(sizes_input(c, 0, "orig_input_shape", in_shape));
  PF_TRY(pool_sizes(c, (const window_state *)state, in_shape, 4, &p, shape));
  PF_TRY(check_grad(c, dy, shape, "grad"));
  DLTensor *out = output_checked(c, 0, in_shape, 4);
  PF_EXHAUSTED(out);
  return with_float(c->in_type[1], [&](auto t) {
    typedef typename decltype(t)::type T;
    return each(c, pf_numel(out), avg_grad_each<T>{p, PF_DATA(const T, dy), PF_DATA(T, out)});
  });
}

static constexpr attr_list attrs({WINDOW_ATTR(strides, PF_ATTR_LIST | PF_ATTR_INT),
                                  WINDOW_ATTR(ksize, PF_ATTR_LIST | PF_ATTR_INT),
                                  WINDOW_ATTR(padding, PF_ATTR_STRING),
                                  WINDOW_OPTIONAL(data_format, PF_ATTR_STRING),
                                  WINDOW_OPTIONAL(explicit_paddings, PF_ATTR_LIST | PF_ATTR_INT)});
static constexpr arg_list shape_on_host({HOST_IN("orig_input_shape")});
#define ENTRY(op, fn, ...)                                                                       \
  GPU(op, "T=" T_FLOATS, SAME, .attrs = attrs.at, __VA_ARGS__.state_size = sizeof(window_state), \
      .init = pool_init, .compute = fn)
static const pf_kernel table[] = {
  ENTRY("MaxPool", forward<true>),
  ENTRY("AvgPool", forward<false>),
  ENTRY("MaxPoolGrad", max_pool_grad),
  ENTRY("AvgPoolGrad", avg_pool_grad, .args = shape_on_host.at, ),
};
} // namespace
KERNELS(pool_kernels, table)
