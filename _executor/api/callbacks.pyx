# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Kernels that are Python callables: PyFunc, and known ops that are Python functions.

They run on the thread that called `run`.  A PyFunc's call that waits behind another one of its step for PATIENCE goes aside,
to a thread of the BLOCKING lane: the other may be waiting for it.

    WAITING -> taken [pf_pycall_run, on the caller's thread; pf_py_watch, for the lane's]; whoever comes second only lets go

Threads: any; `pf_py_lock` guards the two lists and what a call says of them, and nothing is called with it held.
"""
cimport cython
cimport numpy as cnp
from look_h cimport *
from pyflow._executor.host cimport collect_problem
from pyflow._executor.values cimport array_of, dtype_of, string_tensor, text_of

from threading import get_ident

import numpy as np
from pyflow._executor.values import StepError

cnp.import_array()

# ---------------------------------------------------------------- py_func
cdef extern from *:
    """
    typedef struct { pf_str token; } pf_pyfunc_state;
    static pf_status pf_pyfunc_compute(pf_ctx *c, const void *state);
    static const pf_attr *const pf_pyfunc_attrs[] = {PF_ATTR(pf_pyfunc_state, PF_ATTR_STRING, token), 0};
    static const pf_arg pf_pyfunc_in = {sizeof(pf_arg), 0, "input", PF_MEM_HOST, 0};
    static const pf_arg pf_pyfunc_out = {sizeof(pf_arg), PF_ARG_WRITTEN, "output", PF_MEM_HOST, 0};
    static const pf_arg *const pf_pyfunc_args[] = {&pf_pyfunc_in, &pf_pyfunc_out, 0};
    #define PF_PYFUNC(NAME) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_ASYNC, .op = NAME, .device = "*", \
      .args = pf_pyfunc_args, .attrs = pf_pyfunc_attrs, .state_size = sizeof(pf_pyfunc_state), .compute = pf_pyfunc_compute}
    static const pf_kernel pf_pyfunc_1 = PF_PYFUNC("PyFunc"), pf_pyfunc_2 = PF_PYFUNC("PyFuncStateless"),
      pf_pyfunc_3 = PF_PYFUNC("EagerPyFunc");
    static const pf_kernel *const pf_pyfunc_kernels[] = {&pf_pyfunc_1, &pf_pyfunc_2, &pf_pyfunc_3, 0};
    static const pf_plugin pf_pyfunc_plugin = {.size = sizeof(pf_plugin), .id = "pyflow.python", .version = "0.1",
      .kernels = pf_pyfunc_kernels, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
    enum { PF_PY_PATIENCE_NS = 20000000 };
    typedef struct pf_pycall {
      pf_ctx *ctx;
      uint64_t ticket;
      pf_str token;
      const void *home;                 /* the step whose caller it waits for */
      int64_t since;
      struct pf_pycall *next, **at;     /* at: what names it in the list; NULL: it is taken */
      int32_t refs, posted;             /* posted: compute is done with its ctx */
    } pf_pycall;
    typedef struct pf_pyrun { const void *home; int64_t since; struct pf_pyrun *next; } pf_pyrun;
    static pthread_mutex_t pf_py_lock = PTHREAD_MUTEX_INITIALIZER;
    static pf_pycall *pf_py_waiting;    /* nobody has taken them */
    static pf_pyrun *pf_py_running;     /* on the threads that called run */
    static int pf_py_watched;           /* pf_py_watch is on its way, or looks */
    static void pf_pycall_go(void *arg);

    static void pf_py_child(void) {     /* in a forked process: the calls were the parent's */
      pthread_mutex_init(&pf_py_lock, NULL);
      pf_py_waiting = NULL;
      pf_py_running = NULL;
      pf_py_watched = 0;
    }
    static void pf_py_drop(pf_pycall *p) {
      pthread_mutex_lock(&pf_py_lock);
      int32_t left = --p->refs;
      pthread_mutex_unlock(&pf_py_lock);
      if (!left) free(p);
    }
    static int pf_py_take(pf_pycall *p) {       /* lock held: 1, it still waited */
      if (!p->at) return 0;
      *p->at = p->next;
      if (p->next) p->next->at = p->at;
      p->at = NULL;
      return 1;
    }
    static pf_pycall *pf_py_late(int64_t now, int64_t *due) {   /* lock held: *due is when the next will be, 0: none waits so */
      *due = 0;
      for (pf_pycall *p = pf_py_waiting; p; p = p->next)
        for (pf_pyrun *r = pf_py_running; r; r = r->next)
          if (r->home == p->home && p->posted) {
            int64_t at = (p->since > r->since ? p->since : r->since) + PF_PY_PATIENCE_NS;
            if (at <= now) return p;
            if (!*due || at < *due) *due = at;
          }
      return NULL;
    }
    static void pf_py_aside(void *arg) { pf_pycall_go(arg); pf_py_drop((pf_pycall *)arg); }
    static void pf_py_watch(void *host) {       /* on a thread of the lane, while a call waits behind another */
      int64_t due;
      pthread_mutex_lock(&pf_py_lock);
      for (;;) {
        int64_t now = pf_now_ns();
        pf_pycall *p = pf_py_late(now, &due);
        if (!p && !due) break;
        if (p) {
          pf_py_take(p);
          p->refs++;
        }
        pthread_mutex_unlock(&pf_py_lock);
        if (!p) {
          struct timespec rest = {0, due - now};
          nanosleep(&rest, NULL);
        } else if (((const pf_host *)host)->post((const pf_host *)host, PF_LANE_BLOCKING, pf_py_aside, p)) {
          pf_py_aside(p);
        }
        pthread_mutex_lock(&pf_py_lock);
      }
      pf_py_watched = 0;
      pthread_mutex_unlock(&pf_py_lock);
    }
    static int pf_py_watch_wanted(void) {       /* lock held */
      for (pf_pycall *p = pf_py_watched ? NULL : pf_py_waiting; p; p = p->next)
        for (pf_pyrun *r = pf_py_running; r; r = r->next)
          if (r->home == p->home && p->posted) return pf_py_watched = 1;
      return 0;
    }
    static void pf_py_set_watch(const pf_host *host) {
      if (host->post(host, PF_LANE_BLOCKING, pf_py_watch, (void *)host)) {
        pthread_mutex_lock(&pf_py_lock);
        pf_py_watched = 0;
        pthread_mutex_unlock(&pf_py_lock);
      }
    }
    static void pf_pycall_run(void *arg) {      /* on the thread that called run */
      pf_pycall *p = (pf_pycall *)arg;          /* its ctx is gone where the lane was first */
      const pf_host *host = pf_host_table();
      pf_pyrun run = {p->home, pf_now_ns(), NULL}, **at;
      pthread_mutex_lock(&pf_py_lock);
      int mine = pf_py_take(p), watch = 0;
      if (mine) {
        run.next = pf_py_running;
        pf_py_running = &run;
        watch = pf_py_watch_wanted();
      }
      pthread_mutex_unlock(&pf_py_lock);
      if (watch) pf_py_set_watch(host);
      if (mine) {
        pf_pycall_go(p);
        pthread_mutex_lock(&pf_py_lock);
        for (at = &pf_py_running; *at != &run; at = &(*at)->next) ;
        *at = run.next;
        pthread_mutex_unlock(&pf_py_lock);
      }
      pf_py_drop(p);
    }
    static pf_status pf_py_post(pf_pycall *p) {
      const pf_host *host = p->ctx->host;
      p->refs = 2;                      /* the post's, and ours */
      p->posted = 0;
      p->since = pf_now_ns();
      pthread_mutex_lock(&pf_py_lock);
      p->next = pf_py_waiting;
      p->at = &pf_py_waiting;
      if (p->next) p->next->at = &p->next;
      pf_py_waiting = p;
      pthread_mutex_unlock(&pf_py_lock);
      pf_status st = host->post_caller(p->ctx, pf_pycall_run, p);
      pthread_mutex_lock(&pf_py_lock);
      p->posted = 1;
      if (st) pf_py_take(p);
      int watch = !st && pf_py_watch_wanted();
      pthread_mutex_unlock(&pf_py_lock);
      if (watch) pf_py_set_watch(host);
      if (st) pf_py_drop(p);
      pf_py_drop(p);
      return st;
    }
    static pf_status pf_pyfunc_compute(pf_ctx *c, const void *state) {
      pf_pycall *p = (pf_pycall *)malloc(sizeof *p);
      if (!p) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "out of memory");
      p->token = ((const pf_pyfunc_state *)state)->token;
      p->home = ((pf_call *)c)->step ? ((pf_call *)c)->step->leader->home : NULL;
      p->ctx = c->host->defer(c, &p->ticket);
      if (!p->ctx) { free(p); return PF_RESOURCE_EXHAUSTED; }
      pf_status st = pf_py_post(p);
      return st ? st : PF_PENDING;
    }
    """
    ctypedef struct pf_pycall:
        pf_ctx* ctx
        uint64_t ticket
        pf_str token
    const pf_plugin pf_pyfunc_plugin
    void pf_py_child() noexcept nogil

cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*)() noexcept nogil, void (*)() noexcept nogil, void (*)() noexcept nogil)

cdef dict py_funcs = {}
cdef dict py_func_watches = {}      # thread -> PyFuncFailures

@cython.final
cdef class PyFuncFailures:
    """Context: `last` is what a py_func raised last on this thread, with its traceback; None: nothing."""
    cdef readonly object last
    cdef object outer

    def __enter__(self):
        self.outer = py_func_watches.get(get_ident())
        py_func_watches[get_ident()] = self
        return self

    def __exit__(self, *failure):
        if self.outer is None:
            py_func_watches.pop(get_ident(), None)
        else:
            py_func_watches[get_ident()] = self.outer
        self.outer = None

cdef int watch_failure(object e) except -1:
    cdef PyFuncFailures watch = py_func_watches.get(get_ident())
    if watch is not None:
        watch.last = e
    return 0

def register_py_func(token, callable):
    """Names a Python callable for PyFunc nodes: callable(*ndarrays) -> sequence of arrays."""
    py_funcs[token] = callable

def forget_py_func(token):
    """Drops a callable registered before."""
    py_funcs.pop(token, None)

cdef object call_python(pf_pycall* p):
    """Runs the callable and sets the outputs; raises what it raised."""
    cdef int32_t k
    cdef pf_tensor* t
    cdef cnp.ndarray a
    cdef DLTensor* out
    token = text_of(p.token)
    fn = py_funcs.get(token)
    if fn is None:
        raise StepError(PF_NOT_FOUND, "py_func callback %r is not registered in this process: what a py_func "
                        "calls is not saved with a graph, and lives as long as the graphs that call it" % token)
    args = []
    for k in range(p.ctx.n_in):
        t = pf_tensor_copy(pf_tensor_of(p.ctx.ins[k]))
        if t == NULL:
            raise MemoryError()
        args.append(array_of(t))
    results = fn(*args)
    if results is None:
        results = ()
    if not isinstance(results, (list, tuple)):
        results = (results,)
    if len(results) != p.ctx.n_out:
        raise StepError(PF_INVALID_ARGUMENT, "%s returns %d values, but expects to see %d values."
                        % (token, len(results), p.ctx.n_out))
    for k in range(p.ctx.n_out):
        set_python_output(p, k, results[k], token)

cdef int set_python_output(pf_pycall* p, int32_t k, object value, str token) except -1:
    cdef int32_t want = p.ctx.out_type[k]
    cdef pf_tensor* t
    cdef DLTensor* out
    cdef cnp.ndarray a
    if want == PF_STRING:
        t = string_tensor(value)
        if p.ctx.host.set_output(p.ctx, k, &t.m):
            raise MemoryError()
        return 0
    a = np.asarray(value, order="C")
    if a.dtype != dtype_of(want):
        raise StepError(PF_INVALID_ARGUMENT, "%d-th value returned by %s is %s, but expects %s"
                        % (k, token, a.dtype, dtype_of(want)))
    if not cnp.PyArray_ISCARRAY_RO(a):
        a = np.array(a, order="C")
    out = p.ctx.host.output(p.ctx, k, <int64_t*>cnp.PyArray_DIMS(a), cnp.PyArray_NDIM(a))
    if out == NULL:
        raise MemoryError()
    if a.nbytes:
        memcpy(out.data, cnp.PyArray_DATA(a), <size_t>a.nbytes)
    return 0

cdef tuple status_of(object e):
    if isinstance(e, StepError):
        return e.code, e.message
    import traceback
    code = getattr(e, "error_code", None)       # a tf.errors.OpError from a nested session.run
    if not isinstance(code, int):
        code = (PF_INVALID_ARGUMENT if isinstance(e, (TypeError, ValueError)) else
                PF_OUT_OF_RANGE if isinstance(e, StopIteration) else
                PF_RESOURCE_EXHAUSTED if isinstance(e, MemoryError) else
                PF_UNIMPLEMENTED if isinstance(e, NotImplementedError) else
                PF_CANCELLED if isinstance(e, KeyboardInterrupt) else PF_UNKNOWN)
    lines = "".join(traceback.format_exception(type(e), e, e.__traceback__))
    return code, "%s: %s\n%s" % (type(e).__name__, e, lines)

cdef void pf_pycall_go "pf_pycall_go"(void* arg) noexcept nogil:
    cdef pf_pycall* p = <pf_pycall*>arg
    cdef pf_status st = PF_OK
    cdef const pf_host* host = p.ctx.host
    cdef uint64_t ticket = p.ticket
    with gil:
        try:
            call_python(p)
        except BaseException as e:
            if py_func_watches:
                watch_failure(e)
            code, message = status_of(e)
            text = message.encode("utf-8", "replace")
            st = host.fail(p.ctx, code, text, len(text))
    host.done(ticket, st)

# ---------------------------------------------------------------- files behind a scheme
cdef object serve_files             # function(path, what, fd)
cdef pf_files files_table

cdef pf_status call_files(int32_t what, pf_str path, int32_t fd, char* why, int64_t room) noexcept nogil:
    """From any thread: it waits for the interpreter, and then for the file."""
    with gil:
        try:
            serve_files(path.data[:path.len].decode("utf-8", "surrogateescape"), what, fd)
            return PF_OK
        except BaseException as e:
            code = getattr(e, "_error_code", None) or PF_UNKNOWN
            text = str(getattr(e, "message", None) or e or type(e).__name__).encode("utf-8", "replace")[:room - 1]
            memcpy(why, <char*>text, len(text))
            why[len(text)] = 0
            return code

def register_files(function):
    """Kernels reach paths with a scheme by function(path, what, fd); what: 1 read, 2 write, 3 match; once in a process."""
    global serve_files
    serve_files = function
    files_table.size = sizeof(pf_files)
    files_table.call = call_files
    pf_files_set(&files_table)

# ---------------------------------------------------------------- known ops
# Kernels of known ops for the CPU that are Python functions [register_hosted]:
# function(*arrays, **attributes) -> array, or a tuple of arrays.  The arrays are the node's inputs, the attributes those of
# the op's signature that no input's element type or number tells already; what is returned has the op's output types.  An
# exception with an integer `status` (an absl code) fails the step with its text alone; any other brings its traceback.
# Who registers them for pyflow's own ops (image codecs, Unicode case): pyflow/session/runtime.py.
#
# They run on the thread that called run; in a step with a deadline, and over much data, on the BLOCKING lane (to hand a call
# over costs up to 200 us on two busy processors, a small PNG 120).  Nothing can stop a decoder within its library, so a step
# that is late, or cancelled, does not wait for one on the lane: between reading its inputs and setting its outputs it touches
# nothing of the step, and what it makes of them then is thrown away.
#
#     QUEUED -> READING -> RUNNING -> OVER, then the outputs and `done`           [pf_hosted_go]
#     QUEUED, RUNNING -> OVER, then `done`;  READING -> UNWANTED                  [pf_hosted_cancelled]
cdef extern from *:
    """
    enum { PF_HOSTED_SLOT = 16 };                           /* an attribute's value has a slot of its own */
    enum { PF_HOSTED_QUEUED, PF_HOSTED_READING, PF_HOSTED_RUNNING, PF_HOSTED_OVER, PF_HOSTED_UNWANTED };
    enum { PF_HOSTED_MUCH = 1 << 18 };
    typedef struct { pf_pycall call; pf_a32 at, refs; } pf_hosted;
    static void pf_hosted_go(void *arg);
    static void pf_hosted_run(void *arg) { pf_hosted_go(arg); }
    static void pf_hosted_drop(pf_hosted *p) { if (pf_a32_dec_last(&p->refs)) free(p); }
    static void pf_hosted_cancelled(void *arg) {
      pf_hosted *p = (pf_hosted *)arg;
      int32_t at = pf_a32_load(&p->at);
      while (at != PF_HOSTED_OVER && !pf_a32_cas(&p->at, at, at == PF_HOSTED_READING ? PF_HOSTED_UNWANTED : PF_HOSTED_OVER))
        at = pf_a32_load(&p->at);
      if (at == PF_HOSTED_QUEUED || at == PF_HOSTED_RUNNING) pf_host_table()->done(p->call.ticket, PF_CANCELLED);
      pf_hosted_drop(p);
    }
    static int pf_hosted_lasts(pf_ctx *c) {
      const pf_step *step = ((pf_call *)c)->step;
      int64_t bytes = 0;
      for (int32_t k = 0; k < c->n_in; k++) {
        const pf_tensor *t = pf_tensor_of(c->in[k]);
        bytes += t->nbytes;
        if (t->type == PF_STRING)
          for (int64_t i = 0; i < t->nbytes / (int64_t)sizeof(pf_str); i++) bytes += ((const pf_str *)t->m.dl_tensor.data)[i].len;
      }
      return bytes > PF_HOSTED_MUCH || (step && step->leader->home->deadline_ns);
    }
    static pf_status pf_hosted_compute(pf_ctx *c, const void *state) {
      (void)state;
      const pf_host *host = c->host;
      pf_hosted *p = (pf_hosted *)calloc(1, sizeof *p);
      if (!p) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "out of memory");
      pf_a32_store(&p->refs, 3);        /* whoever runs it, pf_hosted_cancelled, and us */
      p->call.ctx = host->defer(c, &p->call.ticket);
      if (!p->call.ctx) { free(p); return PF_RESOURCE_EXHAUSTED; }
      if (host->on_cancel(p->call.ctx, p->call.ticket, pf_hosted_cancelled, p)) { free(p); return PF_CANCELLED; }
      pf_status st = pf_hosted_lasts(p->call.ctx) ? host->post(host, PF_LANE_BLOCKING, pf_hosted_run, p)
                                                  : host->post_caller(p->call.ctx, pf_hosted_run, p);
      if (st) {                         /* nobody runs it; unless it was cancelled, the call is ours to end */
        pf_hosted_drop(p);
        if (host->off_cancel(p->call.ticket)) pf_hosted_drop(p);
        else st = PF_PENDING;
      }
      pf_hosted_drop(p);
      return st ? st : PF_PENDING;
    }
    """
    ctypedef struct pf_hosted:
        pf_pycall call
        pf_a32 at
    enum:
        PF_HOSTED_SLOT
    enum:
        PF_HOSTED_QUEUED, PF_HOSTED_READING, PF_HOSTED_RUNNING, PF_HOSTED_OVER
    void pf_hosted_drop(pf_hosted*) noexcept nogil
    pf_status pf_hosted_compute(pf_ctx*, const void*) noexcept nogil

cdef dict hosted = {}               # op -> its function
cdef list hosted_names = []         # what the tables point to; these live for ever, as every plugin's

cdef list passed_attributes(const pf_op_def* op):
    """Numbers of the attributes that a function is given."""
    cdef int32_t k
    told = set()
    for k in range(op.n_in):
        told.update((op.ins[k].type_attr, op.ins[k].number_attr, op.ins[k].list_attr))
    return [k for k in range(op.n_attrs) if k not in told]

cdef const char* kept_name(str name):
    cdef bytes encoded = name.encode()
    hosted_names.append(encoded)
    return encoded

cdef void* kept(size_t size) except NULL:
    cdef void* p = calloc(1, size)
    if p == NULL:
        raise MemoryError()
    return p

cdef const pf_attr** hosted_attrs(const pf_op_def* op, list numbers) except NULL:
    """The kernel's table of attributes, each with a slot in the state."""
    cdef const pf_attr** table = <const pf_attr**>kept((len(numbers) + 1) * sizeof(void*))
    cdef pf_attr* attr
    cdef int32_t n = 0, k
    for k in numbers:
        name = text_of(op.attrs[k].name)
        if op.attrs[k].kind not in (PF_ATTR_INT, PF_ATTR_FLOAT, PF_ATTR_BOOL, PF_ATTR_STRING, PF_ATTR_TYPE,
                                    PF_ATTR_TENSOR):
            raise ValueError("op %s: a Python function is given numbers, strings, types and tensors, not attributes like '%s'"
                             % (text_of(op.name), name))
        attr = <pf_attr*>kept(sizeof(pf_attr))
        attr.size = sizeof(pf_attr)
        attr.name = kept_name(name)
        attr.kind = op.attrs[k].kind
        attr.offset = PF_HOSTED_SLOT * n
        table[n] = attr
        n += 1
    return table

cdef pf_kernel* hosted_kernel(str op) except NULL:
    cdef const char* name = kept_name(op)
    cdef const pf_op_def* d = pf_op_find(pf_str_of(name))
    cdef pf_kernel* k
    if d == NULL:
        raise ValueError("op %s is not known" % op)
    numbers = passed_attributes(d)
    k = <pf_kernel*>kept(sizeof(pf_kernel))
    k.size = sizeof(pf_kernel)
    k.flags = PF_KERNEL_ASYNC
    k.op = name
    k.device = b"CPU"
    k.attrs = hosted_attrs(d, numbers)
    k.state_size = <uint64_t>(PF_HOSTED_SLOT * len(numbers))
    k.compute = pf_hosted_compute
    return k

cdef pf_plugin hosted_plugin

def register_hosted(dict functions):
    """Makes Python functions the CPU kernels of ops the core knows, {op: function}; once in a process."""
    cdef const pf_kernel** kernels = <const pf_kernel**>kept((len(functions) + 1) * sizeof(void*))
    cdef pf_plugin* p = &hosted_plugin
    cdef pf_error err
    cdef list problems = []
    cdef int32_t n = 0
    for op in functions:
        kernels[n] = hosted_kernel(op)
        n += 1
    p.size = sizeof(pf_plugin)
    p.id = b"pyflow.hosted"
    p.version = b"0.1"
    p.kernels = kernels
    p.abi_major = PF_ABI_MAJOR
    p.abi_minor = PF_ABI_MINOR
    pf_error_clear(&err)
    pf_plugin_register(p, b"pyflow", collect_problem, <void*>problems, &err)
    if err.code or problems:
        raise ValueError("Python kernels: %s %s" % (err.message.decode("utf-8", "replace") if err.code else "", problems))
    hosted.update(functions)

cdef object attribute_value(const pf_attr* attr, const char* slot):
    """An attribute as a Python value: types as their numbers, strings as str, tensors as arrays."""
    cdef pf_tensor* t
    if attr.kind == PF_ATTR_INT:
        return (<const int64_t*>slot)[0]
    if attr.kind == PF_ATTR_FLOAT:
        return (<const double*>slot)[0]
    if attr.kind == PF_ATTR_BOOL:
        return (<const int32_t*>slot)[0] != 0
    if attr.kind == PF_ATTR_TYPE:
        return (<const int32_t*>slot)[0]
    if attr.kind == PF_ATTR_TENSOR:
        t = pf_tensor_copy(pf_tensor_of((<const pf_const*>slot).tensor))
        if t == NULL:
            raise MemoryError()
        return array_of(t)
    return text_of((<const pf_str*>slot)[0])

cdef tuple read_hosted(pf_ctx* c):
    """(the op's function, its arrays, its attributes)."""
    cdef const pf_node_info* node = (<pf_call*>c).node
    cdef const pf_attr** a = <const pf_attr**>node.kernel.kernel.attrs
    cdef int32_t k
    cdef pf_tensor* t
    cdef dict attrs = {}
    cdef list args = []
    while a[0] != NULL:
        attrs[a[0].name.decode()] = attribute_value(a[0], <const char*>node.state + a[0].offset)
        a += 1
    for k in range(c.n_in):
        t = pf_tensor_copy(pf_tensor_of(c.ins[k]))
        if t == NULL:
            raise MemoryError()
        args.append(array_of(t))
    return hosted[node.kernel.kernel.op.decode()], args, attrs

cdef int write_hosted(pf_pycall* p, object results) except -1:
    cdef int32_t k
    op = (<pf_call*>p.ctx).node.kernel.kernel.op.decode()
    if not isinstance(results, tuple):
        results = (results,)
    for k in range(p.ctx.n_out):
        set_python_output(p, k, results[k], op)
    return 0

cdef pf_status fail_hosted(pf_hosted* p, object e):
    status = getattr(e, "status", None)
    code, message = (status, str(e)) if isinstance(status, int) else status_of(e)
    text = message.encode("utf-8", "replace")
    return p.call.ctx.host.fail(p.call.ctx, code, text, len(text))

cdef bint call_hosted(pf_hosted* p, pf_status* st):
    """Runs the op's function; with the call's outputs or error set.  False: the call was ended meanwhile."""
    failure = results = None
    st[0] = PF_OK
    try:
        function, args, attrs = read_hosted(p.call.ctx)
    except BaseException as e:
        pf_a32_store(&p.at, PF_HOSTED_OVER)     # perhaps unwanted: ours to end all the same
        st[0] = fail_hosted(p, e)
        return True
    if not pf_a32_cas(&p.at, PF_HOSTED_READING, PF_HOSTED_RUNNING):
        pf_a32_store(&p.at, PF_HOSTED_OVER)
        st[0] = PF_CANCELLED
        return True
    try:
        results = function(*args, **attrs)
    except BaseException as e:
        failure = e
    if not pf_a32_cas(&p.at, PF_HOSTED_RUNNING, PF_HOSTED_OVER):
        return False
    try:
        if failure is not None:
            raise failure
        write_hosted(&p.call, results)
    except BaseException as e:
        st[0] = fail_hosted(p, e)
    return True

cdef void pf_hosted_go "pf_hosted_go"(void* arg) noexcept nogil:
    cdef pf_hosted* p = <pf_hosted*>arg
    cdef pf_status st = PF_OK
    cdef const pf_host* host = pf_host_table()
    cdef bint ours = pf_a32_cas(&p.at, PF_HOSTED_QUEUED, PF_HOSTED_READING)
    if ours:
        with gil:
            ours = call_hosted(p, &st)
    if ours:
        if host.off_cancel(p.call.ticket):
            pf_hosted_drop(p)           # pf_hosted_cancelled will not come
        host.done(p.call.ticket, st)
    pf_hosted_drop(p)

# ---------------------------------------------------------------- registration
def _start():
    cdef pf_error err
    cdef list problems = []
    pf_error_clear(&err)
    pthread_atfork(NULL, NULL, pf_py_child)
    pf_plugin_register(pf_core_plugin(), b"pyflow", collect_problem, <void*>problems, &err)
    pf_plugin_register(&pf_pyfunc_plugin, b"pyflow", collect_problem, <void*>problems, &err)
    if err.code or problems:
        raise ImportError("pyflow's own kernels: %s %s" % (err.message.decode("utf-8", "replace"), problems))

_start()
