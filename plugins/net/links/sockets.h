/* What stream sockets have in common, TCP's and UNIX's: non-blocking, never a SIGPIPE. */
#ifndef PF_NET_SOCKETS_H
#define PF_NET_SOCKETS_H
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "links.h"

struct pf_link_port { int fd; };

_Static_assert(sizeof(pf_span) == sizeof(struct iovec),
               "spans are handed to the system as they are");

static inline void pf_say(pf_link_problem *p, const char *what, int error) {
  if (p && p->text && p->room > 0)
    snprintf(p->text, (size_t)p->room, "%s%s%s", what, error ? ": " : "",
             error ? strerror(error) : "");
}
static inline pf_status pf_said(pf_link_problem *p, pf_status code, const char *what, int error) {
  pf_say(p, what, error);
  return code;
}
static inline int64_t pf_socket_post(int fd, const pf_span *spans, int32_t n, void *control,
                                     size_t control_n) {
  struct msghdr m = {.msg_iov = (struct iovec *)spans,
                     .msg_iovlen = (size_t)n,
                     .msg_control = control,
                     .msg_controllen = control_n};
  ssize_t k;
  do k = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (k < 0 && errno == EINTR);
  return k >= 0                                                        ? k
         : errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0
                                                                       : PF_LINK_LOST;
}
/* connect(2) that ends after a while. */
static inline pf_status pf_socket_connect(int fd, const struct sockaddr *to, socklen_t n,
                                          int64_t timeout_ns, pf_link_problem *p) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  if (connect(fd, to, n) == 0) return PF_OK;
  if (errno != EINPROGRESS && errno != EAGAIN) return pf_said(p, PF_UNAVAILABLE, "connect", errno);
  int ready = poll(&poll_fd, 1, timeout_ns < 0 ? -1 : (int)(timeout_ns / 1000000 + 1));
  if (ready == 0) return pf_said(p, PF_DEADLINE_EXCEEDED, "connect: nobody answered in time", 0);
  if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) || error)
    return pf_said(p, PF_UNAVAILABLE, "connect", error ? error : errno);
  return PF_OK;
}
#endif
