/* ctc.c - CTCLoss with its gradient, and CTCGreedyDecoder.
 *
 * Invariants
 *   1. inputs are logits [time, batch, classes]; the blank is the last class (greedy: any).
 *   2. A labelling of U labels has 2U + 1 places, blanks between and around; alpha[t][u] is the log
 *      probability of having read t + 1 frames and being at place u.  Only places from which the
 *      end can still be reached are computed.
 *   3. Sums are in double; alpha is kept for all frames of one row, at most ALPHA_BYTES.
 * Threads: parallel_for over the batch, each worker with its own alpha.
 *
 * Source: Graves et al. 2006.
 */
#include "base/common.h"

enum { ALPHA_BYTES = 1 << 30 };
typedef struct {
  int32_t T, collapse, merge, ignore_longer, merge_repeated;
  int64_t blank;
} ctc_state;

typedef struct {
  const ctc_state *s;
  pf_ctx *c;
  int64_t time, batch, classes;
  const DLTensor *x, *lengths;
  const int64_t *start; /* row b's labels begin at start[b], end at start[b + 1] */
  const int32_t *labels;
  DLTensor *loss, *grad;
  char *work;
  int64_t work_bytes; /* per worker */
} ctc;

static double at_f(const DLTensor *t, int32_t type, int64_t i) {
  return type == PF_FLOAT64 ? PF_DATA(const double, t)[i] : (double)PF_DATA(const float, t)[i];
}
static void put_f(DLTensor *t, int32_t type, int64_t i, double v) {
  if (type == PF_FLOAT64) PF_DATA(double, t)[i] = v;
  else PF_DATA(float, t)[i] = (float)v;
}
static double log_add(double a, double b) {
  if (a == -INFINITY) return b;
  if (b == -INFINITY) return a;
  return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

/* ---------------------------------------------------------------- checks */
static pf_status ctc_inputs(pf_ctx *c, int32_t lengths, ctc *p) {
  p->x = c->in[0];
  p->lengths = c->in[lengths];
  if (p->x->ndim != 3)
    return PF_INVALID(c, "inputs is not a 3-Tensor, got shape %s", PF_SHAPE(p->x).s);
  p->time = p->x->shape[0];
  p->batch = p->x->shape[1];
  p->classes = p->x->shape[2];
  if (p->classes < 1 || p->classes > INT32_MAX)
    return PF_INVALID(c, "num_classes must be at least 1 and fit int32, got %" PRId64, p->classes);
  if (p->lengths->ndim != 1 || p->lengths->shape[0] != p->batch)
    return PF_INVALID(
        c, "sequence_length must be a vector of batch_size = %" PRId64 " elements, got shape %s",
        p->batch, PF_SHAPE(p->lengths).s);
  for (int64_t b = 0; b < p->batch; b++) {
    int64_t n = PF_DATA(const int32_t, p->lengths)[b];
    if (n < 0 || n > p->time)
      return PF_INVALID(c, "sequence_length(%" PRId64 ") = %" PRId64 " is not in [0, %" PRId64 "]",
                        b, n, p->time);
  }
  return PF_OK;
}

/* Labels of each row: *start, and which of them are not the null label at the end. */
static pf_status group_labels(pf_ctx *c, ctc *p) {
  const DLTensor *at = c->in[1], *values = c->in[2];
  if (at->ndim != 2 || at->shape[1] != 2)
    return PF_INVALID(c, "labels_indices must be [n, 2], got shape %s", PF_SHAPE(at).s);
  if (values->ndim != 1 || values->shape[0] != at->shape[0])
    return PF_INVALID(c, "labels_values must be a vector of %" PRId64 " elements, got shape %s",
                      at->shape[0], PF_SHAPE(values).s);
  int64_t n = values->shape[0], b = -1;
  int64_t *start = c->host->scratch(c, (uint64_t)(p->batch + 1) * 8, 64);
  if (!start) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for labels");
  for (int64_t i = 0; i < n; i++) {
    int64_t row = PF_DATA(const int64_t, at)[2 * i];
    if (row < 0 || row >= p->batch)
      return PF_INVALID(c, "labels batch index must be between 0 and %" PRId64 ", saw: %" PRId64,
                        p->batch, row);
    if (row < b) return PF_INVALID(c, "labels_indices are out of order at %" PRId64, i);
    while (b < row) start[++b] = i;
  }
  while (b < p->batch) start[++b] = n;
  p->start = start;
  p->labels = PF_DATA(const int32_t, values);
  return PF_OK;
}

/* Row b's labels without null ones (and, if asked, repeated ones) go to `out`; their number. */
static int64_t used_labels(const ctc *p, int64_t b, int32_t *out) {
  int64_t n = 0;
  for (int64_t i = p->start[b]; i < p->start[b + 1]; i++) {
    if (p->labels[i] >= p->classes - 1) break;
    if (i > p->start[b] && p->s->collapse && p->labels[i] == p->labels[i - 1]) continue;
    if (out) out[n] = p->labels[i];
    n++;
  }
  return n;
}

static pf_status check_labels(pf_ctx *c, const ctc *p, int64_t b) {
  const int32_t *labels = p->labels;
  int64_t frames = PF_DATA(const int32_t, p->lengths)[b], n = used_labels(p, b, NULL), need = n;
  int ended = 0;
  for (int64_t i = p->start[b]; i < p->start[b + 1]; i++) {
    if (labels[i] < 0)
      return PF_INVALID(c, "All labels must be nonnegative integers, batch: %" PRId64 " label: %d",
                        b, labels[i]);
    if (labels[i] >= p->classes - 1) ended = 1;
    else if (ended)
      return PF_INVALID(c,
                        "Saw a non-null label (index >= num_classes - 1) following a null label,"
                        " batch: %" PRId64 " num_classes: %" PRId64,
                        b, p->classes);
  }
  for (int64_t i = 1; i < n && !p->s->collapse && p->s->merge; i++)
    need += labels[p->start[b] + i] == labels[p->start[b] + i - 1];
  if (p->s->ignore_longer || need <= frames) return PF_OK;
  return PF_INVALID(c,
                    "Not enough time for target transition sequence (required: %" PRId64
                    ", available: %" PRId64 ") in batch %" PRId64 ". You can turn this error into "
                    "a warning by using the flag ignore_longer_outputs_than_inputs",
                    need, frames, b);
}

/* ---------------------------------------------------------------- one row */
typedef struct {
  const ctc *p;
  int64_t b, frames, places;                 /* places: 2 labels + 1 */
  const int32_t *place;                      /* the class of each place */
  double *alpha, *log_y, *beta, *next, *sum; /* log_y: log softmax of the current frame */
} ctc_row;

static int64_t first_place(const ctc_row *r, int64_t t) {
  return PF_MAX(0, r->places - 2 * (r->frames - t));
}
static int64_t last_place(const ctc_row *r, int64_t t) { return PF_MIN(r->places, 2 * (t + 1)); }

static void log_softmax_at(const ctc_row *r, int64_t t) {
  const ctc *p = r->p;
  int64_t at = (t * p->batch + r->b) * p->classes;
  double top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < p->classes; k++) top = fmax(top, at_f(p->x, p->s->T, at + k));
  for (int64_t k = 0; k < p->classes; k++) sum += exp(at_f(p->x, p->s->T, at + k) - top);
  double norm = top + log(sum);
  for (int64_t k = 0; k < p->classes; k++) r->log_y[k] = at_f(p->x, p->s->T, at + k) - norm;
}

/* May a path go from place u to u + 2, leaving out the blank between? */
static int can_skip(const ctc_row *r, int64_t u) {
  int blank = r->place[u] == r->p->classes - 1;
  return !blank && !(r->p->s->merge && r->place[u] == r->place[u + 2]);
}
static int can_stay(const ctc_row *r, int64_t u) {
  return r->p->s->merge || r->place[u] == r->p->classes - 1;
}

static void forward_pass(const ctc_row *r) {
  for (int64_t i = 0; i < r->frames * r->places; i++) r->alpha[i] = -INFINITY;
  for (int64_t t = 0; t < r->frames; t++) {
    double *now = r->alpha + t * r->places, *before = now - r->places;
    log_softmax_at(r, t);
    int64_t from = t ? first_place(r, t) : 0, to = t ? last_place(r, t) : PF_MIN(2, r->places);
    for (int64_t u = from; u < to; u++) {
      double sum = t ? -INFINITY : 0;
      if (t && can_stay(r, u)) sum = before[u];
      if (t && u > 0) sum = log_add(sum, before[u - 1]);
      if (t && u > 1 && can_skip(r, u - 2)) sum = log_add(sum, before[u - 2]);
      now[u] = sum + r->log_y[r->place[u]];
    }
  }
}

/* beta of frame t from `next` = beta + log_y of frame t + 1. */
static void backward_step(const ctc_row *r, int64_t t) {
  for (int64_t u = 0; u < r->places; u++) r->beta[u] = -INFINITY;
  if (t == r->frames - 1) {
    for (int64_t u = PF_MAX(0, r->places - 2); u < r->places; u++) r->beta[u] = 0;
    return;
  }
  for (int64_t u = first_place(r, t); u < last_place(r, t); u++) {
    double sum = can_stay(r, u) ? r->next[u] : -INFINITY;
    if (u + 1 < r->places) sum = log_add(sum, r->next[u + 1]);
    if (u + 2 < r->places && can_skip(r, u)) sum = log_add(sum, r->next[u + 2]);
    r->beta[u] = sum;
  }
}

/* Gradient of frame t: softmax - share of each class in all paths; no path: the softmax. */
static void frame_grad(const ctc_row *r, int64_t t, double log_p) {
  const ctc *p = r->p;
  const double *alpha = r->alpha + t * r->places;
  int64_t at = (t * p->batch + r->b) * p->classes;
  for (int64_t k = 0; k < p->classes; k++) r->sum[k] = -INFINITY;
  for (int64_t u = 0; u < r->places; u++) {
    double *s = &r->sum[r->place[u]];
    *s = log_add(*s, alpha[u] + r->beta[u]);
  }
  for (int64_t k = 0; k < p->classes; k++) {
    double share = log_p == -INFINITY ? 0 : exp(r->sum[k] - log_p);
    put_f(p->grad, p->s->T, at + k, exp(r->log_y[k]) - share);
  }
}

static double loss_and_grad(const ctc_row *r) {
  forward_pass(r);
  const double *end = r->alpha + (r->frames - 1) * r->places;
  double log_p = -INFINITY;
  for (int64_t u = PF_MAX(0, r->places - 2); u < r->places; u++) log_p = log_add(log_p, end[u]);
  for (int64_t t = r->frames - 1; t >= 0; t--) {
    backward_step(r, t);
    log_softmax_at(r, t);
    frame_grad(r, t, log_p);
    for (int64_t u = 0; u < r->places; u++) r->next[u] = r->beta[u] + r->log_y[r->place[u]];
  }
  return -log_p;
}

static void run_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const ctc *p = arg;
  char *work = p->work + p->work_bytes * worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t n = used_labels(p, b, NULL), frames = PF_DATA(const int32_t, p->lengths)[b];
    put_f(p->loss, p->s->T, b, 0);
    if (frames == 0 || (p->s->ignore_longer && n > frames)) continue;
    ctc_row r = {.p = p, .b = b, .frames = frames, .places = 2 * n + 1};
    r.log_y = (double *)work;
    r.sum = r.log_y + p->classes;
    r.beta = r.sum + p->classes;
    r.next = r.beta + r.places;
    r.alpha = r.next + r.places;
    int32_t *place = (int32_t *)(r.alpha + frames * r.places);
    used_labels(p, b, place + n + 1); /* then spread to the odd places */
    for (int64_t u = 0; u < n; u++) {
      place[2 * u] = (int32_t)p->classes - 1;
      place[2 * u + 1] = place[n + 1 + u];
    }
    place[2 * n] = (int32_t)p->classes - 1;
    r.place = place;
    put_f(p->loss, p->s->T, b, loss_and_grad(&r));
  }
}

/* Bytes one worker needs: those of the longest row. */
static pf_status work_size(pf_ctx *c, ctc *p) {
  p->work_bytes = 0;
  for (int64_t b = 0; b < p->batch; b++) {
    PF_TRY(check_labels(c, p, b));
    int64_t n = used_labels(p, b, NULL), frames = PF_DATA(const int32_t, p->lengths)[b], cells;
    if (n > frames && p->s->ignore_longer) continue;
    int64_t places = 2 * n + 1;
    if (!pf_mul(frames + 4, places, &cells) || cells > ALPHA_BYTES / 8 ||
        p->classes > ALPHA_BYTES / 64)
      return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                      "CTC over %" PRId64 " frames and %" PRId64 " labels in batch %" PRId64
                      " needs too much memory",
                      frames, n, b);
    p->work_bytes = PF_MAX(p->work_bytes, (cells + 2 * p->classes) * 8 + 64);
  }
  p->work_bytes = (p->work_bytes + 63) / 64 * 64;
  return PF_OK;
}

static pf_status ctc_loss(pf_ctx *c, const void *state) {
  ctc p = {.s = state, .c = c};
  PF_TRY(ctc_inputs(c, 3, &p));
  PF_TRY(group_labels(c, &p));
  PF_TRY(work_size(c, &p));
  p.loss = c->host->output(c, 0, &p.batch, 1);
  PF_EXHAUSTED(p.loss);
  p.grad = c->host->output(c, 1, p.x->shape, 3);
  PF_EXHAUSTED(p.grad);
  int64_t n = pf_numel(p.grad);
  if (n) memset(PF_DATA(void, p.grad), 0, (size_t)(n * pf_type_size(p.s->T)));
  if (p.batch == 0) return PF_OK;
  p.work = c->host->scratch(c, (uint64_t)p.work_bytes * (uint64_t)c->host->workers(c), 64);
  if (!p.work) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for alignments");
  return pf_parallel(c, p.batch, pf_grain(p.work_bytes * 4), run_rows, &p);
}

/* ---------------------------------------------------------------- best path */
/* Classes of row b that are neither blank nor merged go to `out` (NULL: only counted). */
static int64_t best_path(const ctc *p, int64_t b, int64_t blank, int64_t *out, double *score) {
  int64_t n = 0, previous = -1;
  *score = 0;
  for (int64_t t = 0; t < PF_DATA(const int32_t, p->lengths)[b]; t++) {
    int64_t at = (t * p->batch + b) * p->classes, best = 0;
    for (int64_t k = 1; k < p->classes; k++)
      if (at_f(p->x, p->s->T, at + k) > at_f(p->x, p->s->T, at + best)) best = k;
    *score -= at_f(p->x, p->s->T, at + best);
    if (best != blank && !(p->s->merge_repeated && best == previous)) {
      if (out) out[n] = best;
      n++;
    }
    previous = best;
  }
  return n;
}

static pf_status ctc_greedy(pf_ctx *c, const void *state) {
  ctc p = {.s = state, .c = c};
  PF_TRY(ctc_inputs(c, 1, &p));
  int64_t blank = p.s->blank < 0 ? p.s->blank + p.classes : p.s->blank, total = 0, longest = 0;
  if (blank < 0 || blank >= p.classes)
    return PF_INVALID(
        c, "blank_index expected to be in range [-%" PRId64 ", %" PRId64 "), got %" PRId64,
        p.classes, p.classes, p.s->blank);
  int64_t two = 2, one[2] = {p.batch, 1};
  DLTensor *scores = c->host->output(c, 3, one, 2), *shape = c->host->output(c, 2, &two, 1);
  if (!scores || !shape) return PF_RESOURCE_EXHAUSTED;
  double score;
  for (int64_t b = 0; b < p.batch; b++) {
    int64_t n = best_path(&p, b, blank, NULL, &score);
    total += n;
    longest = PF_MAX(longest, n);
    put_f(scores, p.s->T, b, score);
  }
  PF_DATA(int64_t, shape)[0] = p.batch;
  PF_DATA(int64_t, shape)[1] = longest;
  int64_t pairs[2] = {total, 2};
  DLTensor *at = c->host->output(c, 0, pairs, 2), *values = c->host->output(c, 1, &total, 1);
  if (!at || !values) return PF_RESOURCE_EXHAUSTED;
  int64_t done = 0;
  for (int64_t b = 0; b < p.batch && total; b++) {
    int64_t n = best_path(&p, b, blank, PF_DATA(int64_t, values) + done, &score);
    for (int64_t i = 0; i < n; i++) {
      PF_DATA(int64_t, at)[2 * (done + i)] = b;
      PF_DATA(int64_t, at)[2 * (done + i) + 1] = i;
    }
    done += n;
  }
  return PF_OK;
}

#define FIELD(name, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, kind, offsetof(ctc_state, field)})
#define ENTRY(op, fn, ...) PF_CPU_FLAGS(op, "T=float|double", \
  PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
  .attrs = PF_ATTRS(FIELD("T", PF_ATTR_TYPE, T), __VA_ARGS__), .state_size = sizeof(ctc_state), \
  .compute = fn)
const pf_kernel *const ctc_kernels[] = {
  ENTRY("CTCLoss", ctc_loss, FIELD("preprocess_collapse_repeated", PF_ATTR_BOOL, collapse),
        FIELD("ctc_merge_repeated", PF_ATTR_BOOL, merge),
        FIELD("ignore_longer_outputs_than_inputs", PF_ATTR_BOOL, ignore_longer)),
  ENTRY("CTCGreedyDecoder", ctc_greedy, FIELD("merge_repeated", PF_ATTR_BOOL, merge_repeated),
        FIELD("blank_index", PF_ATTR_INT, blank)),
  NULL};
