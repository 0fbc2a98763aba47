/* fuzz_graph.c - libFuzzer target: bytes -> pf_graph_read -> pf_plan_compile -> a step of small
 * plans.
 *
 * The first byte picks options (threads' inlining, blocks, and how to change element types, if at
 * all: typed_graphs.c); the rest is a GraphDef with _Arg and _Retval. Arguments are made from the
 * plan's own types and shapes (unknown dimensions: 2).  Files are not touched: graphs with ops that
 * write or read them are compiled, not run.
 */
#include "common.h"

enum { RUN_NODES = 200, RUN_BYTES = 16 << 20, ARG_BYTES = 1 << 16, RUN_MS = 200 };
static pf_pool *pool;
static long counts[4]; /* inputs, read, compiled, run to their end */

static void tell(void) {
  fprintf(stderr, "inputs %ld: read %ld, compiled %ld, ran to the end %ld\n", counts[0], counts[1],
          counts[2], counts[3]);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t room);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  fuzz_plugins();
  atexit(tell);
  pool = pf_pool_new(1);
  return 0;
}

static int touches_files(const pf_graph *g) {
  static const char *const ops[] = {
      "SaveV2",          "Save",     "SaveSlices", "MergeV2Checkpoints",
      "WriteFile",       "ReadFile", "RestoreV2",  "Restore",
      "ShardedFilename", "Print",    "PrintV2",    "MatchingFiles"};
  for (int32_t i = 0; i < g->n_nodes; i++)
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
      if (pf_str_is(g->nodes[i].op, ops[k])) return 1;
  return 0;
}

/* A small value for argument k: 0, 1, 2, ... in every type; NULL: none is possible. */
static pf_tensor *argument(const pf_plan *p, uint32_t k) {
  int64_t dims[PF_MAX_NDIM], bytes = 0;
  pf_shape s = p->arg_shape[k];
  int32_t ndim = s.ndim < 0 ? 0 : s.ndim;
  for (int32_t d = 0; d < ndim; d++) dims[d] = s.dims[d] < 0 ? 2 : s.dims[d];
  if (pf_checked_bytes(p->arg_type[k], dims, ndim, &bytes) || bytes > ARG_BYTES) return NULL;
  pf_tensor *t = pf_tensor_new(p->arg_type[k], dims, ndim);
  if (!t || t->type == PF_STRING) return t;
  if (t->type == PF_RESOURCE || t->type == PF_VARIANT) {
    pf_tensor_unref(t);
    return NULL;
  }
  unsigned char *to = t->m.dl_tensor.data;
  for (int64_t i = 0; i < bytes; i++)
    to[i] =
        t->type == PF_FLOAT32 ? (i % 4 == 3 ? 0x3f : 0) : i % pf_type_size(t->type) == 0 && i < 64;
  return t;
}

static void run(pf_plan *p) {
  pf_error e = {0};
  pf_run_options o = {.timeout_ns = RUN_MS * 1000000ll};
  pf_tensor **args = calloc(p->n_args + 1, sizeof *args),
            **rets = calloc(p->n_rets + 1, sizeof *rets);
  int ok = args && rets;
  for (uint32_t k = 0; ok && k < p->n_args; k++) ok = (args[k] = argument(p, k)) != NULL;
  if (ok) {
    pf_mem_set_cap(RUN_BYTES);
    pf_status s = pf_step_run(p, args, rets, &o, &e);
    pf_mem_set_cap(FUZZ_BYTES);
    expect_typed(s, &e, "the step");
    counts[3] += !s;
    for (uint32_t k = 0; !s && k < p->n_rets; k++) pf_tensor_unref(rets[k]);
  } else {
    for (uint32_t k = 0; args && k < p->n_args; k++) pf_tensor_unref(args[k]);
  }
  free(args);
  free(rets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  pf_graph *g = NULL;
  pf_plan *p = NULL;
  pf_error e = {0};
  if (!n) return 0;
  pf_plan_options o = {.threads = 1, .no_inline = data[0] & 1, .no_blocks = data[0] >> 1 & 1};
  pf_state *state = pf_state_new("fuzz");
  pf_mem_set_cap(FUZZ_BYTES);
  watch_begin();
  pf_status s = pf_graph_read(data + 1, (int64_t)n - 1, &g, &e);
  expect_typed(s, &e, "the reader");
  counts[0]++;
  counts[1] += !s;
  if (!s && data[0] >> 2) retype_graph(g, data[0] >> 2);
  int runs = !s && g->n_nodes <= RUN_NODES && !touches_files(g);
  if (!s) {
    s = pf_plan_compile(g, NULL, 0, state, pool, &o, &p, &e);
    expect_typed(s, &e, "the compiler");
    counts[2] += !s;
  }
  watch_end("reading and compiling");
  if (!s && runs) run(p);
  pf_plan_unref(p);
  pf_state_close(state, PF_CANCELLED);
  pf_state_unref(state);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t room, unsigned seed) {
  if (n < 2 || room < 64 || seed % 16 == 0) return LLVMFuzzerMutate(data, n, room);
  if (seed % 16 == 1) data[0] ^= 1 + (seed >> 8 & 1);
  if (seed % 16 == 2) data[0] = (uint8_t)(seed >> 8);
  size_t size = n - 1;
  for (unsigned k = 0; k < 1 + (seed >> 4) % 2 * (seed >> 5) % 4; k++)
    size = mutate_graph(data + 1, size, room - 1, seed * 2654435761u + k);
  return size + 1;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                 uint8_t *out, size_t room, unsigned seed) {
  if (!na || !nb || room < 2) return 0;
  out[0] = a[0];
  return 1 + cross_graphs(a + 1, na - 1, b + 1, nb - 1, out + 1, room - 1, seed);
}
