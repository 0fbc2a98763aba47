/* The host: plugins and what they offer, devices and their memory, state that outlives a step,
 * rendezvous. */
#ifndef PF_HOST_H
#define PF_HOST_H
#include "graph/graph.h"
#include "upcalls.h"

/* a name for a parameter type, for Cython */
typedef void (*pf_problem_fn)(void *arg, const char *text);

/* ===================================================== plugins, kernels, devices (registry.pyx) */
typedef struct pf_kernel_entry {
  const pf_kernel *kernel; /* a full-size copy, missing fields zero */
  const char *plugin_id, *origin;
  struct pf_kernel_entry *next; /* same op, best first */
  void *where;                  /* parsed constraints */
  int32_t foreign, pad;         /* of another plugin than our own (foreign.pyx) */
} pf_kernel_entry;
/* Takes a plugin's tables: checks versions, critical flags, attribute and argument names; calls
 * start.  Problems are reported one by one; returns OK if at least the plugin itself is usable. */
pf_status pf_plugin_register(const pf_plugin *p, const char *origin,
                             void (*problem)(void *arg, const char *text), void *arg,
                             pf_error *err);
void pf_plugins_stop(void);  /* after pf_watch_stop: closes devices, stops plugins, once */
int32_t pf_host_ended(void); /* 1: that happened; nothing of a plugin's is called any more */
/* The first kernel after `after` (NULL: the best) that serves the node on the device type; *out
 * NULL and an error that lists what exists when there is none. */
pf_status pf_kernel_select(const pf_node *n, const pf_op_def *op, const pf_signature *sig,
                           const char *device_type, const pf_kernel_entry *after,
                           const pf_kernel_entry **out, pf_error *err);
/* Zeroed state with the attributes written; memory from the arena. */
pf_status pf_kernel_state(const pf_kernel_entry *k, const pf_node *n, const pf_op_def *op,
                          pf_arena *arena, void **state, pf_error *err);
int32_t pf_kernel_count(void);
const pf_kernel_entry *pf_kernel_at(int32_t i);
typedef struct pf_device_entry {
  const pf_device *vtable;     /* a full-size copy; NULL: a CPU */
  void *dev;                   /* opened; NULL: not yet, or nothing to open */
  int32_t ordinal, own_memory; /* own_memory: host pointers mean nothing there */
  char name[64];
  char type[24];
  /* kernels, copies in, copies out; NULL: the device works synchronously */
  void *stream, *in, *out;
  pf_a32 ready; /* 1: the streams above are open (pf_opening_lock) */
  int32_t pad;
  pf_a64 in_use, peak, limit, allocs; /* bytes of its own memory; limit 0: none */
  /* of the process that opened it: its threads and streams are there, not in children */
  int32_t fork_gen, pad2;
  char problem[256]; /* why the last `open` failed (pf_opening_lock); "" */
} pf_device_entry;
/* opens on first use; "CPU" of any ordinal exists; NULL */
pf_device_entry *pf_device_find(const char *type, int32_t ordinal);
int32_t pf_device_count(void);
pf_device_entry *pf_device_at(int32_t i);
/* types without devices that say why; 0: no more */
int32_t pf_device_absent(int32_t i, const char **type, const char **why);
pf_status pf_registry_note_absent(const char *type, const char *why);
/* why pf_device_find gave NULL */
void pf_device_problem(const char *type, int32_t ordinal, char *text, int32_t room);
static inline const char *pf_device_name(const void *entry, const char *none) {
  return entry ? ((const pf_device_entry *)entry)->name : none;
}
pf_device_entry *pf_device_of(const void *dev); /* by what `open` gave; NULL */

/* =================================================== memory and streams of devices (device.pyx) */
/* A tensor in the device's memory (mem DEVICE), usable by work enqueued on `stream` from now on,
 * or in host memory the device reaches (PINNED).  Waits for pending work and tries again when
 * memory is short.  NULL: out of memory. */
pf_tensor *pf_device_tensor(pf_device_entry *d, int32_t mem, void *stream, int32_t type,
                            const int64_t *shape, int32_t ndim);
/* waits until it is there */
pf_status pf_device_upload(pf_device_entry *d, pf_tensor *host, pf_tensor **out);
int32_t pf_fork_generation(void);                 /* how often this process was forked off */
void pf_watch_forks(void);                        /* from now on; once is enough */
int32_t pf_device_lost(const pf_device_entry *d); /* 1: opened before this process was forked off */
/* 1: values go from a to b without the host */
int32_t pf_device_peers(pf_device_entry *a, pf_device_entry *b);
pf_status pf_device_wait(pf_device_entry *d); /* until its streams did all work enqueued so far */

typedef struct pf_compiler_entry {
  pf_compiler compiler;
  const char *plugin_id;
} pf_compiler_entry;
int32_t pf_compiler_count(void);                    /* plugins that offer "pyflow.compiler/1" */
const pf_compiler_entry *pf_compiler_at(int32_t i); /* by plugin id; NULL */

/* ================================================================ state (state.pyx) */
enum { PF_OBJ_VARIABLE = 1, PF_OBJ_RESOURCE = 2 };
typedef struct pf_variable {
  pf_object base;
  uint64_t id;          /* the order in which several are locked */
  pthread_mutex_t lock; /* guards value */
  pf_tensor *value;     /* NULL: uninitialised */
  int32_t type, ndim;   /* ndim -1: any shape */
  int64_t *dims;        /* -1: any */
  int32_t planned, pad; /* plans hold it: deleting takes its value away, the object stays */
} pf_variable;
typedef struct pf_uses pf_uses; /* uses.pyx */
typedef struct pf_resource {
  pf_object base;
  pf_type type; /* full-size copy */
  void *obj;
  int32_t scope, pad;
  pf_uses *uses; /* NULL: by no session that has a number */
} pf_resource;

/* A task: what the sessions of one server share (task.pyx).  A process has one without a name,
 * which never ends; each server that it runs has its own. */
typedef struct pf_container pf_container;
typedef struct pf_open_step pf_open_step;
typedef struct pf_route pf_route;
struct pf_task {
  pf_a32 refs;
  char name[128]; /* "/job:worker/replica:0/task:1"; empty: the process's own */
  /* guards all below; taken before a container's, a rendezvous' and the keeper's */
  pthread_mutex_t lock;
  uint64_t incarnation;     /* 64 random bits; others in a process that was forked off */
  int32_t generation, bits; /* of forks; log2 of the buckets */
  pf_container *named;      /* state.pyx */
  /* step_table.pyx: by hash; gone ones are remembered for a while, oldest first */
  pf_open_step **steps;
  pf_open_step *gone_first, *gone_last, *early_first, *early_last;
  int64_t n_open, n_early, n_gone, early_bytes, n_ended; /* n_ended: partitions so far */
  int64_t max_early, max_early_bytes; /* what comes for steps that have not begun */
  pf_route *routes;                   /* routes.pyx: to other tasks, by name */
};
pf_task *pf_task_new(const char *name); /* NULL: out of memory */
pf_task *pf_task_own(void);             /* the process's; not counted */
void pf_task_ref(pf_task *t);
void pf_task_unref(pf_task *t); /* NULL is allowed */
uint64_t pf_task_incarnation(pf_task *t);
uint64_t pf_entropy(void); /* 64 bits from the system */

/* a session's default container, plus the task's named ones by lookup */
typedef struct pf_state pf_state;
/* task NULL: the process's own; base: whose default container it sees as its own, but for what
 * is private; or NULL */
pf_state *pf_state_new(const char *name, pf_task *task, pf_state *base);
pf_task *pf_state_task(pf_state *s); /* not counted */
void pf_state_ref(pf_state *s);
void pf_state_unref(pf_state *s);
/* aborts and forgets everything in the default container */
void pf_state_close(pf_state *s, pf_status why);
void pf_state_end(pf_state *s); /* watched steps that begin from now on are cancelled */
int32_t pf_state_ended(pf_state *s);
/* n 0: all named containers of the task */
void pf_containers_reset(pf_task *t, const char *const *names, int32_t n);
void pf_containers_free(pf_task *t); /* the last reference went */
/* new reference; made on first use */
pf_status pf_state_variable(pf_state *s, pf_str container, pf_str name, int32_t type,
                            pf_shape shape, pf_variable **out, pf_error *err);
/* new reference; make NULL: lookup only; private_: not the base's */
pf_status pf_state_resource(pf_state *s, pf_str container, pf_str name, int32_t private_,
                            const pf_type *type, pf_status (*make)(pf_ctx *, void *arg, void **obj),
                            pf_ctx *ctx, void *arg, pf_resource **out, pf_error *err);
pf_status pf_state_delete(pf_state *s, pf_object *o);
/* one reference */
pf_resource *pf_resource_new(const pf_type *type, void *steal, int32_t scope, pf_str container,
                             pf_str name);
/* new reference to the current value (a snapshot); NULL: uninitialised */
pf_tensor *pf_variable_read(pf_variable *v);
/* With v->lock held: */
/* value, unshared (copied if not); lent; NULL: uninitialised or no memory */
pf_tensor *pf_variable_writable(pf_variable *v);
/* checks type and shape */
pf_status pf_variable_set(pf_variable *v, pf_tensor *take, int32_t any_shape, pf_error *err);
/* two each */
void pf_state_rng(pf_state *s, pf_str name, uint64_t seed, uint64_t seed2, uint64_t n,
                  uint64_t *key, uint64_t *counter);
/* seeds both 0: from the system's entropy, once per name.  key = {seed, 0}, counter =
     * {offset, seed2}; advances by n */
/* shared.pyx: what kernels made of constants, once for all plans. */
typedef struct pf_shared { void *obj; } pf_shared;
pf_digest pf_shared_digest(const DLTensor *constant);
/* new reference; NULL: *st says why */
pf_shared *pf_shared_find(const DLTensor *constant, pf_digest digest, pf_str form,
                          const pf_type *type, pf_make_fn make, pf_ctx *ctx, void *arg,
                          pf_status *st);
void pf_shared_unref(pf_shared *s);
int64_t pf_shared_count(void);
/* kept.pyx: tensors that outlive their step under a name. */
uint64_t pf_state_next_number(pf_state *s); /* 0, 1, ...: for names that are used once */
const pf_type *pf_kept_tensor_type(void);   /* of the resources that hold them */
pf_status pf_state_keep(pf_state *s, pf_tensor *take, pf_str name, pf_error *err);
pf_tensor *pf_state_kept(pf_state *s, pf_str name);  /* new reference; NULL: none of that name */
pf_status pf_state_forget(pf_state *s, pf_str name); /* PF_NOT_FOUND: none of that name */
/* where all streams are: bytes needed, written if they fit */
int64_t pf_state_streams(pf_state *s, char *to, int64_t room);
void pf_state_seek(pf_state *s, uint64_t position, uint64_t shard);
/* what pf_state_streams wrote; streams it lacks begin anew; all or nothing */
pf_status pf_state_set_streams(pf_state *s, const char *data, int64_t n,
                               int32_t (*known)(void *arg, pf_str name), void *arg, pf_error *err);

typedef struct pf_rendezvous pf_rendezvous; /* one per step; may outlive it */
/* where a receiver wants its tensor; home NULL: anywhere on the host */
typedef struct {
  pf_device_entry *home;
  int32_t mem, pad;
} pf_reader;
/* called once, no lock held */
typedef void (*pf_recv_fn)(void *arg, pf_status s, pf_tensor *take, int32_t dead);
pf_rendezvous *pf_rendezvous_new(void);
void pf_rendezvous_ref(pf_rendezvous *r);
void pf_rendezvous_unref(pf_rendezvous *r);
/* twice: error */
pf_status pf_rendezvous_send(pf_rendezvous *r, pf_str key, pf_tensor *take, int32_t dead,
                             pf_error *err);
/* reader may be NULL */
pf_status pf_rendezvous_recv(pf_rendezvous *r, pf_str key, const pf_reader *reader, pf_recv_fn fn,
                             void *arg);
/* Called once, no lock held: a tensor does not wait any longer: it was taken, or is gone, or
 * never waited. */
typedef void (*pf_left_fn)(void *arg, int64_t bytes);
pf_status pf_rendezvous_send_as(pf_rendezvous *r, pf_str key, pf_tensor *take, int32_t dead,
                                pf_left_fn left, void *arg, int64_t bytes,
                                pf_error *err); /* `left` is called on failure, too */
/* A tensor that can be had: fn(arg, 1) once somebody waits for it, or it was sent; fn(arg, 0):
 * the rendezvous ended.  Failure: fn is not called. */
typedef void (*pf_wanted_fn)(void *arg, int32_t wanted);
pf_status pf_rendezvous_offer(pf_rendezvous *r, pf_str key, int64_t bytes, pf_wanted_fn fn,
                              void *arg);
int32_t pf_rendezvous_withdraw(pf_rendezvous *r, pf_str key, const void *arg);
/* wakes every waiter; later calls return why */
void pf_rendezvous_abort(pf_rendezvous *r, pf_status why);
void pf_rendezvous_fail(pf_rendezvous *r, const pf_error *why);
int32_t pf_rendezvous_error(pf_rendezvous *r, pf_error *out);
int32_t pf_rendezvous_reader(pf_rendezvous *r, pf_str key, pf_reader *out);

/* What steps wait for, told row by row (glance.pyx, step/waiting.pyx). */
enum {
  /* one of a task's table; text: why it failed; a: 1 early, 2 open; b: bytes that wait in it */
  PF_GLANCE_STEP = 1,
  /* of such a step; text: the key; a: 1 sent and not received, 2 waited for; b: bytes */
  PF_GLANCE_KEY,
  PF_GLANCE_RUN,
  PF_GLANCE_CALL,
  PF_GLANCE_BLOCK,
  PF_GLANCE_NODE, /* waiting.pyx */
  PF_GLANCE_RESOURCE,
  PF_GLANCE_USE,
  PF_GLANCE_SOURCE /* uses.pyx */
};
/* what a call that waits does, and so who ends it */
enum {
  PF_ROLE_PUTS = 1,
  PF_ROLE_TAKES,    /* a kernel's, at a resource */
  PF_ROLE_RECEIVES, /* a tensor, under a key of its step: who sends it */
  PF_ROLE_CALLS,    /* a function: what runs within this step */
  PF_ROLE_SENDS     /* a tensor for which there is no room yet: who takes others */
};
typedef struct pf_glance_row {
  /* size: of the row with all that follows; text: the lengths of its texts */
  int32_t kind, size, text[3];
  int32_t n_numbers; /* uint32_t before the texts */
  uint64_t session, step;
  int64_t id, age_ns, a, b;
} pf_glance_row;
/* zero: empty */
typedef struct pf_glance {
  char *data;
  int64_t n, room;
  int32_t cut, n_met;
  pf_resource *met[64]; /* at which calls wait; they are asked when no lock is held */
} pf_glance;
/* fills in size and text */
void pf_glance_add(pf_glance *g, pf_glance_row row, pf_str a, pf_str b, pf_str c);
/* row.n_numbers of them */
void pf_glance_add_with(pf_glance *g, pf_glance_row row, const uint32_t *numbers, pf_str a,
                        pf_str b);
void pf_glance_free(pf_glance *g);
void pf_glance_meet(pf_glance *g, pf_resource *r); /* once for each; takes a reference of its own */
void pf_glance_resources(pf_glance *g); /* the rows of those that were met; no lock is held */
/* uses.pyx: who used a resource last */
void pf_resource_used(pf_resource *r, pf_step_key key, int32_t role, pf_str node, pf_str op);
void pf_uses_free(pf_uses *u);
void pf_rendezvous_glance(pf_rendezvous *r, pf_glance *g, pf_glance_row row);

/* The steps of a task by their key (step_table.pyx). */
/* a partition that runs here; in its owner's memory */
typedef struct pf_member {
  struct pf_member *next, *prev;
  /* the step failed elsewhere, or is cleaned up; with the task's lock held: it leaves a note, no
   * more */
  void (*stop)(void *arg, const pf_error *why);
  void *arg;
} pf_member;
/* new reference; failure: m is not a member */
pf_status pf_task_begin(pf_task *t, pf_step_key key, pf_member *m, pf_rendezvous **out,
                        pf_error *err);
/* the partition is over; the step is not, until it is cleaned up */
void pf_task_end(pf_task *t, pf_step_key key, pf_member *m);
pf_status pf_task_put(pf_task *t, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead,
                      pf_error *err);
pf_status pf_task_put_as(pf_task *t, pf_step_key key, pf_str name, pf_tensor *take, int32_t dead,
                         pf_left_fn left, void *arg, int64_t bytes, pf_error *err);
pf_status pf_task_offer(pf_task *t, pf_step_key key, pf_str name, int64_t bytes, pf_wanted_fn fn,
                        void *arg, pf_error *err);
/* it has begun here, though no partition of it runs: until pf_task_clean */
pf_status pf_task_open(pf_task *t, pf_step_key key, pf_error *err);
/* 1: the offer of `arg` is none any more */
int32_t pf_task_withdraw(pf_task *t, pf_step_key key, pf_str name, const void *arg);
pf_status pf_task_take(pf_task *t, pf_step_key key, pf_str name, const pf_reader *reader,
                       pf_recv_fn fn, void *arg, pf_error *err);
int32_t pf_task_over(pf_task *t, pf_step_key key); /* 1: it failed or is over here */
/* why the step failed; 0: it did not, or is not there */
int32_t pf_task_error(pf_task *t, pf_step_key key, pf_error *out);
int32_t pf_task_reader(pf_task *t, pf_step_key key, pf_str name, pf_reader *out);
pf_status pf_task_fail(pf_task *t, pf_step_key key, const pf_error *why);
/* the step is over everywhere; what comes later finds that */
void pf_task_clean(pf_task *t, pf_step_key key);
void pf_task_clean_session(pf_task *t, uint64_t session);
void pf_task_forget_steps(pf_task *t);
void pf_task_glance(pf_task *t, pf_glance *g); /* its steps that are not gone, and their keys */
/* steps that others spoke of but that did not begin for so long; how many */
int64_t pf_task_sweep(pf_task *t, int64_t patience_ns);

/* Ways from a task to others (routes.pyx). */
/* How whoever sends is told later, where there is no room now: begin(ctx), on its thread,
 * prepares for that (NULL: it cannot, as its step was cancelled); then sent(what begin returned,
 * status) is called once, on any thread, perhaps before the function that sends returns
 * PF_PENDING. */
typedef struct {
  void *(*begin)(void *ctx);
  void (*sent)(void *arg, pf_status st);
  void *ctx;
} pf_pend;
typedef pf_status (*pf_route_fn)(void *arg, pf_step_key key, pf_str name, pf_tensor *take,
                                 int32_t dead, const pf_pend *pend, pf_error *err);
/* hands a tensor (NULL: dead) to a peer's step; any thread, several at once, no lock held.
     * pend NULL: it may wait */
/* in place of an older one; fn NULL: there is none any more.  `drop` is called once, when nobody
 * uses the route any more; PF_RESOURCE_EXHAUSTED: it was not taken */
pf_status pf_task_route(pf_task *t, const char *peer, pf_route_fn fn, void *arg,
                        void (*drop)(void *arg));
/* a task of this process */
pf_status pf_task_route_to(pf_task *t, const char *peer, pf_task *there);
pf_status pf_task_post(pf_task *t, pf_str peer, pf_step_key key, pf_str name, pf_tensor *take,
                       int32_t dead, const pf_pend *pend, pf_error *err);
void pf_task_drop_routes(pf_task *t);

/* ========================================================= shape and cost functions (infer.pyx) */
/* what a pf_infer is: begun by pf_infer_start */
typedef struct pf_infer_call {
  struct pf_infer known; /* what kernel.h tells of it */
  const pf_node *node;   /* attributes */
  const pf_op_def *def;
  const pf_signature *sig;
  const pf_shape *in_shapes;        /* n_in */
  const DLTensor *const *in_values; /* n_in, entries may be NULL; or NULL */
  pf_shape *out_shapes;             /* n_out, start unknown */
  pf_arena *arena;                  /* for the dims of out_shapes */
  pf_error *err;
} pf_infer_call;
void pf_infer_start(pf_infer_call *c); /* before the rest is filled in */
/* after an op's shape function: its failure, always with a text */
pf_status pf_infer_end(pf_infer_call *c, pf_status s);
int32_t pf_infer_n(pf_infer *i, int32_t output);
pf_status pf_infer_dims(pf_infer *i, int32_t in, const int64_t **dims, int32_t *ndim);
int32_t pf_infer_type(pf_infer *i, int32_t in);
const DLTensor *pf_infer_constant(pf_infer *i, int32_t in);
pf_status pf_infer_attr(pf_infer *i, const char *name, int32_t kind, void *value);
pf_status pf_infer_set(pf_infer *i, int32_t out, const int64_t *dims, int32_t ndim);
pf_status pf_infer_fail(pf_infer *i, const char *msg, int64_t len);

/* ========================================================= other plugins' functions (blame.pyx) */
/* what a thread runs of a plugin's; on its stack */
typedef struct pf_blame {
  const char *what, *plugin;
  pf_str node, op;
  struct pf_blame *outer;
} pf_blame;
int32_t pf_is_own(const char *plugin_id);
void pf_blame_watch(void); /* fatal signals, and exit(), name the function that a thread was in */
void pf_blame_enter(pf_blame *b, const char *what, const char *plugin, pf_str node, pf_str op);
void pf_blame_leave(pf_blame *b);
pf_blame *pf_blame_swap(pf_blame *b); /* this thread's from now on; what it was */
pf_blame *pf_blame_now(void);
#endif
