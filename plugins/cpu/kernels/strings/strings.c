/* strings.c - StringJoin, ReduceJoin, AsString, StringToNumber. */
#include "base/common.h"
#include "strings/strings_number.h"
#include <errno.h>
#include <stdlib.h>

/* a growing text in scratch memory, reused from element to element */
typedef struct {
  pf_ctx *c;
  char *data;
  int64_t len, room;
} text;
static pf_status append(text *t, const char *data, int64_t n) {
  if (t->len + n > t->room) {
    int64_t room = 2 * (t->len + n) + 64;
    char *grown = (char *)t->c->host->scratch(t->c, (uint64_t)room, 1);
    PF_EXHAUSTED(grown);
    if (t->len) memcpy(grown, t->data, (size_t)t->len);
    t->data = grown, t->room = room;
  }
  if (n) memcpy(t->data + t->len, data, (size_t)n);
  t->len += n;
  return PF_OK;
}

typedef struct { pf_str separator; } join_state;
static pf_status string_join(pf_ctx *c, const void *state) {
  const pf_str sep = ((const join_state *)state)->separator;
  const DLTensor *shaped = NULL;
  text t = {.c = c};
  for (int32_t k = 0; k < c->n_in; k++) {
    if (c->in[k]->ndim == 0) continue;
    if (shaped && !pf_same_shape(shaped, c->in[k]))
      return PF_INVALID(c, "Input shapes do not match: %s vs. %s", PF_SHAPE(shaped).s,
                        PF_SHAPE(c->in[k]).s);
    shaped = c->in[k];
  }
  DLTensor *y = c->host->output(c, 0, shaped ? shaped->shape : NULL, shaped ? shaped->ndim : 0);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(y); i < n; i++) {
    t.len = 0;
    for (int32_t k = 0; k < c->n_in; k++) {
      pf_str s;
      PF_TRY(c->host->str_get(c->in[k], c->in[k]->ndim ? i : 0, &s));
      if (k) PF_TRY(append(&t, sep.data, sep.len));
      PF_TRY(append(&t, s.data, s.len));
    }
    PF_TRY(c->host->str_set(y, i, (pf_str){t.data, t.len}));
  }
  return PF_OK;
}

typedef struct {
  pf_str separator;
  int32_t keep_dims;
} reduce_state;
static pf_status reduce_join(pf_ctx *c, const void *state) {
  const reduce_state *s = (const reduce_state *)state;
  const DLTensor *x = c->in[0];
  int64_t axes[PF_MAX_DIMS], shape[PF_MAX_DIMS], stride[PF_MAX_DIMS];
  int32_t n, nd = 0, order[PF_MAX_DIMS], joined[PF_MAX_DIMS] = {0}, kept[PF_MAX_DIMS], nk = 0;
  text t = {.c = c};
  PF_TRY(pf_check_rank(c, x, "inputs"));
  PF_TRY(pf_in_vector(c, 1, "reduction_indices", axes, &n));
  for (int32_t i = 0; i < n; i++) { /* joined along the first axis first */
    PF_TRY(pf_axis(c, axes[i], x->ndim, "Reduction index", &order[i]));
    if (joined[order[i]]) return PF_INVALID(c, "Duplicate reduction dimension %" PRId64, axes[i]);
    joined[order[i]] = 1;
  }
  if (n == 0) /* no axes: all of them, in linear order */
    for (; n < x->ndim; n++) order[n] = x->ndim - 1 - n, joined[n] = 1;
  int64_t groups = 1, members = 1;
  for (int32_t i = 0; i < x->ndim; i++) {
    if (joined[i]) members *= x->shape[i];
    else kept[nk++] = i, groups *= x->shape[i];
    if (!joined[i] || s->keep_dims) shape[nd++] = joined[i] ? 1 : x->shape[i];
  }
  DLTensor *y = c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  pf_row_major(x->shape, x->ndim, stride);
  for (int64_t g = 0; g < groups; g++) {
    int64_t base = 0, rest = g;
    for (int32_t k = nk - 1; k >= 0; k--)
      base += rest % x->shape[kept[k]] * stride[kept[k]], rest /= x->shape[kept[k]];
    t.len = 0;
    for (int64_t m = 0; m < members; m++) {
      int64_t at = base, left = m;
      for (int32_t k = 0; k < n; k++)
        at += left % x->shape[order[k]] * stride[order[k]], left /= x->shape[order[k]];
      pf_str e;
      PF_TRY(c->host->str_get(x, at, &e));
      if (m) PF_TRY(append(&t, s->separator.data, s->separator.len));
      PF_TRY(append(&t, e.data, e.len));
    }
    PF_TRY(c->host->str_set(y, g, (pf_str){t.data, t.len}));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- numbers to text */
typedef struct {
  int64_t precision, width;
  int32_t scientific, shortest, places; /* `places`: of plain reals, or one below */
  pf_str fill;
  char format[64];
} as_state;
enum { GENERAL = -1, PRINTED = -2 }; /* six digits as "%g" prints them; by print_number */
static pf_status as_string_init(pf_ctx *c, void *state) {
  as_state *s = (as_state *)state;
  int32_t type = c->in_type[0], real = type == PF_FLOAT32 || type == PF_FLOAT64 ||
                                       pf_is_half(type) || type == PF_COMPLEX64 ||
                                       type == PF_COMPLEX128;
  char flag = s->fill.len ? s->fill.data[0] : 0, width[16] = "", precision[16] = "";
  if (s->fill.len > 1) return PF_INVALID(c, "Fill string must be one or fewer characters");
  if (flag && !strchr(" +-0#", flag))
    return PF_INVALID(c, "Fill argument not supported: \"%c\"", flag);
  if (s->scientific && s->shortest)
    return PF_INVALID(c, "Cannot select both scientific and shortest notation");
  if (s->width > 1000 || s->precision > 1000)
    return PF_INVALID(c, "width and precision must be at most 1000");
  if (s->width > 0) snprintf(width, sizeof width, "%d", (int)s->width);
  if (s->precision >= 0 && real) snprintf(precision, sizeof precision, ".%d", (int)s->precision);
  if (s->precision >= 0 && !real)
    return PF_INVALID(c, "precision not supported for %s", pf_type_name(type));
  const char *kind =
      real ? s->scientific ? "e"
             : s->shortest ? "g"
                           : "f"
      : type == PF_UINT8 || type == PF_UINT16 || type == PF_UINT32 || type == PF_UINT64 ? PRIu64
                                                                                        : PRId64;
  snprintf(s->format, sizeof s->format, "%%%.1s%s%s%s", flag ? s->fill.data : "", width, precision,
           kind);
  s->places = s->precision < 0 ? 6 : (int32_t)s->precision;
  if (s->shortest) s->places = s->places == 6 ? GENERAL : PRINTED;
  if (flag || s->width > 0 || s->scientific || s->places > PF_MOST_PLACES) s->places = PRINTED;
  return PF_OK;
}
/* element i before `end`, as `format` would print it; NULL: print_number prints it */
#define PLAIN_SIGNED(TYPE, T, TAG) \
  case TYPE: return pf_integer_before(end, PF_DATA(const T, x)[i]);
#define PLAIN_UNSIGNED(TYPE, T, TAG) \
  case TYPE: return pf_digits_before(end, PF_DATA(const T, x)[i]);
static char *plain_real(double x, int places, char *end) {
  return places == GENERAL ? pf_general_before(end, x) : pf_fixed_before(end, x, places);
}
static char *plain_number(const DLTensor *x, int32_t type, int64_t i, int places, char *end) {
  float f;
  switch (type) {
    PF_EACH_SIGNED(PLAIN_SIGNED)
    PF_EACH_UNSIGNED(PLAIN_UNSIGNED)
    case PF_FLOAT32: return plain_real((double)PF_DATA(const float, x)[i], places, end);
    case PF_FLOAT64: return plain_real(PF_DATA(const double, x)[i], places, end);
    case PF_FLOAT16:
    case PF_BFLOAT16:
      pf_half_to_float(type, PF_DATA(const uint16_t, x) + i, &f, 1);
      return plain_real((double)f, places, end);
    default: return NULL;
  }
}
#define FROM_INT(TYPE, T, TAG) \
  case TYPE: return snprintf(out, room, s->format, (int64_t)PF_DATA(const T, x)[i]);
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int print_number(const as_state *s, const DLTensor *x, int32_t type, int64_t i, char *out,
                        size_t room) {
  float f;
  double d[2];
  switch (type) {
    PF_EACH_INT(FROM_INT)
    case PF_BOOL: return snprintf(out, room, "%s", PF_DATA(const uint8_t, x)[i] ? "true" : "false");
    case PF_FLOAT32: return snprintf(out, room, s->format, (double)PF_DATA(const float, x)[i]);
    case PF_FLOAT64: return snprintf(out, room, s->format, PF_DATA(const double, x)[i]);
    case PF_FLOAT16:
    case PF_BFLOAT16:
      pf_half_to_float(type, PF_DATA(const uint16_t, x) + i, &f, 1);
      return snprintf(out, room, s->format, (double)f);
    case PF_COMPLEX64:
      d[0] = (double)PF_DATA(const float, x)[2 * i],
      d[1] = (double)PF_DATA(const float, x)[2 * i + 1];
      break;
    default: d[0] = PF_DATA(const double, x)[2 * i], d[1] = PF_DATA(const double, x)[2 * i + 1];
  }
  int n = snprintf(out, room, "(");
  n += snprintf(out + n, room - (size_t)n, s->format, d[0]);
  n += snprintf(out + n, room - (size_t)n, ",");
  n += snprintf(out + n, room - (size_t)n, s->format, d[1]);
  return n + snprintf(out + n, room - (size_t)n, ")");
}
static pf_status as_string(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  const as_state *s = (const as_state *)state;
  char out[4096]; /* two doubles: at most 2 * (310 + 1000 digits) and signs */
  char *end = out + PF_FIXED_ROOM;
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    char *plain = s->places == PRINTED ? NULL : plain_number(x, c->in_type[0], i, s->places, end);
    if (plain) {
      PF_TRY(c->host->str_set(y, i, (pf_str){plain, end - plain}));
      continue;
    }
    int len = print_number(s, x, c->in_type[0], i, out, sizeof out);
    PF_TRY(c->host->str_set(y, i, (pf_str){out, PF_MIN(PF_MAX(len, 0), (int)sizeof out - 1)}));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- text to numbers */
static int blank(const char *s) { return s[strspn(s, " \t\n\v\f\r")] == 0; }
/* the usual ways to write a number; 0: read_number knows the others, and what is wrong */
static int read_plain(pf_str s, DLTensor *y, int32_t type, int64_t i) {
  pf_decimal d;
  double v;
  if (!pf_read_decimal(s.data, s.len, &d)) return 0;
  if (type == PF_FLOAT32 || type == PF_FLOAT64) {
    if (!pf_decimal_value(&d, type == PF_FLOAT32 ? 24 : 53, &v)) return 0;
    if (type == PF_FLOAT32) PF_DATA(float, y)[i] = (float)v;
    else PF_DATA(double, y)[i] = v;
    return 1;
  }
  if (!d.integer || d.digits > (uint64_t)INT64_MAX) return 0;
  int64_t whole = d.negative ? -(int64_t)d.digits : (int64_t)d.digits;
  if (type == PF_INT64) PF_DATA(int64_t, y)[i] = whole;
  else if (whole < INT32_MIN || whole > INT32_MAX) return 0;
  else PF_DATA(int32_t, y)[i] = (int32_t)whole;
  return 1;
}
static pf_status read_number(pf_ctx *c, pf_str s, DLTensor *y, int32_t type, int64_t i) {
  char in[512], *end;
  int64_t len = PF_MIN(s.len, (int64_t)sizeof in - 1), ok = s.len < (int64_t)sizeof in;
  if (len) memcpy(in, s.data, (size_t)len);
  in[len] = 0;
  ok = ok && !blank(in) && strlen(in) == (size_t)len;
  errno = 0;
  if (type == PF_FLOAT32) PF_DATA(float, y)[i] = strtof(in, &end);
  else if (type == PF_FLOAT64) PF_DATA(double, y)[i] = strtod(in, &end);
  else {
    long long v = strtoll(in, &end, 10);
    ok = ok && !errno && (type == PF_INT64 || (v >= INT32_MIN && v <= INT32_MAX));
    if (type == PF_INT64) PF_DATA(int64_t, y)[i] = v;
    else PF_DATA(int32_t, y)[i] = (int32_t)v;
  }
  if (ok && blank(end)) return PF_OK;
  return PF_INVALID(c, "StringToNumberOp could not correctly convert string: %.*s",
                    (int)PF_MIN(s.len, 400), s.len ? s.data : "");
}
static pf_status string_to_number(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int32_t type = c->out_type[0];
  (void)state;
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    pf_str s;
    PF_TRY(c->host->str_get(x, i, &s));
    if (!read_plain(s, y, type, i)) PF_TRY(read_number(c, s, y, type, i));
  }
  return PF_OK;
}

const pf_kernel *const strings_kernels[] = {
  PF_CPU("StringJoin", NULL, .state_size = sizeof(join_state), .compute = string_join,
         .attrs = PF_ATTRS(PF_ATTR(join_state, PF_ATTR_STRING, separator))),
  PF_CPU("ReduceJoin", NULL, .state_size = sizeof(reduce_state), .compute = reduce_join,
         .attrs = PF_ATTRS(PF_ATTR(reduce_state, PF_ATTR_STRING, separator),
                           PF_ATTR(reduce_state, PF_ATTR_BOOL, keep_dims))),
  PF_CPU("AsString", "T=" PF_NUMBERS "|bool", .state_size = sizeof(as_state),
         .init = as_string_init, .compute = as_string,
         .attrs = PF_ATTRS(
             PF_ATTR(as_state, PF_ATTR_INT, precision), PF_ATTR(as_state, PF_ATTR_INT, width),
             PF_ATTR(as_state, PF_ATTR_BOOL, scientific), PF_ATTR(as_state, PF_ATTR_BOOL, shortest),
             PF_ATTR(as_state, PF_ATTR_STRING, fill))),
  PF_CPU("StringToNumber", "out_type=float|double|int32|int64", .compute = string_to_number), NULL};
