/* ctc_beam.c - CTCBeamSearchDecoder: the most likely labellings by prefix beam search.
 *
 * Invariants
 *   1. An entry is a prefix; entries form a tree, (parent, label) is found through a hash table.
 *      newp is its probability after the frame being read, oldp before; an entry with newp.total =
 *      -inf is not in the beam.
 *   2. An entry out of the beam stays as long as one of its extensions is there (`children`), so
 *      that it is the same entry when it comes back.
 *   3. The beam is a heap whose top is its least likely entry.  At most MAX_ENTRIES live at once.
 * Threads: parallel_for over the batch; every row has its own tree.
 *
 * Source: Graves and Jaitly 2014; TF's ctc_beam_search, with its scorer left out.
 */
#include "base/common.h"
#include <stdlib.h>

enum { MAX_ENTRIES = 1 << 21, ROOT = 0, NONE = -1 };
typedef struct { double total, blank, label; } prob;
typedef struct {
  prob newp, oldp;
  int32_t parent, label, children, chain;
  int8_t live, queued;
} entry;
typedef struct {
  int32_t T, merge_repeated;
  int64_t beam_width, top_paths;
} beam_state;

typedef struct {
  entry *e;
  int32_t n, room, free_list; /* free entries are chained */
  int32_t *bucket;            /* hash (parent, label) -> first of a chain */
  int32_t n_buckets;
  int32_t *heap, size, heap_room;
  int32_t *branch, branch_room; /* the beam before this frame, best first */
  int32_t *touched, n_touched, touched_room;
  int64_t width;
} beam;

static const prob nothing = {-INFINITY, -INFINITY, -INFINITY};

static double log_add(double a, double b) {
  if (a == -INFINITY) return b;
  if (b == -INFINITY) return a;
  return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

/* ---------------------------------------------------------------- entries */
/* Room for one more: 0 when there is none. */
static int reserve(void **array, int32_t *room, int32_t n, size_t size) {
  if (n < *room) return 1;
  int32_t more = *room ? *room * 2 : 64;
  if (more > 2 * MAX_ENTRIES) return 0;
  void *p = realloc(*array, (size_t)more * size);
  if (!p) return 0;
  *array = p;
  *room = more;
  return 1;
}
static uint32_t hash_of(int32_t parent, int32_t label, int32_t n_buckets) {
  uint64_t h = ((uint64_t)(uint32_t)parent << 32 | (uint32_t)label) * 0x9e3779b97f4a7c15ull;
  return (uint32_t)(h >> 32) & (uint32_t)(n_buckets - 1);
}
static int rehash(beam *s) {
  int32_t n = s->n_buckets ? s->n_buckets * 2 : 256;
  int32_t *bucket = malloc((size_t)n * sizeof *bucket);
  if (!bucket) return 0;
  for (int32_t i = 0; i < n; i++) bucket[i] = NONE;
  for (int32_t i = 1; i < s->n; i++) {
    if (!s->e[i].live) continue;
    uint32_t h = hash_of(s->e[i].parent, s->e[i].label, n);
    s->e[i].chain = bucket[h];
    bucket[h] = i;
  }
  free(s->bucket);
  s->bucket = bucket;
  s->n_buckets = n;
  return 1;
}
static int32_t find_child(const beam *s, int32_t parent, int32_t label) {
  int32_t i = s->bucket[hash_of(parent, label, s->n_buckets)];
  while (i != NONE && (s->e[i].parent != parent || s->e[i].label != label)) i = s->e[i].chain;
  return i;
}
static int32_t new_entry(beam *s, int32_t parent, int32_t label) {
  int32_t i = s->free_list;
  if (i != NONE) {
    s->free_list = s->e[i].chain;
  } else {
    if (s->n >= MAX_ENTRIES || !reserve((void **)&s->e, &s->room, s->n, sizeof(entry))) return NONE;
    i = s->n++;
    s->e[i].live = 0; /* rehash looks at all n */
  }
  if (s->n > s->n_buckets && !rehash(s)) return NONE;
  s->e[i] = (entry){.newp = nothing, .oldp = nothing, .parent = parent, .label = label, .live = 1};
  if (parent == NONE) return i;
  uint32_t h = hash_of(parent, label, s->n_buckets);
  s->e[i].chain = s->bucket[h];
  s->bucket[h] = i;
  s->e[parent].children++;
  return i;
}
/* Forgets an entry that is out of the beam and has no extensions, and then perhaps its parent. */
static void release(beam *s, int32_t i) {
  while (i > ROOT && s->e[i].live && !s->e[i].children && s->e[i].newp.total == -INFINITY) {
    int32_t parent = s->e[i].parent,
            *link = &s->bucket[hash_of(parent, s->e[i].label, s->n_buckets)];
    while (*link != i) link = &s->e[*link].chain;
    *link = s->e[i].chain;
    s->e[i].live = 0;
    s->e[i].chain = s->free_list;
    s->free_list = i;
    s->e[parent].children--;
    i = parent;
  }
}

/* ---------------------------------------------------------------- the beam */
static int worse(const beam *s, int32_t a, int32_t b) {
  return s->e[a].newp.total < s->e[b].newp.total;
}
static void sift_down(beam *s, int32_t at) {
  for (;;) {
    int32_t least = at;
    for (int32_t k = 2 * at + 1; k <= 2 * at + 2 && k < s->size; k++)
      if (worse(s, s->heap[k], s->heap[least])) least = k;
    if (least == at) return;
    int32_t t = s->heap[at];
    s->heap[at] = s->heap[least];
    s->heap[least] = t;
    at = least;
  }
}
static int push(beam *s, int32_t i) {
  if (s->size >= s->width) { /* takes the place of the least likely */
    s->heap[0] = i;
    sift_down(s, 0);
    return 1;
  }
  if (!reserve((void **)&s->heap, &s->heap_room, s->size, sizeof *s->heap)) return 0;
  int32_t at = s->size++;
  s->heap[at] = i;
  while (at > 0 && worse(s, s->heap[at], s->heap[(at - 1) / 2])) {
    int32_t up = (at - 1) / 2, t = s->heap[at];
    s->heap[at] = s->heap[up];
    s->heap[up] = t;
    at = up;
  }
  return 1;
}
/* The heap's entries go to `out`, most likely first; the heap is empty then. */
static void extract(beam *s, int32_t *out) {
  for (int32_t n = s->size; n > 0; n--) {
    out[n - 1] = s->heap[0];
    s->heap[0] = s->heap[--s->size];
    sift_down(s, 0);
  }
}
static int is_candidate(const beam *s, double total) {
  return total > -INFINITY && (s->size < s->width || total > s->e[s->heap[0]].newp.total);
}
static int touch(beam *s, int32_t i) {
  if (s->e[i].queued) return 1;
  if (!reserve((void **)&s->touched, &s->touched_room, s->n_touched, sizeof *s->touched)) return 0;
  s->touched[s->n_touched++] = i;
  s->e[i].queued = 1;
  return 1;
}

/* ---------------------------------------------------------------- one frame */
/* Prefixes of the beam that stay as they are: another blank, or their last label again. */
static int keep_branches(beam *s, int32_t n, const double *log_y, int64_t blank) {
  for (int32_t k = 0; k < n; k++) s->e[s->branch[k]].oldp = s->e[s->branch[k]].newp;
  for (int32_t k = 0; k < n; k++) {
    entry *b = &s->e[s->branch[k]];
    if (b->parent != NONE) {
      const entry *up = &s->e[b->parent];
      if (up->newp.total != -INFINITY)
        b->newp.label =
            log_add(b->newp.label, b->label == up->label ? up->oldp.blank : up->oldp.total);
      b->newp.label += log_y[b->label];
    }
    b->newp.blank = b->oldp.total + log_y[blank];
    b->newp.total = log_add(b->newp.blank, b->newp.label);
    if (!push(s, s->branch[k])) return 0;
  }
  return 1;
}

/* Prefix b with one more label, if that is likely enough. */
static int extend(beam *s, int32_t b, int32_t label, double log_y) {
  int32_t i = find_child(s, b, label);
  if (i != NONE && s->e[i].newp.total != -INFINITY) return 1;
  double before = label == s->e[b].label ? s->e[b].oldp.blank : s->e[b].oldp.total;
  double total = log_y + before;
  if (!is_candidate(s, total)) {
    if (i != NONE) s->e[i].oldp = nothing;
    return 1;
  }
  if (i == NONE) i = new_entry(s, b, label);
  if (i == NONE || !touch(s, i)) return 0;
  if (s->size >= s->width) {
    int32_t bottom = s->heap[0];
    s->e[bottom].newp = nothing;
    if (!touch(s, bottom)) return 0;
  }
  s->e[i].newp = (prob){total, -INFINITY, total};
  return push(s, i);
}

static int read_frame(beam *s, const double *log_y, int64_t classes, int64_t blank) {
  int32_t n = s->size;
  while (s->branch_room < n)
    if (!reserve((void **)&s->branch, &s->branch_room, s->branch_room, sizeof *s->branch)) return 0;
  extract(s, s->branch);
  if (!keep_branches(s, n, log_y, blank)) return 0;
  for (int32_t k = 0; k < n; k++) {
    if (!is_candidate(s, s->e[s->branch[k]].oldp.total)) continue;
    for (int64_t label = 0; label < classes; label++)
      if (label != blank && !extend(s, s->branch[k], (int32_t)label, log_y[label])) return 0;
  }
  for (int32_t k = 0; k < s->n_touched; k++) s->e[s->touched[k]].queued = 0;
  for (int32_t k = 0; k < s->n_touched; k++) release(s, s->touched[k]);
  s->n_touched = 0;
  return 1;
}

static int start_beam(beam *s, int64_t width) {
  *s = (beam){.width = width, .free_list = NONE};
  if (!rehash(s) || new_entry(s, NONE, NONE) != ROOT) return 0;
  s->e[ROOT].newp.total = s->e[ROOT].newp.blank = 0;
  return push(s, ROOT);
}
static void end_beam(beam *s) {
  free(s->e);
  free(s->bucket);
  free(s->heap);
  free(s->branch);
  free(s->touched);
}

/* ---------------------------------------------------------------- the op */
typedef struct { int64_t *labels, n; } path;
typedef struct {
  const beam_state *s;
  pf_ctx *c;
  int64_t time, batch, classes;
  path *paths;       /* [batch, top_paths] */
  pf_status *status; /* of each row */
  double *log_y;     /* [workers, classes] */
  DLTensor *scores;
} decoder;

static void log_softmax(const decoder *d, int64_t t, int64_t b, double *y) {
  int64_t at = (t * d->batch + b) * d->classes;
  double top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < d->classes; k++) {
    y[k] = d->s->T == PF_FLOAT64 ? PF_DATA(const double, d->c->in[0])[at + k]
                                 : (double)PF_DATA(const float, d->c->in[0])[at + k];
    top = fmax(top, y[k]);
  }
  for (int64_t k = 0; k < d->classes; k++) sum += exp(y[k] - top);
  for (int64_t k = 0; k < d->classes; k++) y[k] -= top + log(sum);
}

/* The labels of an entry, repeated ones merged if asked. */
static int take_path(const beam *s, int32_t leaf, int merge, path *out) {
  for (int pass = 0; pass < 2; pass++) {
    int64_t n = 0, previous = -1;
    for (int32_t i = leaf; s->e[i].parent != NONE; i = s->e[i].parent) {
      if (!merge || s->e[i].label != previous) {
        n++;
        if (pass) out->labels[out->n - n] = s->e[i].label;
      }
      previous = s->e[i].label;
    }
    if (pass) break;
    out->n = n;
    out->labels = malloc((size_t)PF_MAX(n, 1) * 8);
    if (!out->labels) return 0;
  }
  return 1;
}

static pf_status decode_row(const decoder *d, int64_t b, double *log_y) {
  beam s;
  int64_t frames = PF_DATA(const int32_t, d->c->in[1])[b], top = d->s->top_paths;
  pf_status status = PF_RESOURCE_EXHAUSTED;
  if (start_beam(&s, d->s->beam_width)) {
    int64_t t = 0;
    for (; t < frames && !d->c->host->cancelled(d->c); t++) {
      log_softmax(d, t, b, log_y);
      if (!read_frame(&s, log_y, d->classes, d->classes - 1)) break;
    }
    int32_t n = s.size;
    if (t == frames) status = n < top ? PF_INVALID_ARGUMENT : PF_OK;
    int32_t *best = status ? NULL : malloc((size_t)n * sizeof *best);
    if (best) extract(&s, best);
    else if (!status) status = PF_RESOURCE_EXHAUSTED;
    for (int64_t i = 0; i < top && !status; i++) {
      double score = s.e[best[i]].newp.total;
      if (d->s->T == PF_FLOAT64) PF_DATA(double, d->scores)[b * top + i] = score;
      else PF_DATA(float, d->scores)[b * top + i] = (float)score;
      if (!take_path(&s, best[i], d->s->merge_repeated, &d->paths[b * top + i]))
        status = PF_RESOURCE_EXHAUSTED;
    }
    free(best);
  }
  end_beam(&s);
  return status;
}
static void decode_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const decoder *d = arg;
  for (int64_t b = lo; b < hi; b++) d->status[b] = decode_row(d, b, d->log_y + worker * d->classes);
}

/* The sparse matrix of path number `k` of every row. */
static pf_status write_paths(const decoder *d, int64_t k) {
  pf_ctx *c = d->c;
  int64_t top = d->s->top_paths, total = 0, longest = 0, two = 2;
  for (int64_t b = 0; b < d->batch; b++) {
    total += d->paths[b * top + k].n;
    longest = PF_MAX(longest, d->paths[b * top + k].n);
  }
  int64_t pairs[2] = {total, 2};
  DLTensor *at = pf_output_checked(c, (int32_t)k, pairs, 2),
           *values = pf_output_checked(c, (int32_t)(top + k), &total, 1),
           *shape = c->host->output(c, (int32_t)(2 * top + k), &two, 1);
  if (!at || !values || !shape) return PF_RESOURCE_EXHAUSTED;
  int64_t n = 0;
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t i = 0; i < d->paths[b * top + k].n; i++, n++) {
      PF_DATA(int64_t, at)[2 * n] = b;
      PF_DATA(int64_t, at)[2 * n + 1] = i;
      PF_DATA(int64_t, values)[n] = d->paths[b * top + k].labels[i];
    }
  PF_DATA(int64_t, shape)[0] = d->batch;
  PF_DATA(int64_t, shape)[1] = longest;
  return PF_OK;
}

static pf_status check_decoder(pf_ctx *c, const beam_state *s, decoder *d) {
  const DLTensor *x = c->in[0], *lengths = c->in[1];
  if (x->ndim != 3) return PF_INVALID(c, "inputs is not a 3-Tensor, got shape %s", PF_SHAPE(x).s);
  *d = (decoder){.s = s, .c = c, .time = x->shape[0], .batch = x->shape[1], .classes = x->shape[2]};
  if (d->classes < 1 || d->classes > INT32_MAX)
    return PF_INVALID(c, "num_classes must be at least 1 and fit int32, got %" PRId64, d->classes);
  if (lengths->ndim != 1 || lengths->shape[0] != d->batch)
    return PF_INVALID(
        c, "sequence_length must be a vector of batch_size = %" PRId64 " elements, got shape %s",
        d->batch, PF_SHAPE(lengths).s);
  for (int64_t b = 0; b < d->batch; b++) {
    int64_t n = PF_DATA(const int32_t, lengths)[b];
    if (n < 0 || n > d->time)
      return PF_INVALID(c, "sequence_length(%" PRId64 ") = %" PRId64 " is not in [0, %" PRId64 "]",
                        b, n, d->time);
  }
  if (s->top_paths > s->beam_width)
    return PF_INVALID(
        c,
        "The number of paths requested is larger than the beam width: top_paths %" PRId64
        ", beam_width %" PRId64,
        s->top_paths, s->beam_width);
  return PF_OK;
}

static pf_status report(const decoder *d) {
  for (int64_t b = 0; b < d->batch; b++) {
    if (d->status[b] == PF_INVALID_ARGUMENT)
      return PF_INVALID(d->c,
                        "Less leaves in the beam search than requested: top_paths %" PRId64
                        " in batch %" PRId64,
                        d->s->top_paths, b);
    if (d->status[b])
      return pf_failf(d->c, PF_RESOURCE_EXHAUSTED,
                      "the beam search of batch %" PRId64
                      " has more than %d prefixes, or no memory: reduce beam_width (%" PRId64 ")",
                      b, MAX_ENTRIES, d->s->beam_width);
  }
  return PF_OK;
}

static pf_status ctc_beam_search(pf_ctx *c, const void *state) {
  decoder d;
  PF_TRY(check_decoder(c, state, &d));
  int64_t top = d.s->top_paths, shape[2] = {d.batch, top}, n, bytes;
  d.scores = pf_output_checked(c, (int32_t)(3 * top), shape, 2);
  PF_EXHAUSTED(d.scores);
  n = d.batch * top;
  if (!pf_mul(n + 1, sizeof(path), &bytes)) return PF_INVALID(c, "top_paths is too large");
  d.paths = c->host->scratch(c, (uint64_t)bytes, 64);
  d.status = c->host->scratch(c, (uint64_t)(d.batch + 1) * sizeof(pf_status), 64);
  if (pf_numel(c->in[0]) == 0) d.classes = 1; /* no frame will be read */
  d.log_y = c->host->scratch(c, (uint64_t)d.classes * 8 * (uint64_t)c->host->workers(c), 64);
  if (!d.paths || !d.status || !d.log_y)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for paths");
  memset(d.paths, 0, (size_t)n * sizeof(path));
  pf_status status = pf_parallel(c, d.batch, 1, decode_rows, &d);
  if (!status) status = report(&d);
  for (int64_t k = 0; k < top && !status; k++) status = write_paths(&d, k);
  for (int64_t i = 0; i < n; i++) free(d.paths[i].labels);
  return status;
}

#define FIELD(name, kind, field) PF_REF(pf_attr, name, kind, offsetof(beam_state, field))
const pf_kernel *const ctc_beam_kernels[] = {
  PF_CPU_FLAGS(
      "CTCBeamSearchDecoder", "T=float|double", PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
      .attrs = PF_ATTRS(
          FIELD("T", PF_ATTR_TYPE, T), FIELD("merge_repeated", PF_ATTR_BOOL, merge_repeated),
          FIELD("beam_width", PF_ATTR_INT, beam_width), FIELD("top_paths", PF_ATTR_INT, top_paths)),
      .state_size = sizeof(beam_state), .compute = ctc_beam_search),
  NULL};
