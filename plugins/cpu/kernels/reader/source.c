/* source.c - files read in pieces: source.h. */
#include "reader/source.h"
#include "checkpoint/crc32c.h"
#include "transfer/remote.h"
#include <errno.h>

pf_status pf_source_fail(pf_source *s, pf_status st, const char *what) {
  snprintf(s->error, sizeof s->error, "%.500s; %s", s->path ? s->path : "", what);
  return st;
}

/* ---------------------------------------------------------------- a file */
void pf_source_shut(pf_source *s) {
  if (s->f) fclose(s->f);
#if PF_ZLIB
  if (s->inflating) inflateEnd(&s->z);
#endif
  s->f = NULL;
  s->inflating = s->ended = 0;
  s->at = s->n = s->n_record = 0;
  s->behind = 0;
}
void pf_source_free(pf_source *s) {
  pf_source_shut(s);
  free(s->path);
  free(s->raw);
  free(s->piece);
  free(s->record);
  *s = (pf_source){0};
}
/* The path, and room for pieces, kept from file to file */
static pf_status prepare(pf_source *s, pf_str path) {
  pf_source_shut(s);
  free(s->path);
  s->path = malloc((size_t)path.len + 1);
  if (!s->piece) s->piece = malloc(PF_SOURCE_PIECE);
  if (s->wbits && !s->raw) s->raw = malloc(PF_SOURCE_PIECE);
  if (!s->path || !s->piece || (s->wbits && !s->raw))
    return pf_source_fail(s, PF_RESOURCE_EXHAUSTED, "no memory to read a file");
  if (path.len) memcpy(s->path, path.data, (size_t)path.len);
  s->path[path.len] = 0;
  return strlen(s->path) == (size_t)path.len && path.len < 4096
             ? PF_OK
             : pf_source_fail(s, PF_INVALID_ARGUMENT, "is no path");
}
static pf_status open_path(pf_source *s, const pf_host *host) {
  char why[400];
  pf_str path = {s->path, (int64_t)strlen(s->path)};
  if (pf_is_remote(path)) {
    pf_status st = pf_remote_read(host, path, &s->f, why, sizeof why);
    return st ? pf_source_fail(s, st, why) : PF_OK;
  }
  s->f = fopen(s->path + pf_local_prefix(path), "rb");
  return s->f ? PF_OK
              : pf_source_fail(s,
                               errno == ENOENT   ? PF_NOT_FOUND
                               : errno == EACCES ? PF_PERMISSION_DENIED
                                                 : PF_UNKNOWN,
                               strerror(errno));
}
pf_status pf_source_open(pf_source *s, const pf_host *host, pf_str path) {
  PF_TRY(prepare(s, path));
  PF_TRY(open_path(s, host));
  setvbuf(s->f, NULL, _IONBF, 0);
#if PF_ZLIB
  if (s->wbits) {
    s->z = (z_stream){0};
    if (inflateInit2(&s->z, s->wbits) != Z_OK)
      return pf_source_fail(s, PF_RESOURCE_EXHAUSTED, "no memory to inflate it");
    s->inflating = 1;
  }
#endif
  return PF_OK;
}

/* ---------------------------------------------------------------- bytes */
#if PF_ZLIB
static pf_status inflate_piece(pf_source *s) {
  s->z.next_out = (Bytef *)s->piece;
  s->z.avail_out = PF_SOURCE_PIECE;
  while (s->z.avail_out == PF_SOURCE_PIECE) {
    if (!s->z.avail_in) {
      s->z.next_in = (Bytef *)s->raw;
      s->z.avail_in = (uInt)fread(s->raw, 1, PF_SOURCE_PIECE, s->f);
      if (ferror(s->f)) return pf_source_fail(s, PF_UNKNOWN, "cannot be read");
      if (!s->z.avail_in) {
        if (!s->ended) return pf_source_fail(s, PF_DATA_LOSS, "the compressed bytes end too early");
        break;
      }
      if (s->ended) inflateReset(&s->z); /* another member of a GZIP file */
      s->ended = 0;
    }
    int r = inflate(&s->z, Z_NO_FLUSH);
    if (r == Z_STREAM_END) {
      s->ended = 1;
      if (s->z.avail_in) {
        inflateReset(&s->z);
        s->ended = 0;
      }
    } else if (r != Z_OK && r != Z_BUF_ERROR) {
      return pf_source_fail(s, PF_DATA_LOSS, "the compressed bytes are damaged");
    }
  }
  s->n = PF_SOURCE_PIECE - s->z.avail_out;
  return PF_OK;
}
#endif
/* More bytes; s->n is 0 at the end of the file. */
static pf_status more(pf_source *s) {
  s->at = s->n = 0;
#if PF_ZLIB
  if (s->inflating) return inflate_piece(s);
#endif
  s->n = fread(s->piece, 1, PF_SOURCE_PIECE, s->f);
  return ferror(s->f) ? pf_source_fail(s, PF_UNKNOWN, "cannot be read") : PF_OK;
}
static int grow(pf_source *s, size_t n) {
  if (s->room - s->n_record >= n) return 1;
  size_t room = PF_MAX(s->room * 2, s->n_record + n);
  char *record = realloc(s->record, room);
  if (!record) return 0;
  s->record = record;
  s->room = room;
  return 1;
}
pf_status pf_source_take(pf_source *s, int64_t n, int away, int64_t *got) {
  for (*got = 0; *got < n;) {
    if (s->at == s->n) {
      PF_TRY(more(s));
      if (!s->n) break;
    }
    size_t part = PF_MIN(s->n - s->at, (size_t)(n - *got));
    if (!away) {
      if (!grow(s, part)) return pf_source_fail(s, PF_RESOURCE_EXHAUSTED, "no memory for a record");
      memcpy(s->record + s->n_record, s->piece + s->at, part);
      s->n_record += part;
    }
    s->at += part;
    s->behind += (int64_t)part;
    *got += (int64_t)part;
  }
  return PF_OK;
}
pf_status pf_source_measure(pf_source *s, const pf_host *host, int64_t *size) {
  if (!s->inflating) {
    if (fseek(s->f, 0, SEEK_END) || (*size = ftell(s->f)) < 0 || fseek(s->f, 0, SEEK_SET))
      return pf_source_fail(s, PF_UNKNOWN, "has no size");
    return PF_OK;
  }
  PF_TRY(pf_source_take(s, INT64_MAX, 1, size));
  char *path = s->path;
  s->path = NULL;
  pf_status st = pf_source_open(s, host, (pf_str){path, (int64_t)strlen(path)});
  free(path);
  return st;
}

/* ---------------------------------------------------------------- records */
pf_status pf_source_line(pf_source *s) {
  int any = 0;
  s->n_record = 0;
  for (;;) {
    if (s->at == s->n) {
      PF_TRY(more(s));
      if (!s->n) return any ? PF_OK : PF_SOURCE_END;
    }
    any = 1;
    const char *from = s->piece + s->at, *end = memchr(from, '\n', s->n - s->at);
    size_t part = end ? (size_t)(end - from) : s->n - s->at;
    if (s->n_record + part > (size_t)PF_SOURCE_MOST)
      return pf_source_fail(s, PF_INVALID_ARGUMENT, "a line is longer than 2 GiB");
    if (!grow(s, part + 1)) return pf_source_fail(s, PF_RESOURCE_EXHAUSTED, "no memory for a line");
    memcpy(s->record + s->n_record, from, part);
    s->n_record += part;
    s->at += part + (end != NULL);
    s->behind += (int64_t)part + (end != NULL);
    if (!end) continue;
    if (s->n_record && s->record[s->n_record - 1] == '\r') s->n_record--;
    return PF_OK;
  }
}
static uint64_t little(const char *p, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; i++) v |= (uint64_t)(unsigned char)p[i] << (8 * i);
  return v;
}
static uint32_t masked(const void *bytes, size_t n) {
  return pf_crc32c_mask(pf_crc32c(0, bytes, (int64_t)n));
}
pf_status pf_source_record(pf_source *s) {
  int64_t got, begin = s->behind;
  char what[80];
  s->n_record = 0;
  PF_TRY(pf_source_take(s, 12, 0, &got));
  if (!got) return PF_SOURCE_END;
  if (got < 12) goto short_file;
  uint64_t length = little(s->record, 8);
  if (masked(s->record, 8) != little(s->record + 8, 4) || length > (uint64_t)PF_SOURCE_MOST)
    goto damaged;
  s->n_record = 0;
  PF_TRY(pf_source_take(s, (int64_t)length + 4, 0, &got));
  if (got < (int64_t)length + 4) goto short_file;
  s->n_record -= 4;
  if (masked(s->record, s->n_record) != little(s->record + s->n_record, 4)) goto damaged;
  return PF_OK;
short_file:
  snprintf(what, sizeof what, "truncated record at %" PRId64, begin);
  return pf_source_fail(s, PF_DATA_LOSS, what);
damaged:
  snprintf(what, sizeof what, "corrupted record at %" PRId64, begin);
  return pf_source_fail(s, PF_DATA_LOSS, what);
}

pf_status pf_source_compression(pf_ctx *c, pf_str s, int *wbits) {
  *wbits = s.len == 4 && !memcmp(s.data, "ZLIB", 4)   ? 15
           : s.len == 4 && !memcmp(s.data, "GZIP", 4) ? 31
                                                      : 0;
  if (s.len && !*wbits)
    return PF_INVALID(c, "Unsupported compression_type: %.*s; give \"\", ZLIB or GZIP",
                      (int)PF_MIN(s.len, 40), s.data);
#if !PF_ZLIB
  if (*wbits) return pf_fail(c, PF_UNIMPLEMENTED, "this pyflow was built without zlib");
#endif
  return PF_OK;
}
