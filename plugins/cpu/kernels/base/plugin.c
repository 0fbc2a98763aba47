/* plugin.c - the CPU plugin's entry: picks an instruction set and lists the kernels.
 *
 * Invariants
 *   1. Nothing here needs more than the baseline instruction set, and neither does any file
 *      compiled once.
 *   2. Of each ISA table exactly one copy is listed: the best the CPU supports (pf_cpu_isa).
 *   3. The tables are complete before `pyflow_plugin_v1` returns and never change afterwards.
 * Threads: `pyflow_plugin_v1` is called while the plugin is loaded, by one thread.
 */
#include "base/isa.h"
#include "base/machine.h"
#include "gemm/blas.h"
#include "linalg/lapack.h"
#include "tables.h"
#include <stdlib.h>
#include <string.h>

#define MAX_KERNELS 8192

#define DECLARE_ONCE(x) extern const pf_kernel *const x##_kernels[];
#ifdef PF_HAVE_AVX2
#define DECLARE_ISA(x) \
  extern const pf_kernel *const x##_kernels_baseline[]; \
  extern const pf_kernel *const x##_kernels_avx2[]; \
  extern const pf_kernel *const x##_kernels_avx512[];
#define DECLARE_AVX2(x) extern const pf_kernel *const x##_kernels_baseline[]; extern const pf_kernel *const x##_kernels_avx2[];
#define PICK_ISA(x) \
  add(isa == PF_ISA_LEVEL_AVX512 ? x##_kernels_avx512 : isa == PF_ISA_LEVEL_AVX2 ? x##_kernels_avx2 : x##_kernels_baseline);
#define PICK_AVX2(x) add(isa == PF_ISA_LEVEL_BASELINE ? x##_kernels_baseline : x##_kernels_avx2);
#else
#define DECLARE_ISA(x) extern const pf_kernel *const x##_kernels_baseline[];
#define PICK_ISA(x) add(x##_kernels_baseline);
#define DECLARE_AVX2 DECLARE_ISA
#define PICK_AVX2 PICK_ISA
#endif
#define PICK_ONCE(x) add(x##_kernels);

PF_TABLES(DECLARE_ONCE, DECLARE_ISA, DECLARE_AVX2)

static const pf_kernel *kernels[MAX_KERNELS + 1];
static int n_kernels;

static void add(const pf_kernel *const *table) {
  while (*table && n_kernels < MAX_KERNELS) kernels[n_kernels++] = *table++;
}

static int detect_isa(void) {
#ifdef PF_HAVE_AVX2
  return pf_machine_isa();
#else
  return PF_ISA_LEVEL_BASELINE;
#endif
}

int pf_cpu_isa(void) {
  static int level = -1; /* every thread would write the same value */
  if (level < 0) {
    int have = detect_isa();
    const char *want = getenv("PYFLOW_CPU_ISA");
    if (want && !strcmp(want, "baseline")) have = PF_ISA_LEVEL_BASELINE;
    if (want && !strcmp(want, "avx2") && have > PF_ISA_LEVEL_AVX2) have = PF_ISA_LEVEL_AVX2;
    level = have;
  }
  return level;
}

/* of each host in the process: nothing is kept of it */
static pf_status start(const pf_host *host) {
  (void)host;
  pf_blas_find();
  pf_lapack_find();
  return PF_OK;
}

static const pf_plugin plugin = {
  .size = sizeof plugin,
  .id = "pyflow.cpu",
  .version = "0.2.0",
  .kernels = kernels,
  .start = start,
  .abi_major = PF_ABI_MAJOR,
  .abi_minor = PF_ABI_MINOR,
  .min_minor = 1, /* pf_infer.host */
};

PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) {
  int isa = pf_cpu_isa();
  (void)host;
  (void)isa;
  n_kernels = 0;
  PF_TABLES(PICK_ONCE, PICK_ISA, PICK_AVX2)
  kernels[n_kernels] = 0;
  return &plugin;
}
