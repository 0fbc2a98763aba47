/* diag_band.c - bands of diagonals: MatrixDiagV2/V3, MatrixDiagPartV2/V3, MatrixSetDiagV2/V3.
 *
 * A band [k0, k1] is packed as [..., k1 - k0 + 1, longest], the highest diagonal first (one
 * diagonal: [..., longest]). A diagonal shorter than the longest stands left or right in its row,
 * as `align` says for those above and those below the main one (V2: left). Threads: one per call.
 */
#include "base/common.h"

typedef struct { pf_str align; } band_state;
typedef struct {
  int64_t lo, hi, rows, cols, longest, count; /* count: matrices */
  int left_above, left_below;
} band;

static pf_status read_band(pf_ctx *c, int32_t in, const band_state *s, band *b) {
  int64_t k[PF_MAX_DIMS];
  int32_t n;
  PF_TRY(pf_in_vector(c, in, "k", k, &n));
  if (n < 1 || n > 2) return PF_INVALID(c, "k must be a scalar or have 1 or 2 elements, got %d", n);
  b->lo = k[0], b->hi = k[n - 1];
  if (b->lo > b->hi)
    return PF_INVALID(
        c, "lower_diag_index must not be larger than upper_diag_index: %" PRId64 " > %" PRId64,
        b->lo, b->hi);
#define IS(name) (s->align.len == (int64_t)strlen(name) && !memcmp(s->align.data, name, strlen(name)))
  b->left_above = !s->align.len || IS("LEFT_LEFT") || IS("LEFT_RIGHT");
  b->left_below = !s->align.len || IS("LEFT_LEFT") || IS("RIGHT_LEFT");
  return PF_OK;
}
static int64_t length_of(const band *b, int64_t d) {
  return PF_MIN(b->rows + PF_MIN(d, 0), b->cols - PF_MAX(d, 0));
}
/* every diagonal lies inside the matrix */
static pf_status check_band(pf_ctx *c, band *b) {
  if ((b->lo != 0 && !(-b->rows < b->lo && b->lo < b->cols)) ||
      (b->hi != 0 && !(-b->rows < b->hi && b->hi < b->cols)))
    return PF_INVALID(c,
                      "k [%" PRId64 ", %" PRId64 "] is out of bounds: must be between %" PRId64
                      " and %" PRId64,
                      b->lo, b->hi, -b->rows, b->cols);
  b->longest = PF_MIN(b->rows + PF_MIN(b->hi, 0), b->cols - PF_MAX(b->lo, 0));
  return PF_OK;
}
/* copies between a packed band and matrices; `pack`: matrices are the source */
static pf_status copy_band(pf_ctx *c, const band *b, DLTensor *y, const DLTensor *x, int pack,
                           int64_t es) {
  int64_t n = b->hi - b->lo + 1;
  for (int64_t m = 0; m < b->count; m++)
    for (int64_t d = b->hi; d >= b->lo; d--) {
      int64_t length = length_of(b, d);
      int left = (d >= 0 && b->left_above) || (d <= 0 && b->left_below);
      int64_t row = (m * n + b->hi - d) * b->longest + (left ? 0 : b->longest - length);
      int64_t cell = (m * b->rows + PF_MAX(-d, 0)) * b->cols + PF_MAX(d, 0);
      for (int64_t i = 0; i < length; i++, cell += b->cols + 1)
        PF_TRY(pack ? pf_copy_run(c, y, row + i, x, cell, 1, es)
                    : pf_copy_run(c, y, cell, x, row + i, 1, es));
    }
  return PF_OK;
}
static pf_status fill(pf_ctx *c, DLTensor *y, const DLTensor *value, int64_t es) {
  for (int64_t i = 0, n = pf_numel(y); i < n; i++) PF_TRY(pf_copy_run(c, y, i, value, 0, 1, es));
  return PF_OK;
}
static pf_status check_padding(pf_ctx *c, int32_t in) {
  if (c->in[in]->ndim == 0) return PF_OK;
  return PF_INVALID(c, "padding_value must be a scalar, got shape %s", PF_SHAPE(c->in[in]).s);
}
static pf_status part(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS + 1], es = pf_type_size(c->in_type[0]);
  int32_t nd = x->ndim - 2;
  band b;
  PF_TRY(pf_check_rank(c, x, "input"));
  if (nd < 0)
    return PF_INVALID(c, "input must be at least 2-dim, received shape: %s", PF_SHAPE(x).s);
  PF_TRY(read_band(c, 1, state, &b));
  PF_TRY(check_padding(c, 2));
  b.rows = x->shape[nd], b.cols = x->shape[nd + 1], b.count = pf_product(x->shape, 0, nd);
  PF_TRY(check_band(c, &b));
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)nd);
  if (b.lo != b.hi) shape[nd++] = b.hi - b.lo + 1;
  shape[nd++] = b.longest;
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  PF_TRY(fill(c, y, c->in[2], es));
  return copy_band(c, &b, y, x, 1, es);
}
/* the packed shape must be that of the band */
static pf_status check_packed(pf_ctx *c, const DLTensor *d, const band *b, int32_t batch) {
  int32_t nd = batch + 1 + (b->lo != b->hi);
  if (d->ndim == nd && d->shape[nd - 1] == b->longest &&
      (b->lo == b->hi || d->shape[nd - 2] == b->hi - b->lo + 1))
    return PF_OK;
  return PF_INVALID(
      c, "diagonal %s is not a band k = [%" PRId64 ", %" PRId64 "] of %" PRId64 " elements",
      PF_SHAPE(d).s, b->lo, b->hi, b->longest);
}
static pf_status set_diag(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *d = c->in[1];
  int64_t es = pf_type_size(c->in_type[0]);
  int32_t nd = x->ndim - 2;
  band b;
  PF_TRY(pf_check_rank(c, x, "input"));
  if (nd < 0)
    return PF_INVALID(c, "input must be at least 2-dim, received shape: %s", PF_SHAPE(x).s);
  PF_TRY(read_band(c, 2, state, &b));
  b.rows = x->shape[nd], b.cols = x->shape[nd + 1], b.count = pf_product(x->shape, 0, nd);
  PF_TRY(check_band(c, &b));
  PF_TRY(check_packed(c, d, &b, nd));
  if (!pf_same_dims(d->shape, nd, x->shape, nd))
    return PF_INVALID(c, "the batches of input %s and diagonal %s differ", PF_SHAPE(x).s,
                      PF_SHAPE(d).s);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  PF_TRY(pf_copy_run(c, y, 0, x, 0, pf_numel(x), es));
  return copy_band(c, &b, y, d, 0, es);
}
static pf_status diag(pf_ctx *c, const void *state) {
  const DLTensor *d = c->in[0];
  int64_t shape[PF_MAX_DIMS + 2], es = pf_type_size(c->in_type[0]);
  band b;
  PF_TRY(pf_check_rank(c, d, "diagonal"));
  PF_TRY(read_band(c, 1, state, &b));
  PF_TRY(pf_in_scalar(c, 2, "num_rows", &b.rows));
  PF_TRY(pf_in_scalar(c, 3, "num_cols", &b.cols));
  PF_TRY(check_padding(c, 4));
  int32_t nd = d->ndim - 1 - (b.lo != b.hi);
  if (nd < 0)
    return PF_INVALID(c, "diagonal must have rank >= %d, got shape %s", 1 + (b.lo != b.hi),
                      PF_SHAPE(d).s);
  b.longest = d->shape[d->ndim - 1];
  if (b.lo < -(1LL << 40) || b.hi > 1LL << 40) return PF_INVALID(c, "k is out of bounds");
  int64_t rows = b.longest - PF_MIN(b.hi, 0), cols = b.longest + PF_MAX(b.lo, 0);
  if (b.rows == -1 && b.cols == -1) b.rows = b.cols = PF_MAX(rows, cols);
  else if (b.rows == -1) b.rows = rows;
  else if (b.cols == -1) b.cols = cols;
  if (b.rows < rows || b.cols < cols || (b.rows != rows && b.cols != cols))
    return PF_INVALID(c, "The number of rows or columns is not consistent with the specified "
                         "d_lower, d_upper, and diagonal.");
  int64_t longest = b.longest;
  PF_TRY(check_band(c, &b));
  b.longest = longest;
  PF_TRY(check_packed(c, d, &b, nd));
  b.count = pf_product(d->shape, 0, nd);
  memcpy(shape, d->shape, sizeof(int64_t) * (size_t)nd);
  shape[nd] = b.rows, shape[nd + 1] = b.cols;
  if (nd + 2 > PF_MAX_DIMS) return PF_INVALID(c, "the result has too many dimensions");
  DLTensor *y = pf_output_checked(c, 0, shape, nd + 2);
  PF_EXHAUSTED(y);
  if (PF_MIN(b.rows + PF_MIN(b.hi, 0), b.cols - PF_MAX(b.lo, 0)) != longest && b.rows && b.cols)
    return PF_INVALID(c, "diagonal %s does not fit the matrix [%" PRId64 ", %" PRId64 "]",
                      PF_SHAPE(d).s, b.rows, b.cols);
  PF_TRY(fill(c, y, c->in[4], es));
  return copy_band(c, &b, y, d, 0, es);
}

#define ALIGNED .state_size = sizeof(band_state), \
                .attrs = PF_ATTRS(PF_ATTR(band_state, PF_ATTR_STRING, align))
#define PLAIN .state_size = sizeof(band_state)
const pf_kernel *const diag_band_kernels[] = {
  PF_CPU("MatrixDiagV2", NULL, .compute = diag, PLAIN),
  PF_CPU("MatrixDiagV3", NULL, .compute = diag, ALIGNED),
  PF_CPU("MatrixDiagPartV2", NULL, .compute = part, PLAIN),
  PF_CPU("MatrixDiagPartV3", NULL, .compute = part, ALIGNED),
  PF_CPU("MatrixSetDiagV2", NULL, .compute = set_diag, PLAIN),
  PF_CPU("MatrixSetDiagV3", NULL, .compute = set_diag, ALIGNED),
  NULL};
