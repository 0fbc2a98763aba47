/* arenas.c - memory that both ends of a link see: tensors are copied into it once, and read where
 * they lie.
 *
 *   sender     place -> a block of an arena of its own, new arenas up to `arena_bytes`; CREDIT from the peer frees the block
 *   receiver   find -> a tensor over the block; its last reference gone, CREDIT goes back
 *
 * Invariants
 * 1. A block of an arena is free, or belongs to one tensor at the receiver until that one's last
 *    reference is gone.
 * 2. Pages are made once, as far as an arena was used (madvise), and not at the first touch of each
 *    tensor.
 *
 * Threads: any; a peer's own arenas under its lock `out`.
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
  int64_t size =
      bytes > ARENA_BYTES ? (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES : ARENA_BYTES;
  if (size > p->net->o.arena_bytes - p->arenas.bytes)
    size = (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
  if (size > p->net->o.arena_bytes - p->arenas.bytes) return NULL;
  pf_own_arena *larger = realloc(p->arenas.own, sizeof *larger * (size_t)(p->arenas.n + 1));
  if (!larger) return NULL;
  p->arenas.own = larger;
  pf_own_arena *a = larger + p->arenas.n;
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
  p->arenas.n++;
  p->arenas.bytes += size;
  return a;
}

/* Pages up to `end` of that arena are there from now on; how many bytes before `end` were not. */
static int64_t touch(pf_peer *p, uint32_t id, int64_t end) {
  pf_own_arena *a = p->arenas.own;
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
  for (int32_t k = 0; k < p->arenas.n && !base && !pf_outbox_has_failed(p); k++)
    if (block_in(p->arenas.own + k, bytes, offset))
      base = p->arenas.own[k].base, *arena = p->arenas.own[k].id;
  if (!base && !pf_outbox_has_failed(p)) {
    pf_own_arena *a = new_arena(p, bytes);
    if (a && block_in(a, bytes, offset)) base = a->base, *arena = a->id;
  }
  if (base) p->arenas.used += bytes;
  int64_t fresh = base ? touch(p, *arena, (int64_t)*offset + bytes) : 0;
  pthread_mutex_unlock(&p->out);
  /* at once, not page by page; failing that, as ever */
  if (fresh) madvise(base + *offset + bytes - fresh, (size_t)fresh, MADV_POPULATE_WRITE);
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
  for (int k = 0; k < 2; k++) { /* with the free one behind it, then with the one before */
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
  for (int32_t k = 0; k < p->arenas.n && !b->bad; k++)
    if (p->arenas.own[k].id == arena) found = freed(p->arenas.own + k, offset, &bytes);
  p->arenas.used -= bytes;
  pthread_mutex_unlock(&p->out);
  return found ? PF_OK : PF_DATA_LOSS;
}

void pf_arenas_free(pf_peer *p) {
  for (int32_t k = 0; k < p->arenas.n; k++) free(p->arenas.own[k].blocks);
  free(p->arenas.own);
}

/* ---------------------------------------------------------------- arenas of the peer's */
typedef struct {
  pf_peer *peer;
  pf_link_map *map;
  uint32_t arena, pad;
  uint64_t offset;
} borrowed;

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

static pf_tensor *find(void *self, int32_t type, const int64_t *dims, int32_t ndim, int64_t bytes,
                       uint32_t arena, uint64_t offset) {
  pf_peer *p = self;
  int64_t there = 0;
  pf_link_map *map = NULL;
  uint8_t *base = p->link->map(p->conn, arena, &there, &map);
  if (!base) return NULL;
  borrowed *b = offset % 64 == 0 && offset <= (uint64_t)there && bytes <= there - (int64_t)offset
                    ? malloc(sizeof *b)
                    : NULL;
  pf_tensor *t =
      b ? pf_tensor_wrap(type, dims, ndim, base + offset, PF_T_FOREIGN, give_back, b) : NULL;
  if (!t) {
    free(b);
    p->link->unmap(map);
    return NULL;
  }
  *b = (borrowed){p, map, arena, 0, offset};
  pf_peer_ref(p);
  /* under `reading` */
  if (arena < PF_NET_ARENAS && (int64_t)offset + bytes > p->arenas.touched[arena]) {
    uint64_t from = offset & ~(uint64_t)(PAGE - 1);
    madvise(base + from, (size_t)(offset + (uint64_t)bytes - from), MADV_POPULATE_READ);
    p->arenas.touched[arena] = (int64_t)offset + bytes;
  }
  return t;
}

pf_net_arenas pf_peer_arenas(pf_peer *p) {
  int32_t has = p->link->size >= sizeof(pf_link) && p->link->arena && p->link->map &&
                p->link->unmap && p->net->o.arena_bytes > 0;
  return (pf_net_arenas){has ? p : NULL, place, find};
}

void pf_arenas_view(const pf_peer *p, pf_peer_view *v) {
  v->arena_bytes = p->arenas.bytes, v->arena_used = p->arenas.used;
}
