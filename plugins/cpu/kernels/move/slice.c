/* slice.c - parts of a tensor and tensors with borders: Slice, StridedSlice(Grad), Pad,
 * MirrorPad(Grad), Reverse, Roll.  Each computes offsets and strides; the copying is
 * strided.c's. */
#include "move/strided.h"
#include "move/transpose.h"

static pf_status slice(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t begin[PF_MAX_DIMS], size[PF_MAX_DIMS];
  int32_t nb, ns, whole = 1;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(pf_in_vector(c, 1, "begin", begin, &nb));
  PF_TRY(pf_in_vector(c, 2, "size", size, &ns));
  if (nb != x->ndim || ns != x->ndim || c->in[1]->ndim != 1 || c->in[2]->ndim != 1)
    return PF_INVALID(
        c,
        "Expected begin and size arguments to be 1-D tensors of size %d, but got shapes %s and %s "
        "instead.",
        x->ndim, PF_SHAPE(c->in[1]).s, PF_SHAPE(c->in[2]).s);
  for (int32_t i = 0; i < nb; i++) {
    if (begin[i] < 0 || begin[i] > x->shape[i])
      return PF_INVALID(c, "Expected begin[%d] in [0, %" PRId64 "], but got %" PRId64, i,
                        x->shape[i], begin[i]);
    if (size[i] == -1) size[i] = x->shape[i] - begin[i];
    if (size[i] < 0 || size[i] > x->shape[i] - begin[i])
      return PF_INVALID(c, "Expected size[%d] in [0, %" PRId64 "], but got %" PRId64, i,
                        x->shape[i] - begin[i], size[i]);
    whole &= size[i] == x->shape[i];
  }
  if (whole) return c->host->alias(c, 0, 0, x->shape, x->ndim);
  DLTensor *y = c->host->output(c, 0, size, nb);
  PF_EXHAUSTED(y);
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), size, nb);
  pf_row_major(x->shape, nb, b.src_stride);
  for (int32_t i = 0; i < nb; i++) b.src_at += begin[i] * b.src_stride[i];
  return pf_box_copy(c, &b, y, x);
}

/* ---------------------------------------------------------------- StridedSlice */
typedef struct {
  int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
} slice_state;
typedef struct {
  int64_t begin[PF_MAX_DIMS], stride[PF_MAX_DIMS], size[PF_MAX_DIMS]; /* per input dimension */
  int64_t shape[2 * PF_MAX_DIMS];                                     /* of the result */
  int32_t nd;
} slice_plan;

/* one dimension of `dim` elements cut by begin:end:stride */
static void cut(slice_plan *p, int32_t d, int64_t dim, int64_t begin, int64_t end, int64_t stride,
                int no_begin, int no_end) {
  int64_t lo = stride > 0 ? 0 : -1, hi = stride > 0 ? dim : dim - 1;
  begin = begin < 0 ? begin + dim : begin, end = end < 0 ? end + dim : end;
  begin = no_begin ? stride > 0 ? lo : hi : PF_MIN(PF_MAX(begin, lo), hi);
  end = no_end ? stride > 0 ? hi : lo : PF_MIN(PF_MAX(end, lo), hi);
  int64_t span = end - begin;
  p->begin[d] = begin, p->stride[d] = stride;
  p->size[d] = span == 0 || (span < 0) != (stride < 0) ? 0 : span / stride + (span % stride != 0);
  if (p->size[d] <= 1) p->stride[d] = 1;
}

static pf_status plan_slice(pf_ctx *c, const slice_state *s, int32_t first, const int64_t *dims,
                            int32_t nd, slice_plan *p) {
  int64_t begin[PF_MAX_DIMS], end[PF_MAX_DIMS], stride[PF_MAX_DIMS];
  int32_t n, ne, nst, d = 0, axes_left = 0, ellipsis = -1;
  PF_TRY(pf_in_vector(c, first, "begin", begin, &n));
  PF_TRY(pf_in_vector(c, first + 1, "end", end, &ne));
  PF_TRY(pf_in_vector(c, first + 2, "strides", stride, &nst));
  if (n != ne || n != nst)
    return PF_INVALID(c,
                      "Expected begin, end, and strides to be 1D equal size tensors, but got "
                      "shapes %s, %s, and %s "
                      "instead.",
                      PF_SHAPE(c->in[first]).s, PF_SHAPE(c->in[first + 1]).s,
                      PF_SHAPE(c->in[first + 2]).s);
  for (int32_t i = 0; i < n; i++) {
    int64_t bit = (int64_t)1 << i;
    if (s->ellipsis_mask & bit) {
      if (ellipsis >= 0) return PF_INVALID(c, "Multiple ellipses in slice spec not allowed");
      ellipsis = i;
    } else if (ellipsis >= 0 && !(s->new_axis_mask & bit)) axes_left++;
  }
  p->nd = 0;
  for (int32_t i = 0; i <= n; i++) {
    int64_t bit = (int64_t)1 << i;
    if (i == n || i == ellipsis) { /* what is not named is taken whole */
      int32_t stop = i == n ? nd : PF_MIN(PF_MAX(d, nd - axes_left), nd);
      for (; d < stop; d++) cut(p, d, dims[d], 0, 0, 1, 1, 1), p->shape[p->nd++] = dims[d];
      continue;
    }
    if (s->new_axis_mask & bit) {
      p->shape[p->nd++] = 1;
      continue;
    }
    if (d >= nd)
      return PF_INVALID(c, "Index out of range using input dim %d; input has only %d dims", d, nd);
    if (stride[i] == 0) return PF_INVALID(c, "strides[%d] must be non-zero", i);
    if (s->shrink_axis_mask & bit) {
      int64_t at = begin[i] < 0 ? begin[i] + dims[d] : begin[i];
      if (stride[i] < 0) return PF_INVALID(c, "only stride 1 allowed on non-range indexing.");
      if (at < 0 || at >= dims[d])
        return PF_INVALID(c, "slice index %" PRId64 " of dimension %d out of bounds.", begin[i], d);
      p->begin[d] = at, p->stride[d] = 1, p->size[d] = 1;
    } else {
      cut(p, d, dims[d], begin[i], end[i], stride[i], (s->begin_mask & bit) != 0,
          (s->end_mask & bit) != 0);
      p->shape[p->nd++] = p->size[d];
    }
    d++;
  }
  return PF_OK;
}

static pf_status strided_slice(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  slice_plan p;
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(plan_slice(c, (const slice_state *)state, 1, x->shape, x->ndim, &p));
  if (pf_same_dims(p.size, x->ndim, x->shape, x->ndim)) {
    int32_t forward = 1;
    for (int32_t i = 0; i < x->ndim; i++) forward &= p.stride[i] == 1;
    if (forward) return c->host->alias(c, 0, 0, p.shape, p.nd);
  }
  DLTensor *y = c->host->output(c, 0, p.shape, p.nd);
  PF_EXHAUSTED(y);
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), p.size, x->ndim);
  pf_row_major(x->shape, x->ndim, b.src_stride);
  for (int32_t i = 0; i < x->ndim; i++)
    b.src_at += p.begin[i] * b.src_stride[i], b.src_stride[i] *= p.stride[i];
  return pf_box_copy(c, &b, y, x);
}
static pf_status strided_slice_grad(pf_ctx *c, const void *state) {
  int64_t dims[PF_MAX_DIMS];
  int32_t nd;
  slice_plan p;
  const DLTensor *dy = c->in[4];
  PF_TRY(pf_in_vector(c, 0, "shape", dims, &nd));
  for (int32_t i = 0; i < nd; i++)
    if (dims[i] < 0)
      return PF_INVALID(c, "Dimension %d of shape must be >= 0, got %" PRId64, i, dims[i]);
  PF_TRY(plan_slice(c, (const slice_state *)state, 1, dims, nd, &p));
  if (!pf_same_dims(p.shape, p.nd, dy->shape, dy->ndim))
    return PF_INVALID(c, "shape of dy was %s instead of %s", PF_SHAPE(dy).s,
                      pf_shape_text(p.shape, p.nd).s);
  DLTensor *y = pf_output_checked(c, 0, dims, nd);
  PF_EXHAUSTED(y);
  int64_t esize = pf_type_size(c->in_type[4]);
  PF_TRY(pf_zero(c, y, 0, pf_numel(y), esize));
  pf_box b = pf_box_of(esize, p.size, nd);
  pf_row_major(dims, nd, b.dst_stride);
  for (int32_t i = 0; i < nd; i++)
    b.dst_at += p.begin[i] * b.dst_stride[i], b.dst_stride[i] *= p.stride[i];
  return pf_box_copy(c, &b, y, dy);
}

/* x[begin:end:strides] = value, in a variable; a scalar value fills the slice */
static pf_status strided_slice_assign(pf_ctx *c, const void *state, int is_ref) {
  pf_var lock = {0, PF_VAR_UPDATE};
  slice_plan p;
  const DLTensor *value = c->in[4];
  PF_TRY(c->host->var_lock(c, &lock, 1));
  DLTensor *x = c->host->var_get(c, 0);
  PF_EXHAUSTED(x);
  PF_TRY(pf_check_rank(c, x, "variable"));
  PF_TRY(plan_slice(c, (const slice_state *)state, 1, x->shape, x->ndim, &p));
  int spread = value->ndim == 0;
  if (!spread && !pf_same_dims(p.shape, p.nd, value->shape, value->ndim))
    return PF_INVALID(c,
                      "slice l-value shape = %s does not match r-value shape = %s. Automatic "
                      "broadcasting not yet "
                      "implemented.",
                      pf_shape_text(p.shape, p.nd).s, PF_SHAPE(value).s);
  pf_box b = pf_box_of(pf_type_size(c->in_type[4]), p.size, x->ndim);
  pf_row_major(x->shape, x->ndim, b.dst_stride);
  for (int32_t i = 0; i < x->ndim; i++) {
    b.dst_at += p.begin[i] * b.dst_stride[i], b.dst_stride[i] *= p.stride[i];
    if (spread) b.src_stride[i] = 0;
  }
  PF_TRY(pf_box_copy(c, &b, x, value));
  return is_ref ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}
static pf_status strided_slice_assign_ref(pf_ctx *c, const void *s) {
  return strided_slice_assign(c, s, 1);
}
static pf_status strided_slice_assign_resource(pf_ctx *c, const void *s) {
  return strided_slice_assign(c, s, 0);
}

/* ---------------------------------------------------------------- Pad */
typedef struct { int64_t lo[PF_MAX_DIMS], hi[PF_MAX_DIMS], shape[PF_MAX_DIMS]; } pad_plan;
/* shape = dims + sign * (lo + hi) */
static pf_status plan_pad(pf_ctx *c, int32_t sign, pad_plan *p) {
  const DLTensor *x = c->in[0], *pads = c->in[1];
  PF_TRY(pf_check_rank(c, x, "input"));
  if (pads->ndim != 2 || pads->shape[1] != 2)
    return PF_INVALID(c, "paddings must be a matrix with 2 columns: %s", PF_SHAPE(pads).s);
  if (pads->shape[0] != x->ndim)
    return PF_INVALID(c, "The first dimension of paddings must be the rank of inputs%s %s",
                      PF_SHAPE(pads).s, PF_SHAPE(x).s);
  for (int32_t i = 0; i < x->ndim; i++) {
    p->lo[i] = pf_in_index(c, 1, 2 * i), p->hi[i] = pf_in_index(c, 1, 2 * i + 1);
    int64_t sum;
    if (p->lo[i] < 0 || p->hi[i] < 0 || __builtin_add_overflow(p->lo[i], p->hi[i], &sum) ||
        __builtin_add_overflow(x->shape[i], sign * sum, &p->shape[i]))
      return PF_INVALID(c, "Paddings must be non-negative and fit the shape: %" PRId64 " %" PRId64,
                        p->lo[i], p->hi[i]);
  }
  return PF_OK;
}
static void place_interior(pf_box *b, const pad_plan *p, int32_t nd) {
  pf_row_major(p->shape, nd, b->dst_stride);
  for (int32_t i = 0; i < nd; i++) b->dst_at += p->lo[i] * b->dst_stride[i];
}
/* What lies before and behind x in dimension d of y, in the rows that x's earlier dimensions have:
 * these boxes and x make up y, each element written once. */
static pf_status fill_borders(pf_ctx *c, const pad_plan *p, const DLTensor *x, DLTensor *y) {
  static const char nothing[16] __attribute__((aligned(16)));
  DLTensor zero = {.data = (void *)nothing, .ndim = 0};
  const DLTensor *value = c->n_in > 2 ? c->in[2] : &zero;
  for (int32_t d = 0; d < x->ndim; d++)
    for (int32_t side = 0; side < 2; side++) {
      pf_box b = pf_box_of(pf_type_size(c->in_type[0]), p->shape, x->ndim);
      for (int32_t i = 0; i < x->ndim; i++) {
        if (i < d) b.dst_at += p->lo[i] * b.dst_stride[i], b.shape[i] = x->shape[i];
        b.src_stride[i] = 0;
      }
      if (side) b.dst_at += (p->lo[d] + x->shape[d]) * b.dst_stride[d];
      b.shape[d] = side ? p->hi[d] : p->lo[d];
      PF_TRY(pf_box_copy(c, &b, y, value));
    }
  return PF_OK;
}
/* Large results, row by row: a row of y holds a run of x between borders, or is a border. */
enum { BORDER = 4096 };
typedef struct {
  char border[BORDER] __attribute__((aligned(64))); /* the value, over and over */
  const pf_mover *move;
  const pad_plan *plan;
  const DLTensor *x;
  char *y;
  int32_t nd;                  /* dimensions in front of the row's */
  int64_t before, run, behind; /* bytes of a row */
} pad_task;
static void weave_border(pf_woven *w, const pad_task *t, int64_t bytes) {
  if (bytes >= BORDER) t->move->weave(w, &(pf_part){t->border, BORDER, 0}, 1, 0, bytes / BORDER);
  if (bytes % BORDER) t->move->weave(w, &(pf_part){t->border, bytes % BORDER, 0}, 1, 0, 1);
}
/* n rows that have runs, one behind the other at x, but for the first one's `before` and the last
 * one's `behind` */
static void weave_rows(pf_woven *w, const pad_task *t, const char *x, int64_t n) {
  int64_t between = t->before + t->behind, done = between <= BORDER ? n - 1 : 0;
  pf_part part[2] = {{x, t->run, t->run}, {t->border, between, 0}};
  t->move->weave(w, part, 2, 0, done);
  for (; done < n; done++) {
    t->move->weave(w, part, 1, done, done + 1);
    if (done < n - 1) weave_border(w, t, between);
  }
}
/* Where row `row` of y has its run in x, as a row of x; -1: the row is a border.  *n: so many rows,
 * this one and the next, are alike. */
static int64_t row_of_x(const pad_task *t, int64_t row, int64_t *n) {
  int64_t from = 0, step = 1, inside = 1;
  *n = 1;
  for (int32_t d = t->nd - 1; d >= 0; d--) {
    int64_t size = t->plan->shape[d], at = row % size - t->plan->lo[d], have = t->x->shape[d];
    if (d == t->nd - 1) *n = at < 0 ? -at : at < have ? have - at : size - t->plan->lo[d] - at;
    inside &= at >= 0 && at < have;
    from += at * step, step *= have, row /= size;
  }
  return inside ? from : -1;
}
static void pad_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pad_task *t = (const pad_task *)arg;
  int64_t row = t->before + t->run + t->behind, border = 0, n;
  pf_woven w = t->move->weave_at(t->y + lo * row);
  (void)worker;
  for (; lo < hi; lo += n) {
    int64_t from = row_of_x(t, lo, &n);
    n = PF_MIN(n, hi - lo);
    if (from < 0) {
      border += n * row;
      continue;
    }
    weave_border(&w, t, border + t->before);
    weave_rows(&w, t, PF_DATA(const char, t->x) + from * t->run, n);
    border = t->behind;
  }
  weave_border(&w, t, border);
  t->move->weave_end(&w);
}
/* 1: done, in *status; 0: y is small, or its rows are short, or too few for the threads */
static int pad_large(pf_ctx *c, const pad_plan *p, const DLTensor *x, DLTensor *y,
                     pf_status *status) {
  int64_t esize = pf_type_size(c->in_type[0]), bytes = pf_numel(y) * esize, inner = esize;
  pad_task t = {.move = pf_movers(), .plan = p, .x = x, .y = PF_DATA(char, y), .nd = x->ndim - 1};
  while (t.nd > 0 && !p->lo[t.nd] && !p->hi[t.nd]) inner *= x->shape[t.nd--];
  if (t.nd < 0 || inner == 0) return 0;
  int64_t rows = pf_product(p->shape, 0, t.nd);
  t.before = p->lo[t.nd] * inner, t.run = x->shape[t.nd] * inner, t.behind = p->hi[t.nd] * inner;
  if (rows < c->host->workers(c) || !pf_weave_pays(bytes, 2 * rows)) return 0;
  if (c->n_in > 2)
    for (int64_t i = 0; i < BORDER; i += esize)
      memcpy(t.border + i, PF_DATA(const char, c->in[2]), (size_t)esize);
  *status = pf_parallel(c, rows, pf_grain(bytes / rows / 4), pad_range, &t);
  return 1;
}
static pf_status pad(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  pad_plan p;
  (void)state;
  PF_TRY(plan_pad(c, 1, &p));
  if (c->n_in > 2 && pf_numel(c->in[2]) != 1)
    return PF_INVALID(c, "constant_values must be a scalar. Found: %s", PF_SHAPE(c->in[2]).s);
  DLTensor *y = pf_output_checked(c, 0, p.shape, x->ndim);
  PF_EXHAUSTED(y);
  int64_t esize = pf_type_size(c->in_type[0]), n = pf_numel(y);
  pf_status status;
  if (esize && n != pf_numel(x) && pad_large(c, &p, x, y, &status)) return status;
  if (esize && n != pf_numel(x)) PF_TRY(fill_borders(c, &p, x, y));
  else if (n != pf_numel(x))
    PF_TRY(c->n_in > 2 ? pf_fill(c, y, 0, n, c->in[2], 0, esize) : pf_zero(c, y, 0, n, esize));
  pf_box b = pf_box_of(esize, x->shape, x->ndim);
  place_interior(&b, &p, x->ndim);
  return pf_box_copy(c, &b, y, x);
}

typedef struct {
  pf_str mode;
  int32_t reflect;
} mirror_state;
static pf_status mirror_init(pf_ctx *c, void *state) {
  mirror_state *s = (mirror_state *)state;
  s->reflect = s->mode.len == 7 && !memcmp(s->mode.data, "REFLECT", 7);
  if (!s->reflect && !(s->mode.len == 9 && !memcmp(s->mode.data, "SYMMETRIC", 9)))
    return PF_INVALID(c, "mode must be REFLECT or SYMMETRIC, not %.*s",
                      (int)PF_MIN(s->mode.len, 80), s->mode.data);
  return PF_OK;
}
static pf_status check_mirror(pf_ctx *c, const pad_plan *p, const int64_t *dims, int32_t nd,
                              int32_t reflect) {
  for (int32_t i = 0; i < nd; i++)
    if (p->lo[i] > dims[i] - reflect || p->hi[i] > dims[i] - reflect)
      if (p->lo[i] || p->hi[i])
        return PF_INVALID(
            c, "paddings must be %s the dimension size: %" PRId64 ", %" PRId64 " not %s %" PRId64,
            reflect ? "less than" : "no greater than", p->lo[i], p->hi[i],
            reflect ? "less than" : "no greater than", dims[i]);
  return PF_OK;
}
/* the interior first; then, from the last dimension to the first, each border is a mirrored copy
 * within y */
static pf_status mirror_pad(pf_ctx *c, const void *state) {
  int32_t reflect = ((const mirror_state *)state)->reflect;
  const DLTensor *x = c->in[0];
  pad_plan p;
  int32_t nd = x->ndim;
  PF_TRY(plan_pad(c, 1, &p));
  PF_TRY(check_mirror(c, &p, x->shape, nd, reflect));
  DLTensor *y = pf_output_checked(c, 0, p.shape, nd);
  PF_EXHAUSTED(y);
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), x->shape, nd);
  place_interior(&b, &p, nd);
  PF_TRY(pf_box_copy(c, &b, y, x));
  memcpy(b.src_stride, b.dst_stride, sizeof b.src_stride);
  for (int32_t d = nd - 1; d >= 0; d--) {
    int64_t w = b.dst_stride[d], base = b.dst_at - p.lo[d] * w;
    pf_box side = b;
    side.src_stride[d] = -w;
    side.shape[d] = p.lo[d], side.dst_at = base;
    side.src_at = base + (2 * p.lo[d] - !reflect) * w;
    PF_TRY(pf_box_copy(c, &side, y, y));
    side.shape[d] = p.hi[d], side.dst_at = base + (p.lo[d] + x->shape[d]) * w;
    side.src_at = side.dst_at - (1 + reflect) * w;
    PF_TRY(pf_box_copy(c, &side, y, y));
    b.shape[d] = p.shape[d], b.dst_at = base; /* now whole along d */
  }
  return PF_OK;
}
static int64_t mirrored(int64_t i, int64_t lo, int64_t n, int32_t reflect) {
  i -= lo;
  if (i < 0) i = -i - !reflect;
  return i >= n ? 2 * n - 1 - reflect - i : i;
}
#define FOLD(TYPE, T, TAG) \
  case TYPE: \
    for (int64_t k = 0; k < n; k++) ((T *)dx)[at[k]] += ((const T *)dy)[k]; \
    break;
static pf_status mirror_pad_grad(pf_ctx *c, const void *state) {
  int32_t reflect = ((const mirror_state *)state)->reflect, type = c->in_type[0];
  const DLTensor *g = c->in[0];
  pad_plan p;
  int64_t n = pf_numel(g), stride[PF_MAX_DIMS];
  PF_TRY(plan_pad(c, -1, &p));
  for (int32_t i = 0; i < g->ndim; i++)
    if (p.shape[i] < 0)
      return PF_INVALID(c, "Paddings %" PRId64 " %" PRId64 " are larger than dimension %d of %s",
                        p.lo[i], p.hi[i], i, PF_SHAPE(g).s);
  PF_TRY(check_mirror(c, &p, p.shape, g->ndim, reflect));
  DLTensor *x = pf_output_checked(c, 0, p.shape, g->ndim);
  PF_EXHAUSTED(x);
  if (n == 0) return pf_zero(c, x, 0, pf_numel(x), pf_type_size(type));
  int64_t *at = (int64_t *)c->host->scratch(c, (uint64_t)n * 8, 64), m = pf_numel(x);
  PF_EXHAUSTED(at);
  pf_row_major(p.shape, g->ndim, stride);
  for (int64_t k = 0; k < n; k++) {
    int64_t rest = k;
    at[k] = 0;
    for (int32_t d = g->ndim - 1; d >= 0; d--) {
      at[k] += mirrored(rest % g->shape[d], p.lo[d], p.shape[d], reflect) * stride[d];
      rest /= g->shape[d];
    }
  }
  void *dx = PF_DATA(void, x);
  const void *dy = PF_DATA(const void, g);
  if (pf_is_half(type)) {
    float *fx = (float *)c->host->scratch(c, (uint64_t)(n + m) * 4, 64), *fy = fx + m;
    PF_EXHAUSTED(fx);
    pf_half_to_float(type, dy, fy, n);
    memset(fx, 0, (size_t)m * 4);
    for (int64_t k = 0; k < n; k++) fx[at[k]] += fy[k];
    pf_float_to_half(type, fx, dx, m);
    return PF_OK;
  }
  PF_TRY(pf_zero(c, x, 0, m, pf_type_size(type)));
  switch (type) {
    FOLD(PF_FLOAT32, float, f32)
    FOLD(PF_FLOAT64, double, f64)
    FOLD(PF_COMPLEX64, float _Complex, c64)
    FOLD(PF_COMPLEX128, double _Complex, c128)
    FOLD(PF_INT8, uint8_t, u8)
    FOLD(PF_INT16, uint16_t, u16)
    FOLD(PF_INT32, uint32_t, u32)
    FOLD(PF_INT64, uint64_t, u64)
    FOLD(PF_UINT8, uint8_t, u8)
    FOLD(PF_UINT16, uint16_t, u16)
    FOLD(PF_UINT32, uint32_t, u32)
    FOLD(PF_UINT64, uint64_t, u64)
    case PF_BOOL:
      for (int64_t k = 0; k < n; k++) ((uint8_t *)dx)[at[k]] |= ((const uint8_t *)dy)[k];
      break;
    default:
      return pf_failf(c, PF_UNIMPLEMENTED, "MirrorPadGrad is not defined for %s",
                      pf_type_name(type));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Reverse, Roll */
static pf_status reverse_axes(pf_ctx *c, const int32_t *flip) {
  const DLTensor *x = c->in[0];
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), x->shape, x->ndim);
  for (int32_t i = 0; i < x->ndim; i++)
    if (flip[i])
      b.src_at += (x->shape[i] - 1) * b.src_stride[i], b.src_stride[i] = -b.src_stride[i];
  return pf_box_copy(c, &b, y, x);
}
static pf_status reverse(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *dims = c->in[1];
  int32_t flip[PF_MAX_DIMS];
  (void)state;
  PF_TRY(pf_check_rank(c, x, "tensor"));
  if (dims->ndim != 1 || dims->shape[0] != x->ndim)
    return PF_INVALID(c, "dims %s must be a vector of the rank of tensor, %d", PF_SHAPE(dims).s,
                      x->ndim);
  for (int32_t i = 0; i < x->ndim; i++) flip[i] = PF_DATA(const uint8_t, dims)[i];
  return reverse_axes(c, flip);
}
static pf_status reverse_v2(pf_ctx *c, const void *state) {
  int64_t axes[PF_MAX_DIMS];
  int32_t flip[PF_MAX_DIMS] = {0}, n, a;
  (void)state;
  PF_TRY(pf_check_rank(c, c->in[0], "tensor"));
  PF_TRY(pf_in_vector(c, 1, "axis", axes, &n));
  for (int32_t i = 0; i < n; i++) {
    if (axes[i] < -c->in[0]->ndim || axes[i] >= c->in[0]->ndim)
      return PF_INVALID(c, "'axis'[%d] = %" PRId64 " is out of valid range [0, %d", i, axes[i],
                        c->in[0]->ndim - 1);
    a = (int32_t)(axes[i] < 0 ? axes[i] + c->in[0]->ndim : axes[i]);
    if (flip[a]) return PF_INVALID(c, "axis %d specified more than once.", a);
    flip[a] = 1;
  }
  return reverse_axes(c, flip);
}
static pf_status roll(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shift[PF_MAX_DIMS], axis[PF_MAX_DIMS], by[PF_MAX_DIMS] = {0};
  int32_t ns, na, moved[PF_MAX_DIMS], n = 0, a;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(pf_in_vector(c, 1, "shift", shift, &ns));
  PF_TRY(pf_in_vector(c, 2, "axis", axis, &na));
  if (ns != na) return PF_INVALID(c, "shift and axis must have the same size");
  if (x->ndim < 1) return PF_INVALID(c, "input must be 1-D or higher");
  for (int32_t i = 0; i < na; i++) {
    PF_TRY(pf_axis(c, axis[i], x->ndim, "axis", &a));
    int64_t m = PF_MAX(x->shape[a], 1), s = shift[i] % m;
    by[a] = ((by[a] + s) % m + m) % m;
  }
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int32_t i = 0; i < x->ndim; i++)
    if (by[i]) moved[n++] = i;
  if (n > 20) return pf_failf(c, PF_UNIMPLEMENTED, "Roll along %d axes", n);
  for (int32_t mask = 0; mask < 1 << n; mask++) { /* each moved axis is two pieces */
    pf_box b = pf_box_of(pf_type_size(c->in_type[0]), x->shape, x->ndim);
    for (int32_t k = 0; k < n; k++) {
      int32_t d = moved[k];
      int64_t head = x->shape[d] - by[d];
      if (mask >> k & 1) b.shape[d] = by[d], b.src_at += head * b.src_stride[d];
      else b.shape[d] = head, b.dst_at += by[d] * b.dst_stride[d];
    }
    PF_TRY(pf_box_copy(c, &b, y, x));
  }
  return PF_OK;
}

#define MASKS \
  PF_ATTRS(PF_ATTR(slice_state, PF_ATTR_INT, begin_mask), \
           PF_ATTR(slice_state, PF_ATTR_INT, end_mask), \
           PF_ATTR(slice_state, PF_ATTR_INT, ellipsis_mask), \
           PF_ATTR(slice_state, PF_ATTR_INT, new_axis_mask), \
           PF_ATTR(slice_state, PF_ATTR_INT, shrink_axis_mask))
#define MODE PF_ATTRS(PF_ATTR(mirror_state, PF_ATTR_STRING, mode))

const pf_kernel *const slice_kernels[] = {
  PF_CPU("Slice", NULL, .compute = slice),
  PF_CPU("StridedSlice", NULL, .state_size = sizeof(slice_state), .compute = strided_slice,
         .attrs = MASKS),
  PF_CPU("StridedSliceGrad", NULL, .state_size = sizeof(slice_state), .compute = strided_slice_grad,
         .attrs = MASKS),
  PF_CPU("StridedSliceAssign", NULL, .state_size = sizeof(slice_state),
         .compute = strided_slice_assign_ref, .attrs = MASKS),
  PF_CPU_BORROWS("ResourceStridedSliceAssign", NULL, .state_size = sizeof(slice_state),
                 .compute = strided_slice_assign_resource, .attrs = MASKS),
  PF_CPU("Pad", NULL, .compute = pad),
  PF_CPU("PadV2", NULL, .compute = pad),
  PF_CPU("MirrorPad", NULL, .state_size = sizeof(mirror_state), .init = mirror_init,
         .compute = mirror_pad, .attrs = MODE),
  PF_CPU("MirrorPadGrad", NULL, .state_size = sizeof(mirror_state), .init = mirror_init,
         .compute = mirror_pad_grad, .attrs = MODE),
  PF_CPU("Reverse", NULL, .compute = reverse),
  PF_CPU("ReverseV2", NULL, .compute = reverse_v2),
  PF_CPU("Roll", NULL, .compute = roll),
  NULL};
