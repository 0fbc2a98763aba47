/* walk.cu - box_copy and fill_with: the movers behind the array ops. */
#include "walk.h"

namespace {

template <class T> struct box_mover {
  walk<2> w;
  T *dst;
  const T *src;
  PF_BOTH void operator()(int64_t i) const {
    int64_t at[2];
    w.offsets(i, at);
    dst[at[0]] = src[at[1]];
  }
};
template <class T> struct straight_mover {
  typedef T value;
  T *dst;
  const T *src;
  PF_BOTH T load(int64_t i) const { return src[i]; }
  PF_BOTH void store(int64_t i, T v) const { dst[i] = v; }
  PF_BOTH void operator()(int64_t i) const { dst[i] = src[i]; }
};
template <class T> struct filler {
  T *dst;
  const T *src;
  PF_BOTH void operator()(int64_t i) const { dst[i] = src ? *src : T{}; }
};

} // namespace

pf_status box_copy(pf_ctx *c, const box *b, void *dst, const void *src, bool host) {
  int64_t n = product(b->shape, 0, b->nd);
  if (n == 0) return PF_OK;
  const int64_t *strides[2] = {b->dst_stride, b->src_stride};
  pf_status s = with_size(b->esize, [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    box_mover<T> m;
    m.dst = (T *)dst + b->dst_at, m.src = (const T *)src + b->src_at;
    if (!walk_plan(&m.w, b->shape, b->nd, strides)) return TOO_TANGLED(c);
    bool straight = m.w.nd == 0 || (m.w.nd == 1 && m.w.stride[0][0] == 1 && m.w.stride[1][0] == 1);
    if (host) return each_on_host(c, n, m);
    if (straight) return map(c, n, straight_mover<T>{m.dst, m.src});
    return each(c, n, m);
  });
  return s;
}
pf_status fill_with(pf_ctx *c, void *dst, const void *src, int64_t n, int64_t esize, bool host) {
  return with_size(esize, [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    filler<T> f = {(T *)dst, (const T *)src};
    return host ? each_on_host(c, n, f) : each(c, n, f);
  });
}
