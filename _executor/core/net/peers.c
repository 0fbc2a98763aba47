/* peers.c - one connection with one other task: frames out through a queue, frames in through a buffer, signs of life.
 *
 *   GREETING --HELLO, both ways--> OPEN --EOF, silence, BYE, a broken frame, close--> LOST
 *       `------refused, EOF, too late------------------------------------------------^
 *
 * Invariants
 * 1. A frame goes out whole, frames in the order in which they were queued; the chunks of a large tensor come between others', one at a
 *    time, when nothing else waits.
 * 2. Who sends posts what the link takes at once, on its own thread; the rest waits for the net's thread.  What the peer's own steps
 *    send while they begin on a thread is queued, and posted as one (`cork`), or as soon as it is more than CORK_BYTES.  Nobody else
 *    waits for that: what another thread sends, signs of life among it, takes along what is queued.
 * 3. Whoever has `reading` receives: the net's thread, or a thread that waits for an answer (pf_peer_poll; the net's thread is not woken
 *    for that connection then).  Steps begin after `reading` is released, so one that takes long stops nobody.  `out` is held for
 *    PUMP_BYTES at most.
 * 4. Nothing is believed: before HELLO a peer may say nothing else and not more than HELLO_BYTES, afterwards frames of the epoch that it
 *    gave there; what is broken ends the connection with a reason on both sides.
 *
 * Threads: any.  net.h has the lock order.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "net/peer.h"

enum { MOST_OUT = 1 << 16, HELLO_BYTES = 1024, SPANS = 32, READS = 16, SMALL_BODY = PF_NET_BUFFER - PF_NET_HEAD };
static const int64_t POST_BYTES = 1 << 20, CORK_BYTES = 1 << 16, PUMP_BYTES = 1 << 23;
static __thread pf_peer *corked;                /* whose steps this thread begins now */
static __thread int64_t corked_bytes;           /* that they sent, and that were not posted yet */

/* ---------------------------------------------------------------- begin and end */
pf_peer *pf_peer_new(pf_net *n, const pf_link *link, pf_link_conn *conn, int32_t initiated) {
  pf_peer *p = calloc(1, sizeof *p);
  uint8_t *buf = malloc(PF_NET_BUFFER);
  if (!p || !buf) {
    free(p), free(buf);
    link->release(conn);
    return NULL;
  }
  pf_a32_store(&p->refs, 1);
  pf_net_ref(n);
  p->net = n, p->link = link, p->conn = conn, p->initiated = initiated;
  p->fd = link->descriptor(conn);
  p->buf = buf;
  p->since_ns = pf_now_ns();
  pf_a64_store_rlx(&p->last_in, p->since_ns);
  pthread_mutex_init(&p->reading, NULL), pthread_mutex_init(&p->out, NULL), pthread_mutex_init(&p->lock, NULL);
  pf_cond_init(&p->roomy);
  return p;
}

void pf_peer_unref(pf_peer *p) {
  if (!p || !pf_a32_dec_last(&p->refs)) return;
  pf_net *n = p->net;
  pf_incoming_free(p);
  pf_arenas_free(p);
  p->link->release(p->conn);
  pthread_mutex_destroy(&p->reading), pthread_mutex_destroy(&p->out), pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->roomy);
  pf_tensor_unref(p->body);
  free(p->buf);
  free(p);
  pf_net_unref(n);
}

static void drop_queue(pf_peer *p) {            /* out held */
  p->post_failed = 1;
  while (p->first) {
    pf_out *o = p->first;
    p->first = o->next;
    if (o->last_of) o->last_of->next = p->transfers, p->transfers = o->last_of;
    free(o->own);
    free(o);
  }
  p->last = NULL;
  p->n_out = 0;
  p->tensor_bytes = 0;
  pthread_cond_broadcast(&p->roomy);
}

typedef struct { pf_net *n; char name[128]; uint64_t incarnation; pf_error why; } loss;
static void tell_loss(void *arg) {
  loss *l = arg;
  l->n->o.lost(l->n->o.lost_arg, l->name, l->incarnation, &l->why);
  pf_net_unref(l->n);
  free(l);
}

void pf_peer_lose(pf_peer *p, const pf_error *why) {
  pf_net *n = p->net;
  pthread_mutex_lock(&n->lock);
  int32_t was = pf_a32_load(&p->state);
  if (was != PF_PEER_LOST) {
    p->why = *why;
    pf_copy_text(p->why.task, sizeof p->why.task, p->name, (int64_t)strlen(p->name));
    pf_a32_store(&p->state, PF_PEER_LOST);
    pthread_cond_broadcast(&n->changed);
  }
  pthread_mutex_unlock(&n->lock);
  if (was == PF_PEER_LOST) return;
  p->link->close(p->conn);
  pthread_mutex_lock(&p->out);
  drop_queue(p);
  pthread_mutex_unlock(&p->out);
  pf_steps_lost(p);
  pf_transfers_lost(p);
  pf_incoming_lost(p);
  loss *l = was == PF_PEER_OPEN && n->o.lost && !pf_a32_load(&n->closing) ? malloc(sizeof *l) : NULL;
  if (l) {
    *l = (loss){.n = n, .incarnation = p->incarnation, .why = p->why};
    memcpy(l->name, p->name, sizeof l->name);
    pf_net_ref(n);
    pf_net_tell(n, tell_loss, l);
  }
  pf_net_forget(n, p);                          /* the net's reference goes; the caller has one */
}

void pf_peer_losef(pf_peer *p, pf_status code, const char *fmt, ...) {
  PF_FORMATTED(text, fmt);
  pf_error why;
  pf_error_clear(&why);
  if (p->name[0]) pf_error_set(&why, code, "%s was lost: %.2000s", p->name, text);
  else pf_error_set(&why, code, "%.2000s", text);
  pf_peer_lose(p, &why);
}

/* ---------------------------------------------------------------- out */
static void rearm(pf_peer *p) {                 /* out held */
  uint32_t events = (p->direct ? 0 : EPOLLIN) | (p->want_out ? EPOLLOUT : 0);
  struct epoll_event e = {.events = events, .data.u64 = p->slot};
  if (!p->registered || p->armed == (int32_t)events) return;
  p->armed = (int32_t)events;
  epoll_ctl(p->net->epfd, EPOLL_CTL_MOD, p->fd, &e);
}

static void append(pf_peer *p, pf_out *o) {     /* out held */
  if (!o->counted && ++p->n_out > p->most_out) p->most_out = p->n_out;
  o->next = NULL;
  if (p->last) p->last->next = o;
  else p->first = o;
  p->last = o;
}

static int64_t bytes_left(const pf_out *o) { return o->head_n + o->n - o->at; }

static void consume(pf_peer *p, int64_t taken, pf_transfer **finished) {       /* out held */
  pf_a64_add_rlx(&p->bytes_out, taken);
  while (p->first && (taken || !bytes_left(p->first))) {
    pf_out *o = p->first;
    int64_t k = pf_min64(taken, bytes_left(o));
    o->at += k, taken -= k;
    if (bytes_left(o)) break;
    p->first = o->next;
    if (!o->counted) p->n_out--;
    if (!p->first) p->last = NULL;
    if (o->counted) p->tensor_bytes -= o->n;
    if (o->last_of) o->last_of->next = *finished, *finished = o->last_of;
    free(o->own);
    free(o);
  }
}

static int32_t gather(const pf_out *o, pf_span *spans, int64_t *bytes) {
  int32_t k = 0;
  for (*bytes = 0; o && k < SPANS - 1 && *bytes < POST_BYTES; o = o->next) {
    int64_t in_head = o->at < o->head_n ? o->head_n - o->at : 0, at = o->at - o->head_n + in_head;
    if (in_head) spans[k++] = (pf_span){(void *)(o->head + o->at), (size_t)in_head};
    if (o->n - at) spans[k++] = (pf_span){(void *)(o->p + at), (size_t)(o->n - at)};
    *bytes += in_head + o->n - at;
  }
  return k;
}

/* Out held.  Only the net's thread lets go what waits for room: it comes for that, too, where another one has posted all. */
static int32_t wants_out(const pf_peer *p) { return (p->first || pf_may_release(p)) && !p->post_failed; }

static void pump(pf_peer *p, pf_transfer **finished) {         /* out held */
  pf_span spans[SPANS];
  int64_t bytes, taken, left = PUMP_BYTES;
  while (!p->post_failed) {
    pf_out *chunk = p->first ? NULL : pf_next_chunk(p);
    if (chunk) append(p, chunk);
    if (!p->first || left <= 0) break;          /* the rest is the net's thread's: others want `out` */
    int32_t k = gather(p->first, spans, &bytes);
    taken = k ? p->link->post(p->conn, spans, k) : 0;
    if (taken < 0) p->post_failed = 1;          /* who receives finds out why */
    else consume(p, taken, finished);
    if (taken < bytes) break;
    left -= taken;
  }
  p->want_out = wants_out(p);
  rearm(p);
}

void pf_peer_writable(pf_peer *p) {
  pf_transfer *finished = NULL;
  pthread_mutex_lock(&p->out);
  pump(p, &finished);
  pf_held *held = pf_release_held(p);
  pthread_mutex_unlock(&p->out);
  pf_transfers_finished(finished);
  pf_send_held(p, held);
  pthread_mutex_lock(&p->out);
  if (pf_may_release(p)) {                      /* those were posted at once */
    p->want_out = wants_out(p);
    rearm(p);
  }
  pthread_mutex_unlock(&p->out);
}

/* What of these bytes was not taken at once; `own`, where there is one, is the memory that they lie in. */
static void queue_rest(pf_peer *p, const uint8_t *bytes, int64_t n, uint8_t *own, int32_t counted) {   /* out held */
  pf_out *node = calloc(1, sizeof *node);
  if (node && !counted && p->n_out >= MOST_OUT) free(node), node = NULL;    /* it asks and asks, and reads no answer */
  if (node && !own && (own = malloc((size_t)n))) {
    memcpy(own, bytes, (size_t)n);
    bytes = own;
  }
  if (!node || !own) {                          /* half a frame is out: the peer would misread the rest */
    free(node), free(own);
    p->post_failed = 1;
    p->link->close(p->conn);
    return;
  }
  node->own = own, node->p = bytes, node->n = n, node->counted = counted;
  if (corked == p) corked_bytes += n;
  if (counted) p->tensor_bytes += n;
  append(p, node);
}

/* Behind what waits, or at once; what rides goes ahead. */
static void send_held(pf_peer *p, pf_net_out *o, int32_t counted) {    /* out held */
  int64_t taken = 0, riding = p->n_riding;
  if (!p->first && corked != p) {
    pf_span spans[2] = {{p->riding, (size_t)riding}, {o->p, (size_t)o->n}};
    taken = p->link->post(p->conn, riding ? spans : spans + 1, riding ? 2 : 1);
    if (taken < 0) {
      p->post_failed = 1;
      return;
    }
    pf_a64_add_rlx(&p->bytes_out, taken);
  }
  if (taken < riding) queue_rest(p, p->riding + taken, riding - taken, NULL, 0);
  p->n_riding = 0;
  taken = taken > riding ? taken - riding : 0;
  if (taken < o->n) {
    queue_rest(p, o->p + taken, o->n - taken, o->own, counted);
    o->own = NULL;
  }
  p->want_out = wants_out(p) && (p->want_out || corked != p || pf_may_release(p));
  rearm(p);
}

/* Tensors of the frame as they are, between copies of the rest. */
static void queue_spliced(pf_peer *p, pf_net_out *o) {          /* out held */
  int64_t at = 0;
  if (p->n_riding) queue_rest(p, p->riding, p->n_riding, NULL, 0);
  p->n_riding = 0;
  for (int32_t k = 0; k < o->n_splices && !p->post_failed; k++) {
    pf_splice *s = o->splices + k;
    pf_out *node = calloc(1, sizeof *node);
    pf_transfer *whole = calloc(1, sizeof *whole);
    queue_rest(p, o->p + at, s->at - at, NULL, 0);
    at = s->at;
    if (!node || !whole) {
      free(node), free(whole);
      p->post_failed = 1;
      p->link->close(p->conn);
      return;
    }
    whole->t = s->t;
    s->t = NULL;
    node->p = whole->t->m.dl_tensor.data, node->n = whole->t->nbytes, node->last_of = whole;
    append(p, node);
  }
  if (at < o->n && !p->post_failed) queue_rest(p, o->p + at, o->n - at, NULL, 0);
}

void pf_peer_send_as(pf_peer *p, pf_net_out *o, int32_t counted) {
  pf_transfer *finished = NULL;
  if (o->failed) pf_peer_losef(p, PF_RESOURCE_EXHAUSTED, "out of memory for a frame, or one of more than 4 GB");
  pthread_mutex_lock(&p->out);
  if (!o->failed && !p->post_failed && o->n_splices) {
    queue_spliced(p, o);
    pump(p, &finished);
  } else if (!o->failed && !p->post_failed) {
    int32_t kept_back = p->first && !p->want_out;
    send_held(p, o, counted);
    if (corked == p ? corked_bytes > CORK_BYTES : kept_back) {
      corked_bytes = 0;
      pump(p, &finished);
    }
  }
  pthread_mutex_unlock(&p->out);
  pf_transfers_finished(finished);
  pf_net_out_free(o);
}

/* What was kept back is posted. */
static void uncork(pf_peer *p) {
  pf_transfer *finished = NULL;
  pthread_mutex_lock(&p->out);
  if (p->first && !p->want_out && !p->post_failed) pump(p, &finished);
  pthread_mutex_unlock(&p->out);
  pf_transfers_finished(finished);
}

void pf_peer_send_soon(pf_peer *p, const pf_net_head *h) {
  pf_net_out rest = {0};
  pthread_mutex_lock(&p->out);
  if (p->n_riding + PF_NET_HEAD > (int32_t)sizeof p->riding && !p->post_failed) send_held(p, &rest, 0);
  if (!p->post_failed) {
    pf_net_head_to(p->riding + p->n_riding, *h);
    p->n_riding += PF_NET_HEAD;
  }
  pthread_mutex_unlock(&p->out);
}

void pf_peer_send(pf_peer *p, pf_net_out *take) { pf_peer_send_as(p, take, 0); }

/* ---------------------------------------------------------------- greeting */
static const pf_step_key none;

void pf_peer_hello(pf_peer *p, int32_t flags) {
  uint8_t memory[512];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_HELLO, flags, none, p->net->o.epoch);
  pf_put32(&o, PF_NET_MAGIC), pf_put32(&o, PF_NET_VERSION);
  pf_put64(&o, p->net->incarnation), pf_put64(&o, p->incarnation);
  pf_put_text(&o, pf_str_of(p->net->task->name)), pf_put_text(&o, pf_str_of(p->name));
  pf_put64(&o, (uint64_t)p->net->o.window_bytes);
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

void pf_peer_bye(pf_peer *p, pf_status st, const char *text) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_BYE, 0, none, p->net->o.epoch);
  pf_put32(&o, (uint32_t)st);
  pf_put_text(&o, (pf_str){text, pf_min64((int64_t)strlen(text), 800)});
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

__attribute__((format(printf, 3, 4)))
static pf_status refuse(pf_peer *p, pf_status code, const char *fmt, ...) {
  PF_FORMATTED(text, fmt);
  pf_error why;
  pf_peer_bye(p, code, text);
  pf_error_clear(&why);
  pf_error_set(&why, code, "%.2000s", text);
  pf_peer_lose(p, &why);
  return code;
}

/* OPEN from now on, in the place of an older connection with the same task.  0: that one stays.  Who was called answers before anybody
 * here can find the peer: what others send comes behind the greeting. */
static int32_t opened(pf_peer *p) {
  pf_net *n = p->net;
  pf_peer *old = NULL;
  int32_t stays = 0;
  pthread_mutex_lock(&n->lock);
  for (pf_peer *q = n->peers; q; q = q->next) {
    if (q == p || strcmp(q->name, p->name) || pf_peer_is(q, PF_PEER_LOST)) continue;
    int32_t ours_first = q->initiated && !p->initiated && strcmp(n->task->name, p->name) < 0 && q->incarnation == p->incarnation;
    if (pf_peer_is(q, PF_PEER_OPEN)) {
      int64_t now = pf_now_ns(), heard = pf_a64_load_rlx(&q->last_in);
      int32_t alive = now - heard < n->o.lease_ns / 2 || q->link->flags & PF_LINK_WATCHES;
      if (ours_first && (alive || now - q->since_ns < n->o.lease_ns)) stays = 1;       /* both connected at once: the other one was late */
      else old = q;
    } else if (ours_first) {
      stays = 1;
    }
  }
  if (!stays && pf_peer_is(p, PF_PEER_GREETING)) {
    p->since_ns = pf_now_ns();
    if (!p->initiated) pf_peer_hello(p, PF_NET_REPLY);
    pf_a32_store(&p->state, PF_PEER_OPEN);
    pthread_cond_broadcast(&n->changed);
  }
  if (old && !stays) pf_peer_ref(old);
  pthread_mutex_unlock(&n->lock);
  if (old && !stays) {
    if (old->incarnation != p->incarnation) pf_peer_losef(old, PF_ABORTED, "it was started anew");
    else pf_peer_losef(old, PF_UNAVAILABLE, "it connected again");
    pf_peer_unref(old);
  }
  return !stays;
}

/* Epochs are a task's own: one that was replaced stays out, whatever others' are.  0: `epoch` is none of the past; else the one that
 * was seen of the task.  Of more than MOST_SEEN tasks nothing is remembered. */
enum { MOST_SEEN = 16384 };
static uint64_t outdated(pf_net *n, pf_str name, uint64_t epoch) {
  uint64_t newer = 0;
  int32_t i = 0;
  pthread_mutex_lock(&n->lock);
  while (i < n->n_seen && !pf_str_is(name, n->seen[i].name)) i++;
  if (i == n->n_seen && i < MOST_SEEN && epoch) {
    struct pf_seen *grown = i % 64 ? n->seen : realloc(n->seen, (size_t)(i + 64) * sizeof *grown);
    if (grown) {
      n->seen = grown;
      pf_copy_text(grown[i].name, sizeof grown[i].name, name.data, name.len);
      grown[i].epoch = epoch, n->n_seen++;
    }
  } else if (i < n->n_seen) {
    if (epoch < n->seen[i].epoch) newer = n->seen[i].epoch;
    else n->seen[i].epoch = epoch;
  }
  pthread_mutex_unlock(&n->lock);
  return newer;
}

static pf_status greeted(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  pf_net *n = p->net;
  uint32_t magic = pf_get32(b), version = pf_get32(b);
  uint64_t incarnation = pf_get64(b), expected = pf_get64(b);
  pf_str name = pf_get_text(b, 127), to = pf_get_text(b, 127);
  int64_t window = (int64_t)pf_get64(b);
  if (version != PF_NET_VERSION) b->bad = 0;
  if (b->bad || window < 0 || magic != PF_NET_MAGIC || name.len == 0) return refuse(p, PF_INVALID_ARGUMENT, "who connected does not speak pyflow's frames");
  if (version != PF_NET_VERSION)
    return refuse(p, PF_FAILED_PRECONDITION, "frames of version %u were offered, this is version %d", version, PF_NET_VERSION);
  if (!pf_str_is(to, n->task->name))
    return refuse(p, PF_NOT_FOUND, "%.*s was asked for, this is %s", (int)to.len, to.data, n->task->name);
  if (expected != n->incarnation)
    return refuse(p, PF_ABORTED, "%s is not of the incarnation that was asked for: it was started anew", n->task->name);
  if (p->initiated && (!pf_str_is(name, p->name) || incarnation != p->incarnation))
    return refuse(p, PF_ABORTED, "%s was asked for, %.*s of another incarnation answered", p->name, (int)name.len, name.data);
  uint64_t newer = outdated(n, name, h->epoch);
  if (newer)
    return refuse(p, PF_ABORTED, "%.*s is of epoch %llu, which is over: %llu has been here", (int)name.len, name.data,
                  (unsigned long long)h->epoch, (unsigned long long)newer);
  pthread_mutex_lock(&p->out);
  p->window = window;
  pthread_mutex_unlock(&p->out);
  pthread_mutex_lock(&n->lock);
  p->epoch = h->epoch;
  if (!p->initiated) {
    p->incarnation = incarnation;
    pf_copy_text(p->name, sizeof p->name, name.data, name.len);
  }
  pthread_mutex_unlock(&n->lock);
  if (!opened(p)) return refuse(p, PF_ALREADY_EXISTS, "%s is connected with %s already", n->task->name, p->name);
  return PF_OK;
}

static pf_status bid_farewell(pf_peer *p, pf_net_in *b) {
  uint32_t st = pf_get32(b);
  pf_str text = pf_get_text(b, PF_NET_MAX_TEXT);
  if (b->bad || st > 16) return PF_DATA_LOSS;
  if (st == 0) pf_peer_losef(p, PF_UNAVAILABLE, "it ended");
  else {
    pf_error why;
    pf_error_clear(&why);
    pf_error_set(&why, (pf_status)st, "%.*s", (int)text.len, text.data);
    pf_peer_lose(p, &why);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- signs of life */
void pf_peer_ping(pf_peer *p, int32_t flags, int64_t heard) {
  uint8_t memory[64];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_PING, flags, none, p->net->o.epoch);
  pf_put64(&o, (uint64_t)pf_now_ns()), pf_put64(&o, (uint64_t)heard);
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

static pf_status pinged(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  int64_t theirs = (int64_t)pf_get64(b), ours = (int64_t)pf_get64(b), now = pf_now_ns(), best;
  if (b->bad || theirs < 0 || ours < 0) return PF_DATA_LOSS;
  int64_t rtt = now - ours;
  if (!(h->flags & PF_NET_REPLY)) {
    pf_peer_ping(p, PF_NET_REPLY, theirs);
    return PF_OK;
  }
  if (rtt < 0 || ours == 0) return PF_OK;
  best = pf_a64_load_rlx(&p->rtt_ns);
  if (best == 0 || rtt <= best + best / 8) {    /* the least of late: its clock is the surest */
    pf_a64_store_rlx(&p->rtt_ns, rtt);
    pf_a64_store_rlx(&p->clock_offset_ns, theirs - ours - rtt / 2);
  } else {
    pf_a64_store_rlx(&p->rtt_ns, best + best / 64 + 1);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- in */
static pf_status handle(pf_peer *p, const pf_net_head *h, pf_net_in *b, pf_serving **todo) {
  pf_serving *s = NULL;
  pf_status st;
  if (h->type == PF_NET_BYE) return bid_farewell(p, b);
  if (pf_peer_is(p, PF_PEER_GREETING)) return h->type == PF_NET_HELLO ? (greeted(p, h, b), PF_OK) : PF_DATA_LOSS;
  switch (h->type) {
    case PF_NET_RUN:
      st = pf_steps_run(p, h, b, &s);
      if (s) {
        while (*todo) todo = &(*todo)->next;    /* in their order */
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
    case PF_NET_PING: return pinged(p, h, b);
    case PF_NET_CREDIT: return pf_credited(p, b);
    case PF_NET_READ: return pf_was_read(p, h->session);
    default: return PF_DATA_LOSS;
  }
}

/* Whether the head may stand where it stands. */
static const char *problem_of(const pf_peer *p, const pf_net_head *h) {
  if (h->type == 0 || h->type >= PF_NET_TYPES) return "a frame of a type that there is not";
  int32_t greeting = pf_a32_load((pf_a32 *)&p->state) == PF_PEER_GREETING;
  if (greeting && (h->length > HELLO_BYTES || (h->type != PF_NET_HELLO && h->type != PF_NET_BYE))) return "something else than a greeting";
  if (h->type == PF_NET_CHUNK && h->length < PF_NET_CHUNK_HEAD) return "a chunk without a head";
  if (h->type != PF_NET_RUN && h->type != PF_NET_DONE && h->type != PF_NET_TENSOR && h->type != PF_NET_CHUNK && h->length > SMALL_BODY)
    return "a frame longer than its type is";
  if (!greeting && h->type != PF_NET_BYE && h->epoch != p->epoch) return "a frame of another epoch";
  return NULL;
}

static void to_the_front(pf_peer *p) {
  if (p->lo) memmove(p->buf, p->buf + p->lo, (size_t)(p->hi - p->lo));
  p->hi -= p->lo, p->lo = 0;
}

/* What is there of the sink's bytes goes there; the rest is received there. */
static void fill_sink(pf_peer *p) {
  int64_t k = pf_min64(p->sink_left, p->hi - p->lo);
  memcpy(p->sink_to, p->buf + p->lo, (size_t)k);
  p->sink_to += k, p->sink_left -= k, p->lo += k;
}

static pf_status begin_body(pf_peer *p, const pf_net_head *h) {
  int64_t n = h->length;
  if (n > p->net->o.incoming_bytes) return PF_RESOURCE_EXHAUSTED;
  p->body = pf_tensor_new(PF_UINT8, &n, 1);
  if (!p->body) return PF_RESOURCE_EXHAUSTED;
  p->body_head = *h;
  p->lo += PF_NET_HEAD;
  p->sink_to = p->body->m.dl_tensor.data, p->sink_left = n;
  fill_sink(p);                                 /* it is longer than the buffer: something is left */
  return PF_OK;
}

/* All of it is there. */
static pf_status sink_over(pf_peer *p, pf_serving **todo) {
  pf_tensor *body = p->body;
  if (!body) {
    pf_chunk_ends(p);
    return PF_OK;
  }
  p->body = NULL;
  pf_net_in in = {body->m.dl_tensor.data, body->nbytes, 0, 0, body};
  pf_status st = handle(p, &p->body_head, &in, todo);
  pf_tensor_unref(body);
  return st;
}

/* The bytes of a chunk that came with others go where they belong; those to come are received there. */
static pf_status chunk(pf_peer *p, const pf_net_head *h) {
  pf_status st = pf_chunk_begins(p, h, p->buf + p->lo + PF_NET_HEAD);
  if (st) return st;
  p->lo += PF_NET_HEAD + PF_NET_CHUNK_HEAD;
  fill_sink(p);
  if (!p->sink_left) pf_chunk_ends(p);
  return PF_OK;
}

/* What is whole in the buffer. */
static pf_status parse(pf_peer *p, pf_serving **todo, const char **why) {
  *why = NULL;
  while (!p->sink_left && p->hi - p->lo >= PF_NET_HEAD && !pf_peer_is(p, PF_PEER_LOST)) {
    pf_net_head h = pf_net_head_of(p->buf + p->lo);
    if ((*why = problem_of(p, &h))) return PF_DATA_LOSS;
    int64_t need = PF_NET_HEAD + (h.type == PF_NET_CHUNK ? PF_NET_CHUNK_HEAD : (int64_t)h.length);
    if (need > PF_NET_BUFFER) {
      pf_status st = begin_body(p, &h);
      if (st) return st;
      break;
    }
    if (p->hi - p->lo < need) {
      if (need > PF_NET_BUFFER - p->lo) to_the_front(p);
      return PF_OK;
    }
    if (h.type == PF_NET_CHUNK) {
      pf_status st = chunk(p, &h);
      if (st) return st;
      continue;
    }
    pf_net_in body = {p->buf + p->lo + PF_NET_HEAD, h.length, 0, 0, NULL};
    pf_status st = handle(p, &h, &body, todo);
    p->lo += need;
    if (st) return st;
  }
  if (p->lo == p->hi || PF_NET_BUFFER - p->hi < PF_NET_HEAD) to_the_front(p);
  return PF_OK;
}

/* 1: there may be more; 0: nothing more now; the connection may be lost. */
static int32_t receive_once(pf_peer *p, pf_serving **todo) {
  char text[200] = "";
  const char *why = NULL;
  pf_link_problem problem = {text, sizeof text, 0};
  pf_span spans[2];
  int32_t k = 0;
  if (p->sink_left) spans[k++] = (pf_span){p->sink_to, (size_t)p->sink_left};
  spans[k++] = (pf_span){p->buf + p->hi, (size_t)(PF_NET_BUFFER - p->hi)};
  int64_t asked = p->sink_left + PF_NET_BUFFER - p->hi, got = p->link->receive(p->conn, spans, k, &problem), n = got;
  if (n < 0) {
    pf_peer_losef(p, PF_UNAVAILABLE, "%s", text);
    return 0;
  }
  if (n == 0) return 0;
  pf_a64_store_rlx(&p->last_in, pf_coarse_ns());
  pf_a64_add_rlx(&p->bytes_in, n);
  pf_status st = PF_OK;
  if (p->sink_left) {
    int64_t here = pf_min64(n, p->sink_left);
    p->sink_to += here, p->sink_left -= here, n -= here;
    if (!p->sink_left) st = sink_over(p, todo);
  }
  p->hi += n;
  if (!st) st = parse(p, todo, &why);
  if (st && !pf_peer_is(p, PF_PEER_LOST)) {
    if (!why) why = st == PF_RESOURCE_EXHAUSTED ? "a frame that there is no memory for" : "a frame that is broken";
    refuse(p, st == PF_RESOURCE_EXHAUSTED ? st : PF_DATA_LOSS, "%.127s sent %s", p->name[0] ? p->name : "who connected", why);
  }
  return got == asked && !pf_peer_is(p, PF_PEER_LOST);
}

/* They are p's. */
static void begin_all(pf_peer *p, pf_serving *todo) {
  if (!todo) return;
  pf_peer *was = corked;
  pf_peer_ref(p);                               /* `corked` is looked at until it is another one's */
  corked = p, corked_bytes = 0;
  while (todo) {
    pf_serving *s = todo;
    todo = s->next;
    pf_steps_begin(s);
  }
  corked = was, corked_bytes = 0;
  uncork(p);
  pf_peer_unref(p);
}

int32_t pf_peer_has_unread(pf_peer *p) {
  struct pollfd f = {.fd = p->fd, .events = POLLIN};
  return poll(&f, 1, 0) > 0 && f.revents & POLLIN;
}

int32_t pf_peer_receive(pf_peer *p) {
  pf_serving *todo = NULL;
  if (pthread_mutex_trylock(&p->reading)) return 0;
  for (int k = 0; k < READS && !pf_peer_is(p, PF_PEER_LOST) && receive_once(p, &todo); k++) continue;
  pthread_mutex_unlock(&p->reading);
  begin_all(p, todo);
  return 1;
}

void pf_peer_readable(pf_peer *p) {
  if (!pf_peer_receive(p) && !p->direct) usleep(200);   /* who has it waits for something itself; the bytes are still there */
}

static void set_direct(pf_peer *p, int32_t direct) {
  pthread_mutex_lock(&p->out);
  p->direct = direct;
  rearm(p);
  pthread_mutex_unlock(&p->out);
}

int32_t pf_peer_lull(pf_peer *p, const pf_lull *lull) {
  pf_serving *todo = NULL;
  if (!pf_peer_is(p, PF_PEER_OPEN) || pthread_mutex_trylock(&p->reading)) return 0;
  set_direct(p, 1);
  while (!lull->enough(lull->self) && !todo && pf_peer_is(p, PF_PEER_OPEN)) {
    int64_t left = lull->until_ns - pf_now_ns();
    if (left <= 0) break;
    struct timespec ts = {left / 1000000000, left % 1000000000};
    struct pollfd f[2] = {{.fd = p->fd, .events = POLLIN}, {.fd = lull->nudge, .events = POLLIN}};
    if (ppoll(f, lull->nudge < 0 ? 1 : 2, &ts, NULL) < 0 && errno == EINTR) break;      /* who waits looks at signals */
    if (lull->nudge >= 0 && f[1].revents) break;
    receive_once(p, &todo);
  }
  set_direct(p, 0);
  pthread_mutex_unlock(&p->reading);
  pf_worker *was = pf_pool_be(NULL);            /* those steps are none of the helper's */
  begin_all(p, todo);
  pf_pool_be(was);
  return 1;
}

static int32_t is_set(void *flag) { return pf_a32_load(flag); }

int32_t pf_peer_poll(pf_peer *p, pf_a32 *until_set, int64_t until_ns) {
  return pf_peer_lull(p, &(pf_lull){.nudge = -1, .until_ns = until_ns, .enough = is_set, .self = until_set});
}
