/* regex_dfa.h - where an expression matches, by a deterministic automaton made on the way.
 *
 * Method: subset construction (Rabin and Scott, 1959), a state when it is first reached.  A state
 * is the list of threads that Pike's simulation (regex_run.h) would have, in order of preference,
 * up to the first that has matched: so the last accepting state on the way from a start is the
 * match the simulation would find from there.  Captures, once the place is known: short matches are
 * walked in order of preference, each instruction once at each place (Cox's bounded backtracking);
 * long ones are the simulation's.
 *
 * A run that finds nothing is work for nothing.  A text has a `budget` of such work; when it is
 * spent, or the states do not suffice, or the expression asserts something, the answer is
 * RX_UNKNOWN and the simulation takes over: time stays bounded by text times pattern.
 *
 * Threads: an automaton belongs to one call.
 */
#ifndef PF_CPU_REGEX_DFA_H
#define PF_CPU_REGEX_DFA_H
#include "strings/regex.h"

enum { RX_PLACES = 4096 }; /* instructions by places that a walk visits */
enum { RX_STATES = 96, RX_DFA_OPS = 256, RX_DEAD = 0, RX_START = 1, RX_UNKNOWN = -1 };
typedef struct {
  int16_t next[128];      /* by ASCII character; RX_UNKNOWN: not made yet */
  int32_t n;              /* threads */
  uint8_t accepts, stops; /* a match ends here; no character leads on */
} rx_state;
typedef struct {
  int32_t op;
  const char *p;
} rx_visit; /* op < 0: slot -1 - op was p */
typedef struct {
  const rx *r;
  int32_t whole, n, step; /* whole: matches of all the text; n: states */
  int64_t budget;
  rx_state *states;                /* NULL: no automaton */
  int32_t *threads, *stack, *mark; /* those of state k from k * r->n on */
  rx_visit *visits;                /* NULL: no captures wanted */
  uint64_t visited[RX_PLACES / 64];
} rx_dfa;

/* the threads `op` leads to without reading, behind the n of `list`; `full`: one has matched */
static int32_t rx_dfa_follow(rx_dfa *a, int32_t op, int32_t *list, int32_t n, int *full) {
  int32_t top = 0;
  a->stack[top++] = op;
  while (top && !*full) {
    op = a->stack[--top];
    if (a->mark[op] == a->step) continue;
    a->mark[op] = a->step;
    const rx_op *x = &a->r->ops[op];
    switch (x->kind) {
      case RX_JUMP: a->stack[top++] = x->a; break;
      case RX_SPLIT:
        a->stack[top++] = x->b;
        a->stack[top++] = x->a;
        break;
      case RX_SAVE: a->stack[top++] = op + 1; break;
      default: list[n++] = op; *full = x->kind == RX_MATCH && !a->whole;
    }
  }
  return n;
}
/* the state of the n threads that lie where the next state's would */
static int32_t rx_dfa_state(rx_dfa *a, int32_t n) {
  const int32_t *list = a->threads + (int64_t)a->n * a->r->n;
  for (int32_t k = 0; k < a->n; k++)
    if (a->states[k].n == n &&
        !memcmp(a->threads + (int64_t)k * a->r->n, list, (size_t)n * sizeof *list))
      return k;
  if (a->n == RX_STATES) return RX_UNKNOWN;
  rx_state *s = &a->states[a->n];
  *s = (rx_state){.n = n, .stops = 1};
  for (int32_t i = 0; i < n; i++) {
    if (a->r->ops[list[i]].kind == RX_MATCH) s->accepts = 1;
    else s->stops = 0;
  }
  memset(s->next, 0xff, sizeof s->next);
  return a->n++;
}
static int32_t rx_dfa_step(rx_dfa *a, int32_t state, int32_t code) {
  const int32_t *from = a->threads + (int64_t)state * a->r->n;
  int32_t *list = a->threads + (int64_t)a->n * a->r->n, n = 0;
  int full = 0;
  if (a->step == INT32_MAX) return RX_UNKNOWN; /* marks would come again */
  a->step++;
  for (int32_t i = 0; i < a->states[state].n && !full; i++) {
    const rx_op *x = &a->r->ops[from[i]];
    if (x->kind == RX_SET && code >= 0 && rx_accepts(a->r, x, code))
      n = rx_dfa_follow(a, from[i] + 1, list, n, &full);
  }
  int32_t next = rx_dfa_state(a, n);
  if (code >= 0 && code < 128) a->states[state].next[code] = (int16_t)next;
  return next;
}
/* 0: out of memory */
static int rx_dfa_open(pf_ctx *c, rx_dfa *a, const rx *r, int whole, int slots) {
  *a = (rx_dfa){.r = r, .whole = whole};
  if (r->n > RX_DFA_OPS) return 1;
  for (int32_t i = 0; i < r->n; i++)
    if (r->ops[i].kind == RX_ASSERT) return 1;
  uint64_t ints = (uint64_t)r->n * (RX_STATES + 1) + 3 * (uint64_t)r->n + 16;
  rx_state *states = c->host->scratch(c, RX_STATES * sizeof *states, 64);
  a->threads = c->host->scratch(c, ints * 4, 64);
  if (slots > 2) a->visits = c->host->scratch(c, (2 * RX_PLACES + 1) * sizeof *a->visits, 64);
  if (!states || !a->threads || (slots > 2 && !a->visits)) return 0;
  a->mark = a->threads + (int64_t)r->n * (RX_STATES + 1);
  a->stack = a->mark + r->n; /* a thread pushes two at most, each once: 2 n and one */
  memset(a->mark, 0, (size_t)r->n * 4);
  a->states = states;
  int full = 0;
  rx_dfa_state(a, 0);
  a->step++;
  rx_dfa_state(a, rx_dfa_follow(a, 0, a->threads + r->n, 0, &full));
  return 1;
}
static void rx_dfa_text(rx_dfa *a, int64_t len) { a->budget = 4 * len + 256; }
/* the end of the match from p on, NULL: none; *at: where the run ended, NULL there: unknown */
static const char *rx_dfa_run(rx_dfa *a, const char *p, const char *end, const char **at) {
  int32_t k = RX_START;
  const char *last = a->states[k].accepts ? p : NULL;
  while (p < end && !a->states[k].stops) {
    int n = 1, c = (uint8_t)*p, next = c < 128 ? a->states[k].next[c] : RX_UNKNOWN;
    if (next < 0) {
      next = rx_dfa_step(a, k, rx_code(p, end, &n));
      if (next < 0) return *at = NULL;
    }
    k = next;
    p += n;
    if (a->states[k].accepts) last = p;
  }
  *at = p;
  if (a->whole) return p == end && a->states[k].accepts ? p : NULL;
  return last;
}
/* the first match from p on: 1 and its bounds; 0: there is none; RX_UNKNOWN: go on from *from */
static int rx_dfa_find(rx_dfa *a, const char *p, const char *end, const char **from,
                       const char **to) {
  const char *at;
  for (;; p++) {
    const int16_t *next = a->states[RX_START].next;
    if (!a->states[RX_START].accepts) {
      while (p < end && (uint8_t)*p < 128 && next[(uint8_t)*p] == RX_DEAD) p++;
      if (p == end) return 0;
    }
    *from = p;
    *to = rx_dfa_run(a, p, end, &at);
    if (!at) return a->states = NULL, RX_UNKNOWN;
    a->budget -= at - (*to ? *to : p);
    if (*to) return 1;
    if (a->budget < 0) return RX_UNKNOWN;
    if (p == end) return 0;
  }
}
/* the slots of the match from `from` to `to`; 0: too long */
static int rx_walk(rx_dfa *a, rx_search *s, const char *from, const char *to) {
  int64_t width = to - from + 1, top = 0;
  if (!a->visits || width > RX_PLACES / a->r->n) return 0;
  memset(a->visited, 0, (size_t)((width * a->r->n + 63) / 64) * 8);
  memset(s->found, 0, (size_t)s->slots * sizeof *s->found);
  a->visits[top++] = (rx_visit){0, from};
  while (top) {
    rx_visit v = a->visits[--top];
    if (v.op < 0) {
      s->found[-1 - v.op] = v.p;
      continue;
    }
    int64_t bit = v.op * width + (v.p - from);
    if (a->visited[bit >> 6] >> (bit & 63) & 1) continue;
    a->visited[bit >> 6] |= (uint64_t)1 << (bit & 63);
    const rx_op *x = &a->r->ops[v.op];
    int n = 1;
    switch (x->kind) {
      case RX_JUMP: a->visits[top++] = (rx_visit){x->a, v.p}; break;
      case RX_SPLIT:
        a->visits[top++] = (rx_visit){x->b, v.p};
        a->visits[top++] = (rx_visit){x->a, v.p};
        break;
      case RX_SAVE:
        if (x->a < s->slots) {
          a->visits[top++] = (rx_visit){-1 - x->a, s->found[x->a]};
          s->found[x->a] = v.p;
        }
        a->visits[top++] = (rx_visit){v.op + 1, v.p};
        break;
      case RX_SET:
        if (v.p < to && rx_accepts(a->r, x, rx_code(v.p, to, &n)))
          a->visits[top++] = (rx_visit){v.op + 1, v.p + n};
        break;
      default: s->found[0] = from, s->found[1] = v.p; return 1;
    }
  }
  return 0;
}
/* as rx_find, by the automaton where it can */
static int rx_first(rx_dfa *a, rx_search *s, const char *p) {
  const char *to;
  if (!a->states || a->budget < 0) return rx_find(s, p, 0);
  int found = rx_dfa_find(a, p, s->end, &p, &to);
  if (!found) return 0;
  if (found < 0 || (s->slots > 2 && !rx_walk(a, s, p, to))) return rx_find(s, p, 0);
  if (s->slots == 2) s->found[0] = p, s->found[1] = to;
  return 1;
}
static int rx_is_match(rx_dfa *a, rx_search *s) {
  const char *at;
  if (!a->states) return rx_find(s, s->text, 1);
  int matched = rx_dfa_run(a, s->text, s->end, &at) != NULL;
  if (at) return matched;
  a->states = NULL;
  return rx_find(s, s->text, 1);
}
#endif
