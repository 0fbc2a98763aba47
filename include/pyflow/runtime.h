/* pyflow/runtime.h - running a trained graph without Python: the embedding API of libpyflow_rt.
 *
 *     char err[512];
 *     pf_model *model;
 *     const char *feeds[] = {"x"}, *fetches[] = {"logits"};
 *     pf_rt_plugin("/usr/lib/libpyflow_cpu.so", err, sizeof err);
 *     pf_rt_load_file("digits.pb", feeds, 1, fetches, 1, 1, &model, err, sizeof err);
 *     pf_rt_run(model, inputs, outputs, 0, err, sizeof err);
 *
 * The graph is a frozen GraphDef (variables turned into constants), the very file a TensorFlow 1.x program would use.
 *
 * Rules
 *   1. Every function returns PF_OK or an error code, and then leaves a sentence in `err` (NUL-terminated, cut to fit; may be NULL).
 *   2. `pf_rt_run` may be called by several threads on one model at once.
 *   3. Inputs are lent for the call: compact, row-major.  Each output is the caller's, ended by its `deleter`.
 *   4. Plugins come first, then models; plugins are never unloaded.
 */
#ifndef PYFLOW_RUNTIME_H
#define PYFLOW_RUNTIME_H
#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifndef PF_RT_API
#if defined(_WIN32)
#define PF_RT_API
#else
#define PF_RT_API __attribute__((visibility("default")))
#endif
#endif

typedef struct pf_model pf_model;       /* opaque: a graph compiled for one set of feeds and fetches */

/* Loads a plugin (the CPU's kernels, say) from a path; or takes one that is linked in, by its entry function. */
PF_RT_API pf_status pf_rt_plugin(const char *path, char *err, int32_t err_len);
PF_RT_API pf_status pf_rt_plugin_static(const pf_plugin *(*entry)(const pf_host *), char *err, int32_t err_len);

/* Compiles a serialised GraphDef, of which only what the fetches need is kept.  Feeds are names of nodes, fetches of nodes or
 * of their outputs ("logits", "logits:0").  threads 0: as many as this process may use. */
PF_RT_API pf_status pf_rt_load(const void *data, int64_t size, const char *const *feeds, int32_t n_feeds,
                               const char *const *fetches, int32_t n_fetches, int32_t threads, pf_model **model,
                               char *err, int32_t err_len);
PF_RT_API pf_status pf_rt_load_file(const char *path, const char *const *feeds, int32_t n_feeds,
                                    const char *const *fetches, int32_t n_fetches, int32_t threads, pf_model **model,
                                    char *err, int32_t err_len);

/* Element type (PF_FLOAT32, ...) of feed or fetch i; 0: there is none such. */
PF_RT_API int32_t pf_rt_input_type(const pf_model *model, int32_t i);
PF_RT_API int32_t pf_rt_output_type(const pf_model *model, int32_t i);

/* Runs the graph once.  inputs[i] needs `data`, `byte_offset`, `shape` and `ndim`; outputs[i] is set.  timeout_ms 0: none. */
PF_RT_API pf_status pf_rt_run(pf_model *model, const DLTensor *const *inputs, DLManagedTensorVersioned **outputs,
                              int64_t timeout_ms, char *err, int32_t err_len);

PF_RT_API void pf_rt_free(pf_model *model);

#ifdef __cplusplus
}
#endif
#endif
