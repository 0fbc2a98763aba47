/* regex.h - regular expressions in RE2's syntax, matched in time proportional to text times
 * pattern.
 *
 * Method: Thompson's construction (1968); Pike's simulation with captures: all threads advance
 * together, in order of preference, so that the match is the leftmost and, of those, the one a
 * backtracking matcher would find first - without backtracking.
 *
 * Syntax: literals, ., [classes], [[:names:]], \d \s \w \D \S \W, \b \B \A \z ^ $, groups
 * (capturing, (?:...), (?P<name>...)), alternation, * + ? {n,m} and their lazy forms, flags
 * (?imsU), \Q...\E, \x, octal, \pL \p{Lu} \p{Greek} \P{^L} (unicode.h).  Text is UTF-8; a byte that
 * is none matches nothing.  Of RE2 there is no \C; (?i) folds ASCII letters.
 *
 * Invariants: at most RX_MOST instructions, nesting of RX_DEPTH, repetition of 1000, as RE2's
 * limits; no recursion over the text.
 * Threads: a compiled program is read-only; a search owns its state.
 */
#ifndef PF_CPU_REGEX_H
#define PF_CPU_REGEX_H
#include "base/bytes.h"
#include "strings/unicode.h"

enum { RX_MOST = 20000, RX_DEPTH = 250, RX_REPEAT = 1000 };
enum { RX_GROUPS = 10, RX_SLOTS = 2 * RX_GROUPS };
enum { RX_SET, RX_SPLIT, RX_JUMP, RX_SAVE, RX_ASSERT, RX_MATCH };
enum { RX_BEGIN = 1, RX_END = 2, RX_LINE_BEGIN = 3, RX_LINE_END = 4, RX_WORD = 5, RX_NOT_WORD = 6 };
enum { RX_FOLD = 1, RX_MULTI = 2, RX_DOTALL = 4, RX_SWAP = 8 }; /* flags i m s U */
enum { RX_MOST_CODE = 0x10ffff };

typedef struct { int32_t kind, a, b; } rx_op; /* SET: ranges [a, b); SPLIT: a preferred */
typedef struct { int32_t lo, hi; } rx_range;
typedef struct { int32_t kind, a, b, lo, hi, lazy, empty; } rx_node; /* empty: it may match "" */
typedef struct {
  rx_op *ops;
  int32_t n, groups;
  pf_bytes code, ranges, nodes;
  const char *at, *end, *wrong;
  int32_t flags, depth;
  int64_t work; /* nodes compiled, repetitions counted */
} rx;

/* ---------------------------------------------------------------- UTF-8 */
/* the code point at p (p < end) and its length; -1 and 1 for a byte that is none */
static int32_t rx_code(const char *p, const char *end, int *n) {
  const uint8_t *s = (const uint8_t *)p;
  int len = s[0] < 0x80                   ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
            : (s[0] & 0xf0) == 0xe0       ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;
  int32_t code = len == 1 ? s[0] : s[0] & (0xff >> (len + 1));
  *n = 1;
  if (len == 0 || end - p < len) return -1;
  for (int i = 1; i < len; i++) {
    if ((s[i] & 0xc0) != 0x80) return -1;
    code = code << 6 | (s[i] & 0x3f);
  }
  if ((len == 3 && code < 0x800) || (len == 4 && code < 0x10000) || code > RX_MOST_CODE ||
      (code >= 0xd800 && code < 0xe000))
    return -1;
  *n = len;
  return code;
}

/* ---------------------------------------------------------------- the syntax tree */
enum { N_EMPTY, N_SET, N_CAT, N_ALT, N_REPEAT, N_GROUP, N_ASSERT };
static int rx_may_be_empty(const rx *r, const rx_node *x) {
  const rx_node *nodes = (const rx_node *)r->nodes.data;
  switch (x->kind) {
    case N_SET: return 0;
    case N_CAT: return nodes[x->a].empty && nodes[x->b].empty;
    case N_ALT: return nodes[x->a].empty || nodes[x->b].empty;
    case N_REPEAT: return x->lo == 0 || nodes[x->a].empty;
    case N_GROUP: return nodes[x->a].empty;
    default: return 1;
  }
}
static int32_t rx_node_add(rx *r, rx_node node) {
  node.empty = !r->nodes.failed && rx_may_be_empty(r, &node);
  pf_bytes_add(&r->nodes, (const char *)&node, sizeof node);
  int64_t n = r->nodes.n / (int64_t)sizeof node;
  if (r->nodes.failed || n > 4 * RX_MOST) {
    r->wrong = r->wrong ? r->wrong : "pattern too large - compile failed";
    return 0;
  }
  return (int32_t)n - 1;
}
static int32_t rx_range_count(const rx *r) {
  return (int32_t)(r->ranges.n / (int64_t)sizeof(rx_range));
}
static void rx_add(rx *r, int32_t lo, int32_t hi) {
  rx_range x = {lo, hi};
  if (lo > hi) return;
  if (rx_range_count(r) >= 4 * RX_MOST) r->wrong = "pattern too large - compile failed";
  else pf_bytes_add(&r->ranges, (const char *)&x, sizeof x);
}
static void rx_add_folded(rx *r, int32_t lo, int32_t hi) {
  rx_add(r, lo, hi);
  if (!(r->flags & RX_FOLD)) return;
  int32_t a = PF_MAX(lo, 'a'), b = PF_MIN(hi, 'z'), c = PF_MAX(lo, 'A'), d = PF_MIN(hi, 'Z');
  if (a <= b) rx_add(r, a - 32, b - 32);
  if (c <= d) rx_add(r, c + 32, d + 32);
}
static int rx_before(const void *a, const void *b) {
  return ((const rx_range *)a)
      ->lo<((const rx_range *)b)->lo ? -1 : ((const rx_range *)a)->lo>((const rx_range *)b)
      ->lo;
}
/* the ranges from `first` on become their complement */
static void rx_negate(rx *r, int32_t first) {
  int32_t n = rx_range_count(r) - first, from = 0;
  if (r->ranges.failed) return;
  rx_range *own = malloc((size_t)(n + 1) * sizeof *own);
  if (!own) {
    r->wrong = "out of memory";
    return;
  }
  if (n) memcpy(own, (rx_range *)r->ranges.data + first, (size_t)n * sizeof *own);
  qsort(own, (size_t)n, sizeof *own, rx_before);
  r->ranges.n = (int64_t)first * (int64_t)sizeof *own;
  for (int32_t i = 0; i < n; i++) {
    rx_add(r, from, own[i].lo - 1);
    from = PF_MAX(from, own[i].hi + 1);
  }
  rx_add(r, from, RX_MOST_CODE);
  free(own);
}

/* \d \s \w and their opposites; 0: c names no class */
static int rx_perl_class(rx *r, char c) {
  int32_t first = rx_range_count(r);
  switch (c | 0x20) {
    case 'd': rx_add(r, '0', '9'); break;
    case 's':
      rx_add(r, '\t', '\n');
      rx_add(r, '\f', '\r');
      rx_add(r, ' ', ' ');
      break;
    case 'w':
      rx_add(r, '0', '9'), rx_add(r, 'A', 'Z'), rx_add(r, '_', '_'), rx_add(r, 'a', 'z');
      break;
    default: return 0;
  }
  if (c >= 'A' && c <= 'Z') rx_negate(r, first);
  return 1;
}
/* [:alpha:] and so on, p behind "[:"; the place behind ":]", or NULL */
static const char *rx_posix_class(rx *r, const char *p) {
  static const struct {
    const char *name, *set;
  } classes[] = {/* pairs of bounds */
                 {"alnum", "09AZaz"},
                 {"alpha", "AZaz"},
                 {"ascii", "\1\177"},
                 {"blank", "\t\t  "},
                 {"cntrl", "\1\37\177\177"},
                 {"digit", "09"},
                 {"graph", "!~"},
                 {"lower", "az"},
                 {"print", " ~"},
                 {"punct", "!/:@[`{~"},
                 {"space", "\t\r  "},
                 {"upper", "AZ"},
                 {"word", "09AZ__az"},
                 {"xdigit", "09AFaf"}};
  int negated = p < r->end && *p == '^';
  int32_t first = rx_range_count(r);
  p += negated;
  for (int64_t i = 0; i < PF_LEN(classes); i++) {
    int64_t n = (int64_t)strlen(classes[i].name);
    if (r->end - p < n + 2 || memcmp(p, classes[i].name, (size_t)n) || memcmp(p + n, ":]", 2))
      continue;
    for (const char *b = classes[i].set; *b; b += 2) /* a bound of 1 stands for 0 */
      rx_add_folded(r, *b == 1 ? 0 : *b, b[1]);
    if (negated) rx_negate(r, first);
    return p + n + 2;
  }
  return NULL;
}

/* the ranges from `first` on in order and apart, so that rx_accepts can search by halves */
static void rx_tidy(rx *r, int32_t first) {
  rx_range *own = (rx_range *)r->ranges.data + first;
  int32_t n = rx_range_count(r) - first, kept = 0;
  if (r->ranges.failed || n < 2) return;
  qsort(own, (size_t)n, sizeof *own, rx_before);
  for (int32_t i = 1; i < n; i++) {
    if (own[i].lo <= own[kept].hi + 1) own[kept].hi = PF_MAX(own[kept].hi, own[i].hi);
    else own[++kept] = own[i];
  }
  r->ranges.n = (int64_t)(first + kept + 1) * (int64_t)sizeof *own;
}

static void rx_take(void *arg, int32_t lo, int32_t hi) { rx_add_folded(arg, lo, hi); }
/* \pL, \p{Lu}, \P{^Greek}; r->at at the p; 0: it is none of these */
static int rx_property(rx *r) {
  if (r->at >= r->end || (*r->at | 0x20) != 'p') return 0;
  int negated = *r->at++ == 'P', braces = r->at < r->end && *r->at == '{';
  const char *p = r->at + braces, *end = p;
  int32_t first = rx_range_count(r);
  if (braces)
    while (end < r->end && *end != '}') end++;
  else end += end < r->end;
  int closed = !braces || end < r->end;
  if (braces && p < end && *p == '^') negated = !negated, p++;
  if (!closed || !pf_unicode_class((pf_str){p, end - p}, rx_take, r)) {
    r->wrong = "invalid character class range";
    return 1;
  }
  r->at = end + braces;
  if (negated) rx_negate(r, first);
  return 1;
}

#define BAD_ESCAPE "invalid escape sequence"
/* a character written with \, r->at behind it */
static int32_t rx_escape(rx *r) {
  static const char names[] = "nrtfva", codes[] = "\n\r\t\f\v\a";
  int n;
  if (r->at >= r->end) {
    r->wrong = "trailing \\";
    return 0;
  }
  char c = *r->at++;
  const char *named = c ? strchr(names, c) : NULL;
  if (named) return codes[named - names];
  if (c >= '0' && c <= '7') { /* RE2: \1 to \7 are octal only with a digit behind */
    int32_t code = c - '0';
    if (c != '0' && (r->at >= r->end || *r->at < '0' || *r->at > '7')) r->wrong = BAD_ESCAPE;
    for (int i = 0; i < 2 && r->at < r->end && *r->at >= '0' && *r->at <= '7'; i++)
      code = code * 8 + *r->at++ - '0';
    return code;
  }
  if (c == 'x') {
    int braces = r->at < r->end && *r->at == '{';
    int64_t code = 0, digits = 0;
    for (r->at += braces; r->at < r->end && digits < (braces ? 8 : 2); r->at++, digits++) {
      char h = *r->at | 0x20;
      int v = *r->at >= '0' && *r->at <= '9' ? *r->at - '0'
              : h >= 'a' && h <= 'f'         ? h - 'a' + 10
                                             : -1;
      if (v < 0) break;
      code = code * 16 + v;
    }
    if (braces && (r->at >= r->end || *r->at++ != '}')) r->wrong = BAD_ESCAPE;
    if (!digits || (!braces && digits != 2) || code > RX_MOST_CODE) r->wrong = BAD_ESCAPE;
    return (int32_t)PF_MIN(code, RX_MOST_CODE);
  }
  int letter = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  if ((uint8_t)c < 0x80 && !letter) return c;
  r->at--;
  int32_t code = rx_code(r->at, r->end, &n);
  r->at += n;
  if (code < 0x80) r->wrong = BAD_ESCAPE;
  return code;
}
static int32_t rx_literal(rx *r) {
  int n;
  int32_t code = rx_code(r->at, r->end, &n);
  if (code < 0) r->wrong = "invalid UTF-8";
  r->at += n;
  return PF_MAX(code, 0);
}

/* [...], r->at behind the bracket */
static int32_t rx_bracket(rx *r) {
  int32_t first = rx_range_count(r);
  int negated = r->at < r->end && *r->at == '^', any = 0;
  r->at += negated;
  while (!r->wrong && (r->at < r->end) && (*r->at != ']' || !any)) {
    any = 1;
    if (r->end - r->at > 1 && r->at[0] == '[' && r->at[1] == ':') {
      const char *p = rx_posix_class(r, r->at + 2);
      if (!p) r->wrong = "invalid character class range";
      else r->at = p;
      continue;
    }
    if (r->end - r->at > 1 && *r->at == '\\' && rx_perl_class(r, r->at[1])) {
      r->at += 2;
      continue;
    }
    if (*r->at == '\\' && (r->at++, rx_property(r) || (r->at--, 0))) continue;
    int32_t lo = *r->at == '\\' ? (r->at++, rx_escape(r)) : rx_literal(r), hi = lo;
    if (r->end - r->at > 1 && r->at[0] == '-' && r->at[1] != ']') {
      r->at++;
      hi = *r->at == '\\' ? (r->at++, rx_escape(r)) : rx_literal(r);
      if (hi < lo) r->wrong = "invalid character class range";
    }
    rx_add_folded(r, lo, hi);
  }
  if (r->at >= r->end) r->wrong = r->wrong ? r->wrong : "missing ]";
  else r->at++;
  if (negated && !r->wrong) rx_negate(r, first);
  else rx_tidy(r, first);
  return rx_node_add(r, (rx_node){N_SET, first, rx_range_count(r)});
}

static int32_t rx_alternation(rx *r);
/* flags of (?flags) or (?flags:, r->at behind the question mark; 1: a group follows */
static int rx_flags(rx *r) {
  int on = 1;
  for (; r->at < r->end && *r->at != ')' && *r->at != ':'; r->at++) {
    static const char names[] = "imsU";
    const char *known = *r->at ? strchr(names, *r->at) : NULL;
    int32_t bit = known ? 1 << (known - names) : 0;
    if (*r->at == '-' && on) on = 0;
    else if (!bit) {
      r->wrong = "invalid perl operator";
      return 0;
    } else r->flags = on ? r->flags | bit : r->flags & ~bit;
  }
  if (r->at >= r->end) r->wrong = "missing )";
  return r->at < r->end && *r->at++ == ':';
}
/* (...), r->at behind the parenthesis */
static int32_t rx_group(rx *r) {
  int32_t flags = r->flags, index = -1, inner;
  if (r->at < r->end && *r->at == '?') {
    r->at++;
    int named = r->end - r->at > 1 && r->at[0] == 'P' && r->at[1] == '<';
    if (named || (r->at < r->end && *r->at == '<')) {
      while (r->at < r->end && *r->at != '>') r->at++;
      if (r->at >= r->end) r->wrong = "invalid named capture group";
      else r->at++;
      index = ++r->groups;
    } else if (!rx_flags(r)) return rx_node_add(r, (rx_node){N_EMPTY}); /* for what follows */
  } else index = ++r->groups;
  inner = rx_alternation(r);
  r->flags = flags;
  if (r->at >= r->end || *r->at != ')') r->wrong = r->wrong ? r->wrong : "missing )";
  else r->at++;
  if (index < 0 || index >= RX_GROUPS) return inner;
  return rx_node_add(r, (rx_node){N_GROUP, inner, 0, index});
}
static int32_t rx_set_of(rx *r, int32_t lo, int32_t hi) {
  int32_t first = rx_range_count(r);
  rx_add_folded(r, lo, hi);
  rx_tidy(r, first);
  return rx_node_add(r, (rx_node){N_SET, first, rx_range_count(r)});
}
static int32_t rx_backslash(rx *r) {
  char c = r->at < r->end ? *r->at : 0;
  int32_t first = rx_range_count(r);
  int assertion = c == 'A'   ? RX_BEGIN
                  : c == 'z' ? RX_END
                  : c == 'b' ? RX_WORD
                  : c == 'B' ? RX_NOT_WORD
                             : 0;
  if (assertion) return r->at++, rx_node_add(r, (rx_node){N_ASSERT, assertion});
  if (rx_perl_class(r, c)) {
    r->at++;
    return rx_node_add(r, (rx_node){N_SET, first, rx_range_count(r)});
  }
  if (rx_property(r)) {
    rx_tidy(r, first);
    return rx_node_add(r, (rx_node){N_SET, first, rx_range_count(r)});
  }
  if (c == 'C') r->wrong = "\\C is not supported";
  int32_t code = rx_escape(r);
  return rx_set_of(r, code, code);
}
static int32_t rx_atom(rx *r) {
  int32_t first = rx_range_count(r);
  switch (*r->at) {
    case '(': {
      r->at++;
      if (++r->depth > RX_DEPTH) r->wrong = "expression nests too deeply";
      int32_t node = r->wrong ? 0 : rx_group(r);
      r->depth--;
      return node;
    }
    case '[': return r->at++, rx_bracket(r);
    case '.':
      r->at++;
      rx_add(r, 0, r->flags & RX_DOTALL ? RX_MOST_CODE : '\n' - 1);
      if (!(r->flags & RX_DOTALL)) rx_add(r, '\n' + 1, RX_MOST_CODE);
      return rx_node_add(r, (rx_node){N_SET, first, rx_range_count(r)});
    case '^':
    case '$': {
      int lines = r->flags & RX_MULTI, end = *r->at++ == '$';
      int what = lines ? end ? RX_LINE_END : RX_LINE_BEGIN : end ? RX_END : RX_BEGIN;
      return rx_node_add(r, (rx_node){N_ASSERT, what});
    }
    case '\\': return r->at++, rx_backslash(r);
    case '*':
    case '+':
    case '?': r->wrong = "no argument for repetition operator"; return 0;
    default: {
      int32_t code = rx_literal(r);
      return rx_set_of(r, code, code);
    }
  }
}
static int32_t rx_number(rx *r, const char **p) {
  int32_t n = -1;
  for (; *p < r->end && **p >= '0' && **p <= '9' && n < 100000; (*p)++)
    n = PF_MAX(n, 0) * 10 + **p - '0';
  return n;
}
/* {n}, {n,} or {n,m} at r->at; 0: a brace like any other character */
static int rx_counts(rx *r, int32_t *lo, int32_t *hi) {
  const char *p = r->at + 1;
  *lo = *hi = rx_number(r, &p);
  if (*lo < 0 || p == r->end) return 0;
  if (*p == ',') p++, *hi = rx_number(r, &p);
  if (p == r->end || *p != '}') return 0;
  r->at = p + 1;
  if (*lo > RX_REPEAT || *hi > RX_REPEAT || (*hi >= 0 && *hi < *lo))
    r->wrong = "bad repetition operator";
  return 1;
}
static int32_t rx_repetition(rx *r) {
  int32_t node = rx_atom(r);
  while (!r->wrong && r->at < r->end) {
    int32_t lo = 0, hi = -1;
    char c = *r->at;
    if (c == '*' || c == '+' || c == '?') r->at++, lo = c == '+', hi = c == '?' ? 1 : -1;
    else if (c != '{' || !rx_counts(r, &lo, &hi)) break;
    int lazy = r->at < r->end && *r->at == '?';
    r->at += lazy;
    node = rx_node_add(r, (rx_node){N_REPEAT, node, 0, lo, hi, lazy != !!(r->flags & RX_SWAP)});
    if (r->at < r->end && *r->at && strchr("*+?", *r->at)) r->wrong = "bad repetition operator";
  }
  return node;
}
static int32_t rx_quotation(rx *r) { /* \Q...\E as one node; r->at behind \Q */
  int32_t node = rx_node_add(r, (rx_node){N_EMPTY});
  while (!r->wrong && r->at < r->end) {
    if (r->end - r->at > 1 && r->at[0] == '\\' && r->at[1] == 'E') break;
    int32_t code = rx_literal(r);
    node = rx_node_add(r, (rx_node){N_CAT, node, rx_set_of(r, code, code)});
  }
  r->at += r->end - r->at > 1 ? 2 : r->end - r->at;
  return node;
}
static int32_t rx_sequence(rx *r) {
  int32_t node = rx_node_add(r, (rx_node){N_EMPTY});
  while (!r->wrong && r->at < r->end && *r->at != '|' && *r->at != ')') {
    int quotes = r->end - r->at > 1 && r->at[0] == '\\' && r->at[1] == 'Q';
    int32_t next = quotes ? (r->at += 2, rx_quotation(r)) : rx_repetition(r);
    node = rx_node_add(r, (rx_node){N_CAT, node, next});
  }
  return node;
}
static int32_t rx_alternation(rx *r) {
  int32_t node = rx_sequence(r);
  while (!r->wrong && r->at < r->end && *r->at == '|') {
    r->at++;
    int32_t next = rx_sequence(r);
    node = rx_node_add(r, (rx_node){N_ALT, node, next});
  }
  return node;
}
#include "strings/regex_run.h"
#endif
