/* incoming.c - tensors of a peer's steps, to ours: pushed ones are put at once, announced ones
 * fetched (outgoing.c has the other end).
 *
 *   TENSOR     -> put -> left by its reader, counted -> READ, a quarter of the window at a time
 *   ANNOUNCE   -> offered -> somebody waits for it, or there is room up to a window -> GET -> CHUNKs, or TENSOR -> put
 *
 * Invariants
 * 1. Chunks of a tensor come in their order, each byte once; nothing is allocated for an
 *    announcement beyond `incoming_bytes`.
 * 2. What a peer pushed and nobody has read is at most the window, or one larger tensor: a peer
 *    that pushes more is none of ours.
 * 3. What a peer announced and has not sent costs PF_NET_INCOMING at most, all peers'
 *    PF_NET_ALL_INCOMING; a peer that announces more is none of ours.  What nobody waits for goes
 *    with its connection, and the memory of much goes back to the system.
 * 4. A tensor that cannot be put fails its step on both sides.
 * 5. Dead tensors of a peer's that nobody has taken cost PF_NET_DEAD at most: a step that brings
 *    more fails.
 *
 * Threads: any; announcements under the peer's lock.
 */
#include "net/peer.h"

enum { MUCH = 1 << 20 };

/* The tensor could not be put: the step fails on both sides, unless it is over, or failed
 * before. */
static void put_failed(pf_peer *p, pf_step_key key, pf_error *why) {
  if (why->code != PF_RESOURCE_EXHAUSTED && why->code != PF_ALREADY_EXISTS &&
      why->code != PF_DATA_LOSS)
    return;
  pf_copy_text(why->task, sizeof why->task, p->net->task->name,
               (int64_t)strlen(p->net->task->name));
  pf_task_fail(p->net->task, key, why);
  pf_send_cancel(p, key, why);
}

static void deliver(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead,
                    pf_left_fn left, int64_t bytes) {
  pf_error err;
  pf_error_clear(&err);
  if (left) pf_peer_ref(p);
  if (pf_task_put_as(p->net->task, key, name, take, dead, left, p, bytes, &err))
    put_failed(p, key, &err);
}

/* 0: more than the peer may push; it may have sent two of them in another order than it counted
 * them. */
static int32_t count_stored(pf_peer *p, int64_t cost) {
  int64_t window = p->net->o.window_bytes;
  pthread_mutex_lock(&p->arrivals.lock);
  int32_t within =
      cost > window ? p->arrivals.stored_alone == 0
                    : p->arrivals.stored - p->arrivals.stored_alone + cost <= window + window / 4;
  if (within) p->arrivals.stored += cost;
  if (within && cost > window) p->arrivals.stored_alone = cost;
  pthread_mutex_unlock(&p->arrivals.lock);
  return within;
}

/* A pushed tensor does not wait any longer: the peer hears so, now and then. */
static void pushed_left(void *arg, int64_t bytes) {
  pf_peer *p = arg;
  uint8_t memory[PF_NET_HEAD];
  pf_net_out o = {.p = memory, .n = PF_NET_HEAD, .room = PF_NET_HEAD};
  int64_t n = 0;
  pthread_mutex_lock(&p->arrivals.lock);
  p->arrivals.stored -= bytes;
  if (bytes > p->net->o.window_bytes) p->arrivals.stored_alone = 0;
  p->arrivals.read += bytes;
  if (p->arrivals.read >= p->net->o.window_bytes / 4) n = p->arrivals.read, p->arrivals.read = 0;
  pthread_mutex_unlock(&p->arrivals.lock);
  if (n) {
    pf_net_head_to(memory, (pf_net_head){0, PF_NET_READ, 0, (uint64_t)n, 0, p->net->o.epoch});
    pf_peer_send(p, &o);
  }
  pf_peer_unref(p);
}

/* 0: more dead tensors than may wait. */
static int32_t count_dead(pf_peer *p, int64_t cost) {
  pthread_mutex_lock(&p->arrivals.lock);
  int32_t within = p->arrivals.dead + cost <= PF_NET_DEAD;
  if (within) p->arrivals.dead += cost;
  pthread_mutex_unlock(&p->arrivals.lock);
  return within;
}

static void dead_left(void *arg, int64_t bytes) {
  pf_peer *p = arg;
  pthread_mutex_lock(&p->arrivals.lock);
  p->arrivals.dead -= bytes;
  pthread_mutex_unlock(&p->arrivals.lock);
  pf_peer_unref(p);
}

static void deliver_dead(pf_peer *p, pf_step_key key, pf_str name) {
  int64_t cost = PF_NET_ENTRY + name.len;
  pf_error err;
  if (count_dead(p, cost)) {
    deliver(p, key, name, NULL, 1, dead_left, cost);
    return;
  }
  pf_error_clear(&err);
  pf_error_set(&err, PF_RESOURCE_EXHAUSTED,
               "dead tensors of %d MB from %s wait to be taken, as many as may", PF_NET_DEAD >> 20,
               p->name);
  put_failed(p, key, &err);
}

static void early_left(void *arg, int64_t bytes) {
  pf_peer *p = arg;
  pthread_mutex_lock(&p->arrivals.lock);
  p->arrivals.early_bytes -= bytes;
  pthread_mutex_unlock(&p->arrivals.lock);
  pf_peer_unref(p);
}

/* Tensors that peers have for us: lists, p->arrivals.lock held. */
static pf_incoming *incoming_of(pf_peer *p, uint64_t id) {
  pf_incoming *in = p->arrivals.announced[id % PF_NET_BUCKETS];
  while (in && in->id != id) in = in->next;
  return in;
}

static void unlink_incoming(pf_peer *p, pf_incoming *in) {
  pf_incoming **at = &p->arrivals.announced[in->id % PF_NET_BUCKETS];
  while (*at != in) at = &(*at)->next;
  *at = in->next;
  p->arrivals.cost -= pf_cost_announced(in->name);
  pf_a64_add_rlx(&p->net->incoming_cost, -pf_cost_announced(in->name));
  p->arrivals.n_postponed -= in->postponed;
  in->postponed = 0;
  if (in->asked) p->arrivals.bytes -= in->bytes;
}

static void drop_incoming(pf_incoming *in) {
  if (!pf_a32_dec_last(&in->refs)) return;
  pf_tensor_unref(in->t);
  free(in->shape);
  free(in);
}

/* Whether it is to be asked for now. */
static int32_t claim(pf_peer *p, pf_incoming *in, int32_t wanted) {
  if (in->asked) return 0;
  if (p->arrivals.bytes && in->bytes > p->net->o.incoming_bytes - p->arrivals.bytes) {
    if (wanted && !in->postponed) in->postponed = 1, p->arrivals.n_postponed++;
    return 0;
  }
  if (!wanted &&
      !pf_is_within(p->arrivals.early_bytes, in->bytes + PF_NET_ENTRY, p->net->o.window_bytes))
    return 0;
  p->arrivals.n_postponed -= in->postponed;
  in->postponed = 0;
  in->asked = 1;
  p->arrivals.bytes += in->bytes;
  if (!wanted) in->early = 1, p->arrivals.early_bytes += in->bytes + PF_NET_ENTRY;
  return 1;
}

static void put_incoming(pf_peer *p, pf_incoming *in, pf_tensor *take) {
  deliver(p, in->key, in->name, take, 0, in->early ? early_left : NULL,
          in->early ? in->bytes + PF_NET_ENTRY : 0);
}

static void fetch_postponed(pf_peer *p);
static pf_status tensor_asked_for(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  pf_net_arenas arenas = pf_peer_arenas(p);
  uint64_t id = pf_get64(b);
  pf_get_text(b, PF_NET_MAX_KEY);
  pf_tensor *t = NULL;
  pf_error err;
  int32_t dead = 0;
  pf_error_clear(&err);
  pthread_mutex_lock(&p->arrivals.lock);
  pf_incoming *in = incoming_of(p, id);
  int32_t right =
      in && in->asked && !in->t && in->key.session == h->session && in->key.step == h->step;
  pthread_mutex_unlock(&p->arrivals.lock);
  if (b->bad || !right) return PF_DATA_LOSS;
  pf_status st = pf_net_get_tensor(b, arenas.self ? &arenas : NULL, &t, &dead, &err);
  if (st == PF_DATA_LOSS || dead ||
      (t && (t->type != in->shape->type || pf_net_tensor_bytes(t) != in->bytes))) {
    pf_tensor_unref(t);
    return PF_DATA_LOSS;
  }
  pthread_mutex_lock(&p->arrivals.lock);
  unlink_incoming(p, in);
  if (st && in->early) p->arrivals.early_bytes -= in->bytes + PF_NET_ENTRY;
  pthread_mutex_unlock(&p->arrivals.lock);
  if (st) put_failed(p, in->key, &err);
  else put_incoming(p, in, t);
  drop_incoming(in);
  fetch_postponed(p);
  return PF_OK;
}

pf_status pf_tensor_frame(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  pf_step_key key = {h->session, h->step};
  pf_net_arenas arenas = pf_peer_arenas(p);
  if (h->flags & PF_NET_ASKED) return tensor_asked_for(p, h, b);
  pf_str name = pf_get_text(b, PF_NET_MAX_KEY);
  pf_tensor *t = NULL;
  pf_error err;
  int32_t dead = 0;
  if (b->bad) return PF_DATA_LOSS;
  pf_error_clear(&err);
  pf_status st = pf_net_get_tensor(b, arenas.self ? &arenas : NULL, &t, &dead, &err);
  if (st == PF_DATA_LOSS) return st;
  if (st) {
    put_failed(p, key, &err);
    return PF_OK;
  }
  if (dead) return deliver_dead(p, key, name), PF_OK;
  int64_t cost = pf_cost_of(t);
  int32_t within = count_stored(p, cost);
  if (within) deliver(p, key, name, t, 0, pushed_left, cost);
  else pf_tensor_unref(t);
  return within ? PF_OK : PF_DATA_LOSS; /* who heeds the window does not come here */
}

/* Where its reader wants it, if it waits; else anywhere on the host. */
static pf_tensor *room_for(pf_peer *p, const pf_incoming *in) {
  const pf_net_shape *s = in->shape;
  pf_reader reader;
  pf_tensor *t = NULL;
  if (pf_task_reader(p->net->task, in->key, in->name, &reader))
    t = pf_device_tensor(reader.home, reader.mem, reader.home->out, s->type, s->dims, s->ndim);
  return t ? t : pf_tensor_new(s->type, s->dims, s->ndim);
}

static void ask_for(pf_peer *p, uint64_t id, pf_step_key key, int32_t flags) {
  uint8_t memory[64];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_GET, flags, key, p->net->o.epoch);
  pf_put64(&o, id);
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

/* Those that somebody waits for and that there is room for now, the oldest first. */
static void fetch_postponed(pf_peer *p) {
  for (;;) {
    pf_incoming *in, *oldest = NULL;
    pthread_mutex_lock(&p->arrivals.lock);
    for (int k = 0; k < PF_NET_BUCKETS && p->arrivals.n_postponed; k++)
      for (in = p->arrivals.announced[k]; in; in = in->next)
        if (in->postponed && (!oldest || in->id < oldest->id)) oldest = in;
    if (oldest && !claim(p, oldest, 1)) oldest = NULL;
    uint64_t id = oldest ? oldest->id : 0;
    pf_step_key key = oldest ? oldest->key : (pf_step_key){0, 0};
    pthread_mutex_unlock(&p->arrivals.lock);
    if (!oldest) return;
    ask_for(p, id, key, 0);
  }
}

/* Its offer's end: somebody waits for it, or nobody will. */
static void wanted(void *arg, int32_t yes) {
  pf_incoming *in = arg;
  pf_peer *p = in->peer;
  int32_t get = 0, refuse = 0;
  pthread_mutex_lock(&p->arrivals.lock);
  if (yes) {
    get = claim(p, in, 1);
  } else if (!in->asked) {
    refuse = 1;
    unlink_incoming(p, in);
  }
  pthread_mutex_unlock(&p->arrivals.lock);
  if (get || refuse) ask_for(p, in->id, in->key, refuse ? PF_NET_REFUSED : 0);
  if (refuse) drop_incoming(in);
  drop_incoming(in);
  pf_peer_unref(p);
}

static void offer(pf_peer *p, pf_incoming *in) {
  pf_error err;
  pf_error_clear(&err);
  pf_a32_add_rlx(&in->refs, 2); /* this function's, the offer's */
  pf_peer_ref(p);
  pf_status st = pf_task_offer(p->net->task, in->key, in->name, in->bytes, wanted, in, &err);
  if (st) {
    wanted(in, 0);
    put_failed(p, in->key, &err);
  } else {
    pthread_mutex_lock(&p->arrivals.lock);
    int32_t get = incoming_of(p, in->id) == in && claim(p, in, 0);
    pthread_mutex_unlock(&p->arrivals.lock);
    if (get) ask_for(p, in->id, in->key, 0);
  }
  drop_incoming(in);
}

static pf_incoming *new_incoming(pf_peer *p, const pf_net_head *h, uint64_t id, pf_str name,
                                 const pf_net_shape *shape) {
  size_t room = offsetof(pf_net_shape, dims) + sizeof(int64_t) * (size_t)(shape->ndim + 1);
  pf_incoming *in = calloc(1, sizeof *in + (size_t)name.len + 1);
  if (in) in->shape = calloc(1, room);
  if (!in || !in->shape) {
    free(in);
    return NULL;
  }
  memcpy(in->shape, shape, offsetof(pf_net_shape, dims) + sizeof(int64_t) * (size_t)shape->ndim);
  pf_a32_store(&in->refs, 1);
  in->id = id, in->key = (pf_step_key){h->session, h->step}, in->bytes = shape->bytes, in->peer = p;
  in->name = (pf_str){(char *)(in + 1), name.len};
  memcpy(in + 1, name.data, (size_t)name.len);
  return in;
}

pf_status pf_announced(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  uint64_t id = pf_get64(b);
  pf_str name = pf_get_text(b, PF_NET_MAX_KEY);
  pf_net_shape shape;
  pf_error err;
  pf_error_clear(&err);
  if (b->bad || pf_net_get_shape(b, &shape, &err) || shape.flags != PF_TENSOR_ABSENT)
    return PF_DATA_LOSS;
  int64_t cost = pf_cost_announced(name);
  /* who heeds the bound does not come here */
  if (p->arrivals.cost + cost > PF_NET_INCOMING) return PF_DATA_LOSS;
  if (pf_a64_load_rlx(&p->net->incoming_cost) + cost > PF_NET_ALL_INCOMING)
    return PF_RESOURCE_EXHAUSTED;
  pf_incoming *in = new_incoming(p, h, id, name, &shape);
  if (!in) return PF_RESOURCE_EXHAUSTED;
  if (in->bytes > p->net->o.incoming_bytes) {
    pf_error_set(&err, PF_RESOURCE_EXHAUSTED,
                 "a tensor of %lld bytes from %s: more than may be under way from a peer at once",
                 (long long)in->bytes, p->name);
    ask_for(p, in->id, in->key, PF_NET_REFUSED);
    put_failed(p, in->key, &err);
    drop_incoming(in);
    return PF_OK;
  }
  pthread_mutex_lock(&p->arrivals.lock);
  int32_t known = incoming_of(p, id) != NULL;
  if (!known) {
    in->next = p->arrivals.announced[id % PF_NET_BUCKETS];
    p->arrivals.announced[id % PF_NET_BUCKETS] = in;
    p->arrivals.cost += cost;
    if (p->arrivals.cost > p->arrivals.most) p->arrivals.most = p->arrivals.cost;
    pf_a64_add_rlx(&p->net->incoming_cost, cost);
  }
  pthread_mutex_unlock(&p->arrivals.lock);
  if (known) drop_incoming(in);
  else offer(p, in);
  return known ? PF_DATA_LOSS : PF_OK;
}

pf_status pf_chunk_begins(pf_peer *p, const pf_net_head *h, const uint8_t *chunk_head, uint8_t **to,
                          int64_t *left) {
  uint64_t id = pf_le64(chunk_head), offset = pf_le64(chunk_head + 8);
  int64_t n = (int64_t)h->length - PF_NET_CHUNK_HEAD;
  pthread_mutex_lock(&p->arrivals.lock);
  pf_incoming *in = incoming_of(p, id);
  int32_t asked = in && in->asked;
  pthread_mutex_unlock(&p->arrivals.lock);
  if (!asked || offset != (uint64_t)in->got || n <= 0 || n > in->bytes - in->got ||
      in->shape->type == PF_STRING)
    return PF_DATA_LOSS;
  if (!in->t && !(in->t = room_for(p, in))) return PF_RESOURCE_EXHAUSTED;
  p->arrivals.sink = in;
  *to = (uint8_t *)in->t->m.dl_tensor.data + in->got;
  *left = n;
  in->got += n;
  return PF_OK;
}

void pf_chunk_ends(pf_peer *p) {
  pf_incoming *in = p->arrivals.sink;
  p->arrivals.sink = NULL;
  if (in->got < in->bytes) return;
  pf_tensor *t = in->t;
  in->t = NULL;
  pthread_mutex_lock(&p->arrivals.lock);
  unlink_incoming(p, in);
  pthread_mutex_unlock(&p->arrivals.lock);
  put_incoming(p, in, t);
  drop_incoming(in);
  fetch_postponed(p);
}

static pf_incoming **all_incoming(pf_peer *p, int64_t *count) { /* each with a reference */
  int64_t n = 0;
  pthread_mutex_lock(&p->arrivals.lock);
  for (int k = 0; k < PF_NET_BUCKETS; k++)
    for (pf_incoming *in = p->arrivals.announced[k]; in; in = in->next) n++;
  pf_incoming **all = n ? malloc(sizeof *all * (size_t)n) : NULL;
  *count = 0;
  for (int k = 0; all && k < PF_NET_BUCKETS; k++)
    for (pf_incoming *in = p->arrivals.announced[k]; in; in = in->next) {
      pf_a32_add_rlx(&in->refs, 1);
      all[(*count)++] = in;
    }
  pthread_mutex_unlock(&p->arrivals.lock);
  return all;
}

void pf_incoming_lost(pf_peer *p) {
  int64_t count;
  pf_incoming **all = all_incoming(p, &count);
  for (int64_t k = 0; k < count; k++) {
    /* nobody waits for it: its offer ends here */
    if (pf_task_withdraw(p->net->task, all[k]->key, all[k]->name, all[k])) {
      drop_incoming(all[k]);
      pf_peer_unref(p);
    }
    drop_incoming(all[k]);
  }
  free(all);
}

/* Nobody has the peer any more. */
int32_t pf_incoming_free(pf_peer *p) {
  for (int k = 0; k < PF_NET_BUCKETS; k++)
    while (p->arrivals.announced[k]) {
      pf_incoming *in = p->arrivals.announced[k];
      p->arrivals.announced[k] = in->next;
      pf_a64_add_rlx(&p->net->incoming_cost, -pf_cost_announced(in->name));
      drop_incoming(in);
    }
  pthread_mutex_destroy(&p->arrivals.lock);
  return p->arrivals.most > MUCH;
}

void pf_incoming_init(pf_peer *p) { pthread_mutex_init(&p->arrivals.lock, NULL); }

void pf_incoming_view(pf_peer *p, pf_peer_view *v) {
  pthread_mutex_lock(&p->arrivals.lock);
  v->stored = p->arrivals.stored;
  pthread_mutex_unlock(&p->arrivals.lock);
}
