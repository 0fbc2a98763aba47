/* elementwise_loops.c - the limit for benchmarks/elementwise.py: loops in C that move as much
 * memory as a kernel must, with non-temporal stores; the chain of 20 element-wise ops kept in
 * registers.
 *
 *   traffic   reads `in` bytes, writes `out` bytes, in step, and computes next to nothing
 *   chain     (mul, add, maximum, sub) x 5 over n floats; `stream`: stores past the caches
 *   in_parts  a bound (elementwise_loops.h) on threads
 *
 * `threads` parts run on as many threads: the last one on the caller's, the others on threads that
 * wait for them (made once: a new thread in each call would cost the loop 20 us and more).
 * Built with -O3 -march=native: vectors are the compiler's.
 */
#include <pthread.h>
#include <semaphore.h>
#include "elementwise_loops.h"

enum { BLOCK = 4096, TURN = 1024 };     /* of a part; of reads and writes in turn */

typedef struct { const char *in; char *out; int64_t n_in, n_out; int op, stream; float k[4]; } part;

static void run_traffic(const part *p) {
  vec a = {0}, b = {0}, c = {0}, d = {0};
  int64_t blocks = (p->n_out ? p->n_out : p->n_in) / TURN, from = 0;
  for (int64_t i = 0; i < blocks; i++) {
    const float *x = (const float *)(p->in + from);
    int64_t to = p->n_in * (i + 1) / blocks / 256 * 256, read = to - from;
    from = to;
    for (int64_t j = 0; j < read / 4; j += 64) {
      a += *(const vec *)(x + j), b += *(const vec *)(x + j + 16);
      c += *(const vec *)(x + j + 32), d += *(const vec *)(x + j + 48);
    }
    if (p->n_out) {
      float *y = (float *)(p->out + i * TURN);
      vec v = a + b + 1.0f;             /* zeros are stored faster than memory can take them */
      for (int64_t j = 0; j < TURN / 4; j += 16) put(y + j, v, 1);
    }
  }
  a = a + b + c + d;
  if (a[0] == 12345.678f && p->out) *p->out = 1;    /* the sums are wanted */
}
static void run_copy(const part *p) { /* one array in, one of equal size out */
  const float *x = (const float *)p->in;
  float *y = (float *)p->out;
  for (int64_t i = 0; i + 16 <= p->n_out / 4; i += 16)
    put(y + i, *(const vec *)(x + i) + p->k[0], 1);
}
static void run_sum(const part *p) { /* two arrays in, one of equal size out */
  const float *x = (const float *)p->in, *z = (const float *)(p->in + p->n_out);
  float *y = (float *)p->out;
  for (int64_t i = 0; i + 16 <= p->n_out / 4; i += 16)
    put(y + i, *(const vec *)(x + i) + *(const vec *)(z + i), 1);
}
static inline vec larger(vec a, float b) {
#if defined(__AVX512F__)
  return (vec)_mm512_max_ps((__m512)a, _mm512_set1_ps(b));
#else
  for (int i = 0; i < 16; i++) a[i] = a[i] > b ? a[i] : b;
  return a;
#endif
}
static inline void run_chain_as(const part *p, int stream) {
  const float *x = (const float *)p->in;
  float *y = (float *)p->out, k0 = p->k[0], k1 = p->k[1], k2 = p->k[2], k3 = p->k[3];
  for (int64_t i = 0; i + 64 <= p->n_out / 4; i += 64) {
    vec v[4];
    for (int u = 0; u < 4; u++) v[u] = *(const vec *)(x + i + 16 * u);
    for (int r = 0; r < 5; r++)
      for (int u = 0; u < 4; u++) v[u] = larger(v[u] * k0 + k1, k2) - k3;
    for (int u = 0; u < 4; u++) put(y + i + 16 * u, v[u], stream);
  }
}
static void *run_part(void *arg) {
  const part *p = arg;
  int64_t more = p->n_in - p->n_out;
  if (p->op == 0 && more >= 0 && more < p->n_out / 64) run_copy(p);
  else if (p->op == 0 && p->n_in == 2 * p->n_out) run_sum(p);
  else if (p->op == 0) run_traffic(p);
  else if (p->stream) run_chain_as(p, 1);
  else run_chain_as(p, 0);
  fence();
  return NULL;
}

/* One thread that waits: `start` says that there is work, `done` that it is over. */
enum { SEATS = 8, SPINS = 20000 };
typedef struct { sem_t start, done; void *(*work)(void *); void *arg; int made; } seat;
static seat seats[SEATS];

static void *sit(void *arg) {
  seat *s = arg;
  while (1) {
    while (sem_wait(&s->start)) {}
    s->work(s->arg);
    sem_post(&s->done);
  }
  return NULL;
}
static void begin(seat *s, void *(*work)(void *), void *arg) {
  pthread_t thread;
  if (!s->made) {
    sem_init(&s->start, 0, 0), sem_init(&s->done, 0, 0), s->made = 1;
    if (!pthread_create(&thread, NULL, sit, s)) pthread_detach(thread);
  }
  s->work = work, s->arg = arg;
  sem_post(&s->start);
}
static void await(seat *s) {
  for (int i = 0; i < SPINS; i++)
    if (!sem_trywait(&s->done)) return;
  while (sem_wait(&s->done)) {}
}
/* work(parts), work(parts + size)...: the last here, the others on waiting threads. */
static void side_by_side(void *(*work)(void *), void *parts, size_t size, int threads) {
  for (int t = 0; t < threads - 1; t++) begin(&seats[t], work, (char *)parts + t * size);
  work((char *)parts + (threads - 1) * size);
  for (int t = 0; t < threads - 1; t++) await(&seats[t]);
}

static void run(part whole, int threads) {
  part parts[SEATS];
  for (int t = 0; t < threads; t++) {
    parts[t] = whole;
    parts[t].n_in = whole.n_in / threads / BLOCK * BLOCK;
    parts[t].n_out = whole.n_out / threads / BLOCK * BLOCK;
    parts[t].in += t * parts[t].n_in, parts[t].out += t * parts[t].n_out;
  }
  side_by_side(run_part, parts, sizeof *parts, threads);
}

void traffic(const void *in, int64_t n_in, void *out, int64_t n_out, int threads) {
  run((part){.in = in, .out = out, .n_in = n_in, .n_out = n_out}, threads);
}
void chain(const float *x, float *y, int64_t n, const float *k, int stream, int threads) {
  part p = {.in = (const char *)x, .out = (char *)y, .n_in = 4 * n, .n_out = 4 * n, .op = 1,
            .stream = stream};
  memcpy(p.k, k, sizeof p.k);
  run(p, threads);
}

typedef struct {
  loop *function; const void *const *in; void *out; const int64_t *args; int part, parts;
} bound_part;

static void *run_bound(void *arg) {
  const bound_part *p = arg;
  p->function(p->in, p->out, p->args, p->part, p->parts);
  fence();
  return NULL;
}
void in_parts(loop *function, const void *const *in, void *out, const int64_t *args, int threads) {
  bound_part parts[SEATS];
  for (int t = 0; t < threads; t++)
    parts[t] = (bound_part){function, in, out, args, t, threads};
  side_by_side(run_bound, parts, sizeof *parts, threads);
}
