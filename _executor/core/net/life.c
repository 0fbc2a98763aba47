/* life.c - begin, loss and end of a peer's parts: the one file of core/net that knows them all.
 *
 * peer.c calls these through the net (pf_peer_life), so that no part needs to know of the others to
 * lose the peer.
 *
 * Threads: as work.h says.
 */
#include "net/life.h"
#include "net/outgoing.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

static int32_t begin(pf_peer *p) {
  pf_letters_init(&p->letters);
  pf_calls_init(p), pf_servings_init(p), pf_incoming_init(p);
  return pf_inbox_init(p);
}

typedef struct {
  pf_net *n;
  char name[128];
  uint64_t incarnation;
  pf_error why;
} loss;
static void tell_loss(void *arg) {
  loss *l = arg;
  l->n->o.lost(l->n->o.lost_arg, l->name, l->incarnation, &l->why);
  pf_net_unref(l->n);
  free(l);
}

static void lost(pf_peer *p, int32_t was) {
  pf_net *n = p->net;
  p->link->close(p->conn);
  pthread_mutex_lock(&p->out);
  pf_outbox_drop(p);
  pthread_mutex_unlock(&p->out);
  pf_calls_lost(p);
  pf_servings_lost(p);
  pf_outgoing_lost(p);
  pf_incoming_lost(p);
  loss *l =
      was == PF_PEER_OPEN && n->o.lost && !pf_a32_load(&n->closing) ? malloc(sizeof *l) : NULL;
  if (l) {
    *l = (loss){.n = n, .incarnation = p->incarnation, .why = p->why};
    memcpy(l->name, p->name, sizeof l->name);
    pf_net_ref(n);
    pf_net_tell(n, tell_loss, l);
  }
}

static void give_memory_back(void *none) {
  (void)none;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

static void left(pf_peer *p) {
  if (pf_incoming_free(p) || pf_outbox_had_many(p)) pf_net_work(p->net, give_memory_back, NULL);
  pf_arenas_free(p);
  p->link->release(p->conn);
  pf_letters_free(&p->letters);
  pf_calls_free(p), pf_servings_free(p);
  pf_inbox_free(p);
}

const pf_peer_life pf_life_of_peers = {begin, lost, left};
