/* Values: errors and text, arenas, tensors and their memory, time.  The lowest floor of the core.
 *
 * The core's floors, each with one header that includes only those below it:
 *
 *   values   tensors, strings, memory                    graph  GraphDef, ops and their signatures
 *   host     plugins, kernels, devices, state            plan   a graph compiled into instructions
 *   step     running plans on threads and devices        look   what a step did, or does
 *
 * A module (X.pyx) defines, with `cdef public`, functions that its floor's header declares; others
 * call them through the .pxd that gen_pxd.py writes from the header.  What a lower floor calls of a
 * higher one stands in upcalls.h, with the reason.  No Python object, no exception: every function
 * is `noexcept nogil` and returns a pf_status or NULL; messages go into a pf_error.
 *
 * Ownership words: "takes" - the callee owns the reference from now on; "lends" - valid during the
 * call only; "new reference" - the caller must unref.
 *
 * Lock order (outermost first): pf_state.lock, pf_variable locks by id, pf_frame.lock,
 * pf_pool.lock, spin locks.
 */
#ifndef PF_VALUES_H
#define PF_VALUES_H
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "pyflow/kernel.h"
#include "values/atomic.h"
#include "values/digest.h"

#ifndef PY_LONG_LONG
#define PY_LONG_LONG long long      /* Cython's spelling */
#endif
typedef pf_status (*pf_make_fn)(pf_ctx *, void *arg, void **obj);
typedef void (*pf_range_fn)(void *arg, int64_t lo, int64_t hi, int32_t worker);
static inline DLTensor **pf_ctx_out(pf_ctx *c) { return (DLTensor **)c->out; }

#ifndef PF_CHECKS
#define PF_CHECKS 0                 /* -Dchecks=true: invariants are verified after every step */
#endif

/* ================================================================ errors and text */
typedef struct pf_error {
  pf_status code;
  int32_t derived; /* 1: a consequence of another failure, which wins over it */
  char node[512];
  char op[96];
  char device[96];
  char task[128]; /* whose step failed; empty: of no task that has a name */
  char message[4096];
} pf_error;
static inline void pf_error_clear(pf_error *e) {
  e->code = PF_OK;
  e->derived = 0;
  e->node[0] = e->op[0] = e->device[0] = e->task[0] = e->message[0] = 0;
}
/* What a step that may fail several times says at last: the first failure, but a cause wins over
 * its consequences. */
static inline int32_t pf_error_yields(const pf_error *have, int32_t derived) {
  return !have->code || (have->derived && !derived);
}

/* Sets code and message once: the first error wins.  Returns the code. */
__attribute__((format(printf, 3, 4))) static inline pf_status
pf_error_set(pf_error *e, pf_status code, const char *fmt, ...) {
  if (e && !e->code) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    e->code = code;
  }
  return code;
}
/* A formatted message for functions that take a text; the longest is some 5000 bytes. */
#define PF_FORMATTED(text, fmt) \
  char text[5400]; va_list pf_ap; va_start(pf_ap, fmt); vsnprintf(text, sizeof text, fmt, pf_ap); va_end(pf_ap)
__attribute__((format(printf, 3, 4))) static inline pf_status pf_failf(pf_ctx *c, pf_status code,
                                                                       const char *fmt, ...) {
  PF_FORMATTED(text, fmt);
  return pf_fail(c, code, text);
}
/* The checking build ends the process where a state machine takes a step that its diagram has
 * not. */
static inline void pf_state_check(int right, const char *machine, int32_t was, int32_t to) {
  if (!PF_CHECKS || right) return;
  fprintf(stderr, "pyflow: %s goes from state %d to %d, which it must not\n", machine, (int)was,
          (int)to);
  abort();
}
static inline void pf_copy_text(char *to, size_t room, const char *from, int64_t n) {
  size_t k = n < 0 || !from ? 0 : (size_t)n < room - 1 ? (size_t)n : room - 1;
  if (k) memcpy(to, from, k);
  to[k] = 0;
}
static inline pf_str pf_str_of(const char *s) {
  pf_str r;
  r.data = s;
  r.len = s ? (int64_t)strlen(s) : 0;
  return r;
}
static inline int pf_str_eq(pf_str a, pf_str b) {
  return a.len == b.len && (!a.len || !memcmp(a.data, b.data, (size_t)a.len));
}
static inline int pf_str_is(pf_str a, const char *b) { return pf_str_eq(a, pf_str_of(b)); }
static inline uint64_t pf_str_hash(pf_str s) {
  uint64_t h = 1469598103934665603ull;
  for (int64_t i = 0; i < s.len; i++) h = (h ^ (unsigned char)s.data[i]) * 1099511628211ull;
  return h ^ (h >> 29);
}

/* Arena: memory freed all at once (graphs, plans).  pf_arena_alloc zeroes, aligns to 16; NULL:
 * out of memory or over the cap. */
typedef struct pf_chunk {
  struct pf_chunk *next;
  size_t used, room;
} pf_chunk;
typedef struct {
  pf_chunk *head;
  uint64_t total, cap;
} pf_arena;
static inline void *pf_arena_alloc(pf_arena *a, uint64_t n) {
  n = (n + 15) & ~(uint64_t)15;
  if (a->cap && a->total + n > a->cap) return NULL;
  if (!a->head || a->head->room - a->head->used < n) {
    size_t room = n > 65536 - 64 ? n : 65536 - 64;
    pf_chunk *c = (pf_chunk *)calloc(1, sizeof(pf_chunk) + 16 + room);
    if (!c) return NULL;
    c->room = room;
    if (a->head && n > 32768) {
      c->next = a->head->next;
      a->head->next = c;
      c->used = n;
      a->total += n;
      return (void *)(((uintptr_t)(c + 1) + 15) & ~(uintptr_t)15);
    }
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
  while (c) {
    pf_chunk *next = c->next;
    free(c);
    c = next;
  }
  a->head = NULL;
  a->total = 0;
}
static inline pf_str pf_arena_str(pf_arena *a, pf_str s) { /* a NUL-terminated copy */
  char *p = (char *)pf_arena_alloc(a, (uint64_t)s.len + 1);
  pf_str r = {p, p ? s.len : 0};
  if (p && s.len) memcpy(p, s.data, (size_t)s.len);
  return r;
}

/* ================================================================ tensors (tensor.pyx) */
/* What a handle names: a variable or a resource (host.h). */
typedef struct pf_object {
  pf_a32 refs;
  int32_t kind;
  void (*destroy)(struct pf_object *);
  char *container, *name;
} pf_object;
static inline void pf_object_ref(pf_object *o) { pf_a32_add_rlx(&o->refs, 1); }
static inline void pf_object_unref(pf_object *o) {
  if (o && pf_a32_dec_last(&o->refs)) o->destroy(o);
}

enum { PF_MAX_NDIM = 254, PF_INLINE_DIMS = 8 };
enum {
  /* a caller's memory: never mutated, forwarded, or kept beyond the step without a copy */
  PF_T_BORROWED = 1,
  PF_T_HANDLE = 2,  /* dl_tensor.data is a pf_object: a variable (ref) or resource handle */
  PF_T_VIEW = 4,    /* shares the data of `owner`, another pf_tensor */
  PF_T_FOREIGN = 8, /* `owner` is a DLManagedTensorVersioned whose deleter we call */
  /* its data lie in the running step's extent (buffers.pyx): copied if they leave the step */
  PF_T_PLACED = 16,
  PF_T_WATCHED = 32, /* checking build: a red zone follows the data */
  /* memory that nobody ever writes to, a graph's array: shared, and copied before a write */
  PF_T_CONSTANT = 128,
  /* a handle that names a variable's value under a shape and type of its own; `owner`: what it
   * was */
  PF_T_NAMED = 64
};
typedef struct pf_tensor {
  DLManagedTensorVersioned m; /* m.deleter drops one reference; m.manager_ctx is this tensor */
  pf_a32 refs;
  int32_t type; /* PF_FLOAT32 ... */
  uint32_t flags;
  uint32_t klass;                      /* the allocator's size class of this block */
  int64_t nbytes;                      /* of the data; strings: of the pf_str array */
  void (*release)(struct pf_tensor *); /* the last reference went */
  void *owner;
  void *device; /* opened device; NULL: host memory */
  int64_t dims[PF_INLINE_DIMS];
} pf_tensor;
_Static_assert(sizeof(void *) != 8 || sizeof(pf_tensor) == 192,
               "tensor header is three cache lines");

static inline pf_tensor *pf_tensor_of(const DLTensor *t) {
  return (pf_tensor *)((char *)t - offsetof(pf_tensor, m.dl_tensor));
}
static inline DLTensor *pf_dl(pf_tensor *t) { return &t->m.dl_tensor; }
static inline void pf_tensor_ref(pf_tensor *t) { pf_a32_add_rlx(&t->refs, 1); }
static inline void pf_tensor_unref(pf_tensor *t) {
  if (t && pf_a32_dec_last(&t->refs)) t->release(t);
}
static inline int pf_tensor_unique(pf_tensor *t) { return pf_a32_load(&t->refs) == 1; }
static inline void pf_dl_unref(DLTensor *t) { pf_tensor_unref(pf_tensor_of(t)); }

int64_t pf_type_size(int32_t type); /* bytes per element; pf_str for PF_STRING; 0: unknown type */
DLDataType pf_type_dl(int32_t type);
/* 1: data of type a may be taken for b's: numbers both, handles both, or equal */
int32_t pf_reads_as(int32_t a, int32_t b);
const char *pf_type_name(int32_t type); /* "float", "int32", ... TF's lower-case names; "?" */
int32_t pf_type_from_name(pf_str name); /* 0: unknown */
/* RESOURCE_EXHAUSTED/INVALID_ARGUMENT */
pf_status pf_checked_bytes(int32_t type, const int64_t *shape, int32_t ndim, int64_t *bytes);
/* uninitialised (strings empty); NULL */
pf_tensor *pf_tensor_new(int32_t type, const int64_t *shape, int32_t ndim);
/* foreign memory; release_owner may be NULL */
pf_tensor *pf_tensor_wrap(int32_t type, const int64_t *shape, int32_t ndim, void *data,
                          uint32_t flags, void (*release_owner)(void *owner), void *owner);
int32_t pf_managed_type(const DLManagedTensorVersioned *m); /* its element type; 0: none of ours */
/* the tensor of ours that it is, lent; NULL: a foreign one */
pf_tensor *pf_managed_own(const DLManagedTensorVersioned *m);
int32_t pf_tensor_sound(const pf_tensor *t); /* 1: nobody wrote to the header of a tensor of ours */
void pf_tensor_mend(pf_tensor *t);           /* ... and now it may be let go of */
/* our own ones are unwrapped, not wrapped */
pf_tensor *pf_tensor_adopt(DLManagedTensorVersioned *steal, int32_t type);
/* the bytes under another type */
pf_tensor *pf_tensor_view_as(pf_tensor *src, int32_t type, const int64_t *shape, int32_t ndim);
/* new header over the same data, refs src */
pf_tensor *pf_tensor_view(pf_tensor *src, const int64_t *shape, int32_t ndim);
pf_tensor *pf_tensor_copy(const pf_tensor *src); /* deep, also strings */
/* PF_T_NAMED, in the snapshot's shape and type */
pf_tensor *pf_tensor_named(pf_object *take, pf_tensor *snapshot);
pf_tensor *pf_tensor_handle(pf_object *take); /* PF_RESOURCE scalar; takes the object's reference */
pf_status pf_tensor_str_get(const DLTensor *t, int64_t i, pf_str *out);
pf_status pf_tensor_str_set(DLTensor *t, int64_t i, pf_str value);
/* strings.pyx */
void pf_strings_start(pf_tensor *t); /* empty strings; then pf_strings_free when it ends */
void pf_strings_free(pf_tensor *t);
pf_status pf_strings_own(pf_tensor *t); /* elements that name others' memory: copied, all at once */
void *pf_mem_alloc(uint64_t bytes);     /* 64-aligned, counted, cached; NULL over the cap */
void pf_mem_free(void *p);
typedef struct { int64_t in_use, peak, cached, allocs, cap; } pf_mem_stats;
void pf_mem_get_stats(pf_mem_stats *out);
int64_t pf_mem_in_use(void); /* quickly: threads' last 64 KB may be missing */
void pf_mem_reset_peak(void);
void pf_mem_set_cap(int64_t bytes); /* 0: none */
void pf_mem_trim(void);             /* gives cached blocks back to the system */
/* The checking build writes RED_BYTE behind every plain tensor and looks at it after each
 * kernel. */
enum { PF_RED_ZONE = PF_CHECKS ? 64 : 0, PF_RED_BYTE = 0xA5 };
static inline int pf_red_zone_ok(const pf_tensor *t) {
  const unsigned char *p = (const unsigned char *)t->m.dl_tensor.data + t->nbytes;
  if (t->flags & PF_T_WATCHED)
    for (int k = 0; k < PF_RED_ZONE; k++)
      if (p[k] != PF_RED_BYTE) return 0;
  return 1;
}

/* ================================================================ threads and time */
static inline void pf_cond_init(pthread_cond_t *c) { /* waits by CLOCK_MONOTONIC */
  pthread_condattr_t a;
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_cond_init(c, &a);
  pthread_condattr_destroy(&a);
}
/* The name by which the system lists the calling thread. */
static inline void pf_name_thread(const char *format, int number) {
#if defined(__GLIBC__) && defined(__linux__) && defined(_GNU_SOURCE)
  char name[16];
  snprintf(name, sizeof name, format, number);
  pthread_setname_np(pthread_self(), name);
#else
  (void)format, (void)number;
#endif
}
static inline void pf_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t ns) {
  struct timespec ts;
  ts.tv_sec = ns / 1000000000ll;
  ts.tv_nsec = ns % 1000000000ll;
  pthread_cond_timedwait(c, m, &ts);
}
static inline int64_t pf_now_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000000ll + ts.tv_nsec;
}
/* the same clock at the last tick: a quarter of the time */
static inline int64_t pf_coarse_ns(void) {
#ifdef CLOCK_MONOTONIC_COARSE
  struct timespec ts;
  if (!clock_gettime(CLOCK_MONOTONIC_COARSE, &ts))
    return (int64_t)ts.tv_sec * 1000000000ll + ts.tv_nsec;
#endif
  return pf_now_ns();
}
#endif
