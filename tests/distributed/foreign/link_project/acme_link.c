/* acme_link.c - a link of a third party, "acme": a UNIX stream socket, written from pyflow/link.h alone.
 *
 * Addresses are names in the system's abstract namespace, chosen by `listen`.  Only processes of the same user are
 * spoken to.  A post takes at most MOST bytes, however many the socket would: what the host sends must not depend on
 * how much a link takes at once.
 */
#include <errno.h>
#include <poll.h>
#include <pyflow/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST = 48 << 10, SPANS = 8 };
struct pf_link_port { int fd; };
struct pf_link_conn { int fd; };

static pf_status say(pf_link_problem *p, pf_status st, const char *what) {
  if (p && p->text && p->room > 0) snprintf(p->text, (size_t)p->room, "acme: %s: %s", what, errno ? strerror(errno) : "refused");
  return st;
}

static socklen_t address_of(const char *name, struct sockaddr_un *at) {  /* 0: it is none */
  size_t n = strlen(name);
  memset(at, 0, sizeof *at);
  at->sun_family = AF_UNIX;
  if (n < 6 || n + 1 >= sizeof at->sun_path || memcmp(name, "acme-", 5)) return 0;
  memcpy(at->sun_path + 1, name, n);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static pf_status conn_of(int fd, pf_link_conn **out, pf_link_problem *p) {
  struct ucred who = {0};
  socklen_t n = sizeof who;
  pf_link_conn *c = malloc(sizeof *c);
  errno = 0;
  if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) || who.uid != geteuid()) {
    close(fd), free(c);
    return say(p, PF_PERMISSION_DENIED, "another user's process");
  }
  c->fd = fd;
  *out = c;
  return PF_OK;
}

/* ---------------------------------------------------------------- ports */
static pf_status acme_listen(const char *address, int32_t flags, pf_link_port **out, char *bound, int32_t room, pf_link_problem *p) {
  struct sockaddr_un at;
  uint64_t bits[2];
  char name[48];
  (void)flags;
  errno = 0;
  if (address && *address) return say(p, PF_INVALID_ARGUMENT, "an address is chosen by the link itself");
  if (getrandom(bits, sizeof bits, 0) != sizeof bits) return say(p, PF_UNAVAILABLE, "getrandom");
  snprintf(name, sizeof name, "acme-%016llx%016llx", (unsigned long long)bits[0], (unsigned long long)bits[1]);
  socklen_t n = address_of(name, &at);
  pf_link_port *port = malloc(sizeof *port);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (!port || fd < 0 || bind(fd, (struct sockaddr *)&at, n) || listen(fd, 64)) {
    say(p, PF_UNAVAILABLE, "listen");
    if (fd >= 0) close(fd);
    free(port);
    return PF_UNAVAILABLE;
  }
  port->fd = fd;
  snprintf(bound, (size_t)room, "%s", name);
  *out = port;
  return PF_OK;
}
static int32_t port_descriptor(pf_link_port *port) { return port->fd; }
static pf_status acme_accept(pf_link_port *port, pf_link_conn **out) {
  int fd = accept4(port->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return fd < 0 ? PF_UNAVAILABLE : conn_of(fd, out, NULL);
}
static void unlisten(pf_link_port *port) { close(port->fd), free(port); }

/* ---------------------------------------------------------------- connections */
static pf_status acme_connect(const char *address, int32_t flags, int64_t timeout_ns, pf_link_conn **out, pf_link_problem *p) {
  struct sockaddr_un at;
  socklen_t n = address_of(address, &at);
  (void)flags;
  errno = 0;
  if (!n) return say(p, PF_INVALID_ARGUMENT, "an address is acme-NAME");
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  for (int64_t waited = 0; fd >= 0; waited += 1000000) {      /* a full backlog is the only thing there is to wait for */
    if (!connect(fd, (struct sockaddr *)&at, n)) return conn_of(fd, out, p);
    if (errno != EAGAIN || (timeout_ns >= 0 && waited >= timeout_ns)) break;
    poll(NULL, 0, 1);
  }
  pf_status st = say(p, errno == EAGAIN ? PF_DEADLINE_EXCEEDED : PF_UNAVAILABLE, "connect");
  if (fd >= 0) close(fd);
  return st;
}
static int32_t descriptor(pf_link_conn *c) { return c->fd; }

static int64_t post(pf_link_conn *c, const pf_span *spans, int32_t n) {
  struct iovec some[SPANS];
  int32_t k = 0;
  int64_t left = MOST;
  for (; k < n && k < SPANS && left > 0; k++) {
    some[k] = (struct iovec){spans[k].data, spans[k].n < (size_t)left ? spans[k].n : (size_t)left};
    left -= (int64_t)some[k].iov_len;
  }
  struct msghdr m = {.msg_iov = some, .msg_iovlen = (size_t)k};
  ssize_t sent;
  do sent = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL); while (sent < 0 && errno == EINTR);
  return sent >= 0 ? sent : errno == EAGAIN || errno == ENOBUFS ? 0 : PF_LINK_LOST;
}

static int64_t receive(pf_link_conn *c, const pf_span *spans, int32_t n, pf_link_problem *p) {
  struct iovec some[SPANS];
  int32_t k = 0;
  for (; k < n && k < SPANS; k++) some[k] = (struct iovec){spans[k].data, spans[k].n};
  struct msghdr m = {.msg_iov = some, .msg_iovlen = (size_t)k};
  ssize_t came;
  errno = 0;
  do came = recvmsg(c->fd, &m, MSG_DONTWAIT); while (came < 0 && errno == EINTR);
  if (came > 0) return came;
  if (came < 0 && errno == EAGAIN) return 0;
  say(p, PF_UNAVAILABLE, came ? "receive" : "the peer closed the connection");
  return PF_LINK_LOST;
}
static void acme_close(pf_link_conn *c) { shutdown(c->fd, SHUT_RDWR); }
static void release(pf_link_conn *c) { close(c->fd), free(c); }

/* ---------------------------------------------------------------- tables */
static const pf_link acme = {.size = sizeof(pf_link), .kind = "acme", .listen = acme_listen, .port_descriptor = port_descriptor,
  .accept = acme_accept, .unlisten = unlisten, .connect = acme_connect, .descriptor = descriptor, .post = post, .receive = receive,
  .close = acme_close, .release = release};
static const pf_link *const links[] = {&acme, NULL};
static const void *extension(const char *id) { return strcmp(id, "pyflow.link/1") ? NULL : links; }
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.acme.link", .version = "1.0", .abi_major = PF_ABI_MAJOR,
  .abi_minor = PF_ABI_MINOR, .extension = extension};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) {
  (void)h;
  return &plugin;
}
