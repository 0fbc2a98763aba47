/* elementwise_loops.h - what the loops of benchmarks/elementwise.py share.
 *
 * A bound is a function `loop` (below): its case's input arrays, room for the result (at a multiple
 * of 64 bytes), the integers its case gives; it does part `part` of `parts`, each on a thread.
 * Built with -O3 -march=native.
 */
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(64), aligned(4)));
typedef void loop(const void *const *in, void *out, const int64_t *args, int part, int parts);

static inline void put(float *p, vec v, int stream) {
#if defined(__AVX512F__)
  if (stream) { _mm512_stream_ps(p, (__m512)v); return; }
#elif defined(__AVX__)
  if (stream) {
    _mm256_stream_ps(p, (__m256){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]});
    _mm256_stream_ps(p + 8, (__m256){v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]});
    return;
  }
#endif
  (void)stream;
  *(vec *)p = v;
}
static inline void fence(void) {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}
