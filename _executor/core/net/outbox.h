/* Frames that wait to be posted to a peer (outbox.c). */
#ifndef PF_NET_OUTBOX_H
#define PF_NET_OUTBOX_H
#include "net/letters.h"

/* Lock: the peer's `out`.  Touched by outbox.c. */
typedef struct {
  pf_out *first, *last;
  int64_t tensor_bytes;             /* in the queue */
  int32_t n, most;                  /* in the queue, without tensors; that there were */
  int32_t failed, n_riding;         /* failed: nothing can be posted any more */
  uint8_t riding[16 * PF_NET_HEAD]; /* frames without a body that go with the next one */
} pf_outbox;

/* a frame; its heap memory is the peer's from now on */
void pf_peer_send(pf_peer *p, pf_net_out *take);
/* counted: among the tensors that wait */
void pf_peer_send_as(pf_peer *p, pf_net_out *take, int32_t counted);
/* with the next frame, or after a fifth of the lease */
void pf_peer_send_soon(pf_peer *p, const pf_net_head *h);
/* what this thread sends to it is kept back; whose was until now */
pf_peer *pf_outbox_cork(pf_peer *p);
void pf_outbox_uncork(pf_peer *p, pf_peer *was);
/* The lock held: */
/* posts what the link takes; who calls tells those that are finished */
void pf_outbox_pump(pf_peer *p, pf_letter **finished);
void pf_outbox_drop(pf_peer *p);
int64_t pf_outbox_bytes(const pf_peer *p);       /* of tensors in the queue */
int64_t pf_outbox_room(const pf_peer *p);        /* for more of them */
int32_t pf_outbox_may_release(const pf_peer *p); /* ... for something that waits for it */
void pf_outbox_want_out(pf_peer *p); /* the net's thread comes if there is something for it */
int32_t pf_outbox_has_failed(const pf_peer *p);
int32_t pf_outbox_had_many(const pf_peer *p); /* no lock: nobody has the peer any more */
#endif
