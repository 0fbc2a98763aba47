/* Who a peer is (greeting.c). */
#ifndef PF_NET_GREETING_H
#define PF_NET_GREETING_H
#include "net/peer.h"

void pf_peer_hello(pf_peer *p, int32_t flags);
void pf_peer_bye(pf_peer *p, pf_status st, const char *text);
void pf_peer_ping(pf_peer *p, int32_t flags, int64_t heard);
/* BYE, and it is lost; `code` */
__attribute__((format(printf, 3, 4))) pf_status pf_peer_refuse(pf_peer *p, pf_status code,
                                                               const char *fmt, ...);
pf_status pf_greeted(pf_peer *p, const pf_net_head *h, pf_net_in *body);
pf_status pf_bid_farewell(pf_peer *p, pf_net_in *body);
pf_status pf_pinged(pf_peer *p, const pf_net_head *h, pf_net_in *body);
#endif
