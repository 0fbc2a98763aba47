# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""What tasks say to each other without Python: connections, steps at peers, tensors for them.

    a = Net(Task("/job:worker/task:0"))             b = Net(Task("/job:worker/task:1"))
    address = b.listen("unix")                      b.serve(7, plan)
    a.connect(b.name, b.incarnation, "unix", address)
    step = a.run(b.name, 7, session, 1, [x], [DT_FLOAT])        # begins there without a thread of Python's
    step.result()

Only the callbacks of `run` and `lost` need the GIL, on a thread of their own: whoever holds it delays nothing else.
"""
cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from look_h cimport *
from pyflow._executor.plans cimport Runnable
from pyflow._executor.started cimport Started
from pyflow._executor.tasks cimport Task
from pyflow._executor.values cimport array_of, borrow, clear_error, kept, raise_error, tensor_of

import atexit
import sys
import weakref

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from "links.h" nogil:
    ctypedef struct pf_link:
        uint32_t size, flags
        const char* kind
    pf_link pf_link_tcp, pf_link_unix
    enum:
        PF_LINK_INSECURE
        PF_LINK_FAR
        PF_LINK_SECURE

cdef extern from "net/net.h" nogil:
    ctypedef struct pf_peer
    ctypedef struct pf_net_options:
        int64_t lease_ns, queue_bytes, arena_bytes, incoming_bytes, window_bytes
        uint64_t epoch
        void (*lost)(void*, const char*, uint64_t, const pf_error*) noexcept nogil
        void* lost_arg
    ctypedef struct pf_net_plans:
        pf_plan** plans
        const int32_t* arg_of
        const int32_t* ret_of
        int32_t n, n_args, n_rets, n_feeds
    ctypedef struct pf_remote:
        pf_a32 over
        pf_status status
        pf_error error
        int64_t n_rets
        pf_tensor** rets
    ctypedef struct pf_peer_view:
        char* name
        char* kind
        uint64_t incarnation, epoch
        int32_t state, initiated
        int64_t since_ns, bytes_in, bytes_out, queued, announced, unread, stored, arena_bytes, arena_used, rtt_ns, clock_offset_ns, silent_ns
        int64_t remotes, serving
    pf_net* pf_net_new(pf_task*, const pf_net_options*, pf_error*) noexcept
    void pf_net_close(pf_net*) noexcept
    void pf_net_unref(pf_net*) noexcept
    pf_status pf_net_add_link(const pf_link*) noexcept
    pf_status pf_net_offer_link(const pf_link*, const pf_link**, pf_error*) noexcept
    pf_status pf_net_listen(pf_net*, const char*, const char*, int32_t, char*, int32_t, pf_error*) noexcept
    pf_status pf_net_connect(pf_net*, const char*, uint64_t, const char*, const char*, int32_t, int64_t, pf_error*) noexcept
    int64_t pf_net_asked(pf_net*, uint64_t) noexcept
    pf_status pf_net_disconnect(pf_net*, const char*, uint64_t, const char*) noexcept
    pf_peer* pf_net_peer(pf_net*, const char*) noexcept
    int32_t pf_net_kind(pf_net*, const char*, uint64_t, char*, int64_t) noexcept
    void pf_peer_unref(pf_peer*) noexcept
    int32_t pf_net_views(pf_net*, pf_peer_view*, int32_t) noexcept
    pf_status pf_net_serve(pf_net*, uint64_t, const pf_net_plans*, void*, void (*)(void*) noexcept nogil, pf_error*) noexcept
    pf_status pf_net_unserve(pf_net*, uint64_t) noexcept
    pf_status pf_net_run(pf_net*, const char*, uint64_t, pf_step_key, pf_tensor**, int32_t, int64_t,
                         void (*)(void*) noexcept nogil, void*, pf_remote**, pf_error*) noexcept
    int32_t pf_remote_wait(pf_remote*, int64_t) noexcept
    int32_t pf_remote_help(pf_remote*, pf_started*, int64_t) noexcept
    void pf_remote_cancel(pf_remote*, pf_status, const char*) noexcept
    void pf_remote_unref(pf_remote*) noexcept
    pf_status pf_net_cancel(pf_net*, const char*, pf_step_key, const pf_error*) noexcept
    pf_status pf_net_clean(pf_net*, const char*, pf_step_key, int32_t, int32_t) noexcept
    pf_status pf_peer_put(pf_peer*, pf_step_key, pf_str, pf_tensor*, int32_t, const pf_pend*, pf_error*) noexcept
    pf_status pf_peer_announce(pf_peer*, pf_step_key, pf_str, pf_tensor*, pf_error*) noexcept

pf_net_add_link(&pf_link_unix)
pf_net_add_link(&pf_link_tcp)

cdef enum:
    MAX_OFFERED = 16

cdef dict offered = {"unix": (False, False), "tcp": (True, False)}

def links():
    """{kind: (it reaches other machines, it encrypts and knows its peers)} of all links there are."""
    return dict(offered)

def register_links(uintptr_t address, problem):
    """The kinds of the links that the pf_plugin at `address` offers ("pyflow.link/1"), which can be used from now on.
    problem(text): called for each that is refused."""
    cdef const pf_plugin* source = <const pf_plugin*>address
    cdef pf_plugin p
    cdef const pf_link* const* theirs
    cdef const pf_link* own = NULL
    cdef pf_error err
    cdef list kinds = []
    cdef int k = 0
    memset(&p, 0, sizeof(p))
    memcpy(&p, source, min(<size_t>source.size, sizeof(p)))
    if p.extension == NULL or (p.abi_major == PF_ABI_MAJOR and p.abi_minor < 3):   # made before there were links
        return kinds
    theirs = <const pf_link* const*>p.extension(b"pyflow.link/1")
    while theirs != NULL and theirs[k] != NULL:
        if k == MAX_OFFERED:
            problem("extension 'pyflow.link/1': its array has no NULL after %d links" % k)
            break
        clear_error(&err)
        if pf_net_offer_link(theirs[k], &own, &err):
            problem("extension 'pyflow.link/1': " + err.message.decode("utf-8", "replace"))
        else:
            kind = own.kind.decode()
            offered[kind] = ((own.flags & PF_LINK_FAR) != 0, (own.flags & PF_LINK_SECURE) != 0)
            kinds.append(kind)
        k += 1
    return kinds

cdef object nets = weakref.WeakSet()

def close_all():
    """At exit: no thread of a net's runs when the interpreter ends."""
    for net in list(nets):
        net.close()

atexit.register(close_all)

ctypedef void (*told_fn)(void*) noexcept nogil
STATES = ("greeting", "open", "lost")

# ---------------------------------------------------------------- called by the thread that tells
cdef void drop_owner(void* owner) noexcept with gil:
    Py_DECREF(<object>owner)

cdef void call_back(void* object) noexcept with gil:
    cdef Remote remote = <Remote>object
    Py_DECREF(remote)
    callback, remote.callback = remote.callback, None
    try:
        callback(remote)
    except BaseException:
        sys.excepthook(*sys.exc_info())

cdef void tell_lost(void* arg, const char* name, uint64_t incarnation, const pf_error* why) noexcept with gil:
    try:
        (<object>arg)(name.decode("utf-8", "replace"), incarnation, why.code, (<pf_error*>why).message.decode("utf-8", "replace"))
    except BaseException:
        sys.excepthook(*sys.exc_info())

cdef pf_status send_there(void* arg, pf_step_key key, pf_str name, pf_tensor* take, int32_t dead, const pf_pend* pend,
                          pf_error* err) noexcept nogil:
    """A task's route to a peer."""
    return pf_peer_put(<pf_peer*>arg, key, name, take, dead, pend, err)

cdef void leave_peer(void* arg) noexcept nogil:
    pf_peer_unref(<pf_peer*>arg)

cdef pf_step_key key_of(session, step):
    cdef pf_step_key key
    key.session = <uint64_t>session
    key.step = <uint64_t>step
    return key

# ---------------------------------------------------------------- a step at a peer
@cython.final
cdef class Remote:
    """A step under way at a peer: as a Started.  Dropped while it runs, it is cancelled.  Thread-safe."""
    cdef pf_remote* r
    cdef Net net
    cdef object callback
    cdef bint keep              # results are Kept
    cdef object __weakref__

    def __dealloc__(self):
        cdef pf_remote* r = self.r
        if r != NULL:
            with nogil:
                pf_remote_cancel(r, PF_CANCELLED, b"nobody waits for the step any more")
                pf_remote_unref(r)

    def done(self):
        """The step is over: `result` will not wait."""
        return pf_a32_load(&self.r.over) != 0

    def cancel(self, str why="cancelled"):
        """The step fails there, with all that runs under its key in that task; `result` raises CANCELLED then, unless it ended before."""
        cdef bytes text = why.encode()[:4000]
        cdef const char* t = text
        with nogil:
            pf_remote_cancel(self.r, PF_CANCELLED, t)

    def wait(self, timeout=None):
        """Until the step is over, at most `timeout` seconds; whether it is.  Signal handlers run meanwhile."""
        cdef int64_t until = -1 if timeout is None else pf_now_ns() + <int64_t>(timeout * 1e9)
        cdef int64_t slice
        while not pf_a32_load(&self.r.over):
            slice = pf_now_ns() + 50000000
            if until >= 0:
                slice = min(slice, until)
            with nogil:
                pf_remote_wait(self.r, slice)
            if pf_a32_load(&self.r.over):
                break
            PyErr_CheckSignals()
            if 0 <= until <= pf_now_ns():
                return False
        return True

    def help(self, Started own not None, double timeout):
        """Works on this thread for a step of this process that has tensors from the one there, at most `timeout` seconds or until that one
        fails; whether `own` is over.  Signal handlers run meanwhile."""
        cdef int64_t until = pf_now_ns() + <int64_t>(timeout * 1e9), slice
        own.quiet = False
        while not own.done():
            slice = min(pf_now_ns() + 50000000, until)
            with nogil:
                pf_remote_help(self.r, own.h, slice)
            if own.done():
                break
            own.raise_interrupt()
            if pf_now_ns() >= until or (pf_a32_load(&self.r.over) and self.r.status):
                return False
        own.raise_interrupt()
        return True

    def result(self, timeout=None):
        """The fetches' values in order; raises what failed the step, or TimeoutError.  Once: values are handed over."""
        cdef list out
        cdef int64_t k
        cdef pf_tensor** rets
        if not self.wait(timeout):
            raise TimeoutError("the step is still running")
        if self.r.status:
            raise_error(&self.r.error)
        rets = self.r.rets
        self.r.rets = NULL
        if rets == NULL:
            raise RuntimeError("the results of this step were taken already")
        out = [kept(rets[k]) if self.keep else array_of(rets[k]) for k in range(self.r.n_rets)]
        free(rets)
        return out

# ---------------------------------------------------------------- a task's net
@cython.final
cdef class Net:
    """The connections of a task.  Thread-safe.

    lease: seconds of silence after which a peer is lost.  queue_bytes: tensors that may wait to be sent to a peer, arena_bytes: memory
    shared with one (each way; 0: none), incoming_bytes: of announced tensors under way from one, window_bytes: of tensors from one that
    wait here to be read; what is more stays with who sends it until it is asked for.  epoch: this task's fencing
    number; a peer is refused that has a lower one than was seen of it.  lost(name, incarnation, code, message): called, on a thread of
    its own, when an open connection is lost.
    """
    def __cinit__(self, Task task not None, double lease=2.5, int64_t queue_bytes=1 << 24, int64_t arena_bytes=1 << 30,
                  int64_t incoming_bytes=1 << 30, int64_t window_bytes=1 << 26, epoch=0, lost=None):
        cdef pf_net_options o
        cdef pf_error err
        memset(&o, 0, sizeof(o))
        if not 0.01 <= lease <= 86400 or queue_bytes < 0 or arena_bytes < 0 or incoming_bytes < 1 or window_bytes < 0:
            raise ValueError("a lease is 0.01 s to a day, and bounds are not negative")
        if not task.t.name[0]:
            raise ValueError("a task with a net has a name")
        o.lease_ns = <int64_t>(lease * 1e9)
        o.queue_bytes = queue_bytes
        o.arena_bytes = arena_bytes
        o.incoming_bytes = incoming_bytes
        o.window_bytes = window_bytes
        o.epoch = <uint64_t>epoch
        self.lost = lost
        if lost is not None:
            o.lost = tell_lost
            o.lost_arg = <void*>lost
        self.task = task
        self.lease = lease
        clear_error(&err)
        self.n = pf_net_new(task.t, &o, &err)
        if self.n == NULL:
            raise_error(&err)
        nets.add(self)

    def __dealloc__(self):
        cdef pf_net* n = self.n
        if n != NULL:
            with nogil:
                pf_net_close(n)
                pf_net_unref(n)

    def close(self):
        """Peers hear that this task has gone; steps at them, and those they began here, fail.  Idempotent."""
        self.closed = True
        with nogil:
            pf_net_close(self.n)

    @property
    def name(self):
        return self.task.name

    @property
    def incarnation(self):
        return self.task.incarnation

    def listen(self, str kind="unix", str address="", bint insecure=False):
        """The address by which peers reach this task.  kind "unix": "" makes a name of its own; "tcp": "127.0.0.1:0".  Addresses of
        TCP beyond this machine need insecure=True."""
        cdef bytes k = kind.encode(), a = address.encode()
        cdef const char* kc = k
        cdef const char* ac = a
        cdef char bound[256]
        cdef pf_error err
        clear_error(&err)
        bound[0] = 0
        with nogil:
            pf_net_listen(self.n, kc, ac, PF_LINK_INSECURE if insecure else 0, bound, 256, &err)
        if err.code:
            raise_error(&err)
        return (<bytes>bound).decode()

    def connect(self, str name, incarnation, str kind, str address, bint insecure=False, double timeout=10.0):
        """Returns once the task of this name and incarnation has answered; at once where it is connected.  StepError: ABORTED: it is of
        another incarnation or a higher epoch; UNAVAILABLE, DEADLINE_EXCEEDED, PERMISSION_DENIED."""
        cdef bytes nb = name.encode(), k = kind.encode(), a = address.encode()
        cdef const char* nc = nb
        cdef const char* kc = k
        cdef const char* ac = a
        cdef uint64_t of = <uint64_t>incarnation
        cdef int64_t ns = <int64_t>(timeout * 1e9)
        cdef pf_error err
        clear_error(&err)
        with nogil:
            pf_net_connect(self.n, nc, of, kc, ac, PF_LINK_INSECURE if insecure else 0, ns, &err)
        if err.code:
            raise_error(&err)

    def disconnect(self, str name, str why="disconnected", uint64_t incarnation=0):
        """Whether there was an open connection with that task, with that incarnation where one is said: it is lost on both
        sides."""
        cdef bytes nb = name.encode(), w = why.encode()[:500]
        cdef const char* nc = nb
        cdef const char* wc = w
        cdef pf_status st
        with nogil:
            st = pf_net_disconnect(self.n, nc, incarnation, wc)
        return st == PF_OK

    def route(self, str name):
        """From now on _net.Send of this task reaches the connected peer of that name; whether there is one."""
        cdef bytes nb = name.encode()
        cdef const char* nc = nb
        cdef pf_peer* to = pf_net_peer(self.n, nc)
        if to == NULL:
            return False
        if pf_task_route(self.task.t, nc, send_there, to, leave_peer):
            pf_peer_unref(to)
            raise MemoryError()
        return True

    def serve(self, handle, plans):
        """Peers may run the Plan, or the Parts, under that number below 2**64, until `unserve`."""
        cdef Runnable r = <Runnable?>plans
        cdef int k
        cdef pf_net_plans given
        cdef int32_t* numbers
        cdef pf_error err
        cdef uint64_t h = <uint64_t>handle
        given.plans = r.all
        given.n = r.n
        given.n_args = given.n_feeds = r.n_args
        given.n_rets = r.n_rets
        numbers = <int32_t*>malloc(sizeof(int32_t) * (r.n_args + r.n_rets + 1))
        try:
            if numbers == NULL:
                raise MemoryError()
            for k in range(r.n_args):
                numbers[k] = k if r.arg_of == NULL else r.arg_of[k]
            for k in range(r.n_rets):
                numbers[r.n_args + k] = k if r.ret_of == NULL else r.ret_of[k]
            given.arg_of = numbers
            given.ret_of = numbers + r.n_args
            clear_error(&err)
            Py_INCREF(plans)
            pf_net_serve(self.n, h, &given, <void*>plans, drop_owner, &err)
            if err.code:
                Py_DECREF(plans)
                raise_error(&err)
        finally:
            free(numbers)

    def asked(self, handle):
        """Seconds since a peer last asked for a step of that plan; None: nobody has."""
        cdef uint64_t h = <uint64_t>handle
        cdef int64_t ns
        with nogil:
            ns = pf_net_asked(self.n, h)
        return None if ns < 0 else ns / 1e9

    def unserve(self, handle):
        """Whether there was a plan of that number.  Steps that run go on."""
        cdef uint64_t h = <uint64_t>handle
        cdef pf_status st
        with nogil:
            st = pf_net_unserve(self.n, h)
        return st == PF_OK

    def run(self, str peer, handle, session, step, args=(), types=(), timeout=None, callback=None, bint keep=False):
        """Begins a step of the plan that the peer serves under `handle`, under the key (session, step) of its task; a Remote.

        args: in the plan's order, of the element types `types` (numbers); they are copied before this returns.  timeout: seconds that
        the step may take there.  keep: results are Kept.  callback(remote): called on a thread of its own when it is over.
        """
        cdef Remote remote = Remote.__new__(Remote)
        cdef list hold = []
        cdef bytes p = peer.encode()
        cdef const char* pc = p
        cdef int32_t k, n = <int32_t>len(args)
        cdef pf_tensor* few[16]
        cdef pf_tensor** given = few
        cdef int64_t ns = 0 if timeout is None else max(<int64_t>(timeout * 1e9), <int64_t>1)
        cdef pf_step_key key = key_of(session, step)
        cdef uint64_t h = <uint64_t>handle
        cdef void* object = NULL
        cdef told_fn told = NULL
        cdef pf_error err
        if len(types) != n:
            raise ValueError("%d arguments with %d types" % (n, len(types)))
        remote.net = self
        remote.callback = callback
        remote.keep = keep
        if n > 16:
            given = <pf_tensor**>malloc(sizeof(void*) * n)
            if given == NULL:
                raise MemoryError()
        k = 0
        clear_error(&err)
        try:
            for value, type in zip(args, types):
                given[k] = tensor_of(value, type, hold)
                k += 1
            if callback is not None:
                Py_INCREF(remote)
                object = <void*>remote
                told = call_back
            with nogil:
                pf_net_run(self.n, pc, h, key, given, n, ns, told, object, &remote.r, &err)
            if err.code and object != NULL:
                Py_DECREF(remote)
        finally:
            while k > 0:
                k -= 1
                pf_tensor_unref(given[k])
            if given != few:
                free(given)
        if err.code:
            raise_error(&err)
        return remote

    def put(self, str peer, session, step, bytes name, value, int type, bint announced=False):
        """Sends the value to the rendezvous of the peer's step, a copy where it is no Kept; waits while more than `queue_bytes` wait to be
        sent.  announced: the peer is told of it alone, and asks for it once somebody there takes it; this waits for nothing."""
        cdef bytes p = peer.encode()
        cdef const char* pc = p
        cdef list hold = []
        cdef pf_tensor* t
        cdef pf_peer* to
        cdef pf_error err
        cdef pf_step_key key = key_of(session, step)
        clear_error(&err)
        to = pf_net_peer(self.n, pc)
        if to == NULL:
            pf_error_set(&err, PF_UNAVAILABLE, b"there is no connection with %.127s", pc)
            raise_error(&err)
        try:
            t = tensor_of(value, type, hold)
            k = borrow(name)
            with nogil:
                if announced:
                    pf_peer_announce(to, key, k, t, &err)
                else:
                    pf_peer_put(to, key, k, t, 0, NULL, &err)
        finally:
            with nogil:
                pf_peer_unref(to)
        if err.code:
            raise_error(&err)

    def cancel(self, str peer, session, step, int code=1, str message="cancelled", str task="", bint derived=False):
        """The step of that key fails in the peer's task, now or as it begins; whether there is a connection."""
        cdef pf_error why
        cdef bytes p = peer.encode(), text = message.encode()[:4000], where = task.encode()[:120]
        cdef const char* pc = p
        cdef pf_step_key key = key_of(session, step)
        cdef pf_status st
        if not 0 < code <= 16:
            raise ValueError("an error's code is 1 to 16")
        clear_error(&why)
        why.code = <pf_status>code
        why.derived = derived
        memcpy(why.message, <const char*>text, len(text) + 1)
        memcpy(why.task, <const char*>where, len(where) + 1)
        with nogil:
            st = pf_net_cancel(self.n, pc, key, &why)
        return st == PF_OK

    def clean(self, str peer, session, step=None, bint soon=False):
        """The step, or every step of the session, is over everywhere; whether there is a connection to say so.  soon: with the next
        frame to that peer, at the latest after a fifth of the lease: what is over anyway costs no message of its own."""
        cdef bytes p = peer.encode()
        cdef const char* pc = p
        cdef pf_step_key key = key_of(session, 0 if step is None else step)
        cdef bint all = step is None
        cdef pf_status st
        with nogil:
            st = pf_net_clean(self.n, pc, key, all, soon)
        return st == PF_OK

    def kind(self, str name, uint64_t incarnation=0):
        """By which kind of link there is an open connection with that task, with that incarnation where one is said; None."""
        cdef bytes nb = name.encode()
        cdef char found[64]
        return found.decode() if pf_net_kind(self.n, nb, incarnation, found, sizeof(found)) else None

    def peers(self):
        """A dict per connection: name, kind, incarnation, epoch, state ("greeting", "open"), since (seconds), silent (seconds), rtt and
        clock_offset (seconds), bytes_in, bytes_out, queued and announced (bytes), unread (bytes sent there that were not read, as far as is known), stored (bytes from there that
        nobody has read), arena_bytes, arena_used, remotes (steps asked for
        there), serving (steps begun here for it)."""
        cdef int32_t k, n = pf_net_views(self.n, NULL, 0) + 8
        cdef pf_peer_view* views = <pf_peer_view*>malloc(sizeof(pf_peer_view) * n)
        cdef pf_peer_view* v
        cdef list out = []
        if views == NULL:
            raise MemoryError()
        n = min(n, pf_net_views(self.n, views, n))
        for k in range(n):
            v = views + k
            out.append({
                "name": v.name.decode("utf-8", "replace"), "kind": v.kind.decode(), "incarnation": v.incarnation, "epoch": v.epoch,
                "state": STATES[v.state], "initiated": v.initiated != 0, "since": (pf_now_ns() - v.since_ns) / 1e9,
                "silent": v.silent_ns / 1e9, "rtt": v.rtt_ns / 1e9, "clock_offset": v.clock_offset_ns / 1e9,
                "bytes_in": v.bytes_in, "bytes_out": v.bytes_out, "queued": v.queued, "announced": v.announced, "unread": v.unread, "stored": v.stored,
                "arena_bytes": v.arena_bytes, "arena_used": v.arena_used, "remotes": v.remotes, "serving": v.serving})
        free(views)
        return out
