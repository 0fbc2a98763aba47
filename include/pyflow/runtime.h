/* pyflow/runtime.h - running a trained graph without Python: the embedding API of libpyflow_rt.
 *
 *     char why[512];
 *     pf_model *model;
 *     const char *in[] = {"x", 0}, *out[] = {"logits", 0};
 *     pf_rt_plugin("/usr/lib/libpyflow_cpu.so", why, sizeof why);
 *     pf_rt_load_file("digits.pb", in, out, 1, &model, why, sizeof why);
 *     pf_rt_run(model, inputs, outputs, why, sizeof why);
 *
 * The graph is a frozen GraphDef (variables turned into constants), the very file a TensorFlow 1.x
 * program would use.
 *
 * Rules
 *   1. Every function returns PF_OK or an error code, and then leaves a sentence in `why`
 *      (NUL-terminated, cut to fit; may be NULL).
 *   2. `pf_rt_run` may be called by several threads on one model at once.
 *   3. Inputs are lent for the call: compact, row-major, any alignment.  Each output is the
 *      caller's, ended by its `deleter`.
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

typedef struct pf_model pf_model; /* opaque: a graph compiled for one set of inputs and outputs */

/* "pyflow 0.2.0" */
PF_RT_API const char *pf_rt_version(void);

/* Loads a plugin (the CPU's kernels, say) from a path. */
PF_RT_API pf_status pf_rt_plugin(const char *library, char *why, int64_t why_len);

/* Compiles a serialised GraphDef, of which only what the outputs need is kept.  `inputs` and
 * `outputs` are NULL-ended names of nodes ("x") or tensors ("x:0").  threads 0: as many as this
 * process may use. */
PF_RT_API pf_status pf_rt_load(const void *graph, int64_t bytes, const char *const *inputs,
                               const char *const *outputs, int32_t threads, pf_model **model,
                               char *why, int64_t why_len);
PF_RT_API pf_status pf_rt_load_file(const char *path, const char *const *inputs,
                                    const char *const *outputs, int32_t threads, pf_model **model,
                                    char *why, int64_t why_len);

/* Element types (PF_FLOAT32, ...) of input or output i, or 0 if there is none such. */
PF_RT_API int32_t pf_rt_input_type(const pf_model *model, int32_t i);
PF_RT_API int32_t pf_rt_output_type(const pf_model *model, int32_t i);

/* Runs the graph once.  inputs[i] needs `data`, `shape`, `ndim` and a `dtype` of the right size;
 * outputs[i] is set. */
PF_RT_API pf_status pf_rt_run(pf_model *model, const DLTensor *const *inputs,
                              DLManagedTensorVersioned **outputs, char *why, int64_t why_len);

/* Where the random streams of the model's nodes are: *bytes is what that takes, and it is
 * written to `state` unless that is NULL; too little room is PF_OUT_OF_RANGE.  Setting it, in
 * this process or another, makes the same numbers come again; what a model that was never run
 * lacks begins anew.  For models of one graph on machines of one byte order. */
PF_RT_API pf_status pf_rt_random_state(pf_model *model, void *state, int64_t room, int64_t *bytes,
                                       char *why, int64_t why_len);
PF_RT_API pf_status pf_rt_set_random_state(pf_model *model, const void *state, int64_t bytes,
                                           char *why, int64_t why_len);

PF_RT_API void pf_rt_free(pf_model *model);

/* Closes devices and stops plugins, once; nothing may be loaded or run afterwards.  The end of
 * the process does it by itself. */
PF_RT_API void pf_rt_end(void);

#ifdef __cplusplus
}
#endif
#endif
