/* tables.c - a plugin whose tables, entry or start are wrong in one way; which, its file's name says: libNAME.so has fault NAME.
 *
 * The default is a sound plugin of one op, "faults.NAME", and one kernel that doubles.  test_faults.py lists what must happen. */
#include "faults.h"
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>

static char fault[64], id[80], op_name[80];
int fault_is(const char *name) { return !strcmp(fault, name); }

static void find_name(void) {
  Dl_info here;
  if (fault[0] || !dladdr((void *)find_name, &here)) return;
  const char *base = strrchr(here.dli_fname, '/');
  snprintf(fault, sizeof fault, "%s", (base ? base + 1 : here.dli_fname) + 3);
  char *dot = strrchr(fault, '.');
  if (dot) *dot = 0;
  snprintf(id, sizeof id, "faults.%s", fault);
  snprintf(op_name, sizeof op_name, "faults.%s", fault);
}

/* ---------------------------------------------------------------- ends of the process */
static int deep(volatile int *p) {
  volatile int here[1000] = {p ? p[0] : 0};
  return here[999] < 0 ? 1 : deep(here) + here[999];
}
static volatile int zero;
void fault_end(const char *where) { /* "crash_in_start": in `where`, the process ends as the fault's first word says */
  find_name();
  char *in = strstr(fault, "_in_");
  if (!in || strcmp(in + 4, where)) return;
  *in = 0;
  int segv = fault_is("crash"), floating = fault_is("divide"), overflow = fault_is("overflow");
  if (fault_is("abort")) abort();
  if (fault_is("exit_0")) exit(0);
  if (fault_is("_exit_0")) _exit(0);
  if (fault_is("_exit_3")) _exit(3);
  if (fault_is("hang")) for (;;) pause();
  if (fault_is("busy")) for (volatile int k = 0;; k++) {}
  if (fault_is("kill")) kill(getpid(), SIGKILL);
  if (fault_is("term")) kill(getpid(), SIGTERM);
  if (fault_is("mute")) { for (int k = 0; k < 64; k++) close(k); _exit(0); }
  if (fault_is("chatter")) { printf("opening\nentering\nstarting\nsound\n"); fflush(stdout); _exit(0); }
  if (fault_is("daemon") && !fork()) { sleep(600); _exit(0); }
  *in = '_';
  if (segv) *(volatile int *)8 = 1;
  if (floating) zero = 1000 / zero;
  if (overflow) zero = deep(NULL);
}
__attribute__((constructor)) static void at_load(void) { fault_end("load"); }

/* ---------------------------------------------------------------- a sound plugin */
typedef struct { int64_t k; int32_t T, pad; double odd; } state;
static pf_status twice(pf_ctx *c, const void *s) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = 2 * *PF_DATA(float, c->in[0]);
  return PF_OK;
}
static pf_op op = {.size = sizeof op, .name = op_name, .sig = "x: T -> y: T; k: int = 1, T: {float, double} = float"};
static pf_op second_op = {.size = sizeof op, .name = op_name, .sig = "x: float -> y: float"};
static pf_attr attr = {.size = sizeof attr, .name = "k", .kind = PF_ATTR_INT, .offset = offsetof(state, k)};
static pf_arg arg = {.size = sizeof arg, .name = "y"};
static const pf_attr *attrs[] = {&attr, NULL};
static const pf_arg *args[] = {&arg, NULL};
static pf_kernel kernel = {.size = sizeof kernel, .op = op_name, .where = "T=float", .device = "CPU", .attrs = attrs, .args = args,
                           .state_size = sizeof(state), .compute = twice};
static int32_t one(void *self) { fault_end("count"); return 1; }
static int32_t very_many(void *self) { return INT_MAX; }
static int32_t fewer_than_none(void *self) { return INT_MIN; }
static pf_status opens(const pf_host *h, void *self, int32_t ordinal, void **dev, char *err, int32_t len) {
  if (fault_is("device_fails_without_a_word")) return PF_UNAVAILABLE;
  *dev = NULL;
  return PF_OK;
}
static void *allocates(void *d, uint64_t n, uint64_t a, int32_t mem, void *s) { return NULL; }
static pf_status makes_stream(void *d, void **s) { return PF_UNAVAILABLE; }
static char device_type[64];
static pf_device device = {.size = sizeof device, .type = device_type, .count = one, .open = opens};
static const pf_op *ops[] = {&op, NULL, NULL};
static const pf_kernel *kernels[] = {&kernel, NULL};
static const pf_device *devices[] = {NULL, NULL};

static pf_compiler compiler = {.size = 0};
static const void *extension(const char *name) {
  fault_end("extension");
  if (strcmp(name, "pyflow.compiler/1")) return NULL;
  return fault_is("compiler_of_no_size") || fault_is("compiler_without_functions") ? &compiler : NULL;
}
static pf_status start(const pf_host *h) {
  fault_end("start");
  if (fault_is("start_fails")) return PF_UNAVAILABLE;
  if (fault_is("start_returns_pending")) return PF_PENDING;
  if (fault_is("start_calls_with_nothing")) {
    h->log(PF_LOG_ERROR, NULL, 100);
    h->log(PF_LOG_ERROR, "x", -1);
    h->fail(NULL, PF_INTERNAL, NULL, 5);
    int bad = !h->post(h, 0, NULL, NULL) + (h->tensor_new(h, NULL, 0, PF_FLOAT32, NULL, 3) != NULL) +
              (h->tensor_new(h, (void *)8, 0, PF_FLOAT32, NULL, 0) != NULL) + (h->extension(NULL) != NULL) + h->cancelled(NULL) +
              (h->pending(12345) != NULL) + h->off_cancel(77) + (h->on_cancel(NULL, 0, NULL, NULL) == PF_OK) + h->type_of(NULL);
    h->done(4711, PF_OK);
    return bad ? PF_INTERNAL : PF_OK;
  }
  return PF_OK;
}
static pf_plugin plugin = {.size = sizeof plugin, .id = id, .version = "1", .ops = ops, .kernels = kernels, .devices = devices,
                           .start = start, .extension = extension, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};

/* ---------------------------------------------------------------- one fault each */
#define ON(name, ...) do { if (fault_is(name)) { __VA_ARGS__; } } while (0)

static void spoil_plugin(void) {
  ON("size_0", plugin.size = 0);
  ON("size_8", plugin.size = 8);
  ON("major_0", plugin.abi_major = 0);
  ON("major_2", plugin.abi_major = 2);
  ON("needs_minor_99", plugin.min_minor = 99);
  ON("critical_flag", plugin.flags = 1u << 31);
  ON("no_id", plugin.id = NULL);
  ON("empty_id", plugin.id = "");
  ON("id_of_the_cpu", plugin.id = "pyflow.cpu");
  ON("id_of_cuda", plugin.id = "pyflow.cuda");
  ON("id_of_the_core", plugin.id = "pyflow.core");
  ON("id_of_python", plugin.id = "pyflow.python");
  ON("id_of_hosted", plugin.id = "pyflow.hosted");
  ON("id_pyflow", plugin.id = "pyflow");
  ON("id_not_utf8", plugin.id = "faults.\xff\xfe");
  ON("no_version", plugin.version = NULL);
  ON("no_tables_in_it", plugin.ops = NULL; plugin.kernels = NULL; plugin.devices = NULL);
}
static void spoil_op(void) {
  ON("op_size_0", op.size = 0);
  ON("op_size_8", op.size = 8);
  ON("op_without_name", op.name = NULL);
  ON("op_with_empty_name", op.name = "");
  ON("op_without_signature", op.sig = NULL);
  ON("op_without_prefix", op.name = "Twice");
  ON("op_of_the_core", op.name = "_Twice");
  ON("op_of_pyflow", op.name = "pyflow.Twice");
  ON("op_relu", op.name = "Relu"; op.sig = "features: T -> activations: T; T: {float, double}");
  ON("op_matmul_otherwise", op.name = "MatMul");
  ON("op_critical_flag", op.flags = 1u << 20);
  ON("op_needs_minor_99", op.min_minor = 99);
  ON("op_twice_otherwise", ops[1] = &second_op);
  ON("op_doc_not_utf8", op.doc = "\xff\xfe");
  ON("signature_garbage", op.sig = "x y z");
  ON("signature_empty", op.sig = "");
  ON("signature_unknown_type", op.sig = "x: quaternion -> y: float");
  ON("signature_unbalanced", op.sig = "x: T -> y: T; T: {float");
  ON("signature_same_argument", op.sig = "x: float, x: float -> y: float");
  ON("signature_bad_default", op.sig = "x: float -> y: float; k: int = much");
  ON("signature_not_utf8", op.sig = "x\xff: float -> y: float");
}
static void spoil_kernel(void) {
  ON("kernel_size_0", kernel.size = 0);
  ON("kernel_size_16", kernel.size = 16);
  ON("kernel_without_op", kernel.op = NULL);
  ON("kernel_without_device", kernel.device = NULL);
  ON("kernel_without_compute", kernel.compute = NULL);
  ON("kernel_of_unknown_op", kernel.op = "faults.Unheard");
  ON("kernel_critical_flag", kernel.flags = 1u << 30);
  ON("kernel_needs_minor_99", kernel.min_minor = 99);
  ON("kernel_huge_state", kernel.state_size = UINT64_MAX);
  ON("kernel_needs_nonsense", kernel.needs = "quantum");
  ON("where_unknown_type", kernel.where = "T=quaternion");
  ON("where_unknown_attribute", kernel.where = "Nope=float");
  ON("where_no_type_attribute", kernel.where = "k=float");
  ON("where_without_types", kernel.where = "T");
  ON("where_ends_early", kernel.where = "T=float,");
  ON("where_goes_on", kernel.where = "T=float)x");
  ON("where_not_utf8", kernel.where = "T=\xff");
  ON("attr_size_0", attr.size = 0);
  ON("attr_without_name", attr.name = NULL);
  ON("attr_unknown", attr.name = "q");
  ON("attr_unknown_kind", attr.kind = 77);
  ON("attr_other_kind", attr.kind = PF_ATTR_FLOAT);
  ON("attr_before_the_state", attr.offset = -8);
  ON("attr_behind_the_state", attr.offset = sizeof(state));
  ON("attr_misaligned", attr.offset = 4);
  ON("attr_critical_flag", attr.flags = 1u << 17);
  ON("arg_size_0", arg.size = 0);
  ON("arg_without_name", arg.name = NULL);
  ON("arg_unknown", arg.name = "z");
  ON("arg_unknown_memory", arg.mem = 9);
  ON("arg_negative_reuse", arg.reuse = -1);
  ON("arg_reuse_of_no_input", arg.reuse = 40);
  ON("arg_reuse_by_an_input", arg.name = "x"; arg.reuse = 1);
  ON("arg_critical_flag", arg.flags = 1u << 17);
}
static void spoil_device(void) {
  snprintf(device_type, sizeof device_type, "%.20s", fault + (strlen(fault) > 7 ? 7 : 0));
  if (!strncmp(fault, "device_", 7) || strstr(fault, "_in_count")) devices[0] = &device;
  ON("device_size_0", device.size = 0);
  ON("device_without_type", device.type = NULL);
  ON("device_of_empty_type", device.type = "");
  ON("device_of_long_type", device.type = "A_TYPE_OF_MORE_THAN_TWENTY_THREE_BYTES");
  ON("device_cpu", device.type = "CPU");
  ON("device_without_open", device.open = NULL);
  ON("device_without_free", device.alloc = allocates);
  ON("device_without_events", device.stream_new = makes_stream);
  ON("device_critical_flag", device.flags = 1u << 18);
  ON("device_very_many", device.count = very_many);
  ON("device_fewer_than_none", device.count = fewer_than_none);
  ON("compiler_without_functions", compiler.size = sizeof compiler; compiler.device = "CPU");
}

PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) {
  fault_end("entry");
  find_name();
  spoil_plugin();
  spoil_op();
  spoil_kernel();
  spoil_device();
  return fault_is("no_tables") ? NULL : &plugin;
}
