# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Tensors: element types, headers, data, DLPack.

Invariants
1. Data of a tensor made here lies behind its header in the same block, 64-aligned, compact,
   row-major.
2. A tensor that differs from a free block's standard header (view, foreign memory, strings,
   handle, more than 8 dims) has a release of its own, which restores that header (memory.pyx,
   invariant 2).
3. `refs` is the only owner count; m.deleter drops one, so that a tensor travels as DLPack without
   a wrapper.

Threads: any; a tensor is written only while its writer holds the sole reference, or is its maker.

    pf_tensor *t = pf_tensor_new(PF_FLOAT32, (int64_t[]){2, 3}, 2);
    float *x = pf_dl(t)->data;
    pf_tensor_unref(t);
"""
from memory_h cimport *

ctypedef void (*release_owner_fn)(void*) noexcept nogil


# ---------------------------------------------------------------- element types
cdef public int64_t pf_type_size(int32_t type) noexcept nogil:
    return pf_type_table[type].size if 0 < type < PF_TYPES else 0


cdef public DLDataType pf_type_dl(int32_t type) noexcept nogil:
    cdef DLDataType d
    if not 0 < type < PF_TYPES:
        type = 0
    d.code = pf_type_table[type].code
    d.bits = pf_type_table[type].bits
    d.lanes = 1
    return d


cdef inline bint is_number(int32_t type) noexcept nogil:
    return type != PF_STRING and type != PF_RESOURCE and type != PF_VARIANT


cdef public int32_t pf_reads_as(int32_t a, int32_t b) noexcept nogil:
    if a == b or (is_number(a) and is_number(b)):
        return 1
    return not is_number(a) and not is_number(b) and a != PF_STRING and b != PF_STRING


cdef public const char* pf_type_name(int32_t type) noexcept nogil:
    if 0 < type < PF_TYPES and pf_type_table[type].name != NULL:
        return pf_type_table[type].name
    return b"?"


cdef public int32_t pf_type_from_name(pf_str name) noexcept nogil:
    cdef int32_t i
    for i in range(1, PF_TYPES):
        if pf_type_table[i].name != NULL and pf_str_is(name, pf_type_table[i].name):
            return i
    if pf_str_is(name, b"float32"):
        return PF_FLOAT32
    if pf_str_is(name, b"float64"):
        return PF_FLOAT64
    if pf_str_is(name, b"float16"):
        return PF_FLOAT16
    return 0


cdef public pf_status pf_checked_bytes(int32_t type, const int64_t* shape, int32_t ndim,
                                       int64_t* bytes) noexcept nogil:
    cdef int64_t n = 1
    cdef int32_t i
    cdef bint empty = False, over = False
    if not 0 < type < PF_TYPES or pf_type_table[type].size == 0 or ndim < 0 or ndim > PF_MAX_NDIM:
        return PF_INVALID_ARGUMENT
    for i in range(ndim):
        if shape[i] < 0:
            return PF_INVALID_ARGUMENT
        if shape[i] == 0:
            empty = True
        elif pf_mul_overflows(n, shape[i], &n):
            over = True
            n = 1
    if over or pf_mul_overflows(n, pf_type_table[type].size, &n) or n > (<int64_t>1 << 46):
        return PF_RESOURCE_EXHAUSTED
    bytes[0] = 0 if empty else n
    return PF_OK


# ---------------------------------------------------------------- tensors
cdef inline void set_type(pf_tensor* t, int32_t type) noexcept nogil:
    t.type = type
    t.m.dl_tensor.dtype.code = pf_type_table[type].code
    t.m.dl_tensor.dtype.bits = pf_type_table[type].bits
    t.m.dl_tensor.dtype.lanes = 1


cdef inline pf_tensor* tensor_in(pf_tensor* t, int32_t type, const int64_t* shape, int32_t ndim,
                                 int64_t nbytes) noexcept nogil:
    """A block becomes a tensor of up to 8 dims with its data inline."""
    cdef int32_t i
    pf_a32_store_rlx(&t.refs, 1)
    set_type(t, type)
    t.flags = 0
    t.nbytes = nbytes
    t.owner = NULL
    t.m.dl_tensor.ndim = ndim
    for i in range(ndim):
        t.dims[i] = shape[i]
    return t


cdef void restore(pf_tensor* t) noexcept nogil:
    """Back to the standard state of invariant 2, and to the free list."""
    t.m.flags = 0
    t.m.dl_tensor.data = <char*>t + PF_HEADER
    t.m.dl_tensor.device.device_type = kDLCPU
    t.m.dl_tensor.device.device_id = 0
    t.m.dl_tensor.shape = t.dims
    t.m.dl_tensor.strides = NULL
    t.m.dl_tensor.byte_offset = 0
    t.device = NULL
    t.release = pf_block_release
    pf_block_release(t)


cdef void string_release(pf_tensor* t) noexcept nogil:
    pf_strings_free(t)
    restore(t)


cdef pf_tensor* deep_header(const int64_t* shape, int32_t ndim, int64_t room) noexcept nogil:
    """A block for more than 8 dims: after the header the dims, then `room` bytes, 64-aligned."""
    cdef int64_t before = (ndim * <int64_t>sizeof(int64_t) + 63) & ~63
    cdef pf_tensor* t = pf_block_new(pf_class_of(<uint64_t>(before + room)))
    if t != NULL:
        t.m.dl_tensor.shape = <int64_t*>(<char*>t + PF_HEADER)
        memcpy(t.m.dl_tensor.shape, shape, ndim * sizeof(int64_t))
        t.m.dl_tensor.data = <char*>t + PF_HEADER + before
        t.release = restore
    return t


cdef pf_tensor* tensor_new_slow(int32_t type, const int64_t* shape, int32_t ndim) noexcept nogil:
    """Strings, many dims, and what must be refused."""
    cdef int64_t bytes
    cdef pf_tensor* t
    if type == PF_RESOURCE or type == PF_VARIANT:
        return NULL                     # these are pf_tensor_handle's
    if pf_checked_bytes(type, shape, ndim, &bytes) != PF_OK:
        return NULL
    if ndim > PF_INLINE_DIMS:
        t = deep_header(shape, ndim, bytes)
    else:
        t = pf_block_new(pf_class_of(<uint64_t>bytes))
    if t == NULL:
        return NULL
    tensor_in(t, type, shape, ndim if ndim <= PF_INLINE_DIMS else 0, bytes)
    t.m.dl_tensor.ndim = ndim
    if ndim <= PF_INLINE_DIMS:
        pf_guard_tail(<char*>t.m.dl_tensor.data, bytes, pf_class_bytes(<int32_t>t.klass))
    if type == PF_STRING:
        pf_strings_start(t)
        t.release = string_release
    return t


cdef public pf_tensor* pf_tensor_new(int32_t type, const int64_t* shape,
                                     int32_t ndim) noexcept nogil:
    cdef int64_t n, d
    cdef int32_t i
    cdef pf_tensor* t
    if unlikely(<uint32_t>type >= PF_TYPES or <uint32_t>ndim > PF_INLINE_DIMS or type == PF_STRING):
        return tensor_new_slow(type, shape, ndim)
    n = pf_type_table[type].size
    if unlikely(n == 0 or type == PF_RESOURCE or type == PF_VARIANT):
        return NULL
    for i in range(ndim):
        d = shape[i]
        # a factor of 2^31 twice may leave the range: such shapes take the checked path
        if unlikely(<uint64_t>d >= (<uint64_t>1 << 31) or n >= (<int64_t>1 << 31)):
            return tensor_new_slow(type, shape, ndim)
        n *= d
    t = pf_block_new(pf_class_of(<uint64_t>n + PF_RED_ZONE))
    if t == NULL:
        return NULL
    tensor_in(t, type, shape, ndim, n)
    if not PF_RED_ZONE:
        pf_guard_tail(<char*>t.m.dl_tensor.data, n, pf_class_bytes(<int32_t>t.klass))
    else:
        t.flags = PF_T_WATCHED
        memset(<char*>t.m.dl_tensor.data + n, PF_RED_BYTE, PF_RED_ZONE)
    return t


# ---------------------------------------------------------------- headers over other memory
cdef void foreign_release(pf_tensor* t) noexcept nogil:
    cdef release_owner_fn fn = (<release_owner_fn*>((<char*>t) + PF_HEADER))[0]
    if fn != NULL:
        fn(t.owner)
    restore(t)


cdef void view_release(pf_tensor* t) noexcept nogil:
    pf_tensor_unref(<pf_tensor*>t.owner)
    restore(t)


cdef void handle_release(pf_tensor* t) noexcept nogil:
    pf_object_unref(<pf_object*>t.m.dl_tensor.data)
    restore(t)


cdef pf_tensor* header_over(int32_t type, const int64_t* shape, int32_t ndim, void* data,
                            uint32_t flags) noexcept nogil:
    """A header whose data lies elsewhere.  The first 64 bytes of its own block stay free; then
    come long dims."""
    cdef int64_t bytes
    cdef pf_tensor* t
    if pf_checked_bytes(type, shape, ndim, &bytes) != PF_OK:
        return NULL
    t = pf_block_new(pf_class_of(64 + (8 * <uint64_t>ndim if ndim > PF_INLINE_DIMS else 0)))
    if t == NULL:
        return NULL
    tensor_in(t, type, shape, ndim if ndim <= PF_INLINE_DIMS else 0, bytes)
    if ndim > PF_INLINE_DIMS:
        t.m.dl_tensor.ndim = ndim
        t.m.dl_tensor.shape = <int64_t*>(<char*>t + PF_HEADER + 64)
        memcpy(t.m.dl_tensor.shape, shape, ndim * sizeof(int64_t))
    t.m.dl_tensor.data = data
    t.flags = flags
    return t


cdef public pf_tensor* pf_tensor_wrap(int32_t type, const int64_t* shape, int32_t ndim, void* data,
                                      uint32_t flags, void (*release_owner)(void*) noexcept nogil,
                                      void* owner) noexcept nogil:
    cdef pf_tensor* t = header_over(type, shape, ndim, data, flags)
    if t == NULL:
        return NULL
    (<release_owner_fn*>((<char*>t) + PF_HEADER))[0] = release_owner
    t.owner = owner
    t.release = foreign_release
    return t


cdef public pf_tensor* pf_tensor_view_as(pf_tensor* src, int32_t type, const int64_t* shape,
                                         int32_t ndim) noexcept nogil:
    cdef pf_tensor* root = <pf_tensor*>src.owner if src.flags & PF_T_VIEW else src
    cdef pf_tensor* t = header_over(type, shape, ndim, src.m.dl_tensor.data, 0)
    if t == NULL:
        return NULL
    if t.nbytes > src.nbytes:
        restore(t)
        return NULL
    t.flags = PF_T_VIEW | (src.flags & (PF_T_BORROWED | PF_T_HANDLE | PF_T_CONSTANT))
    t.m.dl_tensor.device = src.m.dl_tensor.device
    t.device = src.device
    pf_tensor_ref(root)
    t.owner = root
    t.release = view_release
    return t


cdef public pf_tensor* pf_tensor_view(pf_tensor* src, const int64_t* shape,
                                      int32_t ndim) noexcept nogil:
    return pf_tensor_view_as(src, src.type, shape, ndim)


cdef public pf_tensor* pf_tensor_handle(pf_object* take) noexcept nogil:
    cdef pf_tensor* t = header_over(PF_RESOURCE, NULL, 0, take, PF_T_HANDLE)
    if t == NULL:
        pf_object_unref(take)
        return NULL
    t.release = handle_release
    return t


cdef void named_release(pf_tensor* t) noexcept nogil:
    pf_object_unref(<pf_object*>t.m.dl_tensor.data)
    pf_tensor_unref(<pf_tensor*>t.owner)
    restore(t)


cdef public pf_tensor* pf_tensor_named(pf_object* take, pf_tensor* snapshot) noexcept nogil:
    cdef pf_tensor* t = header_over(snapshot.type, snapshot.m.dl_tensor.shape,
                                    snapshot.m.dl_tensor.ndim, take, PF_T_HANDLE | PF_T_NAMED)
    if t == NULL:
        pf_object_unref(take)
        return NULL
    pf_tensor_ref(snapshot)
    t.owner = snapshot
    t.release = named_release
    return t


cdef public pf_tensor* pf_tensor_copy(const pf_tensor* src) noexcept nogil:
    cdef const DLTensor* d = &src.m.dl_tensor
    cdef pf_tensor* t
    if src.flags & PF_T_HANDLE:
        pf_object_ref(<pf_object*>d.data)
        t = pf_tensor_handle(<pf_object*>d.data)
        if t != NULL:
            set_type(t, src.type)
        return t
    if src.device != NULL:
        return pf_device_duplicate(src)
    t = pf_tensor_new(src.type, d.shape, d.ndim)
    if t == NULL:
        return NULL
    if src.type != PF_STRING:
        if src.nbytes:
            memcpy(t.m.dl_tensor.data, d.data, <size_t>src.nbytes)
        return t
    memcpy(t.m.dl_tensor.data, d.data, <size_t>src.nbytes)
    if pf_strings_own(t) != PF_OK:
        pf_tensor_unref(t)
        return NULL
    return t


# ---------------------------------------------------------------- DLPack from others
cdef bint is_compact(const DLTensor* d) noexcept nogil:
    cdef int64_t want = 1
    cdef int32_t i
    if d.strides == NULL:
        return True
    for i in range(d.ndim - 1, -1, -1):
        if d.shape[i] == 0:
            return True
        if d.shape[i] != 1 and d.strides[i] != want:
            return False
        want *= d.shape[i]
    return True


cdef void copy_strided(char* to, const char* src, const DLTensor* d, int64_t item) noexcept nogil:
    """Compact row-major copy of any strides, element by element with an odometer."""
    cdef int64_t at[254]
    cdef int64_t i, offset, n = pf_numel(d)
    cdef int32_t k
    memset(at, 0, sizeof(at))
    for i in range(n):
        offset = 0
        for k in range(d.ndim):
            offset += at[k] * d.strides[k]
        memcpy(to + i * item, src + offset * item, <size_t>item)
        for k in range(d.ndim - 1, -1, -1):
            at[k] += 1
            if at[k] < d.shape[k]:
                break
            at[k] = 0


cdef void managed_release(void* owner) noexcept nogil:
    cdef DLManagedTensorVersioned* m = <DLManagedTensorVersioned*>owner
    if m.deleter != NULL:
        m.deleter(m)


cdef pf_tensor* adopt_own(pf_tensor* t, int32_t type) noexcept nogil:
    """Our own tensor comes back; under another element type of the same numbers, int8 as qint8, if
    the signature says so."""
    cdef pf_tensor* v
    if type == t.type or not type:
        return t
    if pf_type_size(type) != pf_type_size(t.type) or pf_type_table[type].code != pf_type_table[t.type].code:
        pf_tensor_unref(t)
        return NULL
    if pf_tensor_unique(t):
        set_type(t, type)
        return t
    v = pf_tensor_view(t, t.m.dl_tensor.shape, t.m.dl_tensor.ndim)
    pf_tensor_unref(t)
    if v != NULL:
        set_type(v, type)
    return v


cdef int32_t type_of_dl(DLDataType d) noexcept nogil:
    """The plain element type of a DLPack code: int8, not qint8."""
    cdef int32_t i
    for i in range(1, PF_TYPES):
        if (pf_type_table[i].size and pf_type_table[i].code == d.code
            and pf_type_table[i].bits == d.bits
                and d.code != kDLOpaqueHandle and not PF_QINT8 <= i <= PF_QINT32
                and i != PF_QINT16 and i != PF_QUINT16):
            return i
    return 0


cdef public pf_tensor* pf_managed_own(const DLManagedTensorVersioned* m) noexcept nogil:
    return <pf_tensor*>m.manager_ctx if m != NULL and m.deleter == pf_drop_reference else NULL


cdef public int32_t pf_managed_type(const DLManagedTensorVersioned* m) noexcept nogil:
    if m.deleter == pf_drop_reference:
        return (<const pf_tensor*>m.manager_ctx).type
    return type_of_dl(m.dl_tensor.dtype) if m.dl_tensor.dtype.lanes == 1 else 0


cdef bint is_inline(const pf_tensor* t) noexcept nogil:
    """Its data follow the header."""
    if t.flags & ~<uint32_t>PF_T_WATCHED or t.owner != NULL or t.device != NULL:
        return False
    if t.release == restore or t.release == foreign_release:
        return False
    return t.type != PF_STRING or t.m.dl_tensor.shape == t.dims


cdef public int32_t pf_tensor_sound(const pf_tensor* t) noexcept nogil:
    """The header of a tensor of ours, which plugins can write to, is as it was made."""
    cdef const DLTensor* d = &t.m.dl_tensor
    cdef int64_t bytes = pf_type_table[t.type].size
    cdef int32_t k
    if d.byte_offset or d.strides != NULL or d.ndim < 0 or d.ndim > PF_MAX_NDIM:
        return False
    if d.dtype.code != pf_type_table[t.type].code or d.dtype.bits != pf_type_table[t.type].bits or d.dtype.lanes != 1:
        return False
    if is_inline(t) and d.data != <void*>(<char*>t + PF_HEADER):
        return False
    if (d.shape == t.dims) != (d.ndim <= PF_INLINE_DIMS) or (d.data == NULL and t.nbytes):
        return False
    if t.flags & PF_T_HANDLE:
        return True
    for k in range(d.ndim):
        if pf_mul_overflows(bytes, d.shape[k], &bytes):
            return False
    return bytes == t.nbytes


cdef public void pf_tensor_mend(pf_tensor* t) noexcept nogil:
    """Of an unsound tensor: what a free block's header has to have."""
    set_type(t, t.type)
    t.m.dl_tensor.strides = NULL
    t.m.dl_tensor.byte_offset = 0
    if is_inline(t):
        t.m.dl_tensor.data = <char*>t + PF_HEADER
        t.m.dl_tensor.shape = t.dims


cdef pf_tensor* adopt_foreign(DLManagedTensorVersioned* m, int32_t type) noexcept nogil:
    """-> a tensor over `m`, or a compact aligned copy; NULL when `m` is not what `type` says.  `m`
    is kept or not."""
    cdef DLTensor* d = &m.dl_tensor
    cdef char* data = <char*>d.data + d.byte_offset
    cdef bint host = d.device.device_type in (kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged)
    cdef int64_t item, bytes
    cdef pf_tensor* t
    if type == 0:
        type = type_of_dl(d.dtype)
    item = pf_type_size(type)
    if (d.dtype.lanes != 1 or (d.dtype.bits + 7) // 8 != item or m.version.major != 1
            or not is_number(type) or d.dtype.code != pf_type_table[type].code):
        return NULL
    if pf_checked_bytes(type, d.shape, d.ndim, &bytes) != PF_OK or (d.data == NULL and bytes):
        return NULL
    if is_compact(d) and (not host or (<uintptr_t>data & 63) == 0 or bytes == 0):
        t = pf_tensor_wrap(type, d.shape, d.ndim, data, PF_T_FOREIGN, managed_release, m)
        if t != NULL:
            t.m.dl_tensor.device = d.device
        return t
    if not host:
        return NULL
    t = pf_tensor_new(type, d.shape, d.ndim)
    if t != NULL:
        if is_compact(d):
            memcpy(t.m.dl_tensor.data, data, <size_t>bytes)
        elif bytes:
            copy_strided(<char*>t.m.dl_tensor.data, data, d, item)
    return t


cdef public pf_tensor* pf_tensor_adopt(DLManagedTensorVersioned* steal,
                                       int32_t type) noexcept nogil:
    cdef pf_tensor* t
    if steal == NULL:
        return NULL
    if steal.deleter == pf_drop_reference:
        return adopt_own(<pf_tensor*>steal.manager_ctx, type)
    t = adopt_foreign(steal, type)
    if t == NULL or not t.flags & PF_T_FOREIGN:
        managed_release(steal)
    return t
