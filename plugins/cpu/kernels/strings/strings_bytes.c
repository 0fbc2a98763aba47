/* strings_bytes.c - EncodeBase64, DecodeBase64, DecodeRaw, DecodePaddedRaw, DecodeCSV.
 *
 * Base64 is RFC 4648's for URLs (- and _).  CSV is RFC 4180's: quotes around a field, doubled
 * inside.
 *
 * Invariants: no byte outside a string is read; sizes are checked before anything is allocated.
 * Threads: one.
 */
#include "base/bytes.h"
#include <errno.h>

/* ---------------------------------------------------------------- Base64 */
static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
typedef struct { int32_t pad; } base64_state;

static void encode(pf_str s, int pad, pf_bytes *b) {
  const uint8_t *in = (const uint8_t *)s.data;
  int64_t whole = s.len / 3, rest = s.len % 3;
  if (whole > INT64_MAX / 8 || !pf_bytes_reserve(b, 4 * whole + 4)) return;
  char *out = b->data + b->n;
  for (int64_t i = 0; i < whole; i++, in += 3, out += 4) {
    uint32_t x = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
    out[0] = digits[x >> 18], out[1] = digits[x >> 12 & 63];
    out[2] = digits[x >> 6 & 63], out[3] = digits[x & 63];
  }
  if (rest) {
    uint32_t x = (uint32_t)in[0] << 16 | (rest == 2 ? (uint32_t)in[1] << 8 : 0);
    *out++ = digits[x >> 18], *out++ = digits[x >> 12 & 63];
    if (rest == 2) *out++ = digits[x >> 6 & 63];
    for (int64_t k = rest; pad && k < 3; k++) *out++ = '=';
  }
  b->n = out - b->data;
}
/* by character: its value, -1: it is none */
static void fill_values(int8_t value[256]) {
  memset(value, -1, 256);
  for (int k = 0; k < 64; k++) value[(uint8_t)digits[k]] = (int8_t)k;
}
/* NULL, or what is wrong */
static const char *decode(pf_str s, const int8_t value[256], pf_bytes *b) {
  int64_t padding = 0;
  while (padding < 2 && padding < s.len && s.data[s.len - 1 - padding] == '=') padding++;
  if (padding && s.len % 4) return "Base64 string length (with padding) must be a multiple of 4";
  s.len -= padding;
  if (s.len % 4 == 1) return "Base64 string length cannot be 1 modulo 4.";
  if (!pf_bytes_reserve(b, s.len)) return NULL;
  for (int64_t i = 0; i < s.len; i += 4) {
    uint32_t x = 0;
    int32_t bad = 0;
    int64_t n = PF_MIN(s.len - i, 4);
    for (int64_t k = 0; k < 4; k++) {
      int32_t d = k < n ? value[(uint8_t)s.data[i + k]] : 0;
      bad |= d;
      x = x << 6 | ((uint32_t)d & 63);
    }
    if (bad < 0) return "Invalid character found in base64.";
    for (int64_t k = 0; k < n - 1; k++) b->data[b->n++] = (char)(x >> (16 - 8 * k));
  }
  return NULL;
}
static pf_status base64(pf_ctx *c, int decoding, int pad) {
  const DLTensor *x = c->in[0];
  pf_bytes b = {0};
  pf_status st = PF_OK;
  int8_t value[256];
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  fill_values(value);
  for (int64_t i = 0, n = pf_numel(x); i < n && !st; i++) {
    pf_str s;
    const char *wrong = NULL;
    st = c->host->str_get(x, i, &s);
    if (st) break;
    b.n = 0;
    if (decoding) wrong = decode(s, value, &b);
    else encode(s, pad, &b);
    st = wrong      ? pf_fail(c, PF_INVALID_ARGUMENT, wrong)
         : b.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string")
                    : c->host->str_set(y, i, (pf_str){b.data, b.n});
  }
  pf_bytes_free(&b);
  return st;
}
static pf_status encode_base64(pf_ctx *c, const void *s) {
  return base64(c, 0, ((const base64_state *)s)->pad);
}
static pf_status decode_base64(pf_ctx *c, const void *s) { return base64(c, 1, 0); }

/* ---------------------------------------------------------------- DecodeRaw */
enum { MOST_PADDED = 1 << 30 };
typedef struct { int32_t little; } raw_state;
/* the words of n bytes from s, in this machine's order */
static void copy_words(char *out, const char *s, int64_t n, int64_t word, int swap) {
  if (!swap) {
    if (n) memcpy(out, s, (size_t)n);
    return;
  }
  for (int64_t i = 0; i < n; i += word)
    for (int64_t k = 0; k < word; k++) out[i + k] = s[i + word - 1 - k];
}
static int64_t word_of(int32_t type) { /* complex numbers are two words */
  return type == PF_COMPLEX64 ? 4 : type == PF_COMPLEX128 ? 8 : pf_type_size(type);
}
static int swaps(int little) {
  const uint16_t one = 1;
  uint8_t low;
  memcpy(&low, &one, 1);
  return (low == 1) != (little != 0);
}
static pf_status decode_raw(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t size = pf_type_size(c->out_type[0]), n = pf_numel(x), bytes = 0, shape[PF_MAX_DIMS + 1];
  int swap = swaps(((const raw_state *)state)->little);
  pf_str s;
  PF_TRY(pf_check_rank(c, x, "bytes"));
  for (int64_t i = 0; i < n; i++) {
    PF_TRY(c->host->str_get(x, i, &s));
    if (i == 0) bytes = s.len;
    if (s.len != bytes)
      return PF_INVALID(c,
                        "DecodeRaw requires input strings to all be the same size, but element "
                        "%" PRId64 " has size %" PRId64 " != %" PRId64,
                        i, s.len, bytes);
  }
  if (bytes % size)
    return PF_INVALID(c,
                      "Input to DecodeRaw has length %" PRId64 " that is not a multiple of %" PRId64
                      ", the size of %s",
                      bytes, size, pf_type_name(c->out_type[0]));
  memcpy(shape, x->shape, (size_t)x->ndim * 8);
  shape[x->ndim] = bytes / size;
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim + 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    PF_TRY(c->host->str_get(x, i, &s));
    copy_words(PF_DATA(char, y) + i * bytes, s.data, bytes, word_of(c->out_type[0]), swap);
    if (c->out_type[0] == PF_BOOL)
      for (int64_t k = 0; k < bytes; k++) PF_DATA(uint8_t, y)[i * bytes + k] = s.data[k] != 0;
  }
  return PF_OK;
}
static pf_status decode_padded(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t size = pf_type_size(c->out_type[0]), n = pf_numel(x), bytes, shape[PF_MAX_DIMS + 1];
  int swap = swaps(((const raw_state *)state)->little);
  pf_str s;
  PF_TRY(pf_check_rank(c, x, "input_bytes"));
  PF_TRY(pf_in_scalar(c, 1, "fixed_length", &bytes));
  if (bytes <= 0 || bytes % size)
    return PF_INVALID(c,
                      "fixed_length (%" PRId64 ") must be a positive multiple of %" PRId64
                      ", the size of out_type",
                      bytes, size);
  int64_t all;
  if (!pf_mul(bytes, PF_MAX(n, 1), &all) || all > MOST_PADDED)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                    "%" PRId64 " strings padded to %" PRId64 " bytes are more than 1 GB", n, bytes);
  memcpy(shape, x->shape, (size_t)x->ndim * 8);
  shape[x->ndim] = bytes / size;
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim + 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    char *out = PF_DATA(char, y) + i * bytes;
    PF_TRY(c->host->str_get(x, i, &s));
    int64_t whole = PF_MIN(s.len, bytes) / size * size, rest = PF_MIN(s.len, bytes) - whole;
    memset(out, 0, (size_t)bytes);
    copy_words(out, s.data, whole, word_of(c->out_type[0]), swap);
    if (rest) { /* an element that is cut off ends in zeros */
      char word[16] = {0};
      memcpy(word, s.data + whole, (size_t)rest);
      copy_words(out + whole, word, size, word_of(c->out_type[0]), swap);
    }
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- DecodeCSV */
typedef struct {
  pf_str delim, na;
  int32_t quotes;
  pf_list selected;
} csv_state;
typedef struct {
  pf_bytes text, ends;
  const char *wrong;
} fields; /* the fields, end to end */

static pf_status csv_init(pf_ctx *c, void *state) {
  const csv_state *s = state;
  const int64_t *v = s->selected.items;
  if (s->delim.len != 1) return PF_INVALID(c, "field_delim should be only 1 char");
  for (int64_t i = 0; i < s->selected.n; i++)
    if (v[i] < 0 || (i && v[i] <= v[i - 1]))
      return PF_INVALID(c, "select_cols should be a strictly increasing list of indices >= 0");
  if (s->selected.n && s->selected.n != c->n_out)
    return PF_INVALID(c, "select_cols should match output size: %" PRId64 " columns, %d outputs",
                      s->selected.n, c->n_out);
  return PF_OK;
}
static void end_field(fields *f) { pf_bytes_add(&f->ends, (const char *)&f->text.n, 8); }
/* p behind the opening quote -> behind the closing one */
static const char *quoted(fields *f, const char *p, const char *end, char delim) {
  for (; p < end; p++) {
    if (*p != '"') pf_bytes_add(&f->text, p, 1);
    else if (p + 1 < end && p[1] == '"') pf_bytes_add(&f->text, p++, 1);
    else break;
  }
  if (p == end) f->wrong = "Quoted field has to end with quote followed by delim or end";
  else if (p + 1 < end && p[1] != delim)
    f->wrong = "Quote inside a string has to be escaped by another quote";
  return p + 1;
}
static void parse_record(const csv_state *s, pf_str record, fields *f) {
  const char *p = record.data, *end = record.data + record.len;
  char delim = s->delim.data[0];
  f->text.n = f->ends.n = 0;
  f->wrong = NULL;
  while (!f->wrong) {
    if (s->quotes && p < end && *p == '"') p = quoted(f, p + 1, end, delim);
    else
      for (; p < end && *p != delim; p++) {
        if (s->quotes && (*p == '"' || *p == '\n' || *p == '\r'))
          f->wrong = "Unquoted fields cannot have quotes/CRLFs inside";
        pf_bytes_add(&f->text, p, 1);
      }
    end_field(f);
    if (p >= end) break;
    p++; /* the delimiter; behind the last one is a field, too */
  }
}

/* text as one number of the output's type; 0: it is none */
static int number_of(const char *text, DLTensor *y, int32_t type, int64_t i) {
  char *end = NULL;
  if (!*text) return 0;
  errno = 0;
  if (type == PF_FLOAT32) PF_DATA(float, y)[i] = strtof(text, &end);
  else if (type == PF_FLOAT64) PF_DATA(double, y)[i] = strtod(text, &end);
  else {
    long long v = strtoll(text, &end, 10);
    if (errno || (type == PF_INT32 && (v < INT32_MIN || v > INT32_MAX))) return 0;
    if (type == PF_INT32) PF_DATA(int32_t, y)[i] = (int32_t)v;
    else PF_DATA(int64_t, y)[i] = v;
  }
  while (end && (*end == ' ' || (*end >= '\t' && *end <= '\r'))) end++;
  return end && !*end;
}
static pf_status put_field(pf_ctx *c, const csv_state *s, int32_t k, int64_t i, pf_str text,
                           DLTensor *y) {
  const DLTensor *standard = c->in[1 + k];
  int32_t type = c->out_type[k];
  int64_t size = pf_type_size(type);
  char copy[512];
  int64_t n = text.len;
  if (n == 0 || (n == s->na.len && !memcmp(text.data, s->na.data, (size_t)n))) {
    if (pf_numel(standard) != 1)
      return PF_INVALID(c, "Field %d is required but missing in record %" PRId64 "!", k, i);
    return pf_copy_run(c, y, i, standard, 0, 1, size);
  }
  if (type == PF_STRING) return c->host->str_set(y, i, text);
  n = PF_MIN(text.len, (int64_t)sizeof copy - 1);
  memcpy(copy, text.data, (size_t)n);
  copy[n] = 0;
  if (n == text.len && strlen(copy) == (size_t)n && number_of(copy, y, type, i)) return PF_OK;
  return PF_INVALID(c, "Field %d in record %" PRId64 " is not a valid %s: %s", k, i,
                    pf_type_name(type), copy);
}
static pf_status put_record(pf_ctx *c, const csv_state *s, const fields *f, int64_t i,
                            DLTensor **out) {
  const int64_t *ends = (const int64_t *)f->ends.data, *columns = s->selected.items;
  int64_t n = f->ends.n / 8;
  if (!s->selected.n && n != c->n_out)
    return PF_INVALID(c, "Expect %d fields but have %" PRId64 " in record %" PRId64, c->n_out, n,
                      i);
  for (int32_t k = 0; k < c->n_out; k++) {
    int64_t at = s->selected.n ? columns[k] : k;
    if (at >= n)
      return PF_INVALID(
          c, "Expect more than %" PRId64 " fields, but have %" PRId64 " in record %" PRId64, at, n,
          i);
    int64_t from = at ? ends[at - 1] : 0;
    PF_TRY(put_field(c, s, k, i, (pf_str){f->text.data + from, ends[at] - from}, out[k]));
  }
  return PF_OK;
}
static pf_status decode_csv(pf_ctx *c, const void *state) {
  const csv_state *s = state;
  const DLTensor *x = c->in[0];
  fields f = {0};
  pf_status st = PF_OK;
  DLTensor **out = c->host->scratch(c, (uint64_t)(c->n_out + 1) * sizeof *out, 16);
  if (!out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the columns");
  for (int32_t k = 0; k < c->n_out; k++) {
    if (c->in[1 + k]->ndim > 1 || pf_numel(c->in[1 + k]) > 1)
      return PF_INVALID(c, "There should only be 1 default per field but field %d has shape %s", k,
                        PF_SHAPE(c->in[1 + k]).s);
    out[k] = pf_output_like(c, k, x);
    PF_EXHAUSTED(out[k]);
  }
  for (int64_t i = 0, n = pf_numel(x); i < n && !st; i++) {
    pf_str record;
    st = c->host->str_get(x, i, &record);
    if (st) break;
    parse_record(s, record, &f);
    st = f.wrong ? PF_INVALID(c, "%s (record %" PRId64 ")", f.wrong, i)
         : f.text.failed || f.ends.failed
             ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a record")
             : put_record(c, s, &f, i, out);
  }
  pf_bytes_free(&f.text);
  pf_bytes_free(&f.ends);
  return st;
}

#define LITTLE .state_size = sizeof(raw_state), \
  .attrs = PF_ATTRS(PF_REF(pf_attr, "little_endian", PF_ATTR_BOOL, offsetof(raw_state, little)))
#define CSV(name_, kind, field) PF_REF(pf_attr, name_, kind, offsetof(csv_state, field))
const pf_kernel *const strings_bytes_kernels[] = {
  PF_CPU("EncodeBase64", NULL, .compute = encode_base64, .state_size = sizeof(base64_state),
         .attrs = PF_ATTRS(PF_ATTR(base64_state, PF_ATTR_BOOL, pad))),
  PF_CPU("DecodeBase64", NULL, .compute = decode_base64),
  PF_CPU("DecodeRaw", "out_type=" PF_FLOATS "|" PF_SIGNED "|uint8|uint16|" PF_COMPLEX "|bool",
         .compute = decode_raw, LITTLE),
  PF_CPU("DecodePaddedRaw", "out_type=" PF_FLOATS "|" PF_SIGNED "|uint8|uint16",
         .compute = decode_padded, LITTLE),
  PF_CPU("DecodeCSV", NULL, .init = csv_init, .compute = decode_csv,
         .state_size = sizeof(csv_state),
         .attrs = PF_ATTRS(CSV("field_delim", PF_ATTR_STRING, delim),
                           CSV("use_quote_delim", PF_ATTR_BOOL, quotes),
                           CSV("na_value", PF_ATTR_STRING, na),
                           CSV("select_cols", PF_ATTR_INT | PF_ATTR_LIST, selected))),
  NULL};
