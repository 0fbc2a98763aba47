# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Steps that run without the thread that began them."""
cimport cython
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF, Py_XDECREF
from look_h cimport *
from pyflow._executor.values cimport array_of, clear_error, fits, kept, raise_error, tensor_of, wrong_shape
from pyflow._executor.options cimport BY_POOL, BY_STARTER, BY_WAITER, take_run_options
from pyflow._executor.steps cimport Interrupt, check_signals, restore

import sys

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from *:
    """
    static void pf_landed(void *arg, pf_status s, const pf_error *err, pf_tensor **take_rets);
    """

cdef void call_back(void* object) noexcept with gil:
    """The step's callback, on the pool's thread that ran its last block; drops the step's own reference."""
    cdef Started started = <Started>object
    callback, started.callback = started.callback, None
    try:
        callback(started)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    started.release()

cdef void pf_landed(void* arg, pf_status st, const pf_error* err, pf_tensor** take_rets) noexcept nogil:
    cdef pf_landing* l = <pf_landing*>arg
    cdef int64_t k
    cdef void* object
    pthread_mutex_lock(&l.lock)
    l.status = st
    if st and err != NULL:
        memcpy(&l.error, err, sizeof(pf_error))
    elif st:
        l.error.code = st
    else:
        for k in range(l.n_rets):
            l.rets[k] = take_rets[k]
    l.over = 1
    object = l.object
    pthread_cond_broadcast(&l.cond)
    pthread_mutex_unlock(&l.lock)           # the last touch without a callback: who waits may free it
    if object != NULL:
        call_back(object)

@cython.final
cdef class Started:
    """A step under way: `result` waits for it, `cancel` ends it early, `done` looks.

    Dropped while it runs, it is cancelled and waited for.  Thread-safe.
    """
    def __cinit__(self):
        self.l = <pf_landing*>calloc(1, sizeof(pf_landing))
        if self.l == NULL:
            raise MemoryError()
        pthread_mutex_init(&self.l.lock, NULL)
        pf_cond_init(&self.l.cond)
        self.l.over = 1

    def __dealloc__(self):
        cdef int64_t k
        if self.l == NULL:
            return
        with nogil:
            if self.quiet:
                pf_started_wake(self.h)
            if not wait_for(self.l, 0):
                pf_started_cancel(self.h, PF_CANCELLED, b"nobody waits for the step any more")
            wait_for(self.l, -1)
        for k in range(self.l.n_rets):
            if self.l.rets != NULL and self.l.rets[k] != NULL:
                pf_tensor_unref(self.l.rets[k])
        free(self.l.rets)
        Py_XDECREF(self.interrupt.type)
        Py_XDECREF(self.interrupt.value)
        Py_XDECREF(self.interrupt.traceback)
        pf_started_unref(self.h)
        pthread_mutex_destroy(&self.l.lock)
        pthread_cond_destroy(&self.l.cond)
        free(self.l)

    cdef release(self):
        """After the callback: who waits may go on, and the step's reference goes."""
        with nogil:
            pthread_mutex_lock(&self.l.lock)
            self.l.object = NULL
            pthread_cond_broadcast(&self.l.cond)
            pthread_mutex_unlock(&self.l.lock)
        Py_DECREF(self)

    def done(self):
        """The step is over: `result` will not wait."""
        return wait_for(self.l, 0) != 0

    def cancel(self, str why="cancelled"):
        """Soon; `result` raises CANCELLED then, unless the step ended before."""
        cdef pf_error err
        cdef bytes text = why.encode()[:MAX_WHY]
        clear_error(&err)
        err.code = PF_CANCELLED
        memcpy(err.message, <const char*>text, len(text) + 1)
        if self.h == NULL:                  # it was over before `start` returned
            return
        with nogil:
            pf_started_fail(self.h, &err)

    def wait(self, timeout=None):
        """Until the step is over, at most `timeout` seconds; whether it is.  Signal handlers run meanwhile."""
        cdef int64_t until = -1 if timeout is None else pf_now_ns() + <int64_t>(timeout * 1e9)
        cdef int64_t slice
        cdef int32_t over
        if self.quiet:
            self.quiet = False
            with nogil:
                pf_started_wake(self.h)
        while True:
            slice = pf_now_ns() + 50000000
            if until >= 0:
                slice = min(slice, until)
            with nogil:
                over = wait_for(self.l, slice)
            if over:
                return True
            PyErr_CheckSignals()
            if 0 <= until <= pf_now_ns():
                return False

    cdef int raise_interrupt(self) except -1:
        cdef Interrupt i = self.interrupt
        if i.type != NULL:
            memset(&self.interrupt, 0, sizeof(Interrupt))
            restore(&i)
        return PyErr_CheckSignals()

    def work(self, double timeout):
        """As `wait`, and this thread works for the step meanwhile."""
        cdef int64_t until = pf_now_ns() + <int64_t>(timeout * 1e9), slice
        self.quiet = False
        while not self.done():
            slice = min(pf_now_ns() + 50000000, until)
            with nogil:
                pf_started_help(self.h, NULL, slice)
            if self.done():
                break
            self.raise_interrupt()
            if pf_now_ns() >= until:
                return False
        self.raise_interrupt()
        return True

    def result(self, timeout=None):
        """The fetches' values in order, as its RunOptions say; raises what failed the step, or TimeoutError.  Once: values are handed
        over."""
        cdef list out
        cdef int64_t k
        cdef pf_tensor** rets
        if not self.wait(timeout):
            raise TimeoutError("the step is still running")
        if self.l.status:
            raise_error(&self.l.error)
        pthread_mutex_lock(&self.l.lock)
        rets = self.l.rets
        self.l.rets = NULL
        pthread_mutex_unlock(&self.l.lock)
        if rets == NULL:
            raise RuntimeError("the results of this step were taken already")
        out = [None] * self.l.n_rets
        for k in range(self.l.n_rets):
            out[k if self.ret_of == NULL else self.ret_of[k]] = kept(rets[k]) if self.keep else array_of(rets[k])
        free(rets)
        return out

cdef int32_t wait_for(pf_landing* l, int64_t until) noexcept nogil:
    """Whether the step is over by then, as the lock shows it: what it left may be read.  until: -1 for ever, 0 not at all."""
    cdef int32_t over
    pthread_mutex_lock(&l.lock)
    while not l.over and until:
        if until < 0:
            pthread_cond_wait(&l.cond, &l.lock)
        else:
            pf_cond_wait_until(&l.cond, &l.lock, until)
            if pf_now_ns() >= until:
                break
    over = l.over
    pthread_mutex_unlock(&l.lock)
    return over

cdef enum:
    MAX_WHY = 500                   # bytes of why a step was cancelled
    HERE_NS = 10000000              # what a step may take on the thread that begins it, which has other messages to read

cdef bint is_bounded(pf_plan** plans, int n):
    cdef int32_t measured = 0
    return 0 <= pf_plans_cost(plans, n, &measured) <= HERE_NS

cdef int64_t take_feeds(pf_plan** plans, int n, const int32_t* arg_of, int n_args, object feeds, pf_tensor** args, list hold) except -1:
    """Fills args, plan after plan; their bytes.  On an exception those made so far are released."""
    cdef int at = 0, j, k
    cdef int64_t bytes_in = 0
    if len(feeds) != n_args:
        raise ValueError("the step takes %d arguments, got %d" % (n_args, len(feeds)))
    try:
        for j in range(n):
            for k in range(<int>plans[j].n_args):
                args[at] = tensor_of(feeds[at if arg_of == NULL else arg_of[at]], plans[j].arg_type[k], hold)
                bytes_in += args[at].nbytes
                at += 1
                if not fits(plans[j].arg_shape + k, args[at - 1]):
                    wrong_shape(plans[j], k, args[at - 1])
    except BaseException:
        while at > 0:
            at -= 1
            pf_tensor_unref(args[at])
        raise
    return bytes_in

cdef Started begin(object keep, pf_plan** plans, int n, const int32_t* arg_of, const int32_t* ret_of, int n_args, int n_rets,
                   object feeds, object options, object done, object key, int by):
    """Plans side by side, which `keep` keeps, as it does the numbers: of each argument among the feeds, of each result among all."""
    cdef Started s = Started()
    cdef pf_tensor** args
    cdef pf_run_options o
    cdef pf_error err
    cdef pf_status st
    memset(&o, 0, sizeof(o))
    if not BY_POOL <= by <= BY_WAITER:
        raise ValueError("by is one of BY_POOL, BY_STARTER and BY_WAITER, but got %d" % by)
    if options is not None:
        s.keep = take_run_options(options, &o, &s.interrupt)
    if (o.task != NULL) != (key is not None):
        raise ValueError("a task's step has a key, and only that has: options.task and key go together")
    if key is not None:
        session, step = key
        o.key.session = <uint64_t>session
        o.key.step = <uint64_t>step
    s.plans = keep
    s.ret_of = ret_of
    s.hold = [feeds, options]               # lent to the step, which outlives this call
    s.l.n_rets = n_rets
    s.l.rets = <pf_tensor**>calloc(n_rets + 1, sizeof(pf_tensor*))
    args = <pf_tensor**>malloc(sizeof(pf_tensor*) * (n_args + 1))
    try:
        if s.l.rets == NULL or args == NULL:
            raise MemoryError()
        take_feeds(plans, n, arg_of, n_args, feeds, args, s.hold)
        o.quiet = s.quiet = by == BY_WAITER
        if s.quiet:
            o.poll = check_signals
            o.poll_arg = &s.interrupt
        o.here = by == BY_STARTER and is_bounded(plans, n)
        clear_error(&err)
        s.l.over = 0
        if done is not None:
            s.callback = done
            s.l.object = <void*>s
            Py_INCREF(s)
        with nogil:
            st = pf_step_start(plans, n, args, &o, pf_landed, s.l, &s.h, &err)
        if st:
            s.l.over = 1
            s.quiet = False
            s.callback = None
            if s.l.object != NULL:
                s.l.object = NULL
                Py_DECREF(s)
            raise_error(&err)
    finally:
        free(args)
    return s
