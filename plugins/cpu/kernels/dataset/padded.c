/* padded.c - what PaddedBatchDataset does to elements of different shapes.
 *
 * A batch's tensor is filled with the padding value, then each row's lines are copied into it.
 * Threads: as dataset.h.
 */
#include "dataset/batch.h"
#include "dataset/slices.h"

ds_tensor *ds_rows_tensor(const pf_host *h, int32_t type, int64_t n, const int64_t *dims,
                          int32_t ndim) {
  int64_t shape[PF_MAX_DIMS + 1] = {n};
  if (ndim > PF_MAX_DIMS - 1) return NULL;
  memcpy(shape + 1, dims, sizeof *dims * (size_t)ndim);
  return h->tensor_new(h, NULL, PF_MEM_HOST, type, shape, ndim + 1);
}

/* Sizes of component k in the batch. */
static pf_status sizes(const ds_padding *p, const ds_row *rows, int64_t n, int32_t k, int64_t *dims,
                       ds_row *error) {
  const DLTensor *wish = &p->shapes.v[k]->dl_tensor;
  const int64_t *given = PF_DATA(const int64_t, wish);
  int32_t rank = (int32_t)pf_numel(wish);
  for (int32_t d = 0; d < rank; d++) dims[d] = given[d] < 0 ? 0 : given[d];
  for (int64_t i = 0; i < n; i++) {
    const DLTensor *t = &rows[i].v[k]->dl_tensor;
    if (t->ndim != rank)
      return ds_fail(error, PF_INVALID_ARGUMENT,
                     "All elements in a batch must have the same rank "
                     "as the padded shape for component%d: expected rank %d but got element "
                     "with rank %d",
                     k, rank, t->ndim);
    for (int32_t d = 0; d < rank; d++) {
      if (given[d] >= 0 && t->shape[d] > dims[d])
        return ds_fail(error, PF_DATA_LOSS,
                       "Attempted to pad to a smaller size than the input "
                       "element: component %d, dimension %d: %" PRId64 " to %" PRId64,
                       k, d, t->shape[d], given[d]);
      if (given[d] < 0) dims[d] = PF_MAX(dims[d], t->shape[d]);
    }
  }
  return PF_OK;
}
static pf_status fill(const pf_host *h, int32_t type, DLTensor *y, const DLTensor *value) {
  int64_t n = pf_numel(y), size = pf_type_size(type);
  for (int64_t i = 0; i < PF_MIN(n, 1) || (!size && i < n); i++)
    PF_TRY(ds_copy_rows(h, type, value, 0, y, i, 1));
  char *to = PF_DATA(char, y);
  for (int64_t done = 1; size && done < n; done *= 2)
    memcpy(to + done * size, to, (size_t)(PF_MIN(done, n - done) * size));
  return PF_OK;
}
/* The lines of `t` into the row of y that begins at element `at`. */
static pf_status put(const pf_host *h, int32_t type, const DLTensor *t, DLTensor *y, int64_t at) {
  int32_t rank = t->ndim;
  int64_t line = rank ? t->shape[rank - 1] : 1, lines = line ? pf_numel(t) / line : 0;
  for (int64_t i = 0; i < lines; i++) {
    int64_t rest = i, to = 0, stride = rank ? y->shape[rank] : 1;
    for (int32_t d = rank - 2; d >= 0; d--) {
      to += rest % t->shape[d] * stride;
      rest /= t->shape[d];
      stride *= y->shape[d + 1];
    }
    PF_TRY(ds_copy_rows(h, type, t, i * line, y, at + to, line));
  }
  return PF_OK;
}
pf_status ds_stack_padded(const dataset *of, const ds_padding *p, const ds_row *rows, int64_t n,
                          ds_row *out) {
  const pf_host *h = of->host;
  if (!ds_row_room(out, rows[0].n)) goto none;
  for (int32_t k = 0; k < rows[0].n; k++) {
    int64_t dims[PF_MAX_DIMS];
    int32_t type = of->types[k], rank = (int32_t)pf_numel(&p->shapes.v[k]->dl_tensor);
    PF_TRY(sizes(p, rows, n, k, dims, out));
    if (!(out->v[k] = ds_rows_tensor(h, type, n, dims, rank))) goto none;
    DLTensor *y = &out->v[k]->dl_tensor;
    int64_t row = pf_product(dims, 0, rank);
    if (fill(h, type, y, &p->values.v[k]->dl_tensor)) goto none;
    for (int64_t i = 0; i < n; i++)
      if (put(h, type, &rows[i].v[k]->dl_tensor, y, i * row)) goto none;
  }
  return DS_OK;
none:
  return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for a batch of %" PRId64 " elements", n);
}

pf_status ds_padding_in(pf_ctx *c, const dataset *of, int32_t first, ds_padding *out) {
  int32_t n = of->n_types;
  if (c->n_in != first + 2 * n + 1)
    return PF_INVALID(c, "%d padded shapes and values for the %d components of the dataset",
                      c->n_in - first - 1, n);
  PF_TRY(ds_keep_inputs(c, first, n, &out->shapes));
  PF_TRY(ds_keep_inputs(c, first + n, n, &out->values));
  for (int32_t k = 0; k < n; k++) {
    const DLTensor *shape = c->in[first + k], *value = c->in[first + n + k];
    if (shape->ndim != 1 || pf_numel(shape) >= PF_MAX_DIMS)
      return PF_INVALID(c, "the padded shape of component %d must be a vector, got shape %s", k,
                        PF_SHAPE(shape).s);
    for (int64_t d = 0; d < pf_numel(shape); d++)
      if (PF_DATA(const int64_t, shape)[d] < -1)
        return PF_INVALID(c, "the padded shape of component %d must have sizes >= 0, or -1", k);
    if (value->ndim != 0) return PF_INVALID(c, "All padding values must be scalars");
    if (c->host->type_of(out->values.v[k]) != of->types[k])
      return PF_INVALID(c, "the padding value of component %d is %s, its elements are %s", k,
                        pf_type_name(c->host->type_of(out->values.v[k])),
                        pf_type_name(of->types[k]));
  }
  return PF_OK;
}
