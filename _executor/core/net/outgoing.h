/* Tensors of our steps to a peer's (outgoing.c); net.h has pf_peer_put. */
#ifndef PF_NET_OUTGOING_H
#define PF_NET_OUTGOING_H
#include "net/peer.h"

/* its link takes bytes again, or there may be room in the queue */
void pf_peer_writable(pf_peer *p);
pf_status pf_asked_for(pf_peer *p, const pf_net_head *h, pf_net_in *body);
pf_status pf_was_read(pf_peer *p, uint64_t bytes);
void pf_outgoing_lost(pf_peer *p);
#endif
