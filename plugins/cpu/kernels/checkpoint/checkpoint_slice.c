/* checkpoint_slice.c - slices of tensors, as shape_and_slices names them: parsed, cut and joined.
 *
 * Invariant: a slice that was parsed lies inside its shape.  Threads: any; pure but for what is
 * copied to.
 */
#include "checkpoint/checkpoint.h"

static int natural(const char **s, const char *end, int64_t *out) {
  int64_t x = 0;
  int digits = 0;
  while (*s < end && **s >= '0' && **s <= '9' && digits++ < 18) x = x * 10 + (*(*s)++ - '0');
  *out = x;
  return digits > 0 && digits < 19;
}

int ck_slice_parse(pf_str text, int32_t ndim, ck_slice *r) {
  const char *s = text.data, *end = s + text.len;
  r->whole = 1;
  for (int32_t d = 0; d < ndim; d++)
    if (!natural(&s, end, &r->dims[d]) || s == end || *s++ != ' ') return 0;
  for (int32_t d = 0; d < ndim; d++) {
    int64_t *at = r->place + 2 * d, size = r->dims[d];
    if (s < end && *s == '-') {
      at[0] = 0, at[1] = size, s++;
    } else {
      if (!natural(&s, end, &at[0]) || s == end || *s++ != ',' || !natural(&s, end, &at[1]))
        return 0;
      if (at[0] > size || at[1] > size - at[0]) return 0;
      r->whole &= at[0] == 0 && at[1] == size;
    }
    if (d + 1 < ndim && (s == end || *s++ != ':')) return 0;
  }
  int64_t n;
  return s == end && pf_shape_numel(r->dims, ndim, &n);
}

void ck_slice_all(const int64_t *dims, int32_t ndim, ck_slice *r) {
  r->whole = 1;
  for (int32_t d = 0; d < ndim; d++)
    r->dims[d] = dims[d], r->place[2 * d] = 0, r->place[2 * d + 1] = dims[d];
}

int64_t ck_overlap(int32_t ndim, const int64_t *a, const int64_t *b, int64_t *place) {
  int64_t n = 1;
  for (int32_t d = 0; d < ndim; d++) {
    int64_t lo = PF_MAX(a[2 * d], b[2 * d]);
    int64_t hi = PF_MIN(a[2 * d] + a[2 * d + 1], b[2 * d] + b[2 * d + 1]);
    place[2 * d] = lo;
    place[2 * d + 1] = PF_MAX(hi - lo, 0);
    n *= place[2 * d + 1];
  }
  return n;
}

/* Row-major index, within a region, of a point given by its coordinates in the whole tensor. */
static int64_t index_in(int32_t ndim, const int64_t *region, const int64_t *point) {
  int64_t x = 0;
  for (int32_t d = 0; d < ndim; d++) x = x * region[2 * d + 1] + point[d] - region[2 * d];
  return x;
}

static pf_status copy_run(pf_ctx *c, int32_t type, DLTensor *out, int64_t to, const ck_source *from,
                          int64_t at, int64_t run) {
  int64_t unit = pf_type_size(type);
  if (type != PF_STRING) {
    memcpy(PF_DATA(char, out) + to * unit, from->data + at * unit, (size_t)(run * unit));
    return PF_OK;
  }
  for (int64_t i = 0; i < run; i++) {
    pf_str s;
    if (from->strings) s = from->strings[at + i];
    else PF_TRY(c->host->str_get(from->tensor, at + i, &s));
    PF_TRY(c->host->str_set(out, to + i, s));
  }
  return PF_OK;
}

pf_status ck_copy_common(pf_ctx *c, int32_t type, int32_t ndim, DLTensor *out, const int64_t *to,
                         const ck_source *from, const int64_t *part, const int64_t *common) {
  int64_t point[PF_MAX_DIMS], run = ndim ? common[2 * ndim - 1] : 1;
  for (int32_t d = 0; d < ndim; d++) point[d] = common[2 * d];
  for (;;) {
    PF_TRY(
        copy_run(c, type, out, index_in(ndim, to, point), from, index_in(ndim, part, point), run));
    int32_t d = ndim - 2;
    for (; d >= 0; d--) {
      if (++point[d] < common[2 * d] + common[2 * d + 1]) break;
      point[d] = common[2 * d];
    }
    if (d < 0) return PF_OK;
  }
}
