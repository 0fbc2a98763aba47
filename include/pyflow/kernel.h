/* pyflow/kernel.h - the kernel plugin ABI, the whole of it.  Version 1.4 (PF_ABI_MINOR); frozen at
 * 1.0: since then it only grows.
 *
 * A plugin is a shared library with ONE exported symbol,
 *
 *     PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host);
 *
 * and no undefined symbol toward the host: everything it may call is in the `pf_host` it is given.
 * The returned tables are static data of the plugin and stay valid for ever (the host never unloads
 * a plugin).
 *
 * Rules of growth
 *   1. Every struct starts with its `size`, as its writer's compiler saw it.  Fields are only
 *      appended. A reader takes min(size, own size); what is missing reads as zero, and zero always
 *      means "none" or "default".  Nobody writes past the peer's size.  Arrays of structs are
 *      arrays of POINTERS ended by NULL.
 *   2. `flags`: the low 16 bits are hints a host may ignore; the high 16 bits are CRITICAL - a host
 *      that does not know one of them refuses the object (PF_FLAG_CRITICAL_MASK).
 *   3. Optional features are named extensions, found through `extension("pyflow.transport/1")`.
 *   4. A plugin, kernel or op states the minor version it needs (`min_minor`); an older host
 *      refuses it by name and says which version it offers.
 *
 * Rules of calling
 *   5. No exception, longjmp or abort crosses this boundary.  Failure is a returned pf_status, with
 *      a message given to `fail`; the host adds node, op, plugin, device and the user's source
 *      line.
 *   6. Strings are (pointer, length), not NUL-terminated unless said.  Names in static tables are
 *      NUL-terminated.
 *   7. Kernel state is const in `compute`: steps run concurrently on several threads.
 *   8. Compute threads come only from `parallel_for` and `post`.  A plugin may own progress threads
 *      (NCCL, RDMA, gRPC), never a compute pool.
 *   9. Inputs belong to the host and must not be written, unless `forward` handed them over as an
 *      output.
 *  10. A tensor given as `steal` is the host's from then on, whatever the call returns: on an error
 *      it has been released.
 *  11. Structs passed or returned by value (pf_str, pf_shape, pf_const, pf_list, pf_var) can never
 *      grow: they have no size.
 *
 * "Since" is 1.0 for everything that does not say another version.  Threads: [any] any thread;
 * [compute] inside init/compute, on the thread that runs it, or between PF_PENDING and `done`;
 * [start] while the plugin is being loaded.
 */
#ifndef PYFLOW_KERNEL_H
#define PYFLOW_KERNEL_H
#include <stddef.h>
#include <stdint.h>
#include "tensor.h"

#ifndef PF_EXPORT
#if defined(_WIN32)
#define PF_EXPORT_ATTR __declspec(dllexport)
#else
#define PF_EXPORT_ATTR __attribute__((visibility("default")))
#endif
#ifdef __cplusplus
#define PF_EXPORT extern "C" PF_EXPORT_ATTR
#else
#define PF_EXPORT PF_EXPORT_ATTR
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif
/*PF:BEGIN  (the region a cffi cdef parses, after tensor.h's) */

/* -------------------------------------------------------------- versions, status, element types */
enum { PF_ABI_MAJOR = 1, PF_ABI_MINOR = 4 };

typedef int32_t pf_status;
/* the absl codes ... */
enum {
  PF_OK = 0,
  PF_CANCELLED = 1,
  PF_UNKNOWN = 2,
  PF_INVALID_ARGUMENT = 3,
  PF_DEADLINE_EXCEEDED = 4,
  PF_NOT_FOUND = 5,
  PF_ALREADY_EXISTS = 6,
  PF_PERMISSION_DENIED = 7,
  PF_RESOURCE_EXHAUSTED = 8,
  PF_FAILED_PRECONDITION = 9,
  PF_ABORTED = 10,
  PF_OUT_OF_RANGE = 11,
  PF_UNIMPLEMENTED = 12,
  PF_INTERNAL = 13,
  PF_UNAVAILABLE = 14,
  PF_DATA_LOSS = 15,
  PF_UNAUTHENTICATED = 16,
  PF_PENDING = -1, /* compute only, after `defer`: `done(ticket)` will follow */
  PF_DECLINE = -2  /* init only: a polite no; the next kernel in order is tried */
};

/* Element types: TensorFlow's DataType numbers, so that graphs keep their meaning.  DLPack's own
 * code is in DLTensor.dtype as well; this number tells qint8 from int8, resource and string from
 * bytes. */
enum {
  PF_INVALID_TYPE = 0,
  PF_FLOAT32 = 1,
  PF_FLOAT64 = 2,
  PF_INT32 = 3,
  PF_UINT8 = 4,
  PF_INT16 = 5,
  PF_INT8 = 6,
  PF_STRING = 7,
  PF_COMPLEX64 = 8,
  PF_INT64 = 9,
  PF_BOOL = 10,
  PF_QINT8 = 11,
  PF_QUINT8 = 12,
  PF_QINT32 = 13,
  PF_BFLOAT16 = 14,
  PF_QINT16 = 15,
  PF_QUINT16 = 16,
  PF_UINT16 = 17,
  PF_COMPLEX128 = 18,
  PF_FLOAT16 = 19,
  PF_RESOURCE = 20,
  PF_VARIANT = 21,
  PF_UINT32 = 22,
  PF_UINT64 = 23,
  PF_FLOAT8_E5M2 = 24,
  PF_FLOAT8_E4M3FN = 25,
  PF_INT4 = 29,
  PF_UINT4 = 30
};

typedef struct {
  const char *data;
  int64_t len;
} pf_str;

typedef struct pf_ctx pf_ctx; /* one call of one kernel; fields below */
/* one call of a shape or cost function; fields below, since 1.1 */
typedef struct pf_infer pf_infer;
typedef struct pf_host pf_host;
typedef struct pf_device pf_device;

/* ---------------------------------------------------------------- attributes
 * Declared by the kernel; the host checks them against the op's signature and fills the kernel's
 * state before `init`, at `offset`, with a value of the C type named here.  Pointers inside stay
 * valid as long as the state. */
enum {
  PF_ATTR_INT = 1,    /* int64_t */
  PF_ATTR_FLOAT = 2,  /* double */
  PF_ATTR_BOOL = 3,   /* int32_t, 0 or 1 */
  PF_ATTR_STRING = 4, /* pf_str */
  PF_ATTR_TYPE = 5,   /* int32_t, an element type */
  PF_ATTR_SHAPE = 6,  /* pf_shape */
  PF_ATTR_TENSOR = 7, /* pf_const */
  PF_ATTR_FUNC = 8,   /* pf_str: the function's name */
  PF_ATTR_LIST = 64   /* or-ed to one of the above: pf_list of that C type */
};
/* ndim -1: unknown; dim -1: unknown */
typedef struct {
  const int64_t *dims;
  int32_t ndim;
  int32_t pad;
} pf_shape;
typedef struct {
  const DLTensor *tensor;
  int32_t type;
  int32_t pad;
} pf_const;
typedef struct {
  const void *items;
  int64_t n;
} pf_list;
typedef struct {
  uint32_t size, flags;
  const char *name;
  int32_t kind, offset;
} pf_attr;
enum { PF_ATTR_OPTIONAL = 1 }; /* pf_attr.flags: absent in the op's signature leaves zeros */

/* ---------------------------------------------------------------- arguments */
enum {
  /* the device's own memory; strings, resources and refs are always on the host */
  PF_MEM_DEVICE = 0,
  PF_MEM_HOST = 1, /* plain host memory */
  /* host memory the device, or its network, reaches directly */
  PF_MEM_PINNED = 2,
  PF_MEM_REGISTERED = 3,
  /* pf_arg only.  An input: taken wherever it is; an output: made where its readers want it */
  PF_MEM_ANY = 4
};
/* pf_arg.mem takes DEVICE, HOST and ANY; `alloc` and `free` of a device are called with DEVICE and
 * PINNED, `tensor_new` with all but ANY */

/* says something about one named argument of the op; unnamed ones get zeros */
typedef struct {
  uint32_t size, flags;
  const char *name; /* the argument's name in the op's signature, input or output */
  /* where the kernel wants it or leaves it; devices without memory of their own ignore it */
  int32_t mem;
  /* outputs: 1 + the input (lists counted flat) whose buffer the result is written over when
   * nobody else needs it (`forward`); 0: none.  With PF_ARG_ALIAS: that it always shares */
  int32_t reuse;
} pf_arg;
/* pf_arg.flags, hints */
enum {
  /* this host-memory output of a stream kernel is written when compute returns; without it the
   * host waits for the stream before anybody reads it */
  PF_ARG_WRITTEN = 1,
  /* a PF_RESOURCE input: the variable behind it may have any element type, the kernel looks at
   * the dtype of what var_get gives */
  PF_ARG_ANY_TYPE = 2,
  /* since 1.1.  An output: the result is written over any one input of its size (not of a list
   * of several outputs); `reuse` is not looked at */
  PF_ARG_REUSE_ANY = 4,
  /* since 1.1.  An output that always is input `reuse` - 1, whole, perhaps under another shape
   * or type (`alias`); a list: that input and those behind it, one by one */
  PF_ARG_ALIAS = 8,
  PF_ARG_KEPT = 16,  /* since 1.1.  An input that outlives the call (a variable's new value) */
  PF_ARG_UNSET = 32, /* since 1.1.  An output whose elements may be anything (Empty) */
  /* a PF_RESOURCE input: 0, or the element type of the variable behind it << 8 */
  PF_ARG_TYPE_SHIFT = 8
};

/* ---------------------------------------------------------------- ops, kernels, plugins */
typedef struct {
  uint32_t size, flags;
  const char *name; /* "acme.LeakyRelu"; ops outside pyflow carry a prefix and a dot */
  const char *sig;  /* "x: T -> y: T; alpha: float = 0.2, T: {float, double}" (docs/plugins.md) */
  /* may be NULL: outputs of unknown shape; the host is pf_infer's (1.0: the one `start` got) */
  pf_status (*infer)(pf_infer *);
  uint32_t min_minor, pad;
  const char *doc;
} pf_op;
enum {
  /* has effects, or other results for equal inputs; any other op may be merged, folded or left out */
  PF_OP_STATEFUL = 1,
  PF_OP_COMMUTATIVE = 2,
  PF_OP_ALLOWS_UNINITIALIZED = 4
};

typedef struct {
  uint32_t size, flags;
  const char *op;     /* the op's name */
  const char *where;  /* type constraints, "T=float|double, Tidx=int32"; NULL: any */
  const char *device; /* "CPU", "GPU", "ACME_NPU": a pf_device.type; "*": any */
  int32_t priority;   /* higher wins; equal: the lower plugin id wins */
  uint32_t min_minor;
  const pf_attr *const *attrs; /* ended by NULL; may be NULL */
  const pf_arg *const *args;   /* ended by NULL; may be NULL */
  uint64_t state_size;         /* bytes of zeroed, 16-aligned state, attributes filled in */
  pf_status (*init)(pf_ctx *, void *state);          /* once per node of a plan; may be NULL */
  void (*fini)(void *state);                         /* once, after the last compute; may be NULL */
  pf_status (*compute)(pf_ctx *, const void *state); /* once per step and iteration, concurrently */
  pf_status (*cost)(pf_infer *, double *flops, double *bytes); /* may be NULL */
  const char *needs; /* "avx2,fma": not offered where missing; NULL: nothing */
} pf_kernel;
/* pf_kernel.flags: hints ... */
enum {
  PF_KERNEL_EXPENSIVE = 1,     /* worth its own task on another thread (about 10 us and more) */
  PF_KERNEL_DETERMINISTIC = 2, /* equal inputs give equal bits for any thread count */
  PF_KERNEL_ASYNC = 4,         /* may return PF_PENDING */
  /* may block its thread (file I/O): never shares a task with other nodes */
  PF_KERNEL_BLOCKING = 8,
  PF_KERNEL_URGENT = 16, /* start as early as possible (Send, copies) */
  /* since 1.1: for small arguments over in some microseconds: never sleeps, waits, or takes a
   * lock that others keep.  A host may then run it holding its interpreter's lock.  With
   * EXPENSIVE: brief where `cost` knows of a million flops at most */
  PF_KERNEL_BRIEF = 32,
  /* since 1.1: keeps no input beyond its call (`retain`) but those that are PF_ARG_KEPT.
   * Without it a kernel with a PF_RESOURCE input is taken to put the others into that, as a
   * queue does */
  PF_KERNEL_BORROWS = 64,
  /* since 1.4: its call may end the waits of others at the resource that it asks for: an enqueue */
  PF_KERNEL_PUTS = 128,
  /* since 1.4: its call may wait at that until others have put: a dequeue.  Both are for people:
   * who asks why nothing goes on learns who used the resource, and who could end the wait */
  PF_KERNEL_TAKES = 256,
  /* ... and critical ones */
  PF_KERNEL_STRIDED = 1 << 16, /* accepts inputs with strides and any alignment */
  PF_KERNEL_DEAD = 1 << 17,    /* is called with dead inputs too (Send); may call set_dead (Recv) */
  /* all such kernels of a step start in one total order on every task */
  PF_KERNEL_COLLECTIVE = 1 << 18,
  PF_FLAG_CRITICAL_MASK = -65536
};

typedef struct {
  uint32_t size, flags;
  const char *id;          /* "com.acme.leaky": unique, reverse domain */
  const char *version;     /* the plugin's own */
  const pf_op *const *ops; /* the three tables: ended by NULL, may be NULL */
  const pf_kernel *const *kernels;
  const pf_device *const *devices;
  /* once per host, before any init; an error quarantines the plugin */
  pf_status (*start)(const pf_host *);
  /* once, when that host ends: no step runs, devices are closed; not in a forked child */
  void (*stop)(const pf_host *);
  const void *(*extension)(const char *id);
  uint32_t abi_major, abi_minor; /* PF_ABI_MAJOR, PF_ABI_MINOR of the header it was built with */
  uint32_t min_minor, pad;
} pf_plugin;

/* ---------------------------------------------------------------- one call of a kernel
 * Built by the host; read by the kernel.  On the stack of the calling thread until `defer`. */
struct pf_ctx {
  uint32_t size, flags;
  const pf_host *host;
  const DLTensor *const *in; /* n_in inputs, list arguments laid out flat; NULL for a dead one */
  DLTensor *const *out;      /* n_out outputs: NULL until output, set_output or forward */
  const int32_t *in_type, *out_type; /* element types; out_type as the signature says */
  int32_t n_in, n_out;
  const int32_t *in_start, *out_start; /* argument a covers [start[a], start[a+1]) */
  int32_t n_in_args, n_out_args;
  void *dev;    /* the opened device (pf_device.open) */
  void *stream; /* the stream this node runs on; NULL on host devices */
  int64_t step; /* id of this step, unique in this process */
  uint64_t reserved[2];
};

/* ------------------------------------------------ one call of a shape or cost function (since 1.1)
 * Built by the host, on its stack.  A host of 1.0 (pf_host.minor 0) has nothing readable behind
 * the pointer. */
struct pf_infer {
  uint32_t size, flags;
  /* whose call this is: of several hosts in one process, the one to ask with `infer_*` */
  const pf_host *host;
};

/* ---------------------------------------------------------------- resources
 * Objects with a name that outlive a call: queues, stacks, readers, tables.  The host owns the
 * lifetime. */
/* since 1.4: what a resource says of itself to who asks why nothing goes on; made by the host */
typedef struct {
  uint32_t size, flags;
  /* what a PF_KERNEL_TAKES, a PF_KERNEL_PUTS waits at: "empty queue", "full queue"; "": it need
   * not */
  char takes[120], puts[120];
  /* how many puts have come of those that the first that takes waits for; 0: not known */
  int64_t there, needed;
  /* the numbers of those who put what is there, if they have such */
  int64_t n_sources, sources[64];
} pf_wait_state;
/* pf_wait_state.flags: nobody puts; whoever took it gives it back, as a lock */
enum {
  PF_WAIT_HELD = 1,
  /* nobody puts: what is taken is computed when it is asked for, as by an iterator */
  PF_WAIT_WORKS = 2
};
typedef struct {
  uint32_t size, flags;
  const char *id;           /* "pyflow.FIFOQueue": a lookup with another id fails */
  void (*unref)(void *obj); /* the last reference went */
  /* the container is reset or the session closed: wake all waiters; may be NULL */
  void (*abort)(void *obj, pf_status);
  /* [any] since 1.4: fills in `to`, which is zero; keeps no lock for long; may be NULL */
  void (*tell)(void *obj, pf_wait_state *to);
} pf_type;
enum {
  PF_SCOPE_CONTAINER = 0, /* lives in the node's container until reset */
  PF_SCOPE_STEP = 1       /* freed when the step ends, on error too */
};

enum { PF_VAR_READ = 0, PF_VAR_UPDATE = 1, PF_VAR_REPLACE = 2 };
typedef struct { int32_t in, mode; } pf_var;

enum { PF_LANE_CPU = 0, PF_LANE_BLOCKING = 1 };
enum { PF_LOG_DEBUG = 10, PF_LOG_INFO = 20, PF_LOG_WARNING = 30, PF_LOG_ERROR = 40 };

/* ---------------------------------------------------------------- what a kernel may call */
struct pf_host {
  uint32_t size, minor;
  const char *name; /* "pyflow 0.2.0" */

  /* errors and logging */
  /* [compute] keeps the message (copied), returns the status */
  pf_status (*fail)(pf_ctx *, pf_status, const char *msg, int64_t len);
  void (*log)(int32_t level, const char *msg, int64_t len); /* [any] */

  /* outputs, all [compute], also after PF_PENDING and before `done` */
  DLTensor *(*output)(pf_ctx *, int32_t i, const int64_t *shape, int32_t ndim);
  /* a new, uninitialised output i of its signature's type; NULL: an error is recorded,
       * return PF_RESOURCE_EXHAUSTED */
  pf_status (*set_output)(pf_ctx *, int32_t i, DLManagedTensorVersioned *steal);
  /* publishes a tensor the kernel holds; the host calls its deleter when the last reader is
       * done */
  DLTensor *(*forward)(pf_ctx *, int32_t in, int32_t out, const int64_t *shape, int32_t ndim);
  /* output `out` in input `in`'s buffer if nobody else can see it, else a new buffer: the
       * result may or may not be the same memory; NULL as with `output`.  Needs equal byte sizes
       * to reuse */
  pf_status (*alias)(pf_ctx *, int32_t in, int32_t out, const int64_t *shape, int32_t ndim);
  /* output is input, read-only, perhaps with another shape of equal size: Identity,
       * Reshape.  No copy */
  void *(*scratch)(pf_ctx *, uint64_t bytes, uint64_t align);
  /* in the device's memory where it has its own; freed after the call (after `done`), there
       * in stream order; NULL: out of memory */

  /* asynchronous completion */
  pf_ctx *(*defer)(pf_ctx *, uint64_t *ticket);
  /* [compute] moves the call off the stack: use the returned ctx from now on, until `done`,
       * then return PF_PENDING */
  void (*done)(uint64_t ticket, pf_status);
  /* [any] ends the call, even before compute has returned.  A second or late done is
       * detected and ignored.  The step may be over, and ctx and scratch memory gone, before it
       * returns; it runs no other kernel and calls nothing of the plugin */
  pf_ctx *(*pending)(uint64_t ticket);
  /* [any] the deferred ctx, or NULL if that call is over; it lives until `done`: keep
       * whoever else may call that out meanwhile */
  int32_t (*cancelled)(pf_ctx *);
  /* [compute, and in parallel_for's fn] 1 once the step is being cancelled.  It looks at the
       * step's deadline itself and, on the thread that called `run`, at signals (then a signal's
       * handler runs in it; not while this call has a variable locked). Costs nanoseconds; a
       * kernel that asks every few milliseconds ends in time.  Calls no on_cancel function */
  pf_status (*on_cancel)(pf_ctx *, uint64_t ticket, void (*fn)(void *), void *arg);
  /* [compute] fn is called once, on any thread, holding no host lock, if the step is
       * cancelled; PF_CANCELLED: it already is */
  int32_t (*off_cancel)(uint64_t ticket); /* [any] O(1); 0: the callback has started already */
  pf_status (*after)(pf_ctx *, pf_status (*fn)(pf_ctx *, void *), void *arg);
  /* [compute] continue with fn on a pool thread once this call's stream has done its work so
       * far (at once on host devices); return its status, PF_PENDING included, from compute.  If
       * the device fails fn is not called: what arg points to belongs into `scratch`, or into
       * something the plugin frees elsewhere */

  /* threads */
  pf_status (*parallel_for)(pf_ctx *, int64_t n, int64_t grain,
                            void (*fn)(void *arg, int64_t lo, int64_t hi, int32_t worker),
                            void *arg);
  /* [compute] fn over [0, n) in chunks of at least `grain`, on this thread and idle ones; 0
       * <= worker < workers() */
  int32_t (*workers)(pf_ctx *); /* [compute] */
  /* [any] run fn on a host thread */
  pf_status (*post)(const pf_host *, int32_t lane, void (*fn)(void *), void *arg);

  /* tensors outside a call */
  DLManagedTensorVersioned *(*tensor_new)(const pf_host *, void *dev, int32_t mem, int32_t type,
                                          const int64_t *shape, int32_t ndim); /* [any] */
  DLManagedTensorVersioned *(*retain)(pf_ctx *, int32_t in);
  /* [compute] one more reference to input `in` beyond this call (a copy, if the buffer is a
       * caller's); end it with its deleter */
  int32_t (*type_of)(const DLManagedTensorVersioned *); /* [any] element type of a host tensor */

  /* strings: element i of a PF_STRING tensor */
  /* [any] valid as long as the tensor */
  pf_status (*str_get)(const DLTensor *, int64_t i, pf_str *);
  pf_status (*str_set)(DLTensor *, int64_t i, pf_str); /* [any] copies; one writer per element */

  /* state: variables and resources are the host's.  A variable is lent only if its element type
   * is the one the node declares for it: a ref's own type; behind a PF_RESOURCE input what its
   * pf_arg says, else the op's attribute `dtype`, else `T`, else - if the node has other inputs
   * than handles - one of their types or its outputs', else any.  Another type is
   * PF_INVALID_ARGUMENT */
  pf_status (*var_lock)(pf_ctx *, const pf_var *, int32_t n);
  /* [compute] locks several at once in the host's order, until the call ends.
       * PF_FAILED_PRECONDITION names an uninitialised one (READ and UPDATE) */
  DLTensor *(*var_get)(pf_ctx *, int32_t in);
  /* after var_lock: the value; in UPDATE mode writable in place (copied first if a fetched
       * or read alias exists); NULL when uninitialised (REPLACE) or out of memory */
  /* after var_lock in UPDATE or REPLACE */
  pf_status (*var_swap)(pf_ctx *, int32_t in, DLManagedTensorVersioned *steal);
  pf_status (*var_assign)(pf_ctx *, int32_t var_in, int32_t value_in);
  /* after var_lock in REPLACE: the variable takes input `value_in` (moved when unshared,
       * else copied) */
  /* output = snapshot of the variable, no copy; takes the lock itself */
  pf_status (*var_read)(pf_ctx *, int32_t in, int32_t out);
  int32_t (*var_initialized)(pf_ctx *, int32_t in); /* 1 or 0 */
  pf_status (*var_handle)(pf_ctx *, int32_t out, pf_str container, pf_str name, int32_t type,
                          pf_shape shape);
  /* output = handle (a ref or PF_RESOURCE) of the named variable, made on first use; empty
       * name: the node's */
  pf_status (*resource)(pf_ctx *, int32_t scope, pf_str container, pf_str name, const pf_type *,
                        pf_status (*make)(pf_ctx *, void *arg, void **obj), void *arg, void **obj);
  /* look up, or make once; one reference is lent until the call ends.  `make` NULL:
       * PF_NOT_FOUND when absent */
  pf_status (*resource_handle)(pf_ctx *, int32_t out, int32_t scope, const pf_type *, void *steal);
  /* output = a PF_RESOURCE or PF_VARIANT scalar that refers to obj; a STEP one is freed with
       * the step, else with its last handle */
  /* obj behind handle `in`, lent until the call ends */
  pf_status (*resource_get)(pf_ctx *, int32_t in, const pf_type *, void **obj);
  pf_status (*resource_delete)(pf_ctx *, int32_t in); /* the container forgets it */
  pf_status (*rng)(pf_ctx *, uint64_t n, uint64_t key[2], uint64_t counter[2]);
  /* reserves n 128-bit Philox counters of this node's stream (attributes seed, seed2): never
       * repeats */

  /* dead tokens: kernels with PF_KERNEL_DEAD */
  int32_t (*is_dead)(pf_ctx *, int32_t in);     /* in -1: any input or control input */
  pf_status (*set_dead)(pf_ctx *, int32_t out); /* out -1: every output and the control output */

  /* init only: constants */
  /* input `in` if it is known at plan time, else NULL */
  const DLTensor *(*constant)(pf_ctx *, int32_t in);
  /* the kernel keeps its own form: `in` will be passed as NULL */
  pf_status (*drop_constant)(pf_ctx *, int32_t in);

  /* the node, for messages and keys */
  pf_str (*node_name)(pf_ctx *);
  int64_t (*frame_iter)(pf_ctx *, pf_str *frame);
  /* the iterations of all loops around as one number, equal in every partition of a step (in
       * a loop of the root frame: the iteration), and the innermost loop's name */

  /* shape and cost functions (pf_infer), [any] */
  int32_t (*infer_n)(pf_infer *, int32_t output); /* number of inputs (0) or outputs (1) */
  /* ndim -1: unknown; dim -1: unknown */
  pf_status (*infer_dims)(pf_infer *, int32_t in, const int64_t **dims, int32_t *ndim);
  int32_t (*infer_type)(pf_infer *, int32_t in);
  /* value, if known while building, else NULL */
  const DLTensor *(*infer_constant)(pf_infer *, int32_t in);
  /* value: the C type of `kind` */
  pf_status (*infer_attr)(pf_infer *, const char *name, int32_t kind, void *value);
  pf_status (*infer_set)(pf_infer *, int32_t out, const int64_t *dims, int32_t ndim);
  pf_status (*infer_fail)(pf_infer *, const char *msg, int64_t len);

  const void *(*extension)(const char *id); /* [any] NULL: not offered */

  pf_status (*post_caller)(pf_ctx *, void (*fn)(void *), void *arg);
  /* [compute] run fn on the thread that called `run` (an interpreter's, say), when it next
       * waits; PF_UNAVAILABLE: none */
  pf_status (*resource_output)(pf_ctx *, int32_t out, pf_str container, pf_str name,
                               const pf_type *, pf_status (*make)(pf_ctx *, void *arg, void **obj),
                               void *arg);
  /* [compute] output = a PF_RESOURCE handle of the container's named resource, made on first
       * use (queues, tables, readers) */
  int32_t (*can_forward)(pf_ctx *, int32_t in);
  /* [compute] 1: `forward` of input `in` to an output of equal bytes and shape would hand
       * over its buffer; of a handle: nobody else has one of its object, which may be changed in
       * place and passed on with `alias` */
  pf_status (*bring_output)(pf_ctx *, int32_t i, DLManagedTensorVersioned *steal);
  /* [compute, after `defer`] like set_output, but from any device's memory to where output i
       * belongs.  PF_OK: there already, or copied in stream order; PF_PENDING: a copy is under
       * way, and the host itself calls `done` at its end */
  const void *(*native)(pf_ctx *, const char *what);
  /* [compute] since 1.1: pf_device.native of this call's device, opened, and stream:
       * "cuda.stream"; NULL: it has none such */
  pf_status (*shared)(pf_ctx *, int32_t in, pf_str form, const pf_type *,
                      pf_status (*make)(pf_ctx *, void *arg, void **obj), void *arg, void **obj);
  /* [init] since 1.2: what the kernel makes of constant `in` (packed weights), made once for
       * all nodes, plans and sessions of the process whose constant has equal elements, type and
       * shape, and that ask for the same pf_type.id and `form`: bytes that say all else that it
       * depends on. Never changed once made; lent until the node's `fini` has returned.
       * Whoever asks while another thread makes it waits; what `make` fails with is returned.
       * PF_NOT_FOUND: `in` is no constant of numbers in host memory */

  /* tensors and handles outside a call (since 1.2); what they take is from `retain`,
   * `tensor_new`, or a function's results */
  DLManagedTensorVersioned *(*tensor_ref)(const DLManagedTensorVersioned *);
  /* [any] one more reference to it, of any type; end it with its deleter.  NULL: it is not a
       * tensor of the host's */
  DLManagedTensorVersioned *(*handle_new)(const pf_host *, int32_t type, const pf_type *,
                                          void *steal);
  /* [any] a PF_RESOURCE or PF_VARIANT scalar that refers to the object, freed with its last
       * handle; NULL: out of memory */
  pf_status (*handle_get)(const DLManagedTensorVersioned *, const pf_type *, void **obj);
  /* [any] the object behind a handle, lent as long as the handle lives; PF_INVALID_ARGUMENT:
       * it is no such */
};

/* ---------------------------------------------------------------- devices
 * Keyed by `type`, a string; DLPack's integer is only a label on tensors.  All calls are [any]
 * unless said.
 *
 * A device with `alloc` has memory of its own; one with `stream_new` works asynchronously.  A
 * device without both computes in host memory (alloc NULL, stream NULL).  The host opens per device
 * one stream for kernels, one for copies in and one for copies out, on first use.
 *   - PF_OK from a kernel on a device with streams means "enqueued on ctx->stream".
 *   - `alloc` returns memory that work enqueued on `stream` afterwards may use.  `free` may run on
 *     any thread and orders itself after the work enqueued on `stream` so far; no other stream
 *     still uses the buffer (the host keeps a buffer until every copy of it has happened).
 *   - `copy` reads and writes compact tensors of equal shape and type; exactly one of them may be
 *     host memory.  Host memory stays valid until an event recorded behind the copy has happened. A
 *     stream of NULL (tensors made outside a call): memory that every stream may use at once; freed
 *     when nobody uses it.
 *   - Calls on one stream come from any thread; the host does not serialise them.
 *   - `when` is called once per recorded event at most; a status other than PF_OK (an error of the
 *     device) fails the step. Its fn is called on a thread of the plugin.  `close` comes after
 *     every fn has been called.
 *   - an event is reused or freed by `event_del` only, which may come while streams told to wait
 *     for it by `event_wait` have not come that far: they wait all the same.  `*event` is NULL when
 *     `event_record` is called.
 *   - Memory is told by pointers: what `alloc` returns must be distinct, non-NULL, and 64-aligned
 *     as a number, also where the program cannot read it; views of a tensor are made by adding
 *     bytes.
 *   - `close` comes once, when the host ends; nothing of the device is called afterwards, `free`
 *     of its buffers included. */
struct pf_device {
  uint32_t size, flags;
  const char *type;          /* "GPU" */
  int32_t dl_type, priority; /* default placement: the highest priority that has a kernel */
  void *self;
  int32_t (*count)(void *self);
  pf_status (*open)(const pf_host *, void *self, int32_t ordinal, void **dev, char *err,
                    int32_t err_len);
  void (*close)(void *dev);
  /* NULL: out of memory */
  void *(*alloc)(void *dev, uint64_t bytes, uint64_t align, int32_t mem, void *stream);
  void (*free)(void *dev, void *p, uint64_t bytes, int32_t mem, void *stream);
  pf_status (*stream_new)(void *dev, void **stream);
  void (*stream_del)(void *dev, void *stream);
  pf_status (*event_record)(void *dev, void *stream, void **event);
  /* the stream waits, not the thread */
  pf_status (*event_wait)(void *dev, void *stream, void *event);
  void (*event_del)(void *dev, void *event);
  pf_status (*when)(void *dev, void *event, void (*fn)(void *, pf_status), void *arg);
  /* fn on any thread once the event has happened; it only posts, it never calls the driver */
  /* to, from or within this device */
  pf_status (*copy)(void *dev, void *stream, const DLTensor *src, DLTensor *dst);
  pf_status (*peer_copy)(void *src_dev, void *dst_dev, void *stream, const DLTensor *src,
                         DLTensor *dst);
  /* to another device `can_peer` said yes to; `stream` is the destination's stream for
       * copies in */
  int32_t (*can_peer)(void *dev, const char *type, void *other);
  pf_status (*info)(void *dev, const char *key, char *text, int32_t len);
  /* "name"; decimal numbers: "memory" (bytes), "flops" (per second), "bandwidth" (bytes per
       * second of its memory), "link" (bytes per second from and to the host), "peer_link" (to
       * its peers; not told: "link"), "latency" (seconds to start a kernel); PF_NOT_FOUND: not
       * told. dev NULL: of the type; "absent": why count() is 0, in one line for people */
  const void *(*native)(void *dev, void *stream, const char *what);
  /* documented handles for third-party kernels: "cuda.stream", "cuda.context",
       * "cublas.handle"; kernels ask pf_host.native */
  pf_status (*event_time)(void *dev, void *event, int64_t *ns);
  /* when a past event happened, in CLOCK_MONOTONIC nanoseconds as well as the device can
       * tell; for traces; may be NULL */
  void (*trim)(void *dev); /* give cached memory back to the system; may be NULL */
};

/* ---------------------------------------------------------------- extension "pyflow.transport/1"
 * The rendezvous of a step, for Send/Recv kernels and progress threads. */
typedef struct {
  uint32_t size, flags;
  pf_status (*send)(pf_ctx *, pf_str key, DLManagedTensorVersioned *steal, int32_t dead);
  /* [compute] put a tensor (NULL when dead) under key, once per key and step */
  pf_status (*recv)(pf_ctx *, pf_str key,
                    void (*fn)(void *arg, pf_status, DLManagedTensorVersioned *take, int32_t dead),
                    void *arg);
  /* [compute] fn is called once, perhaps at once, perhaps from the sender's thread; `take`
       * is the caller's; an error returned: fn is not called. fn holds no host lock and may call
       * `done`, `send` and `recv`; who sends holds none of its own that fn takes */
  /* wakes every waiter of this step */
  pf_status (*abort)(pf_ctx *, pf_status, const char *msg, int64_t len);
  /* of this task: a peer's message with another one is PF_ABORTED */
  uint64_t (*incarnation)(pf_ctx *);
  pf_status (*inject)(const pf_host *, int64_t step, uint64_t incarnation, pf_str key,
                      DLManagedTensorVersioned *steal, int32_t dead);
  /* [any] from a progress thread, from the step's first kernel on.  PF_NOT_FOUND: that step
       * is over; PF_UNAVAILABLE: none of that id has begun; PF_ABORTED: of another incarnation */
} pf_transport;

/* ------------------------------------------------------ extension "pyflow.transport/2" (since 1.1)
 * As /1, and by the key of a step whatever any process made of it: for links that serve several
 * tasks.  A TASK is a server of this process; sessions that name none belong to one of the
 * process's own.  A step that a server began has the key that it was given, its rendezvous is
 * there from the first message for it until the server cleans it up; a local one has {0,
 * ctx->step} and can be reached while it runs.  A kernel that waits for a link of its own
 * instead of `recv` registers `on_cancel`: who does not listen is given up 3 s after its step
 * was cancelled. */
typedef struct { uint64_t session, step; } pf_step_key;
typedef struct pf_task pf_task; /* opaque */
/* of a failure: it is a consequence of another one, which wins over it */
enum { PF_ERROR_DERIVED = 1 };
typedef struct {
  uint32_t size, flags;
  /* of the step that a kernel runs in: [compute] */
  /* as in /1 */
  pf_status (*send)(pf_ctx *, pf_str key, DLManagedTensorVersioned *steal, int32_t dead);
  pf_status (*recv)(pf_ctx *, int32_t output, pf_str key,
                    void (*fn)(void *arg, pf_status, DLManagedTensorVersioned *take, int32_t dead),
                    void *arg);
  /* as in /1.  `output`: the tensor will be this output of the call, so `room` gives memory
       * where that is read; -1: anywhere */
  /* flags: PF_ERROR_DERIVED */
  pf_status (*abort)(pf_ctx *, pf_status, int32_t flags, const char *msg, int64_t len);
  pf_status (*key)(pf_ctx *, pf_step_key *out);
  int64_t (*deadline)(pf_ctx *); /* ns left to the step; 0: it is late; -1: it has none */
  pf_task *(*task)(pf_ctx *);    /* new reference */
  /* of any step: [any] */
  void (*retain)(pf_task *);
  void (*release)(pf_task *);         /* NULL is allowed */
  uint64_t (*incarnation)(pf_task *); /* 64 random bits: a message for another one is PF_ABORTED */
  pf_status (*put)(pf_task *, pf_step_key, uint64_t incarnation, pf_str key,
                   DLManagedTensorVersioned *steal, int32_t dead);
  /* from a progress thread; a step of a server may begin later.  PF_NOT_FOUND: it is over;
       * PF_RESOURCE_EXHAUSTED: too much waits for steps that have not begun; a code of the
       * step's own: it failed */
  pf_status (*take)(pf_task *, pf_step_key, uint64_t incarnation, pf_str key,
                    void (*fn)(void *arg, pf_status, DLManagedTensorVersioned *take, int32_t dead),
                    void *arg);
  /* what is, or will be, sent under the key: fn as that of `recv`; the statuses of `put`,
       * and then fn is not called */
  DLManagedTensorVersioned *(*room)(pf_task *, pf_step_key, pf_str key, int32_t type,
                                    const int64_t *shape, int32_t ndim);
  /* memory for a tensor that will be `put` under the key: its reader's, if it waits and its
       * device has host-reachable memory, else plain host memory.  The caller's; NULL: out of
       * memory, or a type without bytes of its own */
  pf_status (*fail)(pf_task *, pf_step_key, uint64_t incarnation, pf_status, int32_t flags,
                    pf_str task, pf_str message);
  /* the step fails with this error of another task, now or as it begins; `task`: where it
       * arose; statuses of `put` */
  pf_status (*error)(pf_task *, pf_step_key, int32_t *flags, char *text, int64_t room);
  /* why a step of a server failed: its code and message; PF_OK: it did not, or nobody knows
       * it */
  pf_status (*post)(pf_ctx *, pf_str task, pf_str key, DLManagedTensorVersioned *steal,
                    int32_t dead);
  /* [compute] since 1.3: as `send`, but to this step in the server of that name
       * ("/job:ps/replica:0/task:0"), by whatever link this step's server has to it; its
       * receivers find it under key.  PF_UNAVAILABLE: no link; PF_PENDING: an ASYNC kernel
       * returns it */
} pf_transport2;

/* ------------------------------------------------------ extension "pyflow.functions/1" (since 1.1)
 * Functions of the library of the graph that a node is in, called from its kernel or, once
 * found, from anywhere: an iterator's map, a server's handler.  A function is compiled when it
 * is first asked for, once. */
typedef struct pf_fn pf_fn;           /* opaque: a function, and all that it needs to run */
typedef struct pf_fn_call pf_fn_call; /* opaque: one call of one */
typedef struct {
  uint32_t size, flags;
  int64_t timeout_ns; /* 0: none */
  /* 0: random ops draw from the session's streams, in turn; else each draws from (its seeds,
   * stream), from the start: the same call gives the same numbers */
  uint64_t stream;
} pf_fn_options;
typedef struct {
  uint32_t size, flags;
  pf_status (*get)(pf_ctx *, pf_str name, pf_fn **out);
  /* [init, compute] new reference.  PF_NOT_FOUND: the graph has no such function; other
       * failures: it cannot be compiled */
  void (*retain)(pf_fn *);  /* [any] */
  void (*release)(pf_fn *); /* [any] NULL is allowed */
  /* [any] how many, and their element types */
  int32_t (*inputs)(const pf_fn *, const int32_t **types);
  int32_t (*outputs)(const pf_fn *, const int32_t **types);
  pf_status (*call)(pf_fn *, pf_ctx *within, const pf_fn_options *,
                    DLManagedTensorVersioned *const *steal,
                    void (*done)(void *arg, pf_status, pf_str message,
                                 DLManagedTensorVersioned *const *take),
                    void *arg, pf_fn_call **out);
  /* [any] `within`: of a call that ends after this one (it defers), or NULL; options may be
       * NULL.  `done` is called once, with no lock held, perhaps before `call` returns, perhaps
       * on a thread of the host's: it may call again.  PF_OK: `take` are its results; else
       * `message` says why.  An error returned: `done` is not called.  *out (out may be NULL):
       * for `cancel`; NULL where the call is over.  A kernel that waits for `done` within
       * compute, and so with `within` NULL, is PF_KERNEL_BLOCKING: else the call may need the
       * very thread that waits */
  /* [any] soon: `done` is called with PF_CANCELLED, unless the call ends before; NULL is allowed */
  void (*cancel)(pf_fn_call *);
  /* [any] *out is not needed any more; the call goes on; NULL is allowed */
  void (*drop)(pf_fn_call *);
} pf_functions_api;

/* ---------------------------------------------------------- extension "pyflow.files/1" (since 1.2)
 * Files behind a scheme, "s3://bucket/x", where somebody serves them: in Python, fsspec.  NULL
 * where nobody does.  Bytes go by an open file of the caller's, from its beginning on, which is
 * written or read to its end. */
enum {
  PF_FILES_READ = 1,  /* the bytes of `path` into the file */
  PF_FILES_WRITE = 2, /* the file's bytes to `path` */
  /* paths that match the pattern `path`, each ended by a NUL, into the file */
  PF_FILES_MATCH = 3
};
typedef struct {
  uint32_t size, flags;
  pf_status (*call)(int32_t what, pf_str path, int32_t fd, char *why, int64_t room);
  /* [any] blocks; a failure says why in `why`, of `room` bytes, ended by a NUL */
} pf_files;

/* ---------------------------------------------- extension "pyflow.compiler/1", offered by a plugin
 * Claims groups of nodes and turns each into one kernel (a JIT, an NPU).
 *
 * When a plan is compiled, after kernels are chosen, the host asks `supports` for every node
 * that could be part of a group: on the compiler's device type, stateless, synchronous, without
 * refs.  It joins neighbours of one class into groups that are dead or alive together, lie in
 * one loop body, and that no path leaves and enters again; of two nodes at least.  What a node
 * outside the group reads, fetches included, is a result.  A group's Const inputs in host memory
 * are nodes of the group (`constant`), the other inputs its inputs.  `compile` returns a program
 * or PF_DECLINE; the program replaces the nodes. `supports` and `compile` run on any thread,
 * several at once; a pf_group is valid during the call only, what it points to (names, dims,
 * constants) as long as the program. */
typedef struct pf_group pf_group; /* opaque: a candidate subgraph; in `supports`: the whole plan */
typedef struct {
  uint32_t size, flags;
  /* in an order in which producers come first; in `supports`: in no order */
  int32_t (*n_nodes)(const pf_group *);
  pf_str (*op)(const pf_group *, int32_t node);
  pf_str (*name)(const pf_group *, int32_t node);
  int32_t (*n_inputs)(const pf_group *, int32_t node);
  int32_t (*input)(const pf_group *, int32_t node, int32_t i, int32_t *output);
  /* the producing node of the group and its output, or -1 and the index of the group's input */
  /* node -1: of the group's input `output`; 0: no such */
  int32_t (*type)(const pf_group *, int32_t node, int32_t output);
  pf_status (*dims)(const pf_group *, int32_t node, int32_t output, const int64_t **dims,
                    int32_t *ndim);
  /* as known while planning: ndim -1: unknown; dim -1: unknown; node -1: of the group's
       * input `output` */
  /* the value of a Const, in host memory; NULL: no Const */
  const DLTensor *(*constant)(const pf_group *, int32_t node);
  pf_status (*attr)(const pf_group *, int32_t node, const char *name, int32_t kind, void *value);
  int32_t (*n_results)(const pf_group *);
  /* the node and output the group must deliver as result i */
  int32_t (*result)(const pf_group *, int32_t i, int32_t *output);
  int32_t (*n_group_inputs)(const pf_group *); /* 0 in `supports` */
  int32_t (*n_outputs)(const pf_group *, int32_t node);
  /* keeps the message (copied), returns the status */
  pf_status (*fail)(const pf_group *, pf_status, const char *msg, int64_t len);
} pf_group_api;
typedef struct {
  /* flags: PF_KERNEL_EXPENSIVE, DETERMINISTIC, ASYNC, URGENT, BRIEF, as they hold for `run` */
  uint32_t size, flags;
  const char *device; /* device type whose nodes it may claim */
  int32_t (*supports)(const pf_group_api *, const pf_group *, int32_t node);
  /* 0: not part of a group; else a class of the compiler's choice: only nodes of one class
       * meet in a group */
  pf_status (*compile)(const pf_host *, const pf_group_api *, const pf_group *, void **program);
  /* PF_DECLINE: leave these nodes as they are; another status fails the plan, and names the
       * group */
  /* like compute: inputs and outputs are the group's */
  pf_status (*run)(pf_ctx *, const void *program);
  void (*release)(void *program); /* once, after the last run; may be NULL */
} pf_compiler;

/*PF:END*/
#ifdef __cplusplus
}
#endif

/* ----------------------------------------------- helpers: no link dependency, use or leave them */
#define PF_SIZEOF(T, last) ((uint32_t)(offsetof(T, last) + sizeof(((T *)0)->last)))
#define PF_HAS(p, T, f) ((p)->size >= PF_SIZEOF(T, f) && (p)->f)
#define PF_DATA(T, t) ((T *)((char *)(t)->data + (t)->byte_offset))
#ifndef __cplusplus /* address of a static table entry, C only: PF_REF(pf_attr, "alpha", PF_ATTR_FLOAT, offsetof(S, a)) */
#define PF_REF(T, ...) (&(const T){sizeof(T), 0, __VA_ARGS__})
#define PF_ATTR(S, kind, field) PF_REF(pf_attr, #field, kind, (int32_t)offsetof(S, field))
#endif

static inline int64_t pf_numel(const DLTensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}
static inline pf_status pf_fail(pf_ctx *c, pf_status s, const char *msg) { /* msg: NUL-terminated */
  int64_t n = 0;
  while (msg[n]) n++;
  return c->host->fail(c, s, msg, n);
}
static inline DLTensor *pf_output_like(pf_ctx *c, int32_t i, const DLTensor *t) {
  return c->host->output(c, i, t->shape, t->ndim);
}
#endif
