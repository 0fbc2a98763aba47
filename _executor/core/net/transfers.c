/* transfers.c - tensors from a peer's steps to ours: pushed, by shared memory, or announced and fetched.
 *
 *   up to 64 kB, and strings        TENSOR with the bytes
 *   larger, the link has arenas     TENSOR with the place: copied once, into memory that both see; CREDIT gives it back
 *   larger                          ANNOUNCE; the receiver makes room where the tensor's reader wants it and says GET; CHUNKs
 *
 * Invariants
 * 1. What waits to be sent to a peer is at most `queue_bytes` and one tensor of each thread that sends: who sends more waits, or is told
 *    later.  A thread of the net's own never waits.
 * 2. A block of an arena is free, or belongs to one tensor at the receiver until that one's last reference is gone.
 * 3. Chunks of a tensor come in their order, each byte once; nothing is allocated for an announcement beyond `incoming_bytes`.
 *
 * Threads: any.
 */
#include "net/peer.h"

enum { PAGE = 4096 };
static const int64_t ARENA_BYTES = (int64_t)64 << 20, STEP_BYTES = (int64_t)2 << 20;

/* ---------------------------------------------------------------- arenas of ours; out held */
static int32_t more_blocks(pf_own_arena *a) {
  if (a->n < a->room) return 1;
  int32_t room = a->room ? 2 * a->room : 16;
  pf_block_of_arena *larger = realloc(a->blocks, sizeof *larger * (size_t)room);
  if (!larger) return 0;
  a->blocks = larger, a->room = room;
  return 1;
}

static int32_t block_in(pf_own_arena *a, int64_t bytes, uint64_t *offset) {
  for (int32_t k = 0; k < a->n; k++) {
    pf_block_of_arena *b = a->blocks + k;
    if (b->used || b->n < bytes) continue;
    if (b->n > bytes) {
      if (!more_blocks(a)) return 0;
      b = a->blocks + k;
      memmove(b + 2, b + 1, sizeof *b * (size_t)(a->n - k - 1));
      b[1] = (pf_block_of_arena){b->at + bytes, b->n - bytes, 0, 0};
      b->n = bytes;
      a->n++;
    }
    b->used = 1;
    *offset = (uint64_t)b->at;
    return 1;
  }
  return 0;
}

static pf_own_arena *new_arena(pf_peer *p, int64_t bytes) {
  int64_t size = bytes > ARENA_BYTES ? (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES : ARENA_BYTES;
  if (size > p->net->o.arena_bytes - p->arena_bytes) size = (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
  if (size > p->net->o.arena_bytes - p->arena_bytes) return NULL;
  pf_own_arena *larger = realloc(p->arenas, sizeof *larger * (size_t)(p->n_arenas + 1));
  if (!larger) return NULL;
  p->arenas = larger;
  pf_own_arena *a = larger + p->n_arenas;
  memset(a, 0, sizeof *a);
  if (!more_blocks(a)) return NULL;
  a->base = p->link->arena(p->conn, size, &a->id);
  if (!a->base) {
    free(a->blocks);
    return NULL;
  }
  a->bytes = size;
  a->blocks[0] = (pf_block_of_arena){0, size, 0, 0};
  a->n = 1;
  p->n_arenas++;
  p->arena_bytes += size;
  return a;
}

static int32_t place(void *self, const pf_tensor *t, uint32_t *arena, uint64_t *offset) {
  pf_peer *p = self;
  int64_t bytes = (t->nbytes + PAGE - 1) / PAGE * PAGE;
  uint8_t *base = NULL;
  pthread_mutex_lock(&p->out);
  for (int32_t k = 0; k < p->n_arenas && !base && !p->post_failed; k++)
    if (block_in(p->arenas + k, bytes, offset)) base = p->arenas[k].base, *arena = p->arenas[k].id;
  if (!base && !p->post_failed) {
    pf_own_arena *a = new_arena(p, bytes);
    if (a && block_in(a, bytes, offset)) base = a->base, *arena = a->id;
  }
  if (base) p->arena_used += bytes;
  pthread_mutex_unlock(&p->out);
  if (base) memcpy(base + *offset, t->m.dl_tensor.data, (size_t)t->nbytes);
  return base != NULL;
}

static int32_t freed(pf_own_arena *a, uint64_t offset, int64_t *bytes) {
  int32_t lo = 0, hi = a->n - 1;
  while (lo < hi) {
    int32_t mid = (lo + hi) / 2;
    if ((uint64_t)a->blocks[mid].at < offset) lo = mid + 1;
    else hi = mid;
  }
  pf_block_of_arena *b = a->blocks + lo;
  if ((uint64_t)b->at != offset || !b->used) return 0;
  *bytes = b->n;
  b->used = 0;
  for (int k = 0; k < 2; k++) {                 /* with the free one behind it, then with the one before */
    int32_t i = k ? lo - 1 : lo;
    b = a->blocks + i;
    if (i < 0 || i + 1 >= a->n || b->used || b[1].used) continue;
    b->n += b[1].n;
    memmove(b + 1, b + 2, sizeof *b * (size_t)(a->n - i - 2));
    a->n--;
  }
  return 1;
}

pf_status pf_credited(pf_peer *p, pf_net_in *b) {
  uint32_t arena = pf_get32(b);
  pf_get32(b);
  uint64_t offset = pf_get64(b);
  int64_t bytes = 0;
  int32_t found = 0;
  pthread_mutex_lock(&p->out);
  for (int32_t k = 0; k < p->n_arenas && !b->bad; k++)
    if (p->arenas[k].id == arena) found = freed(p->arenas + k, offset, &bytes);
  p->arena_used -= bytes;
  pthread_mutex_unlock(&p->out);
  return found ? PF_OK : PF_DATA_LOSS;
}

void pf_arenas_free(pf_peer *p) {
  for (int32_t k = 0; k < p->n_arenas; k++) free(p->arenas[k].blocks);
  free(p->arenas);
}

/* ---------------------------------------------------------------- arenas of the peer's */
typedef struct { pf_peer *peer; pf_link_map *map; uint32_t arena, pad; uint64_t offset; } borrowed;

static void give_back(void *arg) {
  borrowed *b = arg;
  uint8_t memory[64];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_CREDIT, 0, (pf_step_key){0, 0}, b->peer->net->o.epoch);
  pf_put32(&o, b->arena), pf_put32(&o, 0), pf_put64(&o, b->offset);
  pf_put_end(&o);
  b->peer->link->unmap(b->map);
  pf_peer_send(b->peer, &o);
  pf_peer_unref(b->peer);
  free(b);
}

static pf_tensor *find(void *self, int32_t type, const int64_t *dims, int32_t ndim, int64_t bytes, uint32_t arena, uint64_t offset) {
  pf_peer *p = self;
  int64_t there = 0;
  pf_link_map *map = NULL;
  uint8_t *base = p->link->map(p->conn, arena, &there, &map);
  if (!base) return NULL;
  borrowed *b = offset % 64 == 0 && offset <= (uint64_t)there && bytes <= there - (int64_t)offset ? malloc(sizeof *b) : NULL;
  pf_tensor *t = b ? pf_tensor_wrap(type, dims, ndim, base + offset, PF_T_FOREIGN, give_back, b) : NULL;
  if (!t) {
    free(b);
    p->link->unmap(map);
    return NULL;
  }
  *b = (borrowed){p, map, arena, 0, offset};
  pf_peer_ref(p);
  return t;
}

pf_net_arenas pf_peer_arenas(pf_peer *p) {
  int32_t has = p->link->size >= sizeof(pf_link) && p->link->arena && p->link->map && p->link->unmap && p->net->o.arena_bytes > 0;
  return (pf_net_arenas){has ? p : NULL, place, find};
}

/* ---------------------------------------------------------------- out */
static void put_key(pf_net_out *o, pf_str name) { pf_put_text(o, name); }

/* What may outlive the step and the caller; NULL: out of memory. */
static pf_tensor *lasting(pf_tensor *take) {
  pf_tensor *t = pf_tensor_settled(take);
  if (!t || !(t->flags & PF_T_BORROWED)) return t;
  pf_tensor *own = pf_tensor_copy(t);
  pf_tensor_unref(t);
  return own;
}

static void announce(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_transfer *t = calloc(1, sizeof *t);
  take = lasting(take);
  if (!t || !take) {
    free(t);
    pf_tensor_unref(take);
    pf_peer_losef(p, PF_RESOURCE_EXHAUSTED, "out of memory for a tensor's announcement");
    return;
  }
  t->key = key, t->t = take;
  pthread_mutex_lock(&p->out);
  uint64_t id = t->id = ++p->transfer_ids;
  pf_put_head(&o, PF_NET_ANNOUNCE, 0, key, p->net->o.epoch);
  pf_put64(&o, id);
  put_key(&o, name);
  pf_net_put_shape(&o, take, PF_TENSOR_ABSENT);
  pf_put_end(&o);
  t->next = p->transfers;
  p->transfers = t;
  p->announced += take->nbytes;
  pthread_mutex_unlock(&p->out);
  pf_peer_send(p, &o);
  if (pf_peer_is(p, PF_PEER_LOST)) pf_transfers_lost(p);
}

/* Without regard to the queue's bound. */
static void send_now(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead) {
  uint8_t memory[4096];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  uint32_t arena;
  uint64_t offset;
  int32_t large = !dead && take->type != PF_STRING && take->nbytes > PF_NET_PUSH, placed = 0;
  pf_net_arenas arenas = pf_peer_arenas(p);
  if (large && arenas.self) placed = place(p, take, &arena, &offset);
  if (large && !placed) {
    announce(p, key, name, take);
    return;
  }
  pf_put_head(&o, PF_NET_TENSOR, 0, key, p->net->o.epoch);
  put_key(&o, name);
  if (placed) {
    pf_net_put_shape(&o, take, PF_TENSOR_IN_ARENA);
    pf_put32(&o, arena), pf_put32(&o, 0), pf_put64(&o, offset);
  } else {
    pf_net_put_tensor(&o, take, dead, NULL);
  }
  pf_put_end(&o);
  pf_tensor_unref(take);
  pf_peer_send_as(p, &o, 1);
}

static int32_t is_full(const pf_peer *p) { return p->tensor_bytes + p->announced > p->net->o.queue_bytes; }

static pf_status hold(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead, pf_sent_fn sent, void *arg) {
  pf_held *h = calloc(1, sizeof *h + (size_t)name.len + 1);       /* out held */
  if (!h) return PF_RESOURCE_EXHAUSTED;
  if (take) {
    pf_tensor_ref(take);                        /* the caller's, should there be no memory for a copy */
    pf_tensor *own = lasting(take);
    if (!own) {
      free(h);
      return PF_RESOURCE_EXHAUSTED;
    }
    pf_tensor_unref(take);
    take = own;
  }
  *h = (pf_held){NULL, key, take, dead, 0, sent, arg, {(char *)(h + 1), name.len}};
  memcpy(h + 1, name.data, (size_t)name.len);
  if (p->held_last) p->held_last->next = h;
  else p->held = h;
  p->held_last = h;
  return PF_PENDING;
}

/* Until there is room; PF_PENDING: it is held, and `sent` will be called. */
static pf_status make_way(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead, pf_sent_fn sent, void *arg) {
  pf_status st = PF_OK;
  pthread_mutex_lock(&p->out);
  while (st == PF_OK && is_full(p) && !pf_net_is_own_thread() && !pf_peer_is(p, PF_PEER_LOST)) {
    if (sent) st = hold(p, key, name, take, dead, sent, arg);
    else pf_cond_wait_until(&p->roomy, &p->out, pf_now_ns() + 100000000);
  }
  pthread_mutex_unlock(&p->out);
  return st;
}

pf_status pf_peer_put(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead, pf_sent_fn sent, void *arg,
                      pf_error *err) {
  pf_status st = dead ? PF_OK : pf_net_tensor_check(take, err);
  if (!st && name.len > PF_NET_MAX_KEY) st = pf_error_set(err, PF_INVALID_ARGUMENT, "a key of %lld bytes", (long long)name.len);
  if (!st) st = make_way(p, key, name, take, dead, sent, arg);
  if (st == PF_PENDING) return st;
  if (st == PF_OK && pf_peer_is(p, PF_PEER_LOST)) {
    *err = p->why;
    st = p->why.code;
  }
  if (st) {
    pf_tensor_unref(take);
    return pf_error_set(err, st, "out of memory to send a tensor");
  }
  send_now(p, key, name, take, dead);
  return PF_OK;
}

pf_held *pf_release_held(pf_peer *p) {
  pf_held *free_now = NULL, **end = &free_now;
  int64_t room = p->net->o.queue_bytes - p->tensor_bytes - p->announced;
  if (room >= 0) pthread_cond_broadcast(&p->roomy);
  while (p->held && room >= 0) {
    pf_held *h = p->held;
    p->held = h->next;
    if (!p->held) p->held_last = NULL;
    room -= h->t ? h->t->nbytes : 0;
    h->next = NULL;
    *end = h;
    end = &h->next;
  }
  return free_now;
}

void pf_send_held(pf_peer *p, pf_held *take) {
  while (take) {
    pf_held *h = take;
    take = h->next;
    send_now(p, h->key, h->name, h->t, h->dead);
    h->sent(h->arg, PF_OK);
    free(h);
  }
}

pf_status pf_asked_for(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  uint64_t id = pf_get64(b);
  pf_transfer *dropped = NULL;
  if (b->bad) return PF_DATA_LOSS;
  pthread_mutex_lock(&p->out);
  pf_transfer **at = &p->transfers;
  while (*at && (*at)->id != id) at = &(*at)->next;
  if (*at && h->flags & PF_NET_REFUSED && !(*at)->asked) {
    dropped = *at;
    *at = dropped->next;
    dropped->next = NULL;
    p->announced -= dropped->t->nbytes;
  } else if (*at) {
    (*at)->asked = 1;
  }
  pthread_mutex_unlock(&p->out);
  pf_transfers_finished(dropped);
  pf_peer_writable(p);
  return PF_OK;
}

pf_out *pf_next_chunk(pf_peer *p) {
  pf_transfer **at = &p->transfers, **end;
  while (*at && !(*at)->asked) at = &(*at)->next;
  pf_transfer *t = *at;
  pf_out *o = t ? calloc(1, sizeof *o) : NULL;
  if (!o) return NULL;
  int64_t n = pf_min64(PF_NET_CHUNK_BYTES, t->t->nbytes - t->at);
  pf_net_head_to(o->head, (pf_net_head){(uint32_t)(PF_NET_CHUNK_HEAD + n), PF_NET_CHUNK, 0, t->key.session, t->key.step, p->net->o.epoch});
  pf_to_le64(o->head + PF_NET_HEAD, t->id);
  pf_to_le64(o->head + PF_NET_HEAD + 8, (uint64_t)t->at);
  o->head_n = PF_NET_HEAD + PF_NET_CHUNK_HEAD;
  o->p = (uint8_t *)t->t->m.dl_tensor.data + t->at;
  o->n = n;
  t->at += n;
  *at = t->next;                                /* the others have their turn */
  t->next = NULL;
  if (t->at == t->t->nbytes) {
    o->last_of = t;
    p->announced -= t->t->nbytes;
  } else {
    for (end = &p->transfers; *end; end = &(*end)->next) continue;
    *end = t;
  }
  return o;
}

void pf_transfers_finished(pf_transfer *take) {
  while (take) {
    pf_transfer *t = take;
    take = t->next;
    pf_tensor_unref(t->t);
    free(t);
  }
}

/* ---------------------------------------------------------------- in */
static void tell_failure(pf_peer *p, pf_step_key key, const pf_error *why) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_put_head(&o, PF_NET_CANCEL, 0, key, p->net->o.epoch);
  pf_net_put_error(&o, why->code, why);
  pf_put_end(&o);
  pf_peer_send(p, &o);
}

/* The tensor could not be put: the step fails on both sides, unless it is over, or failed before. */
static void put_failed(pf_peer *p, pf_step_key key, pf_error *why) {
  if (why->code != PF_RESOURCE_EXHAUSTED && why->code != PF_ALREADY_EXISTS && why->code != PF_DATA_LOSS) return;
  pf_copy_text(why->task, sizeof why->task, p->net->task->name, (int64_t)strlen(p->net->task->name));
  pf_task_fail(p->net->task, key, why);
  tell_failure(p, key, why);
}

static void deliver(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead) {
  pf_error err;
  pf_error_clear(&err);
  if (pf_task_put(p->net->task, key, name, take, dead, &err)) put_failed(p, key, &err);
}

pf_status pf_tensor_frame(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  pf_step_key key = {h->session, h->step};
  pf_net_arenas arenas = pf_peer_arenas(p);
  pf_str name = pf_get_text(b, PF_NET_MAX_KEY);
  pf_tensor *t = NULL;
  pf_error err;
  int32_t dead = 0;
  if (b->bad) return PF_DATA_LOSS;
  pf_error_clear(&err);
  pf_status st = pf_net_get_tensor(b, arenas.self ? &arenas : NULL, &t, &dead, &err);
  if (st == PF_DATA_LOSS) return st;
  if (st) put_failed(p, key, &err);
  else deliver(p, key, name, t, dead);
  return PF_OK;
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

static void forget_incoming(pf_peer *p, pf_incoming *in) {
  pthread_mutex_lock(&p->lock);
  pf_incoming **at = &p->incoming;
  while (*at != in) at = &(*at)->next;
  *at = in->next;
  p->n_incoming--;
  if (in->t) p->incoming_bytes -= in->bytes;
  pthread_mutex_unlock(&p->lock);
}

static void drop_incoming(pf_incoming *in) {
  free(in->shape);
  free(in);
}

static void refuse_incoming(pf_peer *p, pf_incoming *in, const char *what) {
  pf_error why;
  pf_error_clear(&why);
  pf_error_set(&why, PF_RESOURCE_EXHAUSTED, "a tensor of %lld bytes from %s: %s", (long long)in->bytes, p->name, what);
  ask_for(p, in->id, in->key, PF_NET_REFUSED);
  put_failed(p, in->key, &why);
  drop_incoming(in);
}

/* Those that there is room for, the oldest first. */
static void fetch_waiting(pf_peer *p) {
  for (;;) {
    pf_incoming *in, *oldest = NULL;
    pthread_mutex_lock(&p->lock);
    for (in = p->incoming; in; in = in->next)
      if (!in->t) oldest = in;                  /* the list begins with the newest */
    if (oldest && p->incoming_bytes && oldest->bytes > p->net->o.incoming_bytes - p->incoming_bytes) oldest = NULL;
    pthread_mutex_unlock(&p->lock);
    if (!oldest) return;
    pf_tensor *t = room_for(p, oldest);
    if (!t) {
      forget_incoming(p, oldest);
      refuse_incoming(p, oldest, "out of memory");
      continue;
    }
    pthread_mutex_lock(&p->lock);
    oldest->t = t;
    free(oldest->shape);
    oldest->shape = NULL;
    p->incoming_bytes += oldest->bytes;
    pthread_mutex_unlock(&p->lock);
    ask_for(p, oldest->id, oldest->key, 0);
  }
}

pf_status pf_announced(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  uint64_t id = pf_get64(b);
  pf_str name = pf_get_text(b, PF_NET_MAX_KEY);
  pf_net_shape shape;
  pf_error err;
  pf_error_clear(&err);
  if (b->bad || pf_net_get_shape(b, &shape, &err) || shape.flags != PF_TENSOR_ABSENT || shape.type == PF_STRING || shape.bytes <= 0)
    return PF_DATA_LOSS;
  if (p->n_incoming >= PF_NET_MAX_INCOMING) return PF_DATA_LOSS;
  pf_incoming *in = calloc(1, sizeof *in + (size_t)name.len + 1);
  if (in) in->shape = malloc(sizeof shape);
  if (!in || !in->shape) {
    free(in);
    return PF_RESOURCE_EXHAUSTED;
  }
  memcpy(in->shape, &shape, sizeof shape);
  in->id = id, in->key = (pf_step_key){h->session, h->step}, in->bytes = shape.bytes;
  in->name = (pf_str){(char *)(in + 1), name.len};
  memcpy(in + 1, name.data, (size_t)name.len);
  if (in->bytes > p->net->o.incoming_bytes) {
    refuse_incoming(p, in, "more than may be under way from a peer at once");
    return PF_OK;
  }
  pthread_mutex_lock(&p->lock);
  in->next = p->incoming;
  p->incoming = in;
  p->n_incoming++;
  pthread_mutex_unlock(&p->lock);
  fetch_waiting(p);
  return PF_OK;
}

pf_status pf_chunk_begins(pf_peer *p, const pf_net_head *h, const uint8_t *chunk_head) {
  uint64_t id = pf_le64(chunk_head), offset = pf_le64(chunk_head + 8);
  int64_t n = (int64_t)h->length - PF_NET_CHUNK_HEAD;
  pthread_mutex_lock(&p->lock);
  pf_incoming *in = p->incoming;
  while (in && in->id != id) in = in->next;
  pthread_mutex_unlock(&p->lock);
  if (!in || !in->t || offset != (uint64_t)in->got || n <= 0 || n > in->bytes - in->got) return PF_DATA_LOSS;
  p->sink = in;
  p->sink_to = (uint8_t *)in->t->m.dl_tensor.data + in->got;
  p->sink_left = n;
  in->got += n;
  return PF_OK;
}

void pf_chunk_ends(pf_peer *p) {
  pf_incoming *in = p->sink;
  p->sink = NULL;
  if (in->got < in->bytes) return;
  forget_incoming(p, in);
  deliver(p, in->key, in->name, in->t, 0);
  drop_incoming(in);
  fetch_waiting(p);
}

/* ---------------------------------------------------------------- the peer is lost */
void pf_transfers_lost(pf_peer *p) {
  pthread_mutex_lock(&p->out);
  pf_transfer *out = p->transfers;
  pf_held *held = p->held;
  p->transfers = NULL, p->held = p->held_last = NULL;
  p->announced = 0;
  pthread_mutex_unlock(&p->out);
  pf_transfers_finished(out);
  while (held) {
    pf_held *h = held;
    held = h->next;
    pf_tensor_unref(h->t);
    h->sent(h->arg, p->why.code);
    free(h);
  }
}

/* Nobody has the peer any more. */
void pf_incoming_free(pf_peer *p) {
  while (p->incoming) {
    pf_incoming *in = p->incoming;
    p->incoming = in->next;
    pf_tensor_unref(in->t);
    drop_incoming(in);
  }
}
