/* Tensors that a peer has for us, or pushed (incoming.c). */
#ifndef PF_NET_INCOMING_H
#define PF_NET_INCOMING_H
#include "net/letters.h"
#include "net/calls.h"

enum {
  /* what a peer's announcements may cost here: its threads may announce at once */
  PF_NET_INCOMING = 2 * PF_NET_ANNOUNCED,
  PF_NET_ALL_INCOMING = 64 << 20, /* what all peers' may */
  PF_NET_DEAD = 64 << 20 /* what a peer's dead tensors may cost here that nobody has taken */
};

/* References: the peer's list, its offer to the step's receivers. */
typedef struct pf_incoming {
  struct pf_incoming *next; /* in its bucket */
  pf_a32 refs;
  /* postponed: somebody waits, but too much is under way; early: asked for though nobody waited */
  int32_t asked, postponed, early;
  uint64_t id;
  pf_step_key key;
  pf_peer *peer;       /* the offer's reference */
  pf_net_shape *shape; /* with as many dims as it has */
  pf_tensor *t;        /* NULL: no byte of it was received in chunks */
  int64_t got, bytes;
  pf_str name; /* behind this struct */
} pf_incoming;
/* A lock of its own.  Touched by incoming.c. */
typedef struct {
  pthread_mutex_t lock;
  pf_incoming *announced[PF_NET_BUCKETS]; /* by id */
  /* cost: of what it announced; most: that there was; bytes: under way */
  int64_t cost, most, bytes, n_postponed;
  /* pushed by the peer, nobody has read it; of it, a tensor larger than the window */
  int64_t stored, stored_alone;
  int64_t dead; /* what its dead tensors that nobody has taken cost */
  /* read, but not told yet; fetched before anybody waited, nobody has read it */
  int64_t read, early_bytes;
  pf_incoming *sink; /* `reading`: whose chunk is received now */
} pf_arrivals;

pf_status pf_tensor_frame(pf_peer *p, const pf_net_head *h, pf_net_in *body);
pf_status pf_announced(pf_peer *p, const pf_net_head *h, pf_net_in *body);
/* they belong there */
pf_status pf_chunk_begins(pf_peer *p, const pf_net_head *h, const uint8_t *chunk_head, uint8_t **to,
                          int64_t *n);
void pf_chunk_ends(pf_peer *p);
void pf_incoming_init(pf_peer *p);
/* what it announced and nobody waits for is not to be had any more */
void pf_incoming_lost(pf_peer *p);
int32_t pf_incoming_free(pf_peer *p); /* nobody has the peer any more; 1: it had announced much */
void pf_incoming_view(pf_peer *p, pf_peer_view *v);
#endif
