# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Tasks: a server's containers, its incarnation, and its steps by key, for whoever runs steps for others.

    task = Task("/job:worker/replica:0/task:1")
    state = State("session", task)                              # its named containers are the task's
    plan.start(feeds, task=task, session=7, step=1)             # may come after ...
    task.put(7, 1, b"key", value, type)                         # ... what peers send for it
    task.clean(7, 1)                                            # it is over everywhere
"""
cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from look_h cimport *
from pyflow._executor.steps cimport deliver_to_python
from pyflow._executor.values cimport borrow, clear_error, kept, raise_error, tensor_of

from pyflow._executor.values import StepError

cdef pf_step_key key_of(session, step):
    cdef pf_step_key key
    key.session = <uint64_t>session
    key.step = <uint64_t>step
    return key

cdef void failed_in_python(pf_error* err, e):
    known = isinstance(e, StepError)
    cdef bytes text = (e.message if known else "%s: %s" % (type(e).__name__, e)).encode()[:3000]
    cdef const char* message = text
    pf_error_set(err, e.code if known else PF_UNAVAILABLE, b"%s", message)
    err.derived = known and e.derived

cdef pf_status hand_to_python(void* arg, pf_step_key key, pf_str name, pf_tensor* take, int32_t dead, const pf_pend* pend,
                              pf_error* err) noexcept nogil:
    """A route over a function."""
    with gil:
        try:
            value = kept(take) if take != NULL else None
            (<object>arg)(key.session, key.step, name.data[:name.len], value, dead != 0)
        except BaseException as e:
            failed_in_python(err, e)
    return err.code

cdef void drop_python(void* arg) noexcept nogil:
    with gil:
        if not pf_host_ended():
            Py_DECREF(<object>arg)

# What a row of a kind has: its name, those of session, step, seconds, id, a and b, and those of its texts; "": nothing.
cdef tuple GLANCES = (
    (), ("step", ("session", "step", "seconds", "", "state", "early_bytes"), ("failure",)),
    ("key", ("session", "step", "seconds", "", "state", "bytes"), ("key",)),
    ("run", ("session", "step", "seconds", "id", "nodes", "depth"), ()),
    ("call", ("session", "step", "seconds", "id", "role", ""), ("node", "op", "resource")),
    ("block", ("session", "step", "", "id", "number", "missing"), ("node", "op")),
    ("node", ("session", "step", "", "id", "block", ""), ("node", "op")),
    ("resource", ("", "", "", "flags", "there", "needed"), ("name", "takes", "puts")),
    ("use", ("session", "step", "seconds", "", "role", "times"), ("resource", "node", "op")),
    ("source", ("", "", "", "", "number", ""), ("resource",)))

cdef dict fields_of(const pf_glance_row* row, tuple numbers, tuple texts):
    cdef const char* at = <const char*>row + sizeof(pf_glance_row)
    cdef dict found = {}
    cdef int k
    for name, value in zip(numbers, (row.session, row.step, row.age_ns / 1e9, row.id, row.a, row.b)):
        if name:
            found[name] = value
    if row.n_numbers:
        found["successor"] = [(<const uint32_t*>at)[k] for k in range(row.n_numbers)]
        at += 4 * row.n_numbers
    for k in range(len(texts)):
        found[texts[k]] = at[:row.text[k]].decode("utf-8", "replace")
        at += row.text[k]
    return found

cdef list rows_of(pf_glance* g):
    cdef list found = []
    cdef const pf_glance_row* row
    cdef int64_t at = 0
    while at < g.n:
        row = <const pf_glance_row*>(g.data + at)
        name, numbers, texts = GLANCES[row.kind]
        found.append((name, fields_of(row, numbers, texts)))
        at += row.size
    if g.cut:
        found.append(("cut", {}))
    return found

cdef extern from *:
    """
    typedef struct { pf_a32 refs, over; pf_status st; int32_t dead; pf_tensor *t; pthread_mutex_t lock; pthread_cond_t cond; } pf_arrival;
    static pf_arrival *pf_arrival_new(void) {
      pf_arrival *a = calloc(1, sizeof *a);
      if (!a) return NULL;
      pf_a32_store(&a->refs, 2);                  /* who waits, who brings */
      pthread_mutex_init(&a->lock, NULL);
      pf_cond_init(&a->cond);
      return a;
    }
    static void pf_arrival_unref(pf_arrival *a) {
      if (!a || !pf_a32_dec_last(&a->refs)) return;
      pf_tensor_unref(a->t);
      pthread_mutex_destroy(&a->lock);
      pthread_cond_destroy(&a->cond);
      free(a);
    }
    static void pf_arrived(void *arg, pf_status st, pf_tensor *take, int32_t dead) {    /* a pf_recv_fn */
      pf_arrival *a = (pf_arrival *)arg;
      pthread_mutex_lock(&a->lock);
      a->st = st, a->t = take, a->dead = dead;
      pf_a32_store(&a->over, 1);
      pthread_cond_broadcast(&a->cond);
      pthread_mutex_unlock(&a->lock);
      pf_arrival_unref(a);
    }
    static void pf_arrival_wait(pf_arrival *a, int64_t until) {
      pthread_mutex_lock(&a->lock);
      while (!pf_a32_load(&a->over) && pf_now_ns() < until) pf_cond_wait_until(&a->cond, &a->lock, until);
      pthread_mutex_unlock(&a->lock);
    }
    """
    ctypedef struct pf_arrival:
        pf_a32 over
        pf_status st
        int32_t dead
        pf_tensor* t
    pf_arrival* pf_arrival_new() nogil
    void pf_arrival_unref(pf_arrival*) nogil
    void pf_arrived(void*, pf_status, pf_tensor*, int32_t) noexcept nogil
    void pf_arrival_wait(pf_arrival*, int64_t) nogil

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

@cython.final
cdef class Arrival:
    """A tensor that is waited for.  Whoever brings it needs no GIL."""
    cdef pf_arrival* a
    cdef Task task
    cdef pf_step_key key

    def __dealloc__(self):
        pf_arrival_unref(self.a)

    def result(self):
        """It, as a Kept, once it is there, or StepError: why the step failed.  Signal handlers run meanwhile.  Once."""
        cdef pf_error err
        cdef pf_tensor* t
        while not pf_a32_load(&self.a.over):
            with nogil:
                pf_arrival_wait(self.a, pf_now_ns() + 50000000)
            PyErr_CheckSignals()
        if self.a.st or self.a.dead or self.a.t == NULL:
            clear_error(&err)
            if not self.a.st or not pf_task_error(self.task.t, self.key, &err):
                pf_error_set(&err, self.a.st if self.a.st else PF_INVALID_ARGUMENT, b"a tensor of the step did not come")
            raise_error(&err)
        t = self.a.t
        self.a.t = NULL
        return kept(t)

@cython.final
cdef class Task:
    """What the sessions of one server share.  name: "/job:worker/replica:0/task:1"; None: the process's own, which has none.

    A step has a key of two numbers below 2**64: its session's and its own.  What is said of a step that has not begun waits
    for it, within bounds; what is said of one that was cleaned up raises (or is told) NOT_FOUND.
    """

    def __cinit__(self, name=None):
        cdef bytes text
        if name is None:
            self.t = pf_task_own()
            return
        if not isinstance(name, str) or not name or len(name.encode()) >= 128:
            raise ValueError(f"a task's name is a string of 1 to 127 bytes, got {name!r}")
        text = name.encode()
        self.t = pf_task_new(text)
        if self.t == NULL:
            raise MemoryError()

    def __dealloc__(self):
        cdef pf_task* t = self.t
        with nogil:
            pf_task_unref(t)

    @property
    def name(self):
        return self.t.name.decode("utf-8", "replace")

    @property
    def incarnation(self):
        """64 random bits, of this task in this process."""
        return pf_task_incarnation(self.t)

    def put(self, session, step, bytes name, value, int type, bint dead=False):
        """Puts a copy of the value under a name, for the step's Recv or another task's `take`; dead: there is none."""
        cdef list hold = []
        cdef pf_tensor* t = tensor_of(value, type, hold) if not dead else NULL
        cdef pf_tensor* own = t
        cdef pf_error err
        cdef pf_str k = borrow(name)
        cdef pf_step_key key = key_of(session, step)
        if t != NULL and t.flags & PF_T_BORROWED:
            own = pf_tensor_copy(t)
            pf_tensor_unref(t)
            if own == NULL:
                raise MemoryError()
        clear_error(&err)
        with nogil:
            pf_task_put(self.t, key, k, own, dead, &err)
        if err.code:
            raise_error(&err)

    def route(self, str peer, way):
        """From now on _net.Send hands tensors for the task `peer` to `way`: a Task of this process, or a function
        (session, step, name, value, dead) of any thread; value: a Kept, None when dead.  What it raises fails the step: a StepError with
        its code, anything else as UNAVAILABLE.  None: there is no way any more."""
        cdef bytes text = peer.encode()
        cdef Task there
        cdef pf_status st
        if not text or len(text) >= 128:
            raise ValueError(f"a task's name has 1 to 127 bytes, got {peer!r}")
        if isinstance(way, Task):
            there = way
            st = pf_task_route_to(self.t, text, there.t)
        elif way is None:
            st = pf_task_route(self.t, text, NULL, NULL, NULL)
        else:
            Py_INCREF(way)
            st = pf_task_route(self.t, text, hand_to_python, <void*>way, drop_python)
            if st:
                Py_DECREF(way)
        if st:
            raise MemoryError()

    def take(self, session, step, bytes name, callback):
        """callback(code, value) once what is sent under the name is there, perhaps from another thread, perhaps at once."""
        cdef pf_str k = borrow(name)
        cdef pf_error err
        cdef pf_step_key key = key_of(session, step)
        clear_error(&err)
        Py_INCREF(callback)
        with nogil:
            pf_task_take(self.t, key, k, NULL, deliver_to_python, <void*>callback, &err)
        if err.code:
            Py_DECREF(callback)
            raise_error(&err)

    def open(self, session, step):
        """The step has begun here, though nothing of it runs: until `clean`, whatever comes for it is waited with."""
        cdef pf_step_key key = key_of(session, step)
        cdef pf_error err
        clear_error(&err)
        with nogil:
            pf_task_open(self.t, key, &err)
        if err.code:
            raise_error(&err)

    def arrival(self, session, step, bytes name):
        """The Arrival of what is sent under the name, which `take` hands over on another thread."""
        cdef Arrival a = Arrival.__new__(Arrival)
        cdef pf_str k = borrow(name)
        cdef pf_error err
        a.task = self
        a.key = key_of(session, step)
        a.a = pf_arrival_new()
        if a.a == NULL:
            raise MemoryError("an arrival")
        clear_error(&err)
        with nogil:
            pf_task_take(self.t, a.key, k, NULL, pf_arrived, a.a, &err)
        if err.code:
            pf_arrival_unref(a.a)           # the one that pf_arrived would have dropped
            raise_error(&err)
        return a

    def fail(self, session, step, int code, str message, str task="", bint derived=False):
        """The step fails here, now or as it begins; derived: a cause wins over it."""
        cdef pf_error why
        cdef pf_status st
        cdef bytes text = message.encode()[:4000], where = task.encode()[:120]
        cdef pf_step_key key = key_of(session, step)
        clear_error(&why)
        if code <= 0:
            raise ValueError("an error's code is above 0")
        why.code = <pf_status>code
        why.derived = derived
        memcpy(why.message, <const char*>text, len(text) + 1)
        memcpy(why.task, <const char*>where, len(where) + 1)
        with nogil:
            st = pf_task_fail(self.t, key, &why)
        if st:
            clear_error(&why)
            pf_error_set(&why, st, b"%s", b"the step is over" if st == PF_NOT_FOUND else b"too many steps have not begun")
            raise_error(&why)

    def failed(self, session, step):
        """The step has failed or was cancelled here, or is over."""
        cdef pf_step_key key = key_of(session, step)
        cdef int32_t yes
        with nogil:
            yes = pf_task_over(self.t, key)
        return yes != 0

    def clean(self, session, step=None):
        """The step, or every step of the session, is over everywhere."""
        cdef pf_step_key key = key_of(session, 0 if step is None else step)
        with nogil:
            if step is None:
                pf_task_clean_session(self.t, key.session)
            else:
                pf_task_clean(self.t, key)

    def sweep(self, double patience):
        """Ends steps that others spoke of but that did not begin for `patience` seconds; how many there were."""
        cdef int64_t n, ns = <int64_t>(patience * 1e9)
        with nogil:
            n = pf_task_sweep(self.t, ns)
        return n

    def limit(self, int64_t early_steps, int64_t early_bytes):
        """How many steps that have not begun here are waited with, and with how many bytes."""
        pthread_mutex_lock(&self.t.lock)
        self.t.max_early = early_steps
        self.t.max_early_bytes = early_bytes
        pthread_mutex_unlock(&self.t.lock)

    def counts(self):
        """{"open", "early", "gone": steps in the table, "early_bytes"; "ended": partitions of steps so far}."""
        cdef dict found
        pthread_mutex_lock(&self.t.lock)
        found = {"open": self.t.n_open, "early": self.t.n_early, "gone": self.t.n_gone, "early_bytes": self.t.early_bytes, "ended": self.t.n_ended}
        pthread_mutex_unlock(&self.t.lock)
        return found

    def glance(self):
        """What the task's steps wait for now: [(kind, {field: value})], kinds and numbers as in core/host/host.h, core/host/uses.pyx
        and core/step/waiting.pyx; ("cut", {}) last if there was more than fits."""
        cdef pf_glance g
        cdef list found
        memset(&g, 0, sizeof(g))
        with nogil:
            pf_task_glance(self.t, &g)
            pf_watch_glance(self.t, &g)
            pf_glance_resources(&g)
        try:
            found = rows_of(&g)
        finally:
            pf_glance_free(&g)
        return found

    def reset_containers(self, names=()):
        """Forgets the task's named containers; all of them when no name is given."""
        cdef list encoded = [n.encode() for n in names]
        cdef const char** c = <const char**>malloc(sizeof(char*) * (len(encoded) + 1))
        cdef int32_t k
        if c == NULL:
            raise MemoryError()
        for k in range(len(encoded)):
            c[k] = encoded[k]
        pf_containers_reset(self.t, c, <int32_t>len(encoded))
        free(c)
