/* strings_regex.c - RegexFullMatch, StaticRegexFullMatch, RegexReplace, StaticRegexReplace.
 *
 * Expressions are RE2's (regex.h says which part); \0 to \9 in a rewrite are the match and its
 * groups.
 *
 * Invariants: time is bounded by text times pattern for a match, whatever the expression.
 * Threads: one; a call compiles its expression.
 */
#include "strings/regex_dfa.h"

typedef struct {
  pf_str pattern, rewrite;
  int32_t global;
} regex_state;

static pf_status compile(pf_ctx *c, rx *r, pf_str pattern) {
  const char *wrong = rx_make(r, pattern);
  if (!wrong) return PF_OK;
  pf_status st = PF_INVALID(c, "Invalid pattern: %.*s, error: %s", (int)PF_MIN(pattern.len, 400),
                            pattern.len ? pattern.data : "", wrong);
  rx_free(r);
  return st;
}
static pf_status scalar_text(pf_ctx *c, int32_t in, const char *name, pf_str *out) {
  if (c->in[in]->ndim != 0)
    return PF_INVALID(c, "%s must be scalar, but received %s", name, PF_SHAPE(c->in[in]).s);
  return c->host->str_get(c->in[in], 0, out);
}

/* ---------------------------------------------------------------- full match */
static pf_status match_all(pf_ctx *c, const rx *r) {
  const DLTensor *x = c->in[0];
  rx_search s;
  rx_dfa a;
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  if (!rx_open(c, &s, r, 2) || !rx_dfa_open(c, &a, r, 1, 2))
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a search");
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    pf_str t;
    PF_TRY(c->host->str_get(x, i, &t));
    s.text = t.len ? t.data : "";
    s.end = s.text + t.len;
    rx_dfa_text(&a, t.len);
    PF_DATA(uint8_t, y)[i] = (uint8_t)rx_is_match(&a, &s);
  }
  return PF_OK;
}
static pf_status full_match(pf_ctx *c, pf_str pattern) {
  rx r;
  PF_TRY(compile(c, &r, pattern));
  pf_status st = match_all(c, &r);
  rx_free(&r);
  return st;
}
static pf_status regex_full_match(pf_ctx *c, const void *state) {
  pf_str pattern;
  PF_TRY(scalar_text(c, 1, "Pattern", &pattern));
  return full_match(c, pattern);
}
static pf_status static_full_match(pf_ctx *c, const void *state) {
  return full_match(c, ((const regex_state *)state)->pattern);
}

/* ---------------------------------------------------------------- replace */
/* The groups the rewrite names; `good`: bytes of it before a \ that ends it or stands before
 * another character, where RE2 gives up. */
static int highest_group(pf_str rewrite, int64_t *good) {
  int most = 0;
  for (int64_t i = 0; i < rewrite.len; i++) {
    if (rewrite.data[i] != '\\') continue;
    *good = i;
    if (++i == rewrite.len) return most;
    char d = rewrite.data[i];
    if (d >= '0' && d <= '9') most = PF_MAX(most, d - '0');
    else if (d != '\\') return most;
  }
  *good = rewrite.len;
  return most;
}
/* A group that the pattern does not have is empty. */
static void add_rewrite(pf_bytes *b, pf_str rewrite, const char *const *slot, int groups) {
  for (int64_t i = 0; i < rewrite.len; i++) {
    const char *rest = rewrite.data + i, *mark = memchr(rest, '\\', (size_t)(rewrite.len - i));
    int64_t plain = mark ? mark - rest : rewrite.len - i;
    pf_bytes_add(b, rest, plain);
    if (!mark) return;
    char d = rewrite.data[i += plain + 1];
    if (d == '\\') pf_bytes_add(b, &d, 1);
    else if (d - '0' <= groups && slot[2 * (d - '0')] && slot[2 * (d - '0') + 1])
      pf_bytes_add(b, slot[2 * (d - '0')], slot[2 * (d - '0') + 1] - slot[2 * (d - '0')]);
  }
}
/* the text with its matches, or the first one, rewritten */
static void replace_in(rx_dfa *a, rx_search *s, pf_str rewrite, int groups, int global,
                       pf_bytes *b) {
  const char *p = s->text, *last = NULL;
  while (rx_first(a, s, p)) {
    const char *from = s->found[0], *to = s->found[1];
    pf_bytes_add(b, p, from - p);
    if (from == to && from == last) { /* no empty match where the last one ended */
      int n = 1;
      if (from == s->end) return;
      rx_code(from, s->end, &n);
      pf_bytes_add(b, from, n);
      p = from + n;
      continue;
    }
    add_rewrite(b, rewrite, s->found, groups);
    p = last = to;
    if (!global) break;
  }
  pf_bytes_add(b, p, s->end - p);
}
static pf_status replace_all(pf_ctx *c, const rx *r, pf_str rewrite, int global, pf_bytes *b) {
  const DLTensor *x = c->in[0];
  rx_search s;
  rx_dfa a;
  int64_t good = 0;
  const int groups = PF_MIN(highest_group(rewrite, &good), r->groups), bad = good < rewrite.len;
  rewrite.len = good;
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  if (!rx_open(c, &s, r, 2 * groups + 2) || !rx_dfa_open(c, &a, r, 0, 2 * groups + 2))
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a search");
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    pf_str t;
    PF_TRY(c->host->str_get(x, i, &t));
    s.text = t.len ? t.data : "";
    s.end = s.text + t.len;
    b->n = 0;
    rx_dfa_text(&a, t.len);
    if (bad && !global) pf_bytes_add(b, s.text, t.len);
    else replace_in(&a, &s, rewrite, groups, global, b);
    if (b->failed) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string");
    PF_TRY(c->host->str_set(y, i, (pf_str){b->data, b->n}));
  }
  return PF_OK;
}
static pf_status replace(pf_ctx *c, pf_str pattern, pf_str rewrite, int global) {
  rx r;
  pf_bytes b = {0};
  PF_TRY(compile(c, &r, pattern));
  pf_status st = replace_all(c, &r, rewrite, global, &b);
  rx_free(&r);
  pf_bytes_free(&b);
  return st;
}
static pf_status regex_replace(pf_ctx *c, const void *state) {
  pf_str pattern, rewrite;
  PF_TRY(scalar_text(c, 1, "Pattern", &pattern));
  PF_TRY(scalar_text(c, 2, "Rewrite", &rewrite));
  return replace(c, pattern, rewrite, ((const regex_state *)state)->global);
}
static pf_status static_replace(pf_ctx *c, const void *state) {
  const regex_state *s = state;
  return replace(c, s->pattern, s->rewrite, s->global);
}

#define TEXT(field) PF_ATTR(regex_state, PF_ATTR_STRING, field)
#define GLOBAL PF_REF(pf_attr, "replace_global", PF_ATTR_BOOL, offsetof(regex_state, global))
#define STATE .state_size = sizeof(regex_state)
const pf_kernel *const strings_regex_kernels[] = {
  PF_CPU("RegexFullMatch", NULL, .compute = regex_full_match),
  PF_CPU("StaticRegexFullMatch", NULL, .compute = static_full_match, STATE,
         .attrs = PF_ATTRS(TEXT(pattern))),
  PF_CPU("RegexReplace", NULL, .compute = regex_replace, STATE, .attrs = PF_ATTRS(GLOBAL)),
  PF_CPU("StaticRegexReplace", NULL, .compute = static_replace, STATE,
         .attrs = PF_ATTRS(TEXT(pattern), TEXT(rewrite), GLOBAL)),
  NULL};
