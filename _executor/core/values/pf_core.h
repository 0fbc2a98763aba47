/* The core's shared structures and functions.  Internal: plugins see only pyflow/kernel.h.
 *
 * One header, many modules: each _executor/core/X.pyx defines the functions of its section (`cdef public`), the
 * others call them through core.pxd's extern declarations.  No Python object, no exception: every function
 * is `noexcept nogil` and returns a pf_status or NULL; messages go into a pf_error.
 *
 * Ownership words: "takes" - the callee owns the reference from now on; "lends" - valid during the call only;
 * "new reference" - the caller must unref.
 *
 * Lock order (outermost first): pf_state.lock, pf_variable locks by id, pf_frame.lock, pf_pool.lock, spin locks.
 */
#ifndef PF_CORE_H
#define PF_CORE_H
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "pyflow/kernel.h"
#include "pf_atomic.h"

#ifndef PY_LONG_LONG
#define PY_LONG_LONG long long      /* Cython's spelling */
#endif
typedef pf_status (*pf_make_fn)(pf_ctx *, void *arg, void **obj);
typedef void (*pf_range_fn)(void *arg, int64_t lo, int64_t hi, int32_t worker);
static inline DLTensor **pf_ctx_out(pf_ctx *c) { return (DLTensor **)c->out; }

/* ================================================================ errors and text */
typedef struct pf_error {
  pf_status code;
  int32_t pad;
  char node[512];
  char op[96];
  char device[96];
  char message[4096];
} pf_error;

/* Sets code and message once: the first error wins.  Returns the code. */
__attribute__((format(printf, 3, 4)))
static inline pf_status pf_error_set(pf_error *e, pf_status code, const char *fmt, ...) {
  if (e && !e->code) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    e->code = code;
  }
  return code;
}
static inline void pf_copy_text(char *to, size_t room, const char *from, int64_t n) {
  size_t k = n < 0 || !from ? 0 : (size_t)n < room - 1 ? (size_t)n : room - 1;
  if (k) memcpy(to, from, k);
  to[k] = 0;
}
static inline pf_str pf_str_of(const char *s) { pf_str r; r.data = s; r.len = s ? (int64_t)strlen(s) : 0; return r; }
static inline int pf_str_eq(pf_str a, pf_str b) { return a.len == b.len && (!a.len || !memcmp(a.data, b.data, (size_t)a.len)); }
static inline int pf_str_is(pf_str a, const char *b) { return pf_str_eq(a, pf_str_of(b)); }
static inline uint64_t pf_str_hash(pf_str s) {
  uint64_t h = 1469598103934665603ull;
  for (int64_t i = 0; i < s.len; i++) h = (h ^ (unsigned char)s.data[i]) * 1099511628211ull;
  return h ^ (h >> 29);
}

/* Arena: memory freed all at once (graphs, plans).  pf_arena_alloc zeroes, aligns to 16; NULL: out of memory or over the cap. */
typedef struct pf_chunk { struct pf_chunk *next; size_t used, room; } pf_chunk;
typedef struct { pf_chunk *head; uint64_t total, cap; } pf_arena;
static inline void *pf_arena_alloc(pf_arena *a, uint64_t n) {
  n = (n + 15) & ~(uint64_t)15;
  if (a->cap && a->total + n > a->cap) return NULL;
  if (!a->head || a->head->room - a->head->used < n) {
    size_t room = n > 65536 - 64 ? n : 65536 - 64;
    pf_chunk *c = (pf_chunk *)calloc(1, sizeof(pf_chunk) + 16 + room);
    if (!c) return NULL;
    c->room = room;
    if (a->head && n > 32768) { c->next = a->head->next; a->head->next = c; c->used = n; a->total += n;
      return (void *)(((uintptr_t)(c + 1) + 15) & ~(uintptr_t)15); }
    c->next = a->head;
    a->head = c;
  }
  char *base = (char *)(((uintptr_t)(a->head + 1) + 15) & ~(uintptr_t)15);
  void *p = base + a->head->used;
  a->head->used += n;
  a->total += n;
  return p;
}
static inline void pf_arena_free(pf_arena *a) {
  pf_chunk *c = a->head;
  while (c) { pf_chunk *next = c->next; free(c); c = next; }
  a->head = NULL;
  a->total = 0;
}
static inline pf_str pf_arena_str(pf_arena *a, pf_str s) {   /* a NUL-terminated copy */
  char *p = (char *)pf_arena_alloc(a, (uint64_t)s.len + 1);
  pf_str r = {p, p ? s.len : 0};
  if (p && s.len) memcpy(p, s.data, (size_t)s.len);
  return r;
}

typedef void (*pf_problem_fn)(void *arg, const char *text);          /* a name for a parameter type, for Cython */

/* ================================================================ tensors (tensor.pyx) */
struct pf_object;
enum { PF_MAX_NDIM = 254, PF_INLINE_DIMS = 8 };
enum {
  PF_T_BORROWED = 1,    /* a caller's memory: never mutated, forwarded, or kept beyond the step without a copy */
  PF_T_HANDLE = 2,      /* dl_tensor.data is a pf_object: a variable (ref) or resource handle */
  PF_T_VIEW = 4,        /* shares the data of `owner`, another pf_tensor */
  PF_T_FOREIGN = 8,     /* `owner` is a DLManagedTensorVersioned whose deleter we call */
  PF_T_PLACED = 16,     /* its data lie in the running step's extent (buffers.pyx): copied if they leave the step */
  PF_T_WATCHED = 32,    /* checking build: a red zone follows the data */
  PF_T_NAMED = 64       /* a handle that names a variable's value under a shape and type of its own; `owner`: what it was */
};
typedef struct pf_tensor {
  DLManagedTensorVersioned m;   /* m.deleter drops one reference; m.manager_ctx is this tensor */
  pf_a32 refs;
  int32_t type;                 /* PF_FLOAT32 ... */
  uint32_t flags;
  uint32_t klass;               /* the allocator's size class of this block */
  int64_t nbytes;               /* of the data; strings: of the pf_str array */
  void (*release)(struct pf_tensor *); /* the last reference went */
  void *owner;
  void *device;                 /* opened device; NULL: host memory */
  int64_t dims[PF_INLINE_DIMS];
} pf_tensor;
_Static_assert(sizeof(void *) != 8 || sizeof(pf_tensor) == 192, "tensor header is three cache lines");

static inline pf_tensor *pf_tensor_of(const DLTensor *t) { return (pf_tensor *)((char *)t - offsetof(pf_tensor, m.dl_tensor)); }
static inline DLTensor *pf_dl(pf_tensor *t) { return &t->m.dl_tensor; }
static inline void pf_tensor_ref(pf_tensor *t) { pf_a32_add_rlx(&t->refs, 1); }
static inline void pf_tensor_unref(pf_tensor *t) { if (t && pf_a32_dec_last(&t->refs)) t->release(t); }
static inline int pf_tensor_unique(pf_tensor *t) { return pf_a32_load(&t->refs) == 1; }
static inline void pf_dl_unref(DLTensor *t) { pf_tensor_unref(pf_tensor_of(t)); }

struct pf_object;
int64_t pf_type_size(int32_t type);                 /* bytes per element; pf_str for PF_STRING; 0: unknown type */
DLDataType pf_type_dl(int32_t type);
int32_t pf_reads_as(int32_t a, int32_t b);           /* 1: data of type a may be taken for b's: numbers both, handles both, or equal */
const char *pf_type_name(int32_t type);             /* "float", "int32", ... TF's lower-case names; "?" */
int32_t pf_type_from_name(pf_str name);             /* 0: unknown */
pf_status pf_checked_bytes(int32_t type, const int64_t *shape, int32_t ndim, int64_t *bytes); /* RESOURCE_EXHAUSTED/INVALID_ARGUMENT */
pf_tensor *pf_tensor_new(int32_t type, const int64_t *shape, int32_t ndim); /* uninitialised (strings empty); NULL */
pf_tensor *pf_tensor_wrap(int32_t type, const int64_t *shape, int32_t ndim, void *data, uint32_t flags,
                          void (*release_owner)(void *owner), void *owner);   /* foreign memory; release_owner may be NULL */
pf_tensor *pf_tensor_adopt(DLManagedTensorVersioned *steal, int32_t type);    /* our own ones are unwrapped, not wrapped */
pf_tensor *pf_tensor_view_as(pf_tensor *src, int32_t type, const int64_t *shape, int32_t ndim); /* the bytes under another type */
pf_tensor *pf_tensor_view(pf_tensor *src, const int64_t *shape, int32_t ndim);/* new header over the same data, refs src */
pf_tensor *pf_tensor_copy(const pf_tensor *src);                              /* deep, also strings */
pf_tensor *pf_tensor_named(struct pf_object *take, pf_tensor *snapshot);      /* PF_T_NAMED, in the snapshot's shape and type */
pf_tensor *pf_tensor_handle(struct pf_object *take);                          /* PF_RESOURCE scalar; takes the object's reference */
pf_status pf_tensor_str_get(const DLTensor *t, int64_t i, pf_str *out);
pf_status pf_tensor_str_set(DLTensor *t, int64_t i, pf_str value);
/* strings.pyx */
void pf_strings_start(pf_tensor *t);                /* empty strings; then pf_strings_free when it ends */
void pf_strings_free(pf_tensor *t);
pf_status pf_strings_own(pf_tensor *t);             /* elements that name others' memory: copied, all at once */
void *pf_mem_alloc(uint64_t bytes);                 /* 64-aligned, counted, cached; NULL over the cap */
void pf_mem_free(void *p);
typedef struct { int64_t in_use, peak, cached, allocs, cap; } pf_mem_stats;
void pf_mem_get_stats(pf_mem_stats *out);
int64_t pf_mem_in_use(void);            /* quickly: threads' last 64 KB may be missing */
void pf_mem_reset_peak(void);
void pf_mem_set_cap(int64_t bytes);                 /* 0: none */
void pf_mem_trim(void);                             /* gives cached blocks back to the system */
pf_tensor *pf_tensor_settled(pf_tensor *take);      /* itself, or a copy on the heap if it lies in an extent; NULL */
void pf_extents_trim(void);                         /* gives cached extents back to the system */
int64_t pf_extents_cached(void);                    /* their bytes */

/* ================================================================ graphs (proto.pyx) */
typedef struct pf_attr_value {
  int32_t kind;                 /* PF_ATTR_*, perhaps | PF_ATTR_LIST; 0: absent */
  int32_t type;                 /* PF_ATTR_TYPE */
  int64_t i;                    /* INT, BOOL */
  double f;
  pf_str s;                     /* STRING, FUNC */
  pf_shape shape;
  pf_tensor *tensor;            /* TENSOR: the graph owns the reference */
  pf_list list;                 /* LIST: int64_t, double, int32_t (bool, type), pf_str, pf_shape, pf_const items */
} pf_attr_value;
typedef struct { pf_str name; pf_attr_value value; } pf_node_attr;
typedef struct { int32_t node, output; } pf_input;  /* output -1: control */
typedef struct pf_node {
  pf_str name, op, device;
  int32_t n_in, n_ctl;          /* inputs[0..n_in) data, then n_ctl controls */
  pf_input *inputs;
  int32_t n_attrs, pad;
  pf_node_attr *attrs;
} pf_node;
typedef struct pf_graph {
  pf_arena arena;
  int32_t n_nodes, producer, min_consumer, pad;
  pf_node *nodes;
  int32_t n_tensors, tensors_room;
  pf_tensor **tensors;          /* every tensor attribute, for freeing */
} pf_graph;
/* Reads a serialised GraphDef of untrusted bytes: names resolved to indices, every size checked, memory capped. */
pf_status pf_graph_read(const void *bytes, int64_t n, pf_graph **out, pf_error *err);
void pf_graph_free(pf_graph *g);
const pf_attr_value *pf_node_attr_find(const pf_node *n, const char *name);   /* NULL: absent */

/* ================================================================ signatures (sig.pyx) */
typedef struct { const char *name, *sig; int32_t flags; } pf_op_sig;
extern const pf_op_sig pf_op_table[];               /* generated by the build from the @op blocks; ended by NULL */
typedef struct { pf_str name; int32_t type, is_ref; int32_t type_attr, number_attr, list_attr, pad; } pf_arg_def; /* attrs: index or -1 */
typedef struct {
  pf_str name;
  int32_t kind, has_default, has_min, n_allowed;    /* allowed: types (n_allowed int32) or strings */
  int64_t min;
  const int32_t *allowed_types;
  const pf_str *allowed_strings;
  pf_attr_value value;                              /* the default */
} pf_attr_def;
typedef struct pf_op_def {
  pf_str name, sig;
  int32_t flags, n_in, n_out, n_attrs;
  pf_arg_def *in, *out;
  pf_attr_def *attrs;
  pf_status (*infer)(pf_infer *);
  const char *doc, *plugin;                         /* plugin: NULL for the table's ops */
} pf_op_def;
const pf_op_def *pf_op_find(pf_str name);           /* parses on first use; thread-safe; NULL */
pf_status pf_op_register(const char *name, const char *sig, int32_t flags, pf_status (*infer)(pf_infer *),
                         const char *doc, const char *plugin, pf_error *err); /* copies the text; equal again: OK */
int32_t pf_op_count(void);
const pf_op_def *pf_op_at(int32_t i);
typedef struct pf_signature {                       /* a node's flat view, in the graph's arena */
  int32_t n_in, n_out, n_in_args, n_out_args;
  int32_t *in_type, *out_type;                      /* base types */
  int32_t *in_start, *out_start;                    /* n args + 1 entries */
  uint8_t *in_ref, *out_ref;
} pf_signature;
/* Checks arity and every attribute against the op; fills `out`. */
pf_status pf_node_resolve(pf_graph *g, const pf_node *n, const pf_op_def *op, pf_signature *out, pf_error *err);
const pf_attr_value *pf_attr_or_default(const pf_node *n, const pf_op_def *op, const char *name); /* NULL: neither */

/* ================================================================ plugins, kernels, devices (registry.pyx) */
typedef struct pf_kernel_entry {
  const pf_kernel *kernel;      /* a full-size copy, missing fields zero */
  const char *plugin_id, *origin;
  struct pf_kernel_entry *next; /* same op, best first */
  void *where;                  /* parsed constraints */
  int32_t foreign, pad;         /* of another plugin than our own (foreign.pyx) */
} pf_kernel_entry;
/* Takes a plugin's tables: checks versions, critical flags, attribute and argument names; calls start.  Problems are
 * reported one by one; returns OK if at least the plugin itself is usable. */
pf_status pf_plugin_register(const pf_plugin *p, const char *origin,
                             void (*problem)(void *arg, const char *text), void *arg, pf_error *err);
void pf_plugins_stop(void);     /* after pf_watch_stop: closes devices, stops plugins, once */
int32_t pf_host_ended(void);    /* 1: that happened; nothing of a plugin's is called any more */
/* The first kernel after `after` (NULL: the best) that serves the node on the device type; *out NULL and an error that
 * lists what exists when there is none. */
pf_status pf_kernel_select(const pf_node *n, const pf_op_def *op, const pf_signature *sig, const char *device_type,
                           const pf_kernel_entry *after, const pf_kernel_entry **out, pf_error *err);
/* Zeroed state with the attributes written; memory from the arena. */
pf_status pf_kernel_state(const pf_kernel_entry *k, const pf_node *n, const pf_op_def *op, pf_arena *arena,
                          void **state, pf_error *err);
int32_t pf_kernel_count(void);
const pf_kernel_entry *pf_kernel_at(int32_t i);
typedef struct pf_device_entry {
  const pf_device *vtable;              /* a full-size copy; NULL: a CPU */
  void *dev;                            /* opened; NULL: not yet, or nothing to open */
  int32_t ordinal, own_memory;          /* own_memory: host pointers mean nothing there */
  char name[64];
  char type[24];
  void *stream, *in, *out;              /* kernels, copies in, copies out; NULL: the device works synchronously */
  pf_a32 ready;                         /* 1: the streams above are open (pf_opening_lock) */
  int32_t pad;
  pf_a64 in_use, peak, limit, allocs;   /* bytes of its own memory; limit 0: none */
  int32_t fork_gen, pad2;               /* of the process that opened it: its threads and streams are there, not in children */
  char problem[256];                    /* why the last `open` failed (pf_opening_lock); "" */
} pf_device_entry;
pf_device_entry *pf_device_find(const char *type, int32_t ordinal);  /* opens on first use; "CPU" of any ordinal exists; NULL */
int32_t pf_device_count(void);
pf_device_entry *pf_device_at(int32_t i);
int32_t pf_device_absent(int32_t i, const char **type, const char **why); /* types without devices that say why; 0: no more */
pf_status pf_registry_note_absent(const char *type, const char *why);
void pf_device_problem(const char *type, int32_t ordinal, char *text, int32_t room); /* why pf_device_find gave NULL */
static inline const char *pf_device_name(const void *entry, const char *none) {
  return entry ? ((const pf_device_entry *)entry)->name : none;
}
pf_device_entry *pf_device_of(const void *dev);                      /* by what `open` gave; NULL */

/* ================================================================ memory and streams of devices (device.pyx) */
struct pf_step;
struct pf_call;
struct pf_worker;
struct pf_job;
/* A tensor in the device's memory (mem DEVICE), usable by work enqueued on `stream` from now on, or in host memory the
 * device reaches (PINNED).  Waits for pending work and tries again when memory is short.  NULL: out of memory. */
pf_tensor *pf_device_tensor(pf_device_entry *d, int32_t mem, void *stream, int32_t type, const int64_t *shape, int32_t ndim);
pf_tensor *pf_device_duplicate(const pf_tensor *src);                /* on its own device, in stream order; NULL */
pf_status pf_device_upload(pf_device_entry *d, pf_tensor *host, pf_tensor **out); /* waits until it is there */
int32_t pf_fork_generation(void);                                    /* pool.pyx */
int32_t pf_device_lost(const pf_device_entry *d);                    /* 1: opened before this process was forked off */
int32_t pf_device_peers(pf_device_entry *a, pf_device_entry *b);      /* 1: values go from a to b without the host */
pf_status pf_device_wait(pf_device_entry *d);                        /* until its streams did all work enqueued so far */
/* `take` goes where output i of call c belongs.  OK: there already, or in stream order; PENDING: done(ticket) follows. */
pf_status pf_bring_output(struct pf_call *c, int32_t i, pf_tensor *take);
/* Continues with fn on a worker when the call's stream did its work so far, then ends the call; c is deferred already. */
pf_status pf_after_stream(struct pf_call *c, pf_status (*fn)(pf_ctx *, void *), void *arg);
void pf_job_run(struct pf_worker *w, struct pf_job *job);            /* a finished job, on a worker; it may end the step */
void pf_step_check_devices(struct pf_step *s);
int32_t pf_step_drain(struct pf_step *s);                            /* 1: devices still work; the last job ends the step */

typedef struct pf_compiler_entry { pf_compiler compiler; const char *plugin_id; } pf_compiler_entry;
int32_t pf_compiler_count(void);                    /* plugins that offer "pyflow.compiler/1" */
const pf_compiler_entry *pf_compiler_at(int32_t i); /* by plugin id; NULL */

/* ================================================================ state (state.pyx) */
enum { PF_OBJ_VARIABLE = 1, PF_OBJ_RESOURCE = 2 };
typedef struct pf_object {
  pf_a32 refs;
  int32_t kind;
  void (*destroy)(struct pf_object *);
  char *container, *name;
} pf_object;
static inline void pf_object_ref(pf_object *o) { pf_a32_add_rlx(&o->refs, 1); }
static inline void pf_object_unref(pf_object *o) { if (o && pf_a32_dec_last(&o->refs)) o->destroy(o); }
typedef struct pf_variable {
  pf_object base;
  uint64_t id;                  /* the order in which several are locked */
  pthread_mutex_t lock;         /* guards value */
  pf_tensor *value;             /* NULL: uninitialised */
  int32_t type, ndim;           /* ndim -1: any shape */
  int64_t *dims;                /* -1: any */
  int32_t planned, pad;         /* plans hold it: deleting takes its value away, the object stays */
} pf_variable;
typedef struct pf_resource { pf_object base; pf_type type; void *obj; int32_t scope, pad; } pf_resource; /* type: full-size copy */

typedef struct pf_state pf_state;                   /* a session's default container, plus the process's named ones by lookup */
pf_state *pf_state_new(const char *name);
void pf_state_ref(pf_state *s);
void pf_state_unref(pf_state *s);
void pf_state_close(pf_state *s, pf_status why);    /* aborts and forgets everything in the default container */
void pf_state_end(pf_state *s);                     /* watched steps that begin from now on are cancelled */
int32_t pf_state_ended(pf_state *s);
void pf_containers_reset(const char *const *names, int32_t n); /* n 0: all named containers */
pf_status pf_state_variable(pf_state *s, pf_str container, pf_str name, int32_t type, pf_shape shape,
                            pf_variable **out, pf_error *err);  /* new reference; made on first use */
pf_status pf_state_resource(pf_state *s, pf_str container, pf_str name, const pf_type *type,
                            pf_status (*make)(pf_ctx *, void *arg, void **obj), pf_ctx *ctx, void *arg,
                            pf_resource **out, pf_error *err);  /* new reference; make NULL: lookup only */
pf_status pf_state_delete(pf_state *s, pf_object *o);
pf_resource *pf_resource_new(const pf_type *type, void *steal, int32_t scope, pf_str container, pf_str name); /* one reference */
pf_tensor *pf_variable_read(pf_variable *v);        /* new reference to the current value (a snapshot); NULL: uninitialised */
/* With v->lock held: */
pf_tensor *pf_variable_writable(pf_variable *v);    /* value, unshared (copied if not); lent; NULL: uninitialised or no memory */
pf_status pf_variable_set(pf_variable *v, pf_tensor *take, int32_t any_shape, pf_error *err); /* checks type and shape */
void pf_state_rng(pf_state *s, pf_str name, uint64_t seed, uint64_t seed2, uint64_t n, uint64_t *key, uint64_t *counter); /* two each */
    /* seeds both 0: from the system's entropy, once per name.  key = {seed, 0}, counter = {offset, seed2}; advances by n */

typedef struct pf_rendezvous pf_rendezvous;         /* one per step (or longer: partial_run) */
typedef void (*pf_recv_fn)(void *arg, pf_status s, pf_tensor *take, int32_t dead); /* called once, no lock held */
pf_rendezvous *pf_rendezvous_new(void);
void pf_rendezvous_ref(pf_rendezvous *r);
void pf_rendezvous_unref(pf_rendezvous *r);
pf_status pf_rendezvous_send(pf_rendezvous *r, pf_str key, pf_tensor *take, int32_t dead, pf_error *err); /* twice: error */
pf_status pf_rendezvous_recv(pf_rendezvous *r, pf_str key, pf_recv_fn fn, void *arg);
void pf_rendezvous_abort(pf_rendezvous *r, pf_status why); /* wakes every waiter; later calls return why */

/* ================================================================ shape and cost functions (infer.pyx) */
typedef struct pf_infer_call {      /* what a pf_infer is: begun by pf_infer_start */
  struct pf_infer known;            /* what kernel.h tells of it */
  const pf_node *node;              /* attributes */
  const pf_op_def *def;
  const pf_signature *sig;
  const pf_shape *in_shapes;        /* n_in */
  const DLTensor *const *in_values; /* n_in, entries may be NULL; or NULL */
  pf_shape *out_shapes;             /* n_out, start unknown */
  pf_arena *arena;                  /* for the dims of out_shapes */
  pf_error *err;
} pf_infer_call;
void pf_infer_start(pf_infer_call *c);                      /* before the rest is filled in */
pf_status pf_infer_end(pf_infer_call *c, pf_status s);      /* after an op's shape function: its failure, always with a text */
int32_t pf_infer_n(pf_infer *i, int32_t output);
pf_status pf_infer_dims(pf_infer *i, int32_t in, const int64_t **dims, int32_t *ndim);
int32_t pf_infer_type(pf_infer *i, int32_t in);
const DLTensor *pf_infer_constant(pf_infer *i, int32_t in);
pf_status pf_infer_attr(pf_infer *i, const char *name, int32_t kind, void *value);
pf_status pf_infer_set(pf_infer *i, int32_t out, const int64_t *dims, int32_t ndim);
pf_status pf_infer_fail(pf_infer *i, const char *msg, int64_t len);

#include "pf_exec.h"
#endif
