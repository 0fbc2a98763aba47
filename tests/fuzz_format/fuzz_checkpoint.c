/* fuzz_checkpoint.c - libFuzzer target: bytes -> the two files of a checkpoint -> RestoreV2 in a
 * plan.
 *
 *     input = flags u8, length of the index u16 (little-endian), index, data file
 *
 * flags & 1: the index's own CRC is put right, so that what follows it is read; & 2: so are the
 * CRCs and the file's size inside it, so that tensors are given out; & 12: which tensors are asked
 * for; & 16: the data file is missing.  The files lie in a folder of this process, in memory where
 * /dev/shm exists.
 */
#include "common.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLANS = 4, FOLDER = 128 };
typedef struct {
  const char *names[4];
  int32_t types[4];
  int n;
} request;
static const request REQUESTS[PLANS] = {
    {{"w"}, {PF_FLOAT32}, 1},
    {{"s"}, {PF_STRING}, 1},
    {{"w", "s", "i", "c"}, {PF_FLOAT32, PF_STRING, PF_INT64, PF_COMPLEX64}, 4},
    {{"i", "b"}, {PF_INT64, PF_BOOL}, 2},
};
static const char DATA[] = "c.data-00000-of-00001.safetensors";
static pf_plan *plans[PLANS];
static pf_state *state;
static char folder[FOLDER], index_path[FOLDER + 16], data_path[FOLDER + 64];

static long counts[2]; /* inputs, restored */

static void tell(void) {
  fprintf(stderr, "inputs %ld: restored %ld\n", counts[0], counts[1]);
  unlink(index_path);
  unlink(data_path);
  rmdir(folder);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t room);

/* ---------------------------------------------------------- plans, written as GraphDefs by hand */
typedef struct {
  uint8_t at[4096];
  size_t n;
} bytes;
static void add(bytes *b, const void *p, size_t n) {
  memcpy(b->at + b->n, p, n);
  b->n += n;
}
static void add_number(bytes *b, int tag, uint64_t v) {
  uint8_t t = (uint8_t)(tag << 3);
  add(b, &t, 1);
  for (; v >= 128; v >>= 7) {
    t = (uint8_t)(v | 128);
    add(b, &t, 1);
  }
  t = (uint8_t)v;
  add(b, &t, 1);
}
static void add_bytes(bytes *b, int tag, const void *p, size_t n) {
  uint8_t t = (uint8_t)(tag << 3 | 2);
  add(b, &t, 1);
  for (uint64_t v = n;; v >>= 7) {
    t = (uint8_t)(v < 128 ? v : v | 128);
    add(b, &t, 1);
    if (v < 128) break;
  }
  add(b, p, n);
}
static void add_text(bytes *b, int tag, const char *s) { add_bytes(b, tag, s, strlen(s)); }
static void add_attr(bytes *node, const char *key, const bytes *value) {
  bytes entry = {.n = 0};
  add_text(&entry, 1, key);
  add_bytes(&entry, 2, value->at, value->n);
  add_bytes(node, 5, entry.at, entry.n);
}
static void add_type(bytes *node, const char *key, int32_t type) {
  bytes v = {.n = 0};
  add_number(&v, 6, (uint64_t)type);
  add_attr(node, key, &v);
}
static void begin_node(bytes *node, const char *name, const char *op) {
  node->n = 0;
  add_text(node, 1, name);
  add_text(node, 2, op);
}
static void add_strings(bytes *graph, const char *name, const char *const *texts, int n) {
  bytes node, tensor = {.n = 0}, shape = {.n = 0}, dim = {.n = 0}, v = {.n = 0};
  begin_node(&node, name, "Const");
  add_type(&node, "dtype", PF_STRING);
  add_number(&dim, 1, (uint64_t)n);
  add_bytes(&shape, 2, dim.at, dim.n);
  add_number(&tensor, 1, PF_STRING);
  add_bytes(&tensor, 2, shape.at, shape.n);
  for (int i = 0; i < n; i++) add_text(&tensor, 8, texts[i]);
  add_bytes(&v, 8, tensor.at, tensor.n);
  add_attr(&node, "value", &v);
  add_bytes(graph, 1, node.at, node.n);
}
static void add_indexed(bytes *graph, const char *name, const char *op, const char *input,
                        int32_t type, int index) {
  bytes node, v = {.n = 0};
  begin_node(&node, name, op);
  if (input) add_text(&node, 3, input);
  add_type(&node, "T", type);
  add_number(&v, 3, (uint64_t)index);
  add_attr(&node, "index", &v);
  add_bytes(graph, 1, node.at, node.n);
}
static void add_restore(bytes *graph, const request *r) {
  bytes node, list = {.n = 0}, v = {.n = 0};
  begin_node(&node, "restore", "RestoreV2");
  add_text(&node, 3, "prefix");
  add_text(&node, 3, "names");
  add_text(&node, 3, "slices");
  for (int i = 0; i < r->n; i++) add_number(&list, 6, (uint64_t)r->types[i]);
  add_bytes(&v, 1, list.at, list.n);
  add_attr(&node, "dtypes", &v);
  add_bytes(graph, 1, node.at, node.n);
}
static void make_plan(int k, pf_pool *pool) {
  static const char *const none[4] = {"", "", "", ""};
  const request *r = &REQUESTS[k];
  bytes graph = {.n = 0};
  pf_graph *g;
  pf_error e = {0};
  pf_plan_options o = {.threads = 1};
  char name[32], from[32];
  add_indexed(&graph, "prefix", "_Arg", NULL, PF_STRING, 0);
  add_strings(&graph, "names", r->names, r->n);
  add_strings(&graph, "slices", none, r->n);
  add_restore(&graph, r);
  for (int i = 0; i < r->n; i++) {
    snprintf(name, sizeof name, "ret%d", i);
    snprintf(from, sizeof from, "restore:%d", i);
    add_indexed(&graph, name, "_Retval", from, r->types[i], i);
  }
  if (pf_graph_read(graph.at, (int64_t)graph.n, &g, &e) ||
      pf_plan_compile(g, NULL, 0, state, pool, &o, &plans[k], &e)) {
    fprintf(stderr, "the plan of RestoreV2: %s\n", e.message);
    abort();
  }
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  fuzz_plugins();
  atexit(tell);
  pf_pool *pool = pf_pool_new(1);
  state = pf_state_new("fuzz");
  for (int k = 0; k < PLANS; k++) make_plan(k, pool);
  snprintf(folder, sizeof folder, "%s/pyflow-fuzz-%d",
           access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
  mkdir(folder, 0700);
  snprintf(index_path, sizeof index_path, "%s/c.index", folder);
  snprintf(data_path, sizeof data_path, "%s/%s", folder, DATA);
  return 0;
}

/* ---------------------------------------------------------------- sums put right */
static uint32_t crc32_of(const uint8_t *p, size_t n) {
  static uint32_t table[256];
  if (!table[1])
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t x = i;
      for (int k = 0; k < 8; k++) x = x >> 1 ^ (x & 1 ? 0xEDB88320u : 0);
      table[i] = x;
    }
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) crc = crc >> 8 ^ table[(crc ^ p[i]) & 255];
  return ~crc;
}
static void put_crc(char *at, uint32_t crc) {
  char text[9];
  snprintf(text, sizeof text, "%08x", crc);
  memcpy(at, text, 8);
}
/* "begin":B,"end":E,"crc32":"........" as the writer writes them, wherever they are */
static void fix_tensors(char *text, const uint8_t *data, size_t n) {
  uint64_t header = 0;
  if (n >= 8) memcpy(&header, data, 8);
  for (char *p = text; (p = strstr(p, "\"begin\":")); p++) {
    unsigned long long begin, end;
    int used = 0;
    if (sscanf(p, "\"begin\":%18llu,\"end\":%18llu,\"crc32\":\"%n", &begin, &end, &used) != 2 ||
        !used || strlen(p) < (size_t)used + 9 || n < 8 || header > n - 8 || begin > end ||
        end > n - 8 - header)
      continue;
    put_crc(p + used, crc32_of(data + 8 + header + begin, (size_t)(end - begin)));
  }
}
/* The first "size": of the index becomes the file's true one, in as many digits as were there. */
static void fix_size(char *text, size_t n) {
  char *p = strstr(text, "\"size\":"), digits[24];
  if (!p) return;
  size_t room = strspn(p += 7, "0123456789");
  int k = snprintf(digits, sizeof digits, "%0*zu", (int)(room < 18 ? room : 18), n);
  if ((size_t)k == room) memcpy(p, digits, room);
}

static void write_file(const char *path, const void *p, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, p, n) != (ssize_t)n) abort();
  close(fd);
}

static void restore(int k) {
  pf_error e = {0};
  pf_run_options o = {.timeout_ns = 2000000000ll};
  pf_tensor *args[1] = {pf_tensor_new(PF_STRING, NULL, 0)}, *rets[8];
  char prefix[FOLDER + 8];
  snprintf(prefix, sizeof prefix, "%s/c", folder);
  pf_tensor_str_set(pf_dl(args[0]), 0, pf_str_of(prefix));
  watch_begin();
  pf_status s = pf_step_run(plans[k], args, rets, &o, &e);
  watch_end("RestoreV2");
  expect_typed(s, &e, "RestoreV2");
  counts[0]++;
  counts[1] += !s;
  for (int i = 0; !s && i < REQUESTS[k].n; i++) {
    volatile uint8_t sum = 0; /* every byte given out is there */
    const uint8_t *p = rets[i]->m.dl_tensor.data;
    for (int64_t b = 0; b < rets[i]->nbytes; b++) sum = (uint8_t)(sum + p[b]);
    pf_tensor_unref(rets[i]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n < 3) return 0;
  size_t n_index = data[1] | (size_t)data[2] << 8;
  if (n_index > n - 3) n_index = n - 3;
  char *text = malloc(n_index + 1);
  const uint8_t *body = data + 3 + n_index;
  size_t n_body = n - 3 - n_index;
  if (!text) abort();
  memcpy(text, data + 3, n_index);
  text[n_index] = 0;
  if (data[0] & 2) fix_size(text, n_body), fix_tensors(text, body, n_body);
  if (data[0] & 1 && n_index > 19) put_crc(text + 10, crc32_of((uint8_t *)text + 19, n_index - 19));
  pf_mem_set_cap(FUZZ_BYTES);
  write_file(index_path, text, n_index);
  if (data[0] & 16) unlink(data_path);
  else write_file(data_path, body, n_body);
  free(text);
  restore(data[0] >> 2 & 3);
  return 0;
}

/* ---------------------------------------------------------------- JSON-aware changes */
static size_t replace(uint8_t *data, size_t n, size_t room, size_t at, size_t old,
                      const char *text) {
  size_t k = strlen(text);
  if (at + old > n || n - old + k > room) return n;
  memmove(data + at + k, data + at + old, n - at - old);
  memcpy(data + at, text, k);
  return n - old + k;
}
static size_t mutate_index(uint8_t *text, size_t n, size_t room, uint32_t r) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "2",
                                        "4",
                                        "7",
                                        "8",
                                        "255",
                                        "1000000",
                                        "2147483647",
                                        "4294967296",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "999999999999999999",
                                        "-1",
                                        "1e9",
                                        "1.5",
                                        "null",
                                        "[]",
                                        "{}",
                                        "true"};
  static const char *const words[] = {
      "float32", "string", "int64", "complex64",   "bool",    "w",       "s",
      "i",       "c",      "file",  "files",       "tensors", "shape",   "begin",
      "end",     "dtype",  "name",  "..",          "a/b",     "\\u0041", "\\ud800",
      "\\u0000", "",       "x\\\"", "float8_e5m2", "resource"};
  static const char *const bits[] = {"[",
                                     "]",
                                     "{",
                                     "}",
                                     ",",
                                     ":",
                                     "\"",
                                     "[[[[[[[[",
                                     "[0,0,0,0,0,0,0,0,0]",
                                     "[4611686018427387904,4]",
                                     "\"shape\":[1,1,1,1],"};
  size_t starts[512], n_starts = 0;
  uint32_t which = r % 8;
  for (size_t i = 1; i < n && n_starts < 512; i++) {
    int digit = text[i] >= '0' && text[i] <= '9' && (text[i - 1] < '0' || text[i - 1] > '9');
    if (which < 4   ? digit
        : which < 6 ? text[i - 1] == '"' && text[i] != ',' && text[i] != ':'
                    : r >> 8 & 1)
      starts[n_starts++] = i;
  }
  if (!n_starts) return n;
  size_t at = starts[(r >> 9) % n_starts], old = 0;
  if (which < 4) {
    while (at + old < n && text[at + old] >= '0' && text[at + old] <= '9') old++;
    return replace(text, n, room, at, old, numbers[(r >> 20) % (sizeof numbers / sizeof *numbers)]);
  }
  if (which < 6) {
    while (at + old < n && text[at + old] != '"') old++;
    return replace(text, n, room, at, old, words[(r >> 20) % (sizeof words / sizeof *words)]);
  }
  return replace(text, n, room, at, which == 7, bits[(r >> 20) % (sizeof bits / sizeof *bits)]);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t room, unsigned seed) {
  uint32_t r = seed * 2654435761u + 12345;
  size_t n_index = n < 3 ? 0 : data[1] | (size_t)data[2] << 8;
  if (n < 24 || n_index + 3 > n || seed % 4 == 0) return LLVMFuzzerMutate(data, n, room);
  if (seed % 4 == 1) data[0] ^= (uint8_t)(1u << (r >> 29));
  size_t spare = room - n < 4096 ? room - n : 4096, body = n - 3 - n_index;
  uint8_t *index = malloc(n_index + spare + 1);
  if (!index) abort();
  memcpy(index, data + 3, n_index);
  size_t now = n_index;
  for (unsigned k = 0; k < 1 + (seed >> 3) % 3; k++, r = r * 1664525u + 1013904223u)
    now = mutate_index(index, now, n_index + spare, r ^ r >> 15);
  if (now > 65535) now = 65535;
  memmove(data + 3 + now, data + 3 + n_index, body);
  memcpy(data + 3, index, now);
  data[1] = (uint8_t)now;
  data[2] = (uint8_t)(now >> 8);
  free(index);
  return 3 + now + body;
}
