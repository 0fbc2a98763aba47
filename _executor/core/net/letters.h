/* Tensors on their way to a peer, for as long as they have to wait (letters.c). */
#ifndef PF_NET_LETTERS_H
#define PF_NET_LETTERS_H
#include "net/work.h"

enum {
  PF_NET_CHUNK_BYTES = 512 << 10,
  /* what announcements that wait at a peer may cost (pf_cost_announced) */
  PF_NET_ANNOUNCED = 4 << 20,
};

typedef void (*pf_sent_fn)(void *arg, pf_status st);
typedef struct pf_letter {
  struct pf_letter *next;
  uint64_t id; /* of its announcement */
  pf_step_key key;
  pf_str name; /* of one that is kept: behind this struct */
  pf_tensor *t;
  int64_t at; /* announced: sent, or in the queue */
  int32_t dead, asked;
  pf_sent_fn sent; /* NULL, or called once it is sent or dropped */
  void *arg;
} pf_letter;
/* Bytes that wait to be posted; the head lies in the node, the rest where `p` says. */
typedef struct pf_out {
  struct pf_out *next;
  uint8_t head[PF_NET_HEAD + PF_NET_CHUNK_HEAD];
  int32_t head_n, counted; /* counted: its bytes are among `tensor_bytes` */
  const uint8_t *p;
  int64_t n, at;
  uint8_t *own;       /* freed with the node */
  pf_letter *last_of; /* NULL, or this is the last of its bytes */
} pf_out;

/* Lock: the peer's `out`.  Touched by letters.c. */
typedef struct {
  pthread_cond_t roomy;
  pf_letter *announced;        /* sent once the peer asks for them, or in chunks now */
  pf_letter *held, *held_last; /* wait for room in the queue */
  /* of what is announced: its bytes; what the announcements cost that wait there */
  int64_t announced_bytes, announcing;
  int64_t releasing;      /* bytes of what is held no longer, and not in the queue yet */
  int64_t unread, window; /* pushed, and not known to be read; what the peer says may be */
  uint64_t ids;
} pf_letters;

/* Of an announcement, at both ends: its key and what is kept of it. */
static inline int64_t pf_cost_announced(pf_str name) { return PF_NET_ENTRY + name.len; }
static inline int64_t pf_cost_of(const pf_tensor *t) {
  return t ? pf_net_tensor_bytes(t) + PF_NET_ENTRY : 0;
}
static inline int32_t pf_is_large(const pf_tensor *t) {
  return t && t->type != PF_STRING && t->nbytes > PF_NET_PUSH;
}
/* Whether so much more may wait at a reader that has `unread` bytes; what is larger than the
 * window goes alone. */
static inline int32_t pf_is_within(int64_t unread, int64_t cost, int64_t window) {
  return !cost || unread + cost <= window || unread <= window / 4;
}

static inline int64_t pf_bytes_held(const pf_letter *l) { return l->t ? l->t->nbytes : 0; }

/* No lock: */
/* may outlive the step and the caller; takes l->t.  NULL: no memory, and it did not */
pf_letter *pf_letter_kept(const pf_letter *l);
void pf_letters_told(pf_letter *take, pf_status st); /* what became of each */
/* The lock held: */
void pf_letters_init(pf_letters *ls);
void pf_letters_free(pf_letters *ls); /* they are gone already */
void pf_letters_welcome(pf_letters *ls, int64_t window);
int32_t pf_letters_may_push(const pf_letters *ls, const pf_tensor *t);
void pf_letters_pushed(pf_letters *ls, int64_t cost);    /* less than 0: it was not, after all */
int32_t pf_letters_read(pf_letters *ls, uint64_t bytes); /* 0: the peer has not been sent so many */
int32_t pf_letters_is_full(const pf_letters *ls);        /* no more may be announced */
int64_t pf_letters_waiting(const pf_letters *ls);        /* bytes of what is announced */
uint64_t pf_letters_announce(pf_letters *ls, pf_letter *take); /* its id */
void pf_letters_hold(pf_letters *ls, pf_letter *take);
/* there is room for something that waits for it */
int32_t pf_letters_may_release(const pf_letters *ls, int64_t room);
/* those held that there is room for now */
pf_letter *pf_letters_release(pf_letters *ls, int64_t room);
void pf_letters_released(pf_letters *ls, int64_t bytes); /* they are in the queue now */
/* The peer asks for it: where it does not go in chunks, or is refused, it is the caller's. */
pf_letter *pf_letters_ask(pf_letters *ls, uint64_t id, int32_t refused, int32_t in_arenas);
/* one that was asked for went, or will not */
void pf_letters_answered(pf_letters *ls, const pf_letter *l);
/* among those that are asked for again; or what the queue dropped */
void pf_letters_back(pf_letters *ls, pf_letter *take);
pf_out *pf_letters_chunk(pf_letters *ls, uint64_t epoch); /* the next; NULL: nothing is asked for */
pf_letter *pf_letters_drop(pf_letters *ls); /* all, in the order in which they are told */
void pf_letters_wait(pf_letters *ls, pthread_mutex_t *out, int64_t until_ns); /* for room */
void pf_letters_wake(pf_letters *ls);
void pf_letters_view(const pf_letters *ls, pf_peer_view *v);
#endif
