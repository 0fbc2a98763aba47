/* control.c - knobs, counters, violations: the extension "pyflow.fake/1" and the environment.
 *
 * Threads: everything here is [any].
 */
#include "fake.h"
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <time.h>

const pf_host *fake_host;
fake_device fake_devices[FAKE_DEVICES];
static int32_t n_devices = 2;
static pthread_once_t configured = PTHREAD_ONCE_INIT;
static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
  const char *name;
  size_t at;
  double initially;
} knob;
#define KNOB(name, value) {#name, offsetof(fake_knobs, name), value}
static const knob knobs[] = {KNOB(memory, 256 << 20), KNOB(flops, 1e9),
                             KNOB(bandwidth, 1e10),   KNOB(link, 1e9),
                             KNOB(latency, 1e-5),     KNOB(real_time, 0),
                             KNOB(delay_us, 0),       KNOB(seed, 0),
                             KNOB(can_peer, 1),       KNOB(fail_alloc, 0),
                             KNOB(fail_copy, 0),      KNOB(fail_launch, 0),
                             KNOB(fail_copy_late, 0), KNOB(fail_launch_late, 0),
                             KNOB(fail_event, 0),     KNOB(fail_open, 0),
                             KNOB(fail_times, 1),     KNOB(fail_status, PF_INTERNAL)};

typedef struct {
  const char *name;
  size_t at;
  int32_t resets;
} counter;
#define COUNTER(name, resets) {#name, offsetof(fake_counters, name), resets}
static const counter counters[] = {
  COUNTER(allocs, 1),        COUNTER(frees, 1),       COUNTER(failed_allocs, 1),
  COUNTER(bytes_in_use, 0),  COUNTER(bytes_peak, 1),  COUNTER(blocks, 0),
  COUNTER(pinned, 0),        COUNTER(copies_in, 1),   COUNTER(copies_out, 1),
  COUNTER(copies_within, 1), COUNTER(copies_peer, 1), COUNTER(bytes_in, 1),
  COUNTER(bytes_out, 1),     COUNTER(launches, 1),    COUNTER(operations, 1),
  COUNTER(events, 0),        COUNTER(streams, 0),     COUNTER(violations, 1)};
#define LENGTH(table) (sizeof(table) / sizeof *(table))

double fake_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---------------------------------------------------------------- texts */
void fake_log(int32_t level, const char *format, ...) {
  char text[FAKE_TEXT];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (n >= (int)sizeof text) n = (int)sizeof text - 1;
  if (fake_host && PF_HAS(fake_host, pf_host, log)) fake_host->log(level, text, n);
  else fprintf(stderr, "fake: %s\n", text);
}

void fake_violation(fake_device *dev, const char *format, ...) {
  char text[FAKE_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  pthread_mutex_lock(&text_lock);
  memcpy(dev->violation, text, sizeof text);
  pthread_mutex_unlock(&text_lock);
  atomic_fetch_add(&dev->counters.violations, 1);
  fake_log(PF_LOG_ERROR, "FAKE:%d: %s", dev->ordinal, text);
}

/* ---------------------------------------------------------------- configuration */
static const knob *find_knob(const char *name) {
  for (size_t i = 0; i < LENGTH(knobs); i++)
    if (!strcmp(knobs[i].name, name)) return &knobs[i];
  return NULL;
}
static _Atomic double *knob_of(fake_device *dev, const knob *k) {
  return (_Atomic double *)(void *)((char *)&dev->knobs + k->at);
}
static _Atomic int64_t *counter_of(fake_device *dev, const counter *c) {
  return (_Atomic int64_t *)(void *)((char *)&dev->counters + c->at);
}

static const char *environment(const char *name) {
  char variable[64] = "PYFLOW_FAKE_";
  size_t n = strlen(variable);
  for (; *name && n < sizeof variable - 1; name++) variable[n++] = (char)toupper(*name);
  variable[n] = 0;
  return getenv(variable);
}

static void configure(void) {
  const char *text = environment("devices");
  if (text) n_devices = atoi(text);
  if (n_devices < 1) n_devices = 1;
  if (n_devices > FAKE_DEVICES) n_devices = FAKE_DEVICES;
  for (int32_t d = 0; d < FAKE_DEVICES; d++) {
    fake_device *dev = &fake_devices[d];
    dev->ordinal = d;
    dev->last_completion = &dev->completions;
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->streams_lock, NULL);
    pthread_cond_init(&dev->completed, NULL);
    for (size_t i = 0; i < LENGTH(knobs); i++) {
      text = environment(knobs[i].name);
      atomic_store(knob_of(dev, &knobs[i]), text ? strtod(text, NULL) : knobs[i].initially);
    }
  }
}

int32_t fake_count(void) {
  pthread_once(&configured, configure);
  return n_devices;
}

pf_status fake_start(const pf_host *host) {
  (void)host;
  fake_count();
  return PF_OK;
}

/* Counts down; at 1 the call fails, and `fail_times` - 1 more after it. */
int32_t fake_take_failure(fake_device *dev, _Atomic double *knob) {
  if (atomic_load(knob) < 1) return 0;
  pthread_mutex_lock(&dev->lock);
  double left = atomic_load(knob);
  int32_t fails = left == 1;
  if (fails && atomic_load(&dev->knobs.fail_times) > 1) {
    atomic_store(&dev->knobs.fail_times, atomic_load(&dev->knobs.fail_times) - 1);
  } else if (left >= 1) {
    atomic_store(knob, left - 1);
  }
  pthread_mutex_unlock(&dev->lock);
  return fails;
}

/* ---------------------------------------------------------------- the extension */
static fake_device *device_at(int32_t ordinal) {
  return ordinal >= 0 && ordinal < fake_count() ? &fake_devices[ordinal] : NULL;
}

static int32_t set(int32_t ordinal, const char *name, double value) {
  const knob *k = find_knob(name);
  if (!k || ordinal < -1 || ordinal >= fake_count()) return 0;
  for (int32_t d = 0; d < n_devices; d++)
    if (ordinal == -1 || ordinal == d) atomic_store(knob_of(&fake_devices[d], k), value);
  return 1;
}

static double get(int32_t ordinal, const char *name) {
  fake_device *dev = device_at(ordinal);
  const knob *k = find_knob(name);
  if (dev && k) return atomic_load(knob_of(dev, k));
  for (size_t i = 0; dev && i < LENGTH(counters); i++)
    if (!strcmp(counters[i].name, name)) return (double)atomic_load(counter_of(dev, &counters[i]));
  return NAN;
}

static const char *violation(int32_t ordinal) {
  fake_device *dev = device_at(ordinal);
  return dev ? dev->violation : "";
}

static int32_t settle(int32_t ordinal) {
  int32_t failed = 0;
  for (int32_t d = 0; d < fake_count(); d++)
    if (ordinal == -1 || ordinal == d) failed += fake_settle(&fake_devices[d]);
  return failed;
}

static void reset_counters(int32_t ordinal) {
  for (int32_t d = 0; d < fake_count(); d++) {
    if (ordinal != -1 && ordinal != d) continue;
    fake_device *dev = &fake_devices[d];
    for (size_t i = 0; i < LENGTH(counters); i++)
      if (counters[i].resets) atomic_store(counter_of(dev, &counters[i]), 0);
    atomic_store(&dev->counters.bytes_peak, atomic_load(&dev->counters.bytes_in_use));
    pthread_mutex_lock(&text_lock);
    dev->violation[0] = 0;
    pthread_mutex_unlock(&text_lock);
  }
}

const fake_control fake_control_table = {sizeof(fake_control), 0, set, get, violation, settle,
                                         reset_counters};
