/* Begin, loss and end of a peer's parts (life.c). */
#ifndef PF_NET_LIFE_H
#define PF_NET_LIFE_H
#include "net/peer.h"

extern const pf_peer_life pf_life_of_peers;
#endif
