/* floors.c - what the work costs at least on this machine, in plain C on one thread: ns each, one line of JSON.
 *
 *   indirect_call   one call through a pointer per node, arguments in a row: a chain of no-ops without any bookkeeping
 *   atomic          one uncontended atomic decrement per node: what counting predecessors costs
 *   scalar_add      the call, two loads, an add, a store of a tensor of its own header: a chain of adds without allocation
 *   loop_iteration  i < n and i + 1 as two indirect calls: a while_loop's counter
 *   matmul_10       a 10x10 by 10x10 float product, compiled for AVX2
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 10000, ROUNDS = 300 };
typedef struct tensor { float *data; float value; int32_t refs; char rest[44]; } tensor;
typedef struct node { int32_t (*fn)(struct node *); tensor *a, *b, *out; _Atomic int32_t pending; } node;

static int32_t noop(node *n) { return n->pending >= 0; }
static int32_t add(node *n) { *n->out->data = *n->a->data + *n->b->data; return 0; }
static node nodes[N];
static tensor tensors[N + 1];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
#define BEST(what, per, body) do { double best = 1e9; \
    for (int r = 0; r < ROUNDS; r++) { double t = now(); body; t = now() - t; if (t < best) best = t; } \
    printf("\"%s\": %.3f, ", what, best / (per) * 1e9); } while (0)

#if defined(__x86_64__)
__attribute__((target("avx2,fma")))
#endif
static void matmul10(const float *a, const float *b, float *c) {
  for (int i = 0; i < 10; i++) {
    float row[10] = {0};
    for (int k = 0; k < 10; k++) for (int j = 0; j < 10; j++) row[j] += a[i * 10 + k] * b[k * 10 + j];
    for (int j = 0; j < 10; j++) c[i * 10 + j] = row[j];
  }
}

int main(void) {
  volatile int32_t sink = 0;
  static float a[100], b[100], c[100];
  for (int i = 0; i < N; i++) {
    tensors[i].data = &tensors[i].value;
    nodes[i] = (node){noop, &tensors[i], &tensors[0], &tensors[i + 1], 1};
  }
  tensors[N].data = &tensors[N].value;
  printf("{");
  BEST("indirect_call", N, for (int i = 0; i < N; i++) sink += nodes[i].fn(&nodes[i]));
  BEST("atomic", N, for (int i = 0; i < N; i++) atomic_fetch_sub(&nodes[i].pending, 1));
  for (int i = 0; i < N; i++) nodes[i].fn = add;
  BEST("scalar_add", N, for (int i = 0; i < N; i++) nodes[i].fn(&nodes[i]));
  int32_t (*volatile less)(node *) = noop, (*volatile plus)(node *) = add;
  BEST("loop_iteration", N, for (int i = 0; i < N; i++) { sink += less(&nodes[0]); plus(&nodes[0]); });
  BEST("matmul_10", 1000, for (int i = 0; i < 1000; i++) { matmul10(a, b, c); a[i % 100] = c[i % 100]; });
  printf("\"rounds\": %d}\n", ROUNDS);
  return (int)sink * 0;
}
