/* fake_control.h - the extension "pyflow.fake/1": how a test turns the device's knobs and reads its
 * counters.
 *
 *     const pf_plugin *p = pyflow_plugin_v1(host);
 *     const fake_control *fake = p->extension("pyflow.fake/1");
 *     fake->set(0, "delay_us", 200);          // every operation on FAKE:0 waits 0 to 200 us first
 *     if (fake->get(0, "violations")) puts(fake->violation(0));
 *
 * Knobs (FAKE:ordinal, or all devices with ordinal -1; also read from PYFLOW_FAKE_<NAME> by start)
 *   memory            bytes that may be in use; at most 1 GiB
 *   flops bandwidth link latency    what `info` says: per second, bytes/s, bytes/s, seconds
 *   real_time         1: operations take the time that those four say
 *   delay_us, seed    up to so many microseconds of random delay before each operation of a stream
 *   can_peer          1: FAKE devices copy to each other directly
 *   fail_alloc fail_copy fail_launch    n: the n-th next call fails (1: the next one)
 *   fail_copy_late fail_launch_late     n: the n-th next one fails later, on its stream
 *   fail_event        n: the n-th next event happens with an error
 *   fail_open         1: the device cannot be opened
 *   fail_times        so many consecutive failures instead of one
 *   fail_status       the pf_status of these failures (13, PF_INTERNAL)
 * Counters
 *   allocs frees failed_allocs bytes_in_use bytes_peak blocks pinned copies_in copies_out
 *   copies_within copies_peer bytes_in bytes_out launches operations events streams violations
 *
 * Threads: every function may be called from any thread.
 */
#ifndef FAKE_CONTROL_H
#define FAKE_CONTROL_H
#include <stdint.h>

typedef struct {
  uint32_t size, flags;
  int32_t (*set)(int32_t ordinal, const char *knob, double value); /* 0: no such knob or device */
  double (*get)(int32_t ordinal, const char *name); /* a knob or a counter; NaN: no such name */
  const char *(*violation)(int32_t ordinal);        /* text of the latest one, "" if none */
  /* waits until the streams are idle, clears their errors and returns how many streams had
   * failed */
  int32_t (*settle)(int32_t ordinal);
  void (*reset_counters)(int32_t ordinal); /* those that count calls; not what exists now */
} fake_control;
#endif
