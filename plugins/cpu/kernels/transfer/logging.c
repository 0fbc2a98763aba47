/* logging.c - Print, PrintV2, Assert.
 *
 * Invariants
 *   1. A message is built whole and written with one call: lines of concurrent prints do not mix.
 *   2. Values look as in TF: "[1 2 3...]", inner dimensions in brackets of their own.
 * Threads: any; first_n is counted with an atomic.
 */
#include "base/bytes.h"
#include <stdatomic.h>

typedef struct {
  int64_t first_n, summarize;
  pf_str message, stream, end;
  atomic_llong *printed;
} log_state;

/* The shortest of 6 to 9 (17) digits that reads back as the same number. */
static void add_float(pf_bytes *b, double x, int is_double) {
  char text[64];
  if (isnan(x)) {
    pf_bytes_text(b, "nan");
    return;
  }
  for (int digits = is_double ? 15 : 6; digits <= (is_double ? 17 : 9); digits++) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    double back = strtod(text, NULL);
    if (is_double ? back == x : (float)back == (float)x) break;
  }
  pf_bytes_text(b, text);
}

/* a string as C would escape it */
static void add_escaped(pf_bytes *b, pf_str s) {
  for (int64_t i = 0; i < s.len; i++) {
    unsigned char ch = (unsigned char)s.data[i];
    switch (ch) {
      case '\n': pf_bytes_text(b, "\\n"); break;
      case '\r': pf_bytes_text(b, "\\r"); break;
      case '\t': pf_bytes_text(b, "\\t"); break;
      case '"': pf_bytes_text(b, "\\\""); break;
      case '\'': pf_bytes_text(b, "\\'"); break;
      case '\\': pf_bytes_text(b, "\\\\"); break;
      default:
        if (ch < 0x20 || ch >= 0x7f) pf_bytes_printf(b, "\\%03o", ch);
        else pf_bytes_add(b, (const char *)&ch, 1);
    }
  }
}

static void add_element(pf_ctx *c, pf_bytes *b, const DLTensor *t, int32_t type, int64_t i) {
  pf_str s;
  switch (type) {
    case PF_FLOAT32: add_float(b, PF_DATA(const float, t)[i], 0); break;
    case PF_FLOAT64: add_float(b, PF_DATA(const double, t)[i], 1); break;
    case PF_FLOAT16: add_float(b, pf_from_half(PF_DATA(const uint16_t, t)[i]), 0); break;
    case PF_BFLOAT16: add_float(b, pf_from_bf16(PF_DATA(const uint16_t, t)[i]), 0); break;
    case PF_BOOL: pf_bytes_text(b, PF_DATA(const uint8_t, t)[i] ? "1" : "0"); break;
#define SIGNED(num, T, tag) \
  case num: pf_bytes_printf(b, "%" PRId64, (int64_t)PF_DATA(const T, t)[i]); break;
#define UNSIGNED(num, T, tag) \
  case num: pf_bytes_printf(b, "%" PRIu64, (uint64_t)PF_DATA(const T, t)[i]); break;
      PF_EACH_SIGNED(SIGNED)
      PF_EACH_UNSIGNED(UNSIGNED)
    case PF_COMPLEX64:
    case PF_COMPLEX128: {
      int wide = type == PF_COMPLEX128;
      pf_bytes_text(b, "(");
      add_float(b, wide ? PF_DATA(const double, t)[2 * i] : PF_DATA(const float, t)[2 * i], wide);
      pf_bytes_text(b, ",");
      add_float(b, wide ? PF_DATA(const double, t)[2 * i + 1] : PF_DATA(const float, t)[2 * i + 1],
                wide);
      pf_bytes_text(b, ")");
      break;
    }
    case PF_STRING:
      if (c->host->str_get(t, i, &s) == PF_OK) add_escaped(b, s);
      break;
    default: pf_bytes_printf(b, "<%s>", pf_type_name(type));
  }
}

/* Up to `limit` elements, from dimension d on; `at` counts them. */
static void add_dimension(pf_ctx *c, pf_bytes *b, const DLTensor *t, int32_t type, int32_t d,
                          int64_t limit, int64_t *at) {
  if (*at >= limit) return;
  if (d == t->ndim - 1) {
    for (int64_t i = 0; i < t->shape[d]; i++) {
      if (*at >= limit) {
        if (d != 0) pf_bytes_text(b, "...");
        return;
      }
      if (i > 0) pf_bytes_text(b, " ");
      add_element(c, b, t, type, (*at)++);
    }
    return;
  }
  for (int64_t i = 0; i < t->shape[d] && *at < limit; i++) {
    pf_bytes_text(b, "[");
    add_dimension(c, b, t, type, d + 1, limit, at);
    pf_bytes_text(b, "]");
  }
}

static void add_tensor(pf_ctx *c, pf_bytes *b, const DLTensor *t, int32_t type, int64_t summarize) {
  int64_t n = pf_numel(t), limit = summarize < 0 ? n : PF_MIN(summarize, n), at = 0;
  pf_bytes_text(b, "[");
  if (t->ndim == 0) {
    if (limit > 0) add_element(c, b, t, type, 0);
  } else {
    add_dimension(c, b, t, type, 0, limit, &at);
  }
  if (n > limit) pf_bytes_text(b, "...");
  pf_bytes_text(b, "]");
}

static pf_status print_init(pf_ctx *c, void *state) {
  log_state *s = state;
  s->printed = calloc(1, sizeof *s->printed);
  return s->printed ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a counter");
}
static void print_fini(void *state) { free(((log_state *)state)->printed); }

static pf_status print(pf_ctx *c, const void *state) {
  const log_state *s = state;
  if (s->first_n < 0 || atomic_fetch_add(s->printed, 1) < s->first_n) {
    pf_bytes b = {0};
    pf_bytes_add(&b, s->message.data, s->message.len);
    for (int32_t i = 1; i < c->n_in; i++) add_tensor(c, &b, c->in[i], c->in_type[i], s->summarize);
    pf_bytes_text(&b, "\n");
    if (!b.failed) fwrite(b.data, 1, (size_t)b.n, stderr);
    pf_bytes_free(&b);
  }
  return c->host->alias(c, 0, 0, c->in[0]->shape, c->in[0]->ndim);
}

static pf_status print_v2(pf_ctx *c, const void *state) {
  const log_state *s = state;
  pf_str text, to = s->stream;
  pf_bytes b = {0};
#define TO(name) (to.len == (int64_t)sizeof(name) - 1 && !memcmp(to.data, name, sizeof(name) - 1))
  if (pf_numel(c->in[0]) != 1 || c->in[0]->ndim)
    return PF_INVALID(c, "input must be a scalar, got shape %s", PF_SHAPE(c->in[0]).s);
  PF_TRY(c->host->str_get(c->in[0], 0, &text));
  pf_bytes_add(&b, text.data, text.len);
  if (TO("log(info)") || TO("log(warning)") || TO("log(error)")) {
    if (!b.failed)
      c->host->log(TO("log(info)")    ? PF_LOG_INFO
                   : TO("log(error)") ? PF_LOG_ERROR
                                      : PF_LOG_WARNING,
                   b.data, b.n);
    pf_bytes_free(&b);
    return PF_OK;
  }
  pf_bytes_add(&b, s->end.data, s->end.len);
  FILE *f = TO("stdout") ? stdout : TO("stderr") || to.len == 0 ? stderr : NULL;
  char path[4096];
  if (!f && to.len > 7 && to.len < (int64_t)sizeof path && !memcmp(to.data, "file://", 7)) {
    memcpy(path, to.data + 7, (size_t)(to.len - 7));
    path[to.len - 7] = 0;
    f = fopen(path, "a");
  }
  if (f && !b.failed) fwrite(b.data, 1, (size_t)b.n, f);
  pf_bytes_free(&b);
  if (!f)
    return PF_INVALID(
        c,
        "cannot print to '%.*s': use stdout, stderr, log(info), log(warning), log(error) or "
        "file://PATH",
        (int)to.len, to.data);
  if (f == stdout) fflush(f);
  else if (f != stderr) fclose(f);
  return PF_OK;
}

static pf_status assert_true(pf_ctx *c, const void *state) {
  const log_state *s = state;
  const DLTensor *ok = c->in[0];
  if (ok->ndim != 0) return PF_INVALID(c, "In[0] should be a scalar: %s", PF_SHAPE(ok).s);
  if (PF_DATA(const uint8_t, ok)[0]) return PF_OK;
  pf_bytes b = {0};
  pf_bytes_text(&b, "assertion failed: ");
  for (int32_t i = 1; i < c->n_in; i++) {
    if (i > 1) pf_bytes_text(&b, " ");
    add_tensor(c, &b, c->in[i], c->in_type[i], s->summarize);
  }
  pf_status r = b.failed ? pf_fail(c, PF_INVALID_ARGUMENT, "assertion failed")
                         : c->host->fail(c, PF_INVALID_ARGUMENT, b.data, b.n);
  pf_bytes_free(&b);
  return r;
}

#define OPTIONAL(name_, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name_, kind, offsetof(log_state, field)})
const pf_kernel *const logging_kernels[] = {
  PF_CPU("Print", NULL,
         .attrs = PF_ATTRS(OPTIONAL("message", PF_ATTR_STRING, message),
                           OPTIONAL("first_n", PF_ATTR_INT, first_n),
                           OPTIONAL("summarize", PF_ATTR_INT, summarize)),
         .state_size = sizeof(log_state), .init = print_init, .fini = print_fini, .compute = print,
         .args = PF_ALIASES("output")),
  PF_CPU("PrintV2", NULL,
         .attrs = PF_ATTRS(OPTIONAL("output_stream", PF_ATTR_STRING, stream),
                           OPTIONAL("end", PF_ATTR_STRING, end)),
         .state_size = sizeof(log_state), .compute = print_v2),
  PF_CPU("Assert", NULL, .attrs = PF_ATTRS(OPTIONAL("summarize", PF_ATTR_INT, summarize)),
         .state_size = sizeof(log_state), .compute = assert_true),
  NULL};
