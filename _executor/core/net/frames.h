/* Frames: what tasks say to each other over a link.  The lowest header of core/net.
 *
 *   32 bytes, little-endian: length u32 (of the body), type u16, flags u16, session u64, step u64,
 *   epoch u64; then the body
 *
 *   HELLO     magic, version, sender's incarnation, the receiver's incarnation that it expects, sender's name, receiver's name,
 *             how many bytes may wait at the sender to be read
 *   RUN       call, handle, time-out in ns, n, n tensors              -> DONE
 *   DONE      call, status; an error, or n and n tensors
 *   TENSOR    key, tensor                                             pushed: put in the rendezvous of {session, step}
 *             ASKED: id, key, tensor                                  what a GET asked for
 *   ANNOUNCE  id, key, tensor without its bytes                       -> GET
 *   GET       id; REFUSED: not wanted                                 -> CHUNK, CHUNK, ..., or TENSOR
 *   READ      - (session: how many bytes of what was pushed)          were read, or are not wanted any more
 *   CHUNK     id, offset, bytes
 *   CANCEL    an error                                                the step {session, step} fails with it
 *   CLEAN     -; ALL: every step of the session                       it is over everywhere
 *   PING      sender's clock, receiver's clock as last heard, ns since; REPLY: the answer
 *   CREDIT    arena, offset                                           that block may be used again
 *   BYE       status, text                                            the sender closes the connection
 *
 *   tensor    type u32, flags u32 (DEAD, IN_ARENA, ABSENT, PADDED), ndim u32, 0 u32, dims i64 each, n u64, then n bytes, or arena u32,
 *             0 u32, offset u64; PADDED: before the bytes k u32 and k bytes, so that they begin at
 *             a multiple of 64 of the body strings: a length u32 and the bytes of each
 *   error     status u32, derived u32, then texts: node, op, device, task, message
 *   text      length u32, bytes
 *
 * Invariants
 * 1. A reader never reads beyond its end: what is missing reads as 0 and is `bad` from then on.
 * 2. For what a frame of up to 160 kB promises nothing is allocated before it is there, and then at
 *    most 4 times as much; a larger one's body gets its memory at once, within the receiver's
 *    `incoming_bytes`.  Tensors over 64 kB then lie where they were received.
 */
#ifndef PF_NET_FRAMES_H
#define PF_NET_FRAMES_H
#include "step/step.h"
#include "pyflow/link.h"

enum {
  PF_NET_HELLO = 1,
  PF_NET_RUN,
  PF_NET_DONE,
  PF_NET_TENSOR,
  PF_NET_ANNOUNCE,
  PF_NET_GET,
  PF_NET_CHUNK,
  PF_NET_CANCEL,
  PF_NET_CLEAN,
  PF_NET_PING,
  PF_NET_CREDIT,
  PF_NET_BYE,
  PF_NET_READ,
  PF_NET_TYPES
};
/* flags, each of the frames above */
enum { PF_NET_REPLY = 1, PF_NET_REFUSED = 1, PF_NET_ALL = 1, PF_NET_ASKED = 1 };
enum { PF_TENSOR_DEAD = 1, PF_TENSOR_IN_ARENA = 2, PF_TENSOR_ABSENT = 4, PF_TENSOR_PADDED = 8 };
enum {
  PF_NET_MAGIC = 0x316e6670,
  PF_NET_VERSION = 2,
  PF_NET_HEAD = 32,
  PF_NET_CHUNK_HEAD = 16,
  PF_NET_PUSH = 65536, /* a tensor of more bytes is announced */
  PF_NET_ENTRY = 256,  /* what a tensor counts for beyond its bytes where it waits to be read */
  PF_NET_MAX_KEY = 16384,
  PF_NET_MAX_TEXT = 8192
};

#define PF_NET_CLIENT "/client:"      /* begins the name of a process that is no task, and runs steps at one */

typedef struct {
  uint32_t length;
  uint16_t type, flags;
  uint64_t session, step, epoch;
} pf_net_head;

/* ---------------------------------------------------------------- numbers */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PF_LE(bits, x) (x)
#else
#define PF_LE(bits, x) __builtin_bswap##bits(x)
#endif
static inline uint16_t pf_le16(const uint8_t *p) {
  uint16_t x;
  memcpy(&x, p, 2);
  return PF_LE(16, x);
}
static inline uint32_t pf_le32(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return PF_LE(32, x);
}
static inline uint64_t pf_le64(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, 8);
  return PF_LE(64, x);
}
static inline void pf_to_le16(uint8_t *p, uint16_t x) {
  x = PF_LE(16, x);
  memcpy(p, &x, 2);
}
static inline void pf_to_le32(uint8_t *p, uint32_t x) {
  x = PF_LE(32, x);
  memcpy(p, &x, 4);
}
static inline void pf_to_le64(uint8_t *p, uint64_t x) {
  x = PF_LE(64, x);
  memcpy(p, &x, 8);
}

static inline pf_net_head pf_net_head_of(const uint8_t *p) {
  return (pf_net_head){pf_le32(p),     pf_le16(p + 4),  pf_le16(p + 6),
                       pf_le64(p + 8), pf_le64(p + 16), pf_le64(p + 24)};
}
static inline void pf_net_head_to(uint8_t *p, pf_net_head h) {
  pf_to_le32(p, h.length), pf_to_le16(p + 4, h.type), pf_to_le16(p + 6, h.flags);
  pf_to_le64(p + 8, h.session), pf_to_le64(p + 16, h.step), pf_to_le64(p + 24, h.epoch);
}

/* ---------------------------------------------------------------- reading */
/* body: whose memory it is, or NULL */
typedef struct {
  const uint8_t *p;
  int64_t n;
  int32_t bad, pad;
  pf_tensor *body;
} pf_net_in;
static inline const uint8_t *pf_get(pf_net_in *in, int64_t n) {
  if (in->bad || n < 0 || n > in->n) {
    in->bad = 1;
    return NULL;
  }
  const uint8_t *p = in->p;
  in->p += n, in->n -= n;
  return p;
}
static inline uint32_t pf_get32(pf_net_in *in) {
  const uint8_t *p = pf_get(in, 4);
  return p ? pf_le32(p) : 0;
}
static inline uint64_t pf_get64(pf_net_in *in) {
  const uint8_t *p = pf_get(in, 8);
  return p ? pf_le64(p) : 0;
}
static inline pf_str pf_get_text(pf_net_in *in, int64_t most) {
  int64_t n = pf_get32(in);
  if (n > most) in->bad = 1;
  const uint8_t *p = pf_get(in, n);
  return (pf_str){p ? (const char *)p : "", p ? n : 0};
}

/* -------------------------------------- writing: into a caller's memory first, then on the heap */
/* the tensor's bytes go there: they are not copied */
typedef struct {
  int64_t at;
  pf_tensor *t;
} pf_splice;
typedef struct {
  uint8_t *p, *own;
  int64_t n, room;
  int32_t failed, n_splices;
  pf_splice *splices;
  int64_t spliced;
} pf_net_out;
static inline void pf_net_out_free(pf_net_out *o) {
  for (int32_t k = 0; k < o->n_splices; k++) pf_tensor_unref(o->splices[k].t);
  free(o->splices);
  free(o->own);
}
static inline uint8_t *pf_put(pf_net_out *o, int64_t n) {
  if (o->failed) return NULL;
  if (n > o->room - o->n) {
    int64_t room = o->n + n + (o->own ? o->n / 2 : 0);
    uint8_t *larger = realloc(o->own, (size_t)room);
    if (!larger) {
      o->failed = 1;
      return NULL;
    }
    if (!o->own && o->n) memcpy(larger, o->p, (size_t)o->n);
    o->p = o->own = larger;
    o->room = room;
  }
  o->n += n;
  return o->p + o->n - n;
}
static inline void pf_put32(pf_net_out *o, uint32_t x) {
  uint8_t *p = pf_put(o, 4);
  if (p) pf_to_le32(p, x);
}
static inline void pf_put64(pf_net_out *o, uint64_t x) {
  uint8_t *p = pf_put(o, 8);
  if (p) pf_to_le64(p, x);
}
static inline void pf_put_text(pf_net_out *o, pf_str s) {
  pf_put32(o, (uint32_t)s.len);
  uint8_t *p = pf_put(o, s.len);
  if (p && s.len) memcpy(p, s.data, (size_t)s.len);
}
static inline void pf_put_head(pf_net_out *o, int type, int flags, pf_step_key key,
                               uint64_t epoch) {
  uint8_t *p = pf_put(o, PF_NET_HEAD);
  if (p)
    pf_net_head_to(p,
                   (pf_net_head){0, (uint16_t)type, (uint16_t)flags, key.session, key.step, epoch});
}
/* The length of the one frame that was written. */
static inline void pf_put_end(pf_net_out *o) {
  if (o->failed) return;
  int64_t length = o->n + o->spliced - PF_NET_HEAD;
  if (length > (int64_t)0xffffffff) o->failed = 1;
  else pf_to_le32(o->p, (uint32_t)length);
}

/* ---------------------------------------------------------------- tensors and errors (codec.c) */
/* Memory that both sides see; `self` is the peer.  NULL: everything travels inline. */
typedef struct pf_net_arenas {
  void *self;
  /* copies it there; 0: no room */
  int32_t (*place)(void *self, const pf_tensor *t, uint32_t *arena, uint64_t *offset);
  pf_tensor *(*find)(void *self, int32_t type, const int64_t *dims, int32_t ndim, int64_t bytes,
                     uint32_t arena, uint64_t offset);
  /* a tensor over that block, given back to the peer with its last reference; NULL: there is
       * no such block */
} pf_net_arenas;
/* What of a tensor is there without its bytes. */
typedef struct {
  int32_t type, ndim;
  uint32_t flags, pad;
  int64_t bytes, dims[PF_MAX_NDIM];
} pf_net_shape;
/* PF_INVALID_ARGUMENT: a handle, or in a device's memory.  t NULL: dead. */
pf_status pf_net_tensor_check(const pf_tensor *t, pf_error *err);
int64_t pf_net_tensor_bytes(const pf_tensor *t); /* of its elements; NULL: 0 */
/* The largest of those that are too many bytes for one frame; -1: they are not. */
int32_t pf_net_too_large(pf_tensor *const *t, int32_t n);
/* the k-th argument or result */
pf_status pf_net_say_too_large(const char *what, int32_t k, const pf_tensor *t, pf_error *err);
void pf_net_put_tensor(pf_net_out *o, const pf_tensor *t, int32_t dead,
                       const pf_net_arenas *arenas);
void pf_net_put_shape(pf_net_out *o, const pf_tensor *t, uint32_t flags);
pf_status pf_net_get_shape(pf_net_in *in, pf_net_shape *out, pf_error *err);
/* NULL and PF_OK: it is dead (*dead). */
pf_status pf_net_get_tensor(pf_net_in *in, const pf_net_arenas *arenas, pf_tensor **out,
                            int32_t *dead, pf_error *err);
void pf_net_put_error(pf_net_out *o, pf_status st, const pf_error *err);
/* its code; PF_DATA_LOSS: what came is none */
pf_status pf_net_get_error(pf_net_in *in, pf_error *out);
#endif
