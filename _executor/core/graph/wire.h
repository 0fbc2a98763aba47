/* Protobuf's wire format, bounds-checked, for proto.pyx and attr_value.pyx alone.
 *
 * A message is a range of bytes, a sub-message a sub-range: no recursion, no allocation.
 */
#ifndef PF_WIRE_H
#define PF_WIRE_H
#include "graph/graph.h"

enum { PF_WIRE_VARINT = 0, PF_WIRE_FIXED64 = 1, PF_WIRE_BYTES = 2, PF_WIRE_FIXED32 = 5 };
typedef struct {
  const uint8_t *at, *end;
  int32_t bad;
} pf_reader;
typedef struct {
  uint32_t number;
  int32_t wire;
  uint64_t value; /* VARINT, FIXED64, FIXED32 */
  pf_str bytes;   /* BYTES */
} pf_field;

/* one pf_graph_read */
typedef struct pf_load {
  pf_graph *graph;
  pf_error *err;
  uint64_t cap, tensor_bytes; /* arena.total + tensor_bytes <= cap */
  uint64_t seed, mask;
  pf_arena scratch; /* input names, hash table: until all nodes are known */
  pf_str **input_names;
  int32_t *table;
  pf_functions *functions; /* what the nodes may call; NULL: nothing */
} pf_load;

static inline pf_reader pf_reader_of(pf_str s) {
  /* a field that is not there: empty */
  const uint8_t *at = (const uint8_t *)(s.data ? s.data : "");
  pf_reader r = {at, at + s.len, 0};
  return r;
}
static inline int pf_read_varint(pf_reader *r, uint64_t *value) {
  uint64_t v = 0;
  for (int shift = 0; r->at < r->end && shift < 70; shift += 7) {
    uint8_t b = *r->at++;
    v |= (uint64_t)(b & 127) << (shift < 64 ? shift : 63);
    if (b < 128) {
      *value = v;
      return 1;
    }
  }
  r->bad = 1;
  return 0;
}
static inline int pf_read_fixed(pf_reader *r, int64_t size, uint64_t *value) {
  if (r->end - r->at < size) {
    r->bad = 1;
    return 0;
  }
  *value = 0;
  memcpy(value, r->at, (size_t)size);
  r->at += size;
  return 1;
}
/* 0 at the end, and on malformed bytes, which r->bad tells. */
static inline int pf_next_field(pf_reader *r, pf_field *f) {
  uint64_t tag = 0;
  memset(f, 0, sizeof *f);
  if (r->bad || r->at >= r->end || !pf_read_varint(r, &tag)) return 0;
  f->number = (uint32_t)(tag >> 3);
  f->wire = (int32_t)(tag & 7);
  if (tag >> 32 || !f->number) r->bad = 1;
  else if (f->wire == PF_WIRE_VARINT) pf_read_varint(r, &f->value);
  else if (f->wire == PF_WIRE_FIXED64) pf_read_fixed(r, 8, &f->value);
  else if (f->wire == PF_WIRE_FIXED32) pf_read_fixed(r, 4, &f->value);
  else if (f->wire == PF_WIRE_BYTES && pf_read_varint(r, &f->value) &&
           f->value <= (uint64_t)(r->end - r->at)) {
    f->bytes.data = (const char *)r->at;
    f->bytes.len = (int64_t)f->value;
    r->at += f->value;
  } else r->bad = 1;
  return !r->bad;
}

/* proto.pyx */
pf_status pf_load_begin(pf_load *l, int64_t bytes, pf_error *err);
pf_status pf_load_nodes(pf_load *l, int64_t n); /* room for n */
pf_status pf_load_node(pf_load *l, pf_str bytes, int32_t index);
pf_status pf_load_index(pf_load *l);                      /* all nodes have their names */
int32_t pf_load_find(pf_load *l, pf_str name);            /* the node of that name; -1 */
pf_status pf_load_blame(pf_load *l, const pf_node *node); /* the error names the node */
/* the digits from `at` to the end; -2: none, or too large */
int64_t pf_read_number(pf_str s, int64_t at);
/* functions.pyx */
/* a FunctionDefLibrary, more of it each time */
pf_status pf_load_library(pf_load *l, pf_str bytes);
pf_status pf_library_ready(pf_load *l); /* all of it was read */
/* a node whose op is a function's name becomes a call */
pf_status pf_load_call(pf_load *l, pf_node *node);
/* attr_value.pyx */
pf_status pf_malformed(pf_load *l, const char *what);
pf_status pf_over_cap(pf_load *l);
void *pf_load_take(pf_load *l, uint64_t n, uint64_t size);
int pf_load_keep(pf_load *l, pf_str s, pf_str *out);
pf_status pf_read_attr(pf_load *l, pf_str bytes, pf_node_attr *out);
#endif
