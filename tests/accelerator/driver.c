/* driver.c - drives the fake accelerator's device table as a host would, without a host.
 *
 *     ./driver NAME ...      runs these scenarios; without names all but the traps
 *
 * A failed CHECK ends the process with its line.  test_vtable.py builds it plain, with
 * -fsanitize=address and with -fsanitize=thread.
 */
#include "fake.h"
#include <math.h>
#include <unistd.h>

#define CHECK(cond) do { if (!(cond)) { \
    fprintf(stderr, "%s:%d: %s (violation: %s)\n", __FILE__, __LINE__, #cond, \
            fake->violation(0)); exit(1); } } while (0)
#define OK(call) CHECK((call) == PF_OK)

static const pf_device *const d = &fake_device_table;
static const fake_control *const fake = &fake_control_table;
static void *dev, *stream, *other;         /* FAKE:0 and two streams of it */

static double n(const char *name) { return fake->get(0, name); }
static DLTensor tensor(void *p, int64_t *count) {
  return (DLTensor){.data = p, .device = {fake_owner(p) ? kDLExtDev : kDLCPU, 0}, .ndim = 1,
                    .dtype = {kDLFloat, 32, 1}, .shape = count};
}
static pf_status copy(void *on, const void *from, void *to, int64_t count) {
  DLTensor src = tensor((void *)(uintptr_t)from, &count), dst = tensor(to, &count);
  return d->copy(dev, on, &src, &dst);
}
static float *take(int64_t count, void *on) {
  return d->alloc(dev, (uint64_t)count * 4, 64, PF_MEM_DEVICE, on);
}
static void give(float *p, int64_t count, void *on) {
  d->free(dev, p, (uint64_t)count * 4, PF_MEM_DEVICE, on);
}

/* Waits for all that is enqueued on a stream, by `when`, as a host does. */
typedef struct { pthread_mutex_t lock; pthread_cond_t told; int done; pf_status status; } waiter;
static void tell(void *arg, pf_status status) {
  waiter *w = arg;
  pthread_mutex_lock(&w->lock);
  w->done = 1;
  w->status = status;
  pthread_cond_signal(&w->told);
  pthread_mutex_unlock(&w->lock);
}
static pf_status sync_on(void *on) {
  waiter w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, PF_OK};
  void *event;
  OK(d->event_record(dev, on, &event));
  OK(d->when(dev, event, tell, &w));
  pthread_mutex_lock(&w.lock);
  while (!w.done) pthread_cond_wait(&w.told, &w.lock);
  pthread_mutex_unlock(&w.lock);
  d->event_del(dev, event);
  return w.status;
}
static void wait_for(void *waits, void *works) {
  void *event;
  OK(d->event_record(dev, works, &event));
  OK(d->event_wait(dev, waits, event));
  d->event_del(dev, event);                /* early: the wait still holds it */
}

/* ---------------------------------------------------------------- scenarios */
static void poison(void) {
  unsigned char seen[400];
  float *p = take(100, stream);
  OK(copy(stream, p, seen, 100));
  OK(sync_on(stream));
  for (int i = 0; i < 400; i++) CHECK(seen[i] == FAKE_FRESH);
  give(p, 100, stream);
  OK(sync_on(stream));
  unsigned char *below = (unsigned char *)p + ((fake_device *)dev)->shift;
  for (int i = 0; i < 400; i++) CHECK(below[i] == FAKE_FREED);
}

static void round_trip(void) {
  enum { N = 10000 };
  static float from[N], to[N];
  for (int i = 0; i < N; i++) from[i] = (float)i;
  float *p = take(N, stream), *q = take(N, stream);
  OK(copy(stream, from, p, N));
  OK(copy(stream, p, q, N));
  OK(copy(stream, q, to, N));
  give(p, N, stream);
  give(q, N, stream);
  OK(sync_on(stream));
  CHECK(!memcmp(from, to, sizeof from));
  CHECK(n("copies_in") == 1 && n("copies_within") == 1 && n("copies_out") == 1);
  CHECK(n("bytes_in") == sizeof from && n("bytes_out") == sizeof from);
  CHECK(n("bytes_peak") >= 2 * sizeof from && n("bytes_in_use") == 0);
}

/* Two streams hand a buffer to and fro; only events order them. */
static void ordering(void) {
  enum { TURNS = 60 };
  float values[TURNS], seen[TURNS];
  fake->set(0, "delay_us", 300);
  float *p = take(1, stream);
  for (int i = 0; i < TURNS; i++) {
    values[i] = (float)i;
    OK(copy(stream, &values[i], p, 1));
    wait_for(other, stream);
    OK(copy(other, p, &seen[i], 1));
    wait_for(stream, other);
  }
  OK(sync_on(other));
  for (int i = 0; i < TURNS; i++) CHECK(seen[i] == (float)i);
  give(p, 1, stream);
}

/* The same without events goes wrong, and is noticed: the device does run later. */
static void disorder(void) {
  fake->set(0, "delay_us", 2000);
  float value = 1, seen;
  for (int i = 0; i < 50 && n("violations") == 0; i++) {
    float *p = take(1, stream);
    OK(copy(stream, &value, p, 1));
    (void)copy(other, p, &seen, 1);        /* not ordered behind the allocation */
    give(p, 1, stream);
    (void)sync_on(stream);
    (void)sync_on(other);
  }
  CHECK(n("violations") > 0);
  CHECK(fake->settle(0) > 0);
  fake->reset_counters(0);
}

static void later(void) {
  float value = 3, seen = 0;
  fake->set(0, "real_time", 1);
  fake->set(0, "latency", 0.05);
  float *p = take(1, stream);
  double begun = fake_now();
  OK(copy(stream, &value, p, 1));
  OK(copy(stream, p, &seen, 1));
  CHECK(fake_now() - begun < 0.05 && seen == 0);
  OK(sync_on(stream));
  CHECK(fake_now() - begun >= 0.1 && seen == 3);
  give(p, 1, stream);
}

static void limit(void) {
  fake->set(0, "memory", 1 << 20);
  float *p = take(200000, stream);
  CHECK(p && !take(200000, stream) && n("failed_allocs") == 1);
  fake->set(0, "delay_us", 20000);
  give(p, 200000, stream);
  CHECK(!take(200000, stream) || n("bytes_in_use") == 800000);   /* pending until the free ran */
  OK(sync_on(stream));
  if (n("bytes_in_use") == 0) CHECK((p = take(200000, stream)));
  give(p, 200000, stream);
}

static void first_fit(void) {
  float *p[200];
  for (int i = 0; i < 200; i++) p[i] = take(i + 1, stream);
  for (int i = 0; i < 200; i += 2) give(p[i], i + 1, stream);
  OK(sync_on(stream));
  for (int i = 0; i < 200; i += 2) CHECK((p[i] = take(i + 1, stream)));
  for (int i = 0; i < 200; i++)
    for (int k = 0; k < i; k++) CHECK(p[k] + k < p[i] || p[i] + i < p[k]);
  for (int i = 0; i < 200; i++) give(p[i], i + 1, stream);
  OK(sync_on(stream));
  CHECK(n("bytes_in_use") == 0 && n("blocks") == 0);
}

static void expect_violation(const char *text) {
  CHECK(n("violations") == 1 && strstr(fake->violation(0), text));
  fake->settle(0);
  fake->reset_counters(0);
}
static void misuse(void) {
  float x[4] = {0}, *p = take(4, stream);
  give(p, 3, stream);
  expect_violation("free of 12 bytes");
  p = take(4, stream);
  fake->set(0, "delay_us", 20000);
  give(p, 4, stream);
  give(p, 4, stream);
  expect_violation("double free");
  fake->set(0, "delay_us", 0);
  give(x, 4, stream);
  expect_violation("not memory of this device");
  OK(sync_on(stream));
  OK(copy(stream, p, x, 4));               /* noticed when its turn comes */
  CHECK(sync_on(stream) == PF_INTERNAL);
  expect_violation("freed or never allocated");
  CHECK(copy(stream, x, x, 4) == PF_INTERNAL);
  expect_violation("neither to, from nor within");
  p = take(4, stream);
  OK(copy(stream, x, p, 20));
  CHECK(sync_on(stream) == PF_INTERNAL);
  expect_violation("too short");
  give(p, 4, stream);
}

static void failures(void) {
  float x = 1, *p = take(1, stream);
  fake->set(0, "fail_alloc", 2);
  float *q = take(1, stream);
  CHECK(q && !take(1, stream));
  give(q, 1, stream);
  fake->set(0, "fail_alloc", 1);
  fake->set(0, "fail_times", 3);
  for (int i = 0; i < 3; i++) CHECK(!take(1, stream));
  CHECK((q = take(1, stream)));
  give(q, 1, stream);
  fake->set(0, "fail_status", PF_UNAVAILABLE);
  fake->set(0, "fail_copy", 1);
  CHECK(copy(stream, &x, p, 1) == PF_UNAVAILABLE);
  OK(copy(stream, &x, p, 1));
  OK(sync_on(stream));
  fake->set(0, "fail_copy_late", 1);
  OK(copy(stream, &x, p, 1));
  wait_for(other, stream);
  CHECK(sync_on(stream) == PF_UNAVAILABLE && sync_on(stream) == PF_UNAVAILABLE);
  CHECK(sync_on(other) == PF_UNAVAILABLE);
  CHECK(fake->settle(0) == 2);
  fake->set(0, "fail_event", 1);
  CHECK(sync_on(stream) == PF_UNAVAILABLE);
  OK(sync_on(stream));
  give(p, 1, stream);
  void *second = NULL;
  char why[100];
  fake->set(1, "fail_open", 1);
  CHECK(d->open(NULL, NULL, 1, &second, why, sizeof why) == PF_UNAVAILABLE);
  CHECK(strstr(why, "FAKE:1"));
  CHECK(d->open(NULL, NULL, 7, &second, why, sizeof why) == PF_NOT_FOUND);
  fake->set(1, "fail_open", 0);
}

static void peers(void) {
  float x = 7, y = 0, *p = take(1, stream);
  int64_t one = 1;
  void *second, *there;
  OK(d->open(NULL, NULL, 1, &second, NULL, 0));
  OK(d->stream_new(second, &there));
  float *q = d->alloc(second, 4, 64, PF_MEM_DEVICE, there);
  DLTensor from = tensor(p, &one), to = tensor(q, &one), host = tensor(&y, &one);
  OK(copy(stream, &x, p, 1));
  wait_for(there, stream);
  CHECK(d->can_peer(second, "FAKE", dev) == 1);
  OK(d->peer_copy(dev, second, there, &from, &to));
  OK(d->copy(second, there, &to, &host));
  OK(sync_on(there));                      /* an event of FAKE:0's on FAKE:1's stream ... */
  CHECK(n("violations") == 1 && y == 7);   /* ... works, and is counted */
  fake->reset_counters(-1);
  d->free(second, q, 4, PF_MEM_DEVICE, there);
  give(p, 1, stream);
  d->stream_del(second, there);
  d->close(second);
  CHECK(fake->get(1, "bytes_in_use") == 0 && fake->get(1, "streams") == 0);
}

static void event_times(void) {
  void *first, *second;
  int64_t a = 0, b = 0;
  double begun = fake_now();
  OK(d->event_record(dev, stream, &first));
  fake->set(0, "delay_us", 1000);
  OK(d->event_record(dev, stream, &second));
  OK(sync_on(stream));
  OK(d->event_time(dev, first, &a));
  OK(d->event_time(dev, second, &b));
  CHECK(a <= b && a >= (int64_t)(begun * 1e9) - 1000 && b <= (int64_t)(fake_now() * 1e9) + 1000);
  d->event_del(dev, first);
  d->event_del(dev, second);
}

static void facts(void) {
  char text[64];
  OK(d->info(dev, "name", text, sizeof text));
  CHECK(!strcmp(text, "fake accelerator 0"));
  fake->set(0, "flops", 2.5e12);
  OK(d->info(dev, "flops", text, sizeof text));
  CHECK(strtod(text, NULL) == 2.5e12);
  OK(d->info(dev, "memory", text, sizeof text));
  CHECK(strtod(text, NULL) == n("memory"));
  CHECK(d->info(dev, "colour", text, sizeof text) == PF_NOT_FOUND && isnan(n("colour")));
  CHECK(!fake->set(0, "colour", 1) && !fake->set(9, "seed", 1) && n("streams") == 2);
}

/* Four threads allocate, copy and free on two streams. */
static void *worker(void *arg) {
  void *on = arg;
  for (int i = 0; i < 200; i++) {
    float from[16], to[16];
    float *p = take(16, on);
    CHECK(p);
    for (int k = 0; k < 16; k++) from[k] = (float)(i + k);
    OK(copy(on, from, p, 16));
    OK(copy(on, p, to, 16));
    give(p, 16, on);
    OK(sync_on(on));
    CHECK(!memcmp(from, to, sizeof from));
  }
  return NULL;
}
static void threads(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, worker, i % 2 ? stream : other);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
}

/* These two end the process by SIGSEGV. */
static void trap_read(void) { printf("%f\n", (double)*(volatile float *)take(1, stream)); }
static void trap_write(void) { *(volatile float *)take(1, stream) = 1; }

/* ---------------------------------------------------------------- each on a fresh device */
#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {
  SCENARIO(poison), SCENARIO(round_trip), SCENARIO(ordering), SCENARIO(disorder), SCENARIO(later),
  SCENARIO(limit), SCENARIO(first_fit), SCENARIO(misuse), SCENARIO(failures), SCENARIO(peers),
  SCENARIO(event_times), SCENARIO(facts), SCENARIO(threads), SCENARIO(trap_read),
  SCENARIO(trap_write)};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios, TRAPS = 2 };

static void run(int i) {
  static const char *const zeroed[] = {"delay_us", "real_time", "fail_alloc", "fail_copy",
                                       "fail_copy_late", "fail_event", "fail_open"};
  for (int k = 0; k < 7; k++) fake->set(-1, zeroed[k], 0);
  fake->set(-1, "fail_status", PF_INTERNAL);
  fake->set(-1, "fail_times", 1);
  fake->set(-1, "memory", 256 << 20);
  fake->set(-1, "latency", 1e-5);
  fake->reset_counters(-1);
  OK(d->open(NULL, NULL, 0, &dev, NULL, 0));
  OK(d->stream_new(dev, &stream));
  OK(d->stream_new(dev, &other));
  scenarios[i].run();
  fake->settle(0);
  d->stream_del(dev, stream);
  d->stream_del(dev, other);
  CHECK(n("events") == 0 && n("bytes_in_use") == 0 && n("blocks") == 0 && n("streams") == 0);
  d->close(dev);
  CHECK(n("violations") == 0);
}

int main(int argc, char **argv) {
  for (int i = 0; argc < 2 && i < SCENARIOS - TRAPS; i++) run(i);
  for (int a = 1; a < argc; a++)
    for (int i = 0; i < SCENARIOS; i++)
      if (!strcmp(argv[a], scenarios[i].name)) run(i);
  puts("done");
  return 0;
}
