/* reader_ops.c - TextLineReader, WholeFileReader, FixedLengthRecordReader, TFRecordReader,
 * IdentityReader, ReaderRead, ReaderReadUpTo, ReaderReset, ReaderSerializeState,
 * ReaderRestoreState, ReaderNumRecordsProduced, ReaderNumWorkUnitsCompleted: with handles that are
 * references (TF's first ops) and resources (V2).
 *
 * Threads: any number of calls on one reader; reader.h says who reads.
 */
#include "reader/reader.h"
#include "summary/proto.h"

typedef struct {
  int64_t skip_header_lines, header_bytes, record_bytes, footer_bytes, hop_bytes;
  pf_str container, shared_name, compression_type, encoding;
  const pf_reader_kind *kind;
  int wbits;
} make_state;

/* ---------------------------------------------------------------- making */
static void reader_free(pf_waited *w) {
  pf_reader *r = (pf_reader *)w;
  pf_source_free(&r->source);
  pf_bytes_free(&r->work);
  pf_bytes_free(&r->key);
  pf_bytes_free(&r->window);
  free(r->name);
  free(r);
}
static void reader_tell(void *obj, pf_wait_state *to) {
  (void)obj;
  to->flags = PF_WAIT_HELD;
  snprintf(to->takes, sizeof to->takes, "turn of reader");
}
static const pf_type reader_type = {sizeof(pf_type), 0,          "pyflow.Reader", pf_waited_unref,
                                    pf_waited_abort, reader_tell};
static pf_status make_reader(pf_ctx *c, void *arg, void **obj) {
  const make_state *s = arg;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  pf_reader *r = calloc(1, sizeof *r);
  if (r) r->name = malloc((size_t)name.len + 1);
  if (!r || !r->name) return free(r), pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a reader");
  snprintf(r->name, (size_t)name.len + 1, "%.*s", (int)name.len, name.data);
  pf_waited_init(&r->base, reader_free);
  r->kind = s->kind;
  r->host = c->host;
  r->source.wbits = s->wbits;
  r->header = s->kind == &pf_text_reader ? s->skip_header_lines : s->header_bytes;
  r->record = s->record_bytes, r->footer = s->footer_bytes;
  r->hop = s->hop_bytes ? s->hop_bytes : s->record_bytes;
  *obj = r;
  return PF_OK;
}
static pf_status open_reader(pf_ctx *c, const void *state) {
  make_state *s = (make_state *)state;
  void *obj;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, s->container, name, &reader_type, make_reader, s,
                           &obj));
  const pf_reader *r = obj;
  if (r->kind != s->kind)
    return PF_INVALID(c, "the shared reader '%s' is a %s, this node makes a %s", r->name,
                      r->kind->op, s->kind->op);
  return c->host->resource_output(c, 0, s->container, name, &reader_type, make_reader, s);
}
static pf_status init_text(pf_ctx *c, void *state) {
  make_state *s = state;
  s->kind = &pf_text_reader;
  return s->skip_header_lines >= 0
             ? PF_OK
             : PF_INVALID(c, "skip_header_lines must be >= 0 not %" PRId64, s->skip_header_lines);
}
static pf_status init_whole(pf_ctx *c, void *state) {
  (void)c;
  ((make_state *)state)->kind = &pf_whole_reader;
  return PF_OK;
}
static pf_status init_identity(pf_ctx *c, void *state) {
  (void)c;
  ((make_state *)state)->kind = &pf_identity_reader;
  return PF_OK;
}
static pf_status init_record(pf_ctx *c, void *state) {
  make_state *s = state;
  s->kind = &pf_record_reader;
  return pf_source_compression(c, s->compression_type, &s->wbits);
}
static pf_status init_fixed(pf_ctx *c, void *state) {
  make_state *s = state;
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {{"header_bytes", s->header_bytes, 0},
               {"record_bytes", s->record_bytes, 1},
               {"footer_bytes", s->footer_bytes, 0},
               {"hop_bytes", s->hop_bytes, 0}};
  s->kind = &pf_fixed_reader;
  for (int i = 0; i < 4; i++)
    if (sizes[i].value < sizes[i].least || sizes[i].value > PF_SOURCE_MOST / 2)
      return PF_INVALID(c, "%s must be >= %" PRId64 " not %" PRId64, sizes[i].name, sizes[i].least,
                        sizes[i].value);
  if (s->encoding.len && (s->encoding.len != 4 || memcmp(s->encoding.data, "ZLIB", 4)))
    return PF_INVALID(c, "ZLIB is the only supported encoding currently, got %.*s",
                      (int)PF_MIN(s->encoding.len, 40), s->encoding.data);
  return pf_source_compression(c, s->encoding, &s->wbits);
}

/* ---------------------------------------------------------------- calls */
typedef struct read_call {
  pf_reader *r;
  pf_queue *q; /* NULL: of `act`, which needs the turn alone */
  pf_ctx *c;
  pf_status (*act)(struct read_call *); /* with the reader's lock */
  int32_t named;                        /* r->work is a file that came from the queue */
  int64_t wanted, n;                    /* -1: one record; n: records so far */
  pf_bytes text;                        /* keys and values, end to end */
  pf_bytes ends;                        /* their ends, int64 */
} read_call;
typedef struct {
  pf_attempt base;
  read_call *call;
} turn_attempt;
typedef struct {
  pf_dequeue base;
  read_call *call;
  int *gone;
  int32_t delivered;
} file_attempt;

static void free_call(read_call *call) {
  pf_bytes_free(&call->text);
  pf_bytes_free(&call->ends);
  pf_waited_unref(call->r);
  if (call->q) pf_waited_unref(call->q);
  free(call);
}
/* On a thread of the lane: who is first in line gets the turn. */
static void give_turn(void *arg) {
  pf_reader *r = arg;
  pf_attempt *over = NULL;
  pthread_mutex_lock(&r->base.lock);
  r->resuming = 0;
  pf_waited_settle(&r->base, &over);
  pthread_mutex_unlock(&r->base.lock);
  pf_attempts_end(over);
  pf_waited_unref(r);
}
/* The turn goes on; ends the call's memory. */
static void release(read_call *call) {
  pf_reader *r = call->r;
  pthread_mutex_lock(&r->base.lock);
  r->busy = 0;
  int post = r->base.side[PF_TAKES].first && !r->resuming;
  if (post) r->resuming = 1, __atomic_add_fetch(&r->base.refs, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&r->base.lock);
  const pf_host *host = r->host;
  free_call(call);
  if (post && host->post(host, PF_LANE_BLOCKING, give_turn, r)) give_turn(r);
}

/* ---------------------------------------------------------------- the next file */
static pf_status proceed(read_call *call);
static void go_on(void *arg) { /* on a thread of the lane: the turn came, or a file */
  read_call *call = arg;
  pf_ctx *c = call->c;
  uint64_t ticket;
  if (!c->host->defer(c, &ticket)) return;
  pf_status st = proceed(call);
  if (st != PF_PENDING) c->host->done(ticket, st);
}
static int file_run(pf_attempt *a) { return pf_dequeue_kind.run(a); }
static void file_undo(pf_attempt *a) { pf_dequeue_kind.undo(a); }
static pf_status set_work(pf_ctx *c, const pf_element *e, pf_reader *r) {
  pf_str name;
  const DLTensor *t = &e->chunk->part[0]->dl_tensor;
  if ((e->row < 0 ? pf_numel(t) : pf_product(t->shape, 1, t->ndim)) != 1)
    return PF_INVALID(c, "Expected to dequeue a one-element string tensor");
  PF_TRY(c->host->str_get(t, PF_MAX(e->row, 0), &name));
  r->work.n = 0;
  pf_bytes_add(&r->work, name.data, name.len);
  return r->work.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a file's name") : PF_OK;
}
static pf_status file_deliver(pf_ctx *c, pf_attempt *a) {
  file_attempt *f = (file_attempt *)a;
  read_call *call = f->call;
  pf_status st = a->status ? pf_dequeue_kind.deliver(c, a) : set_work(c, &f->base.one, call->r);
  f->delivered = 1;
  if (!a->refs) return st; /* on the stack of next_file */
  f->call = NULL;
  if (st) return release(call), st;
  call->c = c;
  call->named = 1;
  if (c->host->post(c->host, PF_LANE_BLOCKING, go_on, call)) go_on(call);
  return PF_PENDING;
}
static void file_clear(pf_attempt *a) {
  file_attempt *f = (file_attempt *)a;
  pf_dequeue_kind.clear(a);
  if (a->refs && f->call) release(f->call);    /* cancelled while it waited */
  if (!a->refs && !f->delivered) *f->gone = 1; /* before it could wait */
}
static const pf_attempt_kind file_kind = {
  sizeof(file_attempt), PF_TAKES,  "Dequeue operation was cancelled", file_run, file_undo,
  file_deliver,         file_clear};
/* PF_OK: r->work names it; PF_PENDING: the call goes on by itself, or is over */
static pf_status next_file(read_call *call) {
  int gone = 0;
  void *q;
  PF_TRY(call->c->host->resource_get(call->c, 1, &pf_queue_type, &q)); /* where it waits now */
  file_attempt f = {.base.base.kind = &file_kind, .base.left = 1, .call = call, .gone = &gone};
  pf_status st = pf_attempt_start(call->c, &call->q->base, &f.base.base);
  if (st == PF_PENDING && gone) release(call);
  return st;
}

/* ---------------------------------------------------------------- reading */
static pf_status failed(read_call *call, pf_status st) {
  return pf_fail(call->c, st, call->r->source.error);
}
static pf_status begin_file(read_call *call) {
  pf_reader *r = call->r;
  pf_status st = r->kind->begin ? r->kind->begin(r) : PF_OK;
  if (st) return pf_source_shut(&r->source), failed(call, st);
  pthread_mutex_lock(&r->base.lock);
  r->started++;
  pthread_mutex_unlock(&r->base.lock);
  return PF_OK;
}
static pf_status keep(read_call *call, pf_str value) {
  pf_reader *r = call->r;
  pf_bytes_add(&call->text, r->key.data, r->key.n);
  pf_bytes_add(&call->ends, (const char *)&call->text.n, 8);
  pf_bytes_add(&call->text, value.data, value.len);
  pf_bytes_add(&call->ends, (const char *)&call->text.n, 8);
  call->n++;
  return call->text.failed || call->ends.failed || r->key.failed
             ? pf_fail(call->c, PF_RESOURCE_EXHAUSTED, "no memory for a record")
             : PF_OK;
}
/* Records of the file that is open, as many as are wanted; *ended: it has no more */
static pf_status read_file(read_call *call, int *ended) {
  pf_reader *r = call->r;
  while (call->n < (call->wanted < 0 ? 1 : call->wanted) && !*ended) {
    pf_str value;
    pf_status st = r->kind->next(r, &value, ended);
    if (st == PF_SOURCE_END) return *ended = 1, PF_OK;
    if (st) return failed(call, st);
    PF_TRY(keep(call, value));
    pthread_mutex_lock(&r->base.lock);
    r->produced++;
    pthread_mutex_unlock(&r->base.lock);
    if (call->c->host->cancelled(call->c)) return pf_fail(call->c, PF_CANCELLED, "cancelled");
  }
  return PF_OK;
}
static pf_status give(const read_call *call) {
  pf_ctx *c = call->c;
  const int64_t *ends = (const int64_t *)call->ends.data;
  for (int32_t part = 0; part < 2; part++) {
    DLTensor *y = c->host->output(c, part, &call->n, call->wanted >= 0);
    PF_EXHAUSTED(y);
    for (int64_t i = 0; i < call->n; i++) {
      int64_t at = 2 * i + part, from = at ? ends[at - 1] : 0;
      PF_TRY(c->host->str_set(y, i, (pf_str){call->text.data + from, ends[at] - from}));
    }
  }
  return PF_OK;
}
static pf_status finish(read_call *call, pf_status st) {
  if (!st) st = give(call);
  release(call);
  return st;
}
static pf_status act(read_call *call) {
  pf_reader *r = call->r;
  pthread_mutex_lock(&r->base.lock);
  pf_status st = call->act(call);
  pthread_mutex_unlock(&r->base.lock);
  release(call);
  return st;
}
static void end_file(pf_reader *r) {
  pf_source_shut(&r->source);
  pthread_mutex_lock(&r->base.lock);
  r->finished = r->started;
  pthread_mutex_unlock(&r->base.lock);
}
/* The turn is the call's; ends it, unless PF_PENDING is returned. */
static pf_status proceed(read_call *call) {
  pf_reader *r = call->r;
  pf_status st = PF_OK;
  if (call->act) return act(call);
  while (!st && !call->n && call->wanted) {
    int ended = 0;
    if (r->started == r->finished) {
      if (!call->named) st = next_file(call);
      if (st == PF_PENDING) return st;
      if (st) break;
      call->named = 0;
      if ((st = begin_file(call))) break;
    }
    st = read_file(call, &ended);
    if (!st && ended) end_file(r);
  }
  return finish(call, st);
}

/* ---------------------------------------------------------------- the turn */
static int turn_run(pf_attempt *a) {
  pf_reader *r = (pf_reader *)a->on;
  if (r->busy) return PF_WAITS;
  r->busy = 1;
  return PF_OVER;
}
static pf_status turn_deliver(pf_ctx *c, pf_attempt *a) {
  turn_attempt *t = (turn_attempt *)a;
  read_call *call = t->call;
  if (a->status)
    return pf_failf(c, a->status, "the reader '%s' was reset, or its session closed",
                    ((pf_reader *)a->on)->name);
  t->call = NULL;
  call->c = c;
  if (!a->refs) return proceed(call);
  if (c->host->post(c->host, PF_LANE_BLOCKING, go_on, call)) go_on(call);
  return PF_PENDING;
}
static void turn_clear(pf_attempt *a) {
  turn_attempt *t = (turn_attempt *)a;
  if (t->call) free_call(t->call);
}
static const pf_attempt_kind turn_kind = {
  sizeof(turn_attempt), PF_TAKES,  "Read operation was cancelled", turn_run, NULL,
  turn_deliver,         turn_clear};

static pf_status reader_of(pf_ctx *c, pf_reader **r) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &reader_type, &obj));
  *r = obj;
  return PF_OK;
}
static pf_status start_call(pf_ctx *c, read_call given) {
  read_call *call = malloc(sizeof *call);
  if (!call) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a call of a reader");
  *call = given;
  call->c = c;
  __atomic_add_fetch(&call->r->base.refs, 1, __ATOMIC_RELAXED);
  if (call->q) __atomic_add_fetch(&call->q->base.refs, 1, __ATOMIC_RELAXED);
  turn_attempt t = {.base.kind = &turn_kind, .call = call};
  return pf_attempt_start(c, &given.r->base, &t.base);
}
static pf_status start_read(pf_ctx *c, int64_t wanted) {
  pf_reader *r;
  void *queue;
  PF_TRY(reader_of(c, &r));
  PF_TRY(c->host->resource_get(c, 1, &pf_queue_type, &queue));
  pf_queue *q = queue;
  if (q->n_parts != 1) return PF_INVALID(c, "Expected single component queue");
  if (q->types[0] != PF_STRING) return PF_INVALID(c, "Expected queue with single string component");
  PF_TRY(reader_of(c, &r)); /* again: the last is what the call is said to wait at */
  return start_call(c, (read_call){.r = r, .q = q, .wanted = wanted});
}
static pf_status start_act(pf_ctx *c, pf_status (*act)(read_call *)) {
  pf_reader *r;
  PF_TRY(reader_of(c, &r));
  return start_call(c, (read_call){.r = r, .act = act});
}
static pf_status read_one(pf_ctx *c, const void *state) { return (void)state, start_read(c, -1); }
static pf_status read_up_to(pf_ctx *c, const void *state) {
  int64_t n;
  (void)state;
  PF_TRY(pf_in_scalar(c, 2, "num_records", &n));
  if (n < 0) return PF_INVALID(c, "num_records must be >= 0, got %" PRId64, n);
  return start_read(c, n);
}

/* ---------------------------------------------------------------- counts and states */
static pf_status put_count(pf_ctx *c, int completed) {
  pf_reader *r;
  PF_TRY(reader_of(c, &r));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&r->base.lock);
  PF_DATA(int64_t, y)[0] = completed ? r->finished : r->produced;
  pthread_mutex_unlock(&r->base.lock);
  return PF_OK;
}
static pf_status records_produced(pf_ctx *c, const void *s) { return (void)s, put_count(c, 0); }
static pf_status units_completed(pf_ctx *c, const void *s) { return (void)s, put_count(c, 1); }

static void forget(pf_reader *r) {
  pf_source_shut(&r->source);
  r->started = r->finished = r->produced = r->number = 0;
  r->work.n = r->window.n = 0;
}
static pf_status do_reset(read_call *call) { return forget(call->r), PF_OK; }
static pf_status reset(pf_ctx *c, const void *s) { return (void)s, start_act(c, do_reset); }

/* TF's ReaderBaseState: started, finished, produced, the file */
static pf_status do_serialize(read_call *call) {
  pf_reader *r = call->r;
  pf_bytes b = {0};
  if (!r->kind->can_save) return pf_fail(call->c, PF_UNIMPLEMENTED, "Reader SerializeState");
  pb_int(&b, 1, r->started);
  pb_int(&b, 2, r->finished);
  pb_int(&b, 3, r->produced);
  pb_text(&b, 4, r->work.data, r->work.n);
  return pb_done(call->c, &b);
}
static pf_status serialize(pf_ctx *c, const void *s) { return (void)s, start_act(c, do_serialize); }
static int read_state(pf_str s, int64_t count[4], pf_str *work) {
  pb_field f;
  int64_t at = 0, in;
  uint64_t v;
  int more;
  while ((more = pb_next(s.data, s.len, &at, &f)) > 0) {
    if (f.number == 4 && f.wire == PB_LENGTH) *work = (pf_str){f.data, f.n};
    if (f.number > 3 || f.wire != PB_VARINT) continue;
    in = 0;
    if (!pb_read_varint(f.data, f.n, &in, &v) || v > INT64_MAX) return 0;
    count[f.number] = (int64_t)v;
  }
  return more == 0;
}
static pf_status do_restore(read_call *call) {
  pf_reader *r = call->r;
  pf_ctx *c = call->c;
  pf_str s, work = {"", 0};
  int64_t count[4] = {0};
  if (!r->kind->can_save) return pf_fail(c, PF_UNIMPLEMENTED, "Reader RestoreState");
  if (c->in[1]->ndim)
    return PF_INVALID(c, "Reader state must be scalar, but had shape: %s", PF_SHAPE(c->in[1]).s);
  PF_TRY(c->host->str_get(c->in[1], 0, &s));
  if (!read_state(s, count, &work))
    return PF_INVALID(c, "Could not parse state for %s '%s': %.*s", r->kind->op, r->name,
                      (int)PF_MIN(s.len, 200), s.data);
  if (count[1] > count[2]) /* as TF: what was begun cannot be gone on with */
    return PF_INVALID(
        c, "Inconsistent work started vs. finished when restoring in %s: %" PRId64 " vs. %" PRId64,
        r->name, count[1], count[2]);
  forget(r);
  r->started = count[1], r->finished = count[2], r->produced = count[3];
  pf_bytes_add(&r->work, work.data, work.len);
  return r->work.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a file's name") : PF_OK;
}
static pf_status restore(pf_ctx *c, const void *s) { return (void)s, start_act(c, do_restore); }

#define STRING(field) PF_ATTR(make_state, PF_ATTR_STRING, field)
#define INT(field) PF_ATTR(make_state, PF_ATTR_INT, field)
#define MAKE(op_, init_, ...) PF_CPU_FLAGS(op_, NULL, 0, .init = init_, .compute = open_reader, \
  .state_size = sizeof(make_state), .attrs = PF_ATTRS(STRING(container), STRING(shared_name), \
                                                      __VA_ARGS__))
#define FIXED(op_, ...) MAKE(op_, init_fixed, INT(header_bytes), INT(record_bytes), \
                             INT(footer_bytes), INT(hop_bytes), __VA_ARGS__)
#define BOTH(kernel, op_, ...) kernel(op_, __VA_ARGS__), kernel(op_ "V2", __VA_ARGS__)
#define ASK(op_, compute_) PF_CPU_FLAGS(op_, NULL, 0, .compute = compute_)
#define READ(op_, compute_) PF_CPU_FLAGS(op_, NULL, PF_KERNEL_ASYNC | PF_KERNEL_TAKES, .compute = compute_)
extern const pf_kernel *const reader_ops_kernels[];
const pf_kernel *const reader_ops_kernels[] = {
  BOTH(MAKE, "TextLineReader", init_text, INT(skip_header_lines)),
  BOTH(MAKE, "WholeFileReader", init_whole, NULL),
  BOTH(MAKE, "IdentityReader", init_identity, NULL),
  BOTH(MAKE, "TFRecordReader", init_record, STRING(compression_type)),
  FIXED("FixedLengthRecordReader", NULL),
  FIXED("FixedLengthRecordReaderV2", STRING(encoding)),
  BOTH(READ, "ReaderRead", read_one),
  BOTH(READ, "ReaderReadUpTo", read_up_to),
  BOTH(ASK, "ReaderNumRecordsProduced", records_produced),
  BOTH(ASK, "ReaderNumWorkUnitsCompleted", units_completed),
  BOTH(READ, "ReaderReset", reset),
  BOTH(READ, "ReaderSerializeState", serialize),
  BOTH(READ, "ReaderRestoreState", restore),
  NULL};
