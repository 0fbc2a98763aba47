/* file_records.c - TextLineDataset, TFRecordDataset, FixedLengthRecordDataset: strings out of
 * files.
 *
 * A stage opens one file after the other (reader/source.h); its state is the file's number and how
 * many bytes of it, inflated, are behind.
 *
 * Invariant: after a failure the next file follows: who ignores errors comes to an end.
 * Threads: as dataset.h.
 */
#include "dataset/dataset.h"
#include "reader/source.h"

enum { LINES, RECORDS, FIXED };
typedef struct {
  dataset d;
  ds_tensor *names;
  int what, wbits; /* wbits: zlib's; 0: not compressed */
  int64_t header, record, footer;
} file_dataset;
typedef struct {
  ds_stage s;
  pf_source source;
  int64_t file, size, skip; /* size: of a file of fixed records; skip: first */
} file_stage;
static const file_dataset *of(const file_stage *s) { return (const file_dataset *)s->s.of; }
static pf_str name_of(const file_stage *s) {
  pf_str name = {0};
  s->s.of->host->str_get(&of(s)->names->dl_tensor, s->file, &name);
  return name;
}
/* What a source said, as a stage says it. */
static pf_status said(file_stage *s, pf_status st, ds_row *out) {
  if (st == PF_SOURCE_END) return DS_END;
  return st ? ds_fail(out, st, "%s", s->source.error) : DS_OK;
}

/* ---------------------------------------------------------------- records of one length */
static pf_status measure(file_stage *s) {
  int64_t got;
  PF_TRY(pf_source_measure(&s->source, s->s.of->host, &s->size));
  int64_t body = s->size - of(s)->header - of(s)->footer;
  if (body < 0 || body % of(s)->record)
    return pf_source_fail(&s->source, PF_INVALID_ARGUMENT,
                          "the file has another size than "
                          "header_bytes, a multiple of record_bytes, and footer_bytes make");
  return pf_source_take(&s->source, of(s)->header, 1, &got);
}
static pf_status next_fixed(file_stage *s) {
  int64_t got;
  s->source.n_record = 0;
  if (s->source.behind + of(s)->footer + of(s)->record > s->size) return PF_SOURCE_END;
  PF_TRY(pf_source_take(&s->source, of(s)->record, 0, &got));
  return got == of(s)->record ? PF_OK
                              : pf_source_fail(&s->source, PF_DATA_LOSS, "the file became shorter");
}

/* ---------------------------------------------------------------- the stage */
static pf_status begin_file(file_stage *s) {
  int64_t got, skip = s->skip;
  pf_source *source = &s->source;
  s->skip = 0;
  PF_TRY(pf_source_open(source, s->s.of->host, name_of(s)));
  if (of(s)->what == FIXED) PF_TRY(measure(s));
  if (skip <= source->behind) return PF_OK;
  PF_TRY(pf_source_take(source, skip - source->behind, 1, &got));
  return source->behind == skip ? PF_OK
                                : pf_source_fail(source, PF_DATA_LOSS, "is shorter than it was");
}
static pf_status files_next(ds_stage *t, ds_row *out, ds_waiter *w) {
  file_stage *s = (file_stage *)t;
  (void)w;
  for (;;) {
    if (s->file >= pf_numel(&of(s)->names->dl_tensor)) return DS_END;
    pf_status st = s->source.f ? PF_OK : begin_file(s);
    if (!st)
      st = of(s)->what == LINES     ? pf_source_line(&s->source)
           : of(s)->what == RECORDS ? pf_source_record(&s->source)
                                    : next_fixed(s);
    st = said(s, st, out);
    if (st) {
      pf_source_shut(&s->source);
      s->file++;
      if (st == DS_END) continue;
      return st;
    }
    if (ds_row_room(out, 1) &&
        (out->v[0] = t->of->host->tensor_new(t->of->host, NULL, PF_MEM_HOST, PF_STRING, NULL, 0)) &&
        !t->of->host->str_set(&out->v[0]->dl_tensor, 0,
                              (pf_str){s->source.record, (int64_t)s->source.n_record}))
      return DS_OK;
    return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for a record");
  }
}
static void files_close(ds_stage *t) {
  file_stage *s = (file_stage *)t;
  pf_source_free(&s->source);
  free(s);
}
static void files_save(ds_stage *t, ds_writer *w) {
  ds_put_int(w, ((file_stage *)t)->file);
  ds_put_int(w, ((file_stage *)t)->source.behind + ((file_stage *)t)->skip);
}
static pf_status files_load(ds_stage *t, ds_reader *r) {
  file_stage *s = (file_stage *)t;
  PF_TRY(ds_get_range(r, 0, pf_numel(&of(s)->names->dl_tensor), &s->file));
  return ds_get_range(r, 0, INT64_MAX, &s->skip);
}
static const ds_stage_kind FILE_STAGE = {
  .next = files_next, .close = files_close, .save = files_save, .load = files_load};
static pf_status files_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  file_stage *s = ds_stage_new(sizeof *s, &FILE_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->source.wbits = of(s)->wbits;
  *out = &s->s;
  return PF_OK;
}
static void files_free(dataset *d) { ds_drop(((file_dataset *)d)->names); }
static const ds_kind FILES = {"Files", files_open, files_free, NULL};

static pf_status compression(pf_ctx *c, int32_t i, int *wbits) {
  pf_str s;
  if (pf_numel(c->in[i]) != 1) return PF_INVALID(c, "compression_type must be a scalar");
  PF_TRY(c->host->str_get(c->in[i], 0, &s));
  return pf_source_compression(c, s, wbits);
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
  if (!st && (d->header < 0 || d->footer < 0 || d->record < 1 || d->record > PF_SOURCE_MOST ||
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
