# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""The ends of streams of bytes that gRPC keeps, as links of a net's (plugins/grpc/links/streams.h).

    stream = Stream()
    net.connect(name, incarnation, "grpc", stream.dial())       # one end; while another thread pumps:
    call = stub.Link(iter(stream.take, None))
    for data in call: stream.put(data, net)

    stream.offer(net.listen("grpc"))                            # the other

Waiting needs no GIL, and neither does what a net does with the bytes.
"""
cimport cython
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint64_t
from pyflow._executor.net cimport Net, pf_net

cdef extern from "streams.h" nogil:
    ctypedef int pf_status
    ctypedef struct pf_link_conn
    ctypedef pf_link_conn pf_stream
    ctypedef struct pf_link:
        const char* kind
    pf_link pf_link_grpc
    pf_stream* pf_stream_new() noexcept
    void pf_stream_unref(pf_stream*) noexcept
    uint64_t pf_stream_dial(pf_stream*) noexcept
    void pf_stream_undial(pf_stream*) noexcept
    pf_status pf_stream_offer(uint64_t, pf_stream*) noexcept
    void pf_stream_give(pf_stream*, void*, int64_t) noexcept
    int64_t pf_stream_take(pf_stream*, void*, int64_t) noexcept
    int32_t pf_stream_put(pf_stream*, const void*, int64_t, void*) noexcept
    void pf_stream_mark(pf_stream*) noexcept
    void* pf_stream_spent(pf_stream*) noexcept
    void pf_stream_end(pf_stream*, const char*) noexcept

cdef extern from "net/net.h" nogil:
    pf_status pf_net_add_link(const pf_link*) noexcept
    void pf_net_receive(pf_net*, pf_link_conn*) noexcept

pf_net_add_link(&pf_link_grpc)

cdef enum:
    BLOCK = 1 << 20                 # bytes of a message of gRPC's, at most
    SMALL = 1 << 16                 # up to which they are copied, and the block is filled again

@cython.final
cdef class Stream:
    """One end of a stream of bytes.  One thread takes, one puts; any may end it."""
    cdef pf_stream* s
    cdef bytes block, spare         # what is filled, of which nobody else knows; what will be

    def __cinit__(self):
        self.s = pf_stream_new()
        if self.s == NULL:
            raise MemoryError("no memory, or no descriptors, for a stream")
        self.block = PyBytes_FromStringAndSize(NULL, BLOCK)
        self.spare = PyBytes_FromStringAndSize(NULL, BLOCK)
        pf_stream_give(self.s, PyBytes_AsString(self.block), BLOCK)

    def __dealloc__(self):
        if self.s != NULL:
            pf_stream_end(self.s, b"the stream was dropped")
            pf_stream_undial(self.s)
            self.free_spent()
            pf_stream_unref(self.s)

    cdef void free_spent(self):
        cdef void* owner = pf_stream_spent(self.s)
        while owner != NULL:
            Py_DECREF(<object>owner)
            owner = pf_stream_spent(self.s)

    def dial(self):
        """The address by which a net connects by it, once."""
        cdef uint64_t number = pf_stream_dial(self.s)
        if number == 0:
            raise MemoryError("too many streams wait to be connected")
        return str(number)

    def undial(self):
        """If no net has connected by it, it is over."""
        with nogil:
            pf_stream_undial(self.s)

    def offer(self, str port):
        """It comes in at the port of a net's; whether there is that port, with room for it."""
        cdef uint64_t number = int(port)
        return pf_stream_offer(number, self.s) == 0

    def take(self):
        """The next bytes to be sent, 1 MB at most, after waiting for some; None: it is over."""
        cdef int64_t n
        cdef char* spare = PyBytes_AsString(self.spare)
        cdef bytes full = self.block
        with nogil:
            n = pf_stream_take(self.s, spare, BLOCK)
        if n == 0:
            return None
        self.block = self.spare
        if n <= SMALL:
            self.spare = full
            return PyBytes_FromStringAndSize(PyBytes_AsString(full), n)
        self.spare = PyBytes_FromStringAndSize(NULL, BLOCK)
        return full if n == BLOCK else full[:n]

    def put(self, bytes data not None, Net net not None):
        """Bytes that came for a net; it acts on them on this thread, or they wait to be read, 4 MB at most.  False: nobody reads
        them any more."""
        cdef int32_t wanted
        cdef pf_net* n_ = net.n
        cdef const char* bytes_ = PyBytes_AsString(data)
        cdef int64_t n = len(data)
        self.free_spent()
        if n == 0:
            return True
        Py_INCREF(data)
        with nogil:
            wanted = pf_stream_put(self.s, bytes_, n, <void*>data)
            if wanted:
                pf_net_receive(n_, self.s)
                pf_stream_mark(self.s)
        if not wanted:
            Py_DECREF(data)
        return wanted != 0

    def end(self, str why="the stream has ended"):
        """No more is sent; the net hears that the peer is lost once it has read what came.  Again: nothing."""
        cdef bytes text = why.encode()[:150]
        cdef const char* t = text
        with nogil:
            pf_stream_end(self.s, t)
