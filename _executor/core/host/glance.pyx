# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Glances: what steps wait for, as rows in one growing buffer, for whoever reads it when the locks are given back.

Whoever is asked adds rows under its own lock: a buffer calls nobody.  A row is a pf_glance_row, then its numbers, then its texts,
one after the other, the whole a multiple of 8 bytes long.

Invariant: what does not fit in MOST bytes, or in memory, is left out, and `cut` says so.

Threads: one at a time per buffer.

    pf_glance g = {0};
    pf_task_glance(task, &g);  pf_watch_glance(task, &g);  pf_glance_resources(&g);     // read g.data, g.n
    pf_glance_free(&g);
"""
from host_h cimport *

cdef enum:
    MOST = 16 << 20
    LONGEST = 2000              # of a text

cdef bint room_for(pf_glance* g, int64_t n) noexcept nogil:
    cdef int64_t room = g.room if g.room else 4096
    cdef char* larger
    while room < g.n + n:
        room *= 2
    if room > MOST:
        return False
    if room != g.room:
        larger = <char*>realloc(g.data, <size_t>room)
        if larger == NULL:
            return False
        g.data = larger
        g.room = room
    return True

cdef void add(pf_glance* g, pf_glance_row row, const uint32_t* numbers, pf_str a, pf_str b, pf_str c) noexcept nogil:
    cdef int64_t n = sizeof(pf_glance_row) + 4 * <int64_t>row.n_numbers, k
    cdef pf_str texts[3]
    texts[0] = a
    texts[1] = b
    texts[2] = c
    for k in range(3):
        row.text[k] = <int32_t>min(max(texts[k].len, <int64_t>0), <int64_t>LONGEST)
        n += row.text[k]
    n = (n + 7) & ~<int64_t>7
    if g.cut or not room_for(g, n):
        g.cut = 1
        return
    row.size = <int32_t>n
    memcpy(g.data + g.n, &row, sizeof(row))
    k = g.n + <int64_t>sizeof(row)
    memcpy(g.data + k, numbers, 4 * <size_t>row.n_numbers) if row.n_numbers else NULL
    k += 4 * <int64_t>row.n_numbers
    memcpy(g.data + k, a.data, <size_t>row.text[0]) if row.text[0] else NULL
    memcpy(g.data + k + row.text[0], b.data, <size_t>row.text[1]) if row.text[1] else NULL
    memcpy(g.data + k + row.text[0] + row.text[1], c.data, <size_t>row.text[2]) if row.text[2] else NULL
    g.n += n

cdef public void pf_glance_add(pf_glance* g, pf_glance_row row, pf_str a, pf_str b, pf_str c) noexcept nogil:
    row.n_numbers = 0
    add(g, row, NULL, a, b, c)

cdef public void pf_glance_add_with(pf_glance* g, pf_glance_row row, const uint32_t* numbers, pf_str a, pf_str b) noexcept nogil:
    cdef pf_str none
    none.data = NULL
    none.len = 0
    add(g, row, numbers, a, b, none)

cdef public void pf_glance_free(pf_glance* g) noexcept nogil:
    cdef int32_t k
    for k in range(g.n_met):
        pf_object_unref(&g.met[k].base)
    free(g.data)
    memset(g, 0, sizeof(pf_glance))
