/* regex_run.h - the second half of regex.h: tree to program, and the search. */
#ifndef PF_CPU_REGEX_RUN_H
#define PF_CPU_REGEX_RUN_H

/* ---------------------------------------------------------------- tree -> program */
static int32_t rx_emit(rx *r, int32_t kind, int32_t a, int32_t b) {
  rx_op op = {kind, a, b};
  if (r->n >= RX_MOST) {
    r->wrong = r->wrong ? r->wrong : "pattern too large - compile failed";
    return 0;
  }
  pf_bytes_add(&r->code, (const char *)&op, sizeof op);
  r->ops = (rx_op *)r->code.data;
  if (r->code.failed) r->wrong = "out of memory";
  return r->n++;
}
static void rx_compile(rx *r, int32_t node, int depth);
/* x*: L: split body, end; body; jump L */
static void rx_star(rx *r, int32_t node, int lazy, int depth) {
  int32_t split = rx_emit(r, RX_SPLIT, 0, 0);
  rx_compile(r, node, depth);
  rx_emit(r, RX_JUMP, split, 0);
  if (r->wrong) return;
  r->ops[split].a = lazy ? r->n : split + 1;
  r->ops[split].b = lazy ? split + 1 : r->n;
}
/* x+: L: body; split L, end */
static void rx_plus(rx *r, int32_t node, int lazy, int depth) {
  int32_t body = r->n, split;
  rx_compile(r, node, depth);
  split = rx_emit(r, RX_SPLIT, 0, 0);
  if (r->wrong) return;
  r->ops[split].a = lazy ? r->n : body;
  r->ops[split].b = lazy ? body : r->n;
}
/* x* of an x that may be empty, as RE2 takes it: (x+)?, so that x preferring nothing ends it */
static void rx_maybe_plus(rx *r, int32_t node, int lazy, int depth) {
  int32_t split = rx_emit(r, RX_SPLIT, 0, 0);
  rx_plus(r, node, lazy, depth);
  if (r->wrong) return;
  r->ops[split].a = lazy ? r->n : split + 1;
  r->ops[split].b = lazy ? split + 1 : r->n;
}
static void rx_repeat(rx *r, const rx_node *x, int depth) {
  int32_t chain = -1, end; /* the splits, each naming the one before */
  int32_t once = x->hi < 0 && x->lo > 0 ? x->lo - 1 : x->lo;
  for (int32_t i = 0; i < once && !r->wrong; i++) rx_compile(r, x->a, depth);
  if (x->hi < 0) {
    int empty = ((const rx_node *)r->nodes.data)[x->a].empty;
    if (r->wrong) return;
    if (x->lo > 0) rx_plus(r, x->a, x->lazy, depth);
    else if (empty) rx_maybe_plus(r, x->a, x->lazy, depth);
    else rx_star(r, x->a, x->lazy, depth);
    return;
  }
  for (int32_t i = x->lo; i < x->hi && !r->wrong; i++) {
    chain = rx_emit(r, RX_SPLIT, chain, 0);
    rx_compile(r, x->a, depth);
  }
  end = r->n;
  while (chain >= 0 && !r->wrong) {
    rx_op *split = &r->ops[chain];
    int32_t body = chain + 1;
    chain = split->a;
    split->a = x->lazy ? end : body;
    split->b = x->lazy ? body : end;
  }
}
/* x y z, or x | y | z: left-deep chains, from the first on */
static void rx_parts(rx *r, const int32_t *parts, int32_t *jumps, int32_t count, int depth) {
  for (int32_t i = 0; i <= count && !r->wrong; i++) {
    int32_t split = jumps && i < count ? rx_emit(r, RX_SPLIT, r->n + 1, 0) : -1;
    rx_compile(r, parts[i], depth);
    if (split < 0 || r->wrong) continue;
    jumps[i] = rx_emit(r, RX_JUMP, 0, 0);
    if (!r->wrong) r->ops[split].b = r->n;
  }
  for (int32_t i = 0; i < count && jumps && !r->wrong; i++) r->ops[jumps[i]].a = r->n;
}
static void rx_chain(rx *r, int32_t node, int depth) {
  const rx_node *nodes = (const rx_node *)r->nodes.data;
  int32_t kind = nodes[node].kind, count = 0, at = node;
  while (nodes[at].kind == kind) at = nodes[at].a, count++;
  int32_t *parts = malloc((size_t)(count + 1) * sizeof *parts);
  int32_t *jumps = kind == N_ALT ? malloc((size_t)(count + 1) * sizeof *jumps) : NULL;
  if (!parts || (kind == N_ALT && !jumps)) r->wrong = "out of memory";
  else {
    parts[0] = at;
    for (int32_t i = count, p = node; i > 0; i--, p = nodes[p].a) parts[i] = nodes[p].b;
    rx_parts(r, parts, jumps, count, depth);
  }
  free(parts);
  free(jumps);
}
static void rx_compile(rx *r, int32_t node, int depth) {
  if (depth > 4 * RX_DEPTH) r->wrong = "expression nests too deeply";
  if (++r->work > 100 * RX_MOST) r->wrong = "pattern too large - compile failed";
  if (r->wrong) return;
  rx_node x = ((const rx_node *)r->nodes.data)[node];
  switch (x.kind) {
    case N_SET: rx_emit(r, RX_SET, x.a, x.b); break;
    case N_ASSERT: rx_emit(r, RX_ASSERT, x.a, 0); break;
    case N_REPEAT: rx_repeat(r, &x, depth + 1); break;
    case N_GROUP:
      rx_emit(r, RX_SAVE, 2 * x.lo, 0);
      rx_compile(r, x.a, depth + 1);
      rx_emit(r, RX_SAVE, 2 * x.lo + 1, 0);
      break;
    case N_CAT:
    case N_ALT: rx_chain(r, node, depth + 1);
  }
}

static void rx_free(rx *r) {
  pf_bytes_free(&r->code);
  pf_bytes_free(&r->ranges);
  pf_bytes_free(&r->nodes);
}
/* NULL, or what is wrong; rx_free afterwards either way */
static const char *rx_make(rx *r, pf_str pattern) {
  *r = (rx){.at = pattern.data, .end = pattern.data + pattern.len};
  int32_t node = rx_alternation(r);
  if (!r->wrong && r->at < r->end) r->wrong = "unexpected )";
  if (!r->wrong && (r->ranges.failed || r->nodes.failed)) r->wrong = "out of memory";
  if (!r->wrong) rx_compile(r, node, 0);
  rx_emit(r, RX_MATCH, 0, 0);
  return r->wrong;
}

/* ---------------------------------------------------------------- the search */
typedef struct {
  int32_t op;
  int32_t pad;
  const char *slot[RX_SLOTS];
} rx_thread;
typedef struct {
  rx_thread *threads;
  int32_t n;
} rx_list;
typedef struct {
  const rx *r;
  const char *text, *end;
  rx_list now, next;
  int64_t *mark, step; /* the step at which an instruction was last added */
  int32_t *stack;
  const char **saved;
  int slots; /* how many are kept */
  const char *found[RX_SLOTS];
} rx_search;

static int rx_is_word(const rx_search *s, const char *p) {
  if (p < s->text || p >= s->end) return 0;
  char c = *p;
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}
static int rx_holds(const rx_search *s, int32_t what, const char *p) {
  switch (what) {
    case RX_BEGIN: return p == s->text;
    case RX_END: return p == s->end;
    case RX_LINE_BEGIN: return p == s->text || p[-1] == '\n';
    case RX_LINE_END: return p == s->end || *p == '\n';
    default: return (rx_is_word(s, p - 1) != rx_is_word(s, p)) == (what == RX_WORD);
  }
}
/* adds op and what it leads to without reading, in order of preference; slots are restored through
 * stack entries -1 - slot */
static void rx_follow(rx_search *s, rx_list *list, int32_t op, const char **slot, const char *p) {
  int32_t top = 0, kept = 0;
  s->stack[top++] = op;
  while (top) {
    op = s->stack[--top];
    if (op < 0) {
      slot[-1 - op] = s->saved[--kept];
      continue;
    }
    if (s->mark[op] == s->step) continue;
    s->mark[op] = s->step;
    rx_op x = s->r->ops[op];
    switch (x.kind) {
      case RX_JUMP: s->stack[top++] = x.a; break;
      case RX_SPLIT:
        s->stack[top++] = x.b;
        s->stack[top++] = x.a;
        break;
      case RX_ASSERT:
        if (rx_holds(s, x.a, p)) s->stack[top++] = op + 1;
        break;
      case RX_SAVE:
        if (x.a < s->slots) {
          s->saved[kept++] = slot[x.a];
          s->stack[top++] = -1 - x.a;
          slot[x.a] = p;
        }
        s->stack[top++] = op + 1;
        break;
      default: {
        rx_thread *t = &list->threads[list->n++];
        t->op = op;
        memcpy(t->slot, slot, (size_t)s->slots * sizeof *slot);
      }
    }
  }
}
static int rx_accepts(const rx *r, const rx_op *x, int32_t code) {
  const rx_range *set = (const rx_range *)r->ranges.data;
  int32_t a = x->a, b = x->b; /* a set of several ranges has them in order */
  while (a < b) {
    int32_t m = a + (b - a) / 2;
    if (code < set[m].lo) b = m;
    else if (code > set[m].hi) a = m + 1;
    else return 1;
  }
  return 0;
}
/* the first match from `p` on (or, `whole`: of all from p to the end) to s->found; 0: none */
static int rx_find(rx_search *s, const char *p, int whole) {
  int matched = 0;
  s->now.n = 0;
  for (s->step += 2;; s->step++) { /* s->step marks what is in `now` at p */
    if (!matched && (!whole || s->now.n == 0)) {
      const char *slot[RX_SLOTS] = {p};
      int start = !whole || p == s->text;
      if (start) rx_follow(s, &s->now, 0, slot, p);
    }
    if (s->now.n == 0 && (matched || whole)) break;
    int n = 1;
    int32_t code = p < s->end ? rx_code(p, s->end, &n) : -1;
    s->next.n = 0;
    s->step++;
    for (int32_t i = 0; i < s->now.n; i++) {
      rx_thread *t = &s->now.threads[i];
      const rx_op *x = &s->r->ops[t->op];
      if (x->kind == RX_MATCH) {
        if (whole && p != s->end) continue;
        memcpy(s->found, t->slot, (size_t)s->slots * sizeof *s->found);
        s->found[1] = p;
        matched = 1;
        break; /* the threads behind are less preferred */
      }
      if (code >= 0 && rx_accepts(s->r, x, code)) rx_follow(s, &s->next, t->op + 1, t->slot, p + n);
    }
    rx_list old = s->now;
    s->now = s->next, s->next = old;
    s->step--; /* what was followed belongs to the next round */
    if (p >= s->end) break;
    p += n;
  }
  return matched;
}
/* 0: out of memory */
static int rx_open(pf_ctx *c, rx_search *s, const rx *r, int slots) {
  *s = (rx_search){.r = r, .slots = slots};
  s->now.threads = c->host->scratch(c, (uint64_t)(r->n + 1) * sizeof(rx_thread), 64);
  s->next.threads = c->host->scratch(c, (uint64_t)(r->n + 1) * sizeof(rx_thread), 64);
  s->mark = c->host->scratch(c, (uint64_t)(r->n + 1) * 8, 64);
  s->saved = c->host->scratch(c, (uint64_t)(r->n + 1) * sizeof *s->saved, 64);
  s->stack = c->host->scratch(c, (uint64_t)(4 * r->n + 16) * 4, 64);
  if (!s->now.threads || !s->next.threads || !s->mark || !s->saved || !s->stack) return 0;
  memset(s->mark, 0, (size_t)(r->n + 1) * 8);
  return 1;
}
#endif
