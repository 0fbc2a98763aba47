/* einsum.c - Einsum: sums of products of one or two operands by index letters, "...ij,jk->...ik".
 *
 * Method: every label has a size and, per operand, an element stride (the sum of the strides of its
 * dimensions, so that "ii" walks the diagonal, in the result too; 0 where a broadcast dimension is
 * 1).  The result's labels are an outer loop, the others are summed inside, in the type's own
 * arithmetic (float32 and halves in double).  tf.einsum itself builds transposes and matrix
 * products; this op is for graphs that hold it. Threads: parallel_for over the result.
 */
#include <complex.h>
#include "base/common.h"

enum { ANY = 128, MAX_LABELS = 64 }; /* labels ANY, ANY + 1, ...: the dimensions of an ellipsis */
typedef struct {
  uint8_t label[PF_MAX_DIMS];
  int32_t n;
} term;
typedef struct {
  /* to: strides of the result */
  int64_t size[MAX_LABELS], step[2][MAX_LABELS], to[MAX_LABELS], inner;
  uint8_t label[MAX_LABELS];
  int32_t n, outer; /* labels; the first `outer` are the result's */
  const char *x[2];
  char *y;
  int32_t inputs, type;
} job;
typedef struct { pf_str equation; } einsum_state;

/* one side of the equation: letters and at most one ellipsis, which stands for `more` dimensions */
static pf_status read_term(pf_ctx *c, const char *s, int64_t len, int32_t more, term *t,
                           int32_t *dots) {
  t->n = *dots = 0;
  for (int64_t i = 0; i < len; i++) {
    if (s[i] == ' ') continue;
    if (s[i] == '.') {
      if (i + 2 >= len || s[i + 1] != '.' || s[i + 2] != '.' || *dots)
        return PF_INVALID(c, "Invalid ellipsis in the equation");
      *dots = 1, i += 2;
      for (int32_t k = 0; k < more; k++) {
        if (t->n >= PF_MAX_DIMS)
          return PF_INVALID(c, "a term has more than %d labels", PF_MAX_DIMS);
        t->label[t->n++] = (uint8_t)(ANY + k);
      }
      continue;
    }
    if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z')) || t->n >= PF_MAX_DIMS)
      return PF_INVALID(c, "Expected letters, commas, '...' and '->' in the equation, got '%c'",
                        s[i]);
    t->label[t->n++] = (uint8_t)s[i];
  }
  return PF_OK;
}
static int32_t letters(const char *s, int64_t len) {
  int32_t n = 0;
  for (int64_t i = 0; i < len; i++) n += s[i] != ' ' && s[i] != '.';
  return n;
}
static int32_t find(const job *j, uint8_t label) {
  for (int32_t i = 0; i < j->n; i++)
    if (j->label[i] == label) return i;
  return -1;
}
static pf_status add_label(pf_ctx *c, job *j, uint8_t label) {
  if (find(j, label) >= 0) return PF_OK;
  if (j->n >= MAX_LABELS) return PF_INVALID(c, "more than %d labels", MAX_LABELS);
  j->label[j->n++] = label;
  return PF_OK;
}
/* strides and sizes of operand `in`, whose term is t; ellipsis dimensions count from the right */
static pf_status bind(pf_ctx *c, job *j, int32_t in, const term *t, int32_t shift) {
  const DLTensor *x = c->in[in];
  int64_t stride[PF_MAX_DIMS];
  pf_row_major(x->shape, x->ndim, stride);
  for (int32_t d = 0; d < t->n; d++) {
    uint8_t label = t->label[d];
    if (label >= ANY) label = (uint8_t)(label + shift);
    int32_t k = find(j, label);
    int64_t size = x->shape[d];
    if (k < 0) return PF_INVALID(c, "a label of operand %d is not known", in);
    int broadcasts = label >= ANY;
    if (j->size[k] < 0 || (broadcasts && j->size[k] == 1)) j->size[k] = size;
    else if (j->size[k] != size && !(broadcasts && size == 1))
      return PF_INVALID(c,
                        "Expected dimension %" PRId64 " at axis %d of the input shaped %s but got "
                        "dimension %" PRId64,
                        j->size[k], d, PF_SHAPE(x).s, size);
    j->step[in][k] += broadcasts && size == 1 ? 0 : stride[d];
  }
  return PF_OK;
}
#define SUMS(TYPE, T, W) \
  case TYPE: { \
    W sum = 0; \
    for (int64_t i = 0; i < j->inner; i++) { \
      W v = ((const T *)j->x[0])[at[0]]; \
      if (j->inputs == 2) v *= ((const T *)j->x[1])[at[1]]; \
      sum += v; \
      STEP(j->outer, j->n, 1) \
    } \
    ((T *)j->y)[place] = (T)sum; \
    break; \
  }
/* the next combination of labels [from, to) */
#define STEP(from, to, both) \
  for (int32_t d = (to) - 1; d >= (from); d--) { \
    at[0] += j->step[0][d], at[1] += j->step[1][d]; \
    if (++count[d] < j->size[d]) break; \
    at[0] -= j->step[0][d] * j->size[d], at[1] -= j->step[1][d] * j->size[d], count[d] = 0; \
  }
static float half_at(const char *x, int32_t type, int64_t i) {
  return type == PF_FLOAT16 ? pf_from_half(((const uint16_t *)x)[i])
                            : pf_from_bf16(((const uint16_t *)x)[i]);
}
static void sum_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  int64_t at[2] = {0, 0}, count[MAX_LABELS] = {0}, left = lo, place;
  (void)worker;
  for (int32_t d = j->outer - 1; d >= 0; d--) {
    count[d] = left % j->size[d], left /= j->size[d];
    at[0] += count[d] * j->step[0][d], at[1] += count[d] * j->step[1][d];
  }
  for (int64_t o = lo; o < hi; o++) {
    place = 0;
    for (int32_t d = 0; d < j->outer; d++) place += count[d] * j->to[d];
    switch (j->type) {
      SUMS(PF_FLOAT32, float, double)
      SUMS(PF_FLOAT64, double, double)
      SUMS(PF_INT32, uint32_t, uint32_t)
      SUMS(PF_INT64, uint64_t, uint64_t)
      SUMS(PF_COMPLEX64, float _Complex, double _Complex)
      SUMS(PF_COMPLEX128, double _Complex, double _Complex)
      default: {
        double sum = 0;
        for (int64_t i = 0; i < j->inner; i++) {
          double v = half_at(j->x[0], j->type, at[0]);
          if (j->inputs == 2) v *= half_at(j->x[1], j->type, at[1]);
          sum += v;
          STEP(j->outer, j->n, 1)
        }
        float f = (float)sum;
        pf_float_to_half(j->type, &f, (uint16_t *)j->y + place, 1);
      }
    }
    STEP(0, j->outer, 1)
  }
}
static pf_status einsum(pf_ctx *c, const void *state) {
  pf_str e = ((const einsum_state *)state)->equation;
  const char *arrow = NULL, *comma = NULL, *end = e.data + e.len;
  for (const char *p = e.data; p < end; p++) {
    if (*p == '-' && p + 1 < end && p[1] == '>' && !arrow) arrow = p;
    if (*p == ',' && comma) return PF_INVALID(c, "Einsum takes one or two operands");
    if (*p == ',') comma = p;
  }
  if (!arrow || (comma && comma > arrow))
    return PF_INVALID(c, "Expecting exactly one '->' in einsum equation: %.*s",
                      (int)PF_MIN(e.len, 200), e.data);
  if (c->n_in != (comma ? 2 : 1))
    return PF_INVALID(c, "Expected %d inputs but got: %d", comma ? 2 : 1, c->n_in);
  const char *start[2] = {e.data, comma ? comma + 1 : NULL},
             *stop[2] = {comma ? comma : arrow, arrow};
  term in[2], out;
  int32_t more[2] = {0, 0}, dots, widest = 0;
  job j = {.inputs = c->n_in, .type = c->in_type[0]};
  for (int32_t i = 0; i < c->n_in; i++) {
    PF_TRY(pf_check_rank(c, c->in[i], "an operand"));
    more[i] = c->in[i]->ndim - letters(start[i], stop[i] - start[i]);
    PF_TRY(read_term(c, start[i], stop[i] - start[i], PF_MAX(more[i], 0), &in[i], &dots));
    if (in[i].n != c->in[i]->ndim || (!dots && more[i]))
      return PF_INVALID(c, "Expected input %d to have rank %d but got: %d", i,
                        letters(start[i], stop[i] - start[i]), c->in[i]->ndim);
    if (dots) widest = PF_MAX(widest, more[i]);
  }
  PF_TRY(read_term(c, arrow + 2, end - arrow - 2, widest, &out, &dots));
  for (int32_t i = 0; i < out.n; i++) PF_TRY(add_label(c, &j, out.label[i]));
  j.outer = j.n;
  for (int32_t i = 0; i < c->n_in; i++)
    for (int32_t d = 0; d < in[i].n; d++) {
      uint8_t label = in[i].label[d];
      PF_TRY(add_label(c, &j, label >= ANY ? (uint8_t)(label + widest - more[i]) : label));
    }
  for (int32_t k = 0; k < j.n; k++) j.size[k] = -1;
  for (int32_t i = 0; i < c->n_in; i++) PF_TRY(bind(c, &j, i, &in[i], widest - more[i]));
  int64_t shape[PF_MAX_DIMS], stride[PF_MAX_DIMS], inner, rows = 1;
  for (int32_t k = 0; k < j.n; k++)
    if (j.size[k] < 0) return PF_INVALID(c, "an output label is in no operand");
  for (int32_t k = 0; k < j.outer; k++)
    if (!pf_mul(rows, j.size[k], &rows)) return PF_INVALID(c, "the result has too many elements");
  for (int32_t d = 0; d < out.n; d++) shape[d] = j.size[find(&j, out.label[d])];
  int64_t work = 1;
  j.inner = 1, inner = 0;
  for (int32_t k = j.outer; k < j.n; k++) {
    if (!j.size[k]) inner = 1;
    else if (!pf_mul(j.inner, j.size[k], &j.inner))
      return PF_INVALID(c, "the sum has too many terms");
  }
  if (inner) j.inner = 0;
  DLTensor *y = pf_output_checked(c, 0, shape, out.n);
  PF_EXHAUSTED(y);
  pf_row_major(shape, out.n, stride);
  for (int32_t d = 0; d < out.n; d++) j.to[find(&j, out.label[d])] += stride[d];
  if (out.n > j.outer && pf_numel(y)) /* a repeated label: the diagonal of zeros */
    memset(PF_DATA(char, y), 0, (size_t)(pf_numel(y) * pf_type_size(j.type)));
  if (!pf_mul(rows, j.inner, &work)) return PF_INVALID(c, "the sum has too many terms");
  for (int32_t i = 0; i < c->n_in; i++) j.x[i] = PF_DATA(const char, c->in[i]);
  if (j.inputs == 1) j.x[1] = j.x[0];
  j.y = PF_DATA(char, y);
  return pf_parallel(c, rows, pf_grain(PF_MIN(j.inner * 2, PF_GRAIN)), sum_range, &j);
}

const pf_kernel *const einsum_kernels[] = {
  PF_CPU_LONG("Einsum", "T=" PF_FLOATS "|int32|int64|" PF_COMPLEX, .compute = einsum,
              .state_size = sizeof(einsum_state),
              .attrs = PF_ATTRS(PF_ATTR(einsum_state, PF_ATTR_STRING, equation))),
  NULL};
