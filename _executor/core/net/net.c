/* net.c - a task's net: its links, ports and peers, and the threads that serve them.
 *
 * Threads.  One of a net's LEADS: it waits for all descriptors at once, acts on what comes, and
 * looks after time.  Another one STANDS BY: it looks now and then whether the leader has been at
 * one thing for STUCK_NS, and leads in its place then; before it does, a third is made that stands
 * by.  Who comes back from what it was at stands by, or ends where somebody does.  What is known to
 * be long (copies of large tensors, pf_net_work) is for those who stand by.  Each net may have one
 * more, which tells Python things: that one may wait for the GIL, the others never do.
 *
 *     (made) -> STANDS BY -> LEADS [leader is 0, or stuck] -> STANDS BY, or ended   [another one leads]
 *                        `-> WORKS [something long waits] -> STANDS BY, or ended
 *
 *     pf_net *n = pf_net_new(task, &options, &err);
 *     pf_net_listen(n, "unix", "", 0, bound, sizeof bound, &err);
 *     ... pf_net_close(n); pf_net_unref(n);
 *
 * Invariants
 * 1. A descriptor is polled under a slot number that is used once, so a late event finds nothing
 *    rather than another's peer.
 * 2. After pf_net_close no thread of the net's runs; what others still hold of it lives until they
 *    let go.
 * 3. A process that was forked off has none of the threads: there a net is closed without waiting
 *    for them.
 * 4. While one leads another one stands by, unless PF_NET_THREADS are stuck at once.  A thread that
 *    is stuck holds neither `reading` nor `out` of a peer, nor the net's lock: steps.c begins steps
 *    without them, and what is done under them is bounded.
 * 5. No peer is given up whose bytes lie unread: it is dead only if it says nothing.
 */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "net/greeting.h"
#include "net/life.h"
#include "net/outgoing.h"

enum { FREE, RUNS, ENDED }; /* pf_net_thread.state */
enum { EVENTS = 32, MAX_GREETING = 64, SIGNS_A_LEASE = 5, WATCHED_GREETING = 4 };
static const int64_t STUCK_NS = 50000000, CLIENT_SILENCE_NS = 600000000000; /* ten minutes */
static const uint64_t WAKE = ~(uint64_t)0;

/* ---------------------------------------------------------------- what is polled */
/* Of MAX_GREETING that do not say who they are the one that has been at it longest goes, for who
 * comes now. */
static void make_room(pf_net *n) {
  pf_peer *oldest = NULL;
  int32_t greeting = 0;
  pthread_mutex_lock(&n->lock);
  for (pf_peer *q = n->peers; q; q = q->next) {
    if (!pf_peer_is(q, PF_PEER_GREETING) || q->initiated) continue;
    greeting++;
    if (!oldest || q->since_ns < oldest->since_ns) oldest = q;
  }
  if (greeting < MAX_GREETING) oldest = NULL;
  if (oldest) pf_peer_ref(oldest);
  pthread_mutex_unlock(&n->lock);
  if (!oldest) return;
  pf_peer_losef(oldest, PF_RESOURCE_EXHAUSTED, "it did not say who it is, and others wait");
  pf_peer_unref(oldest);
}

static void greet_all(pf_net *n, pf_port *port) {
  pf_link_conn *conn;
  pf_status st = PF_OK;
  for (int k = 0; k < 16 && st != PF_UNAVAILABLE; k++) {
    conn = NULL;
    st = port->link->accept(port->port, &conn);
    if (st) continue;
    make_room(n);
    pf_peer *p = pf_peer_new(n, port->link, conn, 0);
    if (!p) continue;
    if (pf_net_poll_peer(n, p)) pf_peer_losef(p, PF_UNAVAILABLE, "the net ends");
    pf_peer_unref(p);
  }
}

/* One event. */
static void act(pf_net *n, const struct epoll_event *e) {
  pf_port *port = NULL;
  pthread_mutex_lock(&n->lock);
  pf_peer *p = pf_net_peer_of_slot(n, e->data.u64);
  if (p) pf_peer_ref(p);
  else
    for (port = n->ports; port && port->slot != e->data.u64; port = port->next) continue;
  pthread_mutex_unlock(&n->lock);
  if (port) greet_all(n, port);
  if (!p) return;
  if (e->events & EPOLLOUT) pf_peer_writable(p);
  if (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) pf_peer_readable(p);
  pf_peer_unref(p);
}

/* ---------------------------------------------------------------- time */
/* A client that was stopped by who sits before it goes on with its session: its connection says
 * when it is dead. */
static int64_t silence_of(const pf_peer *p) {
  int64_t lease = p->net->o.lease_ns;
  return strncmp(p->name, PF_NET_CLIENT, sizeof PF_NET_CLIENT - 1) || lease > CLIENT_SILENCE_NS
             ? lease
             : CLIENT_SILENCE_NS;
}

static void look_after(pf_peer *p, int64_t now, int32_t late) {
  int64_t lease = p->net->o.lease_ns, silent = now - pf_a64_load_rlx(&p->signs.last_in);
  int32_t watches = (p->link->flags & PF_LINK_WATCHES) != 0;
  if (late) pf_a64_store_rlx(&p->signs.last_in, now); /* it was us who slept */
  else if (pf_peer_is(p, PF_PEER_GREETING) &&
           now - p->since_ns > (watches ? WATCHED_GREETING : 1) * lease)
    pf_peer_losef(p, PF_DEADLINE_EXCEEDED, "it said nothing");
  else if (pf_peer_is(p, PF_PEER_OPEN) && silent > silence_of(p) && !watches &&
           !pf_peer_has_unread(p))
    pf_peer_losef(p, PF_UNAVAILABLE, "no sign of life for %.1f s", silent / 1e9);
  else if (pf_peer_is(p, PF_PEER_OPEN)) pf_peer_ping(p, 0, 0);
}

static void tick(pf_net *n, int64_t now) {
  int64_t interval = n->o.lease_ns / SIGNS_A_LEASE;
  int32_t count, late = now - __atomic_load_n(&n->last_tick, __ATOMIC_RELAXED) > 2 * interval;
  pf_peer **all = pf_net_all_peers(n, &count);
  for (int32_t k = 0; k < count; k++) {
    look_after(all[k], now, late);
    pf_peer_unref(all[k]);
  }
  free(all);
  __atomic_store_n(&n->last_tick, now, __ATOMIC_RELAXED);
  __atomic_store_n(&n->next_tick, now + interval, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------- threads */
static int32_t leads(pf_net *n, int32_t me) {
  return __atomic_load_n(&n->leader, __ATOMIC_ACQUIRE) == me && !pf_a32_load(&n->closing);
}

static int64_t until_tick(pf_net *n) {
  return __atomic_load_n(&n->next_tick, __ATOMIC_RELAXED) - pf_now_ns();
}

static void lead(pf_net *n, int32_t me) {
  struct epoll_event events[EVENTS];
  while (leads(n, me)) {
    int64_t left = until_tick(n);
    int k = epoll_wait(n->epfd, events, EVENTS, left > 0 ? (int)(left / 1000000 + 1) : 0);
    int64_t began = pf_coarse_ns();
    __atomic_store_n(&n->busy_since, began, __ATOMIC_RELEASE);
    for (int i = 0; i < k && leads(n, me); i++)
      if (events[i].data.u64 != WAKE) act(n, events + i);
    if (!leads(n, me)) return;
    if (left <= 0 || (k == 0 && until_tick(n) <= 0)) tick(n, pf_now_ns());
    /* not a successor's */
    __atomic_compare_exchange_n(&n->busy_since, &began, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  }
}

static int32_t is_stuck(pf_net *n) {
  int64_t since = __atomic_load_n(&n->busy_since, __ATOMIC_ACQUIRE);
  return since && pf_coarse_ns() - since > STUCK_NS;
}

typedef struct {
  pf_net *n;
  int32_t place;
} thread_arg;
static void *thread_main(void *arg);

/* Lock held; one more that stands by, where there is room for it. */
static int32_t start_thread(pf_net *n) {
  int32_t place = 0;
  while (place < PF_NET_THREADS && n->threads[place].state == RUNS) place++;
  thread_arg *a = place < PF_NET_THREADS && !pf_a32_load(&n->closing) ? malloc(sizeof *a) : NULL;
  if (!a) return 0;
  if (n->threads[place].state == ENDED) pthread_join(n->threads[place].thread, NULL);
  n->threads[place].state = FREE;
  *a = (thread_arg){n, place};
  pf_net_ref(n);
  if (pthread_create(&n->threads[place].thread, NULL, thread_main, a)) {
    free(a);
    pf_a32_add(&n->refs, -1); /* the caller has one */
    return 0;
  }
  n->threads[place].state = RUNS;
  n->standing++;
  return 1;
}

static int32_t has_room(const pf_net *n) { /* lock held; for a thread */
  int32_t k = 0;
  while (k < PF_NET_THREADS && n->threads[k].state == RUNS) k++;
  return k < PF_NET_THREADS;
}

/* Lock held: somebody else will stand by meanwhile. */
static int32_t may_work(const pf_net *n) { return n->works && (n->standing > 1 || has_room(n)); }

static void work(pf_net *n) { /* lock held */
  pf_tell *t = n->works;
  n->works = t->next;
  if (!n->works) n->works_last = NULL;
  pthread_mutex_unlock(&n->lock);
  t->fn(t->arg);
  free(t);
  pthread_mutex_lock(&n->lock);
}

/* What those who are stuck had kept back. */
static void post_all(pf_net *n) {
  int32_t count;
  pf_peer **all = pf_net_all_peers(n, &count);
  for (int32_t k = 0; k < count; k++) {
    pf_peer_writable(all[k]);
    pf_peer_unref(all[k]);
  }
  free(all);
}

static void lead_in_place(pf_net *n, int32_t me) { /* lock held */
  int32_t replaced = n->leader != 0;
  __atomic_store_n(&n->busy_since, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&n->leader, me, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&n->lock);
  if (replaced) post_all(n);
  lead(n, me);
  pthread_mutex_lock(&n->lock);
}

static void *thread_main(void *arg) {
  thread_arg a = *(thread_arg *)arg;
  pf_net *n = a.n;
  free(arg);
  pf_net_be_own_thread();
  pf_name_thread("pyflow net %d", (uint8_t)(a.place + 1));
  pthread_mutex_lock(&n->lock);
  while (!pf_a32_load(&n->closing)) {
    int32_t now_leads = !n->leader || is_stuck(n);
    if (!now_leads && !may_work(n)) {
      pf_cond_wait_until(&n->led, &n->lock, pf_now_ns() + n->o.lease_ns / 10);
      continue;
    }
    n->standing--;
    if (!n->standing) start_thread(n);
    if (now_leads) lead_in_place(n, a.place + 1);
    else work(n);
    if (n->standing && !may_work(n)) break; /* others do */
    n->standing++;
  }
  n->threads[a.place].state = ENDED;
  pthread_mutex_unlock(&n->lock);
  pf_net_unref(n);
  return NULL;
}

/* ---------------------------------------------------------------- begin and end */
static int32_t start_threads(pf_net *n) {
  pthread_mutex_lock(&n->lock);
  int32_t both = start_thread(n) && start_thread(n);
  pthread_mutex_unlock(&n->lock);
  return both;
}

pf_net *pf_net_new(pf_task *task, const pf_net_options *o, pf_error *err) {
  pf_net *n = calloc(1, sizeof *n);
  if (!n) {
    pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a net");
    return NULL;
  }
  pf_watch_forks();
  pf_a32_store(&n->refs, 1);
  pf_task_ref(task);
  n->task = task, n->o = *o, n->life = &pf_life_of_peers;
  n->incarnation = pf_task_incarnation(task);
  n->fork_gen = pf_fork_generation();
  pthread_mutex_init(&n->lock, NULL);
  pf_cond_init(&n->changed), pf_cond_init(&n->led), pf_cond_init(&n->told);
  n->epfd = epoll_create1(EPOLL_CLOEXEC);
  n->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  n->last_tick = pf_now_ns();
  n->next_tick = n->last_tick + o->lease_ns / SIGNS_A_LEASE;
  if (n->epfd >= 0 && n->wakefd >= 0 && pf_net_watch(n, n->wakefd, WAKE) == PF_OK &&
      start_threads(n))
    return n;
  pf_error_set(err, PF_RESOURCE_EXHAUSTED, "no descriptors or threads for a net");
  pf_net_close(n);
  pf_net_unref(n);
  return NULL;
}

static void join_threads(pf_net *n) {
  uint64_t one = 1;
  if (n->fork_gen != pf_fork_generation()) return;
  if (n->wakefd >= 0 && write(n->wakefd, &one, sizeof one) < 0) return;
  pthread_mutex_lock(&n->lock); /* closing: none is made from now on */
  pthread_cond_broadcast(&n->led);
  for (int32_t k = 0; k < PF_NET_THREADS; k++) {
    if (n->threads[k].state == FREE) continue;
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->threads[k].thread, NULL);
    pthread_mutex_lock(&n->lock);
    n->threads[k].state = FREE;
  }
  while (n->works) work(n); /* their peers are lost */
  pthread_mutex_unlock(&n->lock);
}

static void lose_all(pf_net *n) {
  int32_t count;
  pf_peer **all = pf_net_all_peers(n, &count);
  for (int32_t k = 0; k < count; k++) {
    if (n->fork_gen == pf_fork_generation()) pf_peer_bye(all[k], PF_OK, "");
    pf_peer_losef(all[k], PF_CANCELLED, "this task's net was closed");
    pf_peer_unref(all[k]);
  }
  free(all);
}

void pf_net_close(pf_net *n) {
  if (!pf_a32_cas(&n->closing, 0, 1)) return;
  pthread_mutex_lock(&n->lock);
  pf_port *ports = n->ports;
  n->ports = NULL;
  pthread_cond_broadcast(&n->changed);
  pthread_mutex_unlock(&n->lock);
  while (ports) {
    pf_port *port = ports;
    ports = port->next;
    port->link->unlisten(port->port); /* the descriptor leaves what is polled as it is closed */
    free(port);
  }
  if (n->fork_gen == pf_fork_generation()) lose_all(n);
  join_threads(n);
  pf_net_unserve_all(n);
  pf_net_end_teller(n);
}

/* ---------------------------------------------------------------- ports and peers */
static pf_status failed(pf_error *err, pf_status st, const char *what, const char *kind,
                        const char *address, const char *text) {
  return pf_error_set(err, st, "%s %s '%.200s': %.300s", what, kind, address,
                      text[0] ? text : "failed");
}

static const pf_link *known_link(const char *kind, pf_error *err) {
  const pf_link *link = pf_net_link(kind);
  if (!link) pf_error_set(err, PF_NOT_FOUND, "there is no link of kind '%.60s'", kind);
  return link;
}

pf_status pf_net_listen(pf_net *n, const char *kind, const char *address, int32_t flags,
                        char *bound, int32_t room, pf_error *err) {
  char text[300] = "";
  pf_link_problem problem = {text, sizeof text, 0};
  const pf_link *link = known_link(kind, err);
  pf_port *port = link ? calloc(1, sizeof *port) : NULL;
  if (!port)
    return link ? pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a port") : err->code;
  pf_status st = link->listen(address, flags, &port->port, bound, room, &problem);
  if (st) {
    free(port);
    return failed(err, st, "listening at", kind, address, text);
  }
  port->link = link;
  pthread_mutex_lock(&n->lock);
  if (pf_a32_load(&n->closing)) st = PF_CANCELLED;
  port->slot = ++n->slots;
  if (!st) st = pf_net_watch(n, link->port_descriptor(port->port), port->slot);
  if (!st) {
    port->next = n->ports;
    n->ports = port;
  }
  pthread_mutex_unlock(&n->lock);
  if (!st) return PF_OK;
  link->unlisten(port->port);
  free(port);
  return failed(err, st, "listening at", kind, address, "the net was closed");
}

int32_t pf_net_kind(pf_net *n, const char *name, uint64_t incarnation, char *to, int64_t room) {
  pf_peer *p = pf_net_peer(n, name);
  int32_t there = p && (!incarnation || p->incarnation == incarnation);
  if (there) pf_copy_text(to, room, p->link->kind, (int64_t)strlen(p->link->kind));
  pf_peer_unref(p);
  return there;
}

void pf_net_receive(pf_net *n, pf_link_conn *conn) {
  pthread_mutex_lock(&n->lock);
  pf_peer *p = n->peers;
  while (p && p->conn != conn) p = p->next;
  if (p) pf_peer_ref(p);
  pthread_mutex_unlock(&n->lock);
  if (p) pf_peer_receive(p);
  pf_peer_unref(p);
}

/* Until p is open, or in its place another connection with the same task (both connected at
 * once). */
static pf_status wait_for(pf_net *n, pf_peer *p, uint64_t incarnation, int64_t until,
                          pf_error *err) {
  pf_status st = PF_PENDING;
  pthread_mutex_lock(&n->lock);
  while (st == PF_PENDING) {
    pf_peer *q = pf_net_find_peer(n, p->name);
    if (q && q->incarnation == incarnation) st = PF_OK;
    else if (pf_peer_is(p, PF_PEER_LOST) && p->why.code != PF_ALREADY_EXISTS) st = p->why.code;
    else if (pf_a32_load(&n->closing)) st = PF_CANCELLED;
    else if (pf_now_ns() >= until) st = PF_DEADLINE_EXCEEDED;
    else pf_cond_wait_until(&n->changed, &n->lock, until);
  }
  pthread_mutex_unlock(&n->lock);
  if (st == PF_DEADLINE_EXCEEDED && !pf_peer_is(p, PF_PEER_LOST))
    pf_peer_losef(p, st, "it did not answer in time");
  if (st)
    pf_error_set(err, st, "connecting with %s: %.2000s", p->name,
                 pf_peer_is(p, PF_PEER_LOST) ? p->why.message : "the net was closed");
  return st;
}

pf_status pf_net_connect(pf_net *n, const char *name, uint64_t incarnation, const char *kind,
                         const char *address, int32_t flags, int64_t timeout_ns, pf_error *err) {
  char text[300] = "";
  pf_link_problem problem = {text, sizeof text, 0};
  pf_link_conn *conn = NULL;
  int64_t until = pf_now_ns() + timeout_ns;
  const pf_link *link = known_link(kind, err);
  if (!link) return err->code;
  if (!name[0] || strlen(name) > 127 || !strcmp(name, n->task->name))
    return pf_error_set(err, PF_INVALID_ARGUMENT,
                        "a peer is another task, with a name of 1 to 127 bytes");
  pf_peer *p = pf_net_peer(n, name);
  int32_t there = p && p->incarnation == incarnation;
  pf_peer_unref(p);
  if (there) return PF_OK;
  pf_status st = link->connect(address, flags, timeout_ns, &conn, &problem);
  if (st) return failed(err, st, "connecting by", kind, address, text);
  p = pf_peer_new(n, link, conn, 1);
  if (!p) return pf_error_set(err, PF_RESOURCE_EXHAUSTED, "out of memory for a connection");
  pf_copy_text(p->name, sizeof p->name, name, (int64_t)strlen(name));
  p->incarnation = incarnation;
  st = pf_net_poll_peer(n, p);
  pf_peer *other = st ? NULL : pf_net_peer(n, name); /* it has connected meanwhile */
  if (st) pf_peer_losef(p, st, "the net was closed");
  else if (other && other->incarnation == incarnation)
    pf_peer_losef(p, PF_ALREADY_EXISTS, "it is connected already");
  else pf_peer_hello(p, 0);
  pf_peer_unref(other);
  st = wait_for(n, p, incarnation, until, err);
  pf_peer_unref(p);
  return st;
}

pf_status pf_net_disconnect(pf_net *n, const char *name, uint64_t incarnation, const char *why) {
  pf_peer *p = pf_net_peer(n, name);
  if (!p) return PF_NOT_FOUND;
  int meant = !incarnation || p->incarnation == incarnation;
  if (meant) {
    pf_peer_bye(p, PF_UNAVAILABLE, why);
    pf_peer_losef(p, PF_UNAVAILABLE, "%s", why);
  }
  pf_peer_unref(p);
  return meant ? PF_OK : PF_NOT_FOUND;
}

static void view(pf_peer *p, pf_peer_view *v) {
  memset(v, 0, sizeof *v);
  memcpy(v->name, p->name, sizeof v->name);
  pf_copy_text(v->kind, sizeof v->kind, p->link->kind, (int64_t)strlen(p->link->kind));
  v->incarnation = p->incarnation, v->epoch = p->epoch, v->state = pf_a32_load(&p->state),
  v->initiated = p->initiated;
  v->since_ns = p->since_ns, v->bytes_in = pf_a64_load_rlx(&p->signs.bytes_in),
  v->bytes_out = pf_a64_load_rlx(&p->signs.bytes_out);
  v->rtt_ns = pf_a64_load_rlx(&p->signs.rtt_ns),
  v->clock_offset_ns = pf_a64_load_rlx(&p->signs.clock_offset_ns);
  v->silent_ns = pf_now_ns() - pf_a64_load_rlx(&p->signs.last_in);
  pf_calls_view(p, v), pf_servings_view(p, v), pf_incoming_view(p, v);
  pthread_mutex_lock(&p->out);
  v->queued = pf_outbox_bytes(p);
  pf_letters_view(&p->letters, v), pf_arenas_view(p, v);
  pthread_mutex_unlock(&p->out);
}

int32_t pf_net_views(pf_net *n, pf_peer_view *to, int32_t room) {
  int32_t k = 0;
  pthread_mutex_lock(&n->lock);
  for (pf_peer *p = n->peers; p; p = p->next, k++)
    if (k < room) view(p, to + k);
  pthread_mutex_unlock(&n->lock);
  return k;
}
