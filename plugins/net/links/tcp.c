/* tcp.c - a link over TCP, one segment a post (TCP_NODELAY).
 *
 * Addresses are "127.0.0.1:4711", "[::1]:4711", "localhost:0"; port 0 is chosen by the system.
 * Names are not looked up, and other addresses than this machine's own (127.0.0.0/8, ::1) are
 * refused without PF_LINK_INSECURE: what travels is neither encrypted nor signed.
 *
 * Threads: as link.h says.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include "sockets.h"

struct pf_link_conn { int fd; };
typedef struct {
  struct sockaddr_storage at;
  socklen_t n;
} place;

static int is_local(const struct sockaddr *a) {
  if (a->sa_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static pf_status parsed(const char *address, int32_t flags, place *out, pf_link_problem *p) {
  char host[64], *end;
  const char *colon = address ? strrchr(address, ':') : NULL;
  if (!address || !*address) address = "127.0.0.1:0", colon = address + 9;
  if (!colon || colon - address >= (int)sizeof host)
    return pf_said(p, PF_INVALID_ARGUMENT, "a TCP address is HOST:PORT", 0);
  long port = strtol(colon + 1, &end, 10);
  if (colon[1] == 0 || *end || port < 0 || port > 65535)
    return pf_said(p, PF_INVALID_ARGUMENT, "a port is 0 to 65535", 0);
  size_t n = (size_t)(colon - address);
  if (n >= 2 && address[0] == '[' && colon[-1] == ']') address++, n -= 2;
  memcpy(host, address, n), host[n] = 0;
  if (!strcmp(host, "localhost")) strcpy(host, "127.0.0.1");
  struct sockaddr_in *v4 = (struct sockaddr_in *)&out->at;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->at;
  memset(&out->at, 0, sizeof out->at);
  if (inet_pton(AF_INET, host, &v4->sin_addr) == 1)
    v4->sin_family = AF_INET, v4->sin_port = htons((uint16_t)port), out->n = sizeof *v4;
  else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1)
    v6->sin6_family = AF_INET6, v6->sin6_port = htons((uint16_t)port), out->n = sizeof *v6;
  else
    return pf_said(p, PF_INVALID_ARGUMENT,
                   "the host of a TCP address is an IP address or localhost", 0);
  if (!is_local((struct sockaddr *)&out->at) && !(flags & PF_LINK_INSECURE))
    return pf_said(
        p, PF_PERMISSION_DENIED,
        "TCP beyond this machine is neither encrypted nor signed: say insecure=True, or use gRPC "
        "with certificates",
        0);
  return PF_OK;
}

static int socket_of(const place *at, pf_link_problem *p) {
  int on = 1, fd = socket(at->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) pf_say(p, "socket", errno);
  else setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

static pf_status tcp_listen(const char *address, int32_t flags, pf_link_port **out, char *bound,
                            int32_t room, pf_link_problem *p) {
  place at;
  char host[64];
  int on = 1;
  pf_status st = parsed(address, flags, &at, p);
  if (st) return st;
  int fd = socket_of(&at, p);
  if (fd < 0) return PF_UNAVAILABLE;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  pf_link_port *port = malloc(sizeof *port);
  if (!port || bind(fd, (struct sockaddr *)&at.at, at.n) || listen(fd, 128) ||
      getsockname(fd, (struct sockaddr *)&at.at, &at.n)) {
    pf_say(p, port ? "bind or listen" : "out of memory", port ? errno : 0);
    st = port && errno == EADDRINUSE ? PF_ALREADY_EXISTS : PF_UNAVAILABLE;
    close(fd), free(port);
    return st;
  }
  port->fd = fd;
  if (at.at.ss_family == AF_INET) {
    inet_ntop(AF_INET, &((struct sockaddr_in *)&at.at)->sin_addr, host, sizeof host);
    snprintf(bound, (size_t)room, "%s:%d", host, ntohs(((struct sockaddr_in *)&at.at)->sin_port));
  } else {
    inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&at.at)->sin6_addr, host, sizeof host);
    snprintf(bound, (size_t)room, "[%s]:%d", host,
             ntohs(((struct sockaddr_in6 *)&at.at)->sin6_port));
  }
  *out = port;
  return PF_OK;
}

static int32_t port_descriptor(pf_link_port *port) { return port->fd; }

static pf_status made(int fd, pf_link_conn **out, pf_link_problem *p) {
  pf_link_conn *c = malloc(sizeof *c);
  if (!c) {
    close(fd);
    return pf_said(p, PF_RESOURCE_EXHAUSTED, "out of memory", 0);
  }
  c->fd = fd;
  *out = c;
  return PF_OK;
}

static pf_status tcp_accept(pf_link_port *port, pf_link_conn **out) {
  int on = 1, fd;
  do fd = accept4(port->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return PF_UNAVAILABLE;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made(fd, out, NULL);
}

static void unlisten(pf_link_port *port) {
  close(port->fd);
  free(port);
}

static pf_status tcp_connect(const char *address, int32_t flags, int64_t timeout_ns,
                             pf_link_conn **out, pf_link_problem *p) {
  place at;
  pf_status st = parsed(address, flags, &at, p);
  if (st) return st;
  int fd = socket_of(&at, p);
  if (fd < 0) return PF_UNAVAILABLE;
  st = pf_socket_connect(fd, (struct sockaddr *)&at.at, at.n, timeout_ns, p);
  if (st) {
    close(fd);
    return st;
  }
  return made(fd, out, p);
}

static int32_t descriptor(pf_link_conn *c) { return c->fd; }

static int64_t post(pf_link_conn *c, const pf_span *spans, int32_t n) {
  return pf_socket_post(c->fd, spans, n, NULL, 0);
}

static int64_t receive(pf_link_conn *c, const pf_span *spans, int32_t n, pf_link_problem *p) {
  struct msghdr m = {.msg_iov = (struct iovec *)spans, .msg_iovlen = (size_t)n};
  ssize_t k;
  do k = recvmsg(c->fd, &m, MSG_DONTWAIT);
  while (k < 0 && errno == EINTR);
  if (k > 0) return k;
  if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  pf_say(p, k ? "receive" : "the peer closed the connection", k ? errno : 0);
  return PF_LINK_LOST;
}

static void tcp_close(pf_link_conn *c) { shutdown(c->fd, SHUT_RDWR); }

static void release(pf_link_conn *c) {
  close(c->fd);
  free(c);
}

const pf_link pf_link_tcp = {.size = sizeof(pf_link),
                             .flags = PF_LINK_FAR,
                             .kind = "tcp",
                             .listen = tcp_listen,
                             .port_descriptor = port_descriptor,
                             .accept = tcp_accept,
                             .unlisten = unlisten,
                             .connect = tcp_connect,
                             .descriptor = descriptor,
                             .post = post,
                             .receive = receive,
                             .close = tcp_close,
                             .release = release};
