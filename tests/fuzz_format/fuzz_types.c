/* fuzz_types.c - small graphs whose nodes disagree about element types (typed_graphs.c), compiled
 * and run twice in one session.
 *
 *     fuzz_types COUNT [FIRST] [MARK]
 *
 * MARK is a file that has the number of the graph in work, for whoever starts us again behind a
 * graph that killed us; `fuzz_types 1 NUMBER` is that graph alone, with its nodes in words.
 */
#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RUN_BYTES = 16 << 20, RUN_MS = 100, RUNS = 2 };
static long counts[4]; /* graphs, compiled, runs, runs to their end */
static volatile uint64_t sum;

static void tell(const pf_graph *g) {
  for (int32_t i = 0; i < g->n_nodes; i++) {
    const pf_node *n = &g->nodes[i];
    fprintf(stderr, "%s = %s(", n->name.data, n->op.data);
    for (int32_t k = 0; k < n->n_in + n->n_ctl; k++)
      fprintf(stderr, n->inputs[k].output < 0 ? " ^n%d" : " n%d:%d", n->inputs[k].node,
              n->inputs[k].output);
    fprintf(stderr, " )");
    for (int32_t k = 0; k < n->n_attrs; k++) {
      const pf_attr_value *v = &n->attrs[k].value;
      if (v->kind == PF_ATTR_TYPE)
        fprintf(stderr, " %s=%s", n->attrs[k].name.data, pf_type_name(v->type));
      if (v->kind == PF_ATTR_INT || v->kind == PF_ATTR_BOOL)
        fprintf(stderr, " %s=%lld", n->attrs[k].name.data, (long long)v->i);
    }
    fprintf(stderr, "\n");
  }
}

/* Every byte of a result is looked at: the sanitizer sees one that is not the result's own. */
static void read_all(const pf_tensor *t) {
  const unsigned char *p = t->m.dl_tensor.data;
  if (t->flags & PF_T_HANDLE) return;
  for (int64_t i = 0; i < t->nbytes; i++) sum += p[i];
  for (int64_t i = 0; t->type == PF_STRING && i < pf_numel(&t->m.dl_tensor); i++) {
    pf_str s = {0};
    if (pf_tensor_str_get(&t->m.dl_tensor, i, &s)) continue;
    for (int64_t k = 0; k < s.len; k++) sum += (unsigned char)s.data[k];
  }
}

static void run(pf_plan *p, int aloud) {
  pf_error e = {0};
  pf_run_options o = {.timeout_ns = RUN_MS * 1000000ll};
  pf_tensor *rets[64] = {0}, *args[1] = {0};
  if (p->n_args || p->n_rets > 64) return;
  pf_mem_set_cap(RUN_BYTES);
  pf_status s = pf_step_run(p, args, rets, &o, &e);
  pf_mem_set_cap(FUZZ_BYTES);
  expect_typed(s, &e, "the step");
  if (aloud && s) fprintf(stderr, "failed: %s (%s): %s\n", e.node, e.op, e.message);
  counts[2]++;
  counts[3] += !s;
  for (uint32_t k = 0; !s && k < p->n_rets; k++) {
    read_all(rets[k]);
    pf_tensor_unref(rets[k]);
  }
}

static void one(uint64_t number, pf_pool *pool, int aloud) {
  pf_graph *g = make_typed_graph(number);
  pf_plan *p = NULL;
  pf_error e = {0};
  pf_plan_options o = {.threads = 1, .no_inline = number & 1};
  pf_state *state = pf_state_new("fuzz");
  if (aloud) tell(g);
  watch_begin();
  pf_status s = pf_plan_compile(g, NULL, 0, state, pool, &o, &p, &e);
  expect_typed(s, &e, "the compiler");
  watch_end("compiling");
  if (aloud && s) fprintf(stderr, "refused: %s (%s): %s\n", e.node, e.op, e.message);
  counts[0]++;
  counts[1] += !s;
  for (int k = 0; !s && k < RUNS; k++) run(p, aloud);
  pf_plan_unref(p);
  pf_state_close(state, PF_CANCELLED);
  pf_state_unref(state);
}

int main(int argc, char **argv) {
  uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, own = 0, *mark = &own;
  uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  if (argc > 3) {
    int file = open(argv[3], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *mark)) return 2;
    mark = mmap(NULL, sizeof *mark, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mark == MAP_FAILED) return 2;
  }
  fuzz_plugins();
  pf_pool *pool = pf_pool_new(1);
  pf_mem_set_cap(FUZZ_BYTES);
  for (uint64_t i = 0; i < count; i++) {
    *mark = first + i;
    one(first + i, pool, count == 1);
  }
  *mark = first + count;
  pf_pool_unref(pool);
  fprintf(stderr, "graphs %ld: compiled %ld, runs %ld, to their end %ld\n", counts[0], counts[1],
          counts[2], counts[3]);
  return 0;
}
