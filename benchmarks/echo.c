/* echo.c - the raw sockets that distributed_net.py stands beside: bytes there and back through epoll in C, and a stream of bytes.
 *
 *     echo serve unix|tcp ADDRESS             64 bytes are sent back by the thread that read them; "B" + a count asks for that many
 *     echo ask unix|tcp ADDRESS COUNT         p50 and p99 of COUNT round trips, in ns
 *     echo take unix|tcp ADDRESS BYTES TIMES  ns of each BYTES received into one memory
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static int end(int serve, const char *kind, const char *address) {
  struct sockaddr_un u = {.sun_family = AF_UNIX};
  struct sockaddr_in i = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(address))};
  int on = 1, is_unix = !strcmp(kind, "unix"), fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
  struct sockaddr *a = is_unix ? (struct sockaddr *)&u : (struct sockaddr *)&i;
  socklen_t n = is_unix ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address)) : sizeof i;
  strncpy(u.sun_path + 1, address, sizeof u.sun_path - 2);
  inet_pton(AF_INET, "127.0.0.1", &i.sin_addr);
  if (!is_unix) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!serve) {
    for (int k = 0; k < 2000; k++) {
      if (connect(fd, a, n) == 0) return fd;
      usleep(1000);
    }
    exit(2);
  }
  if (bind(fd, a, n) || listen(fd, 8)) exit(3);
  return fd;
}
static void send_all(int fd, const char *p, int64_t n) {
  while (n > 0) {
    ssize_t k = send(fd, p, (size_t)n, MSG_NOSIGNAL);
    if (k < 0) return;
    p += k, n -= k;
  }
}
static void serve(int port) {
  static char small[64];
  char *large = NULL;
  int64_t room = 0, bytes;
  struct epoll_event e = {.events = EPOLLIN, .data.fd = port};
  int ep = epoll_create1(0), on = 1;
  epoll_ctl(ep, EPOLL_CTL_ADD, port, &e);
  for (;;) {
    if (epoll_wait(ep, &e, 1, -1) < 1) continue;
    if (e.data.fd == port) {
      int fd = accept(port, NULL, NULL);
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      e = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
      epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
      continue;
    }
    ssize_t k = recv(e.data.fd, small, sizeof small, 0);
    if (k <= 0) close(e.data.fd);
    else if (k == 64 && small[0] == 'B') {
      memcpy(&bytes, small + 8, 8);
      if (bytes > room) large = realloc(large, (size_t)bytes), memset(large, 1, (size_t)bytes), room = bytes;
      send_all(e.data.fd, large, bytes);
    } else send_all(e.data.fd, small, k);
  }
}
static int by_size(const void *a, const void *b) { return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b); }
int main(int argc, char **argv) {
  if (argc < 4) return 1;
  int fd = end(!strcmp(argv[1], "serve"), argv[2], argv[3]);
  char small[64] = "A";
  if (!strcmp(argv[1], "serve")) serve(fd);
  if (!strcmp(argv[1], "ask")) {
    int64_t count = atoll(argv[4]), *times = malloc(8 * (size_t)count);
    for (int64_t k = 0; k < count; k++) {
      int64_t t = now();
      struct pollfd f = {.fd = fd, .events = POLLIN};
      send_all(fd, small, sizeof small);
      poll(&f, 1, -1);                          /* as who waits with a deadline does */
      if (recv(fd, small, sizeof small, MSG_WAITALL) != sizeof small) return 4;
      times[k] = now() - t;
    }
    qsort(times, (size_t)count, 8, by_size);
    printf("%lld %lld\n", (long long)times[count / 2], (long long)times[count * 99 / 100]);
  } else {
    int64_t bytes = atoll(argv[4]);
    char *to = malloc((size_t)bytes);
    memset(to, 1, (size_t)bytes);
    for (int k = atoi(argv[5]); k > 0; k--) {
      int64_t t = now(), got = 0;
      small[0] = 'B', memcpy(small + 8, &bytes, 8);
      send_all(fd, small, sizeof small);
      while (got < bytes) {
        ssize_t n = recv(fd, to + got, (size_t)(bytes - got), 0);
        if (n <= 0) return 5;
        got += n;
      }
      printf("%lld ", (long long)(now() - t));
    }
    printf("\n");
  }
  return 0;
}
