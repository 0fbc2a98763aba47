/* file_records.c - TextLineDataset, TFRecordDataset, FixedLengthRecordDataset: strings out of
 * files.
 *
 * A SOURCE is one open file, read in pieces and perhaps inflated. A stage opens one file after the
 * other; its state is the file's number and how many bytes of it, inflated, are behind.
 *
 * Invariants
 *   1. A length in a file is checked, by its checksum and against MOST, before memory is taken.
 *   2. After a failure the next file follows: who ignores errors comes to an end.
 *
 * Source: TF's record format: length, masked CRC-32C of it, bytes, masked CRC-32C of them; RFC 1950
 * and 1952 through zlib.  Threads: as dataset.h.
 */
#include "checkpoint/crc32c.h"
#include "dataset/dataset.h"
#include <errno.h>
#include <stdio.h>
#if PF_ZLIB
#include <zlib.h>
#endif

enum { PIECE = 1 << 16 };
static uint32_t masked(const void *bytes, size_t n) {
  return pf_crc32c_mask(pf_crc32c(0, bytes, (int64_t)n));
}
static const int64_t MOST = (int64_t)1 << 31;           /* bytes of one record */
enum { LINES, RECORDS, FIXED };
typedef struct {
  dataset d;
  ds_tensor *names;
  int what, wbits;                      /* wbits: zlib's; 0: not compressed */
  int64_t header, record, footer;
} file_dataset;
typedef struct {
  ds_stage s;
  FILE *f;
  char *raw, *piece;                    /* bytes of the file; inflated ones */
  size_t at, n;                         /* in piece */
  int64_t file, behind, size, skip;     /* size: of a file of fixed records; skip: first */
  char *record;
  size_t n_record, room;
#if PF_ZLIB
  z_stream z;
#endif
  int inflating, ended;
} file_stage;
static const file_dataset *of(const file_stage *s) { return (const file_dataset *)s->s.of; }
static pf_str name_of(const file_stage *s) {
  pf_str name = {0};
  s->s.of->host->str_get(&of(s)->names->dl_tensor, s->file, &name);
  return name;
}

/* ---------------------------------------------------------------- a source */
static void shut(file_stage *s) {
  if (s->f) fclose(s->f);
#if PF_ZLIB
  if (s->inflating) inflateEnd(&s->z);
#endif
  s->f = NULL;
  s->inflating = s->ended = 0;
  s->at = s->n = 0;
  s->behind = 0;
}
static pf_status io_failed(const file_stage *s, ds_row *out, pf_status st, const char *what) {
  pf_str name = name_of(s);
  return ds_fail(out, st, "%.*s; %s", (int)PF_MIN(name.len, 500), name.data, what);
}
static pf_status open_file(file_stage *s, ds_row *out) {
  pf_str name = name_of(s);
  char path[4096];
  if (name.len >= (int64_t)sizeof path || (name.len && memchr(name.data, 0, (size_t)name.len)))
    return io_failed(s, out, PF_INVALID_ARGUMENT, "is no path");
  snprintf(path, sizeof path, "%.*s", (int)name.len, name.data ? name.data : "");
  s->f = fopen(path, "rb");
  if (!s->f)
    return io_failed(s, out, errno == ENOENT ? PF_NOT_FOUND : errno == EACCES
                     ? PF_PERMISSION_DENIED : PF_UNKNOWN, strerror(errno));
  setvbuf(s->f, NULL, _IONBF, 0);
#if PF_ZLIB
  if (of(s)->wbits) {
    s->z = (z_stream){0};
    if (inflateInit2(&s->z, of(s)->wbits) != Z_OK)
      return io_failed(s, out, PF_RESOURCE_EXHAUSTED, "no memory to inflate it");
    s->inflating = 1;
  }
#endif
  return PF_OK;
}
#if PF_ZLIB
static pf_status inflate_piece(file_stage *s, ds_row *out) {
  s->z.next_out = (Bytef *)s->piece;
  s->z.avail_out = PIECE;
  while (s->z.avail_out == PIECE) {
    if (!s->z.avail_in) {
      s->z.next_in = (Bytef *)s->raw;
      s->z.avail_in = (uInt)fread(s->raw, 1, PIECE, s->f);
      if (ferror(s->f)) return io_failed(s, out, PF_UNKNOWN, "cannot be read");
      if (!s->z.avail_in) {
        if (!s->ended) return io_failed(s, out, PF_DATA_LOSS, "the compressed bytes end too early");
        break;
      }
      if (s->ended) inflateReset(&s->z);        /* another member of a GZIP file */
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
      return io_failed(s, out, PF_DATA_LOSS, "the compressed bytes are damaged");
    }
  }
  s->n = PIECE - s->z.avail_out;
  return PF_OK;
}
#endif
/* More bytes; s->n is 0 at the end of the file. */
static pf_status more(file_stage *s, ds_row *out) {
  s->at = s->n = 0;
#if PF_ZLIB
  if (s->inflating) return inflate_piece(s, out);
#endif
  s->n = fread(s->piece, 1, PIECE, s->f);
  return ferror(s->f) ? io_failed(s, out, PF_UNKNOWN, "cannot be read") : PF_OK;
}
static int grow(file_stage *s, size_t n) {
  if (s->room - s->n_record >= n) return 1;
  size_t room = PF_MAX(s->room * 2, s->n_record + n);
  char *record = realloc(s->record, room);
  if (!record) return 0;
  s->record = record;
  s->room = room;
  return 1;
}
/* Appends up to n bytes to the record (n < 0: throws them away); *got: how many there were. */
static pf_status take(file_stage *s, int64_t n, int away, int64_t *got, ds_row *out) {
  for (*got = 0; *got < n;) {
    if (s->at == s->n) {
      PF_TRY(more(s, out));
      if (!s->n) break;
    }
    size_t part = PF_MIN(s->n - s->at, (size_t)(n - *got));
    if (!away) {
      if (!grow(s, part)) return io_failed(s, out, PF_RESOURCE_EXHAUSTED, "no memory for a record");
      memcpy(s->record + s->n_record, s->piece + s->at, part);
      s->n_record += part;
    }
    s->at += part;
    s->behind += (int64_t)part;
    *got += (int64_t)part;
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- records; DS_END: of a file */
static pf_status next_line(file_stage *s, ds_row *out) {
  int any = 0;
  for (;;) {
    if (s->at == s->n) {
      PF_TRY(more(s, out));
      if (!s->n) return any ? DS_OK : DS_END;
    }
    any = 1;
    const char *from = s->piece + s->at, *end = memchr(from, '\n', s->n - s->at);
    size_t part = end ? (size_t)(end - from) : s->n - s->at;
    if (s->n_record + part > (size_t)MOST)
      return io_failed(s, out, PF_INVALID_ARGUMENT, "a line is longer than 2 GiB");
    if (!grow(s, part + 1)) return io_failed(s, out, PF_RESOURCE_EXHAUSTED, "no memory for a line");
    memcpy(s->record + s->n_record, from, part);
    s->n_record += part;
    s->at += part + (end != NULL);
    s->behind += (int64_t)part + (end != NULL);
    if (!end) continue;
    if (s->n_record && s->record[s->n_record - 1] == '\r') s->n_record--;
    return DS_OK;
  }
}
static uint64_t little(const char *p, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; i++) v |= (uint64_t)(unsigned char)p[i] << (8 * i);
  return v;
}
static pf_status next_record(file_stage *s, ds_row *out) {
  int64_t got, begin = s->behind;
  char what[80];
  PF_TRY(take(s, 12, 0, &got, out));
  if (!got) return DS_END;
  if (got < 12) goto short_file;
  uint64_t length = little(s->record, 8);
  if (masked(s->record, 8) != little(s->record + 8, 4) || length > (uint64_t)MOST)
    goto damaged;
  s->n_record = 0;
  PF_TRY(take(s, (int64_t)length + 4, 0, &got, out));
  if (got < (int64_t)length + 4) goto short_file;
  s->n_record -= 4;
  if (masked(s->record, s->n_record) != little(s->record + s->n_record, 4)) goto damaged;
  return DS_OK;
short_file:
  snprintf(what, sizeof what, "truncated record at %" PRId64, begin);
  return io_failed(s, out, PF_DATA_LOSS, what);
damaged:
  snprintf(what, sizeof what, "corrupted record at %" PRId64, begin);
  return io_failed(s, out, PF_DATA_LOSS, what);
}
/* The size of the file: by looking for its end. */
static pf_status measure(file_stage *s, ds_row *out) {
  int64_t got;
  if (!s->inflating) {
    if (fseek(s->f, 0, SEEK_END) || (s->size = ftell(s->f)) < 0 || fseek(s->f, 0, SEEK_SET))
      return io_failed(s, out, PF_UNKNOWN, "has no size");
  } else {
    PF_TRY(take(s, INT64_MAX, 1, &got, out));
    shut(s);
    PF_TRY(open_file(s, out));
    s->size = got;
  }
  int64_t body = s->size - of(s)->header - of(s)->footer;
  if (body < 0 || body % of(s)->record)
    return io_failed(s, out, PF_INVALID_ARGUMENT, "the file has another size than header_bytes, a "
                     "multiple of record_bytes, and footer_bytes make");
  return take(s, of(s)->header, 1, &got, out);
}
static pf_status next_fixed(file_stage *s, ds_row *out) {
  int64_t got;
  if (s->behind + of(s)->footer + of(s)->record > s->size) return DS_END;
  PF_TRY(take(s, of(s)->record, 0, &got, out));
  return got == of(s)->record ? DS_OK : io_failed(s, out, PF_DATA_LOSS, "the file became shorter");
}

/* ---------------------------------------------------------------- the stage */
static pf_status begin_file(file_stage *s, ds_row *out) {
  int64_t got, skip = s->skip;
  s->skip = 0;
  PF_TRY(open_file(s, out));
  if (of(s)->what == FIXED) PF_TRY(measure(s, out));
  if (skip <= s->behind) return PF_OK;
  PF_TRY(take(s, skip - s->behind, 1, &got, out));
  return s->behind == skip ? PF_OK : io_failed(s, out, PF_DATA_LOSS, "is shorter than it was");
}
static pf_status files_next(ds_stage *t, ds_row *out, ds_waiter *w) {
  file_stage *s = (file_stage *)t;
  (void)w;
  for (;;) {
    if (s->file >= pf_numel(&of(s)->names->dl_tensor)) return DS_END;
    pf_status st = s->f ? PF_OK : begin_file(s, out);
    s->n_record = 0;
    if (!st) st = of(s)->what == LINES ? next_line(s, out) : of(s)->what == RECORDS
                  ? next_record(s, out) : next_fixed(s, out);
    if (st) {
      shut(s);
      s->file++;
      if (st == DS_END) continue;
      return st;
    }
    if (ds_row_room(out, 1) && (out->v[0] = t->of->host->tensor_new(t->of->host, NULL, PF_MEM_HOST,
                                                                    PF_STRING, NULL, 0)) &&
        !t->of->host->str_set(&out->v[0]->dl_tensor, 0, (pf_str){s->record, (int64_t)s->n_record}))
      return DS_OK;
    return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for a record");
  }
}
static void files_close(ds_stage *t) {
  file_stage *s = (file_stage *)t;
  shut(s);
  free(s->raw);
  free(s->piece);
  free(s->record);
  free(s);
}
static void files_save(ds_stage *t, ds_writer *w) {
  ds_put_int(w, ((file_stage *)t)->file);
  ds_put_int(w, ((file_stage *)t)->behind + ((file_stage *)t)->skip);
}
static pf_status files_load(ds_stage *t, ds_reader *r) {
  file_stage *s = (file_stage *)t;
  PF_TRY(ds_get_range(r, 0, pf_numel(&of(s)->names->dl_tensor), &s->file));
  return ds_get_range(r, 0, INT64_MAX, &s->skip);
}
static const ds_stage_kind FILE_STAGE = {.next = files_next, .close = files_close,
                                         .save = files_save, .load = files_load};
static pf_status files_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  file_stage *s = ds_stage_new(sizeof *s, &FILE_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->piece = malloc(PIECE);
  s->raw = of(s)->wbits ? malloc(PIECE) : NULL;
  if (!s->piece || (of(s)->wbits && !s->raw)) {
    files_close(&s->s);
    return ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory to read a file");
  }
  *out = &s->s;
  return PF_OK;
}
static void files_free(dataset *d) { ds_drop(((file_dataset *)d)->names); }
static const ds_kind FILES = {"Files", files_open, files_free, NULL};

static pf_status compression(pf_ctx *c, int32_t i, int *wbits) {
  pf_str s;
  if (pf_numel(c->in[i]) != 1) return PF_INVALID(c, "compression_type must be a scalar");
  PF_TRY(c->host->str_get(c->in[i], 0, &s));
  *wbits = s.len == 4 && !memcmp(s.data, "ZLIB", 4) ? 15 : s.len == 4 && !memcmp(s.data, "GZIP", 4)
           ? 31 : 0;
  if (s.len && !*wbits)
    return PF_INVALID(c, "Unsupported compression_type: %.*s; give \"\", ZLIB or GZIP",
                      (int)PF_MIN(s.len, 40), s.data);
#if !PF_ZLIB
  if (*wbits) return pf_fail(c, PF_UNIMPLEMENTED, "this pyflow was built without zlib");
#endif
  return PF_OK;
}
static file_dataset *made(pf_ctx *c, int what) {
  static const int32_t type = PF_STRING;
  const pf_list types = {&type, 1};
  file_dataset *d = ds_new(c, sizeof *d, &FILES, NULL, 0, &types);
  if (!d) return NULL;
  d->what = what;
  if ((d->names = c->host->retain(c, 0))) return d;
  ds_out(c, d, PF_RESOURCE_EXHAUSTED);
  return NULL;
}
static pf_status lines(pf_ctx *c, const void *state) {
  file_dataset *d = made(c, LINES);
  (void)state;
  return d ? ds_out(c, d, compression(c, 1, &d->wbits)) : PF_RESOURCE_EXHAUSTED;
}
static pf_status records(pf_ctx *c, const void *state) {
  file_dataset *d = made(c, RECORDS);
  (void)state;
  return d ? ds_out(c, d, compression(c, 1, &d->wbits)) : PF_RESOURCE_EXHAUSTED;
}
static pf_status fixed(pf_ctx *c, const void *state) {
  file_dataset *d = made(c, FIXED);
  (void)state;
  if (!d) return PF_RESOURCE_EXHAUSTED;
  pf_status st = ds_scalar_in(c, 1, "header_bytes", &d->header);
  if (!st) st = ds_scalar_in(c, 2, "record_bytes", &d->record);
  if (!st) st = ds_scalar_in(c, 3, "footer_bytes", &d->footer);
  if (!st && c->n_in > 5) st = compression(c, 5, &d->wbits);
  if (!st && (d->header < 0 || d->footer < 0 || d->record < 1 || d->record > MOST ||
              d->header > INT64_MAX / 4 || d->footer > INT64_MAX / 4))
    st = PF_INVALID(c, "record_bytes must be > 0, header_bytes and footer_bytes >= 0");
  return ds_out(c, d, st);
}
extern const pf_kernel *const file_records_kernels[];
const pf_kernel *const file_records_kernels[] = {
    PF_CPU("TextLineDataset", NULL, .compute = lines),
    PF_CPU("TFRecordDataset", NULL, .compute = records),
    PF_CPU("FixedLengthRecordDataset", NULL, .compute = fixed),
    PF_CPU("FixedLengthRecordDatasetV2", NULL, .compute = fixed), NULL};
