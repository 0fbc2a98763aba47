/* transfers.c - tensors from a peer's steps to ours: pushed, by shared memory, or announced and fetched.
 *
 *   up to 64 kB, and strings        TENSOR with the bytes
 *   larger, the link has arenas     TENSOR with the place: copied once, into memory that both see; CREDIT gives it back
 *   larger                          ANNOUNCE; the receiver makes room where the tensor's reader wants it and says GET; CHUNKs
 *   beyond the reader's window      ANNOUNCE; GET once somebody waits for it; then as above
 *
 * Invariants
 * 1. What waits to be sent to a peer is at most `queue_bytes` and one tensor of each _net.Send that runs: who sends more is told later, or
 *    waits on its thread.  A thread of the net's own never waits.
 * 2. A block of an arena is free, or belongs to one tensor at the receiver until that one's last reference is gone.
 * 3. Chunks of a tensor come in their order, each byte once; nothing is allocated for an announcement beyond `incoming_bytes`.
 * 4. What a peer pushed and nobody has read is at most the window of the reader, or one larger tensor; the reader tells what was read (READ)
 *    a quarter of the window later.  What was announced is asked for when somebody waits for it, or, up to a window of it, at once.
 *    So a step whose reader sleeps keeps its tensors where they were made, and keeps no other step's from going.
 *
 * Threads: any.
 */
#include <sys/mman.h>
#include "net/peer.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

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

/* Pages up to `end` of that arena are there from now on; how many bytes before `end` were not. */
static int64_t touch(pf_peer *p, uint32_t id, int64_t end) {
  pf_own_arena *a = p->arenas;
  while (a->id != id) a++;
  int64_t fresh = end - a->touched;
  if (fresh > 0) a->touched = end;
  return fresh > 0 ? fresh : 0;
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
  int64_t fresh = base ? touch(p, *arena, (int64_t)*offset + bytes) : 0;
  pthread_mutex_unlock(&p->out);
  if (fresh) madvise(base + *offset + bytes - fresh, (size_t)fresh, MADV_POPULATE_WRITE);       /* at once, not page by page; failing that, as ever */
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
  if (arena < PF_NET_ARENAS && (int64_t)offset + bytes > p->touched[arena]) {   /* under `reading` */
    uint64_t from = offset & ~(uint64_t)(PAGE - 1);
    madvise(base + from, (size_t)(offset + (uint64_t)bytes - from), MADV_POPULATE_READ);
    p->touched[arena] = (int64_t)offset + bytes;
  }
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

static void fill(pf_net_out *o, pf_peer *p, pf_step_key key, uint64_t asked, pf_str name, const pf_tensor *t, int32_t dead,
                 const uint64_t *place) {
  pf_put_head(o, PF_NET_TENSOR, asked ? PF_NET_ASKED : 0, key, p->net->o.epoch);
  if (asked) pf_put64(o, asked);
  put_key(o, name);
  if (place) {
    pf_net_put_shape(o, t, PF_TENSOR_IN_ARENA);
    pf_put32(o, (uint32_t)place[0]), pf_put32(o, 0), pf_put64(o, place[1]);
  } else {
    pf_net_put_tensor(o, t, dead, NULL);
  }
  pf_put_end(o);
}

static int32_t is_large(const pf_tensor *t) { return t && t->type != PF_STRING && t->nbytes > PF_NET_PUSH; }

/* 0: it is large, and there is no memory that both see: nothing was sent. */
static int32_t send_whole(pf_peer *p, pf_step_key key, uint64_t asked, pf_str name, const pf_tensor *t, int32_t dead) {
  uint8_t memory[4096];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_net_arenas arenas = pf_peer_arenas(p);
  uint32_t arena;
  uint64_t at[2];
  int32_t placed = is_large(t) && arenas.self && place(p, t, &arena, &at[1]);
  if (is_large(t) && !placed) return 0;
  at[0] = placed ? arena : 0;
  fill(&o, p, key, asked, name, t, dead, placed ? at : NULL);
  pf_peer_send_as(p, &o, 1);
  return 1;
}

typedef struct { pf_step_key key; pf_str name; pf_tensor *t; int32_t dead, pad; pf_sent_fn sent; void *arg; } pf_letter;

static void announce(pf_peer *p, const pf_letter *l) {
  uint8_t memory[1024];
  pf_net_out o = {.p = memory, .room = sizeof memory};
  pf_transfer *t = calloc(1, sizeof *t + (size_t)l->name.len + 1);
  pf_tensor *own = lasting(l->t);
  if (!t || !own) {
    free(t);
    pf_tensor_unref(own);
    pf_peer_losef(p, PF_RESOURCE_EXHAUSTED, "out of memory for a tensor's announcement");
    if (l->sent) l->sent(l->arg, PF_RESOURCE_EXHAUSTED);
    return;
  }
  t->key = l->key, t->t = own, t->sent = l->sent, t->arg = l->arg;
  t->name = (pf_str){(char *)(t + 1), l->name.len};
  if (l->name.len) memcpy(t + 1, l->name.data, (size_t)l->name.len);
  pthread_mutex_lock(&p->out);
  uint64_t id = t->id = ++p->transfer_ids;
  pf_put_head(&o, PF_NET_ANNOUNCE, 0, l->key, p->net->o.epoch);
  pf_put64(&o, id);
  put_key(&o, l->name);
  pf_net_put_shape(&o, own, PF_TENSOR_ABSENT);
  pf_put_end(&o);
  t->next = p->transfers;
  p->transfers = t;
  p->n_transfers++;
  p->announced += own->nbytes;
  pthread_mutex_unlock(&p->out);
  pf_peer_send(p, &o);
  if (pf_peer_is(p, PF_PEER_LOST)) pf_transfers_lost(p);
}

static int64_t cost_of(const pf_tensor *t) { return t ? pf_net_tensor_bytes(t) + PF_NET_ENTRY : 0; }

/* Whether so much more may wait at a reader that has `unread` bytes; what is larger than the window goes alone. */
static int32_t is_within(int64_t unread, int64_t cost, int64_t window) { return !cost || unread + cost <= window || unread <= window / 4; }

/* Out held: pushed, no matter how much waits in the queue. */
static int32_t may_push(pf_peer *p, const pf_tensor *t) {
  return (!is_large(t) || pf_peer_arenas(p).self) && is_within(p->unread, cost_of(t), p->window);
}

/* Without regard to the queue's bound; 1: l->sent follows. */
static int32_t send_now(pf_peer *p, const pf_letter *l) {
  pthread_mutex_lock(&p->out);
  int32_t push = may_push(p, l->t);
  if (push) p->unread += cost_of(l->t);
  pthread_mutex_unlock(&p->out);
  if (push && send_whole(p, l->key, 0, l->name, l->t, l->dead)) {
    pf_tensor_unref(l->t);
    return 0;
  }
  if (push) {
    pthread_mutex_lock(&p->out);
    p->unread -= cost_of(l->t);
    pthread_mutex_unlock(&p->out);
  }
  announce(p, l);
  return l->sent != NULL;
}

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

/* Out held: whether it would have to wait. */
static int32_t is_full(pf_peer *p, const pf_tensor *t) {
  int64_t bound = p->net->o.queue_bytes;
  return may_push(p, t) ? p->tensor_bytes > bound : p->announced > bound || p->n_transfers >= PF_NET_MAX_ANNOUNCED;
}

/* On this thread, unless it is one of the net's; what the step failed with meanwhile. */
static pf_status wait_for_room(pf_peer *p, pf_step_key key, const pf_tensor *t, pf_error *err) {
  pf_status st = PF_OK;
  pthread_mutex_lock(&p->out);
  while (!st && !pf_net_is_own_thread() && !pf_peer_is(p, PF_PEER_LOST) && is_full(p, t)) {
    pf_cond_wait_until(&p->roomy, &p->out, pf_now_ns() + 20000000);
    pthread_mutex_unlock(&p->out);
    if (pf_task_error(p->net->task, key, err)) st = err->code;
    pthread_mutex_lock(&p->out);
  }
  pthread_mutex_unlock(&p->out);
  return st;
}

/* The tensor waits for room in the queue, or at once for who asks for it; l->sent follows. */
static pf_status send_later(pf_peer *p, const pf_letter *l) {
  pf_status st = PF_PENDING;
  pthread_mutex_lock(&p->out);
  int32_t keeps = may_push(p, l->t) ? p->tensor_bytes > p->net->o.queue_bytes : p->n_transfers >= PF_NET_MAX_ANNOUNCED;
  if (keeps && !pf_peer_is(p, PF_PEER_LOST)) st = hold(p, l->key, l->name, l->t, l->dead, l->sent, l->arg);
  else keeps = 0;
  pthread_mutex_unlock(&p->out);
  if (st != PF_PENDING) {
    pf_tensor_unref(l->t);
    l->sent(l->arg, st);
  } else if (!keeps && !send_now(p, l)) {
    l->sent(l->arg, PF_OK);
  } else if (keeps && pf_peer_is(p, PF_PEER_LOST)) {
    pf_transfers_lost(p);
  }
  return PF_PENDING;
}

pf_status pf_peer_put(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead, const pf_pend *pend, pf_error *err) {
  pf_letter l = {key, name, take, dead, 0, NULL, NULL};
  pf_status st = dead ? PF_OK : pf_net_tensor_check(take, err);
  if (!st && name.len > PF_NET_MAX_KEY) st = pf_error_set(err, PF_INVALID_ARGUMENT, "a key of %lld bytes", (long long)name.len);
  if (!st && pend && !pf_peer_is(p, PF_PEER_LOST)) {
    pthread_mutex_lock(&p->out);
    int32_t full = is_full(p, take);
    pthread_mutex_unlock(&p->out);
    if (full) {
      l.sent = pend->sent;
      l.arg = pend->begin(pend->ctx);
      if (l.arg) return send_later(p, &l);
      st = pf_error_set(err, PF_CANCELLED, "the step was cancelled, or there is no memory to wait until a tensor can be sent");
    }
  } else if (!st) {
    st = wait_for_room(p, key, take, err);
  }
  if (st == PF_OK && pf_peer_is(p, PF_PEER_LOST)) {
    *err = p->why;
    st = p->why.code;
  }
  if (st) {
    pf_tensor_unref(take);
    return st;
  }
  send_now(p, &l);
  return PF_OK;
}

pf_held *pf_release_held(pf_peer *p) {
  pf_held *free_now = NULL, **end = &free_now;
  int64_t room = p->net->o.queue_bytes - p->tensor_bytes, announced = PF_NET_MAX_ANNOUNCED - p->n_transfers;
  if (room >= 0) pthread_cond_broadcast(&p->roomy);
  while (p->held && room >= 0 && announced-- > 0) {
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
    if (!send_now(p, &(pf_letter){h->key, h->name, h->t, h->dead, 0, h->sent, h->arg})) h->sent(h->arg, PF_OK);
    free(h);
  }
}

/* What is not sent in chunks; where it has to be after all, it is among those again. */
static void answer_get(pf_peer *p, pf_transfer *t) {
  int32_t whole = send_whole(p, t->key, t->id, t->name, t->t, 0);
  pthread_mutex_lock(&p->out);
  if (whole) {
    p->announced -= t->t->nbytes;
    p->n_transfers--;
  } else {
    t->next = p->transfers;
    p->transfers = t;
  }
  pthread_mutex_unlock(&p->out);
  if (whole) pf_transfers_finished(t);
  else if (pf_peer_is(p, PF_PEER_LOST)) pf_transfers_lost(p);
}

pf_status pf_asked_for(pf_peer *p, const pf_net_head *h, pf_net_in *b) {
  uint64_t id = pf_get64(b);
  int32_t refused = h->flags & PF_NET_REFUSED, arenas = pf_peer_arenas(p).self != NULL;
  pf_transfer *taken = NULL;
  if (b->bad) return PF_DATA_LOSS;
  pthread_mutex_lock(&p->out);
  pf_transfer **at = &p->transfers;
  while (*at && (*at)->id != id) at = &(*at)->next;
  if (*at && !(*at)->asked) {
    (*at)->asked = 1;
    if (refused || arenas || !is_large((*at)->t)) {
      taken = *at;
      *at = taken->next;
      taken->next = NULL;
    }
  }
  if (taken && refused) {
    p->announced -= taken->t->nbytes;
    p->n_transfers--;
  }
  pthread_mutex_unlock(&p->out);
  if (taken && !refused) answer_get(p, taken);
  else pf_transfers_finished(taken);
  pf_peer_writable(p);
  return PF_OK;
}

pf_status pf_was_read(pf_peer *p, uint64_t bytes) {
  pthread_mutex_lock(&p->out);
  int32_t known = bytes <= (uint64_t)p->unread;
  if (known) p->unread -= (int64_t)bytes;
  pthread_mutex_unlock(&p->out);
  return known ? PF_OK : PF_DATA_LOSS;
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
    p->n_transfers--;
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
    if (t->sent) t->sent(t->arg, PF_OK);
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

static void deliver(pf_peer *p, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead, pf_left_fn left, int64_t bytes) {
  pf_error err;
  pf_error_clear(&err);
  if (left) pf_peer_ref(p);
  if (pf_task_put_as(p->net->task, key, name, take, dead, left, p, bytes, &err)) put_failed(p, key, &err);
}

/* 0: more than the peer may push; it may have sent two of them in another order than it counted them. */
static int32_t count_stored(pf_peer *p, int64_t cost) {
  int64_t window = p->net->o.window_bytes;
  pthread_mutex_lock(&p->lock);
  int32_t within = cost > window ? p->stored_alone == 0 : p->stored - p->stored_alone + cost <= window + window / 4;
  if (!cost) within = 1;
  if (within) p->stored += cost;
  if (within && cost > window) p->stored_alone = cost;
  pthread_mutex_unlock(&p->lock);
  return within;
}

/* A pushed tensor does not wait any longer: the peer hears so, now and then. */
static void pushed_left(void *arg, int64_t bytes) {
  pf_peer *p = arg;
  uint8_t memory[PF_NET_HEAD];
  pf_net_out o = {.p = memory, .n = PF_NET_HEAD, .room = PF_NET_HEAD};
  int64_t n = 0;
  pthread_mutex_lock(&p->lock);
  p->stored -= bytes;
  if (bytes > p->net->o.window_bytes) p->stored_alone = 0;
  p->read += bytes;
  if (p->read >= p->net->o.window_bytes / 4) n = p->read, p->read = 0;
  pthread_mutex_unlock(&p->lock);
  if (n) {
    pf_net_head_to(memory, (pf_net_head){0, PF_NET_READ, 0, (uint64_t)n, 0, p->net->o.epoch});
    pf_peer_send(p, &o);
  }
  pf_peer_unref(p);
}

static void early_left(void *arg, int64_t bytes) {
  pf_peer *p = arg;
  pthread_mutex_lock(&p->lock);
  p->early_bytes -= bytes;
  pthread_mutex_unlock(&p->lock);
  pf_peer_unref(p);
}

/* Tensors that peers have for us: lists, p->lock held. */
static pf_incoming *incoming_of(pf_peer *p, uint64_t id) {
  pf_incoming *in = p->incoming;
  while (in && in->id != id) in = in->next;
  return in;
}

static void unlink_incoming(pf_peer *p, pf_incoming *in) {
  pf_incoming **at = &p->incoming;
  while (*at != in) at = &(*at)->next;
  *at = in->next;
  p->n_incoming--;
  p->n_postponed -= in->postponed;
  in->postponed = 0;
  if (in->asked) p->incoming_bytes -= in->bytes;
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
  if (p->incoming_bytes && in->bytes > p->net->o.incoming_bytes - p->incoming_bytes) {
    if (wanted && !in->postponed) in->postponed = 1, p->n_postponed++;
    return 0;
  }
  if (!wanted && !is_within(p->early_bytes, in->bytes + PF_NET_ENTRY, p->net->o.window_bytes)) return 0;
  p->n_postponed -= in->postponed;
  in->postponed = 0;
  in->asked = 1;
  p->incoming_bytes += in->bytes;
  if (!wanted) in->early = 1, p->early_bytes += in->bytes + PF_NET_ENTRY;
  return 1;
}

static void put_incoming(pf_peer *p, pf_incoming *in, pf_tensor *take) {
  deliver(p, in->key, in->name, take, 0, in->early ? early_left : NULL, in->early ? in->bytes + PF_NET_ENTRY : 0);
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
  pthread_mutex_lock(&p->lock);
  pf_incoming *in = incoming_of(p, id);
  int32_t right = in && in->asked && !in->t && in->key.session == h->session && in->key.step == h->step;
  pthread_mutex_unlock(&p->lock);
  if (b->bad || !right) return PF_DATA_LOSS;
  pf_status st = pf_net_get_tensor(b, arenas.self ? &arenas : NULL, &t, &dead, &err);
  if (st == PF_DATA_LOSS || dead || (t && (t->type != in->shape->type || pf_net_tensor_bytes(t) != in->bytes))) {
    pf_tensor_unref(t);
    return PF_DATA_LOSS;
  }
  pthread_mutex_lock(&p->lock);
  unlink_incoming(p, in);
  if (st && in->early) p->early_bytes -= in->bytes + PF_NET_ENTRY;
  pthread_mutex_unlock(&p->lock);
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
  int64_t cost = cost_of(t);
  int32_t within = count_stored(p, cost);
  if (within) deliver(p, key, name, t, dead, cost ? pushed_left : NULL, cost);
  else pf_tensor_unref(t);
  return within ? PF_OK : PF_DATA_LOSS;         /* who heeds the window does not come here */
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
    pthread_mutex_lock(&p->lock);
    for (in = p->n_postponed ? p->incoming : NULL; in; in = in->next)
      if (in->postponed) oldest = in;           /* the list begins with the newest */
    if (oldest && !claim(p, oldest, 1)) oldest = NULL;
    uint64_t id = oldest ? oldest->id : 0;
    pf_step_key key = oldest ? oldest->key : (pf_step_key){0, 0};
    pthread_mutex_unlock(&p->lock);
    if (!oldest) return;
    ask_for(p, id, key, 0);
  }
}

/* Its offer's end: somebody waits for it, or nobody will. */
static void wanted(void *arg, int32_t yes) {
  pf_incoming *in = arg;
  pf_peer *p = in->peer;
  int32_t get = 0, refuse = 0;
  pthread_mutex_lock(&p->lock);
  if (yes) {
    get = claim(p, in, 1);
  } else if (!in->asked) {
    refuse = 1;
    unlink_incoming(p, in);
  }
  pthread_mutex_unlock(&p->lock);
  if (get || refuse) ask_for(p, in->id, in->key, refuse ? PF_NET_REFUSED : 0);
  if (refuse) drop_incoming(in);
  drop_incoming(in);
  pf_peer_unref(p);
}

static void offer(pf_peer *p, pf_incoming *in) {
  pf_error err;
  pf_error_clear(&err);
  pf_a32_add_rlx(&in->refs, 2);                 /* this function's, the offer's */
  pf_peer_ref(p);
  pf_status st = pf_task_offer(p->net->task, in->key, in->name, in->bytes, wanted, in, &err);
  if (st) {
    wanted(in, 0);
    put_failed(p, in->key, &err);
  } else {
    pthread_mutex_lock(&p->lock);
    int32_t get = incoming_of(p, in->id) == in && claim(p, in, 0);
    pthread_mutex_unlock(&p->lock);
    if (get) ask_for(p, in->id, in->key, 0);
  }
  drop_incoming(in);
}

static pf_incoming *new_incoming(pf_peer *p, const pf_net_head *h, uint64_t id, pf_str name, const pf_net_shape *shape) {
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
  if (b->bad || pf_net_get_shape(b, &shape, &err) || shape.flags != PF_TENSOR_ABSENT) return PF_DATA_LOSS;
  if (p->n_incoming >= PF_NET_MAX_INCOMING) return PF_DATA_LOSS;
  pf_incoming *in = new_incoming(p, h, id, name, &shape);
  if (!in) return PF_RESOURCE_EXHAUSTED;
  if (in->bytes > p->net->o.incoming_bytes) {
    pf_error_set(&err, PF_RESOURCE_EXHAUSTED, "a tensor of %lld bytes from %s: more than may be under way from a peer at once",
                 (long long)in->bytes, p->name);
    ask_for(p, in->id, in->key, PF_NET_REFUSED);
    put_failed(p, in->key, &err);
    drop_incoming(in);
    return PF_OK;
  }
  pthread_mutex_lock(&p->lock);
  int32_t known = incoming_of(p, id) != NULL;
  if (!known) {
    in->next = p->incoming;
    p->incoming = in;
    p->n_incoming++;
  }
  pthread_mutex_unlock(&p->lock);
  if (known) drop_incoming(in);
  else offer(p, in);
  return known ? PF_DATA_LOSS : PF_OK;
}

pf_status pf_chunk_begins(pf_peer *p, const pf_net_head *h, const uint8_t *chunk_head) {
  uint64_t id = pf_le64(chunk_head), offset = pf_le64(chunk_head + 8);
  int64_t n = (int64_t)h->length - PF_NET_CHUNK_HEAD;
  pthread_mutex_lock(&p->lock);
  pf_incoming *in = incoming_of(p, id);
  int32_t asked = in && in->asked;
  pthread_mutex_unlock(&p->lock);
  if (!asked || offset != (uint64_t)in->got || n <= 0 || n > in->bytes - in->got || in->shape->type == PF_STRING) return PF_DATA_LOSS;
  if (!in->t && !(in->t = room_for(p, in))) return PF_RESOURCE_EXHAUSTED;
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
  pf_tensor *t = in->t;
  in->t = NULL;
  pthread_mutex_lock(&p->lock);
  unlink_incoming(p, in);
  pthread_mutex_unlock(&p->lock);
  put_incoming(p, in, t);
  drop_incoming(in);
  fetch_postponed(p);
}

/* ---------------------------------------------------------------- the peer is lost */
void pf_transfers_lost(pf_peer *p) {
  pthread_mutex_lock(&p->out);
  pf_transfer *out = p->transfers;
  pf_held *held = p->held;
  p->transfers = NULL, p->held = p->held_last = NULL;
  p->announced = p->n_transfers = 0;
  pthread_mutex_unlock(&p->out);
  for (pf_transfer *t = out; t; t = t->next) {
    if (t->sent) t->sent(t->arg, p->why.code ? p->why.code : PF_UNAVAILABLE);
    t->sent = NULL;
  }
  pf_transfers_finished(out);
  while (held) {
    pf_held *h = held;
    held = h->next;
    pf_tensor_unref(h->t);
    h->sent(h->arg, p->why.code ? p->why.code : PF_UNAVAILABLE);
    free(h);
  }
}

/* Nobody has the peer any more. */
void pf_incoming_free(pf_peer *p) {
  while (p->incoming) {
    pf_incoming *in = p->incoming;
    p->incoming = in->next;
    drop_incoming(in);
  }
}
