/* common.h - what the fuzz targets share: plugins registered from their tables, memory and time
 * watched.
 *
 * Invariants
 *   1. Memory taken since `watch_begin` (malloc's hooks) never passes FUZZ_BYTES, nor the CPU time
 * of a watched stretch FUZZ_SECONDS: `watch_end` aborts, which libFuzzer keeps as a crash.
 *   2. `expect_typed`: a failure has a code, a sentence, and is never PF_INTERNAL.
 */
#ifndef FUZZ_COMMON_H
#define FUZZ_COMMON_H
#include "step/step.h"

#define FUZZ_BYTES ((int64_t)1 << 30)
#define FUZZ_SECONDS 1.0 /* of CPU time; the sanitizers' slow-down is included */

void fuzz_plugins(void); /* the core's own, the CPU's, the fake accelerator's */
void watch_begin(void);
void watch_end(const char *what);
void expect_typed(pf_status code, const pf_error *e, const char *what);

/* mutate_graph.c: one structural change; the new size, at most `room` */
size_t mutate_graph(uint8_t *data, size_t n, size_t room, uint32_t seed);
size_t cross_graphs(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out,
                    size_t room, uint32_t seed);

/* typed_graphs.c */
pf_graph *make_typed_graph(uint64_t number);
void retype_graph(pf_graph *g, uint64_t number); /* in place */
#endif
