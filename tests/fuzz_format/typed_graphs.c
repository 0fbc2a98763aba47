/* typed_graphs.c - small graphs whose nodes disagree about element types, handles and resources.
 *
 *   make_typed_graph    a graph out of the op table alone: one to five nodes of any ops, mostly of
 *                       those that take a reference, a resource or a variant, each with what they
 *                       need in front: initialised variables, tables, arrays, stacks, lists
 *   retype_graph        any graph, with other element types in some `type` attributes
 *
 * Both end with `repair_edges`: an input of another type than its node now declares gets a constant
 * of the right one, a resource input any resource there is.  So the plan's check of edges passes,
 * and what is left to disagree are the objects behind handles.
 *
 * No op is known by name but those left out (files, rendezvous, control flow, printing) and the two
 * that give a variable its first value.  A seed makes the same graph on every machine.
 */
#include "common.h"

enum { MOST_NODES = 48, MOST_ATTRS = 32, MOST_WIDTH = 3, MOST_POOL = 16, DEPTH = 3 };
typedef struct {
  uint64_t state;
  pf_graph *g;
  int32_t favourites[3], last, steps;
  int64_t shape[2];
  int32_t ndim;
} maker;

static uint32_t pick(maker *m, uint32_t n) {
  m->state ^= m->state << 13;
  m->state ^= m->state >> 7;
  m->state ^= m->state << 17;
  return n ? (uint32_t)((m->state >> 11) % n) : 0;
}
static void seed(maker *m, uint64_t number) {
  *m = (maker){.state = (number + 1) * 0x9e3779b97f4a7c15ull | 1, .last = -1};
  for (int k = 0; k < 8; k++) pick(m, 2);
}
static void *take(maker *m, size_t n) {
  void *p = pf_arena_alloc(&m->g->arena, n);
  if (!p) abort();
  return p;
}

/* ---------------------------------------------------------------- ops */
static int left_out(const pf_op_def *op) {
  static const char *const names[] = {
      "Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints", "WriteFile", "ReadFile", "Restore",
      "RestoreSlice", "RestoreV2", "MatchingFiles", "Print", "PrintV2", "_Send", "_Recv", "_Arg",
      "_Retval", "_HostSend", "_HostRecv", "Switch", "RefSwitch", "Merge", "RefMerge", "Enter",
      "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond", "PyFunc",
      "EagerPyFunc", "PyFuncStateless", "InitializeTableFromTextFileV2", "Placeholder",
      "PlaceholderV2", "MutexLock"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (pf_str_is(op->name, names[k])) return 1;
  return op->name.data[0] == '_' && op->plugin;
}
static int is_handle(int32_t type) { return type == PF_RESOURCE || type == PF_VARIANT; }
static int takes_state(const pf_op_def *op) {
  for (int32_t i = 0; i < op->n_in; i++)
    if (op->in[i].is_ref || is_handle(op->in[i].type)) return 1;
  return 0;
}
/* 1: makes `type` (or a reference) out of nothing that is a handle itself */
static int gives(const pf_op_def *op, int32_t type, int ref) {
  if (takes_state(op)) return 0;
  for (int32_t i = 0; i < op->n_out; i++)
    if (ref ? op->out[i].is_ref : op->out[i].type == type) return 1;
  return 0;
}
enum { ANY_OP, STATE_OP, REFERENCE, RESOURCE, VARIANT, LISTS };
static const pf_op_def *draw(maker *m, int list) {
  static const pf_op_def *ops[LISTS][4096];
  static uint32_t n[LISTS];
  for (int32_t i = 0, end = n[ANY_OP] ? 0 : pf_op_count(); i < end; i++) {
    const pf_op_def *op = pf_op_at(i);
    if (!op || left_out(op)) continue;
    int in[LISTS] = {1, takes_state(op), gives(op, 0, 1), gives(op, PF_RESOURCE, 0),
                     gives(op, PF_VARIANT, 0)};
    for (int k = LISTS - 1; k >= 0; k--)
      if (in[k] && n[k] < 4096) ops[k][n[k]++] = op;
  }
  return ops[list][pick(m, n[list])];
}

/* ---------------------------------------------------------------- attributes */
static int32_t any_type(maker *m) {
  static const uint8_t all[] = {
      PF_FLOAT32,   PF_FLOAT64, PF_INT32,      PF_UINT8,  PF_INT16,  PF_INT8,         PF_STRING,
      PF_COMPLEX64, PF_INT64,   PF_BOOL,       PF_QINT8,  PF_QUINT8, PF_QINT32,       PF_BFLOAT16,
      PF_UINT16,    PF_UINT32,  PF_COMPLEX128, PF_FLOAT16, PF_UINT64, PF_FLOAT8_E5M2, PF_RESOURCE,
      PF_VARIANT};
  uint32_t k = pick(m, 16);
  return k < 6 ? m->favourites[0] : k < 10 ? m->favourites[1] : k < 12 ? m->favourites[2]
         : all[pick(m, sizeof all)];
}
static int32_t type_for(maker *m, const pf_attr_def *a) {
  int32_t type = any_type(m);
  if (!a->n_allowed || !pick(m, 32)) return type;
  for (int k = 0; k < 6; k++, type = any_type(m))
    for (int32_t i = 0; i < a->n_allowed; i++)
      if (a->allowed_types[i] == type) return type;
  return a->allowed_types[pick(m, (uint32_t)a->n_allowed)];
}
static pf_shape a_shape(maker *m) {
  pf_shape s = {NULL, -1, 0};
  if (pick(m, 3)) return s;
  int64_t *dims = take(m, 2 * sizeof *dims);
  memcpy(dims, m->shape, sizeof m->shape);
  return (pf_shape){dims, m->ndim, 0};
}
static pf_tensor *a_tensor(maker *m, int32_t type, int scalar);
static pf_attr_value a_value(maker *m, const pf_attr_def *a, int number) {
  pf_attr_value v = {.kind = a->kind};
  int32_t kind = a->kind & ~PF_ATTR_LIST;
  uint32_t n = (uint32_t)(a->has_min && a->min > 0 && a->min < 8 ? a->min : 0) + pick(m, 3);
  if (a->has_default && kind != PF_ATTR_TYPE && pick(m, 4)) return a->value;
  if (a->kind & PF_ATTR_LIST) {
    if (kind != PF_ATTR_TYPE && kind != PF_ATTR_SHAPE && kind != PF_ATTR_INT) n = 0;
    int32_t *types = take(m, (n + 1) * sizeof(pf_shape));
    for (uint32_t k = 0; k < n; k++)
      if (kind == PF_ATTR_TYPE) types[k] = type_for(m, a);
      else if (kind == PF_ATTR_INT) ((int64_t *)types)[k] = 1 + pick(m, 2);
      else ((pf_shape *)types)[k] = a_shape(m);
    v.list = (pf_list){types, n};
  }
  else if (kind == PF_ATTR_TYPE) v.type = type_for(m, a);
  else if (kind == PF_ATTR_INT) v.i = number ? 1 + pick(m, MOST_WIDTH) : (int64_t)n;
  else if (kind == PF_ATTR_BOOL) v.i = pick(m, 2);
  else if (kind == PF_ATTR_FLOAT) v.f = pick(m, 3);
  else if (kind == PF_ATTR_SHAPE) v.shape = a_shape(m);
  else if (kind == PF_ATTR_TENSOR) v.tensor = a_tensor(m, any_type(m), 0);
  else v.s = a->n_allowed ? a->allowed_strings[pick(m, (uint32_t)a->n_allowed)] : pf_str_of("");
  return v;
}

/* ---------------------------------------------------------------- constants */
/* Small numbers, good as indices and shapes; now and then one that is not. */
static void fill(maker *m, pf_tensor *t) {
  static const char long_text[] = "a text too long to lie inside of anything else";
  int64_t n = pf_numel(&t->m.dl_tensor), size = pf_type_size(t->type);
  char *to = t->m.dl_tensor.data;
  memset(to, 0, (size_t)(t->type == PF_STRING ? 0 : t->nbytes));
  for (int64_t i = 0; i < n; i++) {
    uint32_t x = pick(m, 3);
    if (t->type == PF_STRING)
      pf_tensor_str_set(&t->m.dl_tensor, i, pf_str_of(x ? x == 1 ? "ab" : long_text : ""));
    else if (t->type == PF_FLOAT32) ((float *)to)[i] = (float)x;
    else if (t->type == PF_FLOAT64) ((double *)to)[i] = (double)x;
    else if (t->type == PF_BOOL) to[i] = (char)(x & 1);
    else if (!pick(m, 40)) memset(to + i * size, 0xff, (size_t)size);
    else to[i * size] = (char)x;
  }
}
static pf_tensor *a_tensor(maker *m, int32_t type, int scalar) {
  int64_t dims[4] = {m->shape[0], m->shape[1]};
  int32_t ndim = m->ndim;
  if (scalar && pick(m, 3)) ndim = 0;
  else if (!pick(m, 4)) {
    ndim = (int32_t)pick(m, 4);
    for (int32_t d = 0; d < ndim; d++) dims[d] = (int64_t)pick(m, 4);
  }
  if (is_handle(type)) type = PF_INT32;
  pf_tensor *t = pf_tensor_new(type, dims, ndim);
  if (!t) return a_tensor(m, PF_INT32, 1);
  fill(m, t);
  pf_graph *g = m->g;
  if (g->n_tensors == g->tensors_room) {
    g->tensors_room = 2 * g->tensors_room + 16;
    g->tensors = realloc(g->tensors, sizeof *g->tensors * (size_t)g->tensors_room);
    if (!g->tensors) abort();
  }
  return g->tensors[g->n_tensors++] = t;
}

/* ---------------------------------------------------------------- nodes */
static pf_node *new_node(maker *m, const char *op, int32_t n_in, int32_t n_attrs) {
  pf_graph *g = m->g;
  pf_node *n = &g->nodes[g->n_nodes];
  char name[32];
  snprintf(name, sizeof name, "n%d", g->n_nodes++);
  *n = (pf_node){.name = pf_arena_str(&g->arena, pf_str_of(name)), .op = pf_str_of(op),
                 .n_in = n_in, .n_attrs = n_attrs};
  n->device = pf_str_of("");
  n->inputs = take(m, sizeof *n->inputs * (size_t)(n_in + 3));
  n->attrs = take(m, sizeof *n->attrs * (size_t)(n_attrs + 1));
  return n;
}
static int full(const maker *m) { return m->g->n_nodes >= m->steps; }
static void after(pf_node *n, int32_t node) {
  if (node >= 0 && n->n_ctl < 2) n->inputs[n->n_in + n->n_ctl++] = (pf_input){node, -1};
}
static pf_input constant(maker *m, int32_t type, int scalar) {
  pf_node *n = new_node(m, "Const", 0, 2);
  pf_tensor *t = a_tensor(m, type, scalar);
  n->attrs[0] = (pf_node_attr){pf_str_of("dtype"), {.kind = PF_ATTR_TYPE, .type = t->type}};
  n->attrs[1] = (pf_node_attr){pf_str_of("value"), {.kind = PF_ATTR_TENSOR, .tensor = t}};
  return (pf_input){m->g->n_nodes - 1, 0};
}
/* The node as the plan will see it; 0: its attributes are refused. */
static int resolved(maker *m, const pf_node *n, pf_signature *s) {
  pf_error e = {0};
  const pf_op_def *op = pf_op_find(n->op);
  return op && !pf_node_resolve(m->g, n, op, s, &e);
}
/* An output that may serve as an input of the type, of a node before `end`; 0: there is none. */
static int find_output(maker *m, int32_t type, int ref, int32_t end, pf_input *out) {
  uint32_t found = 0;
  for (int32_t i = 0; i < end; i++) {
    pf_signature s;
    if (!resolved(m, &m->g->nodes[i], &s)) continue;
    for (int32_t o = 0; o < s.n_out; o++)
      if (s.out_type[o] == type && (!ref || s.out_ref[o]) && !pick(m, ++found))
        *out = (pf_input){i, o};
  }
  return found > 0;
}
static int32_t make_node(maker *m, const pf_op_def *op, int depth);

/* Writes the first value of a variable; -1: it gets none. */
static int32_t first_value(maker *m, pf_input v, int32_t type, int ref) {
  if (full(m) || is_handle(type) || !pick(m, 10)) return -1;
  pf_input x = constant(m, type, 0);
  pf_node *n = new_node(m, ref ? "Assign" : "AssignVariableOp", 2, 1);
  n->inputs[0] = v, n->inputs[1] = x;
  n->attrs[0] =
      (pf_node_attr){pf_str_of(ref ? "T" : "dtype"), {.kind = PF_ATTR_TYPE, .type = type}};
  after(n, m->last);                /* so that who waits for the last one has all of them */
  return m->g->n_nodes - 1;
}
/* A handle: one that is there, or a new one with what it leads to. */
static int handle(maker *m, int32_t type, int ref, int depth, pf_input *out) {
  if (pick(m, 3) && find_output(m, type, ref, m->g->n_nodes, out)) return 1;
  if (full(m) || depth >= DEPTH) return find_output(m, type, ref, m->g->n_nodes, out);
  int32_t list = ref ? REFERENCE : type == PF_RESOURCE ? RESOURCE : VARIANT;
  const pf_op_def *op = draw(m, list);
  if (type == PF_RESOURCE && !ref && pick(m, 2)) op = pf_op_find(pf_str_of("VarHandleOp"));
  int32_t i = make_node(m, op, depth + 1);
  pf_signature s;
  if (i < 0 || !resolved(m, &m->g->nodes[i], &s)) return 0;
  const pf_attr_value *dtype = pf_node_attr_find(&m->g->nodes[i], "dtype");
  for (int32_t o = 0; o < s.n_out; o++) {
    if (ref ? !s.out_ref[o] || s.out_type[o] != type : s.out_type[o] != type) continue;
    *out = (pf_input){i, o};
    int32_t done = -1;
    if (ref || (type == PF_RESOURCE && dtype && pf_str_is(m->g->nodes[i].op, "VarHandleOp")))
      done = first_value(m, *out, ref ? type : dtype->type, ref);
    if (done >= 0) m->last = done;
    return 1;
  }
  return find_output(m, type, ref, m->g->n_nodes, out);
}
static int source(maker *m, int32_t type, const pf_arg_def *arg, int depth, pf_input *out) {
  if (arg->is_ref || is_handle(type)) return handle(m, type, arg->is_ref, depth, out);
  if (pick(m, 4) || !find_output(m, type, 0, m->g->n_nodes, out))
    *out = constant(m, type, arg->type > 0);    /* of a type of its own: a size, an axis, a flow */
  return 1;
}

static int32_t width_of(const pf_node *n, const pf_op_def *op, const pf_arg_def *a) {
  const pf_attr_value *v = NULL;
  if (a->number_attr >= 0) v = pf_node_attr_find(n, op->attrs[a->number_attr].name.data);
  if (a->list_attr >= 0) v = pf_node_attr_find(n, op->attrs[a->list_attr].name.data);
  return !v ? 1 : a->number_attr >= 0 ? (int32_t)v->i : (int32_t)v->list.n;
}
static int32_t type_of(const pf_node *n, const pf_op_def *op, const pf_arg_def *a, int32_t i) {
  const pf_attr_value *v = NULL;
  if (a->type_attr >= 0) v = pf_node_attr_find(n, op->attrs[a->type_attr].name.data);
  if (v) return v->type;
  if (a->list_attr >= 0) v = pf_node_attr_find(n, op->attrs[a->list_attr].name.data);
  return v ? ((const int32_t *)v->list.items)[i] : a->type;
}
static int is_number(const pf_op_def *op, int32_t attr) {
  for (int32_t i = 0; i < op->n_in; i++)
    if (op->in[i].number_attr == attr) return 1;
  return 0;
}

/* A node of the op behind what it reads; -1: something it needs cannot be had. */
static int32_t make_node(maker *m, const pf_op_def *op, int depth) {
  pf_node plan = {.op = op->name};
  pf_input in[3 * MOST_WIDTH * 8];
  int32_t n_in = 0;
  if (full(m) || op->n_attrs > MOST_ATTRS) return -1;
  plan.n_attrs = op->n_attrs;
  plan.attrs = take(m, sizeof *plan.attrs * (size_t)(op->n_attrs + 1));
  for (int tries = 0; tries < 6; tries++) {
    const pf_kernel_entry *kernel;
    pf_error e = {0};
    for (int32_t k = 0; k < op->n_attrs; k++) {
      pf_attr_value v = a_value(m, &op->attrs[k], is_number(op, k));
      plan.attrs[k] = (pf_node_attr){op->attrs[k].name, v};
    }
    if (!pf_kernel_select(&plan, op, NULL, "CPU", NULL, &kernel, &e)) break;
  }
  if (pf_str_is(op->name, "Const")) return constant(m, any_type(m), 0).node;
  for (int32_t a = 0; a < op->n_in; a++)
    for (int32_t i = 0; i < width_of(&plan, op, &op->in[a]); i++) {
      if (n_in == sizeof in / sizeof *in || m->g->n_nodes + 4 >= MOST_NODES) return -1;
      int32_t type = type_of(&plan, op, &op->in[a], i);
      if (!source(m, type, &op->in[a], depth, &in[n_in++])) return -1;
    }
  pf_node *n = new_node(m, op->name.data, n_in, plan.n_attrs);
  n->attrs = plan.attrs;
  memcpy(n->inputs, in, sizeof *in * (size_t)n_in);
  return m->g->n_nodes - 1;
}

/* ---------------------------------------------------------------- results */
static void fetch(maker *m, int32_t node, int32_t index) {
  pf_signature s;
  if (!resolved(m, &m->g->nodes[node], &s)) return;
  for (int32_t o = 0; o < s.n_out; o++) {
    pf_node *n = new_node(m, "_Retval", 1, 2);
    n->inputs[0] = (pf_input){node, o};
    n->attrs[0] = (pf_node_attr){pf_str_of("T"), {.kind = PF_ATTR_TYPE, .type = s.out_type[o]}};
    n->attrs[1] = (pf_node_attr){pf_str_of("index"), {.kind = PF_ATTR_INT, .i = index}};
    return;
  }
}

/* ---------------------------------------------------------------- other types */
static void change_type(maker *m, pf_node *n) {
  uint32_t found = 0;
  pf_attr_value *at = NULL;
  for (int32_t k = 0; k < n->n_attrs; k++) {
    pf_attr_value *v = &n->attrs[k].value;
    if ((v->kind & ~PF_ATTR_LIST) == PF_ATTR_TYPE && !pick(m, ++found)) at = v;
  }
  if (!at) return;
  if (at->kind == PF_ATTR_TYPE) {
    at->type = any_type(m);
  } else if (at->list.n > 0 && at->list.n < 64) {
    int32_t *types = take(m, sizeof *types * (size_t)at->list.n);
    memcpy(types, at->list.items, sizeof *types * (size_t)at->list.n);
    types[pick(m, (uint32_t)at->list.n)] = any_type(m);
    at->list.items = types;
  }
}
static void repair_const(maker *m, pf_node *n) {
  const pf_attr_value *dtype = pf_node_attr_find(n, "dtype");
  for (int32_t k = 0; dtype && k < n->n_attrs; k++)
    if (n->attrs[k].value.kind == PF_ATTR_TENSOR && n->attrs[k].value.tensor->type != dtype->type)
      n->attrs[k].value.tensor = a_tensor(m, dtype->type, 0);
}
static void repair_edges(maker *m, int32_t room) {
  int32_t n_nodes = m->g->n_nodes;
  for (int32_t i = 0; i < n_nodes; i++)
    if (pf_str_is(m->g->nodes[i].op, "Const")) repair_const(m, &m->g->nodes[i]);
  for (int32_t i = 0; i < n_nodes; i++) {
    pf_node *n = &m->g->nodes[i];
    pf_signature s, from;
    if (!resolved(m, n, &s)) continue;
    for (int32_t k = 0; k < n->n_in; k++) {
      int32_t o = n->inputs[k].output;
      if (!resolved(m, &m->g->nodes[n->inputs[k].node], &from) || o >= from.n_out) continue;
      if (from.out_type[o] == s.in_type[k] && (!s.in_ref[k] || from.out_ref[o])) continue;
      if (s.in_ref[k] || is_handle(s.in_type[k]))
        find_output(m, s.in_type[k], s.in_ref[k], i, &n->inputs[k]);
      else if (m->g->n_nodes < room) n->inputs[k] = constant(m, s.in_type[k], 0);
    }
  }
}
/* Another resource, or variant, for one that a node reads. */
static void change_handle(maker *m, pf_node *n, int32_t end) {
  pf_signature s;
  if (!n->n_in || !resolved(m, n, &s)) return;
  uint32_t k = pick(m, (uint32_t)n->n_in);
  if (is_handle(s.in_type[k])) find_output(m, s.in_type[k], 0, end, &n->inputs[k]);
}

void retype_graph(pf_graph *g, uint64_t number) {
  maker m;
  seed(&m, number);
  if (!g->n_nodes || g->n_nodes > 4096) return;
  m.g = g;
  m.ndim = 1, m.shape[0] = 3;
  for (int k = 0; k < 3; k++) m.favourites[k] = 1 + (int32_t)pick(&m, 10);
  int32_t room = g->n_nodes + 32;
  pf_node *nodes = take(&m, sizeof *nodes * (size_t)room);
  memcpy(nodes, g->nodes, sizeof *nodes * (size_t)g->n_nodes);
  g->nodes = nodes;
  for (uint32_t k = 0; k < 1 + pick(&m, 3); k++) {
    int32_t i = (int32_t)pick(&m, (uint32_t)g->n_nodes);
    if (pick(&m, 4)) change_type(&m, &nodes[i]);
    else change_handle(&m, &nodes[i], i);
  }
  repair_edges(&m, room - 2);
}

/* Often one of a family, such as TensorArrayWriteV3 and TensorArrayReadV3: it finds the same
 * object. */
static const pf_op_def *next_op(maker *m, const pf_op_def *last) {
  const pf_op_def *op = draw(m, pick(m, 10) < 7 ? STATE_OP : ANY_OP);
  if (!last || !takes_state(last) || !pick(m, 3)) return op;
  for (int k = 0; k < 200 && strncmp(op->name.data, last->name.data, 7); k++)
    op = draw(m, STATE_OP);
  return op;
}

pf_graph *make_typed_graph(uint64_t number) {
  static const int32_t usual[] = {PF_FLOAT32, PF_FLOAT64, PF_INT32, PF_INT64, PF_STRING, PF_INT8,
                                  PF_COMPLEX128, PF_BOOL, PF_FLOAT16, PF_FLOAT32, PF_INT32};
  maker m;
  seed(&m, number);
  if (!(m.g = calloc(1, sizeof *m.g))) abort();
  m.g->nodes = take(&m, sizeof *m.g->nodes * (MOST_NODES + 8));
  m.steps = 6 + (int32_t)pick(&m, 16);
  for (int k = 0; k < 3; k++) m.favourites[k] = usual[pick(&m, sizeof usual / sizeof *usual)];
  m.ndim = (int32_t)pick(&m, 3);
  for (int d = 0; d < 2; d++)   /* of one element: then all of an optimizer's inputs fit */
    m.shape[d] = pick(&m, 2) ? 1 : pick(&m, 8) ? 1 + pick(&m, 5) : (int64_t)pick(&m, 40);
  int32_t results = 0;
  const pf_op_def *op = NULL;
  for (int32_t k = 0, n = 1 + (int32_t)pick(&m, 5); k < n; k++) {
    op = next_op(&m, op);
    int32_t last = m.last, i = make_node(&m, op, 0);
    if (i < 0) continue;
    pf_node *node = &m.g->nodes[i];
    if (m.last != last || pick(&m, 4)) after(node, m.last);
    m.last = i;
    if (pick(&m, 2) && results < 4) {
      int32_t before = m.g->n_nodes;
      fetch(&m, i, results);
      results += m.g->n_nodes - before;
    }
  }
  if (!pick(&m, 3)) {
    for (uint32_t k = 0; k < 1 + pick(&m, 2) && m.g->n_nodes; k++)
      change_type(&m, &m.g->nodes[pick(&m, (uint32_t)m.g->n_nodes)]);
    repair_edges(&m, MOST_NODES + 4);
  }
  return m.g;
}
