/* compile.c - which nodes are claimed, and a group as a postfix program. */
#include "jit.h"

atomic_int jit_on = 1, jit_fails, jit_compiled, jit_declined, jit_released;

static const struct { const char *op; jit_code code; } table[] = {
  {"Add", JIT_ADD}, {"AddV2", JIT_ADD}, {"Sub", JIT_SUB}, {"Mul", JIT_MUL}, {"RealDiv", JIT_DIV}, {"Maximum", JIT_MAX},
  {"Minimum", JIT_MIN}, {"Neg", JIT_NEG}, {"Relu", JIT_RELU}, {"Square", JIT_SQUARE}, {"Abs", JIT_ABS}};

jit_code jit_code_of(pf_str op) {
  for (size_t k = 0; k < sizeof table / sizeof *table; k++)
    if ((int64_t)strlen(table[k].op) == op.len && !memcmp(table[k].op, op.data, (size_t)op.len)) return table[k].code;
  return JIT_INPUT;
}

static int64_t numel(const int64_t *dims, int32_t ndim) { /* -1: unknown */
  int64_t n = ndim < 0 ? -1 : 1;
  for (int32_t k = 0; k < ndim; k++) {
    if (dims[k] < 0) return -1;
    n *= dims[k];
  }
  return n;
}

/* The class of a node is a hash of its shape: only equal shapes meet.  Inputs have that shape, or one element. */
int32_t jit_supports(const pf_group_api *api, const pf_group *g, int32_t node) {
  const int64_t *dims, *in;
  int32_t ndim, in_ndim, o;
  if (!jit_on || jit_code_of(api->op(g, node)) == JIT_INPUT || api->type(g, node, 0) != PF_FLOAT32) return 0;
  if (api->dims(g, node, 0, &dims, &ndim) || ndim > JIT_MAX_NDIM || numel(dims, ndim) < 0) return 0;
  for (int32_t k = 0; k < api->n_inputs(g, node); k++) {
    int32_t src = api->input(g, node, k, &o);
    const DLTensor *c = api->constant(g, src);
    if (c && pf_numel(c) != 1) return 0; /* a whole constant array: left to the kernels */
    if (api->dims(g, src, o, &in, &in_ndim)) return 0;
    if (in_ndim == ndim && !memcmp(in, dims, sizeof *in * (size_t)ndim)) continue;
    if (in_ndim < 0 || in_ndim > ndim || numel(in, in_ndim) != 1) return 0; /* broadcasting: not here */
  }
  uint32_t h = 2166136261u;
  for (int32_t k = 0; k < ndim; k++) h = (h ^ (uint32_t)dims[k]) * 16777619u;
  return (int32_t)((h ^ (uint32_t)ndim) & 0x7fffffff) | 1;
}

typedef struct {
  const pf_group_api *api;
  const pf_group *g;
  jit_program *p;
  int32_t *uses, *saved;
  int32_t depth;
  pf_status status;
} builder;

static void emit(builder *b, jit_code code, int32_t arg) {
  if (b->p->n_steps == JIT_MAX_STEPS) { b->status = PF_DECLINE; return; }
  b->p->steps[b->p->n_steps++] = (jit_step){code, arg};
  if (code <= JIT_SAVED) b->depth++;
  if (code == JIT_POP || (code >= JIT_ADD && code <= JIT_MIN)) b->depth--;
  if (b->depth > b->p->depth) b->p->depth = b->depth;
  if (b->depth > JIT_MAX_STACK) b->status = PF_DECLINE;
}

static void push(builder *b, int32_t node, int32_t output) {
  const DLTensor *c = node >= 0 ? b->api->constant(b->g, node) : NULL;
  if (node < 0) {
    if (output >= JIT_MAX_ARGS) { b->status = PF_DECLINE; return; }
    emit(b, JIT_INPUT, output);
  } else if (c) {
    if (pf_numel(c) != 1 || b->p->n_consts == JIT_MAX_ARGS) { b->status = PF_DECLINE; return; }
    b->p->consts[b->p->n_consts] = *PF_DATA(float, c);
    emit(b, JIT_CONST, b->p->n_consts++);
  } else {
    emit(b, JIT_SAVED, b->saved[node]);
  }
}

static void build_node(builder *b, int32_t node) {
  int32_t o, n_results = b->api->n_results(b->g);
  for (int32_t k = 0; k < b->api->n_inputs(b->g, node); k++) {
    int32_t src = b->api->input(b->g, node, k, &o);
    push(b, src, o);
  }
  emit(b, jit_code_of(b->api->op(b->g, node)), 0);
  b->saved[node] = b->p->n_saved;
  emit(b, JIT_SAVE, b->p->n_saved++);
  for (int32_t r = 0; r < n_results; r++)
    if (b->api->result(b->g, r, &o) == node) emit(b, JIT_RESULT, r);
  emit(b, JIT_POP, 0);
}

/* "save t; pop; push saved t" is nothing, when nobody else reads t. */
static void tidy(builder *b) {
  jit_program *p = b->p;
  int32_t reads[JIT_MAX_STEPS] = {0}, tiles[JIT_MAX_STEPS], n = 0, n_tiles = 0;
  for (int32_t k = 0; k < p->n_steps; k++)
    if (p->steps[k].code == JIT_SAVED) reads[p->steps[k].arg]++;
  for (int32_t k = 0; k < p->n_steps; k++) {
    jit_step s = p->steps[k];
    if (s.code == JIT_SAVE && reads[s.arg] == 0) continue;
    if (s.code == JIT_SAVE && reads[s.arg] == 1 && k + 2 < p->n_steps && p->steps[k + 1].code == JIT_POP &&
        p->steps[k + 2].code == JIT_SAVED && p->steps[k + 2].arg == s.arg) {
      k += 2;
      continue;
    }
    if (s.code == JIT_SAVE) tiles[s.arg] = n_tiles++;
    if (s.code == JIT_SAVE || s.code == JIT_SAVED) s.arg = tiles[s.arg];
    p->steps[n++] = s;
  }
  p->n_steps = n;
  p->n_saved = n_tiles;
}

static pf_status build(builder *b) {
  const int64_t *dims;
  int32_t o, ndim, n = b->api->n_nodes(b->g);
  jit_program *p = b->p;
  p->n_in = b->api->n_group_inputs(b->g);
  p->n_out = b->api->n_results(b->g);
  if (p->n_in > JIT_MAX_ARGS || p->n_out > JIT_MAX_ARGS) return PF_DECLINE;
  int32_t last = b->api->result(b->g, 0, &o);
  if (b->api->dims(b->g, last, o, &dims, &ndim)) return PF_INTERNAL;
  p->ndim = ndim;
  memcpy(p->dims, dims, sizeof *dims * (size_t)ndim);
  for (int32_t k = 0; k < p->n_in; k++) {
    if (b->api->type(b->g, -1, k) != PF_FLOAT32 || b->api->dims(b->g, -1, k, &dims, &ndim)) return PF_DECLINE;
    p->scalar[k] = numel(dims, ndim) == 1 && numel(p->dims, p->ndim) != 1;
  }
  for (int32_t k = 0; k < n && !b->status; k++)
    if (!b->api->constant(b->g, k)) build_node(b, k);
  if (!b->status) tidy(b);
  return b->status;
}

pf_status jit_compile(const pf_host *host, const pf_group_api *api, const pf_group *g, void **program) {
  static const char why[] = "the test asked for a failure";
  if (jit_fails) return api->fail(g, PF_INTERNAL, why, sizeof why - 1);
  int32_t n = api->n_nodes(g);
  builder b = {api, g, calloc(1, sizeof(jit_program)), NULL, calloc((size_t)n + 1, sizeof(int32_t)), 0, PF_OK};
  pf_status st = b.p && b.saved ? build(&b) : PF_RESOURCE_EXHAUSTED;
  free(b.saved);
  if (st) free(b.p);
  else *program = b.p;
  atomic_fetch_add(st == PF_DECLINE ? &jit_declined : &jit_compiled, 1);
  return st;
}

void jit_release(void *program) {
  atomic_fetch_add(&jit_released, 1);
  free(program);
}
