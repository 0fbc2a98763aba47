/* guard.c - plugins whose structs end where readable memory ends.
 *
 * Purpose: prove that the host never reads a struct beyond the `size` its writer stated: every struct handed over is cut to a
 * given size and placed so that its last byte is the last one before a page nobody may touch, or is followed by poison.
 *
 *     guard_make("pf_kernel", 72, 0)      a plugin (const pf_plugin *) whose kernel struct is 72 bytes: page behind it
 *     guard_make("pf_kernel", 72, 1)      ... followed by 256 bytes of 0xDB
 *     guard_sizes("pf_kernel")            sizeof, as this file's header has it
 *
 * The op is guard.Sum<n>: y = x + k, k an attribute (0 if the kernel's attribute table is cut off).
 */
#include <pyflow/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *cut(const char *name, const char *wanted, const void *full, size_t own, uint32_t size, int poison) {
  uint32_t stated = strcmp(name, wanted) ? (uint32_t)own : size;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (stated + page - 1) / page * page;
  char *at;
  if (poison) {
    at = malloc(stated + 256);
    if (!at) return NULL;
    memset(at, 0xDB, stated + 256);
  } else {
    char *base = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + room, page, PROT_NONE)) return NULL;
    at = base + room - stated;
  }
  if (stated < own) memcpy(at, full, stated);
  else {
    memcpy(at, full, own);
    if (stated > own) memset(at + own, 0xDB, stated - own);     /* a newer plugin's fields: the host does not know them */
  }
  memcpy(at, &stated, sizeof stated);
  return at;
}

typedef struct { int64_t k; } add_state;
static void unref(void *obj) { free(obj); }
static pf_type held_type = {sizeof(pf_type), 0, "guard.Held", unref, NULL};
static const pf_type *held = &held_type;

static pf_status add(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  DLTensor *y = pf_output_like(c, 0, x);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(x); i++)
    PF_DATA(int64_t, y)[i] = PF_DATA(int64_t, x)[i] + (state ? ((const add_state *)state)->k : 0);
  void *obj = malloc(16);                                        /* pf_type is read by the host in a call */
  return obj ? c->host->resource_handle(c, 1, PF_SCOPE_STEP, held, obj) : PF_RESOURCE_EXHAUSTED;
}
static pf_status same_shape(pf_infer *i) { (void)i; return PF_OK; }
static pf_status start(const pf_host *h) { (void)h; return PF_OK; }
static const void *extension(const char *id) { (void)id; return NULL; }

static int32_t none(void *self) { (void)self; return 1; }
static pf_status open_it(const pf_host *h, void *self, int32_t ordinal, void **dev, char *err, int32_t len) {
  (void)h; (void)self; (void)err; (void)len;
  *dev = (void *)(uintptr_t)(ordinal + 1);
  return PF_OK;
}

typedef struct { const char *name; uint32_t bytes; } row;
static const row rows[] = {{"pf_plugin", sizeof(pf_plugin)}, {"pf_op", sizeof(pf_op)}, {"pf_kernel", sizeof(pf_kernel)},
  {"pf_attr", sizeof(pf_attr)}, {"pf_arg", sizeof(pf_arg)}, {"pf_device", sizeof(pf_device)}, {"pf_type", sizeof(pf_type)}};

PF_EXPORT uint32_t guard_sizes(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, name)) return rows[i].bytes;
  return 0;
}

static int made;
#define TABLE(T, ...) memcpy(calloc(8, sizeof(void *)), (const T *const[]){__VA_ARGS__, NULL}, \
                             sizeof((const T *const[]){__VA_ARGS__, NULL}))
PF_EXPORT const pf_plugin *guard_make(const char *which, uint32_t size, int32_t poison) {
  char *text = calloc(3, 64);
  int n = made++;
  snprintf(text, 64, "guard.Sum%d", n);
  snprintf(text + 64, 64, "guard.plugin%d", n);
  snprintf(text + 128, 24, "GUARD%d", n);
#define CUT(T, ...) cut(#T, which, &(const T){sizeof(T), __VA_ARGS__}, sizeof(T), size, poison)
  const pf_op *op = CUT(pf_op, 0, text, "x: int64 -> y: int64, held: resource; k: int = 0", same_shape, 0, 0, "y = x + k");
  const pf_attr *k = CUT(pf_attr, 0, "k", PF_ATTR_INT, (int32_t)offsetof(add_state, k));
  const pf_arg *x = CUT(pf_arg, 0, "x", PF_MEM_DEVICE, 0);
  const pf_kernel *kernel = CUT(pf_kernel, 0, text, NULL, "CPU", 0, 0, TABLE(pf_attr, k), TABLE(pf_arg, x),
                                sizeof(add_state), NULL, NULL, add, NULL, NULL);
  const pf_device *device = CUT(pf_device, 0, text + 128, kDLExtDev, 0, NULL, none, open_it);
  held = CUT(pf_type, 0, "guard.Held", unref, NULL);
  return CUT(pf_plugin, 0, text + 64, "1", TABLE(pf_op, op), TABLE(pf_kernel, kernel), TABLE(pf_device, device), start,
             NULL, extension, PF_ABI_MAJOR, PF_ABI_MINOR, 0, 0);
}

/* The other direction: a host table of any size, placed the same way.  Functions beyond `size` are not there. */
PF_EXPORT const pf_host *guard_host(const pf_host *real, uint32_t size, int32_t poison) {
  return cut("pf_host", "pf_host", real, real->size, size, poison);
}
