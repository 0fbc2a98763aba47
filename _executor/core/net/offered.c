/* offered.c - the links that there are.  Of those that plugins offer an untrusted table becomes a
 * struct of ours, or an error that says what is wrong with it.
 *
 *   pf_net_offer_link(theirs, &err);      afterwards connections of that kind can be made, for ever
 *
 * Invariants
 * 1. What is smaller than our pf_link reads as zero beyond its end; nothing beyond its size is
 *    looked at.
 * 2. A kind is given once per process: neither ours nor another plugin's is replaced.
 *
 * Threads: any.
 */
#include "net/net.h"

enum {
  MAX_LINKS = 16,
  MAX_KIND = 15,
  KNOWN_FLAGS = PF_LINK_FAR | PF_LINK_SECURE | PF_LINK_WATCHES
};

static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;
static const pf_link *links[MAX_LINKS];
static int32_t n_links;

pf_status pf_net_add_link(const pf_link *link) {
  if (!link || link->size < offsetof(pf_link, arena) || !link->kind || !link->listen ||
      !link->port_descriptor || !link->accept || !link->unlisten || !link->connect ||
      !link->descriptor || !link->post || !link->receive || !link->close || !link->release)
    return PF_INVALID_ARGUMENT;
  pthread_mutex_lock(&links_lock);
  pf_status st = PF_OK;
  for (int32_t k = 0; k < n_links; k++)
    if (!strcmp(links[k]->kind, link->kind)) st = PF_ALREADY_EXISTS;
  if (!st && n_links == MAX_LINKS) st = PF_RESOURCE_EXHAUSTED;
  if (!st) links[n_links++] = link;
  pthread_mutex_unlock(&links_lock);
  return st;
}

const pf_link *pf_net_link(const char *kind) {
  const pf_link *found = NULL;
  pthread_mutex_lock(&links_lock);
  for (int32_t k = 0; k < n_links; k++)
    if (!strcmp(links[k]->kind, kind)) found = links[k];
  pthread_mutex_unlock(&links_lock);
  return found;
}

/* ---------------------------------------------------------------- of plugins */
static int32_t good_kind(const char *kind) {
  int32_t n = 0;
  for (; n <= MAX_KIND && kind[n]; n++)
    if (!(kind[n] >= 'a' && kind[n] <= 'z') &&
        !(n && ((kind[n] >= '0' && kind[n] <= '9') || kind[n] == '_')))
      return 0;
  return n > 0 && n <= MAX_KIND && strcmp(kind, "grpc") && strcmp(kind, "process");
}

static const char *missing(const pf_link *k) {
  const struct {
    const char *name;
    int32_t there;
  } needed[] = {{"listen", k->listen != NULL},   {"port_descriptor", k->port_descriptor != NULL},
                {"accept", k->accept != NULL},   {"unlisten", k->unlisten != NULL},
                {"connect", k->connect != NULL}, {"descriptor", k->descriptor != NULL},
                {"post", k->post != NULL},       {"receive", k->receive != NULL},
                {"close", k->close != NULL},     {"release", k->release != NULL}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!needed[i].there) return needed[i].name;
  return NULL;
}

static pf_status checked(const pf_link *k, pf_error *err) {
  const char *without = missing(k);
  if (!k->kind || !good_kind(k->kind))
    return pf_error_set(
        err, PF_INVALID_ARGUMENT,
        "the kind of a link is 1 to %d of a-z, 0-9 and _, a letter first, and neither grpc nor process",
        MAX_KIND);
  if (without)
    return pf_error_set(err, PF_INVALID_ARGUMENT,
                        "link '%s' has no function '%s', or its struct is too small", k->kind,
                        without);
  if (k->flags & PF_FLAG_CRITICAL_MASK & ~KNOWN_FLAGS)
    return pf_error_set(err, PF_UNIMPLEMENTED,
                        "link '%s' needs something this version does not know (flags 0x%x)",
                        k->kind, k->flags);
  if (!k->arena != !k->map || !k->arena != !k->unmap)
    return pf_error_set(err, PF_INVALID_ARGUMENT,
                        "link '%s' has some of arena, map and unmap: all three, or none", k->kind);
  return PF_OK;
}

pf_status pf_net_offer_link(const pf_link *theirs, const pf_link **out, pf_error *err) {
  if (theirs->size < 16 || theirs->size > 1 << 16)
    return pf_error_set(err, PF_INVALID_ARGUMENT, "a pf_link says that it has %u bytes",
                        theirs->size);
  /* for ever: connections may use it as long as the process lives */
  pf_link *own = calloc(1, sizeof *own);
  if (!own) return pf_error_set(err, PF_RESOURCE_EXHAUSTED, "no memory for a link");
  memcpy(own, theirs, theirs->size < sizeof *own ? theirs->size : sizeof *own);
  own->size = sizeof *own;
  pf_status st = checked(own, err);
  if (!st) {
    st = pf_net_add_link(own);
    if (st == PF_ALREADY_EXISTS)
      pf_error_set(err, st, "there is a link of kind '%s' already", own->kind);
    else if (st) pf_error_set(err, st, "link '%s' cannot be added: there are too many", own->kind);
  }
  if (!st) *out = own;
  else free(own);
  return st;
}
