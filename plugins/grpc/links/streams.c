/* streams.c - what streams.h promises.
 *
 *   a descriptor    one end of a pair of sockets.  The other end writes a byte to it when bytes wait, which makes it readable; it is filled when a post finds no room, which makes it unwritable until the pump drains it.
 *
 * Invariants
 *   1. `mark`: one byte is on its way to the descriptor while bytes wait for the net's threads, or
 *      the stream has ended.
 *   2. `full`: the descriptor is unwritable exactly since a post that did not take everything,
 *      until there is a block with room.
 *
 * Lock: a stream's own; the lists of dialled streams and ports have `all`.  Neither is held while a
 * byte of a tensor is copied out.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "streams.h"

enum { QUEUED = 4 << 20, MOST_DIALLED = 4096, MOST_OFFERED = 4096 };

/* bytes that came */
typedef struct piece {
  struct piece *next;
  const uint8_t *p;
  int64_t n, at;
  void *owner;
} piece;

struct pf_link_conn {
  pthread_mutex_t lock;
  pthread_cond_t posted, room; /* for who takes; for who puts */
  int refs, ours, theirs;      /* ours: the descriptor */
  int mark, full, closed, ended, takes;
  uint8_t *block; /* the pump's, NULL while it has none to give */
  int64_t filled, block_room;
  piece *first, *last, *spent;
  int64_t queued;
  uint64_t number; /* dialled */
  pf_stream *next; /* among the dialled, or those offered to a port; `all` */
  char why[160];
};

struct pf_link_port {
  uint64_t number;
  int wake, n;
  pf_stream *first, *last;
  struct pf_link_port *next;
};

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static pf_stream *dialled;
static pf_link_port *ports;
static uint64_t numbers;
static int n_dialled;

static void say(pf_link_problem *p, const char *what) {
  if (p && p->text && p->room > 0) snprintf(p->text, (size_t)p->room, "%s", what);
}

/* ---------------------------------------------------- the descriptor; the stream's lock is held */
static void mark(pf_stream *s) {
  if (!s->mark) s->mark = send(s->theirs, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static void unmark(pf_stream *s) {
  char byte;
  if (s->mark && !s->first && !s->ended) s->mark = recv(s->ours, &byte, 1, MSG_DONTWAIT) != 1;
}

static void make_unwritable(pf_stream *s) {
  static const char much[2048];
  struct pollfd f = {.fd = s->ours, .events = POLLOUT};
  s->full = 1;
  for (int k = 0; k < 64 && poll(&f, 1, 0) > 0 && f.revents & POLLOUT; k++)
    if (send(s->ours, much, sizeof much, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
}

static void make_writable(pf_stream *s) {
  char much[4096];
  if (!s->full) return;
  while (recv(s->theirs, much, sizeof much, MSG_DONTWAIT) > 0) continue;
  s->full = 0;
}

/* ---------------------------------------------------------------- begin and end */
pf_stream *pf_stream_new(void) {
  int pair[2], least = 1;
  pf_stream *s = calloc(1, sizeof *s);
  if (!s || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
    free(s);
    return NULL;
  }
  /* soon full; the system rounds it up */
  setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  s->refs = 1, s->ours = pair[0], s->theirs = pair[1];
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->posted, NULL), pthread_cond_init(&s->room, NULL);
  return s;
}

static void ref(pf_stream *s) { __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED); }

/* Owners are the pump's, whose reference is the last to go: it has asked for them. */
void pf_stream_unref(pf_stream *s) {
  if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
  close(s->ours), close(s->theirs);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->posted), pthread_cond_destroy(&s->room);
  free(s);
}

static void spend(pf_stream *s, piece *p) { /* lock held */
  s->queued -= p->n;
  p->next = s->spent;
  s->spent = p;
}

static void drop_queue(pf_stream *s) { /* lock held; nobody receives any more */
  while (s->first) {
    piece *p = s->first;
    s->first = p->next;
    spend(s, p);
  }
  s->last = NULL;
}

void pf_stream_end(pf_stream *s, const char *why) {
  pthread_mutex_lock(&s->lock);
  if (!s->ended) snprintf(s->why, sizeof s->why, "%s", why);
  s->ended = 1;
  s->filled = 0, s->block = NULL;
  mark(s);
  make_writable(s);
  pthread_cond_broadcast(&s->posted), pthread_cond_broadcast(&s->room);
  pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------- the pump */
void pf_stream_give(pf_stream *s, void *block, int64_t room) {
  pthread_mutex_lock(&s->lock);
  s->block = s->ended ? NULL : block, s->block_room = room, s->filled = 0;
  make_writable(s);
  pthread_mutex_unlock(&s->lock);
}

int64_t pf_stream_take(pf_stream *s, void *next, int64_t room) {
  pthread_mutex_lock(&s->lock);
  s->takes = 1;
  while (!s->filled && !s->ended && !s->closed) pthread_cond_wait(&s->posted, &s->lock);
  s->takes = 0;
  int64_t n = s->filled;
  s->block = n && !s->ended ? next : NULL, s->block_room = room, s->filled = 0;
  make_writable(s);
  pthread_mutex_unlock(&s->lock);
  return n;
}

int32_t pf_stream_put(pf_stream *s, const void *bytes, int64_t n, void *owner) {
  piece *p = malloc(sizeof *p);
  if (!p) return 0;
  *p = (piece){.p = bytes, .n = n, .owner = owner};
  pthread_mutex_lock(&s->lock);
  while (s->queued && s->queued + n > QUEUED && !s->ended && !s->closed)
    pthread_cond_wait(&s->room, &s->lock);
  int32_t wanted = !s->ended && !s->closed && n > 0;
  if (wanted) {
    if (s->last) s->last->next = p;
    else s->first = p;
    s->last = p;
    s->queued += n;
  }
  pthread_mutex_unlock(&s->lock);
  if (!wanted) free(p);
  return wanted;
}

void pf_stream_mark(pf_stream *s) {
  pthread_mutex_lock(&s->lock);
  if (s->first) mark(s);
  pthread_mutex_unlock(&s->lock);
}

void *pf_stream_spent(pf_stream *s) {
  pthread_mutex_lock(&s->lock);
  piece *p = s->spent;
  if (p) s->spent = p->next;
  pthread_mutex_unlock(&s->lock);
  void *owner = p ? p->owner : NULL;
  free(p);
  return owner;
}

uint64_t pf_stream_dial(pf_stream *s) {
  uint64_t number = 0;
  pthread_mutex_lock(&all);
  if (n_dialled < MOST_DIALLED && !s->number) {
    number = s->number = ++numbers;
    s->next = dialled, dialled = s;
    n_dialled++;
    ref(s);
  }
  pthread_mutex_unlock(&all);
  return number;
}

/* The dialled stream of that number, with its reference; NULL. */
static pf_stream *found(uint64_t number) {
  pf_stream *s, **at = &dialled;
  pthread_mutex_lock(&all);
  while (*at && (*at)->number != number) at = &(*at)->next;
  if ((s = *at)) *at = s->next, n_dialled--;
  pthread_mutex_unlock(&all);
  return s;
}

void pf_stream_undial(pf_stream *s) {
  pf_stream *waits = s->number ? found(s->number) : NULL;
  if (!waits) return;
  pf_stream_end(waits, "nobody connected by it");
  pf_stream_unref(waits);
}

pf_status pf_stream_offer(uint64_t number, pf_stream *s) {
  uint64_t one = 1;
  pf_status st = PF_NOT_FOUND;
  pthread_mutex_lock(&all);
  pf_link_port *port = ports;
  while (port && port->number != number) port = port->next;
  if (port) st = port->n < MOST_OFFERED ? PF_OK : PF_RESOURCE_EXHAUSTED;
  if (!st) {
    s->next = NULL;
    if (port->last) port->last->next = s;
    else port->first = s;
    port->last = s;
    port->n++;
    ref(s);
    if (write(port->wake, &one, sizeof one) < 0) st = PF_OK; /* it is readable already */
  }
  pthread_mutex_unlock(&all);
  return st;
}

/* ---------------------------------------------------------------- the link */
static uint64_t number_of(const char *address) { return address ? strtoull(address, NULL, 10) : 0; }

static pf_status grpc_listen(const char *address, int32_t flags, pf_link_port **out, char *bound,
                             int32_t room, pf_link_problem *p) {
  (void)address, (void)flags;
  pf_link_port *port = calloc(1, sizeof *port);
  if (!port || (port->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
    free(port);
    say(p, "no memory or descriptors");
    return PF_RESOURCE_EXHAUSTED;
  }
  pthread_mutex_lock(&all);
  port->number = ++numbers;
  port->next = ports, ports = port;
  pthread_mutex_unlock(&all);
  snprintf(bound, (size_t)room, "%llu", (unsigned long long)port->number);
  *out = port;
  return PF_OK;
}

static int32_t port_descriptor(pf_link_port *port) { return port->wake; }

static pf_status grpc_accept(pf_link_port *port, pf_link_conn **out) {
  uint64_t count;
  pthread_mutex_lock(&all);
  pf_stream *s = port->first;
  if (s) {
    port->first = s->next;
    if (!port->first) port->last = NULL;
    port->n--;
  } else if (read(port->wake, &count, sizeof count) < 0) {
    s = NULL; /* it is not readable any more, or was not */
  }
  pthread_mutex_unlock(&all);
  *out = s;
  return s ? PF_OK : PF_UNAVAILABLE;
}

static void stream_close(pf_stream *s) {
  pthread_mutex_lock(&s->lock);
  s->closed = 1;
  pthread_cond_broadcast(&s->posted), pthread_cond_broadcast(&s->room);
  pthread_mutex_unlock(&s->lock);
}

static void stream_release(pf_stream *s) {
  stream_close(s);
  pthread_mutex_lock(&s->lock);
  drop_queue(s);
  pthread_mutex_unlock(&s->lock);
  pf_stream_unref(s);
}

static void unlisten(pf_link_port *port) {
  pf_link_port **at = &ports;
  pthread_mutex_lock(&all);
  while (*at && *at != port) at = &(*at)->next;
  if (*at) *at = port->next;
  pthread_mutex_unlock(&all);
  while (port->first) {
    pf_stream *s = port->first;
    port->first = s->next;
    stream_release(s);
  }
  close(port->wake);
  free(port);
}

static pf_status grpc_connect(const char *address, int32_t flags, int64_t timeout_ns,
                              pf_link_conn **out, pf_link_problem *p) {
  (void)flags, (void)timeout_ns;
  *out = found(number_of(address));
  if (*out) return PF_OK;
  say(p, "there is no such stream");
  return PF_UNAVAILABLE;
}

static int32_t descriptor(pf_link_conn *s) { return s->ours; }

static int64_t post(pf_link_conn *s, const pf_span *spans, int32_t n) {
  int64_t taken = 0, asked = 0;
  for (int32_t k = 0; k < n; k++) asked += (int64_t)spans[k].n;
  pthread_mutex_lock(&s->lock);
  if (s->closed || s->ended) {
    pthread_mutex_unlock(&s->lock);
    return PF_LINK_LOST;
  }
  for (int32_t k = 0; k < n && s->block; k++) {
    int64_t left = s->block_room - s->filled,
            k_n = (int64_t)spans[k].n < left ? (int64_t)spans[k].n : left;
    memcpy(s->block + s->filled, spans[k].data, (size_t)k_n);
    s->filled += k_n, taken += k_n;
    if (k_n < (int64_t)spans[k].n) break;
  }
  if (taken < asked && !s->full) make_unwritable(s);
  if (taken && s->takes) pthread_cond_signal(&s->posted);
  pthread_mutex_unlock(&s->lock);
  return taken;
}

static int64_t receive(pf_link_conn *s, const pf_span *spans, int32_t n, pf_link_problem *p) {
  int64_t got = 0, at = 0;
  int32_t k = 0, ended;
  while (k < n) {
    pthread_mutex_lock(&s->lock);
    piece *first = s->first; /* whoever puts adds behind it */
    ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    if (!first) break;
    int64_t left = (int64_t)spans[k].n - at,
            here = first->n - first->at < left ? first->n - first->at : left;
    memcpy((uint8_t *)spans[k].data + at, first->p + first->at, (size_t)here);
    first->at += here, at += here, got += here;
    if (at == (int64_t)spans[k].n) k++, at = 0;
    if (first->at < first->n) continue;
    pthread_mutex_lock(&s->lock);
    s->first = first->next;
    if (!s->first) s->last = NULL;
    spend(s, first);
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
  }
  pthread_mutex_lock(&s->lock);
  ended = (s->ended || s->closed) && !s->first;
  unmark(s);
  if (ended && !got) say(p, s->why[0] ? s->why : "the stream was closed");
  pthread_mutex_unlock(&s->lock);
  return got || !ended ? got : PF_LINK_LOST;
}

const pf_link pf_link_grpc = {.size = sizeof(pf_link),
                              .flags = PF_LINK_FAR | PF_LINK_SECURE | PF_LINK_WATCHES,
                              .kind = "grpc",
                              .listen = grpc_listen,
                              .port_descriptor = port_descriptor,
                              .accept = grpc_accept,
                              .unlisten = unlisten,
                              .connect = grpc_connect,
                              .descriptor = descriptor,
                              .post = post,
                              .receive = receive,
                              .close = stream_close,
                              .release = stream_release};
