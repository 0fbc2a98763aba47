/* strings_text.c - StringLength, StringStrip, StringLower, StringUpper, Substr, StringSplit,
 * StringSplitV2, UnsortedSegmentJoin.
 *
 * Invariants: strings are bytes of any value; with the unit UTF8_CHAR a character is a byte that
 * does not continue one, and those that do.
 * Threads: one.
 */
#include "base/bytes.h"

typedef struct { pf_str unit, encoding; } text_state;
static int counts_chars(pf_str unit) { return unit.len == 9; } /* UTF8_CHAR, else BYTE */
static int continues(char c) { return ((uint8_t)c & 0xc0) == 0x80; }
static int64_t char_count(pf_str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.len; i++) n += !continues(s.data[i]);
  return n;
}
static int blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_utf8(pf_str s) { return s.len == 5 && !memcmp(s.data, "utf-8", 5); }

static pf_status string_length(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int chars = counts_chars(((const text_state *)state)->unit);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    pf_str s;
    PF_TRY(c->host->str_get(x, i, &s));
    PF_DATA(int32_t, y)[i] = (int32_t)(chars ? char_count(s) : s.len);
  }
  return PF_OK;
}

static pf_status string_strip(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    pf_str s;
    PF_TRY(c->host->str_get(x, i, &s));
    while (s.len && blank(s.data[0])) s.data++, s.len--;
    while (s.len && blank(s.data[s.len - 1])) s.len--;
    PF_TRY(c->host->str_set(y, i, s));
  }
  return PF_OK;
}

/* ASCII; the host's own kernel has the cases of Unicode */
static pf_status case_init(pf_ctx *c, void *state) {
  const text_state *s = state;
  if (is_utf8(s->encoding)) return PF_DECLINE;
  if (s->encoding.len)
    return PF_INVALID(c, "Only utf-8 or '' (no encoding) is supported, received '%.*s'",
                      (int)PF_MIN(s->encoding.len, 100), s->encoding.data);
  return PF_OK;
}
static pf_status change_case(pf_ctx *c, char first, char last) {
  const DLTensor *x = c->in[0];
  pf_bytes b = {0};
  pf_status st = PF_OK;
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(x); i < n && !st; i++) {
    pf_str s;
    st = c->host->str_get(x, i, &s);
    if (st) break;
    b.n = 0;
    pf_bytes_add(&b, s.data, s.len);
    if (b.failed) st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string");
    for (int64_t k = 0; k < b.n; k++)
      if (b.data[k] >= first && b.data[k] <= last) b.data[k] ^= 0x20;
    if (!st) st = c->host->str_set(y, i, (pf_str){b.data, b.n});
  }
  pf_bytes_free(&b);
  return st;
}
static pf_status lower(pf_ctx *c, const void *s) { return change_case(c, 'A', 'Z'); }
static pf_status upper(pf_ctx *c, const void *s) { return change_case(c, 'a', 'z'); }

/* ---------------------------------------------------------------- Substr */
/* characters [pos, pos + len) of s; 0: pos is out of range.  A negative len is none, of bytes:
 * all, as in TF */
static int part_of(pf_str s, int64_t pos, int64_t len, int chars, pf_str *out) {
  int64_t n = chars ? char_count(s) : s.len, first = 0, last;
  if (pos < -n || pos > n) return 0;
  if (pos < 0) pos += n;
  len = len < 0 ? (chars ? 0 : n) : len;
  len = PF_MIN(len, n - pos);
  if (!chars) {
    *out = (pf_str){s.data + pos, len};
    return 1;
  }
  for (int64_t seen = 0; first < s.len; first++) /* where character `pos` starts */
    if (!continues(s.data[first]) && seen++ == pos) break;
  last = first;
  for (int64_t seen = 0; last < s.len; last++)
    if (!continues(s.data[last]) && seen++ == len) break;
  *out = (pf_str){s.data + first, last - first};
  return 1;
}
/* where element `at` of the broadcast shape lies in `t` */
static int64_t broadcast_index(const DLTensor *t, const int64_t *shape, int32_t nd, int64_t at) {
  int64_t index = 0, stride = 1;
  for (int32_t d = nd - 1, k = t->ndim - 1; d >= 0; d--, k--) {
    int64_t i = at % shape[d];
    at /= shape[d];
    if (k < 0) continue;
    if (t->shape[k] != 1) index += i * stride;
    stride *= t->shape[k];
  }
  return index;
}
static pf_status substr(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *pos = c->in[1], *len = c->in[2];
  int chars = counts_chars(((const text_state *)state)->unit);
  int64_t shape[PF_MAX_DIMS];
  int32_t nd = PF_MAX(x->ndim, pos->ndim);
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(pf_check_rank(c, pos, "pos"));
  if (!pf_same_shape(pos, len))
    return PF_INVALID(c, "pos and len should have the same shape, got: %s vs. %s", PF_SHAPE(pos).s,
                      PF_SHAPE(len).s);
  for (int32_t d = nd - 1, i = x->ndim - 1, k = pos->ndim - 1; d >= 0; d--, i--, k--) {
    int64_t a = i < 0 ? 1 : x->shape[i], b = k < 0 ? 1 : pos->shape[k];
    if (a != b && a != 1 && b != 1)
      return PF_INVALID(c, "input %s and pos %s do not broadcast", PF_SHAPE(x).s, PF_SHAPE(pos).s);
    shape[d] = a == 1 ? b : a;
  }
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(y); i < n; i++) {
    int64_t p = broadcast_index(pos, shape, nd, i);
    pf_str s, out;
    PF_TRY(c->host->str_get(x, broadcast_index(x, shape, nd, i), &s));
    int64_t first = pf_in_index(c, 1, p);
    if (!part_of(s, first, pf_in_index(c, 2, p), chars, &out))
      return PF_INVALID(
          c, "pos %" PRId64 " out of range for string of %" PRId64 " %s at index %" PRId64, first,
          chars ? char_count(s) : s.len, chars ? "characters" : "bytes", i);
    PF_TRY(c->host->str_set(y, i, out));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- splitting */
typedef struct {
  pf_ctx *c;
  pf_bytes pieces;
  int64_t most, row, column;
} splitting;
typedef struct {
  pf_str text;
  int64_t row, column;
} piece;

static void add_piece(splitting *p, const char *from, const char *to) {
  piece x = {{from, to - from}, p->row, p->column++};
  p->most = PF_MAX(p->most, p->column);
  pf_bytes_add(&p->pieces, (const char *)&x, sizeof x);
}
/* at any byte of `marks`; none: after every byte */
static void split_at_bytes(splitting *p, pf_str s, pf_str marks, int skip_empty) {
  const char *end = s.data + s.len, *from = s.data;
  if (s.len == 0) return;
  if (marks.len == 0) {
    for (const char *q = s.data; q < end; q++) add_piece(p, q, q + 1);
    return;
  }
  for (const char *q = s.data; q <= end; q++)
    if (q == end || memchr(marks.data, *q, (size_t)marks.len)) {
      if (q > from || !skip_empty) add_piece(p, from, q);
      from = q + 1;
    }
}
/* at each `mark`, at most `most` times (any number: -1) */
static void split_at_text(splitting *p, pf_str s, pf_str mark, int64_t most) {
  const char *end = s.data + s.len, *from = s.data, *q = s.data;
  while (most != 0 && end - q >= mark.len) {
    if (memcmp(q, mark.data, (size_t)mark.len)) {
      q++;
      continue;
    }
    add_piece(p, from, q);
    from = q += mark.len;
    most -= most > 0;
  }
  add_piece(p, from, end);
}
static void split_at_blanks(splitting *p, pf_str s, int64_t most) {
  const char *end = s.data + s.len, *q = s.data;
  if (most == 0) {
    add_piece(p, q, end);
    return;
  }
  while (1) {
    while (q < end && blank(*q)) q++;
    if (q == end) return;
    const char *from = q;
    while (q < end && !blank(*q)) q++;
    add_piece(p, from, q);
    if (most < 0 || --most > 0) continue;
    while (q < end && blank(*q)) q++;
    add_piece(p, q, end); /* the rest, an empty one too, as TensorFlow */
    return;
  }
}

static pf_status give_sparse(splitting *p, int64_t rows) {
  pf_ctx *c = p->c;
  if (p->pieces.failed) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the pieces");
  int64_t n = p->pieces.n / (int64_t)sizeof(piece), at[2] = {n, 2}, two = 2;
  const piece *found = (const piece *)p->pieces.data;
  DLTensor *indices = c->host->output(c, 0, at, 2);
  DLTensor *values = indices ? c->host->output(c, 1, &n, 1) : NULL;
  DLTensor *shape = values ? c->host->output(c, 2, &two, 1) : NULL;
  PF_EXHAUSTED(shape);
  for (int64_t i = 0; i < n; i++) {
    PF_DATA(int64_t, indices)[2 * i] = found[i].row;
    PF_DATA(int64_t, indices)[2 * i + 1] = found[i].column;
    PF_TRY(c->host->str_set(values, i, found[i].text));
  }
  PF_DATA(int64_t, shape)[0] = rows, PF_DATA(int64_t, shape)[1] = p->most;
  return PF_OK;
}
typedef struct {
  int64_t maxsplit;
  int32_t skip_empty;
} split_state;
static pf_status split(pf_ctx *c, const split_state *s, int version) {
  const DLTensor *x = c->in[0];
  splitting p = {.c = c};
  pf_str mark, text;
  pf_status st = PF_OK;
  if (x->ndim != 1) return PF_INVALID(c, "input must be a vector, got shape: %s", PF_SHAPE(x).s);
  if (c->in[1]->ndim != 0)
    return PF_INVALID(c, "delimiter must be scalar, got shape: %s", PF_SHAPE(c->in[1]).s);
  PF_TRY(c->host->str_get(c->in[1], 0, &mark));
  for (p.row = 0; p.row < x->shape[0] && !st; p.row++) {
    st = c->host->str_get(x, p.row, &text);
    p.column = 0;
    if (st) break;
    if (version == 1) split_at_bytes(&p, text, mark, s->skip_empty);
    else if (mark.len) split_at_text(&p, text, mark, s->maxsplit);
    else split_at_blanks(&p, text, s->maxsplit);
  }
  if (!st) st = give_sparse(&p, x->shape[0]);
  pf_bytes_free(&p.pieces);
  return st;
}
static pf_status split_v1(pf_ctx *c, const void *s) { return split(c, s, 1); }
static pf_status split_v2(pf_ctx *c, const void *s) { return split(c, s, 2); }

/* ---------------------------------------------------------------- UnsortedSegmentJoin */
typedef struct { pf_str separator; } join_state;
static pf_status join_one(pf_ctx *c, DLTensor *y, int64_t to, int64_t first, const int64_t *next,
                          int64_t inner, int64_t m, pf_str mark) {
  pf_bytes b = {0};
  pf_status st = PF_OK;
  for (int64_t i = first; i >= 0 && !st; i = next[i]) {
    pf_str s;
    if (i != first) pf_bytes_add(&b, mark.data, mark.len);
    st = c->host->str_get(c->in[0], i * inner + m, &s);
    if (!st) pf_bytes_add(&b, s.data, s.len);
  }
  if (!st)
    st = b.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string")
                  : c->host->str_set(y, to, (pf_str){b.data, b.n});
  pf_bytes_free(&b);
  return st;
}
static pf_status segment_join(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *ids = c->in[1];
  pf_str mark = ((const join_state *)state)->separator;
  int64_t segments, inner = 1, n = pf_numel(ids), shape[PF_MAX_DIMS];
  int32_t nd = 1;
  PF_TRY(pf_check_rank(c, x, "inputs"));
  PF_TRY(pf_in_scalar(c, 2, "num_segments", &segments));
  if (segments < 0) return PF_INVALID(c, "num_segments must be >= 0, got %" PRId64, segments);
  if (ids->ndim == 0 || ids->ndim > x->ndim ||
      !pf_same_dims(ids->shape, ids->ndim, x->shape, ids->ndim))
    return PF_INVALID(c, "segment_ids %s must be the first dimensions of inputs %s",
                      PF_SHAPE(ids).s, PF_SHAPE(x).s);
  shape[0] = segments;
  for (int32_t d = ids->ndim; d < x->ndim; d++) shape[nd++] = x->shape[d], inner *= x->shape[d];
  for (int64_t i = 0; i < n; i++) {
    int64_t id = pf_in_index(c, 1, i);
    if (id >= segments)
      return PF_INVALID(c,
                        "segment_ids[%" PRId64 "] = %" PRId64 " is out of range [0, %" PRId64 ")",
                        i, id, segments);
  }
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  int64_t *head = c->host->scratch(c, (uint64_t)(segments + 1) * 8, 64);
  int64_t *next = c->host->scratch(c, (uint64_t)(n + 1) * 8, 64);
  if (!head || !next) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the segments");
  for (int64_t k = 0; k < segments; k++) head[k] = -1;
  for (int64_t i = n; i-- > 0;) { /* each segment's elements, as a list in their order */
    int64_t id = pf_in_index(c, 1, i);
    if (id >= 0) next[i] = head[id], head[id] = i;
  }
  for (int64_t k = 0; k < segments; k++)
    for (int64_t m = 0; head[k] >= 0 && m < inner; m++)
      PF_TRY(join_one(c, y, k * inner + m, head[k], next, inner, m, mark));
  return PF_OK;
}

#define UNIT PF_ATTRS(PF_ATTR(text_state, PF_ATTR_STRING, unit))
#define ENCODING PF_ATTRS(PF_ATTR(text_state, PF_ATTR_STRING, encoding))
#define STATE .state_size = sizeof(text_state)
const pf_kernel *const strings_text_kernels[] = {
  PF_CPU("StringLength", NULL, .compute = string_length, STATE, .attrs = UNIT),
  PF_CPU("StringStrip", NULL, .compute = string_strip),
  PF_CPU("StringLower", NULL, .init = case_init, .compute = lower, STATE, .priority = 1,
         .attrs = ENCODING),
  PF_CPU("StringUpper", NULL, .init = case_init, .compute = upper, STATE, .priority = 1,
         .attrs = ENCODING),
  PF_CPU("Substr", "T=int32|int64", .compute = substr, STATE, .attrs = UNIT),
  PF_CPU("StringSplit", NULL, .compute = split_v1, .state_size = sizeof(split_state),
         .attrs = PF_ATTRS(PF_ATTR(split_state, PF_ATTR_BOOL, skip_empty))),
  PF_CPU("StringSplitV2", NULL, .compute = split_v2, .state_size = sizeof(split_state),
         .attrs = PF_ATTRS(PF_ATTR(split_state, PF_ATTR_INT, maxsplit))),
  PF_CPU("UnsortedSegmentJoin", "Tindices=int32|int64, Tnumsegments=int32|int64",
         .compute = segment_join, .state_size = sizeof(join_state),
         .attrs = PF_ATTRS(PF_ATTR(join_state, PF_ATTR_STRING, separator))),
  NULL};
