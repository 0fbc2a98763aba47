/* fake.h - what the files of the fake accelerator share.
 *
 * Purpose: a device with memory of its own, streams and events, in plain C and with pyflow/kernel.h
 * alone, so that everything a device plugin must get right can be tested without the hardware.
 *
 * Invariants
 *   1. A device pointer is an address nobody can touch: the arena is mapped PROT_NONE there, and
 *      a second time, `shift` bytes away, for the device's own threads (memory.c).
 *   2. An operation of a stream runs on that stream's thread, after all operations enqueued before
 *      it, and never inside the call that enqueued it (stream.c).
 *   3. A stream that failed skips kernels and copies and every event recorded on it says so, until
 *      `settle`; allocations, frees and events go on.
 *   4. What a correct host never does is counted as a violation, with a text (control.c).
 *
 * Locks (none is taken while another is held, except streams_lock -> stream.lock):
 *   device.lock     blocks, completions, mail, countdowns of failures
 *   streams_lock    the device's list of streams
 *   stream.lock     its queue, status
 *   events' lock    all events (stream.c)
 */
#ifndef FAKE_H
#define FAKE_H
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake_control.h"

enum { FAKE_DEVICES = 8, FAKE_RANK = 8, FAKE_PARAMS = 20, FAKE_GUARD = 64, FAKE_TEXT = 240 };
enum { FAKE_FRESH = 0xFF, FAKE_FREED = 0xA5, FAKE_GUARD_BYTE = 0x5A }; /* 0xFF..: NaN, or -1 */
#define FAKE_ARENA ((uint64_t)1 << 30)

typedef struct fake_device fake_device;
typedef struct fake_stream fake_stream;
typedef struct fake_event fake_event;
typedef struct fake_op fake_op;

/* ---------------------------------------------------------------- one operation of a stream */
struct fake_op {
  fake_op *next;
  pf_status (*run)(fake_stream *, fake_op *);
  double seconds; /* what it takes in real time */
  int32_t always; /* runs on a failed stream too */
};

struct fake_stream {
  fake_device *dev;
  fake_stream *next; /* device's list */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  fake_op *head, *tail;
  int64_t pushed, finished;
  int32_t stopping;
  pf_status status; /* of the first failure since `settle` */
  uint64_t random;  /* the rest: the stream's thread only */
  double clock;
};

/* a piece of the arena, addresses relative to it */
typedef struct {
  uint64_t at, room, bytes; /* room: what it takes there, its guard included */
  int32_t state;
  fake_stream *stream; /* that it was allocated, or freed, on */
} fake_block;
enum { FAKE_RESERVED = 1, FAKE_LIVE, FAKE_FREEING };

typedef struct fake_completion {
  struct fake_completion *next;
  void (*fn)(void *, pf_status);
  void *arg;
  pf_status status;
} fake_completion;

/* host memory that outlives a call: its first member */
typedef struct fake_mail { struct fake_mail *next, **link; } fake_mail;

typedef struct {
  _Atomic double memory, flops, bandwidth, link, latency, real_time, delay_us, seed, can_peer,
      fail_alloc, fail_copy, fail_launch, fail_copy_late, fail_launch_late, fail_event, fail_open,
      fail_times, fail_status;
} fake_knobs;

typedef struct {
  _Atomic int64_t allocs, frees, failed_allocs, bytes_in_use, bytes_peak, blocks, pinned, copies_in,
      copies_out, copies_within, copies_peer, bytes_in, bytes_out, launches, operations, events,
      streams, violations;
} fake_counters;

struct fake_device {
  int32_t ordinal, opened;
  char *arena;     /* where nobody may look ... */
  ptrdiff_t shift; /* ... and how far from there the device's threads see it */
  fake_knobs knobs;
  fake_counters counters;
  char violation[FAKE_TEXT];
  pthread_mutex_t lock;
  fake_block *blocks; /* sorted by address */
  int64_t n_blocks, room_blocks;
  pthread_cond_t completed;
  fake_completion *completions, **last_completion;
  int32_t closing;
  pthread_t completer;
  pthread_mutex_t streams_lock;
  fake_stream *streams;
  fake_mail *mail;
};

/* ---------------------------------------------------------------- control.c */
extern const pf_host *fake_host;
extern fake_device fake_devices[FAKE_DEVICES];
int32_t fake_count(void);
pf_status fake_start(const pf_host *host);
void fake_violation(fake_device *dev, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fake_log(int32_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));
int32_t fake_take_failure(fake_device *dev, _Atomic double *knob); /* 1: this call is to fail */
double fake_now(void);                                             /* seconds, CLOCK_MONOTONIC */
extern const fake_control fake_control_table;

/* ---------------------------------------------------------------- memory.c */
pf_status fake_map(fake_device *dev);
void *fake_alloc(void *dev, uint64_t bytes, uint64_t align, int32_t mem, void *stream);
void fake_free(void *dev, void *p, uint64_t bytes, int32_t mem, void *stream);
fake_device *fake_owner(const void *p); /* whose arena p points into; NULL: host memory */
char *fake_reach(fake_device *dev, fake_stream *s, const void *p, uint64_t bytes);
/* where a stream's thread sees device memory; NULL: it may not, a violation was counted */
void fake_forget_blocks(fake_device *dev);
void *fake_mail_new(fake_device *dev, uint64_t bytes); /* zeroed; freed with the device at last */
void fake_mail_free(fake_device *dev, fake_mail *m);

/* ---------------------------------------------------------------- stream.c */
void *fake_op_new(uint64_t bytes, pf_status (*run)(fake_stream *, fake_op *));
void fake_push(fake_stream *s, fake_op *op);
pf_status fake_stream_new(void *dev, void **stream);
void fake_stream_del(void *dev, void *stream);
int32_t fake_settle(fake_device *dev);
pf_status fake_event_record(void *dev, void *stream, void **event);
pf_status fake_event_wait(void *dev, void *stream, void *event);
void fake_event_del(void *dev, void *event);
pf_status fake_when(void *dev, void *event, void (*fn)(void *, pf_status), void *arg);
pf_status fake_event_time(void *dev, void *event, int64_t *ns);
void *fake_complete(void *dev); /* the completion thread */

/* ---------------------------------------------------------------- device.c */
extern const pf_device fake_device_table;
#endif
