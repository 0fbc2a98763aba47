/* Memory that both ends of a link see (arenas.c). */
#ifndef PF_NET_ARENAS_H
#define PF_NET_ARENAS_H
#include "net/work.h"

enum { PF_NET_ARENAS = 256 };

/* An arena of ours, cut into blocks. */
typedef struct {
  int64_t at, n;
  int32_t used, pad;
} pf_block_of_arena;
typedef struct {
  uint32_t id;
  int32_t n, room, pad;
  uint8_t *base;
  int64_t bytes, touched;
  pf_block_of_arena *blocks;
} pf_own_arena;
/* Lock: the peer's `out`, for an arena reaches it with the next bytes that are posted.  Touched
 * by arenas.c. */
typedef struct {
  pf_own_arena *own;
  int32_t n, pad;
  int64_t bytes, used;
  /* `reading`; of the peer's arenas: up to where their pages are mapped here */
  int64_t touched[PF_NET_ARENAS];
} pf_arenas;

pf_net_arenas pf_peer_arenas(pf_peer *p);
pf_status pf_credited(pf_peer *p, pf_net_in *body);
void pf_arenas_free(pf_peer *p);
void pf_arenas_view(const pf_peer *p, pf_peer_view *v); /* the lock held */
#endif
