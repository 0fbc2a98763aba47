/* fields.c - numbers and bytes of a saved state: state.h.
 *
 * Threads: a writer or reader is one thread's.
 */
#include "dataset/state.h"

static const char MAGIC[] = {'P', 'F', 'D', 'S', 1};

/* ---------------------------------------------------------------- writing */
void ds_put_bytes(ds_writer *w, const void *bytes, size_t n) {
  if (w->failed) return;
  if (w->room - w->n < n) {
    size_t room = PF_MAX(w->room * 2, w->n + n + 256);
    char *more = realloc(w->bytes, room);
    if (!more) {
      w->failed = 1;
      return;
    }
    w->bytes = more;
    w->room = room;
  }
  memcpy(w->bytes + w->n, bytes, n);
  w->n += n;
}
void ds_put_number(ds_writer *w, int64_t v) {
  unsigned char b[8];
  for (int i = 0; i < 8; i++) b[i] = (unsigned char)((uint64_t)v >> (8 * i));
  ds_put_bytes(w, b, 8);
}
void ds_put_text(ds_writer *w, const char *text, int64_t n) {
  ds_put_number(w, n);
  ds_put_bytes(w, text, (size_t)n);
}
void ds_write_begin(ds_writer *w, const pf_host *h) {
  *w = (ds_writer){.host = h};
  ds_put_bytes(w, MAGIC, sizeof MAGIC);
}
void ds_put_again(ds_writer *w, pf_str state) {
  w->n = 0;
  ds_put_bytes(w, state.data, (size_t)state.len);
}
void ds_put_int(ds_writer *w, int64_t v) {
  ds_put_bytes(w, "i", 1);
  ds_put_number(w, v);
}

/* ---------------------------------------------------------------- reading */
pf_status ds_bad(ds_reader *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!r->why[0]) vsnprintf(r->why, sizeof r->why, format, args);
  va_end(args);
  return PF_DATA_LOSS;
}
pf_status ds_get_bytes(ds_reader *r, void *out, size_t n) {
  if ((size_t)(r->end - r->at) < n) return ds_bad(r, "the saved state ends too early");
  memcpy(out, r->at, n);
  r->at += n;
  return PF_OK;
}
pf_status ds_get_number(ds_reader *r, int64_t *v) {
  unsigned char b[8];
  uint64_t n = 0;
  PF_TRY(ds_get_bytes(r, b, 8));
  for (int i = 0; i < 8; i++) n |= (uint64_t)b[i] << (8 * i);
  *v = (int64_t)n;
  return PF_OK;
}
pf_status ds_get_tag(ds_reader *r, char tag) {
  char c;
  PF_TRY(ds_get_bytes(r, &c, 1));
  return c == tag ? PF_OK
                  : ds_bad(r,
                           "the saved state is of another pipeline: it has '%c' where this "
                           "one has '%c'",
                           c >= ' ' && c <= '~' ? c : '?', tag);
}
pf_status ds_read_begin(ds_reader *r, const pf_host *h, pf_str bytes) {
  char magic[sizeof MAGIC];
  *r = (ds_reader){.at = bytes.data, .end = bytes.data + bytes.len, .host = h};
  PF_TRY(ds_get_bytes(r, magic, sizeof magic));
  return memcmp(magic, MAGIC, sizeof magic) ? ds_bad(r, "this is no saved iterator") : PF_OK;
}
pf_status ds_read_end(ds_reader *r) {
  return r->at == r->end ? PF_OK : ds_bad(r, "the saved state is longer than this pipeline's");
}
pf_status ds_get_int(ds_reader *r, int64_t *v) {
  PF_TRY(ds_get_tag(r, 'i'));
  return ds_get_number(r, v);
}
pf_status ds_get_range(ds_reader *r, int64_t least, int64_t most, int64_t *v) {
  int64_t got;
  PF_TRY(ds_get_int(r, &got));
  if (got < least || got > most)
    return ds_bad(r,
                  "%" PRId64 " where the saved state of this pipeline has %" PRId64 " to %" PRId64,
                  got, least, most);
  *v = got;
  return PF_OK;
}
