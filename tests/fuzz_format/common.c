/* common.c - see common.h. */
#include "common.h"
#include <stdatomic.h>

extern const pf_plugin *pyflow_plugin_v1(const pf_host *host);
extern const pf_plugin *pyflow_fake_plugin(const pf_host *host);
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *p);

static atomic_llong now_bytes, peak_bytes;
static struct timespec began;

static void on_malloc(const volatile void *p, size_t n) {
  (void)p;
  long long now =
      atomic_fetch_add_explicit(&now_bytes, (long long)n, memory_order_relaxed) + (long long)n;
  if (now > atomic_load_explicit(&peak_bytes, memory_order_relaxed))
    atomic_store_explicit(&peak_bytes, now, memory_order_relaxed);
}
static void on_free(const volatile void *p) {
  long long n = p ? (long long)__sanitizer_get_allocated_size(p) : 0;
  atomic_fetch_sub_explicit(&now_bytes, n, memory_order_relaxed);
}

static void problem(void *arg, const char *text) {
  (void)arg;
  fprintf(stderr, "plugin: %s\n", text);
}
static void take(const pf_plugin *p, const char *origin) {
  pf_error e = {0};
  if (!p || pf_plugin_register(p, origin, problem, NULL, &e)) {
    fprintf(stderr, "%s cannot be registered: %s\n", origin, e.message);
    abort();
  }
}
void fuzz_plugins(void) {
  __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  take(pf_core_plugin(), "pyflow");
  take(pyflow_plugin_v1(pf_host_table()), "cpu");
  take(pyflow_fake_plugin(pf_host_table()), "fake");
}

void watch_begin(void) {
  atomic_store(&peak_bytes, atomic_load(&now_bytes));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
}
void watch_end(const char *what) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  double s = (double)(t.tv_sec - began.tv_sec) + 1e-9 * (double)(t.tv_nsec - began.tv_nsec);
  long long peak = atomic_load(&peak_bytes);
  if (s > FUZZ_SECONDS || peak > FUZZ_BYTES) {
    fprintf(stderr, "%s took %.2f s of CPU time, %lld MB at most\n", what, s, peak >> 20);
    abort();
  }
}

void expect_typed(pf_status code, const pf_error *e, const char *what) {
  if (!code && !e->code) return;
  if (code != e->code || code < 1 || code > 16 || code == PF_INTERNAL || !e->message[0]) {
    fprintf(stderr, "%s: returned %d; error %d, node '%s': '%s'\n", what, code, e->code, e->node,
            e->message);
    abort();
  }
}
