# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Attribute values of a GraphDef: numbers, strings, shapes, tensors, lists (attr_value.proto,
tensor.proto).

Invariants
1. Everything kept is copied into the graph's arena, or is a tensor listed in `graph.tensors`.
2. Before memory is taken it is counted: arena and tensors together never pass `cap`, whatever a
   shape claims.
3. A TensorProto's values fill its shape exactly; only the last one may stand for the rest.

Field numbers are written beside the code that reads them; unknown fields are skipped, as protobuf
does.
"""
from wire_h cimport *


cdef public pf_status pf_malformed(pf_load* l, const char* what) noexcept nogil:
    return pf_error_set(l.err, PF_INVALID_ARGUMENT,
                        b"%s is malformed: bytes end too early, or are not protobuf", what)


cdef public pf_status pf_over_cap(pf_load* l) noexcept nogil:
    return pf_error_set(l.err, PF_RESOURCE_EXHAUSTED, b"the graph needs more than %ju MB of "
                        b"memory once read; "
                        b"feed large tensors or keep them in variables instead of constants",
                        <uintmax_t>(l.cap >> 20))


cdef public void* pf_load_take(pf_load* l, uint64_t n, uint64_t size) noexcept nogil:
    """Zeroed memory of the graph; NULL and an error over the cap."""
    cdef void* p
    if n * size + l.tensor_bytes + l.graph.arena.total > l.cap:
        pf_over_cap(l)
        return NULL
    p = pf_arena_alloc(&l.graph.arena, n * size if n else 1)
    if p == NULL:
        pf_over_cap(l)
    return p


cdef public int pf_load_keep(pf_load* l, pf_str s, pf_str* out) noexcept nogil:
    if s.len + l.tensor_bytes + l.graph.arena.total > l.cap:
        pf_over_cap(l)
        return False
    out[0] = pf_arena_str(&l.graph.arena, s)
    if out.data == NULL:
        pf_over_cap(l)
    return out.data != NULL


# ---------------------------------------------------------------- TensorShapeProto
# dim=2 {size=1}, unknown_rank=3
cdef pf_status read_dim(pf_load* l, pf_str bytes, int64_t* size) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    size[0] = 0
    while pf_next_field(&r, &f):
        if f.number == 1 and f.wire == PF_WIRE_VARINT:
            size[0] = <int64_t>f.value
    if r.bad:
        return pf_malformed(l, b"a TensorShapeProto")
    if size[0] < -1:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a shape has dimension %jd; expected -1 "
                            b"(unknown) or more",
                            <intmax_t>size[0])
    return PF_OK


cdef pf_status read_shape(pf_load* l, pf_str bytes, pf_shape* out) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef int64_t dims[254]
    cdef int64_t* kept
    cdef int32_t n = 0
    cdef bint unknown = False
    while pf_next_field(&r, &f):
        if f.number == 2 and f.wire == PF_WIRE_BYTES:
            if n >= PF_MAX_NDIM:
                return pf_error_set(l.err, PF_INVALID_ARGUMENT,
                                    b"a shape has more than %d dimensions", PF_MAX_NDIM)
            if read_dim(l, f.bytes, &dims[n]) != PF_OK:
                return l.err.code
            n += 1
        elif f.number == 3 and f.wire == PF_WIRE_VARINT:
            unknown = f.value != 0
    if r.bad:
        return pf_malformed(l, b"a TensorShapeProto")
    out.dims = NULL
    out.ndim = -1
    if unknown:
        return PF_OK
    kept = <int64_t*>pf_load_take(l, n, sizeof(int64_t))
    if kept == NULL:
        return l.err.code
    memcpy(kept, dims, n * sizeof(int64_t))
    out.dims = kept
    out.ndim = n
    return PF_OK


# ---------------------------------------------------------------- TensorProto
cdef struct Values:
    uint32_t field      # which *_val field holds this type
    int32_t wire        # of its items
    int64_t unit        # bytes an item fills; complex numbers take two


cdef Values values_of(int32_t type) noexcept nogil:
    cdef Values v
    v.unit = pf_type_size(type)
    v.wire = PF_WIRE_VARINT
    v.field = 7             # int_val: all integers without a field of their own
    if type == PF_FLOAT16 or type == PF_BFLOAT16:
        v.field = 13
    elif type == PF_FLOAT32 or type == PF_COMPLEX64:
        v.field = 5 if type == PF_FLOAT32 else 9
        v.wire = PF_WIRE_FIXED32
        v.unit = 4
    elif type == PF_FLOAT64 or type == PF_COMPLEX128:
        v.field = 6 if type == PF_FLOAT64 else 12
        v.wire = PF_WIRE_FIXED64
        v.unit = 8
    elif type == PF_STRING:
        v.field = 8
        v.wire = PF_WIRE_BYTES
    elif type == PF_INT64 or type == PF_BOOL:
        v.field = 10 if type == PF_INT64 else 11
    elif type == PF_UINT32 or type == PF_UINT64:
        v.field = 16 if type == PF_UINT32 else 17
    elif type == PF_FLOAT8_E5M2 or type == PF_FLOAT8_E4M3FN:
        v.field = 18                                # one bytes field, an item a byte
        v.wire = PF_WIRE_BYTES
    return v


cdef pf_status too_many(pf_load* l, int64_t n) noexcept nogil:
    return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a TensorProto holds more values than its "
                        b"shape has elements (%jd)",
                        <intmax_t>n)


cdef bint put(pf_load* l, pf_tensor* t, Values v, int64_t* n, uint64_t value) noexcept nogil:
    if (n[0] + 1) * v.unit > t.nbytes:
        too_many(l, t.nbytes // pf_type_size(t.type))
        return False
    if t.type == PF_BOOL:
        value = value != 0
    memcpy(<char*>t.m.dl_tensor.data + n[0] * v.unit, &value, <size_t>v.unit)
    n[0] += 1
    return True


cdef bint put_packed(pf_load* l, pf_tensor* t, Values v, int64_t* n, pf_str packed) noexcept nogil:
    cdef pf_reader r = pf_reader_of(packed)
    cdef uint64_t value
    while r.at < r.end:
        if v.wire == PF_WIRE_VARINT:
            pf_read_varint(&r, &value)
        else:
            pf_read_fixed(&r, v.unit if v.wire != PF_WIRE_BYTES else 1, &value)
        if r.bad:
            pf_malformed(l, b"a TensorProto")
            return False
        if not put(l, t, v, n, value):
            return False
    return True


cdef void repeat_last(pf_tensor* t, int64_t filled) noexcept nogil:
    """`filled` bytes are written; the last element fills the rest, by doubling."""
    cdef char* data = <char*>t.m.dl_tensor.data
    cdef int64_t item = pf_type_size(t.type), more
    cdef int64_t done
    if filled == 0:
        memset(data, 0, <size_t>t.nbytes)
        return
    done = item
    if filled >= t.nbytes:
        return
    memcpy(data + filled, data + filled - item, <size_t>item)
    data += filled
    while done < t.nbytes - filled:
        more = t.nbytes - filled - done
        if more > done:
            more = done
        memcpy(data + done, data, <size_t>more)
        done += more


cdef pf_status fill_values(pf_load* l, pf_tensor* t, pf_str bytes) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef Values v = values_of(t.type)
    cdef int64_t n = 0, item = pf_type_size(t.type)
    while pf_next_field(&r, &f):
        if f.number != v.field:
            continue
        if f.wire == PF_WIRE_BYTES:
            if not put_packed(l, t, v, &n, f.bytes):
                return l.err.code
        elif f.wire == v.wire and not put(l, t, v, &n, f.value):
            return l.err.code
    if (n * v.unit) % item:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a TensorProto of type %s ends within "
                            b"a number",
                            pf_type_name(t.type))
    if t.nbytes:
        repeat_last(t, n * v.unit)
    return PF_OK


cdef pf_status fill_strings(pf_load* l, pf_tensor* t, pf_str bytes) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef pf_str last
    cdef int64_t room, i = 0, n = t.nbytes // <int64_t>sizeof(pf_str)
    last.data = NULL
    last.len = 0
    while pf_next_field(&r, &f):
        if f.number == 8 and f.wire == PF_WIRE_BYTES:
            if i >= n:
                return too_many(l, n)
            last = f.bytes
            l.tensor_bytes += <uint64_t>last.len
            if pf_tensor_str_set(&t.m.dl_tensor, i, last) != PF_OK:
                return pf_over_cap(l)
            i += 1
    if l.tensor_bytes > l.cap:
        return pf_over_cap(l)
    room = <int64_t>((l.cap - l.tensor_bytes) // <uint64_t>(last.len + 32))
    if last.len and n - i > room:
        return pf_over_cap(l)
    while last.len and i < n:
        l.tensor_bytes += <uint64_t>last.len
        if pf_tensor_str_set(&t.m.dl_tensor, i, last) != PF_OK:
            return pf_over_cap(l)
        i += 1
    return PF_OK


cdef pf_status fill_content(pf_load* l, pf_tensor* t, pf_str content) noexcept nogil:
    cdef uint8_t* b = <uint8_t*>t.m.dl_tensor.data
    cdef int64_t i
    if content.len != t.nbytes or t.type == PF_STRING:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT,
                            b"a TensorProto's tensor_content has %jd bytes; its type %s and shape "
                            b"need %jd",
                            <intmax_t>content.len, pf_type_name(t.type), <intmax_t>t.nbytes)
    if content.len:
        memcpy(b, content.data, <size_t>content.len)
    if t.type == PF_BOOL:
        for i in range(t.nbytes):
            b[i] = b[i] != 0
    return PF_OK


cdef bint own_tensor(pf_load* l, pf_tensor* t) noexcept nogil:
    cdef pf_graph* g = l.graph
    cdef pf_tensor** more
    cdef int32_t room
    if g.n_tensors == g.tensors_room:
        room = 2 * g.tensors_room + 16
        more = <pf_tensor**>realloc(g.tensors, room * sizeof(void*))
        if more == NULL:
            pf_tensor_unref(t)
            pf_over_cap(l)
            return False
        g.tensors = more
        g.tensors_room = room
    g.tensors[g.n_tensors] = t
    g.n_tensors += 1
    return True


cdef pf_status new_tensor(pf_load* l, int32_t type, const pf_shape* shape,
                          pf_tensor** out) noexcept nogil:
    """An empty tensor of the graph's, after checking type, shape and memory."""
    cdef int64_t bytes
    cdef int32_t i
    if pf_type_size(type) == 0 or type == PF_RESOURCE or type == PF_VARIANT:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a TensorProto has element type %d (%s), "
                            b"which no constant can have", type, pf_type_name(type))
    if shape.ndim < 0:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a TensorProto has a shape of "
                            b"unknown rank")
    for i in range(shape.ndim):
        if shape.dims[i] < 0:
            return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a TensorProto has negative "
                                b"dimension %jd",
                                <intmax_t>shape.dims[i])
    if pf_checked_bytes(type, shape.dims, shape.ndim, &bytes) != PF_OK:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a TensorProto's shape has too many "
                            b"elements")
    if <uint64_t>bytes + l.tensor_bytes + l.graph.arena.total > l.cap:
        return pf_error_set(l.err, PF_RESOURCE_EXHAUSTED, b"a tensor of %jd bytes, where the graph "
                            b"may need %ju MB of memory once read; feed large tensors or keep them "
                            b"in variables instead of constants",
                            <intmax_t>bytes, <uintmax_t>(l.cap >> 20))
    out[0] = pf_tensor_new(type, shape.dims, shape.ndim)
    if out[0] == NULL or not own_tensor(l, out[0]):
        return pf_over_cap(l)
    l.tensor_bytes += <uint64_t>bytes + 256
    return PF_OK


cdef pf_status read_tensor(pf_load* l, pf_str bytes, pf_tensor** out) noexcept nogil:
    """dtype=1, tensor_shape=2, tensor_content=4, and one *_val field per type; the graph owns the
    result."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef int32_t type = 0
    cdef pf_shape shape
    cdef pf_str shape_bytes, content
    shape_bytes.data = content.data = NULL
    shape_bytes.len = content.len = 0
    while pf_next_field(&r, &f):
        if f.number == 1 and f.wire == PF_WIRE_VARINT:
            type = <int32_t>f.value if f.value < 4096 else -1
        elif f.number == 2 and f.wire == PF_WIRE_BYTES:
            shape_bytes = f.bytes
        elif f.number == 4 and f.wire == PF_WIRE_BYTES and f.bytes.len:
            content = f.bytes
    if r.bad:
        return pf_malformed(l, b"a TensorProto")
    if read_shape(l, shape_bytes, &shape) != PF_OK or new_tensor(l, type, &shape, out) != PF_OK:
        return l.err.code
    if content.len:
        return fill_content(l, out[0], content)
    return fill_strings(l, out[0], bytes) if type == PF_STRING else fill_values(l, out[0], bytes)


# ---------------------------------------------------------------- AttrValue
cdef pf_status read_func(pf_load* l, pf_str bytes, pf_str* name) noexcept nogil:
    """NameAttrList: name=1; its attributes are not used."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef pf_str found = pf_str_of(b"")
    while pf_next_field(&r, &f):
        if f.number == 1 and f.wire == PF_WIRE_BYTES:
            found = f.bytes
    if r.bad:
        return pf_malformed(l, b"a NameAttrList")
    return PF_OK if pf_load_keep(l, found, name) else l.err.code


cdef int32_t list_kind(uint32_t field) noexcept nogil:
    """AttrValue and its ListValue share the numbers 2 to 8; func is 10 in one and 9 in the
    other."""
    if field == 2:
        return PF_ATTR_STRING
    if field == 3:
        return PF_ATTR_INT
    if field == 4:
        return PF_ATTR_FLOAT
    if field == 5:
        return PF_ATTR_BOOL
    if field == 6:
        return PF_ATTR_TYPE
    if field == 7:
        return PF_ATTR_SHAPE
    if field == 8:
        return PF_ATTR_TENSOR
    return PF_ATTR_FUNC if field == 9 else 0


cdef int64_t item_size(int32_t kind) noexcept nogil:
    if kind == PF_ATTR_INT or kind == PF_ATTR_FLOAT:
        return 8
    if kind == PF_ATTR_BOOL or kind == PF_ATTR_TYPE:
        return 4
    return sizeof(pf_str) if kind == PF_ATTR_STRING or kind == PF_ATTR_FUNC else \
        sizeof(pf_shape) if kind == PF_ATTR_SHAPE else sizeof(pf_const)


cdef double float_of(uint64_t bits) noexcept nogil:
    cdef float x
    cdef uint32_t low = <uint32_t>bits
    memcpy(&x, &low, 4)
    return x


cdef void put_number(int32_t kind, void* items, int64_t i, uint64_t value) noexcept nogil:
    if kind == PF_ATTR_INT:
        (<int64_t*>items)[i] = <int64_t>value
    elif kind == PF_ATTR_FLOAT:
        (<double*>items)[i] = float_of(value)
    elif kind == PF_ATTR_BOOL:
        (<int32_t*>items)[i] = value != 0
    else:
        (<int32_t*>items)[i] = <int32_t>value


cdef pf_status put_message(pf_load* l, int32_t kind, void* items, int64_t i,
                           pf_str bytes) noexcept nogil:
    cdef pf_tensor* t = NULL
    if kind == PF_ATTR_STRING:
        return PF_OK if pf_load_keep(l, bytes, <pf_str*>items + i) else l.err.code
    if kind == PF_ATTR_FUNC:
        return read_func(l, bytes, <pf_str*>items + i)
    if kind == PF_ATTR_SHAPE:
        return read_shape(l, bytes, <pf_shape*>items + i)
    if read_tensor(l, bytes, &t) != PF_OK:
        return l.err.code
    (<pf_const*>items)[i].tensor = &t.m.dl_tensor
    (<pf_const*>items)[i].type = t.type
    return PF_OK


cdef int64_t count_items(const pf_field* f, int32_t kind) noexcept nogil:
    """Items of one field of a ListValue; -1: malformed."""
    cdef int64_t i, n = 0
    if f.wire != PF_WIRE_BYTES or kind in (PF_ATTR_STRING, PF_ATTR_SHAPE, PF_ATTR_TENSOR,
                                           PF_ATTR_FUNC):
        return 1
    if kind == PF_ATTR_FLOAT:
        return f.bytes.len // 4 if f.bytes.len % 4 == 0 else -1
    for i in range(f.bytes.len):
        n += (<const uint8_t*>f.bytes.data)[i] < 128
    return n


cdef pf_status count_list(pf_load* l, pf_str bytes, int32_t* kind, int64_t* n) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef int64_t more
    cdef int32_t k
    kind[0] = 0
    n[0] = 0
    while pf_next_field(&r, &f):
        k = list_kind(f.number)
        if k == 0:
            continue
        if kind[0] and k != kind[0]:
            return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"an attribute's list mixes kinds "
                                b"of values")
        kind[0] = k
        more = count_items(&f, k)
        if more < 0:
            return pf_malformed(l, b"an attribute's list")
        n[0] += more
    return pf_malformed(l, b"an attribute's list") if r.bad else PF_OK


cdef pf_status read_list(pf_load* l, pf_str bytes, pf_attr_value* out) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes), packed
    cdef pf_field f
    cdef int64_t n, i = 0
    cdef int32_t kind
    cdef uint64_t value = 0
    cdef void* items
    if count_list(l, bytes, &kind, &n) != PF_OK:
        return l.err.code
    items = pf_load_take(l, <uint64_t>n, <uint64_t>item_size(kind))
    if items == NULL:
        return l.err.code
    while pf_next_field(&r, &f):
        if list_kind(f.number) == 0 or i >= n:
            continue
        if kind in (PF_ATTR_STRING, PF_ATTR_SHAPE, PF_ATTR_TENSOR, PF_ATTR_FUNC):
            if f.wire != PF_WIRE_BYTES:
                return pf_malformed(l, b"an attribute's list")
            if put_message(l, kind, items, i, f.bytes) != PF_OK:
                return l.err.code
            i += 1
        elif f.wire != PF_WIRE_BYTES:
            put_number(kind, items, i, f.value)
            i += 1
        else:
            packed = pf_reader_of(f.bytes)
            while packed.at < packed.end and i < n:
                if not (pf_read_fixed(&packed, 4, &value) if kind == PF_ATTR_FLOAT
                        else pf_read_varint(&packed, &value)):
                    return pf_malformed(l, b"an attribute's list")
                put_number(kind, items, i, value)
                i += 1
    out.kind = PF_ATTR_LIST | kind
    out.list.items = items
    out.list.n = i
    return PF_OK


cdef pf_status read_attr_value(pf_load* l, pf_str bytes, pf_attr_value* out) noexcept nogil:
    """list=1, s=2, i=3, f=4, b=5, type=6, shape=7, tensor=8, func=10; the last one counts (a
    oneof)."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f, last
    cdef int32_t kind
    cdef bint number
    memset(&last, 0, sizeof(last))
    while pf_next_field(&r, &f):
        number = 3 <= f.number <= 6     # these are numbers, the others are messages or bytes
        if (f.number <= 8 or f.number == 10) and (f.wire == PF_WIRE_BYTES) != number:
            last = f
    if r.bad:
        return pf_malformed(l, b"an AttrValue")
    if last.number == 1:
        return read_list(l, last.bytes, out)
    kind = list_kind(9 if last.number == 10 else last.number)
    out.kind = kind
    if kind == PF_ATTR_INT or kind == PF_ATTR_BOOL:
        out.i = <int64_t>last.value if kind == PF_ATTR_INT else last.value != 0
    elif kind == PF_ATTR_FLOAT:
        out.f = float_of(last.value)
    elif kind == PF_ATTR_TYPE:
        out.type = <int32_t>last.value
    elif kind == PF_ATTR_TENSOR:
        return read_tensor(l, last.bytes, &out.tensor)
    elif kind == PF_ATTR_SHAPE:
        return read_shape(l, last.bytes, &out.shape)
    elif kind:
        return put_message(l, kind, &out.s, 0, last.bytes)
    return PF_OK


cdef public pf_status pf_read_attr(pf_load* l, pf_str bytes, pf_node_attr* out) noexcept nogil:
    """A map entry: key=1, value=2."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef pf_str key = pf_str_of(b""), value = key
    while pf_next_field(&r, &f):
        if f.number == 1 and f.wire == PF_WIRE_BYTES:
            key = f.bytes
        elif f.number == 2 and f.wire == PF_WIRE_BYTES:
            value = f.bytes
    if r.bad:
        return pf_malformed(l, b"an attribute")
    if not pf_load_keep(l, key, &out.name):
        return l.err.code
    return read_attr_value(l, value, &out.value)
