/* strings_format.c - StringFormat and StringNGrams.
 *
 * A tensor is printed as tf.print does: nested brackets, the first and last `summarize` elements of
 * every dimension, floats with as many digits as they have.
 *
 * Invariants: what a call makes is limited to MOST_BYTES before it is made.
 * Threads: one.
 */
#include "base/bytes.h"

enum { MOST_BYTES = 1 << 29, MOST_NGRAMS = 1 << 24 };

/* ---------------------------------------------------------------- StringFormat */
typedef struct {
  pf_str text, placeholder;
  int64_t summarize;
} format_state;

/* with 6 or 15 digits if they say it all, else with 9 or 17 */
static void add_number(pf_bytes *b, double x, int digits) {
  char brief[64];
  int few = digits == 9 ? 6 : 15;
  snprintf(brief, sizeof brief, "%.*g", few, x);
  if (digits == 9 ? strtof(brief, NULL) == (float)x : strtod(brief, NULL) == x) digits = few;
  if (isnan(x)) pf_bytes_text(b, signbit(x) ? "-nan" : "nan");
  else if (isinf(x)) pf_bytes_text(b, x < 0 ? "-inf" : "inf");
  else pf_bytes_printf(b, "%.*g", digits, x);
}
static void add_complex(pf_bytes *b, double re, double im, int digits) {
  pf_bytes_text(b, "(");
  add_number(b, re, digits);
  pf_bytes_text(b, ",");
  add_number(b, im, digits);
  pf_bytes_text(b, ")");
}
static void add_element(pf_ctx *c, pf_bytes *b, const DLTensor *t, int32_t type, int64_t i) {
  pf_str s;
  switch (type) {
#define SIGNED(TYPE, T, TAG) \
    case TYPE: pf_bytes_printf(b, "%" PRId64, (int64_t)PF_DATA(const T, t)[i]); break;
#define UNSIGNED(TYPE, T, TAG) \
    case TYPE: pf_bytes_printf(b, "%" PRIu64, (uint64_t)PF_DATA(const T, t)[i]); break;
    PF_EACH_SIGNED(SIGNED)
    PF_EACH_UNSIGNED(UNSIGNED)
    case PF_BOOL: pf_bytes_text(b, PF_DATA(const uint8_t, t)[i] ? "1" : "0"); break;
    case PF_FLOAT32: add_number(b, (double)PF_DATA(const float, t)[i], 9); break;
    case PF_FLOAT64: add_number(b, PF_DATA(const double, t)[i], 17); break;
    case PF_FLOAT16: add_number(b, (double)pf_from_half(PF_DATA(const uint16_t, t)[i]), 9); break;
    case PF_BFLOAT16: add_number(b, (double)pf_from_bf16(PF_DATA(const uint16_t, t)[i]), 9); break;
    case PF_COMPLEX64:
      add_complex(b, (double)PF_DATA(const float, t)[2 * i],
                  (double)PF_DATA(const float, t)[2 * i + 1], 9);
      break;
    case PF_COMPLEX128:
      add_complex(b, PF_DATA(const double, t)[2 * i], PF_DATA(const double, t)[2 * i + 1], 17);
      break;
    case PF_STRING:
      pf_bytes_text(b, "\"");
      if (c->host->str_get(t, i, &s) == PF_OK) pf_bytes_add(b, s.data, s.len);
      pf_bytes_text(b, "\"");
      break;
    default: pf_bytes_printf(b, "<%s>", pf_type_name(type));
  }
}

typedef struct {
  pf_ctx *c;
  pf_bytes *b;
  const DLTensor *t;
  int32_t type;
  int64_t ends;
} printer;
static void add_space(printer *p, int32_t d) {
  if (d == p->t->ndim - 1) {
    pf_bytes_text(p->b, " ");
    return;
  }
  for (int32_t k = 0; k < p->t->ndim - d - 1; k++) pf_bytes_text(p->b, "\n");
  for (int32_t k = 0; k <= d; k++) pf_bytes_text(p->b, " ");
}
/* dimension d of the part that starts at element `at`, which holds `n` */
static void add_dimension(printer *p, int32_t d, int64_t at, int64_t n) {
  if (d == p->t->ndim) {
    add_element(p->c, p->b, p->t, p->type, at);
    return;
  }
  int64_t count = p->t->shape[d], each = count ? n / count : 0, skipped = 0;
  pf_bytes_text(p->b, "[");
  for (int64_t i = 0; i < count && p->b->n < MOST_BYTES; i++) {
    if (i >= p->ends && i < count - p->ends) {
      if (skipped++ == 0) {
        if (i) add_space(p, d);
        pf_bytes_text(p->b, "...");
      }
      i = PF_MAX(i, count - p->ends - 1);
      continue;
    }
    if (i || skipped) add_space(p, d);
    add_dimension(p, d + 1, at + i * each, each);
  }
  pf_bytes_text(p->b, "]");
}

static pf_status format_text(pf_ctx *c, const format_state *s, pf_bytes *b) {
  const char *p = s->text.data, *end = p + s->text.len;
  int32_t k = 0;
  while (p < end) {
    if (s->placeholder.len && end - p >= s->placeholder.len &&
        !memcmp(p, s->placeholder.data, (size_t)s->placeholder.len)) {
      if (k < c->n_in) {
        printer out = {c, b, c->in[k], c->in_type[k],
                       s->summarize < 0 ? INT64_MAX / 4 : s->summarize};
        add_dimension(&out, 0, 0, pf_numel(c->in[k]));
      }
      k++;
      p += s->placeholder.len;
    } else pf_bytes_add(b, p++, 1);
  }
  if (k != c->n_in)
    return PF_INVALID(c, "num placeholders in template and num inputs must match: %d vs. %d", k,
                      c->n_in);
  if (b->failed || b->n >= MOST_BYTES)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "the formatted text takes more than 512 MB");
  return PF_OK;
}
static pf_status string_format(pf_ctx *c, const void *state) {
  pf_bytes b = {0};
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pf_status st = format_text(c, state, &b);
  if (!st) st = c->host->str_set(y, 0, (pf_str){b.data, b.n});
  pf_bytes_free(&b);
  return st;
}

/* ---------------------------------------------------------------- StringNGrams */
typedef struct {
  pf_str separator, left, right;
  pf_list widths;
  int64_t pad;
  int32_t keep_short;
} ngram_state;
typedef struct {
  pf_ctx *c;
  const ngram_state *s;
  pf_bytes *b;
  pf_bytes *ends;
} ngrams;

static int64_t padding_of(const ngram_state *s, int64_t width) {
  return s->pad < 0 ? width - 1 : PF_MIN(s->pad, width - 1);
}
/* n-grams of a row of n strings */
static int64_t count_of(const ngram_state *s, int64_t n, int64_t width) {
  return PF_MAX(0, n + 2 * padding_of(s, width) - width + 1);
}
/* one n-gram: `left` pads, strings [from, from + n), `right` pads */
static pf_status add_ngram(ngrams *g, int64_t left, int64_t from, int64_t n, int64_t right) {
  const ngram_state *s = g->s;
  if (left + n + right > MOST_NGRAMS)
    return pf_failf(g->c, PF_RESOURCE_EXHAUSTED, "an n-gram of more than %d strings", MOST_NGRAMS);
  for (int64_t i = 0; i < left + n + right; i++) {
    pf_str x = i < left ? s->left : s->right;
    if (i >= left && i < left + n) PF_TRY(g->c->host->str_get(g->c->in[0], from + i - left, &x));
    if (i) pf_bytes_add(g->b, s->separator.data, s->separator.len);
    pf_bytes_add(g->b, x.data, x.len);
    if (g->b->failed || g->b->n > MOST_BYTES)
      return pf_fail(g->c, PF_RESOURCE_EXHAUSTED, "the n-grams take more than 512 MB");
  }
  pf_bytes_add(g->ends, (const char *)&g->b->n, 8);
  return PF_OK;
}
static pf_status add_row(ngrams *g, int64_t from, int64_t n) {
  const int64_t *widths = g->s->widths.items;
  int64_t before = g->ends->n;
  for (int64_t w = 0; w < g->s->widths.n; w++) {
    int64_t width = widths[w], pad = padding_of(g->s, width), count = count_of(g->s, n, width);
    for (int64_t i = 0; i < count; i++) {
      int64_t left = PF_MAX(0, pad - i), right = PF_MAX(0, pad - (count - 1 - i));
      PF_TRY(add_ngram(g, left, from + (left ? 0 : i - pad), width - left - right, right));
    }
  }
  if (g->ends->n > before || !g->s->keep_short || n == 0) return PF_OK;
  if (g->s->pad < 0)
    return PF_INVALID(g->c, "pad_width must be >= 0 to preserve short sequences, got %" PRId64,
                      g->s->pad);
  return add_ngram(g, g->s->pad, from, n, g->s->pad);
}

static pf_status ngram_init(pf_ctx *c, void *state) {
  const ngram_state *s = state;
  for (int64_t i = 0; i < s->widths.n; i++)
    if (((const int64_t *)s->widths.items)[i] < 1)
      return PF_INVALID(c, "ngram_widths must contain positive values, got %" PRId64,
                        ((const int64_t *)s->widths.items)[i]);
  if (s->pad < -1 || s->pad > INT32_MAX)
    return PF_INVALID(c, "pad_width must be -1 or more, got %" PRId64, s->pad);
  return PF_OK;
}
static pf_status check_splits(pf_ctx *c, const ngram_state *s) {
  const DLTensor *data = c->in[0], *splits = c->in[1];
  int64_t n = pf_numel(data), before = 0, total = 0;
  if (data->ndim != 1 || splits->ndim != 1)
    return PF_INVALID(c, "data and data_splits must be vectors, got shapes %s and %s",
                      PF_SHAPE(data).s, PF_SHAPE(splits).s);
  for (int64_t i = 0; i < splits->shape[0]; i++) {
    int64_t split = pf_in_index(c, 1, i);
    if (i == 0 && split != 0)
      return PF_INVALID(c, "First split value must be 0, got %" PRId64, split);
    if (split < before || split > n)
      return PF_INVALID(c, "Invalid split value %" PRId64 ", must be in [%" PRId64 ", %" PRId64 "]",
                        split, before, n);
    for (int64_t w = 0; i && w < s->widths.n; w++) {
      int64_t width = ((const int64_t *)s->widths.items)[w];
      int64_t count = width > INT32_MAX ? MOST_NGRAMS : count_of(s, split - before, width);
      if ((total += PF_MIN(count, MOST_NGRAMS) * PF_MIN(width, MOST_NGRAMS)) > MOST_NGRAMS)
        return pf_failf(c, PF_RESOURCE_EXHAUSTED, "n-grams of more than %d strings in all",
                        MOST_NGRAMS);
    }
    before = split;
  }
  if (splits->shape[0] && before != n)
    return PF_INVALID(c, "Last split value must be data size. Expected %" PRId64 ", got %" PRId64,
                      n, before);
  return PF_OK;
}
static pf_status give_ngrams(pf_ctx *c, const pf_bytes *b, const pf_bytes *ends) {
  const int64_t *end = (const int64_t *)ends->data;
  int64_t n = ends->n / 8;
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = i ? end[i - 1] : 0;
    PF_TRY(c->host->str_set(y, i, (pf_str){b->data + from, end[i] - from}));
  }
  return PF_OK;
}
static pf_status string_ngrams(pf_ctx *c, const void *state) {
  pf_bytes b = {0}, ends = {0};
  ngrams g = {c, state, &b, &ends};
  pf_status st = PF_OK;
  PF_TRY(check_splits(c, state));
  int64_t rows = pf_numel(c->in[1]);
  DLTensor *splits = pf_output_like(c, 1, c->in[1]);
  PF_EXHAUSTED(splits);
  if (rows) pf_put_index(splits, c->out_type[1], 0, 0);
  for (int64_t i = 1; i < rows && !st; i++) {
    int64_t from = pf_in_index(c, 1, i - 1);
    st = add_row(&g, from, pf_in_index(c, 1, i) - from);
    pf_put_index(splits, c->out_type[1], i, ends.n / 8);
  }
  if (!st && ends.failed) st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the n-grams");
  if (!st) st = give_ngrams(c, &b, &ends);
  pf_bytes_free(&b);
  pf_bytes_free(&ends);
  return st;
}

#define FORMAT_FIELD(name_, kind, field) \
  PF_REF(pf_attr, name_, kind, offsetof(format_state, field))
#define NGRAM(name_, kind, field) PF_REF(pf_attr, name_, kind, offsetof(ngram_state, field))
const pf_kernel *const strings_format_kernels[] = {
  PF_CPU("StringFormat", NULL, .compute = string_format, .state_size = sizeof(format_state),
         .attrs = PF_ATTRS(FORMAT_FIELD("template", PF_ATTR_STRING, text),
                           FORMAT_FIELD("placeholder", PF_ATTR_STRING, placeholder),
                           FORMAT_FIELD("summarize", PF_ATTR_INT, summarize))),
  PF_CPU("StringNGrams", "Tsplits=int32|int64", .init = ngram_init, .compute = string_ngrams,
         .state_size = sizeof(ngram_state),
         .attrs = PF_ATTRS(NGRAM("separator", PF_ATTR_STRING, separator),
                           NGRAM("left_pad", PF_ATTR_STRING, left),
                           NGRAM("right_pad", PF_ATTR_STRING, right),
                           NGRAM("ngram_widths", PF_ATTR_INT | PF_ATTR_LIST, widths),
                           NGRAM("pad_width", PF_ATTR_INT, pad),
                           NGRAM("preserve_short_sequences", PF_ATTR_BOOL, keep_short))),
  NULL};
