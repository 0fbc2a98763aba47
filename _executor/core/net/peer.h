/* A peer, for the modules of core/net.  net.h says what it is. */
#ifndef PF_NET_PEER_H
#define PF_NET_PEER_H
#include "net/net.h"

enum { PF_NET_BUFFER = 160 << 10, PF_NET_CHUNK_BYTES = 512 << 10, PF_NET_REMOTE_BUCKETS = 64, PF_NET_ARENAS = 256, PF_NET_THREADS = 8, 
       PF_NET_ANNOUNCED = 4 << 20, /* what announcements that wait at a peer may cost (pf_cost_announced) */
       PF_NET_DEAD = 64 << 20,     /* what a peer's dead tensors may cost here that nobody has taken */
       PF_NET_INCOMING = 2 * PF_NET_ANNOUNCED, /* what a peer's may cost here: its threads may announce at once */
       PF_NET_ALL_INCOMING = 64 << 20 /* what all peers' may */ };

typedef void (*pf_sent_fn)(void *arg, pf_status st);
/* A tensor that is announced, and sent once the peer asks for it. */
typedef struct pf_transfer {
  struct pf_transfer *next;
  uint64_t id;
  pf_step_key key;
  pf_tensor *t;
  int64_t at;                           /* sent, or in the queue */
  int32_t asked, pad;
  pf_sent_fn sent;                      /* NULL, or called once it is sent or dropped */
  void *arg;
  pf_str name;                          /* behind this struct */
} pf_transfer;
/* Bytes that wait to be posted; the head lies in the node, the rest where `p` says. */
typedef struct pf_out {
  struct pf_out *next;
  uint8_t head[PF_NET_HEAD + PF_NET_CHUNK_HEAD];
  int32_t head_n, counted;              /* counted: its bytes are among `tensor_bytes` */
  const uint8_t *p;
  int64_t n, at;
  uint8_t *own;                         /* freed with the node */
  pf_transfer *last_of;                 /* NULL, or this is the last of its bytes */
} pf_out;
/* A tensor that waits for room in the queue. */
typedef struct pf_held {
  struct pf_held *next;
  pf_step_key key;
  pf_tensor *t;
  int32_t dead, pad;
  pf_sent_fn sent;
  void *arg;
  pf_str name;                          /* behind this struct */
} pf_held;
/* A tensor that a peer has for us.  References: the peer's list, its offer to the step's receivers. */
typedef struct pf_incoming {
  struct pf_incoming *next;             /* in its bucket */
  pf_a32 refs;
  int32_t asked, postponed, early;      /* postponed: somebody waits, but too much is under way; early: asked for though nobody waited */
  uint64_t id;
  pf_step_key key;
  pf_peer *peer;                        /* the offer's reference */
  pf_net_shape *shape;                  /* with as many dims as it has */
  pf_tensor *t;                         /* NULL: no byte of it was received in chunks */
  int64_t got, bytes;
  pf_str name;                          /* behind this struct */
} pf_incoming;
/* An arena of ours, cut into blocks. */
typedef struct { int64_t at, n; int32_t used, pad; } pf_block_of_arena;
typedef struct { uint32_t id; int32_t n, room, pad; uint8_t *base; int64_t bytes, touched; pf_block_of_arena *blocks; } pf_own_arena;
/* A plan that a peer may run, and one run of it. */
typedef struct pf_served {
  pf_a32 refs;
  uint64_t handle;
  pf_net_plans plans;                   /* its lists lie behind this struct */
  pf_net *net;
  void *owner;
  void (*drop)(void *);
  pf_a64 run_ns;                        /* of late */
  pf_a32 runs, spared;                  /* up to MEASURED; how many of its next steps are not run on a thread that reads */
  pf_a64 asked_ns;                      /* when a peer last asked for a step of it; 0: never */
  struct pf_served *next;
} pf_served;
typedef struct pf_serving {
  struct pf_serving *next, *prev;       /* the peer's */
  pf_peer *peer;
  pf_served *s;
  uint64_t call;
  pf_step_key key;
  int64_t began_ns, timeout_ns;
  int32_t n_args, listed;               /* listed: among the peer's, its lock */
  pf_tensor *args[];
} pf_serving;

struct pf_peer {
  pf_a32 refs, state;
  pf_net *net;
  const pf_link *link;
  pf_link_conn *conn;
  int32_t fd, initiated, registered;
  uint64_t slot;                        /* its number among what the net polls */
  struct pf_peer *next;                 /* the net's list, its lock */
  char name[128];                       /* from here on written before the state is OPEN */
  uint64_t incarnation, epoch;
  int64_t since_ns;
  pf_error why;                         /* written before the state is LOST */
  pf_a64 last_in, bytes_in, bytes_out, rtt_ns, clock_offset_ns, peer_clock, peer_clock_at;

  pthread_mutex_t reading;              /* guards what receives: */
  uint8_t *buf;
  int64_t lo, hi;
  pf_incoming *sink;                    /* a chunk whose bytes go straight to where they belong */
  uint8_t *sink_to;
  int64_t sink_left;
  int64_t touched[PF_NET_ARENAS];       /* of the peer's arenas: up to where their pages are mapped here */
  pf_tensor *body;                      /* or a frame larger than `buf`, of this head */
  pf_net_head body_head;

  pthread_mutex_t out;                  /* guards what is sent: */
  pthread_cond_t roomy;
  pf_out *first, *last;
  pf_transfer *transfers;
  pf_held *held, *held_last;
  int64_t tensor_bytes, announced, releasing;   /* in the queue; behind announcements; of what is held no longer, and not in the queue yet */
  int64_t announcing, unread, window;   /* announcing: what the announcements cost that wait there; unread: pushed, and not known to be read; window: what the peer says may be */
  uint64_t transfer_ids;
  int32_t want_out, direct, armed, post_failed, n_riding, n_arenas, n_out, most_out;       /* n_out: in the queue, without tensors; most_out: that there were */
  uint8_t riding[16 * PF_NET_HEAD];     /* frames without a body that go with the next one */
  pf_own_arena *arenas;
  int64_t arena_bytes, arena_used;

  pthread_mutex_t lock;                 /* guards: */
  pf_remote *remotes[PF_NET_REMOTE_BUCKETS];
  int64_t n_remotes, n_serving;
  uint64_t calls;
  pf_serving *serving;
  pf_incoming *incoming[PF_NET_REMOTE_BUCKETS];                         /* by id */
  int64_t incoming_cost, incoming_most, incoming_bytes, n_postponed;    /* cost: of what it announced; most: that there was */
  int64_t stored, stored_alone;         /* pushed by the peer, nobody has read it; of it, a tensor larger than the window */
  int64_t dead;                         /* what its dead tensors that nobody has taken cost */
  int64_t read, early_bytes;            /* read, but not told yet; fetched before anybody waited, nobody has read it */
};

typedef struct pf_port {
  struct pf_port *next;
  const pf_link *link;
  pf_link_port *port;
  uint64_t slot;
} pf_port;
typedef struct pf_tell { struct pf_tell *next; void (*fn)(void *); void *arg; } pf_tell;

struct pf_net {
  pf_a32 refs, closing;
  pf_a64 incoming_cost;                 /* of all peers */
  pf_task *task;
  pf_net_options o;
  uint64_t incarnation;
  int32_t fork_gen, epfd, wakefd;
  pthread_mutex_t lock;                 /* guards all below */
  pthread_cond_t changed;               /* a peer's state */
  pf_peer *peers;
  pf_port *ports;
  uint64_t slots;
  int64_t n_greeting;
  struct pf_seen { char name[128]; uint64_t epoch; } *seen;     /* of each task that greeted, its highest epoch */
  int32_t n_seen;
  pf_served *served[64];
  /* threads */
  struct pf_net_thread { pthread_t thread; int32_t state, pad; } threads[PF_NET_THREADS];
  pthread_t teller;
  int32_t standing, teller_runs, leader;        /* standing: threads that stand by, or are about to; leader: 0 nobody, else 1 + a place */
  int64_t busy_since, next_tick, last_tick;     /* the leader's; atomics, for one that was replaced may be at its last step */
  pthread_cond_t led, told;
  pf_tell *tells, *tells_last, *works, *works_last;
};

static inline int64_t pf_min64(int64_t a, int64_t b) { return a < b ? a : b; }
/* Of an announcement, at both ends: its key and what is kept of it. */
static inline int64_t pf_cost_announced(pf_str name) { return PF_NET_ENTRY + name.len; }
static inline int64_t pf_cost_of(const pf_tensor *t) { return t ? pf_net_tensor_bytes(t) + PF_NET_ENTRY : 0; }
/* Whether so much more may wait at a reader that has `unread` bytes; what is larger than the window goes alone. */
static inline int32_t pf_is_within(int64_t unread, int64_t cost, int64_t window) {
  return !cost || unread + cost <= window || unread <= window / 4;
}
static inline int32_t pf_peer_is(pf_peer *p, int32_t state) { return pf_a32_load(&p->state) == state; }

/* work.c, peer.c, net.c */
void pf_net_ref(pf_net *n);
pf_status pf_net_poll_peer(pf_net *n, pf_peer *p);      /* adds it to the list and to what is polled; takes a reference of its own */
void pf_net_forget(pf_net *n, pf_peer *p);              /* out of both; 1 reference less, if it was there */
int32_t pf_net_is_own_thread(void);
void pf_net_be_own_thread(void);
void pf_net_end_teller(pf_net *n);
pf_status pf_net_watch(pf_net *n, int fd, uint64_t slot);
pf_peer **pf_net_all_peers(pf_net *n, int32_t *count);  /* each with a reference */
pf_peer *pf_net_find_peer(pf_net *n, const char *name); /* lock held; the open one */
void pf_net_work(pf_net *n, void (*fn)(void *), void *arg);     /* something long, on a thread of the net's that reads nothing meanwhile */

/* peer.c, outbox.c, greeting.c, inbox.c */
void pf_peer_rearm(pf_peer *p);                         /* out held */
void pf_peer_set_direct(pf_peer *p, int32_t direct);
void pf_outbox_drop(pf_peer *p);                        /* out held */
pf_peer *pf_outbox_cork(pf_peer *p);                    /* what was corked */
void pf_outbox_uncork(pf_peer *p, pf_peer *was);
__attribute__((format(printf, 3, 4))) pf_status pf_peer_refuse(pf_peer *p, pf_status code, const char *fmt, ...);
pf_status pf_greeted(pf_peer *p, const pf_net_head *h, pf_net_in *b);
pf_status pf_bid_farewell(pf_peer *p, pf_net_in *b);
pf_status pf_pinged(pf_peer *p, const pf_net_head *h, pf_net_in *b);
pf_peer *pf_peer_new(pf_net *n, const pf_link *link, pf_link_conn *conn, int32_t initiated);
static inline void pf_peer_ref(pf_peer *p) { pf_a32_add_rlx(&p->refs, 1); }
void pf_peer_lose(pf_peer *p, const pf_error *why);     /* once; later reasons are not heard */
__attribute__((format(printf, 3, 4))) void pf_peer_losef(pf_peer *p, pf_status code, const char *fmt, ...);
void pf_peer_send(pf_peer *p, pf_net_out *take);        /* a frame; its heap memory is the peer's from now on */
void pf_peer_send_as(pf_peer *p, pf_net_out *take, int32_t counted);    /* counted: among the tensors that wait */
void pf_peer_send_soon(pf_peer *p, const pf_net_head *h);       /* with the next frame, or after a fifth of the lease */
int32_t pf_peer_receive(pf_peer *p);                    /* receives what is there, and acts on it; 0: another thread does */
void pf_peer_readable(pf_peer *p);                      /* the same for the net's thread */
void pf_peer_writable(pf_peer *p);
int32_t pf_peer_has_unread(pf_peer *p);                 /* bytes of the peer's lie there: it lives, and it is us who are late */
int32_t pf_peer_lull(pf_peer *p, const pf_lull *lull);  /* the same for a helper of a step */
int32_t pf_peer_poll(pf_peer *p, pf_a32 *until_set, int64_t until_ns);  /* receives on this thread; 0: another one does */
void pf_peer_hello(pf_peer *p, int32_t flags);
void pf_peer_ping(pf_peer *p, int32_t flags, int64_t heard);
void pf_peer_bye(pf_peer *p, pf_status st, const char *text);

/* serving.c, calls.c; `body` is the frame's */
pf_status pf_steps_run(pf_peer *p, const pf_net_head *h, pf_net_in *body, pf_serving **out);      /* *out: to be begun by pf_steps_begin */
void pf_steps_begin(pf_serving *take);
pf_status pf_steps_done(pf_peer *p, const pf_net_head *h, pf_net_in *body);
pf_status pf_steps_cancel(pf_peer *p, const pf_net_head *h, pf_net_in *body);
void pf_calls_lost(pf_peer *p);
void pf_servings_lost(pf_peer *p);
void pf_send_cancel(pf_peer *p, pf_step_key key, const pf_error *why);  /* the step failed here */
void pf_served_unref(pf_served *s);

/* outgoing.c */
pf_status pf_asked_for(pf_peer *p, const pf_net_head *h, pf_net_in *body);
pf_status pf_was_read(pf_peer *p, uint64_t bytes);
pf_out *pf_next_chunk(pf_peer *p);                      /* out held; NULL: nothing is asked for */
int32_t pf_may_release(const pf_peer *p);               /* out held; there is room for something that waits for it */
pf_held *pf_release_held(pf_peer *p);                   /* out held; those that there is room for now */
void pf_send_held(pf_peer *p, pf_held *take);           /* no lock */
void pf_transfers_lost(pf_peer *p);
void pf_transfers_finished(pf_transfer *take);          /* no lock */

/* incoming.c */
pf_status pf_tensor_frame(pf_peer *p, const pf_net_head *h, pf_net_in *body);
pf_status pf_announced(pf_peer *p, const pf_net_head *h, pf_net_in *body);
pf_status pf_chunk_begins(pf_peer *p, const pf_net_head *h, const uint8_t *chunk_head);  /* sets the sink */
void pf_chunk_ends(pf_peer *p);
void pf_incoming_lost(pf_peer *p);                      /* what it announced and nobody waits for is not to be had any more */
void pf_incoming_free(pf_peer *p);                      /* nobody has the peer any more */

/* arenas.c */
pf_status pf_credited(pf_peer *p, pf_net_in *body);
pf_net_arenas pf_peer_arenas(pf_peer *p);
void pf_arenas_free(pf_peer *p);
#endif
