/* acme.h - a kernel pair of a third party: tensors are asked for over a socket of its own, as TensorFlow's RecvTensor does.
 *
 *   acme.Send   puts its tensor into the rendezvous of its own step (transport/2 `send`), and nothing else
 *   server.c    of each task that sends: answers who asks for (step, key) with what it takes from there (`take`)
 *   acme.Recv   waits in its own step (`recv`), and asks the sending task
 *   asker.c     puts what comes where the Recv waits (`room`, `put`); a lost task fails the step (`fail`)
 *
 * A task's server is found by the task's incarnation, which every edge carries: a successor has another address, and what was
 * meant for its forerunner is asked of nobody.  UNIX sockets of one machine and one user.
 *
 * Threads: a server has one that accepts, and two per connection; an asker has one per connection.  None computes.
 */
#ifndef ACME_H
#define ACME_H
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_NDIM = 64, MAX_KEY = 1 << 16 };
typedef struct { uint64_t id, session, step, incarnation, key_n; } ask_head;            /* then the key */
typedef struct { uint64_t id; int32_t status, dead, type, ndim; int64_t bytes; } answer_head;  /* then sizes, then bytes */

/* What a Recv waits for: the kernel's, and the asker's, until both have let go. */
typedef struct request {
  struct request *next;
  int refs, over;                       /* atomics.  over: nobody waits any more */
  const pf_host *host;
  pf_task *task;
  uint64_t id, ticket, sender;          /* sender: its incarnation */
  pf_step_key step;
  char *key;
  int64_t key_n;
} request;

const pf_transport2 *transport(const pf_host *h);
int serve(const pf_host *h, pf_task *task);            /* 0: the task's server runs; lends the task */
int ask(request *r);                                   /* 0: it will be put, or the step fails; takes a reference */
void request_unref(request *r);
void stop_servers(void);
socklen_t address_of(uint64_t incarnation, struct sockaddr_un *at);
int of_our_user(int fd);
int read_all(int fd, void *to, int64_t n);             /* 0: all of it */
int write_all(int fd, const void *from, int64_t n);
int64_t bytes_of(const DLTensor *t);
#endif
