/* strings_unicode.c - UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode.
 *
 * Encodings: UTF-8, UTF-16-BE and -LE, UTF-32-BE and -LE, US-ASCII, ISO-8859-1, and of those with a
 * byte a character the ones in unicode_codepages.h.  A string in UTF-16 or UTF-32 begins with a
 * mark of its bytes' order, which is no character of it, or is big-endian.  What is not well formed
 * counts as one error per longest prefix of a character (Unicode 15, table 3-8), and is an error,
 * left out, or replaced.
 *
 * Invariants: only scalar values (no surrogates, at most U+10FFFF) come out of a decoder.
 * Threads: one.
 */
#include "base/bytes.h"
#include "strings/unicode_codepages.h"

enum { UTF8, UTF16BE, UTF16LE, UTF32BE, UTF32LE, UTF16, UTF32, ASCII, LATIN1, PAGE };
/* PAGE + k: pf_codepages[k] */
enum { STRICT, REPLACE, IGNORE };
typedef struct {
  pf_str input_encoding, output_encoding, errors;
  int64_t replacement;
  int32_t control, from, to, policy;
} unicode_state;

static int text_is(pf_str s, const char *name) {
  if (s.len != (int64_t)strlen(name)) return 0;
  for (int64_t i = 0; i < s.len; i++)
    if ((s.data[i] & ~0x20) != (name[i] & ~0x20)) return 0;
  return 1;
}
/* the same without regard to '-', '_' and ' ', as names of encodings are compared */
static int names_encoding(pf_str s, const char *name) {
  int64_t i = 0;
  for (;; i++, name++) {
    while (i < s.len && (s.data[i] == '-' || s.data[i] == '_' || s.data[i] == ' ')) i++;
    while (*name == '-') name++;
    if (i == s.len || !*name) return i == s.len && !*name;
    if ((s.data[i] | 0x20) != (*name | 0x20)) return 0;
  }
}
static int encoding_of(pf_str s) {
  static const struct {
    const char *name;
    int kind;
  } names[] = {{"UTF-8", UTF8},        {"UTF-16-BE", UTF16BE}, {"UTF-16-LE", UTF16LE},
               {"UTF-32-BE", UTF32BE}, {"UTF-32-LE", UTF32LE}, {"UTF-16", UTF16},
               {"UTF-32", UTF32},      {"US-ASCII", ASCII},    {"ASCII", ASCII},
               {"ISO-8859-1", LATIN1}, {"LATIN1", LATIN1}};
  for (int64_t i = 0; i < PF_LEN(names); i++)
    if (names_encoding(s, names[i].name)) return names[i].kind;
  for (int64_t i = 0; i < PF_LEN(pf_codepage_names); i++)
    if (names_encoding(s, pf_codepage_names[i].name)) return PAGE + pf_codepage_names[i].page;
  return -1;
}
static int is_scalar_value(int64_t code) {
  return code >= 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}
static pf_status unicode_init(pf_ctx *c, void *state) {
  unicode_state *s = state;
  s->policy = text_is(s->errors, "strict")   ? STRICT
              : text_is(s->errors, "ignore") ? IGNORE
                                             : REPLACE;
  s->from = s->input_encoding.len ? encoding_of(s->input_encoding) : UTF8;
  s->to = s->output_encoding.len ? encoding_of(s->output_encoding) : UTF8;
  pf_str wrong = s->from < 0 ? s->input_encoding : s->output_encoding;
  if (s->from < 0 || s->to < 0)
    return PF_INVALID(c,
                      "Could not create converter for encoding: %.*s; there are UTF-8, "
                      "UTF-16, UTF-16-BE, UTF-16-LE, UTF-32, UTF-32-BE, UTF-32-LE, US-ASCII, "
                      "ISO-8859-1 to -15, windows-1250 to -1258, KOI8-R, KOI8-U, macintosh and "
                      "TIS-620",
                      (int)PF_MIN(wrong.len, 100), wrong.data);
  if (!is_scalar_value(s->replacement))
    return PF_INVALID(c, "replacement_char out of unicode codepoint range: %" PRId64,
                      s->replacement);
  return PF_OK;
}

/* ---------------------------------------------------------------- one character */
/* the code point at s (n > 0 bytes are left) and its length; -1: an error of that length */
static int64_t utf8_at(const uint8_t *s, int64_t n, int64_t *len) {
  uint8_t b = s[0];
  int more = b < 0x80                ? 0
             : b >= 0xc2 && b < 0xe0 ? 1
             : b >= 0xe0 && b < 0xf0 ? 2
             : b >= 0xf0 && b < 0xf5 ? 3
                                     : -1;
  *len = 1;
  if (more < 0) return -1;
  int64_t code = more == 0 ? b : b & (0x3f >> more);
  for (int i = 1; i <= more; i++) {
    uint8_t lo = 0x80, hi = 0xbf; /* what may follow the first byte */
    if (i == 1 && b == 0xe0) lo = 0xa0;
    if (i == 1 && b == 0xed) hi = 0x9f;
    if (i == 1 && b == 0xf0) lo = 0x90;
    if (i == 1 && b == 0xf4) hi = 0x8f;
    if (i >= n || s[i] < lo || s[i] > hi) return -1;
    code = code << 6 | (s[i] & 0x3f);
    *len = i + 1;
  }
  return code;
}
static int64_t unit16(const uint8_t *s, int little) {
  return little ? s[0] | s[1] << 8 : s[1] | s[0] << 8;
}
static int64_t code_at(const uint8_t *s, int64_t n, int encoding, int64_t *len) {
  int little = encoding == UTF16LE || encoding == UTF32LE;
  *len = 1;
  if (encoding >= PAGE) {
    int64_t code = s[0] < 0x80 ? s[0] : pf_codepages[encoding - PAGE][s[0] - 0x80];
    return code == 0xfffd ? -1 : code;
  }
  switch (encoding) {
    case UTF8: return utf8_at(s, n, len);
    case ASCII: return s[0] < 0x80 ? s[0] : -1;
    case LATIN1: return s[0];
    case UTF16BE:
    case UTF16LE: {
      *len = PF_MIN(n, 2);
      if (n < 2) return -1;
      int64_t first = unit16(s, little);
      if (is_scalar_value(first)) return first;
      int64_t second = first < 0xdc00 && n >= 4 ? unit16(s + 2, little) : 0;
      if (second < 0xdc00 || second > 0xdfff) return -1;
      *len = 4;
      return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    }
    default: {
      int64_t code = 0;
      *len = PF_MIN(n, 4);
      if (n < 4) return -1;
      for (int i = 0; i < 4; i++) code = code << 8 | s[little ? 3 - i : i];
      return is_scalar_value(code) ? code : -1;
    }
  }
}
static void put_code(pf_bytes *b, int64_t code, int encoding) {
  uint8_t o[4];
  int n = 0;
  if (encoding == UTF16BE) {
    if (code >= 0x10000) {
      int64_t high = 0xd800 + ((code - 0x10000) >> 10);
      o[n++] = (uint8_t)(high >> 8), o[n++] = (uint8_t)high;
      code = 0xdc00 + (code & 0x3ff);
    }
    o[n++] = (uint8_t)(code >> 8), o[n++] = (uint8_t)code;
  } else if (encoding == UTF32BE) {
    for (n = 0; n < 4; n++) o[n] = (uint8_t)(code >> (24 - 8 * n));
  } else {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[4] = {0, 0xc0, 0xe0, 0xf0};
    o[n++] = (uint8_t)(lead[more] | code >> 6 * more);
    for (int i = more - 1; i >= 0; i--) o[n++] = (uint8_t)(0x80 | (code >> 6 * i & 0x3f));
  }
  pf_bytes_add(b, (const char *)o, n);
}

/* the order of a string's bytes, by the mark that it may begin with, of `*mark` bytes */
static int order_of(int encoding, pf_str text, int64_t *mark) {
  int64_t len = encoding == UTF16 ? 2 : 4;
  int big = encoding == UTF16 ? UTF16BE : UTF32BE, little = encoding == UTF16 ? UTF16LE : UTF32LE;
  *mark = 0;
  if (encoding != UTF16 && encoding != UTF32) return encoding;
  if (text.len < len) return big;
  const char *marks = encoding == UTF16 ? "\xfe\xff\xff\xfe" : "\0\0\xfe\xff\xff\xfe\0\0";
  if (!memcmp(text.data, marks, (size_t)len)) *mark = len;
  if (memcmp(text.data, marks + len, (size_t)len)) return big;
  *mark = len;
  return little;
}

/* calls `take` for each character by the op's policy; 0: an error under "strict".  A control
 * character that is to be replaced is one, too, as in TensorFlow; under "strict" if `control`. */
typedef void (*taker)(void *arg, int64_t code, int64_t at);
static int each_code(const unicode_state *s, pf_str text, int control, taker take, void *arg) {
  int64_t mark, len;
  int from = order_of(s->from, text, &mark);
  for (int64_t i = mark; i < text.len; i += len) {
    int64_t code = code_at((const uint8_t *)text.data + i, text.len - i, from, &len);
    if (code < 0 || (s->control && code <= 0x1f)) {
      if (s->policy == STRICT && (code < 0 || control)) return 0;
      if (s->policy == IGNORE) continue;
      code = s->replacement;
    }
    take(arg, code, i == mark ? 0 : i); /* the mark's bytes are the first character's */
  }
  return 1;
}

/* ---------------------------------------------------------------- decode */
typedef struct { pf_bytes codes, offsets; } decoded;
static void take_code(void *arg, int64_t code, int64_t at) {
  decoded *d = arg;
  int32_t narrow = (int32_t)code;
  pf_bytes_add(&d->codes, (const char *)&narrow, 4);
  pf_bytes_add(&d->offsets, (const char *)&at, 8);
}
static pf_status give_codes(pf_ctx *c, const decoded *d, int with_offsets) {
  int64_t n = d->codes.n / 4;
  if (d->codes.failed || d->offsets.failed)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the characters");
  DLTensor *codes = c->host->output(c, 1, &n, 1);
  PF_EXHAUSTED(codes);
  if (n) memcpy(PF_DATA(char, codes), d->codes.data, (size_t)n * 4);
  if (!with_offsets) return PF_OK;
  DLTensor *offsets = c->host->output(c, 2, &n, 1);
  PF_EXHAUSTED(offsets);
  if (n) memcpy(PF_DATA(char, offsets), d->offsets.data, (size_t)n * 8);
  return PF_OK;
}
static pf_status decode(pf_ctx *c, const unicode_state *s, int with_offsets) {
  const DLTensor *x = c->in[0];
  decoded d = {{0}, {0}};
  int64_t n = pf_numel(x), rows = n + 1;
  pf_status st = PF_OK;
  DLTensor *splits = c->host->output(c, 0, &rows, 1);
  PF_EXHAUSTED(splits);
  pf_put_index(splits, c->out_type[0], 0, 0);
  for (int64_t i = 0; i < n && !st; i++) {
    pf_str text;
    st = c->host->str_get(x, i, &text);
    if (!st && !each_code(s, text, 0, take_code, &d))
      st = PF_INVALID(c, "Invalid formatting on input string %" PRId64, i);
    pf_put_index(splits, c->out_type[0], i + 1, d.codes.n / 4);
  }
  if (!st) st = give_codes(c, &d, with_offsets);
  pf_bytes_free(&d.codes);
  pf_bytes_free(&d.offsets);
  return st;
}
static pf_status decode_codes(pf_ctx *c, const void *s) { return decode(c, s, 0); }
static pf_status decode_offsets(pf_ctx *c, const void *s) { return decode(c, s, 1); }

/* ---------------------------------------------------------------- encode */
static pf_status check_splits(pf_ctx *c, int64_t rows) {
  int64_t n = pf_numel(c->in[0]), before = 0;
  if (c->in[0]->ndim != 1 || c->in[1]->ndim != 1 || rows < 1)
    return PF_INVALID(c,
                      "input_values and input_splits must be vectors, input_splits not empty, "
                      "got shapes %s and %s",
                      PF_SHAPE(c->in[0]).s, PF_SHAPE(c->in[1]).s);
  for (int64_t i = 0; i < rows; i++) {
    int64_t split = pf_in_index(c, 1, i);
    if (i == 0 && split != 0)
      return PF_INVALID(c, "First value in input_splits should be equal to 0, got %" PRId64, split);
    if (split < before || split > n)
      return PF_INVALID(
          c, "input_splits must be sorted and within [0, %" PRId64 "], got %" PRId64 " at %" PRId64,
          n, split, i);
    before = split;
  }
  if (before != n)
    return PF_INVALID(
        c, "The last value in input_splits must be the number of values %" PRId64 ", got %" PRId64,
        n, before);
  return PF_OK;
}
static pf_status encode_row(pf_ctx *c, const unicode_state *s, int64_t row, pf_bytes *b) {
  b->n = 0;
  for (int64_t k = pf_in_index(c, 1, row); k < pf_in_index(c, 1, row + 1); k++) {
    int64_t code = PF_DATA(const int32_t, c->in[0])[k];
    if (!is_scalar_value(code)) {
      if (s->policy == STRICT)
        return PF_INVALID(c, "Code point %" PRId64 " is out of range for Unicode, or a surrogate",
                          code);
      if (s->policy == IGNORE) continue;
      code = s->replacement;
    }
    put_code(b, code, s->to);
  }
  return b->failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string") : PF_OK;
}
static pf_status encode(pf_ctx *c, const void *state) {
  int64_t rows = pf_numel(c->in[1]), n = rows - 1;
  pf_bytes b = {0};
  pf_status st = PF_OK;
  PF_TRY(check_splits(c, rows));
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n && !st; i++) {
    st = encode_row(c, state, i, &b);
    if (!st) st = c->host->str_set(y, i, (pf_str){b.data, b.n});
  }
  pf_bytes_free(&b);
  return st;
}

/* ---------------------------------------------------------------- transcode */
typedef struct {
  pf_bytes text;
  int to;
} recoded;
static void take_text(void *arg, int64_t code, int64_t at) {
  recoded *r = arg;
  put_code(&r->text, code, r->to);
}
static pf_status transcode(pf_ctx *c, const void *state) {
  const unicode_state *s = state;
  const DLTensor *x = c->in[0];
  recoded r = {{0}, s->to};
  pf_status st = PF_OK;
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(x); i < n && !st; i++) {
    pf_str text;
    st = c->host->str_get(x, i, &text);
    r.text.n = 0;
    if (!st && !each_code(s, text, 1, take_text, &r))
      st = PF_INVALID(c, "Invalid formatting on input string %" PRId64, i);
    if (!st && r.text.failed) st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string");
    if (!st) st = c->host->str_set(y, i, (pf_str){r.text.data, r.text.n});
  }
  pf_bytes_free(&r.text);
  return st;
}

#define FIELD(name_, kind, field) PF_REF(pf_attr, name_, kind, offsetof(unicode_state, field))
#define FROM FIELD("input_encoding", PF_ATTR_STRING, input_encoding)
#define TO FIELD("output_encoding", PF_ATTR_STRING, output_encoding)
#define ERRORS FIELD("errors", PF_ATTR_STRING, errors), \
  FIELD("replacement_char", PF_ATTR_INT, replacement)
#define CONTROL FIELD("replace_control_characters", PF_ATTR_BOOL, control)
#define COMMON(fn) .init = unicode_init, .compute = fn, .state_size = sizeof(unicode_state)
const pf_kernel *const strings_unicode_kernels[] = {
  PF_CPU("UnicodeDecode", "Tsplits=int32|int64", COMMON(decode_codes),
         .attrs = PF_ATTRS(FROM, ERRORS, CONTROL)),
  PF_CPU("UnicodeDecodeWithOffsets", "Tsplits=int32|int64", COMMON(decode_offsets),
         .attrs = PF_ATTRS(FROM, ERRORS, CONTROL)),
  PF_CPU("UnicodeEncode", "Tsplits=int32|int64", COMMON(encode), .attrs = PF_ATTRS(TO, ERRORS)),
  PF_CPU("UnicodeTranscode", NULL, COMMON(transcode), .attrs = PF_ATTRS(FROM, TO, ERRORS, CONTROL)),
  NULL};
