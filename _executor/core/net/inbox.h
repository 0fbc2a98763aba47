/* What a peer's link brings (inbox.c). */
#ifndef PF_NET_INBOX_H
#define PF_NET_INBOX_H
#include "net/work.h"

enum { PF_NET_BUFFER = 160 << 10 };

/* Lock: `reading`, which whoever receives has.  Touched by inbox.c. */
typedef struct {
  pthread_mutex_t reading;
  uint8_t *buf;
  int64_t lo, hi;
  uint8_t *sink; /* bytes that go straight to where they belong: a chunk's, */
  int64_t sink_left;
  pf_tensor *body; /* or a frame's that is larger than `buf`, of this head */
  pf_net_head body_head;
} pf_inbox;

int32_t pf_inbox_init(pf_peer *p); /* 0: no memory */
void pf_inbox_free(pf_peer *p);
/* receives what is there, and acts on it; 0: another thread does */
int32_t pf_peer_receive(pf_peer *p);
void pf_peer_readable(pf_peer *p); /* the same for the net's thread */
/* bytes of the peer's lie there: it lives, and it is us who are late */
int32_t pf_peer_has_unread(pf_peer *p);
#endif
