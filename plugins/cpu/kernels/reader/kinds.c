/* kinds.c - what the kinds of readers take for a record: reader.h. */
#include "reader/reader.h"

static pf_str work_of(const pf_reader *r) {
  return (pf_str){r->work.data ? r->work.data : "", r->work.n};
}
/* "file:7" */
static void number_key(pf_reader *r, int64_t number) {
  r->key.n = 0;
  pf_bytes_add(&r->key, work_of(r).data, r->work.n);
  pf_bytes_printf(&r->key, ":%" PRId64, number);
}
static void plain_key(pf_reader *r) {
  r->key.n = 0;
  pf_bytes_add(&r->key, work_of(r).data, r->work.n);
}
static pf_str record_of(const pf_source *s) {
  return (pf_str){s->record ? s->record : "", (int64_t)s->n_record};
}
static pf_status begin(pf_reader *r) {
  r->number = 0;
  r->window.n = 0;
  return pf_source_open(&r->source, r->host, work_of(r));
}

/* ---------------------------------------------------------------- lines */
static pf_status text_begin(pf_reader *r) {
  PF_TRY(begin(r));
  while (r->number < r->header) { /* a file of fewer lines is a file of headers */
    pf_status st = pf_source_line(&r->source);
    if (st) return st == PF_SOURCE_END ? PF_OK : st;
    r->number++;
  }
  return PF_OK;
}
static pf_status text_next(pf_reader *r, pf_str *value, int *last) {
  (void)last;
  PF_TRY(pf_source_line(&r->source));
  number_key(r, ++r->number);
  *value = record_of(&r->source);
  return PF_OK;
}
const pf_reader_kind pf_text_reader = {"TextLineReader", text_begin, text_next, 0};

/* ---------------------------------------------------------------- whole files, names */
static pf_status whole_next(pf_reader *r, pf_str *value, int *last) {
  int64_t got;
  PF_TRY(begin(r));
  PF_TRY(pf_source_take(&r->source, PF_SOURCE_MOST, 0, &got));
  if (got == PF_SOURCE_MOST)
    return pf_source_fail(&r->source, PF_INVALID_ARGUMENT, "is longer than 2 GiB");
  plain_key(r);
  *value = record_of(&r->source);
  *last = 1;
  return PF_OK;
}
const pf_reader_kind pf_whole_reader = {"WholeFileReader", NULL, whole_next, 1};

static pf_status identity_next(pf_reader *r, pf_str *value, int *last) {
  plain_key(r);
  *value = work_of(r);
  *last = 1;
  return PF_OK;
}
const pf_reader_kind pf_identity_reader = {"IdentityReader", NULL, identity_next, 1};

/* ---------------------------------------------------------------- records of one length */
static pf_status fixed_begin(pf_reader *r) {
  int64_t got;
  PF_TRY(begin(r));
  return pf_source_take(&r->source, r->header, 1, &got);
}
/* The window moves on by `hop`, and is filled again: a record and the footer behind it. */
static pf_status fixed_next(pf_reader *r, pf_str *value, int *last) {
  int64_t got, hop = r->number ? r->hop : 0, kept = PF_MAX(r->window.n - hop, 0),
               skip = PF_MAX(hop - r->window.n, 0), missing = r->record + r->footer - kept;
  (void)last;
  if (kept) memmove(r->window.data, r->window.data + hop, (size_t)kept);
  r->window.n = kept;
  PF_TRY(pf_source_take(&r->source, skip, 1, &got));
  if (got < skip) return PF_SOURCE_END;
  r->source.n_record = 0;
  PF_TRY(pf_source_take(&r->source, missing, 0, &got));
  if (got < missing) return PF_SOURCE_END;
  pf_bytes_add(&r->window, record_of(&r->source).data, got);
  if (r->window.failed) return pf_source_fail(&r->source, PF_RESOURCE_EXHAUSTED, "no memory");
  number_key(r, r->number++);
  *value = (pf_str){r->window.data, r->record};
  return PF_OK;
}
const pf_reader_kind pf_fixed_reader = {"FixedLengthRecordReader", fixed_begin, fixed_next, 0};

/* ---------------------------------------------------------------- TFRecords */
static pf_status record_next(pf_reader *r, pf_str *value, int *last) {
  int64_t at = r->source.behind;
  (void)last;
  PF_TRY(pf_source_record(&r->source));
  number_key(r, at);
  *value = record_of(&r->source);
  return PF_OK;
}
const pf_reader_kind pf_record_reader = {"TFRecordReader", begin, record_next, 0};
