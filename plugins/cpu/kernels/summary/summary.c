/* summary.c - ScalarSummary, HistogramSummary, TensorSummary, TensorSummaryV2, MergeSummary: values
 * as Summary messages.
 *
 * Invariants
 *   1. The bytes are those of TensorFlow's kernels for the same values.
 *   2. Messages that come in are read with checked lengths; what is none fails the step.
 * Threads: one.
 */
#include <float.h>
#include <stdlib.h>
#include "summary/proto.h"

enum { TAG = 1, SIMPLE_VALUE = 2, HISTO = 5, TENSOR = 8, METADATA = 9 }; /* of Summary.Value */

static double number_at(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) {
#define REAL(TYPE, T, TAG_) case TYPE: return (double)PF_DATA(const T, t)[i];
    PF_EACH_REAL(REAL)
    case PF_FLOAT16: return (double)pf_from_half(PF_DATA(const uint16_t, t)[i]);
    case PF_BFLOAT16: return (double)pf_from_bf16(PF_DATA(const uint16_t, t)[i]);
    default: return 0;
  }
}
static float float_at(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) { /* straight to float: not rounded twice */
    case PF_INT64: return (float)PF_DATA(const int64_t, t)[i];
    case PF_UINT64: return (float)PF_DATA(const uint64_t, t)[i];
    default: return (float)number_at(t, type, i);
  }
}

/* ---------------------------------------------------------------- ScalarSummary */
static pf_status scalar(pf_ctx *c, const void *state) {
  const DLTensor *tags = c->in[0], *values = c->in[1];
  pf_bytes summary = {0};
  pf_str tag;
  (void)state;
  if (!pf_same_shape(tags, values))
    return PF_INVALID(c, "tags and values not the same shape: %s != %s", PF_SHAPE(tags).s,
                      PF_SHAPE(values).s);
  for (int64_t i = 0, n = pf_numel(tags); i < n; i++) {
    pf_bytes value = {0};
    pf_status st = c->host->str_get(tags, i, &tag);
    if (st) {
      pf_bytes_free(&summary);
      return st;
    }
    pb_text(&value, TAG, tag.data, tag.len);
    pb_float_always(&value, SIMPLE_VALUE, float_at(values, c->in_type[1], i));
    pb_message(&summary, 1, &value);
  }
  return pb_done(c, &summary);
}

/* ---------------------------------------------------------------- HistogramSummary */
/* TensorFlow's buckets: limits grow by a tenth from 1e-12 to 1e20, on both sides of zero. */
enum { MOST_LIMITS = 2048 };
typedef struct {
  double limits[MOST_LIMITS], counts[MOST_LIMITS], min, max, num, sum, squares;
  int n;
} histogram;

static void start_histogram(histogram *h) {
  int half = 0, n;
  for (double v = 1e-12; v < 1e20; v *= 1.1) half++;
  n = 2 * (half + 1) + 1; /* with the largest number on both ends, and zero */
  h->n = n;
  h->limits[half + 1] = 0;
  double v = 1e-12;
  for (int i = 0; i < half; i++, v *= 1.1) h->limits[half + 2 + i] = v, h->limits[half - i] = -v;
  h->limits[0] = -DBL_MAX, h->limits[n - 1] = DBL_MAX;
  memset(h->counts, 0, sizeof h->counts);
  h->min = DBL_MAX, h->max = -DBL_MAX;
  h->num = h->sum = h->squares = 0;
}
static void add_to_histogram(histogram *h, double v) {
  int low = 0, high = h->n; /* the first limit beyond v */
  while (low < high) {
    int middle = (low + high) / 2;
    if (h->limits[middle] > v) high = middle;
    else low = middle + 1;
  }
  h->counts[PF_MIN(low, h->n - 1)] += 1;
  h->min = v < h->min ? v : h->min;
  h->max = v > h->max ? v : h->max;
  h->num += 1, h->sum += v, h->squares += v * v;
}
/* runs of empty buckets become one */
static void put_histogram(pf_bytes *b, const histogram *h) {
  pf_bytes limits = {0}, counts = {0};
  for (int i = 0; i < h->n;) {
    double end = h->limits[i], count = h->counts[i];
    i++;
    if (count <= 0)
      for (; i < h->n && h->counts[i] <= 0; i++) end = h->limits[i], count = h->counts[i];
    pf_bytes_add(&limits, (const char *)&end, 8);
    pf_bytes_add(&counts, (const char *)&count, 8);
  }
  pb_double(b, 1, h->min), pb_double(b, 2, h->max), pb_double(b, 3, h->num);
  pb_double(b, 4, h->sum), pb_double(b, 5, h->squares);
  pb_message(b, 6, &limits);
  pb_message(b, 7, &counts);
}
static pf_status fill_histogram(pf_ctx *c, histogram *h) {
  const DLTensor *x = c->in[1];
  pf_str name = c->host->node_name(c);
  start_histogram(h);
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    double v = number_at(x, c->in_type[1], i);
    if (isnan(v))
      return PF_INVALID(c, "Nan in summary histogram for: %.*s", (int)name.len, name.data);
    if (isinf(v))
      return PF_INVALID(c, "Infinity in summary histogram for: %.*s", (int)name.len, name.data);
    add_to_histogram(h, v);
    if ((i & 0xffff) == 0xffff && c->host->cancelled(c)) return PF_CANCELLED;
  }
  return PF_OK;
}
static pf_status histogram_summary(pf_ctx *c, const void *state) {
  pf_bytes summary = {0}, value = {0}, made = {0};
  pf_str tag;
  (void)state;
  PF_TRY(pb_tag_input(c, 0, "tags", &tag));
  histogram *h = malloc(sizeof *h);
  if (!h) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a histogram");
  pf_status st = fill_histogram(c, h);
  if (st == PF_OK) {
    put_histogram(&made, h);
    pb_text(&value, TAG, tag.data, tag.len);
    pb_message(&value, HISTO, &made);
    pb_message(&summary, 1, &value);
    st = pb_done(c, &summary);
  }
  free(h);
  return st;
}

/* ---------------------------------------------------------------- TensorSummary */
static void put_shape(pf_bytes *b, const DLTensor *t) {
  pf_bytes shape = {0};
  for (int32_t d = 0; d < t->ndim; d++) {
    pf_bytes dim = {0};
    pb_int(&dim, 1, t->shape[d]);
    pb_message(&shape, 2, &dim);
  }
  pb_message(b, 2, &shape);
}
/* a TensorProto: numbers as tensor_content, strings one by one */
static pf_status put_tensor(pf_ctx *c, pf_bytes *b, int32_t in) {
  const DLTensor *t = c->in[in];
  int32_t type = c->in_type[in];
  int64_t n = pf_numel(t), bytes = pf_type_size(type);
  pf_str s;
  pb_int(b, 1, type);
  put_shape(b, t);
  if (type == PF_STRING) {
    for (int64_t i = 0; i < n; i++) {
      PF_TRY(c->host->str_get(t, i, &s));
      pb_bytes(b, 8, s.data, s.len);
    }
    return PF_OK;
  }
  if (!bytes || !pf_mul(n, bytes, &bytes))
    return PF_INVALID(c, "a tensor of %s cannot be a summary", pf_type_name(type));
  pb_text(b, 4, PF_DATA(const char, t), bytes);
  return PF_OK;
}
static pf_status is_message(pf_ctx *c, pf_str s, const char *what) {
  pb_field f;
  int64_t at = 0;
  int more;
  while ((more = pb_next(s.data, s.len, &at, &f)) == 1) continue;
  return more == 0 ? PF_OK : PF_INVALID(c, "%s is not a serialized message", what);
}
static pf_status tensor_summary(pf_ctx *c, pf_str tag, int32_t in, pf_str metadata) {
  pf_bytes summary = {0}, value = {0}, made = {0};
  pf_status st = put_tensor(c, &made, in);
  if (st) {
    pf_bytes_free(&made);
    return st;
  }
  pb_text(&value, TAG, tag.data, tag.len);
  if (!tag.len) { /* the older op: node_name = 7 */
    pf_str name = c->host->node_name(c);
    pb_text(&value, 7, name.data, name.len);
  }
  pb_message(&value, TENSOR, &made);
  if (metadata.data) pb_bytes(&value, METADATA, metadata.data, metadata.len);
  pb_message(&summary, 1, &value);
  return pb_done(c, &summary);
}
static pf_status tensor_v2(pf_ctx *c, const void *state) {
  pf_str tag, metadata;
  (void)state;
  PF_TRY(pb_tag_input(c, 0, "tag", &tag));
  PF_TRY(pb_tag_input(c, 2, "serialized_summary_metadata", &metadata));
  PF_TRY(is_message(c, metadata, "serialized_summary_metadata"));
  return tensor_summary(c, tag, 1, metadata.data ? metadata : (pf_str){"", 0});
}
static pf_status tensor_v1(pf_ctx *c, const void *state) {
  (void)state;
  return tensor_summary(c, (pf_str){NULL, 0}, 0, (pf_str){NULL, 0});
}

/* ---------------------------------------------------------------- MergeSummary */
typedef struct {
  pf_str *tags;
  int64_t n, room;
} seen_tags;

static int by_text(const void *a, const void *b) {
  const pf_str *x = a, *y = b;
  int way = memcmp(x->data, y->data, (size_t)PF_MIN(x->len, y->len));
  return way ? way : (x->len > y->len) - (x->len < y->len);
}
static pf_status note_tag(pf_ctx *c, seen_tags *seen, pb_field value) {
  pb_field f;
  int64_t at = 0;
  int more;
  while ((more = pb_next(value.data, value.n, &at, &f)) == 1) {
    if (f.number != TAG || f.wire != PB_LENGTH || !f.n) continue;
    if (seen->n == seen->room) {
      int64_t room = 2 * seen->room + 16;
      pf_str *tags = realloc(seen->tags, (size_t)room * sizeof *tags);
      if (!tags) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the tags of a summary");
      seen->tags = tags, seen->room = room;
    }
    seen->tags[seen->n++] = (pf_str){f.data, f.n};
  }
  return more == 0 ? PF_OK : PF_INVALID(c, "Could not parse one of the summary inputs");
}
static pf_status add_summary(pf_ctx *c, pf_bytes *b, seen_tags *seen, pf_str s) {
  pb_field f;
  int64_t at = 0;
  int more;
  while ((more = pb_next(s.data, s.len, &at, &f)) == 1)
    if (f.number == 1 && f.wire == PB_LENGTH) PF_TRY(note_tag(c, seen, f));
  if (more < 0) return PF_INVALID(c, "Could not parse one of the summary inputs");
  pf_bytes_add(b, s.data, s.len); /* messages one after the other are their merger */
  return PF_OK;
}
static pf_status check_tags(pf_ctx *c, seen_tags *seen) {
  if (seen->n > 1) qsort(seen->tags, (size_t)seen->n, sizeof *seen->tags, by_text);
  for (int64_t i = 1; i < seen->n; i++)
    if (!by_text(seen->tags + i - 1, seen->tags + i))
      return PF_INVALID(c, "Duplicate tag %.*s found in summary inputs",
                        (int)PF_MIN(seen->tags[i].len, 400), seen->tags[i].data);
  return PF_OK;
}
static pf_status merge(pf_ctx *c, const void *state) {
  pf_bytes summary = {0};
  seen_tags seen = {0};
  pf_status st = PF_OK;
  pf_str s;
  (void)state;
  for (int32_t k = 0; k < c->n_in && st == PF_OK; k++)
    for (int64_t i = 0, n = pf_numel(c->in[k]); i < n && st == PF_OK; i++) {
      st = c->host->str_get(c->in[k], i, &s);
      if (st == PF_OK) st = add_summary(c, &summary, &seen, s);
    }
  if (st == PF_OK) st = check_tags(c, &seen);
  free(seen.tags);
  if (st == PF_OK) return pb_done(c, &summary);
  pf_bytes_free(&summary);
  return st;
}

const pf_kernel *const summary_kernels[] = {
  PF_CPU("ScalarSummary", "T=" PF_REAL, .compute = scalar),
  PF_CPU("HistogramSummary", "T=" PF_REAL, .compute = histogram_summary),
  PF_CPU("TensorSummary", NULL, .compute = tensor_v1),
  PF_CPU("TensorSummaryV2", NULL, .compute = tensor_v2),
  PF_CPU("MergeSummary", NULL, .compute = merge),
  NULL};
