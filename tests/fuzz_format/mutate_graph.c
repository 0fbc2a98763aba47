/* mutate_graph.c - changes a GraphDef as a GraphDef: without libprotobuf, driven by a table of its
 * messages.
 *
 * A message is split into its fields; one is picked; it is deleted, doubled, moved, replaced by one
 * of its kind, or changed inside, which for a message means the same one level down.  Strings that
 * name things (inputs, ops, frames, devices) are replaced by names that exist, numbers by ones
 * known to hurt. Bytes that are no message any more are kept as a tail, so a mutation never gives
 * up.
 */
#include "common.h"

enum kind {
  GRAPH,
  NODE,
  ATTR,
  VALUE,
  LIST,
  SHAPE,
  DIM,
  TENSOR,
  VERSIONS,
  NUMBER,
  TYPE,
  FLOAT,
  RAW,
  NODE_NAME,
  OP_NAME,
  INPUT,
  DEVICE,
  KEY,
  TEXT
};
typedef struct {
  uint8_t message, number, kind;
} rule;
static const rule RULES[] = {
    {GRAPH, 1, NODE},     {GRAPH, 4, VERSIONS}, {VERSIONS, 1, NUMBER}, {VERSIONS, 2, NUMBER},
    {NODE, 1, NODE_NAME}, {NODE, 2, OP_NAME},   {NODE, 3, INPUT},      {NODE, 4, DEVICE},
    {NODE, 5, ATTR},      {ATTR, 1, KEY},       {ATTR, 2, VALUE},      {VALUE, 1, LIST},
    {VALUE, 2, TEXT},     {VALUE, 3, NUMBER},   {VALUE, 4, FLOAT},     {VALUE, 5, NUMBER},
    {VALUE, 6, TYPE},     {VALUE, 7, SHAPE},    {VALUE, 8, TENSOR},    {VALUE, 9, TEXT},
    {VALUE, 10, RAW},     {LIST, 2, TEXT},      {LIST, 3, RAW},        {LIST, 4, RAW},
    {LIST, 5, RAW},       {LIST, 6, RAW},       {LIST, 7, SHAPE},      {LIST, 8, TENSOR},
    {SHAPE, 2, DIM},      {SHAPE, 3, NUMBER},   {DIM, 1, NUMBER},      {DIM, 2, TEXT},
    {TENSOR, 1, TYPE},    {TENSOR, 2, SHAPE},   {TENSOR, 3, NUMBER},   {TENSOR, 4, RAW},
    {TENSOR, 5, RAW},     {TENSOR, 6, RAW},     {TENSOR, 7, RAW},      {TENSOR, 8, TEXT},
    {TENSOR, 9, RAW},     {TENSOR, 10, RAW},    {TENSOR, 11, RAW},     {TENSOR, 13, RAW},
    {TENSOR, 16, RAW},    {TENSOR, 17, RAW},
};
static const int64_t NUMBERS[] = {0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  7,
                                  8,
                                  10,
                                  16,
                                  31,
                                  100,
                                  127,
                                  255,
                                  256,
                                  1000,
                                  1024,
                                  4096,
                                  65535,
                                  65536,
                                  1 << 20,
                                  1 << 24,
                                  INT32_MAX,
                                  (int64_t)INT32_MAX + 1,
                                  (int64_t)1 << 40,
                                  INT64_MAX / 8,
                                  INT64_MAX,
                                  INT64_MIN,
                                  -1,
                                  -2,
                                  -3,
                                  -1000,
                                  INT32_MIN};

typedef struct {
  uint32_t number, wire;
  uint64_t value;
  const uint8_t *at;
  size_t n;
} field;
enum { FIELDS = 2048 };
typedef struct {
  field f[FIELDS];
  int n;
  const uint8_t *tail;
  size_t n_tail;
} message;
typedef struct {
  uint8_t *at;
  size_t n, room;
  int full;
} buffer;
typedef struct {
  uint32_t state;
  const message *graph;
} mutation;

static uint32_t pick(mutation *m, uint32_t n) {
  m->state ^= m->state << 13;
  m->state ^= m->state >> 17;
  m->state ^= m->state << 5;
  return n ? m->state % n : 0;
}
static int kind_of(int in, uint32_t number) {
  for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
    if (RULES[i].message == in && RULES[i].number == number) return RULES[i].kind;
  return RAW;
}

/* ---------------------------------------------------------------- bytes */
static int varint(const uint8_t **p, const uint8_t *end, uint64_t *v) {
  *v = 0;
  for (int shift = 0; *p < end && shift < 64; shift += 7) {
    uint8_t b = *(*p)++;
    *v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return 1;
  }
  return 0;
}
static void split(const uint8_t *p, size_t n, message *m) {
  const uint8_t *end = p + n;
  m->n = 0;
  m->tail = p;
  while (p < end && m->n < FIELDS) {
    field *f = &m->f[m->n];
    uint64_t tag;
    *f = (field){0};
    if (!varint(&p, end, &tag)) break;
    f->number = (uint32_t)(tag >> 3);
    f->wire = (uint32_t)(tag & 7);
    if (f->wire == 0) {
      if (!varint(&p, end, &f->value)) break;
    } else if (f->wire == 2) {
      if (!varint(&p, end, &f->value) || f->value > (uint64_t)(end - p)) break;
      f->at = p;
      f->n = (size_t)f->value;
      p += f->n;
    } else if (f->wire == 5 || f->wire == 1) {
      f->n = f->wire == 5 ? 4 : 8;
      if ((size_t)(end - p) < f->n) break;
      f->at = p;
      p += f->n;
    } else break;
    m->n++;
    m->tail = p;
  }
  m->n_tail = (size_t)(end - m->tail);
}
static void put(buffer *b, const void *p, size_t n) {
  if (b->n + n > b->room) {
    b->full = 1;
    return;
  }
  if (n) memcpy(b->at + b->n, p, n);
  b->n += n;
}
static void put_varint(buffer *b, uint64_t v) {
  uint8_t out[10];
  size_t n = 0;
  for (; v >= 128; v >>= 7) out[n++] = (uint8_t)(v | 128);
  out[n++] = (uint8_t)v;
  put(b, out, n);
}
static void put_field(buffer *b, const field *f) {
  put_varint(b, (uint64_t)f->number << 3 | f->wire);
  if (f->wire == 0) put_varint(b, f->value);
  if (f->wire == 2) put_varint(b, f->n);
  if (f->wire != 0) put(b, f->at, f->n);
}

/* ---------------------------------------------------------------- what a scalar becomes */
/* Field `number` of a random node of the graph; empty: it has none. */
static field of_some_node(mutation *m, uint32_t number) {
  static _Thread_local message node;
  field none = {.number = number, .wire = 2, .at = (const uint8_t *)""};
  if (!m->graph->n) return none;
  const field *f = &m->graph->f[pick(m, (uint32_t)m->graph->n)];
  if (f->wire != 2 || f->number != 1) return none;
  split(f->at, f->n, &node);
  int found = 0, at = -1;
  for (int i = 0; i < node.n; i++)
    if (node.f[i].number == number && node.f[i].wire == 2 && pick(m, (uint32_t)++found) == 0)
      at = i;
  return at < 0 ? none : node.f[at];
}

static void new_text(mutation *m, int kind, field *f, char *room, size_t size) {
  static const char *const devices[] = {"",
                                        "/device:CPU:0",
                                        "/device:FAKE:0",
                                        "/device:FAKE:1",
                                        "/job:localhost/replica:0/task:0/device:CPU:0",
                                        "/device:GPU:0",
                                        "/job:x/task:9999999999",
                                        "CPU",
                                        "/"};
  static const char *const texts[] = {
      "",         "while",    "loop/while/while_context",
      "SAME",     "VALID",    "NHWC",
      "NCHW",     "a",        "loc:@x",
      "EXPLICIT", "\xff\xfe", "0123456789012345678901234567890123456789"};
  static const char *const keys[] = {
      "T",         "N",           "dtype",       "value",
      "shape",     "frame_name",  "is_constant", "parallel_iterations",
      "index",     "Tidx",        "axis",        "_class",
      "num_split", "strides",     "padding",     "_output_shapes",
      "container", "shared_name", "DstT",        "SrcT",
      "out_type",  "Tshape",      "begin_mask"};
  field other = of_some_node(m, 1);
  const pf_op_def *op = pf_op_at((int32_t)pick(m, (uint32_t)pf_op_count()));
  const char *text = texts[pick(m, sizeof texts / sizeof *texts)];
  if (kind == OP_NAME) text = op->name.data;
  if (kind == DEVICE) text = devices[pick(m, sizeof devices / sizeof *devices)];
  if (kind == KEY) text = keys[pick(m, sizeof keys / sizeof *keys)];
  if (kind == INPUT && pick(m, 4))
    snprintf(room, size,
             pick(m, 3)   ? "%.*s"
             : pick(m, 2) ? "^%.*s"
                          : "%.*s:%u",
             (int)(other.n < 200 ? other.n : 200), (const char *)other.at, pick(m, 4));
  else snprintf(room, size, "%s", text);
  f->at = (const uint8_t *)room;
  f->n = strlen(room);
  if (kind == OP_NAME && pick(m, 2)) *f = of_some_node(m, 2);
  if (kind == NODE_NAME && pick(m, 2)) *f = other;
  f->wire = 2;
}

/* Raw bytes: some are changed, cut off, or repeated. */
static void new_raw(mutation *m, field *f, uint8_t *room, size_t size) {
  size_t n = f->n < size / 4 ? f->n : size / 4;
  if (n) memcpy(room, f->at, n);
  switch (pick(m, 5)) {
  case 0:
    n /= 2;
    break;
  case 1:
    for (int k = 0; k < 3 && n && n * 2 < size; k++) memcpy(room + n, room, n), n *= 2;
    break;
  case 2:
    n = pick(m, 40);
    memset(room, (int)pick(m, 256), n);
    break;
  case 3:
    for (size_t k = 0; k < n; k++)
      if (!pick(m, 4)) room[k] = (uint8_t)pick(m, 256);
    break;
  default:
    if (n) room[pick(m, (uint32_t)n)] ^= (uint8_t)(1u << pick(m, 8));
  }
  f->at = room;
  f->n = n;
}

static void new_scalar(mutation *m, int kind, field *f, uint8_t *room, size_t size) {
  if (f->wire == 0) {
    f->value = (uint64_t)NUMBERS[pick(m, sizeof NUMBERS / sizeof *NUMBERS)];
    if (kind == TYPE && pick(m, 8)) f->value = 1 + pick(m, 32) + (pick(m, 6) ? 0 : 100);
    if (kind == NUMBER && !pick(m, 4)) f->value = pick(m, 6);
  } else if (f->wire == 2 && kind >= NODE_NAME && pick(m, 5)) {
    new_text(m, kind, f, (char *)room, size);
  } else new_raw(m, f, room, size);
}

/* ---------------------------------------------------------------- one change */
static void change(mutation *m, int kind, const uint8_t *p, size_t n, buffer *out, int depth);

static void inside(mutation *m, int kind, const field *f, buffer *out, int depth) {
  size_t room = f->n * 2 + 4096;
  uint8_t *bytes = malloc(room);
  buffer b = {bytes, 0, room, 0};
  field g = *f;
  if (!bytes) abort();
  if (kind < NUMBER && f->wire == 2) {
    change(m, kind, f->at, f->n, &b, depth + 1);
    if (!b.full) g.at = bytes, g.n = b.n;
  } else new_scalar(m, kind, &g, bytes, room);
  put_field(out, &g);
  free(bytes);
}

/* A field of the same number from another node: the graph's attributes and inputs are exchanged. */
static void donate(mutation *m, int kind, const field *f, buffer *out) {
  field g = kind == NODE && f->number >= 2 ? of_some_node(m, f->number) : *f;
  if (g.n || g.wire == 0) put_field(out, &g);
}

static void change(mutation *m, int kind, const uint8_t *p, size_t n, buffer *out, int depth) {
  message *x = malloc(sizeof *x);
  if (!x) abort();
  split(p, n, x);
  if (!depth) m->graph = x;
  uint32_t at = pick(m, (uint32_t)x->n), to = pick(m, (uint32_t)x->n);
  uint32_t act = pick(m, depth ? 12 : 16);
  for (uint32_t i = 0; i < (uint32_t)x->n; i++) {
    const field *f = &x->f[i];
    if (i != at) {
      put_field(out, act == 3 && i == to ? &x->f[at] : f);
      continue;
    }
    if (act == 0) continue;                             /* deleted */
    if (act == 1) put_field(out, f), put_field(out, f); /* doubled */
    else if (act == 2) donate(m, kind, f, out), put_field(out, f);
    else if (act == 3) put_field(out, &x->f[to]); /* exchanged */
    else if (act == 4 && kind == GRAPH)
      put_field(out, f), inside(m, kind_of(kind, f->number), f, out, depth);
    else inside(m, kind_of(kind, f->number), f, out, depth);
  }
  put(out, x->tail, x->n_tail);
  free(x);
}

/* ---------------------------------------------------------------- repair */
static int same(const field *a, const uint8_t *p, size_t n) {
  return a->n == n && !memcmp(a->at, p, n);
}
static field name_of(const field *node) {
  static message m;
  field none = {.at = (const uint8_t *)""};
  split(node->at, node->n, &m);
  for (int i = 0; i < m.n; i++)
    if (m.f[i].number == 1 && m.f[i].wire == 2) return m.f[i];
  return none;
}
static int exists(const message *names, const field *input) {
  const uint8_t *p = input->at, *colon;
  size_t n = input->n;
  if (n && *p == '^') p++, n--;
  if ((colon = memchr(p, ':', n))) n = (size_t)(colon - p);
  for (int i = 0; i < names->n; i++)
    if (same(&names->f[i], p, n)) return 1;
  return 0;
}
static void repair_node(mutation *m, const message *names, int k, const field *node, buffer *out) {
  static message x;
  static int serial;
  char name[64];
  int twice = 0;
  for (int i = 0; i < k; i++) twice |= same(&names->f[i], names->f[k].at, names->f[k].n);
  split(node->at, node->n, &x);
  for (int pass = 0; pass < 2; pass++) /* control inputs come last */
    for (int i = 0; i < x.n; i++) {
      field f = x.f[i];
      int input = f.number == 3 && f.wire == 2, control = input && f.n && f.at[0] == '^';
      if (control != pass) continue;
      if (f.number == 1 && twice)
        f.n = (size_t)snprintf(name, sizeof name, "copy_%d", serial++), f.at = (uint8_t *)name;
      if (input && !exists(names, &f)) {
        f = names->f[pick(m, (uint32_t)names->n)];
        f.number = 3;
        if (!f.n) continue;
      }
      put_field(out, &f);
    }
}
/* Names become unique, inputs name nodes that exist: most mutants then pass the reader. */
static size_t repair(mutation *m, uint8_t *data, size_t n, size_t room) {
  message *g = malloc(2 * sizeof *g), *names = g + 1;
  buffer out = {malloc(room), 0, room, 0}, one = {malloc(room), 0, room, 0};
  if (!g || !out.at || !one.at) abort();
  split(data, n, g);
  names->n = g->n;
  for (int i = 0; i < g->n; i++) {
    field none = {.at = (const uint8_t *)""};
    names->f[i] = g->f[i].number == 1 && g->f[i].wire == 2 ? name_of(&g->f[i]) : none;
  }
  for (int i = 0; i < g->n; i++) {
    field f = g->f[i];
    one.n = 0;
    if (f.number == 1 && f.wire == 2) {
      repair_node(m, names, i, &f, &one);
      f.at = one.at;
      f.n = one.n;
    }
    put_field(&out, &f);
  }
  if (!out.full && !one.full && out.n) memcpy(data, out.at, n = out.n);
  free(one.at);
  free(out.at);
  free(g);
  return n;
}

size_t mutate_graph(uint8_t *data, size_t n, size_t room, uint32_t seed) {
  mutation m = {seed | 1, NULL};
  buffer b = {malloc(room), 0, room, 0};
  if (!b.at) abort();
  for (int k = 0; k < 3; k++) pick(&m, 1);
  change(&m, GRAPH, data, n, &b, 0);
  if (!b.full && b.n) {
    memcpy(data, b.at, b.n);
    n = b.n;
  }
  free(b.at);
  return pick(&m, 4) ? repair(&m, data, n, room) : n;
}

size_t cross_graphs(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out,
                    size_t room, uint32_t seed) {
  mutation m = {seed | 1, NULL};
  buffer o = {out, 0, room, 0};
  message *x = malloc(2 * sizeof *x), *y = x + 1;
  if (!x) abort();
  split(a, na, x);
  split(b, nb, y);
  uint32_t cut = pick(&m, (uint32_t)x->n + 1);
  for (uint32_t i = 0; i < (uint32_t)x->n; i++) {
    if (i < cut || pick(&m, 2)) put_field(&o, &x->f[i]);
    if (i < (uint32_t)y->n && pick(&m, 2)) put_field(&o, &y->f[i]);
  }
  free(x);
  return repair(&m, out, o.n, room);
}
