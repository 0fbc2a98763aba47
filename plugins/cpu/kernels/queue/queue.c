/* queue.c - the four kinds of queues, and their attempts.  See queue.h. */
#include "queue/queue.h"

enum { SLACK = 1024 };

/* ---------------------------------------------------------------- chunks */
pf_chunk *pf_chunk_of_inputs(pf_ctx *c, int32_t first, int32_t n, int64_t rows) {
  pf_chunk *k = malloc(sizeof *k + sizeof(pf_tensor *) * (size_t)n);
  if (!k) return (void)pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a queue's element"), NULL;
  *k = (pf_chunk){.refs = rows < 0 ? 1 : (int32_t)rows, .rows = rows};
  for (; k->n < n; k->n++)
    if (!(k->part[k->n] = c->host->retain(c, first + k->n))) return pf_chunk_drop(k, k->refs), NULL;
  return k;
}
void pf_chunk_drop(pf_chunk *k, int64_t refs) {
  if (!refs || __atomic_sub_fetch(&k->refs, (int32_t)refs, __ATOMIC_ACQ_REL)) return;
  if (k->held) __atomic_sub_fetch(k->held, k->rows < 0 ? 1 : k->rows, __ATOMIC_RELAXED);
  for (int32_t i = 0; i < k->n; i++)
    if (k->part[i]) k->part[i]->deleter(k->part[i]);
  free(k);
}

/* ---------------------------------------------------------------- the store */
static pf_element *place(pf_queue *q, int64_t i) { return &q->at[(q->head + i) & (q->room - 1)]; }
/* room for `more` elements; 0: no memory */
int pf_queue_room(pf_queue *q, int64_t more) {
  if (q->n + more <= q->room) return 1;
  int64_t room = PF_MAX(q->room, 16);
  while (room < q->n + more) room *= 2;
  pf_element *at = malloc((size_t)room * sizeof *at);
  if (!at) return 0;
  for (int64_t i = 0; i < q->n; i++) at[i] = *place(q, i);
  free(q->at);
  q->at = at, q->room = room, q->head = 0;
  return 1;
}
static void put_last(pf_queue *q, pf_element e) { *place(q, q->n++) = e; }
static void put_first(pf_queue *q, pf_element e) { q->head--, q->n++, *place(q, 0) = e; }
static pf_element take_first(pf_queue *q) {
  pf_element e = *place(q, 0);
  q->head++, q->n--;
  return e;
}
/* TensorFlow's draws: one word of Philox's stream each */
static uint32_t draw(pf_queue *q) {
  if (!q->n_drawn) pf_philox_block(&q->random, q->drawn), q->n_drawn = 4;
  return q->drawn[4 - q->n_drawn--];
}
static pf_element take_any(pf_queue *q) {
  pf_element *e = place(q, draw(q) % (uint64_t)q->n), it = *e;
  *e = *place(q, --q->n);
  return it;
}
/* a heap, least key first, equal ones as they came */
static int before(const pf_element *a, const pf_element *b) {
  return a->key != b->key ? a->key < b->key : a->turn < b->turn;
}
static void heap_up(pf_queue *q, pf_element e) {
  int64_t i = q->n++;
  for (; i && before(&e, place(q, (i - 1) / 2)); i = (i - 1) / 2)
    *place(q, i) = *place(q, (i - 1) / 2);
  *place(q, i) = e;
}
static void put_by_key(pf_queue *q, pf_element e) {
  const DLTensor *key = &e.chunk->part[0]->dl_tensor;
  e.key = PF_DATA(const int64_t, key)[PF_MAX(e.row, 0)];
  e.turn = q->turns++;
  heap_up(q, e);
}
static pf_element take_least(pf_queue *q) {
  pf_element least = *place(q, 0), last = *place(q, --q->n);
  int64_t i = 0;
  for (int64_t k; (k = 2 * i + 1) < q->n; i = k) {
    if (k + 1 < q->n && before(place(q, k + 1), place(q, k))) k++;
    if (!before(place(q, k), &last)) break;
    *place(q, i) = *place(q, k);
  }
  *place(q, i) = last;
  return least;
}

const pf_queue_kind pf_queue_kinds[] = {
  [PF_FIFO] = {"FIFOQueue", take_first, put_last, put_first},
  [PF_PADDING_FIFO] = {"PaddingFIFOQueue", take_first, put_last, put_first, .padded = 1},
  [PF_RANDOM_SHUFFLE] = {"RandomShuffleQueue", take_any, put_last, put_last, .scattered = 1},
  [PF_PRIORITY] = {"PriorityQueue", take_least, put_by_key, heap_up, .keyed = 1, .scattered = 1}};

/* The components: `leading` scalars first.  Shapes, their sizes, types and the name lie in one
 * piece
 * of memory. */
int pf_queue_set_parts(pf_queue *q, const int32_t *leading, int32_t n_leading, const pf_list *types,
                       const pf_list *shapes, pf_str name) {
  const pf_shape *given = shapes->items;
  int64_t n = n_leading + types->n, dims = 0;
  for (int64_t i = 0; i < shapes->n; i++) dims += PF_MAX(given[i].ndim, 0);
  int64_t fixed = n * (int64_t)(sizeof(pf_shape) + sizeof(int32_t));
  char *memory = calloc(1, (size_t)(fixed + dims * 8 + name.len + 1));
  if (!memory) return 0;
  q->n_parts = (int32_t)n;
  q->shapes = (pf_shape *)memory;
  int64_t *size = (int64_t *)(q->shapes + n);
  for (int64_t i = n_leading; i < n; i++) {
    pf_shape s = shapes->n ? given[i - n_leading] : (pf_shape){NULL, 0, 0};
    q->shapes[i] = (pf_shape){size, s.ndim, 0};
    for (int32_t k = 0; k < s.ndim; k++) *size++ = s.dims[k];
  }
  q->types = (int32_t *)size;
  for (int64_t i = 0; i < n; i++)
    q->types[i] = i < n_leading ? leading[i] : ((const int32_t *)types->items)[i - n_leading];
  q->name = (char *)(q->types + n);
  if (name.len) memcpy(q->name, name.data, (size_t)name.len);
  return 1;
}
void pf_queue_free(pf_waited *w) {
  pf_queue *q = (pf_queue *)w;
  for (int64_t i = 0; i < q->n; i++) pf_chunk_drop(place(q, i)->chunk, 1);
  free(q->at);
  free(q->shapes); /* and what lies with them */
  free(q);
}

/* ---------------------------------------------------------------- chunks with few rows left */
/* room for the rows of k that are in the queue; NULL: no memory, they stay where they are */
static pf_chunk *smaller(const pf_host *host, const pf_chunk *k) {
  pf_chunk *s = malloc(sizeof *s + sizeof(pf_tensor *) * (size_t)k->n);
  if (!s) return NULL;
  *s = (pf_chunk){.refs = (int32_t)k->here, .rows = k->here};
  for (; s->n < k->n; s->n++) {
    const DLTensor *t = &k->part[s->n]->dl_tensor;
    int64_t shape[PF_MAX_DIMS];
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[0] = k->here;
    s->part[s->n] =
        host->tensor_new(host, NULL, PF_MEM_HOST, host->type_of(k->part[s->n]), shape, t->ndim);
    if (!s->part[s->n]) return pf_chunk_drop(s, s->refs), NULL;
  }
  s->held = k->held;
  __atomic_add_fetch(s->held, s->rows, __ATOMIC_RELAXED);
  return s;
}
static int copy_rows(const pf_host *host, DLTensor *to, int64_t at, const DLTensor *from, int64_t n,
                     int64_t i, int64_t size) {
  if (size && n)
    memcpy(PF_DATA(char, to) + at * size, PF_DATA(const char, from) + i * size, (size_t)(n * size));
  for (int64_t k = 0; k < n && !size; k++) {
    pf_str s;
    if (host->str_get(from, i + k, &s) || host->str_set(to, at + k, s)) return 0;
  }
  return 1;
}
/* element e lies in its chunk's smaller one from now on, unless its row cannot be copied */
static void move_row(const pf_host *host, pf_element *e) {
  pf_chunk *to = e->chunk->moved;
  int64_t row = to->next++;
  for (int32_t p = 0; p < to->n; p++) {
    const DLTensor *from = &e->chunk->part[p]->dl_tensor;
    int64_t n = pf_product(from->shape, 1, from->ndim);
    if (!copy_rows(host, &to->part[p]->dl_tensor, row * n, from, n, e->row * n,
                   pf_type_size(host->type_of(to->part[p]))))
      return pf_chunk_drop(to, 1);
  }
  pf_chunk_drop(e->chunk, 1);
  e->chunk = to, e->row = row;
}
/* invariant 3: rows of chunks of which less than half is in the queue move to chunks of their own
 * */
static void compact(pf_queue *q) {
  for (int64_t i = 0; i < q->n; i++) place(q, i)->chunk->here = 0, place(q, i)->chunk->moved = NULL;
  for (int64_t i = 0; i < q->n; i++) place(q, i)->chunk->here++;
  for (int64_t i = 0; i < q->n; i++) {
    pf_chunk *k = place(q, i)->chunk;
    if (k->rows > 0 && !k->moved && 2 * k->here < k->rows) k->moved = smaller(q->host, k);
    if (k->moved) move_row(q->host, place(q, i));
  }
}

/* ---------------------------------------------------------------- putting */
static pf_queue *queue_of(pf_attempt *a) { return (pf_queue *)a->on; }
static int fails(pf_attempt *a, pf_status st) {
  a->status = st;
  return PF_OVER;
}
static int enqueue_run(pf_attempt *a) {
  pf_enqueue *e = (pf_enqueue *)a;
  pf_queue *q = queue_of(a);
  if (q->closed) return fails(a, PF_CANCELLED);
  int64_t n = PF_MIN(e->left, q->capacity - q->n);
  if (n <= 0) return PF_WAITS;
  if (q->kind->scattered &&
      __atomic_load_n(&q->held, __ATOMIC_RELAXED) > 2 * q->n + e->left + SLACK)
    compact(q);
  if (!pf_queue_room(q, n)) return fails(a, PF_RESOURCE_EXHAUSTED);
  for (int64_t i = 0; i < n; i++)
    q->kind->put(q, (pf_element){e->chunk, e->chunk->rows < 0 ? -1 : e->row++, 0, 0});
  return (e->left -= n) ? PF_MOVED : PF_OVER;
}
static pf_status enqueue_deliver(pf_ctx *c, pf_attempt *a) {
  const pf_queue *q = queue_of(a);
  if (a->status == PF_CANCELLED && a->taken != PF_RESET)
    return a->taken ? pf_failf(c, PF_CANCELLED, "Enqueue operation was cancelled")
                    : pf_failf(c, PF_CANCELLED, "%s '%s' is closed.", q->kind->op, q->name);
  if (a->status)
    return pf_failf(c, a->status, "%s '%s' %s", q->kind->op, q->name,
                    a->taken == PF_RESET ? "was reset, or its session closed"
                                         : "has no memory left");
  return PF_OK;
}
static void enqueue_clear(pf_attempt *a) {
  pf_enqueue *e = (pf_enqueue *)a;
  pf_chunk_drop(e->chunk, e->left);
}
const pf_attempt_kind pf_enqueue_kind = {
  sizeof(pf_enqueue), PF_PUTS,      "Enqueue operation was cancelled", enqueue_run, NULL,
  enqueue_deliver,    enqueue_clear};

/* ---------------------------------------------------------------- closing */
static int close_run(pf_attempt *a) {
  pf_queue *q = queue_of(a);
  if (q->closed) return fails(a, PF_CANCELLED);
  q->closed = 1;
  return PF_OVER;
}
static pf_status close_deliver(pf_ctx *c, pf_attempt *a) {
  const pf_queue *q = queue_of(a);
  if (!a->status) return PF_OK;
  if (a->taken == PF_CUT_OFF) return pf_failf(c, a->status, "Enqueue operation was cancelled");
  if (a->taken)
    return pf_failf(c, a->status, "Queue '%s' was reset, or its session closed", q->name);
  return pf_failf(c, a->status, "Queue '%s' is already closed.", q->name);
}
const pf_attempt_kind pf_close_kind = {
  sizeof(pf_close), PF_PUTS, "Close operation was cancelled", close_run, NULL, close_deliver, NULL};
/* Behind what waits to be put; or, `cancel_pending`, at once, and that fails. */
pf_status pf_queue_close(pf_ctx *c, pf_queue *q, int32_t cancel_pending) {
  pf_close close = {.base.kind = &pf_close_kind};
  if (!cancel_pending) return pf_attempt_start(c, &q->base, &close.base);
  pthread_mutex_lock(&q->base.lock);
  q->closed = 1;
  pf_attempt *over = pf_attempts_take(&q->base, PF_PUTS, PF_CANCELLED, PF_CUT_OFF);
  pf_waited_settle(&q->base, &over);
  pthread_mutex_unlock(&q->base.lock);
  pf_attempts_end(over);
  return PF_OK;
}

/* ---------------------------------------------------------------- taking */
static pf_element *got_of(pf_dequeue *d) { return d->got ? d->got : &d->one; }
static int got_more(pf_dequeue *d, int64_t more) {
  if (d->n + more <= PF_MAX(d->room, 1)) return 1;
  int64_t room = PF_MAX(d->n + more, PF_MIN(2 * d->room, d->n + d->left));
  pf_element *got = realloc(d->got, (size_t)room * sizeof *got);
  if (!got) return 0;
  if (!d->got) got[0] = d->one;
  d->got = got, d->room = room;
  return 1;
}
static void dequeue_undo(pf_attempt *a) {
  pf_dequeue *d = (pf_dequeue *)a;
  pf_queue *q = queue_of(a);
  if (!pf_queue_room(q, d->n)) return; /* they go with the attempt */
  d->left += d->n;
  while (d->n) q->kind->put_back(q, got_of(d)[--d->n]);
}
static int dequeue_run(pf_attempt *a) {
  pf_dequeue *d = (pf_dequeue *)a;
  pf_queue *q = queue_of(a);
  if (q->closed && q->n < d->left) {
    int64_t wanted = d->left;
    d->size = q->n;
    dequeue_undo(a);
    if (!d->up_to || !q->n) return d->left = wanted, fails(a, PF_OUT_OF_RANGE);
    d->left = q->n;
  }
  int64_t n = PF_MIN(d->left, q->n - (q->closed ? 0 : q->min_after));
  if (n <= 0) return PF_WAITS;
  /* lesser ones may come */
  if (n < d->left && q->kind->keyed && d->left <= q->capacity) return PF_WAITS;
  if (!got_more(d, n)) return dequeue_undo(a), fails(a, PF_RESOURCE_EXHAUSTED);
  for (int64_t i = 0; i < n; i++) got_of(d)[d->n++] = q->kind->take(q);
  return (d->left -= n) ? PF_MOVED : PF_OVER;
}
static void dequeue_clear(pf_attempt *a) {
  pf_dequeue *d = (pf_dequeue *)a;
  for (int64_t i = 0; i < d->n; i++) pf_chunk_drop(got_of(d)[i].chunk, 1);
  free(d->got);
}

/* ---------------------------------------------------------------- what was taken, as outputs */
/* how many elements from i on are neighbours in one chunk */
static int64_t run_from(const pf_element *e, int64_t i, int64_t n) {
  int64_t k = i + 1;
  while (k < n && e[k].chunk == e[i].chunk && e[k].row == e[k - 1].row + 1) k++;
  return k - i;
}
static const DLTensor *part_of(const pf_element *e, int32_t p) {
  return &e->chunk->part[p]->dl_tensor;
}
/* the shape of component p of an element */
static const int64_t *shape_of(const pf_element *e, int32_t p, int32_t *ndim) {
  const DLTensor *t = part_of(e, p);
  int32_t skip = e->row >= 0;
  *ndim = t->ndim - skip;
  return t->shape + skip;
}
/* nobody else needs the chunk: its tensor itself is the output */
static pf_status steal(pf_ctx *c, int32_t p, pf_chunk *k) {
  pf_tensor *t = k->part[p];
  k->part[p] = NULL;
  return c->host->set_output(c, p, t);
}
static pf_status deliver_one(pf_ctx *c, const pf_element *e, int32_t p) {
  int32_t ndim;
  const int64_t *shape = shape_of(e, p, &ndim);
  if (e->row < 0) return steal(c, p, e->chunk);
  DLTensor *y = c->host->output(c, p, shape, ndim);
  PF_EXHAUSTED(y);
  int64_t n = pf_numel(y);
  return pf_copy_run(c, y, 0, part_of(e, p), e->row * n, n, pf_type_size(c->out_type[p]));
}
static pf_status deliver_rows(pf_ctx *c, const pf_dequeue *d, int32_t p, const int64_t *shape,
                              int32_t ndim) {
  const pf_element *e = d->got ? d->got : &d->one;
  int64_t size = pf_type_size(c->out_type[p]), n = pf_product(shape, 1, ndim);
  if (d->n && e->row == 0 && e->chunk->rows == d->n && run_from(e, 0, d->n) == d->n &&
      __atomic_load_n(&e->chunk->refs, __ATOMIC_ACQUIRE) == d->n)
    return steal(c, p, e->chunk);
  DLTensor *y = pf_output_checked(c, p, shape, ndim);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, run; i < d->n; i += run) {
    run = run_from(e, i, d->n);
    PF_TRY(pf_copy_run(c, y, i * n, part_of(e + i, p), PF_MAX(e[i].row, 0) * n, run * n, size));
  }
  return PF_OK;
}
/* elements of one component, side by side in the greatest size of each dimension */
static pf_status copy_padded(pf_ctx *c, DLTensor *y, int64_t at, const DLTensor *x, int64_t from,
                             const int64_t *small, int32_t ndim, int64_t size) {
  int64_t index[PF_MAX_DIMS] = {0}, run = ndim ? small[ndim - 1] : 1,
          n = pf_product(small, 0, ndim);
  for (int64_t done = 0; done < n; done += run) {
    int64_t to = 0;
    for (int32_t k = 0; k < ndim; k++) to = to * y->shape[k + 1] + index[k];
    PF_TRY(pf_copy_run(c, y, at + to, x, from + done, run, size));
    for (int32_t k = ndim - 2; k >= 0 && ++index[k] == small[k]; k--) index[k] = 0;
  }
  return PF_OK;
}
static pf_status deliver_padded(pf_ctx *c, const pf_dequeue *d, int32_t p, int64_t *shape,
                                int32_t ndim) {
  const pf_element *e = d->got ? d->got : &d->one;
  int64_t size = pf_type_size(c->out_type[p]);
  int32_t rank;
  for (int32_t k = 1; k < ndim && d->n; k++) shape[k] = 0;
  for (int64_t i = 0; i < d->n; i++) {
    const int64_t *s = shape_of(e + i, p, &rank);
    for (int32_t k = 0; k < rank; k++) shape[k + 1] = PF_MAX(shape[k + 1], s[k]);
  }
  DLTensor *y = pf_output_checked(c, p, shape, ndim);
  PF_EXHAUSTED(y);
  int64_t n = pf_product(shape, 1, ndim);
  if (size) memset(PF_DATA(char, y), 0, (size_t)(pf_numel(y) * size));
  for (int64_t i = 0; i < d->n; i++) {
    const int64_t *s = shape_of(e + i, p, &rank);
    PF_TRY(copy_padded(c, y, i * n, part_of(e + i, p), PF_MAX(e[i].row, 0) * pf_product(s, 0, rank),
                       s, rank, size));
  }
  return PF_OK;
}
static pf_status deliver_many(pf_ctx *c, const pf_queue *q, const pf_dequeue *d, int32_t p) {
  const pf_shape *s = &q->shapes[p];
  int64_t shape[PF_MAX_DIMS + 1] = {d->n};
  for (int32_t k = 0; k < s->ndim; k++) shape[k + 1] = PF_MAX(s->dims[k], 0);
  if (q->kind->padded) return deliver_padded(c, d, p, shape, s->ndim + 1);
  return deliver_rows(c, d, p, shape, s->ndim + 1);
}
static pf_status dequeue_deliver(pf_ctx *c, pf_attempt *a) {
  pf_dequeue *d = (pf_dequeue *)a;
  const pf_queue *q = queue_of(a);
  if (a->status == PF_OUT_OF_RANGE)
    return pf_failf(c, a->status,
                    "%s '%s' is closed and has insufficient elements (requested %" PRId64
                    ", current size %" PRId64 ")",
                    q->kind->op, q->name, d->left, d->size);
  if (a->status)
    return pf_failf(c, a->status, "%s '%s' %s", q->kind->op, q->name,
                    a->taken == PF_RESET ? "was reset, or its session closed"
                                         : "has no memory left");
  for (int32_t p = 0; p < q->n_parts; p++)
    PF_TRY(d->many ? deliver_many(c, q, d, p) : deliver_one(c, got_of(d), p));
  return PF_OK;
}
const pf_attempt_kind pf_dequeue_kind = {
  sizeof(pf_dequeue), PF_TAKES,     "Dequeue operation was cancelled", dequeue_run, dequeue_undo,
  dequeue_deliver,    dequeue_clear};
