/* outbox.c - what waits to be posted to a peer: whole frames in a queue, and the chunks of large
 * tensors between them.
 *
 * Invariants
 * 1. A frame goes out whole, frames in the order in which they were queued; the chunks of a large
 *    tensor come between others', one at a time, when nothing else waits.
 * 2. Who sends posts what the link takes at once, on its own thread; the rest waits for the net's
 *    thread.  What the peer's own steps send while they begin on a thread is queued, and posted as
 *    one (`cork`), or as soon as it is more than CORK_BYTES.  Nobody else waits for that: what
 *    another thread sends, signs of life among it, takes along what is queued.
 * 3. `out` is held for PUMP_BYTES at most.
 *
 * Threads: any; under the peer's lock `out`.
 */
#include "net/peer.h"

enum { MOST_OUT = 1 << 16, MANY = 1 << 13, SPANS = 32 };
static const int64_t POST_BYTES = 1 << 20, CORK_BYTES = 1 << 16, PUMP_BYTES = 1 << 23;
static __thread pf_peer *corked;      /* whose steps this thread begins now */
static __thread int64_t corked_bytes; /* that they sent, and that were not posted yet */

void pf_outbox_drop(pf_peer *p) { /* out held */
  p->outbox.failed = 1;
  while (p->outbox.first) {
    pf_out *o = p->outbox.first;
    p->outbox.first = o->next;
    if (o->last_of) pf_letters_back(&p->letters, o->last_of);
    free(o->own);
    free(o);
  }
  p->outbox.last = NULL;
  p->outbox.n = 0;
  p->outbox.tensor_bytes = 0;
  pf_letters_wake(&p->letters);
}

static void append(pf_peer *p, pf_out *o) { /* out held */
  if (!o->counted && ++p->outbox.n > p->outbox.most) p->outbox.most = p->outbox.n;
  o->next = NULL;
  if (p->outbox.last) p->outbox.last->next = o;
  else p->outbox.first = o;
  p->outbox.last = o;
}

static int64_t bytes_left(const pf_out *o) { return o->head_n + o->n - o->at; }

static void consume(pf_peer *p, int64_t taken, pf_letter **finished) { /* out held */
  pf_a64_add_rlx(&p->signs.bytes_out, taken);
  while (p->outbox.first && (taken || !bytes_left(p->outbox.first))) {
    pf_out *o = p->outbox.first;
    int64_t k = pf_min64(taken, bytes_left(o));
    o->at += k, taken -= k;
    if (bytes_left(o)) break;
    p->outbox.first = o->next;
    if (!o->counted) p->outbox.n--;
    if (!p->outbox.first) p->outbox.last = NULL;
    if (o->counted) p->outbox.tensor_bytes -= o->n;
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

int64_t pf_outbox_room(const pf_peer *p) { return p->net->o.queue_bytes - p->outbox.tensor_bytes; }

int32_t pf_outbox_may_release(const pf_peer *p) {
  return pf_letters_may_release(&p->letters, pf_outbox_room(p));
}

/* Only the net's thread lets go what waits for room: it comes for that, too, where another one
 * has posted all. */
static int32_t wants_out(const pf_peer *p) {
  return (p->outbox.first || pf_outbox_may_release(p)) && !p->outbox.failed;
}

void pf_outbox_want_out(pf_peer *p) { pf_peer_want_out(p, wants_out(p)); }

void pf_outbox_pump(pf_peer *p, pf_letter **finished) { /* out held */
  pf_span spans[SPANS];
  int64_t bytes, taken, left = PUMP_BYTES;
  while (!p->outbox.failed) {
    pf_out *chunk = p->outbox.first ? NULL : pf_letters_chunk(&p->letters, p->net->o.epoch);
    if (chunk) append(p, chunk);
    /* the rest is the net's thread's: others want `out` */
    if (!p->outbox.first || left <= 0) break;
    int32_t k = gather(p->outbox.first, spans, &bytes);
    taken = k ? p->link->post(p->conn, spans, k) : 0;
    if (taken < 0) p->outbox.failed = 1; /* who receives finds out why */
    else consume(p, taken, finished);
    if (taken < bytes) break;
    left -= taken;
  }
  pf_outbox_want_out(p);
}

/* What of these bytes was not taken at once; `own`, where there is one, is the memory that they
 * lie in. */
/* out held */
static void queue_rest(pf_peer *p, const uint8_t *bytes, int64_t n, uint8_t *own, int32_t counted) {
  pf_out *node = calloc(1, sizeof *node);
  /* it asks and asks, and reads no answer */
  if (node && !counted && p->outbox.n >= MOST_OUT) free(node), node = NULL;
  if (node && !own && (own = malloc((size_t)n))) {
    memcpy(own, bytes, (size_t)n);
    bytes = own;
  }
  if (!node || !own) { /* half a frame is out: the peer would misread the rest */
    free(node), free(own);
    p->outbox.failed = 1;
    p->link->close(p->conn);
    return;
  }
  node->own = own, node->p = bytes, node->n = n, node->counted = counted;
  if (corked == p) corked_bytes += n;
  if (counted) p->outbox.tensor_bytes += n;
  append(p, node);
}

/* Behind what waits, or at once; what rides goes ahead. */
static void send_held(pf_peer *p, pf_net_out *o, int32_t counted) { /* out held */
  int64_t taken = 0, riding = p->outbox.n_riding;
  if (!p->outbox.first && corked != p) {
    pf_span spans[2] = {{p->outbox.riding, (size_t)riding}, {o->p, (size_t)o->n}};
    taken = p->link->post(p->conn, riding ? spans : spans + 1, riding ? 2 : 1);
    if (taken < 0) {
      p->outbox.failed = 1;
      return;
    }
    pf_a64_add_rlx(&p->signs.bytes_out, taken);
  }
  if (taken < riding) queue_rest(p, p->outbox.riding + taken, riding - taken, NULL, 0);
  p->outbox.n_riding = 0;
  taken = taken > riding ? taken - riding : 0;
  if (taken < o->n) {
    queue_rest(p, o->p + taken, o->n - taken, o->own, counted);
    o->own = NULL;
  }
  pf_peer_want_out(p, wants_out(p) &&
                          (pf_peer_wants_out(p) || corked != p || pf_outbox_may_release(p)));
}

/* Tensors of the frame as they are, between copies of the rest. */
static void queue_spliced(pf_peer *p, pf_net_out *o) { /* out held */
  int64_t at = 0;
  if (p->outbox.n_riding) queue_rest(p, p->outbox.riding, p->outbox.n_riding, NULL, 0);
  p->outbox.n_riding = 0;
  for (int32_t k = 0; k < o->n_splices && !p->outbox.failed; k++) {
    pf_splice *s = o->splices + k;
    pf_out *node = calloc(1, sizeof *node);
    pf_letter *whole = calloc(1, sizeof *whole);
    queue_rest(p, o->p + at, s->at - at, NULL, 0);
    at = s->at;
    if (!node || !whole) {
      free(node), free(whole);
      p->outbox.failed = 1;
      p->link->close(p->conn);
      return;
    }
    whole->t = s->t;
    s->t = NULL;
    node->p = whole->t->m.dl_tensor.data, node->n = whole->t->nbytes, node->last_of = whole;
    append(p, node);
  }
  if (at < o->n && !p->outbox.failed) queue_rest(p, o->p + at, o->n - at, NULL, 0);
}

void pf_peer_send_as(pf_peer *p, pf_net_out *o, int32_t counted) {
  pf_letter *finished = NULL;
  if (o->failed)
    pf_peer_losef(p, PF_RESOURCE_EXHAUSTED, "out of memory for a frame, or one of more than 4 GB");
  pthread_mutex_lock(&p->out);
  if (!o->failed && !p->outbox.failed && o->n_splices) {
    queue_spliced(p, o);
    pf_outbox_pump(p, &finished);
  } else if (!o->failed && !p->outbox.failed) {
    int32_t kept_back = p->outbox.first && !pf_peer_wants_out(p);
    send_held(p, o, counted);
    if (corked == p ? corked_bytes > CORK_BYTES : kept_back) {
      corked_bytes = 0;
      pf_outbox_pump(p, &finished);
    }
  }
  pthread_mutex_unlock(&p->out);
  pf_letters_told(finished, PF_OK);
  pf_net_out_free(o);
}

pf_peer *pf_outbox_cork(pf_peer *p) {
  pf_peer *was = corked;
  pf_peer_ref(p); /* `corked` is looked at until it is another one's */
  corked = p, corked_bytes = 0;
  return was;
}

void pf_outbox_uncork(pf_peer *p, pf_peer *was) {
  pf_letter *finished = NULL;
  corked = was, corked_bytes = 0;
  pthread_mutex_lock(&p->out);
  if (p->outbox.first && !pf_peer_wants_out(p) && !p->outbox.failed) pf_outbox_pump(p, &finished);
  pthread_mutex_unlock(&p->out);
  pf_letters_told(finished, PF_OK);
  pf_peer_unref(p);
}

void pf_peer_send_soon(pf_peer *p, const pf_net_head *h) {
  pf_net_out rest = {0};
  pthread_mutex_lock(&p->out);
  if (p->outbox.n_riding + PF_NET_HEAD > (int32_t)sizeof p->outbox.riding && !p->outbox.failed)
    send_held(p, &rest, 0);
  if (!p->outbox.failed) {
    pf_net_head_to(p->outbox.riding + p->outbox.n_riding, *h);
    p->outbox.n_riding += PF_NET_HEAD;
  }
  pthread_mutex_unlock(&p->out);
}

void pf_peer_send(pf_peer *p, pf_net_out *take) { pf_peer_send_as(p, take, 0); }

int64_t pf_outbox_bytes(const pf_peer *p) { return p->outbox.tensor_bytes; }

int32_t pf_outbox_has_failed(const pf_peer *p) { return p->outbox.failed; }

int32_t pf_outbox_had_many(const pf_peer *p) { return p->outbox.most > MANY; }
