/* segments.cu - rows added by index: UnsortedSegmentSum (the gradient of Gather), ScatterAdd,
 * ScatterSub, ScatterUpdate and their Resource forms.
 *
 * Rows with one index are linked in their order: `next` of a row is the next one with its index,
 * and `head` marks rows that no other precedes.  The thread of a head walks its chain, so that a
 * result has one writer and sums have the order of the rows: equal inputs give equal bits, without
 * atomics.  Finding `next` reads indices until it is met: n * n / 2 reads at most.
 *
 * Invariants
 *   1. An index out of range changes nothing, as in TensorFlow's GPU kernels: nothing can be raised
 *      from a kernel in flight.
 *   2. Shapes are checked before the first write.
 */
#include "launch.h"

namespace {

template <class I> struct link_rows {
  const I *index;
  int64_t *next, n;
  uint8_t *head;
  PF_BOTH void operator()(int64_t i) const {
    int64_t j = i + 1;
    while (j < n && index[j] != index[i]) j++;
    next[i] = j;
    if (j < n) head[j] = 0;
  }
};
enum { ADD, SUBTRACT, UPDATE };
typedef struct {
  const DLTensor *index, *rows;
  DLTensor *to;
  int32_t index_type, type, op;
} row_job;
template <class W> struct join_rows {
  typedef elements<W> E;
  const void *index, *rows;
  void *to;
  const int64_t *next;
  const uint8_t *head;
  int64_t n, inner, count;           /* of rows; of elements in one; of rows in `to` */
  int32_t index_type, type, op, one; /* one: all rows are the one element */
  PF_BOTH void operator()(int64_t at) const {
    int64_t i = at / inner, k = at - i * inner;
    int64_t row = elements<int64_t>::load(index, i, index_type);
    if (!head[i] || row < 0 || row >= count) return;
    W a = E::value(E::load(to, row * inner + k, type), type);
    for (int64_t j = i; j < n; j = next[j]) {
      W v = E::value(E::load(rows, one ? 0 : j * inner + k, type), type);
      a = op == UPDATE     ? v
          : op == SUBTRACT ? (W)((wraps<W>)a - (wraps<W>)v)
                           : (W)((wraps<W>)a + (wraps<W>)v);
    }
    E::store(to, row * inner + k, type, a);
  }
};
template <class W> pf_status run_rows(pf_ctx *c, const row_job &job, int64_t *next, uint8_t *head) {
  join_rows<W> f = {PF_DATA(const void, job.index), PF_DATA(const void, job.rows),
                    PF_DATA(void, job.to), next, head};
  f.n = pf_numel(job.index), f.count = job.to->shape[0];
  f.inner = product(job.to->shape, 1, job.to->ndim);
  f.index_type = job.index_type, f.type = job.type, f.op = job.op;
  f.one = job.rows->ndim == 0;
  return each(c, f.n * f.inner, f);
}
static pf_status join(pf_ctx *c, const row_job &job) {
  int64_t n = pf_numel(job.index);
  room links(c);
  if (n == 0 || pf_numel(job.to) == 0) return PF_OK;
  PF_TRY(links.take((uint64_t)n * (sizeof(int64_t) + 1)));
  int64_t *next = (int64_t *)links.data;
  uint8_t *head = (uint8_t *)(next + n);
  PF_TRY(check_cuda(c, select_device(device_of(c)), "cudaSetDevice"));
  PF_TRY(check_cuda(c, cudaMemsetAsync(head, 1, (size_t)n, stream_of(c)->cuda), "cudaMemsetAsync"));
  PF_TRY(with_index(job.index_type, [&](auto i) {
    typedef typename decltype(i)::type I;
    return each(c, n, link_rows<I>{PF_DATA(const I, job.index), next, n, head});
  }));
  if (job.type == PF_FLOAT64) return run_rows<double>(c, job, next, head);
  if (job.type == PF_FLOAT32 || is_half(job.type)) return run_rows<float>(c, job, next, head);
  return run_rows<int64_t>(c, job, next, head);
}

static pf_status unsorted_sum(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0], *ids = c->in[1];
  int64_t count, shape[MAX_DIMS + 1];
  PF_TRY(check_rank(c, x, "data"));
  PF_TRY(in_scalar(c, 2, "num_segments", &count));
  if (count < 0)
    return INVALID(c, "Input num_segments == %" PRId64 " must not be negative.", count);
  if (ids->ndim > x->ndim || !same_dims(ids->shape, ids->ndim, x->shape, ids->ndim))
    return INVALID(c, "data.shape = %s does not start with segment_ids.shape = %s", SHAPE(x),
                   SHAPE(ids));
  int32_t nd = x->ndim - ids->ndim + 1;
  shape[0] = count;
  for (int32_t i = 1; i < nd; i++) shape[i] = x->shape[ids->ndim + i - 1];
  DLTensor *y = output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  DLTensor rows = *x;
  int64_t scalar = 1; /* one index and one element: not a broadcast row */
  if (rows.ndim == 0) rows.ndim = 1, rows.shape = &scalar;
  PF_TRY(fill_zero(c, y, pf_numel(y) * type_size(c->out_type[0])));
  return join(c, row_job{ids, &rows, y, c->in_type[1], c->in_type[0], ADD});
}

static pf_status check_scatter(pf_ctx *c, const DLTensor *var) {
  const DLTensor *index = c->in[1], *rows = c->in[2];
  if (var->ndim < 1) return INVALID(c, "params must be at least 1-D, got shape %s", SHAPE(var));
  bool ok = rows->ndim == index->ndim + var->ndim - 1;
  for (int32_t d = 0; ok && d < rows->ndim; d++)
    ok = rows->shape[d] == (d < index->ndim ? index->shape[d] : var->shape[d - index->ndim + 1]);
  if (ok || rows->ndim == 0) return PF_OK;
  return INVALID(c,
                 "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = "
                 "[], got updates.shape %s, indices.shape %s, params.shape %s",
                 SHAPE(rows), SHAPE(index), SHAPE(var));
}
template <int op> pf_status scatter(pf_ctx *c, const void *) {
  pf_var lock = {0, PF_VAR_UPDATE};
  PF_TRY(c->host->var_lock(c, &lock, 1));
  DLTensor *var = c->host->var_get(c, 0);
  PF_EXHAUSTED(var);
  PF_TRY(check_scatter(c, var));
  PF_TRY(join(c, row_job{c->in[1], c->in[2], var, c->in_type[1], c->in_type[2], op}));
  return c->n_out ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}

#define BY_INDEX ", Tindices=int32|int64"
#define SCATTER(NAME, OP)                                                              \
  GPU("Scatter" NAME, "T=" T_WIDE "|int32" BY_INDEX, SAME, .compute = scatter<OP>),    \
      GPU("ResourceScatter" NAME, "dtype=" T_WIDE "|int32" BY_INDEX, SAME,             \
          .compute = scatter<OP>)
static constexpr arg_list sum_args({HOST_IN("num_segments")});
static const pf_kernel table[] = {
  GPU("UnsortedSegmentSum", "T=" T_WIDE BY_INDEX, SAME, .args = sum_args.at,
      .compute = unsorted_sum),
  SCATTER("Add", ADD),
  SCATTER("Sub", SUBTRACT),
  SCATTER("Update", UPDATE),
};
} // namespace
KERNELS(segments_kernels, table)
