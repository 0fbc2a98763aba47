# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Parses op signatures: "x: T, y: N * T -> z: T; alpha: float = 0.2, N: int >= 1, T: type".

    signature := args "->" args [";" attrs]
    arg       := name ":" (type | "Ref(" type ")");  type := TYPE | attr | N "*" (TYPE | attr)
    attr      := name ":" kind [">=" int] ["=" value]
    kind      := int float bool string type shape tensor func | "{" values "}" | "list(" kind ")"
    value     := number | true | false | "text" | TYPE | ? | [numbers] | [value, ...]

Invariants
1. The result points into the arena and to nothing else.
2. Every attribute an argument names is declared, and is of the right kind: type, int or list(type).

Threads: any; the arena's owner locks it.
"""
from sig_h cimport *

cdef enum:
    MAX_ARGS = 64
    MAX_ATTRS = 64
    MAX_ITEMS = 128     # of an allowed list or a default list

cdef struct Parse:
    const char* at      # NUL-terminated
    const char* op
    pf_arena* arena
    pf_error* err


# ---------------------------------------------------------------- tokens
cdef bint expected(Parse* p, const char* what) noexcept nogil:
    """Reports; always False."""
    cdef const char* rest = p.at
    if not rest[0]:
        rest = b"(end)"
    pf_error_set(p.err, PF_INVALID_ARGUMENT, b"signature of op '%s': expected %s at '%.60s'",
                 p.op, what, rest)
    return False


cdef void skip(Parse* p) noexcept nogil:
    while p.at[0] == b' ' or p.at[0] == b'\t' or p.at[0] == b'\n':
        p.at += 1


cdef bint accept(Parse* p, const char* token) noexcept nogil:
    cdef size_t n = strlen(token)
    skip(p)
    if strncmp(p.at, token, n):
        return False
    p.at += n
    return True


cdef bint demand(Parse* p, const char* token, const char* what) noexcept nogil:
    return accept(p, token) or expected(p, what)


cdef bint is_word(char c) noexcept nogil:
    return b'a' <= c <= b'z' or b'A' <= c <= b'Z' or b'0' <= c <= b'9' or c == b'_' or c == b'.'


cdef bint word(Parse* p, pf_str* out, const char* what) noexcept nogil:
    skip(p)
    out.data = p.at
    while is_word(p.at[0]):
        p.at += 1
    out.len = p.at - out.data
    return out.len > 0 or expected(p, what)


cdef bint keep(Parse* p, pf_str s, pf_str* out) noexcept nogil:
    out[0] = pf_arena_str(p.arena, s)
    if out.data == NULL:
        pf_error_set(p.err, PF_RESOURCE_EXHAUSTED, b"no memory for the signature of op '%s'", p.op)
    return out.data != NULL


cdef void* keep_items(Parse* p, const void* items, int64_t n, int64_t size) noexcept nogil:
    cdef void* kept = pf_arena_alloc(p.arena, <uint64_t>(n * size + 1))
    if kept == NULL:
        pf_error_set(p.err, PF_RESOURCE_EXHAUSTED, b"no memory for the signature of op '%s'", p.op)
    elif n:
        memcpy(kept, items, <size_t>(n * size))
    return kept


cdef bint quoted(Parse* p, pf_str* out) noexcept nogil:
    """A string in either kind of quotes, with backslash escapes of quotes, backslashes and \\n."""
    cdef char text[1024]
    cdef pf_str s
    cdef char quote
    skip(p)
    quote = p.at[0]
    if quote != b'"' and quote != b"'":
        return expected(p, b"a string in quotes")
    p.at += 1
    s.data = text
    s.len = 0
    while p.at[0] and p.at[0] != quote:
        if p.at[0] == b'\\' and p.at[1]:
            p.at += 1
            text[s.len] = b'\n' if p.at[0] == b'n' else p.at[0]
        else:
            text[s.len] = p.at[0]
        s.len += 1
        p.at += 1
        if s.len == sizeof(text):
            return expected(p, b"a shorter string")
    if not p.at[0]:
        return expected(p, b"a closing quote")
    p.at += 1
    return keep(p, s, out)


cdef bint number(Parse* p, int64_t* out) noexcept nogil:
    cdef char* end
    skip(p)
    out[0] = strtoll(p.at, &end, 10)
    if <const char*>end == p.at:
        return expected(p, b"an integer")
    p.at = end
    return True


cdef bint type_name(Parse* p, int32_t* out) noexcept nogil:
    cdef const char* start
    cdef pf_str s
    skip(p)
    start = p.at
    if not word(p, &s, b"an element type"):
        return False
    out[0] = pf_type_from_name(s)
    if out[0]:
        return True
    p.at = start
    return expected(p, b"an element type (float, int32, ...)")


# ---------------------------------------------------------------- values
cdef bint shape_value(Parse* p, pf_shape* out) noexcept nogil:
    cdef int64_t dims[64]
    cdef int32_t n = 0
    out.dims = NULL
    out.ndim = -1
    if accept(p, b"?"):
        return True
    if not demand(p, b"[", b"a shape ([2, -1] or ?)"):
        return False
    while not accept(p, b"]"):
        if n == 64 or n and not accept(p, b","):
            return expected(p, b"',' or ']'")
        if not number(p, &dims[n]):
            return False
        n += 1
    out.ndim = n
    out.dims = <const int64_t*>keep_items(p, dims, n, sizeof(int64_t))
    return out.dims != NULL


cdef bint bool_value(Parse* p, int64_t* out) noexcept nogil:
    cdef pf_str s
    if not word(p, &s, b"true or false"):
        return False
    out[0] = pf_str_is(s, b"true") or pf_str_is(s, b"True")
    if out[0] or pf_str_is(s, b"false") or pf_str_is(s, b"False"):
        return True
    return expected(p, b"true or false")


cdef bint scalar_value(Parse* p, int32_t kind, pf_attr_value* out) noexcept nogil:
    cdef char* end
    out.kind = kind
    if kind == PF_ATTR_INT:
        return number(p, &out.i)
    if kind == PF_ATTR_FLOAT:
        skip(p)
        out.f = strtod(p.at, &end)
        if <const char*>end == p.at:
            return expected(p, b"a number")
        p.at = end
        return True
    if kind == PF_ATTR_BOOL:
        return bool_value(p, &out.i)
    if kind == PF_ATTR_STRING:
        return quoted(p, &out.s)
    if kind == PF_ATTR_TYPE:
        return type_name(p, &out.type)
    if kind == PF_ATTR_SHAPE:
        return shape_value(p, &out.shape)
    return expected(p, b"no default (tensors and functions have none)")


cdef int64_t put_item(int32_t kind, const pf_attr_value* v, char* items, int64_t i) noexcept nogil:
    """Stores one value as pf_list wants it; returns the size of an item."""
    if kind == PF_ATTR_INT:
        (<int64_t*>items)[i] = v.i
        return 8
    if kind == PF_ATTR_FLOAT:
        (<double*>items)[i] = v.f
        return 8
    if kind == PF_ATTR_STRING:
        (<pf_str*>items)[i] = v.s
        return sizeof(pf_str)
    if kind == PF_ATTR_SHAPE:
        (<pf_shape*>items)[i] = v.shape
        return sizeof(pf_shape)
    (<int32_t*>items)[i] = <int32_t>v.i if kind == PF_ATTR_BOOL else v.type
    return 4


cdef bint list_value(Parse* p, int32_t kind, pf_attr_value* out) noexcept nogil:
    cdef pf_str items[128]
    cdef pf_attr_value v
    cdef int64_t n = 0, size = 1
    if not demand(p, b"[", b"a list ([...])"):
        return False
    memset(&v, 0, sizeof(v))
    while not accept(p, b"]"):
        if n == MAX_ITEMS or n and not accept(p, b","):
            return expected(p, b"',' or ']'")
        if not scalar_value(p, kind, &v):
            return False
        size = put_item(kind, &v, <char*>items, n)
        n += 1
    out.kind = PF_ATTR_LIST | kind
    out.list.n = n
    out.list.items = keep_items(p, items, n, size)
    return out.list.items != NULL


# ---------------------------------------------------------------- attributes
cdef bint allowed_values(Parse* p, pf_attr_def* a, int32_t* kind) noexcept nogil:
    """After "{": types, or strings in quotes."""
    cdef pf_str strings[128]
    cdef int32_t types[128]
    cdef int32_t n = 0
    skip(p)
    kind[0] = PF_ATTR_STRING if p.at[0] == b'"' or p.at[0] == b"'" else PF_ATTR_TYPE
    while not accept(p, b"}"):
        if n == MAX_ITEMS or n and not accept(p, b","):
            return expected(p, b"',' or '}'")
        if not (quoted(p, &strings[n]) if kind[0] == PF_ATTR_STRING else type_name(p, &types[n])):
            return False
        n += 1
    a.n_allowed = n
    if n == 0:
        return expected(p, b"values between '{' and '}'")
    if kind[0] == PF_ATTR_TYPE:
        a.allowed_types = <const int32_t*>keep_items(p, types, n, 4)
        return a.allowed_types != NULL
    a.allowed_strings = <const pf_str*>keep_items(p, strings, n, sizeof(pf_str))
    return a.allowed_strings != NULL


cdef int32_t kind_from_name(pf_str s) noexcept nogil:
    cdef int32_t k
    for k in range(PF_ATTR_INT, PF_ATTR_FUNC + 1):
        if pf_str_is(s, pf_attr_kind_name(k)):
            return k
    return 0


cdef bint attr_kind(Parse* p, pf_attr_def* a) noexcept nogil:
    cdef pf_str s
    cdef const char* start
    cdef bint is_list = accept(p, b"list(")
    if accept(p, b"{"):
        if not allowed_values(p, a, &a.kind):
            return False
    else:
        skip(p)
        start = p.at
        if not word(p, &s, b"an attribute kind"):
            return False
        a.kind = kind_from_name(s)
        if a.kind == 0:
            p.at = start
            return expected(p, b"int, float, bool, string, type, shape, tensor, func, {values} or "
                            b"list(kind)")
    if is_list:
        a.kind |= PF_ATTR_LIST
        return demand(p, b")", b"')' after the list's kind")
    return True


cdef bint attribute(Parse* p, pf_attr_def* a) noexcept nogil:
    cdef pf_str name
    memset(a, 0, sizeof(pf_attr_def))
    if not (word(p, &name, b"an attribute's name") and keep(p, name, &a.name)
            and demand(p, b":", b"':' after the attribute's name") and attr_kind(p, a)):
        return False
    if accept(p, b">="):
        if a.kind != PF_ATTR_INT and not a.kind & PF_ATTR_LIST:
            return expected(p, b"no minimum: only int and lists have one, here")
        a.has_min = 1
        if not number(p, &a.min):
            return False
    if not accept(p, b"="):
        return True
    a.has_default = 1
    if a.kind & PF_ATTR_LIST:
        return list_value(p, a.kind & ~PF_ATTR_LIST, &a.value)
    return scalar_value(p, a.kind, &a.value)


cdef bint attributes(Parse* p, pf_op_def* op) noexcept nogil:
    cdef pf_attr_def found[64]
    cdef int32_t i, n = 0
    skip(p)
    while p.at[0]:
        if n == MAX_ATTRS or n and not accept(p, b","):
            return expected(p, b"',' between attributes")
        if not attribute(p, &found[n]):
            return False
        for i in range(n):
            if pf_str_eq(found[i].name, found[n].name):
                return expected(p, b"each attribute once, before")
        n += 1
        skip(p)
    op.n_attrs = n
    op.attrs = <pf_attr_def*>keep_items(p, found, n, sizeof(pf_attr_def))
    return op.attrs != NULL


# ---------------------------------------------------------------- arguments
cdef struct Arg:
    pf_str name, type, number
    bint is_ref


cdef bint argument(Parse* p, Arg* a) noexcept nogil:
    memset(a, 0, sizeof(Arg))
    if not (word(p, &a.name, b"an argument's name")
            and demand(p, b":", b"':' after the argument's name")):
        return False
    a.is_ref = accept(p, b"Ref(")
    if not word(p, &a.type, b"a type or an attribute's name"):
        return False
    if accept(p, b"*"):
        a.number = a.type
        if not word(p, &a.type, b"a type after '*'"):
            return False
    return not a.is_ref or demand(p, b")", b"')' after Ref(")


cdef bint arguments(Parse* p, Arg* out, int32_t* n) noexcept nogil:
    """Up to "->", ";" or the end."""
    n[0] = 0
    skip(p)
    while p.at[0] and p.at[0] != b';' and strncmp(p.at, b"->", 2):
        if n[0] == MAX_ARGS or n[0] and not accept(p, b","):
            return expected(p, b"',' between arguments")
        if not argument(p, &out[n[0]]):
            return False
        n[0] += 1
        skip(p)
    return True


cdef int32_t attr_index(const pf_op_def* op, pf_str name) noexcept nogil:
    cdef int32_t i
    for i in range(op.n_attrs):
        if pf_str_eq(op.attrs[i].name, name):
            return i
    return -1


cdef bint resolve(Parse* p, const pf_op_def* op, const Arg* a, pf_arg_def* out) noexcept nogil:
    """Names of types and attributes become numbers."""
    cdef int32_t i = attr_index(op, a.type)
    out.type_attr = out.number_attr = out.list_attr = -1
    out.is_ref = a.is_ref
    if not keep(p, a.name, &out.name):
        return False
    if i >= 0 and op.attrs[i].kind == PF_ATTR_TYPE:
        out.type_attr = i
    elif i >= 0 and op.attrs[i].kind == (PF_ATTR_LIST | PF_ATTR_TYPE) and a.number.len == 0:
        out.list_attr = i
    elif i >= 0 or pf_type_from_name(a.type) == 0:
        pf_error_set(p.err, PF_INVALID_ARGUMENT, b"signature of op '%s': argument '%s' has type "
                     b"'%.*s', which is "
                     b"neither an element type nor a declared attribute of kind type or "
                     b"list(type)", p.op,
                     out.name.data, <int>a.type.len, a.type.data)
        return False
    else:
        out.type = pf_type_from_name(a.type)
    if a.number.len == 0:
        return True
    out.number_attr = attr_index(op, a.number)
    if out.number_attr >= 0 and op.attrs[out.number_attr].kind == PF_ATTR_INT:
        return True
    pf_error_set(p.err, PF_INVALID_ARGUMENT, b"signature of op '%s': argument '%s' is repeated "
                 b"'%.*s' times, "
                 b"which is not a declared attribute of kind int", p.op, out.name.data,
                 <int>a.number.len, a.number.data)
    return False


cdef pf_arg_def* resolve_all(Parse* p, const pf_op_def* op, const Arg* args,
                             int32_t n) noexcept nogil:
    cdef pf_arg_def* out = <pf_arg_def*>pf_arena_alloc(p.arena, n * sizeof(pf_arg_def) + 1)
    cdef int32_t i
    if out == NULL:
        pf_error_set(p.err, PF_RESOURCE_EXHAUSTED, b"no memory for the signature of op '%s'", p.op)
        return NULL
    for i in range(n):
        if not resolve(p, op, &args[i], &out[i]):
            return NULL
    return out


cdef public pf_status pf_sig_parse(const char* name, const char* sig, pf_arena* arena,
                                   pf_op_def* out,
                                   pf_error* err) noexcept nogil:
    cdef Arg ins[64]
    cdef Arg outs[64]
    cdef Parse p
    memset(out, 0, sizeof(pf_op_def))
    p.op = name
    p.arena = arena
    p.err = err
    if not keep(&p, pf_str_of(name), &out.name) or not keep(&p, pf_str_of(sig), &out.sig):
        return err.code
    p.at = out.sig.data
    if not (arguments(&p, ins, &out.n_in) and demand(&p, b"->", b"'->'")
            and arguments(&p, outs, &out.n_out)):
        return err.code
    accept(&p, b";")
    if not attributes(&p, out):
        return err.code
    out.ins = resolve_all(&p, out, ins, out.n_in)
    out.out = resolve_all(&p, out, outs, out.n_out)
    return err.code if out.ins == NULL or out.out == NULL else PF_OK
