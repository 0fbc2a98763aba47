/* bytes.h - a growing run of bytes, for messages and files.
 *
 * Invariants: a failed append sets `failed` and drops the text; later appends do nothing, so one
 * check at the end is enough.  Threads: one owner.
 *
 *     pf_bytes b = {0};
 *     pf_bytes_printf(&b, "%d of %d", i, n);
 *     if (b.failed) ... ; use b.data, b.n; pf_bytes_free(&b);
 */
#ifndef PF_CPU_BYTES_H
#define PF_CPU_BYTES_H
#include "base/common.h"
#include <stdlib.h>

typedef struct {
  char *data;
  int64_t n, room;
  int failed;
} pf_bytes;

PF_LOCAL void pf_bytes_free(pf_bytes *b) {
  free(b->data);
  *b = (pf_bytes){0};
}
PF_LOCAL int pf_bytes_reserve(pf_bytes *b, int64_t more) {
  if (b->failed) return 0;
  if (b->n + more + 1 <= b->room) return 1;
  int64_t room = PF_MAX(b->n + more + 1, b->room * 2 + 64);
  char *data = realloc(b->data, (size_t)room);
  if (!data) {
    pf_bytes_free(b);
    b->failed = 1;
    return 0;
  }
  b->data = data;
  b->room = room;
  return 1;
}
PF_LOCAL void pf_bytes_add(pf_bytes *b, const char *x, int64_t n) {
  if (!pf_bytes_reserve(b, n)) return;
  if (n) memcpy(b->data + b->n, x, (size_t)n);
  b->n += n;
  b->data[b->n] = 0;
}
PF_LOCAL void pf_bytes_text(pf_bytes *b, const char *text) {
  pf_bytes_add(b, text, (int64_t)strlen(text));
}
__attribute__((format(printf, 2, 3), unused)) static void pf_bytes_printf(pf_bytes *b,
                                                                          const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  pf_bytes_add(b, text, n < 0 ? 0 : PF_MIN(n, (int)sizeof text - 1));
}
#endif
