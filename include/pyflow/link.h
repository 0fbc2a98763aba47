/* pyflow/link.h - "pyflow.link/1": how bytes go between two tasks.  One header, beside kernel.h,
 * that a third party implements.
 *
 * Purpose.  The core makes frames of tensors and steps and understands those of the peer
 * (_executor/core/net); a LINK carries the bytes: a stream in each direction, in order, each byte
 * once, until one side closes or is lost.  Ours are `tcp` and `unix` (plugins/net), and `grpc`
 * (plugins/grpc).  RDMA, VSOCK or a TLS stream would be others.
 *
 * Invariants
 *   1. Everything but `connect` returns at once.  What cannot go on says 0 and goes on when
 *      `descriptor` is readable (receive, accept) or writable (post): the core's threads wait for
 *      that.  A link with threads of its own gives an eventfd.
 *   2. `post` of a connection is called by one thread at a time, `receive` likewise; both at once,
 *      and `close` from a third.
 *   3. After `close` both directions fail at once; `release` comes later, once, when nobody is
 *      inside a function of the connection any more.
 *   4. The link looks at nothing in the bytes.  Who speaks at the other end is found out by the
 *      core's HELLO.
 *
 *   static const pf_link rdma = {.size = sizeof(pf_link), .kind = "rdma", .listen = ..., ...};
 *
 * A plugin offers its links as its extension "pyflow.link/1": an array of pointers that ends with
 * NULL. Who runs servers names them by their kinds, tf.train.Server(links=("rdma",)).
 * docs/transports.md tells what else is asked of a link.
 */
#ifndef PYFLOW_LINK_H
#define PYFLOW_LINK_H
#include "kernel.h"
#ifdef __cplusplus
extern "C" {
#endif
/*PF:BEGIN*/
typedef struct pf_link_port pf_link_port; /* the link's: an address that listens */
typedef struct pf_link_conn pf_link_conn; /* the link's: a connection */
typedef struct pf_link_map pf_link_map;   /* the link's: memory of the peer's that is mapped here */
typedef struct {
  void *data;
  size_t n;
} pf_span; /* as the system's struct iovec */
/* where a failure is described; NUL-terminated by the link */
typedef struct {
  char *text;
  int32_t room, pad;
} pf_link_problem;
/* flags of listen and connect: the user agreed to what others on the network may read and write */
enum { PF_LINK_INSECURE = 1 };
enum { PF_LINK_LOST = -1 };
enum {
  PF_LINK_FAR = 1, /* flags of a pf_link: its addresses reach other machines */
  /* it encrypts, and each end knows who the other is: no one need agree to anything */
  PF_LINK_SECURE = 2,
  /* it finds out by itself that a peer has gone, within seconds: silence is no sign of it */
  PF_LINK_WATCHES = 4
};

typedef struct pf_link {
  uint32_t size, flags;
  const char *kind; /* "tcp" */
  pf_status (*listen)(const char *address, int32_t flags, pf_link_port **out, char *bound,
                      int32_t room, pf_link_problem *);
  /* bound: the address by which others reach it, in text; an empty address: the link chooses
       * one */
  int32_t (*port_descriptor)(pf_link_port *);
  /* PF_UNAVAILABLE: nobody is there; others: that one was refused */
  pf_status (*accept)(pf_link_port *, pf_link_conn **out);
  void (*unlisten)(pf_link_port *);
  pf_status (*connect)(const char *address, int32_t flags, int64_t timeout_ns, pf_link_conn **out,
                       pf_link_problem *);
  /* polled for reading, and for writing after a post that did not take everything */
  int32_t (*descriptor)(pf_link_conn *);
  /* bytes taken, 0 and fewer than all included; or PF_LINK_LOST */
  int64_t (*post)(pf_link_conn *, const pf_span *, int32_t n);
  int64_t (*receive)(pf_link_conn *, const pf_span *, int32_t n, pf_link_problem *);
  /* bytes put into the spans, in their order; 0: none now; PF_LINK_LOST: the peer has gone */
  void (*close)(pf_link_conn *);
  void (*release)(pf_link_conn *);
  /* Memory that both see; all three NULL: the link has none. */
  void *(*arena)(pf_link_conn *, int64_t bytes, uint32_t *id);
  /* memory of ours that the peer can map under `id` before it receives a byte posted from
       * now on; it is there until `release`; NULL: not now */
  void *(*map)(pf_link_conn *, uint32_t id, int64_t *bytes, pf_link_map **out);
  /* the peer's arena, readable and writable, a new reference; NULL: there is none.  What the
       * peer does cannot make its pages vanish while it is mapped */
  void (*unmap)(pf_link_map *); /* may be called after `release` */
} pf_link;
/*PF:END*/
#ifdef __cplusplus
}
#endif
#endif
