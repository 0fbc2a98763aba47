/* unix.c - a link over a UNIX stream socket between processes of one user on one machine, with
 * memory that both see.
 *
 * Addresses are "@name", in the system's abstract names (nothing is left in a folder, and whoever
 * listens there is asked for his user id before a byte is read), or a path.  An empty one makes a
 * name of 128 random bits.
 *
 * Memory.  An arena is a memfd: sealed against shrinking and growing, then sent to the peer by
 * SCM_RIGHTS with the next byte that is posted.  The n-th descriptor that a peer sends is its arena
 * n.  What comes is mapped only if it is sealed against shrinking, so that no truncation can turn a
 * read of ours into a SIGBUS, and no larger than MAX_BYTES.  Nothing has a name: with the last
 * process the kernel frees it.
 *
 * Threads: as link.h says; `lock` guards the arenas.
 */
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "sockets.h"

enum { MAX_ARENAS = 256, MAX_FDS = 8 };
static const int64_t MAX_BYTES = (int64_t)16 << 30;

struct pf_link_map {
  int refs;
  void *base;
  int64_t bytes;
}; /* refs: with atomics */
struct pf_link_conn {
  int fd;
  pthread_mutex_t lock;
  pf_link_map *own[MAX_ARENAS], *peers[MAX_ARENAS];
  int to_send[MAX_ARENAS]; /* descriptors the peer does not have yet, in their order */
  int32_t n_own, n_peers, n_to_send;
};

static void unmap(pf_link_map *m) {
  if (m && __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) == 0) {
    munmap(m->base, (size_t)m->bytes);
    free(m);
  }
}

static pf_status parsed(const char *address, struct sockaddr_un *at, socklen_t *n,
                        pf_link_problem *p) {
  size_t k = strlen(address);
  memset(at, 0, sizeof *at);
  at->sun_family = AF_UNIX;
  if (k < 2 || k >= sizeof at->sun_path)
    return pf_said(p, PF_INVALID_ARGUMENT,
                   "the address of a UNIX socket is @NAME or a path, of at most 107 bytes", 0);
  memcpy(at->sun_path, address, k);
  if (*address == '@') at->sun_path[0] = 0;
  *n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + k + (*address != '@'));
  return PF_OK;
}

static pf_status unix_listen(const char *address, int32_t flags, pf_link_port **out, char *bound,
                             int32_t room, pf_link_problem *p) {
  struct sockaddr_un at;
  socklen_t n;
  char name[64];
  uint64_t bits[2];
  if (!address || !*address) {
    if (getrandom(bits, sizeof bits, 0) != sizeof bits)
      return pf_said(p, PF_UNAVAILABLE, "getrandom", errno);
    snprintf(name, sizeof name, "@pyflow-%016llx%016llx", (unsigned long long)bits[0],
             (unsigned long long)bits[1]);
    address = name;
  }
  pf_status st = parsed(address, &at, &n, p);
  if (st) return st;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  pf_link_port *port = malloc(sizeof *port);
  if (fd < 0 || !port || bind(fd, (struct sockaddr *)&at, n) || listen(fd, 128)) {
    pf_say(p, "bind or listen", errno);
    st = errno == EADDRINUSE ? PF_ALREADY_EXISTS : PF_UNAVAILABLE;
    if (fd >= 0) close(fd);
    free(port);
    return st;
  }
  port->fd = fd;
  snprintf(bound, (size_t)room, "%s", address);
  *out = port;
  return PF_OK;
}

static int32_t port_descriptor(pf_link_port *port) { return port->fd; }

static int of_our_user(int fd) {
  struct ucred who;
  socklen_t n = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

static pf_status made(int fd, pf_link_conn **out, pf_link_problem *p) {
  pf_link_conn *c = of_our_user(fd) ? calloc(1, sizeof *c) : NULL;
  if (!c) {
    int other = !of_our_user(fd);
    close(fd);
    return pf_said(p, other ? PF_PERMISSION_DENIED : PF_RESOURCE_EXHAUSTED,
                   other ? "the other process belongs to another user" : "out of memory", 0);
  }
  c->fd = fd;
  pthread_mutex_init(&c->lock, NULL);
  *out = c;
  return PF_OK;
}

static pf_status unix_accept(pf_link_port *port, pf_link_conn **out) {
  int fd;
  do fd = accept4(port->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return fd < 0 ? PF_UNAVAILABLE : made(fd, out, NULL);
}

static void unlisten(pf_link_port *port) {
  struct sockaddr_un at;
  socklen_t n = sizeof at;
  if (getsockname(port->fd, (struct sockaddr *)&at, &n) == 0 &&
      n > offsetof(struct sockaddr_un, sun_path) && at.sun_path[0])
    unlink(at.sun_path);
  close(port->fd);
  free(port);
}

static pf_status unix_connect(const char *address, int32_t flags, int64_t timeout_ns,
                              pf_link_conn **out, pf_link_problem *p) {
  struct sockaddr_un at;
  socklen_t n;
  pf_status st = parsed(address, &at, &n, p);
  if (st) return st;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return pf_said(p, PF_UNAVAILABLE, "socket", errno);
  st = pf_socket_connect(fd, (struct sockaddr *)&at, n, timeout_ns, p);
  if (st) {
    close(fd);
    return st;
  }
  return made(fd, out, p);
}

static int32_t descriptor(pf_link_conn *c) { return c->fd; }

/* ----------------------------------------------------------- bytes, and descriptors beside them */
static int64_t post(pf_link_conn *c, const pf_span *spans, int32_t n) {
  union {
    char data[CMSG_SPACE(MAX_FDS * sizeof(int))];
    struct cmsghdr align;
  } control;
  int fds[MAX_FDS];
  if (__atomic_load_n(&c->n_to_send, __ATOMIC_ACQUIRE) == 0)
    return pf_socket_post(c->fd, spans, n, NULL, 0);
  pthread_mutex_lock(&c->lock);
  int k = c->n_to_send < MAX_FDS ? c->n_to_send : MAX_FDS;
  memcpy(fds, c->to_send, sizeof(int) * (size_t)k);
  pthread_mutex_unlock(&c->lock);
  pf_span first = {spans[0].data, spans[0].n};
  memset(&control, 0, sizeof control);
  control.align.cmsg_level = SOL_SOCKET;
  control.align.cmsg_type = SCM_RIGHTS;
  control.align.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)k);
  memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * (size_t)k);
  if (c->n_to_send > k) first.n = 1; /* the rest with the next byte */
  int64_t taken = pf_socket_post(c->fd, &first, 1, &control, CMSG_SPACE(sizeof(int) * (size_t)k));
  if (taken <= 0) return taken;
  pthread_mutex_lock(&c->lock);
  c->n_to_send -= k;
  memmove(c->to_send, c->to_send + k, sizeof(int) * (size_t)c->n_to_send);
  pthread_mutex_unlock(&c->lock);
  for (int i = 0; i < k; i++) close(fds[i]);
  if ((size_t)taken < first.n || (n == 1 && (size_t)taken == spans[0].n)) return taken;
  if (first.n < spans[0].n) return taken;
  int64_t more = post(c, spans + 1, n - 1);
  return more < 0 ? more : taken + more;
}

/* The peer's next arena; the reason if it is none. */
static const char *taken_in(pf_link_conn *c, int fd) {
  struct stat about;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK))
    return "the peer sent memory that it could take away again";
  if (fstat(fd, &about) || about.st_size <= 0 || about.st_size > MAX_BYTES)
    return "the peer sent memory of a size that is none";
  pf_link_map *m = malloc(sizeof *m);
  if (!m) return "out of memory for the peer's memory";
  m->base = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (m->base == MAP_FAILED) {
    free(m);
    return "the peer's memory cannot be mapped";
  }
  m->bytes = about.st_size;
  m->refs = 1;
  pthread_mutex_lock(&c->lock);
  int full = c->n_peers == MAX_ARENAS;
  if (!full) c->peers[c->n_peers++] = m;
  pthread_mutex_unlock(&c->lock);
  if (full) unmap(m);
  return full ? "the peer sent more memories than are allowed" : NULL;
}

static const char *take_in(pf_link_conn *c, struct msghdr *m) {
  const char *why =
      m->msg_flags & MSG_CTRUNC ? "the peer sent more descriptors than there is room for" : NULL;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    int k = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < k; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(h) + (size_t)i * sizeof(int), sizeof fd);
      if (!why) why = taken_in(c, fd);
      close(fd);
    }
  }
  return why;
}

static int64_t receive(pf_link_conn *c, const pf_span *spans, int32_t n, pf_link_problem *p) {
  union {
    char data[CMSG_SPACE(MAX_FDS * sizeof(int))];
    struct cmsghdr align;
  } control;
  struct msghdr m = {.msg_iov = (struct iovec *)spans,
                     .msg_iovlen = (size_t)n,
                     .msg_control = &control,
                     .msg_controllen = sizeof control};
  ssize_t k;
  do k = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (k < 0 && errno == EINTR);
  if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  const char *why = k > 0 && m.msg_controllen ? take_in(c, &m) : NULL;
  if (k > 0 && !why) return k;
  pf_say(p, why ? why : k ? "receive" : "the peer closed the connection", k < 0 ? errno : 0);
  return PF_LINK_LOST;
}

static void unix_close(pf_link_conn *c) { shutdown(c->fd, SHUT_RDWR); }

static void release(pf_link_conn *c) {
  for (int k = 0; k < c->n_own; k++) unmap(c->own[k]);
  for (int k = 0; k < c->n_peers; k++) unmap(c->peers[k]);
  for (int k = 0; k < c->n_to_send; k++) close(c->to_send[k]);
  close(c->fd);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

/* ---------------------------------------------------------------- memory */
static void *arena(pf_link_conn *c, int64_t bytes, uint32_t *id) {
  void *base = NULL;
  if (bytes <= 0 || bytes > MAX_BYTES) return NULL;
  pf_link_map *m = malloc(sizeof *m);
  int fd = m ? memfd_create("pyflow-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
  if (fd < 0 || ftruncate(fd, bytes) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
    goto failed;
  base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) goto failed;
  *m = (pf_link_map){1, base, bytes};
  pthread_mutex_lock(&c->lock);
  int full = c->n_own == MAX_ARENAS;
  if (!full) {
    *id = (uint32_t)c->n_own;
    c->own[c->n_own++] = m;
    c->to_send[c->n_to_send] = fd;
    __atomic_store_n(&c->n_to_send, c->n_to_send + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&c->lock);
  if (!full) return base;
  munmap(base, (size_t)bytes);
failed:
  if (fd >= 0) close(fd);
  free(m);
  return NULL;
}

static void *map(pf_link_conn *c, uint32_t id, int64_t *bytes, pf_link_map **out) {
  pf_link_map *m = NULL;
  pthread_mutex_lock(&c->lock);
  if (id < (uint32_t)c->n_peers) {
    m = c->peers[id];
    __atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&c->lock);
  if (!m) return NULL;
  *bytes = m->bytes;
  *out = m;
  return m->base;
}

const pf_link pf_link_unix = {.size = sizeof(pf_link),
                              .kind = "unix",
                              .listen = unix_listen,
                              .port_descriptor = port_descriptor,
                              .accept = unix_accept,
                              .unlisten = unlisten,
                              .connect = unix_connect,
                              .descriptor = descriptor,
                              .post = post,
                              .receive = receive,
                              .close = unix_close,
                              .release = release,
                              .arena = arena,
                              .map = map,
                              .unmap = unmap};
