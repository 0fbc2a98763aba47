/* fuzz_parsing.c - ParseExampleV2 and ParseSequenceExampleV2 on mutated messages, under ASan and
 * UBSan: their kernels, with a host of their own that has just what they call.
 *
 *     fuzz_parsing COUNT SEED SEEDS...         each of SEEDS a file that holds one message
 *
 * Every message is parsed alone and in a batch of two.  Outputs are read to their last byte.
 * Prints how many calls there were, and how many of them succeeded.
 */
#include "parsing/features.h"

extern const pf_kernel *const parse_example_kernels[], *const parse_sequence_kernels[];

/* ---------------------------------------------------------------- tensors of the fake host */
typedef struct { DLTensor t; int64_t shape[40]; int32_t type; } tensor;
static tensor *made[4096];
static int n_made;
static pf_host host;

static tensor *new_tensor(int32_t type, const int64_t *shape, int32_t ndim) {
  tensor *t = calloc(1, sizeof *t);
  int64_t n = 1, size = type == PF_STRING ? (int64_t)sizeof(pf_str) : pf_type_size(type);
  for (int32_t i = 0; i < ndim; i++) n *= t->shape[i] = shape[i];
  if (n < 0 || n > 1 << 26) return free(t), NULL;       /* "out of memory" */
  t->t.shape = t->shape, t->t.ndim = ndim, t->type = type;
  t->t.data = calloc(1, (size_t)(n * size) + 1);
  made[n_made++] = t;
  return t;
}
static void free_tensors(void) {
  while (n_made) {
    tensor *t = made[--n_made];
    for (int64_t i = 0, n = pf_numel(&t->t); t->type == PF_STRING && i < n; i++)
      free((void *)((pf_str *)t->t.data)[i].data);
    free(t->t.data);
    free(t);
  }
}
static pf_status str_get(const DLTensor *t, int64_t i, pf_str *s) {
  *s = ((const pf_str *)t->data)[i];
  if (!s->data) *s = (pf_str){"", 0};
  return PF_OK;
}
static pf_status str_set(DLTensor *t, int64_t i, pf_str s) {
  char *copy = malloc((size_t)s.len + 1);
  if (s.len) memcpy(copy, s.data, (size_t)s.len);
  free((void *)((pf_str *)t->data)[i].data);
  ((pf_str *)t->data)[i] = (pf_str){copy, s.len};
  return PF_OK;
}
static tensor *strings(const char *const *texts, int64_t n, int32_t ndim) {
  tensor *t = new_tensor(PF_STRING, &n, ndim);
  for (int64_t i = 0; i < n; i++) str_set(&t->t, i, (pf_str){texts[i], (int64_t)strlen(texts[i])});
  return t;
}

/* ---------------------------------------------------------------- calls */
static DLTensor *outputs[64];
static DLTensor *output(pf_ctx *c, int32_t i, const int64_t *shape, int32_t ndim) {
  tensor *t = new_tensor(c->out_type[i], shape, ndim);
  return outputs[i] = t ? &t->t : NULL;
}
static pf_status fail(pf_ctx *c, pf_status st, const char *text, int64_t n) {
  volatile char sum = 0;
  (void)c;
  for (int64_t i = 0; i < n; i++) sum ^= text[i];       /* all of it can be read */
  return st;
}
static pf_status parallel_for(pf_ctx *c, int64_t n, int64_t grain, pf_range fn, void *arg) {
  (void)c, (void)grain;
  fn(arg, 0, n, 0);
  return PF_OK;
}

typedef struct { const DLTensor *in[16]; int32_t in_type[16], in_start[16], out_type[40], out_start[20],
                 n_in, n_args, n_out, n_out_args; } call;
static void add(call *k, const tensor *t) {
  k->in[k->n_in] = &t->t, k->in_type[k->n_in++] = t->type;
}
static void arg(call *k, const tensor *t) {
  k->in_start[k->n_args++] = k->n_in;
  if (t) add(k, t);
  k->in_start[k->n_args] = k->n_in;
}
static void results(call *k, int32_t a, int32_t b, int32_t c) { /* 0: no more */
  k->out_start[k->n_out_args++] = k->n_out;
  if (a) k->out_type[k->n_out++] = a;
  if (b) k->out_type[k->n_out++] = b;
  if (c) k->out_type[k->n_out++] = c;
  k->out_start[k->n_out_args] = k->n_out;
}
static int run(call *k, const pf_kernel *kernel, const void *state) {
  pf_ctx c = {.size = sizeof c, .host = &host, .in = k->in, .out = outputs, .in_type = k->in_type,
              .out_type = k->out_type, .n_in = k->n_in, .n_out = k->n_out, .in_start = k->in_start,
              .out_start = k->out_start, .n_in_args = k->n_args, .n_out_args = k->n_out_args};
  memset(outputs, 0, sizeof outputs);
  return kernel->compute(&c, state) == PF_OK;
}

static const int64_t PAIR[] = {2}, BLOCKS[] = {-1, 2};
static const pf_shape SHAPES[] = {{PAIR, 1, 0}, {BLOCKS, 2, 0}};
static const char *const SPARSE[] = {"i", "f", "s"}, *const DENSE[] = {"d", "e"},
    *const RAGGED[] = {"r", "q"};
static tensor *zeros(int32_t type, int64_t n, int32_t ndim) { return new_tensor(type, &n, ndim); }

static int example_call(const tensor *message) {
  struct { pf_list shapes, a, b; } state = {{SHAPES, 2}, {0}, {0}};
  call k = {0};
  arg(&k, message);
  arg(&k, zeros(PF_STRING, 0, 1));
  arg(&k, strings(SPARSE, 3, 1));
  arg(&k, strings(DENSE, 2, 1));
  arg(&k, strings(RAGGED, 2, 1));
  arg(&k, NULL);
  add(&k, zeros(PF_INT64, 2, 1));
  add(&k, zeros(PF_STRING, 1, 0));
  k.in_start[k.n_args] = k.n_in;
  results(&k, PF_INT64, PF_INT64, PF_INT64);
  results(&k, PF_INT64, PF_FLOAT32, PF_STRING);
  results(&k, PF_INT64, PF_INT64, PF_INT64);
  results(&k, PF_INT64, PF_STRING, 0);
  results(&k, PF_INT64, PF_FLOAT32, 0);
  results(&k, PF_INT32, PF_INT64, 0);
  return run(&k, parse_example_kernels[1], &state);
}
static int sequence_call(const tensor *message) {
  struct { pf_list context, lists, rest[5]; } state = {{SHAPES, 1}, {SHAPES, 1}, {{0}}};
  call k = {0};
  tensor *may_miss = zeros(PF_BOOL, 1, 1);
  *(char *)may_miss->t.data = 1;
  arg(&k, message);
  arg(&k, zeros(PF_STRING, 0, 1));
  arg(&k, strings(SPARSE, 1, 1));
  arg(&k, strings(DENSE, 1, 1));
  arg(&k, strings(RAGGED, 1, 1));
  arg(&k, strings(SPARSE + 1, 2, 1));
  arg(&k, strings(DENSE, 1, 1));
  arg(&k, strings(RAGGED, 1, 1));
  arg(&k, may_miss);
  arg(&k, zeros(PF_INT64, 2, 1));
  results(&k, PF_INT64, 0, 0), results(&k, PF_INT64, 0, 0), results(&k, PF_INT64, 0, 0);
  results(&k, PF_INT64, 0, 0);
  results(&k, PF_INT64, 0, 0), results(&k, PF_INT32, 0, 0);
  results(&k, PF_INT64, PF_INT64, 0), results(&k, PF_FLOAT32, PF_STRING, 0);
  results(&k, PF_INT64, PF_INT64, 0);
  results(&k, PF_INT64, 0, 0), results(&k, PF_INT64, 0, 0);
  results(&k, PF_INT64, 0, 0), results(&k, PF_INT64, 0, 0), results(&k, PF_INT64, 0, 0);
  return run(&k, parse_sequence_kernels[1], &state);
}

/* ---------------------------------------------------------------- mutations */
static uint64_t seed;
static uint64_t draw(uint64_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % below;
}
static size_t mutate(uint8_t *b, size_t n, size_t room) {
  for (uint64_t k = 1 + draw(3); k--;) {
    size_t at = draw(n + 1);
    switch (draw(5)) {
      case 0: case 1: if (at < n) b[at] ^= (uint8_t)(1 << draw(8)); break;
      case 2: if (at < n) b[at] = (uint8_t)(draw(2) ? 255 : draw(256)); break;
      case 3:
        if (n + 4 < room && at <= n) {
          memmove(b + at + 4, b + at, n - at);
          for (int i = 0; i < 4; i++) b[at + (size_t)i] = (uint8_t)draw(256);
          n += 4;
        }
        break;
      default: n = at;
    }
  }
  return n;
}
static tensor *message_of(const uint8_t *b, size_t n, int64_t copies) {
  tensor *t = new_tensor(PF_STRING, &copies, copies > 1);
  for (int64_t i = 0; i < copies; i++) str_set(&t->t, i, (pf_str){(const char *)b, (int64_t)n});
  return t;
}
int main(int argc, char **argv) {
  long count = atol(argv[1]), calls = 0, fine = 0;
  uint8_t b[4096];
  seed = (uint64_t)atol(argv[2]);
  host = (pf_host){.size = sizeof host, .fail = fail, .output = output, .str_get = str_get,
                   .str_set = str_set, .parallel_for = parallel_for};
  for (long i = 0; i < count; i++) {
    FILE *f = fopen(argv[3 + i % (argc - 3)], "rb");
    size_t n = f ? fread(b, 1, sizeof b / 2, f) : 0;
    if (f) fclose(f);
    if (i >= argc - 3) n = mutate(b, n, sizeof b);
    for (int64_t copies = 1; copies <= 2; copies++) {
      fine += example_call(message_of(b, n, copies));
      fine += sequence_call(message_of(b, n, copies));
      calls += 2;
      free_tensors();
    }
  }
  printf("%ld calls, %ld succeeded\n", calls, fine);
  return 0;
}
