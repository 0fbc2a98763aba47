/* inbox.c - frames in: what a peer's link brings is received into a buffer, or where a large body
 * belongs, and acted on.
 *
 * Invariants
 * 1. Whoever has `reading` receives: the net's thread, or a thread that waits for an answer
 *    (pf_remote_wait; the net's thread is not woken for that connection then).  Steps begin after
 *    `reading` is released, so one that takes long stops nobody.
 * 2. Nothing is believed: before HELLO a peer may say nothing else and not more than HELLO_BYTES,
 *    afterwards frames of the epoch that it gave there; what is broken ends the connection with a
 *    reason on both sides.
 *
 * Threads: any.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include "net/greeting.h"
#include "net/outgoing.h"

enum { HELLO_BYTES = 1024, READS = 16, SMALL_BODY = PF_NET_BUFFER - PF_NET_HEAD };

int32_t pf_inbox_init(pf_peer *p) {
  pthread_mutex_init(&p->inbox.reading, NULL);
  p->inbox.buf = malloc(PF_NET_BUFFER);
  return p->inbox.buf != NULL;
}

void pf_inbox_free(pf_peer *p) {
  pthread_mutex_destroy(&p->inbox.reading);
  pf_tensor_unref(p->inbox.body);
  free(p->inbox.buf);
}

static pf_status handle(pf_peer *p, const pf_net_head *h, pf_net_in *b, pf_serving **todo) {
  pf_serving *s = NULL;
  pf_status st;
  if (h->type == PF_NET_BYE) return pf_bid_farewell(p, b);
  if (pf_peer_is(p, PF_PEER_GREETING))
    return h->type == PF_NET_HELLO ? (pf_greeted(p, h, b), PF_OK) : PF_DATA_LOSS;
  switch (h->type) {
    case PF_NET_RUN:
      st = pf_steps_run(p, h, b, &s);
      if (s) {
        while (*todo) todo = &(*todo)->next; /* in their order */
        s->next = NULL;
        *todo = s;
      }
      return st;
    case PF_NET_DONE: return pf_steps_done(p, h, b);
    case PF_NET_TENSOR: return pf_tensor_frame(p, h, b);
    case PF_NET_ANNOUNCE: return pf_announced(p, h, b);
    case PF_NET_GET: return pf_asked_for(p, h, b);
    case PF_NET_CANCEL: return pf_steps_cancel(p, h, b);
    case PF_NET_CLEAN:
      if (h->flags & PF_NET_ALL) pf_task_clean_session(p->net->task, h->session);
      else pf_task_clean(p->net->task, (pf_step_key){h->session, h->step});
      return PF_OK;
    case PF_NET_PING: return pf_pinged(p, h, b);
    case PF_NET_CREDIT: return pf_credited(p, b);
    case PF_NET_READ: return pf_was_read(p, h->session);
    default: return PF_DATA_LOSS;
  }
}

/* Whether the head may stand where it stands. */
static const char *problem_of(const pf_peer *p, const pf_net_head *h) {
  if (h->type == 0 || h->type >= PF_NET_TYPES) return "a frame of a type that there is not";
  int32_t greeting = pf_a32_load((pf_a32 *)&p->state) == PF_PEER_GREETING;
  if (greeting && (h->length > HELLO_BYTES || (h->type != PF_NET_HELLO && h->type != PF_NET_BYE)))
    return "something else than a greeting";
  if (h->type == PF_NET_CHUNK && h->length < PF_NET_CHUNK_HEAD) return "a chunk without a head";
  if (h->type != PF_NET_RUN && h->type != PF_NET_DONE && h->type != PF_NET_TENSOR &&
      h->type != PF_NET_CHUNK && h->length > SMALL_BODY)
    return "a frame longer than its type is";
  if (!greeting && h->type != PF_NET_BYE && h->epoch != p->epoch) return "a frame of another epoch";
  return NULL;
}

static void to_the_front(pf_peer *p) {
  if (p->inbox.lo)
    memmove(p->inbox.buf, p->inbox.buf + p->inbox.lo, (size_t)(p->inbox.hi - p->inbox.lo));
  p->inbox.hi -= p->inbox.lo, p->inbox.lo = 0;
}

/* What is there of the sink's bytes goes there; the rest is received there. */
static void fill_sink(pf_peer *p) {
  int64_t k = pf_min64(p->inbox.sink_left, p->inbox.hi - p->inbox.lo);
  memcpy(p->inbox.sink, p->inbox.buf + p->inbox.lo, (size_t)k);
  p->inbox.sink += k, p->inbox.sink_left -= k, p->inbox.lo += k;
}

static pf_status begin_body(pf_peer *p, const pf_net_head *h) {
  int64_t n = h->length;
  if (n > p->net->o.incoming_bytes) return PF_RESOURCE_EXHAUSTED;
  p->inbox.body = pf_tensor_new(PF_UINT8, &n, 1);
  if (!p->inbox.body) return PF_RESOURCE_EXHAUSTED;
  p->inbox.body_head = *h;
  p->inbox.lo += PF_NET_HEAD;
  p->inbox.sink = p->inbox.body->m.dl_tensor.data, p->inbox.sink_left = n;
  fill_sink(p); /* it is longer than the buffer: something is left */
  return PF_OK;
}

/* All of it is there. */
static pf_status sink_over(pf_peer *p, pf_serving **todo) {
  pf_tensor *body = p->inbox.body;
  if (!body) {
    pf_chunk_ends(p);
    return PF_OK;
  }
  p->inbox.body = NULL;
  pf_net_in in = {body->m.dl_tensor.data, body->nbytes, 0, 0, body};
  pf_status st = handle(p, &p->inbox.body_head, &in, todo);
  pf_tensor_unref(body);
  return st;
}

/* The bytes of a chunk that came with others go where they belong; those to come are received
 * there. */
static pf_status chunk(pf_peer *p, const pf_net_head *h) {
  pf_status st = pf_chunk_begins(p, h, p->inbox.buf + p->inbox.lo + PF_NET_HEAD, &p->inbox.sink,
                                 &p->inbox.sink_left);
  if (st) return st;
  p->inbox.lo += PF_NET_HEAD + PF_NET_CHUNK_HEAD;
  fill_sink(p);
  if (!p->inbox.sink_left) pf_chunk_ends(p);
  return PF_OK;
}

/* What is whole in the buffer. */
static pf_status parse(pf_peer *p, pf_serving **todo, const char **why) {
  *why = NULL;
  while (!p->inbox.sink_left && p->inbox.hi - p->inbox.lo >= PF_NET_HEAD &&
         !pf_peer_is(p, PF_PEER_LOST)) {
    pf_net_head h = pf_net_head_of(p->inbox.buf + p->inbox.lo);
    if ((*why = problem_of(p, &h))) return PF_DATA_LOSS;
    int64_t need = PF_NET_HEAD + (h.type == PF_NET_CHUNK ? PF_NET_CHUNK_HEAD : (int64_t)h.length);
    if (need > PF_NET_BUFFER) {
      pf_status st = begin_body(p, &h);
      if (st) return st;
      break;
    }
    if (p->inbox.hi - p->inbox.lo < need) {
      if (need > PF_NET_BUFFER - p->inbox.lo) to_the_front(p);
      return PF_OK;
    }
    if (h.type == PF_NET_CHUNK) {
      pf_status st = chunk(p, &h);
      if (st) return st;
      continue;
    }
    pf_net_in body = {p->inbox.buf + p->inbox.lo + PF_NET_HEAD, h.length, 0, 0, NULL};
    pf_status st = handle(p, &h, &body, todo);
    p->inbox.lo += need;
    if (st) return st;
  }
  if (p->inbox.lo == p->inbox.hi || PF_NET_BUFFER - p->inbox.hi < PF_NET_HEAD) to_the_front(p);
  return PF_OK;
}

/* 1: there may be more; 0: nothing more now; the connection may be lost. */
static int32_t receive_once(pf_peer *p, pf_serving **todo) {
  char text[200] = "";
  const char *why = NULL;
  pf_link_problem problem = {text, sizeof text, 0};
  pf_span spans[2];
  int32_t k = 0;
  if (p->inbox.sink_left) spans[k++] = (pf_span){p->inbox.sink, (size_t)p->inbox.sink_left};
  spans[k++] = (pf_span){p->inbox.buf + p->inbox.hi, (size_t)(PF_NET_BUFFER - p->inbox.hi)};
  int64_t asked = p->inbox.sink_left + PF_NET_BUFFER - p->inbox.hi,
          got = p->link->receive(p->conn, spans, k, &problem), n = got;
  if (n < 0) {
    pf_peer_losef(p, PF_UNAVAILABLE, "%s", text);
    return 0;
  }
  if (n == 0) return 0;
  pf_a64_store_rlx(&p->signs.last_in, pf_coarse_ns());
  pf_a64_add_rlx(&p->signs.bytes_in, n);
  pf_status st = PF_OK;
  if (p->inbox.sink_left) {
    int64_t here = pf_min64(n, p->inbox.sink_left);
    p->inbox.sink += here, p->inbox.sink_left -= here, n -= here;
    if (!p->inbox.sink_left) st = sink_over(p, todo);
  }
  p->inbox.hi += n;
  if (!st) st = parse(p, todo, &why);
  if (st && !pf_peer_is(p, PF_PEER_LOST)) {
    if (!why)
      why = st == PF_RESOURCE_EXHAUSTED ? "a frame that there is no memory for"
                                        : "a frame that is broken";
    pf_peer_refuse(p, st == PF_RESOURCE_EXHAUSTED ? st : PF_DATA_LOSS, "%.127s sent %s",
                   p->name[0] ? p->name : "who connected", why);
  }
  return got == asked && !pf_peer_is(p, PF_PEER_LOST);
}

/* They are p's. */
static void begin_all(pf_peer *p, pf_serving *todo) {
  if (!todo) return;
  pf_peer *was = pf_outbox_cork(p);
  while (todo) {
    pf_serving *s = todo;
    todo = s->next;
    pf_steps_begin(s);
  }
  pf_outbox_uncork(p, was);
}

int32_t pf_peer_has_unread(pf_peer *p) {
  struct pollfd f = {.fd = p->fd, .events = POLLIN};
  return poll(&f, 1, 0) > 0 && f.revents & POLLIN;
}

int32_t pf_peer_receive(pf_peer *p) {
  pf_serving *todo = NULL;
  if (pthread_mutex_trylock(&p->inbox.reading)) return 0;
  for (int k = 0; k < READS && !pf_peer_is(p, PF_PEER_LOST) && receive_once(p, &todo); k++)
    continue;
  pthread_mutex_unlock(&p->inbox.reading);
  begin_all(p, todo);
  return 1;
}

void pf_peer_readable(pf_peer *p) {
  /* who has it waits for something itself; the bytes are still there */
  if (!pf_peer_receive(p) && !pf_peer_is_direct(p)) usleep(200);
}

static int32_t lull_at(pf_peer *p, const pf_lull *lull) {
  pf_serving *todo = NULL;
  if (!pf_peer_is(p, PF_PEER_OPEN) || pthread_mutex_trylock(&p->inbox.reading)) return 0;
  pf_peer_set_direct(p, 1);
  while (!lull->enough(lull->self) && !todo && pf_peer_is(p, PF_PEER_OPEN)) {
    int64_t left = lull->until_ns - pf_now_ns();
    if (left <= 0) break;
    struct timespec ts = {left / 1000000000, left % 1000000000};
    struct pollfd f[2] = {{.fd = p->fd, .events = POLLIN}, {.fd = lull->nudge, .events = POLLIN}};
    /* who waits looks at signals */
    if (ppoll(f, lull->nudge < 0 ? 1 : 2, &ts, NULL) < 0 && errno == EINTR) break;
    if (lull->nudge >= 0 && f[1].revents) break;
    receive_once(p, &todo);
  }
  pf_peer_set_direct(p, 0);
  pthread_mutex_unlock(&p->inbox.reading);
  pf_worker *was = pf_pool_be(NULL); /* those steps are none of the helper's */
  begin_all(p, todo);
  pf_pool_be(was);
  return 1;
}

static int32_t is_set(void *flag) { return pf_a32_load(flag); }

static int32_t poll_at(pf_peer *p, pf_a32 *until_set, int64_t until_ns) {
  return lull_at(
      p, &(pf_lull){.nudge = -1, .until_ns = until_ns, .enough = is_set, .self = until_set});
}

/* ------------------------------------------------------------- who waits for an answer receives */
int32_t pf_remote_wait(pf_remote *r, int64_t until_ns) {
  while (!pf_a32_load(&r->over) && pf_now_ns() < until_ns) {
    if (poll_at(r->peer, &r->over, until_ns)) continue;
    pthread_mutex_lock(&r->lock);
    if (!pf_a32_load(&r->over))
      pf_cond_wait_until(&r->cond, &r->lock, pf_min64(until_ns, pf_now_ns() + 2000000));
    pthread_mutex_unlock(&r->lock);
  }
  return pf_a32_load(&r->over);
}

static int32_t has_failed(void *remote) {
  pf_remote *r = remote;
  return pf_a32_load(&r->over) && r->status;
}

static int32_t receive_for(void *remote, const pf_lull *lull) {
  return lull_at(((pf_remote *)remote)->peer, lull);
}

int32_t pf_remote_help(pf_remote *r, pf_started *own, int64_t until_ns) {
  return pf_started_help(own, &(pf_helper){has_failed, receive_for, r}, until_ns);
}
