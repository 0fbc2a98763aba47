/* nms.c - NonMaxSuppression, V2 to V5, NonMaxSuppressionWithOverlaps, CombinedNonMaxSuppression.
 *
 * Method: candidates leave a heap by score, ties by index.  Each is compared with the boxes chosen
 * since it was last looked at, newest first.  Too much overlap (intersection over union above the
 * threshold) drops it; with soft_nms_sigma > 0 it lowers the score by exp(-overlap^2 / (2 sigma))
 * and the candidate goes back to the heap.
 *
 * Invariants: the heap holds each candidate at most once; NaN scores are never above a threshold.
 * Threads: CombinedNonMaxSuppression runs images in parallel, everything else on one thread.
 */
#include "base/common.h"
#include <stdlib.h>

enum { MOST_PADDED = 1 << 26 }; /* boxes an output is padded to */
typedef struct {
  float score;
  int32_t box, seen;
} candidate;
typedef struct {
  const float *boxes; /* [n, 4], or NULL: overlaps [n, n] */
  const float *overlaps, *scores;
  int64_t n, stride;  /* boxes; floats from a score to the next */
  int64_t box_stride; /* floats from a box to the next */
  int64_t most;       /* boxes to choose */
  float overlap, score, sigma;
} query;

static int before(const candidate *a, const candidate *b) {
  return a->score > b->score || (a->score == b->score && a->box < b->box);
}
static void sift_down(candidate *heap, int64_t n, int64_t i) {
  candidate x = heap[i];
  for (int64_t k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && before(&heap[k + 1], &heap[k])) k++;
    if (!before(&heap[k], &x)) break;
    heap[i] = heap[k];
  }
  heap[i] = x;
}

static float overlap_of(const query *q, int64_t i, int64_t j) {
  if (!q->boxes) return q->overlaps[i * q->n + j];
  const float *a = q->boxes + i * q->box_stride, *b = q->boxes + j * q->box_stride;
  float ay0 = PF_MIN(a[0], a[2]), ay1 = PF_MAX(a[0], a[2]), ax0 = PF_MIN(a[1], a[3]);
  float ax1 = PF_MAX(a[1], a[3]), by0 = PF_MIN(b[0], b[2]), by1 = PF_MAX(b[0], b[2]);
  float bx0 = PF_MIN(b[1], b[3]), bx1 = PF_MAX(b[1], b[3]);
  float area_a = (ay1 - ay0) * (ax1 - ax0), area_b = (by1 - by0) * (bx1 - bx0);
  if (area_a <= 0 || area_b <= 0) return 0;
  float h = PF_MIN(ay1, by1) - PF_MAX(ay0, by0), w = PF_MIN(ax1, bx1) - PF_MAX(ax0, bx0);
  float both = PF_MAX(h, 0) * PF_MAX(w, 0);
  return both / (area_a + area_b - both);
}

/* lowers x->score by the boxes chosen since; 0: it overlaps too much */
static int survives(const query *q, candidate *x, const candidate *chosen, int64_t n) {
  float scale = q->sigma > 0 ? -0.5f / q->sigma : 0;
  for (int64_t k = n - 1; k >= x->seen; k--) {
    float overlap = overlap_of(q, x->box, chosen[k].box);
    if (q->sigma > 0) {
      x->score *= expf(scale * overlap * overlap);
      if (x->score <= q->score) break;
    } else if (overlap > q->overlap) return 0;
  }
  return 1;
}

/* chosen boxes, best first, to `chosen` (room for min(most, n)); heap has room for n */
static int64_t choose(const query *q, candidate *heap, candidate *chosen) {
  int64_t n = 0, found = 0;
  for (int64_t i = 0; i < q->n; i++)
    if (q->scores[i * q->stride] > q->score)
      heap[n++] = (candidate){q->scores[i * q->stride], (int32_t)i, 0};
  for (int64_t i = n / 2; i-- > 0;) sift_down(heap, n, i);
  while (n && found < q->most) {
    candidate x = heap[0];
    float was = x.score;
    int kept = survives(q, &x, chosen, found);
    x.seen = (int32_t)found;
    int again = kept && x.score != was && x.score > q->score;
    if (kept && x.score == was) chosen[found++] = x;
    if (again) heap[0] = x;
    else heap[0] = heap[--n];
    if (n) sift_down(heap, n, 0);
  }
  return found;
}

/* ---------------------------------------------------------------- inputs */
/* a float or half tensor as floats */
static pf_status floats_of(pf_ctx *c, int32_t in, const float **out) {
  const DLTensor *t = c->in[in];
  *out = PF_DATA(const float, t);
  if (!pf_is_half(c->in_type[in])) return PF_OK;
  float *wide = c->host->scratch(c, (uint64_t)pf_numel(t) * 4 + 4, 64);
  if (!wide) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
  pf_half_to_float(c->in_type[in], PF_DATA(const void, t), wide, pf_numel(t));
  *out = wide;
  return PF_OK;
}
static pf_status threshold_of(pf_ctx *c, int32_t in, const char *name, float *out) {
  const float *x;
  if (c->in[in]->ndim != 0)
    return PF_INVALID(c, "%s must be 0-D, got shape %s", name, PF_SHAPE(c->in[in]).s);
  PF_TRY(floats_of(c, in, &x));
  *out = x[0];
  return PF_OK;
}
static pf_status fraction(pf_ctx *c, float x, const char *name) {
  if (x >= 0 && x <= 1) return PF_OK;
  return PF_INVALID(c, "%s must be in [0, 1], got %g", name, (double)x);
}
static pf_status count_of(pf_ctx *c, int32_t in, const char *name, int64_t *out) {
  const DLTensor *t = c->in[in];
  if (t->ndim != 0) return PF_INVALID(c, "%s must be 0-D, got shape %s", name, PF_SHAPE(t).s);
  *out = PF_DATA(const int32_t, t)[0];
  if (*out < 0) return PF_INVALID(c, "%s must be >= 0, got %" PRId64, name, *out);
  return PF_OK;
}
static pf_status query_of(pf_ctx *c, query *q) {
  const DLTensor *boxes = c->in[0], *scores = c->in[1];
  if (boxes->ndim != 2) return PF_INVALID(c, "boxes must be 2-D, got %s", PF_SHAPE(boxes).s);
  if (boxes->shape[1] != 4)
    return PF_INVALID(c, "boxes must have 4 columns, got %s", PF_SHAPE(boxes).s);
  if (boxes->shape[0] > INT32_MAX) return PF_INVALID(c, "at most 2^31-1 boxes are supported");
  if (scores->ndim != 1 || scores->shape[0] != boxes->shape[0])
    return PF_INVALID(c, "scores has incompatible shape %s, boxes are %s", PF_SHAPE(scores).s,
                      PF_SHAPE(boxes).s);
  *q = (query){
    .n = boxes->shape[0], .stride = 1, .box_stride = 4, .score = -INFINITY, .overlap = 0.5f};
  PF_TRY(floats_of(c, 0, &q->boxes));
  PF_TRY(floats_of(c, 1, &q->scores));
  return count_of(c, 2, "max_output_size", &q->most);
}

static pf_status run(pf_ctx *c, const query *q, candidate **chosen, int64_t *n) {
  candidate *heap = c->host->scratch(c, (uint64_t)(q->n + 1) * sizeof(candidate), 64);
  *chosen = c->host->scratch(c, (uint64_t)(PF_MIN(q->most, q->n) + 1) * sizeof(candidate), 64);
  if (!heap || !*chosen) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for candidates");
  *n = choose(q, heap, *chosen);
  return PF_OK;
}
/* output 0: the indices, with zeros up to `size` */
static pf_status give_indices(pf_ctx *c, const candidate *chosen, int64_t n, int64_t size) {
  if (size > MOST_PADDED && size > n)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                    "padding %" PRId64 " boxes to max_output_size %" PRId64 " is more than %d", n,
                    size, MOST_PADDED);
  DLTensor *y = pf_output_checked(c, 0, &size, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < size; i++) PF_DATA(int32_t, y)[i] = i < n ? chosen[i].box : 0;
  return PF_OK;
}
static pf_status give_count(pf_ctx *c, int32_t out, int64_t n) {
  DLTensor *y = c->host->output(c, out, NULL, 0);
  PF_EXHAUSTED(y);
  PF_DATA(int32_t, y)[0] = (int32_t)n;
  return PF_OK;
}

/* ---------------------------------------------------------------- the ops */
typedef struct {
  double iou;
  int32_t pad, clip;
} nms_state;
static pf_status indices_only(pf_ctx *c, const query *q) {
  candidate *chosen;
  int64_t n;
  PF_TRY(fraction(c, q->overlap, "iou_threshold"));
  PF_TRY(run(c, q, &chosen, &n));
  return give_indices(c, chosen, n, n);
}
static pf_status nms_v1(pf_ctx *c, const void *state) {
  query q;
  PF_TRY(query_of(c, &q));
  q.overlap = (float)((const nms_state *)state)->iou;
  return indices_only(c, &q);
}
static pf_status nms_v2(pf_ctx *c, const void *state) {
  query q;
  PF_TRY(query_of(c, &q));
  PF_TRY(threshold_of(c, 3, "iou_threshold", &q.overlap));
  return indices_only(c, &q);
}
static pf_status nms_v3(pf_ctx *c, const void *state) {
  query q;
  PF_TRY(query_of(c, &q));
  PF_TRY(threshold_of(c, 3, "iou_threshold", &q.overlap));
  PF_TRY(threshold_of(c, 4, "score_threshold", &q.score));
  return indices_only(c, &q);
}
static pf_status nms_v4(pf_ctx *c, const void *state) {
  query q;
  candidate *chosen;
  int64_t n;
  PF_TRY(query_of(c, &q));
  PF_TRY(threshold_of(c, 3, "iou_threshold", &q.overlap));
  PF_TRY(threshold_of(c, 4, "score_threshold", &q.score));
  PF_TRY(fraction(c, q.overlap, "iou_threshold"));
  PF_TRY(run(c, &q, &chosen, &n));
  PF_TRY(give_indices(c, chosen, n, ((const nms_state *)state)->pad ? q.most : n));
  return give_count(c, 1, n);
}
static pf_status nms_v5(pf_ctx *c, const void *state) {
  query q;
  candidate *chosen;
  int64_t n;
  PF_TRY(query_of(c, &q));
  PF_TRY(threshold_of(c, 3, "iou_threshold", &q.overlap));
  PF_TRY(threshold_of(c, 4, "score_threshold", &q.score));
  PF_TRY(threshold_of(c, 5, "soft_nms_sigma", &q.sigma));
  PF_TRY(fraction(c, q.overlap, "iou_threshold"));
  if (!(q.sigma >= 0)) return PF_INVALID(c, "soft_nms_sigma must be >= 0, got %g", (double)q.sigma);
  PF_TRY(run(c, &q, &chosen, &n));
  int64_t size = ((const nms_state *)state)->pad ? q.most : n;
  PF_TRY(give_indices(c, chosen, n, size));
  DLTensor *scores = c->host->output(c, 1, &size, 1);
  PF_EXHAUSTED(scores);
  for (int64_t i = 0; i < size; i++) {
    float score = i < n ? chosen[i].score : 0;
    if (c->in_type[1] == PF_FLOAT16) PF_DATA(uint16_t, scores)[i] = pf_to_half(score);
    else PF_DATA(float, scores)[i] = score;
  }
  return give_count(c, 2, n);
}
static pf_status nms_overlaps(pf_ctx *c, const void *state) {
  const DLTensor *overlaps = c->in[0], *scores = c->in[1];
  query q = {.overlaps = PF_DATA(const float, overlaps),
             .stride = 1,
             .scores = PF_DATA(const float, scores)};
  candidate *chosen;
  int64_t n;
  if (overlaps->ndim != 2 || overlaps->shape[0] != overlaps->shape[1])
    return PF_INVALID(c, "overlaps must be square, got shape %s", PF_SHAPE(overlaps).s);
  q.n = overlaps->shape[0];
  if (scores->ndim != 1 || scores->shape[0] != q.n)
    return PF_INVALID(c, "scores has incompatible shape %s, overlaps are %s", PF_SHAPE(scores).s,
                      PF_SHAPE(overlaps).s);
  PF_TRY(count_of(c, 2, "max_output_size", &q.most));
  PF_TRY(threshold_of(c, 3, "overlap_threshold", &q.overlap));
  PF_TRY(threshold_of(c, 4, "score_threshold", &q.score));
  PF_TRY(run(c, &q, &chosen, &n));
  return give_indices(c, chosen, n, n);
}

/* ---------------------------------------------------------------- per class */
typedef struct {
  float score;
  int32_t box, class_;
  int64_t order;
} detection;
typedef struct {
  const float *boxes, *scores;
  int64_t n, q, classes, most, size; /* boxes, box sets (1 or classes) */
  float overlap, score;
  int clip;
  float *out_boxes, *out_scores, *out_classes;
  int32_t *valid;
  candidate *heap, *chosen; /* per worker */
  detection *all;
  int64_t room;
} combined;

static int by_score(const void *a, const void *b) {
  const detection *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}
static void combine_images(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const combined *j = arg;
  candidate *heap = j->heap + worker * (j->n + 1), *chosen = j->chosen + worker * (j->n + 1);
  detection *all = j->all + worker * (j->room + 1);
  for (int64_t b = lo; b < hi; b++) {
    int64_t total = 0;
    for (int64_t k = 0; k < j->classes; k++) {
      query q = {.boxes = j->boxes + (b * j->n * j->q + (j->q > 1 ? k : 0)) * 4,
                 .scores = j->scores + b * j->n * j->classes + k,
                 .n = j->n,
                 .stride = j->classes,
                 .box_stride = 4 * j->q,
                 .most = PF_MIN(j->most, j->n),
                 .overlap = j->overlap,
                 .score = j->score};
      int64_t n = choose(&q, heap, chosen);
      for (int64_t i = 0; i < n; i++, total++)
        all[total] = (detection){chosen[i].score, chosen[i].box, (int32_t)k, total};
    }
    qsort(all, (size_t)total, sizeof *all, by_score);
    total = PF_MIN(total, j->size);
    j->valid[b] = (int32_t)total;
    for (int64_t i = 0; i < j->size; i++) {
      const detection *d = i < total ? all + i : NULL;
      const float *box =
          d ? j->boxes + ((b * j->n + d->box) * j->q + (j->q > 1 ? d->class_ : 0)) * 4 : NULL;
      for (int k = 0; k < 4; k++) {
        float v = box ? box[k] : 0;
        j->out_boxes[(b * j->size + i) * 4 + k] = j->clip ? PF_MAX(PF_MIN(v, 1), 0) : v;
      }
      j->out_scores[b * j->size + i] = d ? d->score : 0;
      j->out_classes[b * j->size + i] = d ? (float)d->class_ : 0;
    }
  }
}

static pf_status combined_inputs(pf_ctx *c, combined *j) {
  const DLTensor *boxes = c->in[0], *scores = c->in[1];
  if (boxes->ndim != 4 || boxes->shape[3] != 4)
    return PF_INVALID(c, "boxes must be [batch, boxes, q, 4], got shape %s", PF_SHAPE(boxes).s);
  if (scores->ndim != 3 || scores->shape[0] != boxes->shape[0] ||
      scores->shape[1] != boxes->shape[1])
    return PF_INVALID(c, "scores must be [batch, boxes, classes], got shape %s beside boxes %s",
                      PF_SHAPE(scores).s, PF_SHAPE(boxes).s);
  j->n = boxes->shape[1], j->q = boxes->shape[2], j->classes = scores->shape[2];
  if (j->q != 1 && j->q != j->classes)
    return PF_INVALID(
        c, "third dimension of boxes must be either 1 or num classes %" PRId64 ", got shape %s",
        j->classes, PF_SHAPE(boxes).s);
  if (j->n > INT32_MAX || j->classes > INT32_MAX) return PF_INVALID(c, "too many boxes");
  PF_TRY(count_of(c, 2, "max_size_per_class", &j->most));
  PF_TRY(count_of(c, 3, "max_total_size", &j->size));
  if (j->most == 0 || j->size == 0)
    return PF_INVALID(c, "max_size_per_class and max_total_size must be > 0");
  PF_TRY(threshold_of(c, 4, "iou_threshold", &j->overlap));
  PF_TRY(threshold_of(c, 5, "score_threshold", &j->score));
  return fraction(c, j->overlap, "iou_threshold");
}
static pf_status nms_combined(pf_ctx *c, const void *state) {
  const nms_state *s = state;
  combined j = {.boxes = PF_DATA(const float, c->in[0]),
                .scores = PF_DATA(const float, c->in[1]),
                .clip = s->clip};
  PF_TRY(combined_inputs(c, &j));
  int64_t batch = c->in[0]->shape[0], workers = c->host->workers(c);
  j.room = PF_MIN(j.most, j.n) * j.classes;
  if (s->pad) {
    int64_t per;
    if (pf_mul(j.most, j.classes, &per)) j.size = PF_MIN(j.size, per);
  }
  int64_t padded;
  if (!pf_mul(j.size, PF_MAX(batch, 1), &padded) || padded > MOST_PADDED)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                    "padding %" PRId64 " images to %" PRId64 " boxes each is more than %d", batch,
                    j.size, MOST_PADDED);
  DLTensor *out[4];
  out[0] = pf_output_checked(c, 0, (int64_t[]){batch, j.size, 4}, 3);
  out[1] = out[0] ? pf_output_checked(c, 1, (int64_t[]){batch, j.size}, 2) : NULL;
  out[2] = out[1] ? pf_output_checked(c, 2, (int64_t[]){batch, j.size}, 2) : NULL;
  out[3] = out[2] ? pf_output_checked(c, 3, &batch, 1) : NULL;
  PF_EXHAUSTED(out[3]);
  j.out_boxes = PF_DATA(float, out[0]), j.out_scores = PF_DATA(float, out[1]);
  j.out_classes = PF_DATA(float, out[2]), j.valid = PF_DATA(int32_t, out[3]);
  uint64_t each = (uint64_t)(workers * (j.n + 1));
  j.heap = c->host->scratch(c, each * sizeof(candidate), 64);
  j.chosen = c->host->scratch(c, each * sizeof(candidate), 64);
  j.all = c->host->scratch(c, (uint64_t)(workers * (j.room + 1)) * sizeof(detection), 64);
  if (!j.heap || !j.chosen || !j.all)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for candidates");
  return pf_parallel(c, batch, 1, combine_images, &j);
}

#define TYPES "T=half|float, T_threshold=half|float"
#define FIELD(name_, kind, field) PF_REF(pf_attr, name_, kind, offsetof(nms_state, field))
#define PADDED .state_size = sizeof(nms_state), \
  .attrs = PF_ATTRS(FIELD("pad_to_max_output_size", PF_ATTR_BOOL, pad))
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
const pf_kernel *const nms_kernels[] = {
  PF_CPU_FLAGS("NonMaxSuppression", NULL, FLAGS, .compute = nms_v1, .state_size = sizeof(nms_state),
               .attrs = PF_ATTRS(FIELD("iou_threshold", PF_ATTR_FLOAT, iou))),
  PF_CPU_FLAGS("NonMaxSuppressionV2", TYPES, FLAGS, .compute = nms_v2),
  PF_CPU_FLAGS("NonMaxSuppressionV3", TYPES, FLAGS, .compute = nms_v3),
  PF_CPU_FLAGS("NonMaxSuppressionV4", TYPES, FLAGS, .compute = nms_v4, PADDED),
  PF_CPU_FLAGS("NonMaxSuppressionV5", "T=half|float", FLAGS, .compute = nms_v5, PADDED),
  PF_CPU_FLAGS("NonMaxSuppressionWithOverlaps", NULL, FLAGS, .compute = nms_overlaps),
  PF_CPU_FLAGS("CombinedNonMaxSuppression", NULL, FLAGS, .compute = nms_combined,
               .state_size = sizeof(nms_state),
               .attrs = PF_ATTRS(FIELD("pad_per_class", PF_ATTR_BOOL, pad),
                                 FIELD("clip_boxes", PF_ATTR_BOOL, clip))),
  NULL};
