# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Strings of tensors: where their bytes lie.

A string tensor's data are pf_str, one per element; the bytes lie in chunks that the tensor owns, so
that an element costs an addition when it is set and nothing when the tensor ends.

Invariants
1. `owner` of a string tensor (which is no view) is its newest chunk, from which the others are
   linked, down to the oldest, which may lie in the tensor's own block behind the elements.  Chunks
   end with the tensor.
2. An element takes bytes of a chunk once.  A longer value set later lies in a block of its own; the
   lowest bit of `owner`, LOOSE, says that there are such blocks, and then all new values get one:
   a tensor whose elements are set again and again does not grow.
3. A value is followed by a NUL that does not count.
4. Where a sanitizer should see each string's ends, every value lies in a block of its own.

Threads: several may set different elements at once; `used` and `next` of a chunk and `owner` are
all they share.

    pf_tensor_str_set(pf_dl(t), 0, value);
    pf_tensor_str_get(pf_dl(t), 0, &value);
"""
from memory_h cimport *

cdef extern from *:
    """
    typedef struct pf_str_chunk {
      struct pf_str_chunk *next;            /* the one before */
      int64_t room;                         /* bytes behind this header */
      pf_a64 used;                          /* more than `room`: who added it found no room */
    } pf_str_chunk;
    /* short strings without a call */
    static inline void pf_str_copy(char *to, const char *s, int64_t n) {
      if (n > 16) { memcpy(to, s, (size_t)n); return; }
      if (n >= 8) {
        uint64_t a, b;
        memcpy(&a, s, 8), memcpy(&b, s + n - 8, 8);
        memcpy(to, &a, 8), memcpy(to + n - 8, &b, 8);
      } else if (n >= 4) {
        uint32_t a, b;
        memcpy(&a, s, 4), memcpy(&b, s + n - 4, 4);
        memcpy(to, &a, 4), memcpy(to + n - 4, &b, 4);
      } else if (n > 0) {
        char a = s[0], b = s[n >> 1], c = s[n - 1];
        to[0] = a, to[n >> 1] = b, to[n - 1] = c;
      }
    }
    """
    ctypedef struct chunk "pf_str_chunk":
        chunk* next
        int64_t room
        pf_a64 used
    void pf_str_copy(char*, const char*, int64_t) noexcept nogil

cdef enum:
    LOOSE = 1
    LARGE = 2048                # such a string gets a chunk of its own when the newest is full
    FIRST_BYTES = 65536
    MOST_BYTES = 1 << 20        # of a chunk for several strings


# ---------------------------------------------------------------- chunks
cdef inline uintptr_t owner_of(pf_tensor* t) noexcept nogil:
    return <uintptr_t>pf_aptr_load(<pf_aptr*>&t.owner)


cdef inline chunk* newest(uintptr_t owner) noexcept nogil:
    return <chunk*>(owner & ~<uintptr_t>LOOSE)


cdef inline char* bytes_of(chunk* c) noexcept nogil:
    return <char*>(c + 1)


cdef inline bint is_inside(pf_tensor* t, chunk* c) noexcept nogil:
    """The chunk lies in the tensor's own block."""
    return <char*>c == <char*>t.m.dl_tensor.data + t.nbytes


cdef bint in_chunks(chunk* c, const char* p) noexcept nogil:
    while c != NULL:
        if bytes_of(c) <= p < bytes_of(c) + c.room:
            return True
        c = <chunk*>pf_aptr_load(<pf_aptr*>&c.next)
    return False


cdef chunk* chunk_new(int64_t room, int64_t used) noexcept nogil:
    cdef chunk* c = <chunk*>pf_mem_alloc(<uint64_t>room + sizeof(chunk))
    if c != NULL:
        c.next = NULL
        c.room = room
        pf_a64_store_rlx(&c.used, used)
    return c


cdef int64_t room_after(pf_tensor* t, chunk* head, int64_t bytes) noexcept nogil:
    """For the next chunk: all elements if they are like this one, twice the last, within limits."""
    cdef int64_t n = t.nbytes // <int64_t>sizeof(pf_str)
    cdef int64_t room = FIRST_BYTES if n > FIRST_BYTES // bytes else n * bytes
    if head != NULL and room < 2 * head.room:
        room = 2 * head.room
    if room > MOST_BYTES:
        room = MOST_BYTES
    return room if room > bytes else bytes


cdef char* from_new_chunk(pf_tensor* t, uintptr_t owner, int64_t bytes) noexcept nogil:
    """The newest chunk is full."""
    cdef chunk* head = newest(owner)
    cdef bint alone = head != NULL and bytes > LARGE
    cdef chunk* c = chunk_new(bytes if alone else room_after(t, head, bytes), bytes)
    if c == NULL:
        return NULL
    while True:
        if alone:                       # behind the newest, which goes on being filled
            c.next = <chunk*>pf_aptr_load(<pf_aptr*>&head.next)
            if pf_aptr_cas(<pf_aptr*>&head.next, c.next, c):
                return bytes_of(c)
            continue
        c.next = newest(owner)
        if pf_aptr_cas(<pf_aptr*>&t.owner, <void*>owner, <void*>(<uintptr_t>c | (owner & LOOSE))):
            return bytes_of(c)
        owner = owner_of(t)


cdef inline char* from_chunk(pf_tensor* t, uintptr_t owner, int64_t bytes) noexcept nogil:
    cdef chunk* c = newest(owner)
    cdef int64_t at
    if likely(c != NULL and (bytes <= LARGE or pf_a64_load_rlx(&c.used) <= c.room - bytes)):
        at = pf_a64_add_rlx(&c.used, bytes)
        if likely(at <= c.room - bytes):
            return bytes_of(c) + at
    return from_new_chunk(t, owner, bytes)


cdef public void pf_strings_start(pf_tensor* t) noexcept nogil:
    """A tensor of empty strings; what its block has left is the first chunk."""
    cdef chunk* c = <chunk*>(<char*>t.m.dl_tensor.data + t.nbytes)
    cdef char* end = <char*>t + PF_HEADER + pf_class_bytes(<int32_t>t.klass)
    memset(t.m.dl_tensor.data, 0, <size_t>t.nbytes)
    t.owner = NULL
    if not PF_CACHE_BLOCKS:
        t.owner = <void*>LOOSE
    elif end - <char*>c > <int64_t>sizeof(chunk):
        c.next = NULL
        c.room = end - bytes_of(c)
        pf_a64_store_rlx(&c.used, 0)
        t.owner = c


cdef public void pf_strings_free(pf_tensor* t) noexcept nogil:
    cdef uintptr_t owner = owner_of(t)
    cdef chunk* c = newest(owner)
    cdef chunk* next
    cdef pf_str* s = <pf_str*>t.m.dl_tensor.data
    cdef int64_t i, bytes = 0
    if owner & LOOSE:
        for i in range(t.nbytes // <int64_t>sizeof(pf_str)):
            if s[i].data != NULL and not in_chunks(c, s[i].data):
                bytes += s[i].len + 1
                free(<void*>s[i].data)
        pf_mem_count(-bytes)
    while c != NULL:
        next = c.next
        if not is_inside(t, c):
            pf_mem_free(c)
        c = next


# ---------------------------------------------------------------- elements
cdef pf_status set_loose(pf_tensor* t, pf_str* at, pf_str value) noexcept nogil:
    """A value in a block of its own, or none; what was there is freed if it had one."""
    cdef char* copy = NULL
    cdef int64_t delta = 0
    cdef uintptr_t owner = owner_of(t)
    while not owner & LOOSE:
        pf_aptr_cas(<pf_aptr*>&t.owner, <void*>owner, <void*>(owner | LOOSE))
        owner = owner_of(t)
    if value.len > 0:
        copy = <char*>malloc(<size_t>value.len + 1)
        if copy == NULL:
            return PF_RESOURCE_EXHAUSTED
        memcpy(copy, value.data, <size_t>value.len)
        copy[value.len] = 0
        delta = value.len + 1
    if at.data != NULL and not in_chunks(newest(owner), at.data):
        delta -= at.len + 1
        free(<void*>at.data)
    at.data = copy
    at.len = value.len
    pf_mem_count(delta)
    return PF_OK


cdef public pf_status pf_tensor_str_set(DLTensor* d, int64_t i, pf_str value) noexcept nogil:
    cdef pf_tensor* t = pf_tensor_of(d)
    cdef pf_str* at
    cdef char* to
    cdef uintptr_t owner
    if unlikely(d == NULL or t.type != PF_STRING or value.len < 0 or (value.data == NULL and value.len)
                or <uint64_t>i >= <uint64_t>t.nbytes // sizeof(pf_str)):
        return PF_OUT_OF_RANGE
    at = <pf_str*>d.data + i
    if unlikely(t.flags & (PF_T_VIEW | PF_T_BORROWED | PF_T_FOREIGN)):
        if not t.flags & PF_T_VIEW:
            return PF_FAILED_PRECONDITION
        t = <pf_tensor*>t.owner
    owner = owner_of(t)
    if unlikely(owner & LOOSE or value.len > (<int64_t>1 << 46)):
        return set_loose(t, at, value)
    if unlikely(at.data != NULL):
        if value.len > at.len:
            return set_loose(t, at, value)
        to = <char*>at.data             # in its place, from which the value may come
        if value.len:
            memmove(to, value.data, <size_t>value.len)
    elif value.len == 0:
        return PF_OK
    else:
        to = from_chunk(t, owner, value.len + 1)
        if unlikely(to == NULL):
            return PF_RESOURCE_EXHAUSTED
        pf_str_copy(to, value.data, value.len)
    to[value.len] = 0
    at.data = to
    at.len = value.len
    return PF_OK


cdef public pf_status pf_tensor_str_get(const DLTensor* d, int64_t i, pf_str* out) noexcept nogil:
    cdef const pf_tensor* t = pf_tensor_of(d)
    if unlikely(d == NULL or out == NULL):
        return PF_INVALID_ARGUMENT
    if unlikely(t.type != PF_STRING or <uint64_t>i >= <uint64_t>t.nbytes // sizeof(pf_str)):
        out.data = b""
        out.len = 0
        return PF_OUT_OF_RANGE
    out[0] = (<const pf_str*>d.data)[i]
    if out.data == NULL:
        out.data = b""
    return PF_OK


cdef pf_status own_one_by_one(pf_tensor* t) noexcept nogil:
    cdef pf_str* s = <pf_str*>t.m.dl_tensor.data
    cdef pf_str value
    cdef int64_t i, n = t.nbytes // <int64_t>sizeof(pf_str)
    cdef pf_status st = PF_OK
    for i in range(n):
        value = s[i]
        s[i].data = NULL
        s[i].len = 0
        if st == PF_OK:
            st = pf_tensor_str_set(&t.m.dl_tensor, i, value)
    return st


cdef public pf_status pf_strings_own(pf_tensor* t) noexcept nogil:
    """The elements of a new tensor were written as others' memory: they become its own, in one
    chunk."""
    cdef pf_str* s = <pf_str*>t.m.dl_tensor.data
    cdef int64_t i, len, total = 0, n = t.nbytes // <int64_t>sizeof(pf_str)
    cdef char* to
    cdef chunk* head
    if not PF_CACHE_BLOCKS:
        return own_one_by_one(t)
    for i in range(n):
        total += s[i].len + (s[i].len != 0)
        if unlikely(<uint64_t>s[i].len > (<uint64_t>1 << 46) or total > (<int64_t>1 << 46)):
            memset(s, 0, <size_t>t.nbytes)
            return PF_RESOURCE_EXHAUSTED
    head = newest(<uintptr_t>t.owner)
    if head == NULL or head.room < total:
        head = chunk_new(total, 0) if total else NULL
        if total and head == NULL:
            memset(s, 0, <size_t>t.nbytes)
            return PF_RESOURCE_EXHAUSTED
        if head != NULL:
            head.next = <chunk*>t.owner
            t.owner = head
    to = bytes_of(head) if head != NULL else NULL
    for i in range(n):
        len = s[i].len
        if len == 0:
            s[i].data = NULL
            continue
        pf_str_copy(to, s[i].data, len)
        to[len] = 0
        s[i].data = to
        to += len + 1
    if head != NULL:
        pf_a64_store_rlx(&head.used, total)
    return PF_OK
