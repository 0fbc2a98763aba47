/* letters.c - tensors that wait to go to a peer: for room in the queue (held), or until the peer
 * asks for them (announced).
 *
 *   HELD [room] -> sent, or ANNOUNCED [GET] -> asked for: in chunks, a turn each, or whole -> told
 *                                  `-------- [GET, refused; the connection is lost] -----------^
 *
 * Invariants
 * 1. Each letter's `sent` is called once, without the lock.
 * 2. Chunks of a tensor go in their order, each byte once.
 *
 * Threads: any; under the peer's lock `out`.
 */
#include "net/letters.h"

/* What may outlive the step and the caller; NULL: out of memory. */
static pf_tensor *lasting(pf_tensor *take) {
  pf_tensor *t = pf_tensor_settled(take);
  if (!t || !(t->flags & PF_T_BORROWED)) return t;
  pf_tensor *own = pf_tensor_copy(t);
  pf_tensor_unref(t);
  return own;
}

pf_letter *pf_letter_kept(const pf_letter *l) {
  pf_letter *own = calloc(1, sizeof *own + (size_t)l->name.len + 1);
  if (!own) return NULL;
  *own = *l;
  if (l->t) {
    pf_tensor_ref(l->t); /* the caller's, should there be no memory for a copy */
    own->t = lasting(l->t);
    if (!own->t) {
      free(own);
      return NULL;
    }
    pf_tensor_unref(l->t);
  }
  own->name.data = (char *)(own + 1);
  if (l->name.len) memcpy(own + 1, l->name.data, (size_t)l->name.len);
  return own;
}

void pf_letters_told(pf_letter *take, pf_status st) {
  while (take) {
    pf_letter *l = take;
    take = l->next;
    if (l->sent) l->sent(l->arg, st);
    pf_tensor_unref(l->t);
    free(l);
  }
}

void pf_letters_init(pf_letters *ls) { pf_cond_init(&ls->roomy); }

void pf_letters_free(pf_letters *ls) { pthread_cond_destroy(&ls->roomy); }

void pf_letters_welcome(pf_letters *ls, int64_t window) { ls->window = window; }

int32_t pf_letters_may_push(const pf_letters *ls, const pf_tensor *t) {
  return pf_is_within(ls->unread, pf_cost_of(t), ls->window);
}

void pf_letters_pushed(pf_letters *ls, int64_t cost) { ls->unread += cost; }

int32_t pf_letters_read(pf_letters *ls, uint64_t bytes) {
  int32_t known = bytes <= (uint64_t)ls->unread;
  if (known) ls->unread -= (int64_t)bytes;
  return known;
}

int32_t pf_letters_is_full(const pf_letters *ls) { return ls->announcing >= PF_NET_ANNOUNCED; }

int64_t pf_letters_waiting(const pf_letters *ls) { return ls->announced_bytes; }

/* ---------------------------------------------------------------- held */
void pf_letters_hold(pf_letters *ls, pf_letter *take) {
  take->next = NULL;
  if (ls->held_last) ls->held_last->next = take;
  else ls->held = take;
  ls->held_last = take;
}

int32_t pf_letters_may_release(const pf_letters *ls, int64_t room) {
  return ls->held && room - ls->releasing >= 0 && ls->announcing < PF_NET_ANNOUNCED;
}

pf_letter *pf_letters_release(pf_letters *ls, int64_t room) {
  pf_letter *free_now = NULL, **end = &free_now;
  int64_t announced = PF_NET_ANNOUNCED - ls->announcing;
  room -= ls->releasing;
  if (room >= 0) pthread_cond_broadcast(&ls->roomy);
  while (ls->held && room >= 0 && announced > 0) {
    pf_letter *l = ls->held;
    announced -= pf_cost_announced(l->name);
    ls->held = l->next;
    if (!ls->held) ls->held_last = NULL;
    room -= pf_bytes_held(l);
    ls->releasing += pf_bytes_held(l);
    l->next = NULL;
    *end = l;
    end = &l->next;
  }
  return free_now;
}

void pf_letters_released(pf_letters *ls, int64_t bytes) { ls->releasing -= bytes; }

void pf_letters_wait(pf_letters *ls, pthread_mutex_t *out, int64_t until_ns) {
  pf_cond_wait_until(&ls->roomy, out, until_ns);
}

void pf_letters_wake(pf_letters *ls) { pthread_cond_broadcast(&ls->roomy); }

/* ---------------------------------------------------------------- announced */
uint64_t pf_letters_announce(pf_letters *ls, pf_letter *take) {
  take->id = ++ls->ids;
  ls->announcing += pf_cost_announced(take->name);
  ls->announced_bytes += take->t->nbytes;
  pf_letters_back(ls, take);
  return take->id;
}

void pf_letters_back(pf_letters *ls, pf_letter *take) {
  take->next = ls->announced;
  ls->announced = take;
}

void pf_letters_answered(pf_letters *ls, const pf_letter *l) {
  ls->announced_bytes -= l->t->nbytes;
  ls->announcing -= pf_cost_announced(l->name);
}

pf_letter *pf_letters_ask(pf_letters *ls, uint64_t id, int32_t refused, int32_t in_arenas) {
  pf_letter **at = &ls->announced;
  while (*at && (*at)->id != id) at = &(*at)->next;
  pf_letter *l = *at;
  if (!l || l->asked) return NULL;
  l->asked = 1;
  if (!refused && !in_arenas && pf_is_large(l->t)) return NULL; /* pf_letters_chunk finds it */
  *at = l->next;
  l->next = NULL;
  if (refused) pf_letters_answered(ls, l);
  return l;
}

pf_out *pf_letters_chunk(pf_letters *ls, uint64_t epoch) {
  pf_letter **at = &ls->announced, **end;
  while (*at && !(*at)->asked) at = &(*at)->next;
  pf_letter *l = *at;
  pf_out *o = l ? calloc(1, sizeof *o) : NULL;
  if (!o) return NULL;
  int64_t n = pf_min64(PF_NET_CHUNK_BYTES, l->t->nbytes - l->at);
  pf_net_head_to(o->head, (pf_net_head){(uint32_t)(PF_NET_CHUNK_HEAD + n), PF_NET_CHUNK, 0,
                                        l->key.session, l->key.step, epoch});
  pf_to_le64(o->head + PF_NET_HEAD, l->id);
  pf_to_le64(o->head + PF_NET_HEAD + 8, (uint64_t)l->at);
  o->head_n = PF_NET_HEAD + PF_NET_CHUNK_HEAD;
  o->p = (uint8_t *)l->t->m.dl_tensor.data + l->at;
  o->n = n;
  l->at += n;
  *at = l->next; /* the others have their turn */
  l->next = NULL;
  if (l->at == l->t->nbytes) {
    o->last_of = l;
    pf_letters_answered(ls, l);
  } else {
    for (end = &ls->announced; *end; end = &(*end)->next) continue;
    *end = l;
  }
  return o;
}

pf_letter *pf_letters_drop(pf_letters *ls) {
  pf_letter *all = ls->announced, **end = &all;
  while (*end) end = &(*end)->next;
  *end = ls->held;
  ls->announced = ls->held = ls->held_last = NULL;
  ls->announced_bytes = ls->announcing = 0;
  return all;
}

void pf_letters_view(const pf_letters *ls, pf_peer_view *v) {
  v->announced = ls->announced_bytes, v->unread = ls->unread;
}
