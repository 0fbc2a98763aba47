/* forest.c - trees checked and laid out (forest.h).
 *
 * The arrays come from files that nobody vouches for: check_parts looks at lengths and numbers,
 * find_cycle at ways, and only then is anything followed.  Nodes may be shared between trees; each
 * tree gets its own copy, within UNFOLDED.
 *
 * Threads: any; all memory is the caller's own.
 */
#include <stdlib.h>
#include "trees/forest.h"

enum { MAX_TARGETS = 1 << 20 };
/* Nodes of a made forest, at most. */
#define UNFOLDED(nodes, leaves) (4 * ((nodes) + (leaves)) + 65536)

/* the op's arrays */
typedef struct {
  const int32_t *roots, *nodes, *leaves, *targets;
  const void *splits, *weights, *members, *base;
  int64_t n_roots, n_nodes, n_leaves, n_weights, n_members, n_base;
  int32_t type, n_targets;
} parts_of;

static double number_at(const void *p, int32_t type, int64_t i) {
  return type == PF_FLOAT64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
PF_INLINE int32_t column(const parts_of *p, int64_t node, int column_) {
  return p->nodes[node * PF_NODE_COLUMNS + column_];
}

/* ---------------------------------------------------------------- checks */
static pf_status check_lengths(pf_ctx *c, const DLTensor *const parts[], parts_of *p) {
  static const char *const names[PF_PARTS] = {"roots",   "nodes",   "splits",  "leaves",
                                              "targets", "weights", "members", "base_values"};
  for (int i = 0; i < PF_PARTS; i++) {
    int32_t rank = i == PF_PART_NODES ? 2 : 1;
    if (parts[i]->ndim != rank)
      return PF_INVALID(c, "%s must have rank %d, got shape %s", names[i], rank,
                        PF_SHAPE(parts[i]).s);
  }
  const DLTensor *nodes = parts[PF_PART_NODES], *leaves = parts[PF_PART_LEAVES];
  if (nodes->shape[1] != PF_NODE_COLUMNS || parts[PF_PART_SPLITS]->shape[0] != nodes->shape[0])
    return PF_INVALID(c, "nodes must be [n,%d] for n splits, got shapes %s and %s", PF_NODE_COLUMNS,
                      PF_SHAPE(nodes).s, PF_SHAPE(parts[PF_PART_SPLITS]).s);
  if (leaves->shape[0] < 1 || parts[PF_PART_TARGETS]->shape[0] != parts[PF_PART_WEIGHTS]->shape[0])
    return PF_INVALID(c,
                      "leaves must have one element more than there are leaves, and as many "
                      "targets as weights must be given; got shapes %s, %s and %s",
                      PF_SHAPE(leaves).s, PF_SHAPE(parts[PF_PART_TARGETS]).s,
                      PF_SHAPE(parts[PF_PART_WEIGHTS]).s);
  *p = (parts_of){.roots = PF_DATA(const int32_t, parts[PF_PART_ROOTS]),
                  .nodes = PF_DATA(const int32_t, nodes),
                  .leaves = PF_DATA(const int32_t, leaves),
                  .targets = PF_DATA(const int32_t, parts[PF_PART_TARGETS]),
                  .splits = PF_DATA(const void, parts[PF_PART_SPLITS]),
                  .weights = PF_DATA(const void, parts[PF_PART_WEIGHTS]),
                  .members = PF_DATA(const void, parts[PF_PART_MEMBERS]),
                  .base = PF_DATA(const void, parts[PF_PART_BASE]),
                  .n_roots = parts[PF_PART_ROOTS]->shape[0],
                  .n_nodes = nodes->shape[0],
                  .n_leaves = leaves->shape[0] - 1,
                  .n_weights = parts[PF_PART_WEIGHTS]->shape[0],
                  .n_members = parts[PF_PART_MEMBERS]->shape[0],
                  .n_base = parts[PF_PART_BASE]->shape[0]};
  if (p->n_nodes + p->n_leaves > INT32_MAX / 8)
    return PF_INVALID(c, "%" PRId64 " nodes and %" PRId64 " leaves are more than trees can have",
                      p->n_nodes, p->n_leaves);
  return PF_OK;
}

#define OUTSIDE(what, i, value, limit) \
  PF_INVALID(c, "%s of node %" PRId64 " is %d, expected a number in [0, %" PRId64 ")", what, \
             (int64_t)(i), value, (int64_t)(limit))
static pf_status check_nodes(pf_ctx *c, const parts_of *p) {
  const int64_t all = p->n_nodes + p->n_leaves;
  for (int64_t i = 0; i < p->n_nodes; i++) {
    const int32_t feature = column(p, i, PF_NODE_FEATURE), mode = column(p, i, PF_NODE_MODE);
    const int32_t t = column(p, i, PF_NODE_TRUE), f = column(p, i, PF_NODE_FALSE);
    const int32_t m = column(p, i, PF_NODE_MEMBERS);
    if (feature < 0 || feature == INT32_MAX) return OUTSIDE("the feature", i, feature, INT32_MAX);
    if (mode < 0 || mode > PF_BRANCH_MEMBER)
      return OUTSIDE("the mode", i, mode, PF_BRANCH_MEMBER + 1);
    if (t < 0 || t >= all) return OUTSIDE("the true child", i, t, all);
    if (f < 0 || f >= all) return OUTSIDE("the false child", i, f, all);
    if (mode == PF_BRANCH_MEMBER && (m < 0 || m > p->n_members))
      return OUTSIDE("the list of members", i, m, p->n_members + 1);
  }
  return PF_OK;
}

static pf_status check_parts(pf_ctx *c, const parts_of *p) {
  PF_TRY(check_nodes(c, p));
  for (int64_t i = 0; i < p->n_roots; i++)
    if (p->roots[i] < 0 || p->roots[i] >= p->n_nodes + p->n_leaves)
      return PF_INVALID(c, "root %" PRId64 " is node %d, expected a number in [0, %" PRId64 ")", i,
                        p->roots[i], p->n_nodes + p->n_leaves);
  for (int64_t i = 0; i <= p->n_leaves; i++)
    if (p->leaves[i] < (i ? p->leaves[i - 1] : 0) || p->leaves[i] > p->n_weights)
      return PF_INVALID(c,
                        "leaves[%" PRId64 "] is %d: expected numbers that ascend to %" PRId64
                        ", the number of weights",
                        i, p->leaves[i], p->n_weights);
  for (int64_t i = 0; i < p->n_weights; i++)
    if (p->targets[i] < 0 || p->targets[i] >= p->n_targets)
      return PF_INVALID(c, "weight %" PRId64 " is for target %d, expected a number in [0, %d)", i,
                        p->targets[i], p->n_targets);
  return PF_OK;
}

/* A way that comes back to itself.  seen: 0 unknown, 1 on the way, 2 done; `way`: room for the
 * nodes and which child comes next. */
static pf_status find_cycle(pf_ctx *c, const parts_of *p) {
  pf_status status = PF_OK;
  uint8_t *seen = calloc((size_t)p->n_nodes + 1, 1);
  int32_t *way = malloc(sizeof *way * (size_t)(p->n_nodes + 1));
  uint8_t *next = malloc((size_t)p->n_nodes + 1);
  if (!seen || !way || !next)
    status = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to check the trees");
  for (int64_t r = 0; r < p->n_nodes && !status; r++) {
    if (seen[r]) continue;
    int64_t depth = 0;
    way[0] = (int32_t)r, next[0] = 0, seen[r] = 1;
    while (depth >= 0 && !status) {
      int32_t at = way[depth];
      if (next[depth] == 2) {
        seen[at] = 2, depth--;
        continue;
      }
      int32_t child = column(p, at, next[depth]++ ? PF_NODE_FALSE : PF_NODE_TRUE);
      if (child >= p->n_nodes || seen[child] == 2) continue;
      if (seen[child] == 1)
        status = PF_INVALID(c, "the trees have a cycle: node %d is below itself", child);
      else way[++depth] = child, next[depth] = 0, seen[child] = 1;
    }
  }
  free(seen), free(way), free(next);
  return status;
}

/* ---------------------------------------------------------------- layout */
/* A node of the parts that goes to `slot`. */
typedef struct {
  int32_t node, depth;
  int64_t slot;
} waiting;
typedef struct {
  pf_ctx *c;
  const parts_of *p;
  pf_forest *f;
  int64_t room; /* nodes that f's arrays hold */
  waiting *stack;
  int64_t stack_room;
} maker;

static pf_status no_memory(pf_ctx *c) {
  return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the trees");
}
static int grow(void *array, size_t size, int64_t n) {
  void **at = array, *more = realloc(*at, size * (size_t)n);
  if (more) *at = more;
  return more != NULL;
}
static size_t node_size(const pf_forest *f) {
  if (f->type == PF_FLOAT64) return sizeof(pf_tree_double);
  return f->narrow ? sizeof(pf_tree_narrow) : sizeof(pf_tree_wide);
}

static pf_status reserve(maker *m, int64_t n) {
  pf_forest *f = m->f;
  if (n <= m->room) return PF_OK;
  const int64_t most = UNFOLDED(m->p->n_nodes, m->p->n_leaves);
  if (n > most)
    return PF_INVALID(m->c, "the trees share nodes so often that apart they have over %" PRId64,
                      most);
  int64_t room = PF_MAX(n, m->room * 2), size = pf_type_size(f->type);
  if (!grow(&f->nodes, sizeof(pf_tree_double), room) || !grow(&f->value, (size_t)size, room) ||
      !grow(&f->leaf, sizeof *f->leaf, room) || (f->mode && !grow(&f->mode, 1, room)) ||
      (f->member && !grow(&f->member, sizeof *f->member, room)))
    return no_memory(m->c);
  m->room = room;
  return PF_OK;
}

static void put_node(pf_forest *f, int64_t slot, double split, uint32_t feature, uint32_t child,
                     int nan_true) {
  const uint32_t wide = feature | (nan_true ? PF_TREE_WIDE_NAN : 0);
  if (f->type == PF_FLOAT64)
    ((pf_tree_double *)f->nodes)[slot] = (pf_tree_double){split, wide, child};
  else if (f->narrow)
    ((pf_tree_narrow *)f->nodes)[slot] = (pf_tree_narrow){
      (float)split, (uint16_t)(feature | (nan_true ? PF_TREE_NARROW_NAN : 0)), (uint16_t)child};
  else ((pf_tree_wide *)f->nodes)[slot] = (pf_tree_wide){(float)split, wide, child};
}

static int is_exchanged(int32_t mode) { return mode == PF_BRANCH_GTE || mode == PF_BRANCH_GT; }

/* The largest number below `split`, of the forest's type: x < split is x <= that; NaN, which
 * nothing is below, where there is none. */
static double below(const pf_forest *f, double split) {
  if (split == -INFINITY) return NAN;
  if (f->type == PF_FLOAT64) return nextafter(split, -INFINITY);
  return nextafterf((float)split, -INFINITY);
}

static void put_leaf(maker *m, pf_tree *tree, int64_t slot, int32_t leaf) {
  pf_forest *f = m->f;
  const int32_t from = m->p->leaves[leaf], to = m->p->leaves[leaf + 1];
  put_node(f, slot, NAN, 0, (uint32_t)(slot - tree->first), 0);
  if (f->mode) f->mode[slot] = PF_BRANCH_LEQ;
  f->leaf[slot] = leaf;
  if (f->type == PF_FLOAT64) ((double *)f->value)[slot] = 0;
  else ((float *)f->value)[slot] = 0;
  if (to - from != 1) {
    tree->target = -1;
    return;
  }
  if (tree->target == -2) tree->target = m->p->targets[from];
  if (tree->target != m->p->targets[from]) tree->target = -1;
  if (f->type == PF_FLOAT64) ((double *)f->value)[slot] = number_at(m->p->weights, f->type, from);
  else ((float *)f->value)[slot] = ((const float *)m->p->weights)[from];
}

/* An inner node, its children at `pair`; they wait on the stack. */
static void put_inner(maker *m, const pf_tree *tree, const waiting *w, int64_t pair, int64_t *top) {
  pf_forest *f = m->f;
  const int32_t mode = column(m->p, w->node, PF_NODE_MODE);
  int nan_true = column(m->p, w->node, PF_NODE_MISSING) != 0;
  int32_t on_true = column(m->p, w->node, PF_NODE_TRUE);
  int32_t on_false = column(m->p, w->node, PF_NODE_FALSE);
  double split = number_at(m->p->splits, f->type, w->node);
  if (f->mode) {
    f->mode[w->slot] = (uint8_t)(mode | (nan_true ? PF_MIXED_NAN : 0));
    f->member[w->slot] = mode == PF_BRANCH_MEMBER ? column(m->p, w->node, PF_NODE_MEMBERS) : 0;
  } else {
    if (mode == PF_BRANCH_LT || mode == PF_BRANCH_GTE) split = below(f, split);
    if (is_exchanged(mode)) {
      int32_t t = on_true;
      on_true = on_false, on_false = t, nan_true = !nan_true;
    }
  }
  put_node(f, w->slot, split, (uint32_t)column(m->p, w->node, PF_NODE_FEATURE),
           (uint32_t)(pair - tree->first), f->kind == PF_TREES_MISSING && nan_true);
  f->leaf[w->slot] = -1;
  m->stack[(*top)++] = (waiting){on_true, w->depth + 1, pair + 1};
  m->stack[(*top)++] = (waiting){on_false, w->depth + 1, pair};
}

static pf_status put_tree(maker *m, pf_tree *tree, int32_t root) {
  pf_forest *f = m->f;
  int64_t top = 0;
  *tree = (pf_tree){.first = f->count, .least = INT32_MAX, .most = 0, .target = -2};
  PF_TRY(reserve(m, f->count + 1));
  m->stack[top++] = (waiting){root, 0, f->count++};
  while (top) {
    waiting w = m->stack[--top];
    if (w.node >= m->p->n_nodes) {
      put_leaf(m, tree, w.slot, w.node - (int32_t)m->p->n_nodes);
      tree->least = PF_MIN(tree->least, w.depth), tree->most = PF_MAX(tree->most, w.depth);
      continue;
    }
    int64_t pair = f->count;
    f->count += 2;
    PF_TRY(reserve(m, f->count));
    if (top + 2 > m->stack_room) {
      m->stack_room *= 2;
      if (!grow(&m->stack, sizeof *m->stack, m->stack_room)) return no_memory(m->c);
    }
    put_inner(m, tree, &w, pair, &top);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- what is known of all of it */
static void choose_kind(const parts_of *p, pf_forest *f) {
  int missing = 0, mixed = 0;
  int64_t features = 0;
  for (int64_t i = 0; i < p->n_nodes; i++) {
    const int32_t mode = column(p, i, PF_NODE_MODE), exchanged = is_exchanged(mode);
    const double split = number_at(p->splits, f->type, i);
    missing |= (column(p, i, PF_NODE_MISSING) != 0) != exchanged;
    /* x > NaN is false, and so is x <= NaN */
    mixed |= mode > PF_BRANCH_GT || (exchanged && split != split);
    features = PF_MAX(features, (int64_t)column(p, i, PF_NODE_FEATURE) + 1);
  }
  f->features = features;
  f->kind = mixed ? PF_TREES_MIXED : missing ? PF_TREES_MISSING : PF_TREES_PLAIN;
  f->narrow = f->type == PF_FLOAT32 && !mixed && features < (int64_t)PF_TREE_NARROW_NAN;
}

static int64_t nodes_of(const pf_forest *f, int64_t t) {
  return (t + 1 < f->trees ? f->tree[t + 1].first : f->count) - f->tree[t].first;
}

/* Narrow children hold 16 bits: a forest with a larger tree is made again, wide. */
static int too_narrow(const pf_forest *f) {
  for (int64_t i = 0; f->narrow && i < f->trees; i++)
    if (nodes_of(f, i) > UINT16_MAX) return 1;
  return 0;
}

/* ---------------------------------------------------------------- masks */
typedef struct {
  pf_forest *f;
  const pf_tree *tree;
  int64_t leaves;                   /* numbered so far */
  int64_t count[2 * PF_MASK_WORDS]; /* tests by word, and whether NaN passes */
  int64_t tests;
  pf_tree_test test[PF_MASK_LEAVES * PF_MASK_WORDS];
  uint8_t kind[PF_MASK_LEAVES * PF_MASK_WORDS];
} masker;

static void read_node(const pf_forest *f, int64_t at, pf_tree_wide *n, int *nan_true) {
  if (f->narrow) {
    pf_tree_narrow m = ((const pf_tree_narrow *)f->nodes)[at];
    *nan_true = (m.feature & PF_TREE_NARROW_NAN) != 0;
    *n = (pf_tree_wide){m.split, m.feature & ~PF_TREE_NARROW_NAN, m.child};
  } else {
    *n = ((const pf_tree_wide *)f->nodes)[at];
    *nan_true = (n->feature & PF_TREE_WIDE_NAN) != 0;
    n->feature &= ~PF_TREE_WIDE_NAN;
  }
}

/* Numbers the leaves below a node, the true side's first, and lists its test.  As deep as the tree:
 * PF_MASK_LEAVES at most. */
static void number_leaves(masker *m, int64_t at) {
  if (m->f->leaf[at] >= 0) {
    m->f->leaf_node[m->tree->first_leaf + m->leaves++] = (int32_t)at;
    return;
  }
  pf_tree_wide n;
  int nan_true;
  read_node(m->f, at, &n, &nan_true);
  const int64_t from = m->leaves, child = m->tree->first + n.child;
  number_leaves(m, child + 1);
  const int64_t to = m->leaves;
  for (int64_t w = from / 32; w * 32 < to; w++) {
    const int64_t lo = PF_MAX(from - w * 32, 0), hi = PF_MIN(to - w * 32, 32);
    const uint32_t out = (uint32_t)((1ull << hi) - (1ull << lo));
    m->kind[m->tests] = (uint8_t)(2 * w + nan_true);
    m->count[m->kind[m->tests]]++;
    m->test[m->tests++] = (pf_tree_test){n.split, (int32_t)~out, n.feature};
  }
  number_leaves(m, child);
}

/* Tests of the trees with few leaves, by tree, word, and what NaN does. */
static pf_status make_masks(pf_ctx *c, pf_forest *f) {
  int64_t leaves = 0, tests = 0, words = 0, ends = 0;
  for (int64_t t = 0; t < f->trees; t++) {
    const int64_t n = (nodes_of(f, t) + 1) / 2;
    if (f->type != PF_FLOAT32 || f->kind == PF_TREES_MIXED || n > PF_MASK_LEAVES) continue;
    f->tree[t].words = (int32_t)((n + 31) / 32);
    f->tree[t].first_word = words, f->tree[t].first_leaf = leaves;
    leaves += n, tests += n * f->tree[t].words, words += f->tree[t].words, f->masked++;
  }
  if (!f->masked) return PF_OK;
  masker *m = malloc(sizeof *m);
  f->test = malloc(sizeof *f->test * (size_t)(tests + 1));
  f->test_ends = calloc((size_t)(2 * words + 1), sizeof *f->test_ends);
  f->leaf_node = malloc(sizeof *f->leaf_node * (size_t)leaves);
  f->leaf_value = malloc(sizeof *f->leaf_value * (size_t)leaves);
  if (!m || !f->test || !f->test_ends || !f->leaf_node || !f->leaf_value) {
    free(m);
    return no_memory(c);
  }
  for (int64_t t = 0; t < f->trees; t++) {
    const pf_tree *tree = &f->tree[t];
    if (!tree->words) continue;
    *m = (masker){.f = f, .tree = tree};
    number_leaves(m, tree->first);
    for (int64_t k = 0; k < 2 * tree->words; k++) {
      for (int64_t i = 0; i < m->tests; i++)
        if (m->kind[i] == k) f->test[ends++] = m->test[i];
      f->test_ends[1 + 2 * tree->first_word + k] = ends;
    }
    for (int64_t i = 0; i < m->leaves; i++)
      f->leaf_value[tree->first_leaf + i] =
          ((const float *)f->value)[f->leaf_node[tree->first_leaf + i]];
  }
  free(m);
  return PF_OK;
}

static pf_status find_scored(pf_ctx *c, const parts_of *p, pf_forest *f) {
  /* by target: leaves of a tree that have it; 1 + the place of the leaf that was counted last */
  int64_t *hits = calloc((size_t)f->targets + 1, sizeof *hits);
  int64_t *last = calloc((size_t)f->targets + 1, sizeof *last);
  if (!hits || !last) {
    free(hits), free(last);
    return no_memory(c);
  }
  for (int64_t t = 0; t < f->trees; t++) {
    const int64_t from = f->tree[t].first, to = from + nodes_of(f, t);
    const int64_t leaves = (to - from + 1) / 2;
    if (f->tree[t].target >= 0) {
      f->scored[f->tree[t].target] = PF_SCORED_ALWAYS;
      continue;
    }
    for (int64_t i = from; i < to; i++) {
      if (f->leaf[i] < 0) continue;
      for (int64_t j = f->starts[f->leaf[i]]; j < f->starts[f->leaf[i] + 1]; j++) {
        const int32_t k = f->target[j];
        if (!f->scored[k]) f->scored[k] = PF_SCORED_MAYBE;
        if (last[k] <= from) hits[k] = 0;
        if (last[k] != i + 1 && ++hits[k] == leaves) f->scored[k] = PF_SCORED_ALWAYS;
        last[k] = i + 1;
      }
    }
  }
  free(hits), free(last);
  f->one_target = f->positive = 1;
  for (int64_t i = 0; i < p->n_weights; i++) {
    f->one_target &= p->targets[i] == p->targets[0];
    f->positive &= number_at(p->weights, f->type, i) >= 0;
  }
  f->one_target &= p->n_weights > 0;
  return PF_OK;
}

/* Copies of the parts that are read as they are. */
static pf_status copy_parts(pf_ctx *c, const parts_of *p, pf_forest *f) {
  const size_t size = (size_t)pf_type_size(f->type);
  f->starts = malloc(sizeof *f->starts * (size_t)(p->n_leaves + 1));
  f->target = malloc(sizeof *f->target * (size_t)(p->n_weights + 1));
  f->weight = malloc(size * (size_t)(p->n_weights + 1));
  f->members = malloc(size * (size_t)(p->n_members + 1));
  f->base = malloc(size * (size_t)(p->n_base + 1));
  f->scored = calloc((size_t)f->targets, 1);
  f->tree = calloc((size_t)p->n_roots + 1, sizeof *f->tree);
  if (!f->starts || !f->target || !f->weight || !f->members || !f->base || !f->scored || !f->tree)
    return no_memory(c);
  for (int64_t i = 0; i <= p->n_leaves; i++) f->starts[i] = p->leaves[i];
  if (p->n_weights) memcpy(f->target, p->targets, sizeof *f->target * (size_t)p->n_weights);
  if (p->n_weights) memcpy(f->weight, p->weights, size * (size_t)p->n_weights);
  if (p->n_members) memcpy(f->members, p->members, size * (size_t)p->n_members);
  if (f->type == PF_FLOAT64) ((double *)f->members)[p->n_members] = NAN;
  else ((float *)f->members)[p->n_members] = NAN;
  if (p->n_base) memcpy(f->base, p->base, size * (size_t)p->n_base);
  f->n_base = p->n_base;
  return PF_OK;
}

static pf_status lay_out(pf_ctx *c, const parts_of *p, pf_forest *f) {
  maker m = {.c = c, .p = p, .f = f, .stack_room = 64};
  pf_status status = PF_OK;
  m.stack = malloc(sizeof *m.stack * (size_t)m.stack_room);
  if (f->kind == PF_TREES_MIXED) f->mode = malloc(1), f->member = malloc(sizeof *f->member);
  if (!m.stack || (f->kind == PF_TREES_MIXED && (!f->mode || !f->member))) status = no_memory(c);
  const int64_t about = 2 * p->n_nodes + p->n_roots + 1;
  if (!status) status = reserve(&m, PF_MIN(about, UNFOLDED(p->n_nodes, p->n_leaves)));
  for (; f->trees < p->n_roots && !status; f->trees++)
    status = put_tree(&m, &f->tree[f->trees], p->roots[f->trees]);
  free(m.stack);
  f->steps = 0;
  for (int64_t t = 0; t < f->trees; t++) f->steps += f->tree[t].most + 1;
  return status;
}

pf_status pf_forest_make(pf_ctx *c, const DLTensor *const parts[PF_PARTS], int32_t type,
                         int64_t targets, pf_forest **out) {
  parts_of p;
  *out = NULL;
  if (targets < 1 || targets > MAX_TARGETS)
    return PF_INVALID(c, "the number of targets is %" PRId64 ", expected 1 to %d", targets,
                      MAX_TARGETS);
  PF_TRY(check_lengths(c, parts, &p));
  p.type = type, p.n_targets = (int32_t)targets;
  PF_TRY(check_parts(c, &p));
  PF_TRY(find_cycle(c, &p));
  pf_forest *f = calloc(1, sizeof *f);
  if (!f) return no_memory(c);
  f->type = type, f->targets = (int32_t)targets;
  choose_kind(&p, f);
  pf_status status = copy_parts(c, &p, f);
  if (!status) status = lay_out(c, &p, f);
  if (!status && too_narrow(f)) {
    f->narrow = 0, f->trees = 0, f->count = 0;
    free(f->nodes), free(f->value), free(f->leaf);
    f->nodes = f->value = NULL, f->leaf = NULL;
    status = lay_out(c, &p, f);
  }
  if (!status) status = make_masks(c, f);
  if (!status) status = find_scored(c, &p, f);
  if (status) pf_forest_free(f), f = NULL;
  *out = f;
  return status;
}

void pf_forest_free(pf_forest *f) {
  if (!f) return;
  free(f->tree), free(f->nodes), free(f->value), free(f->leaf), free(f->mode), free(f->member);
  free(f->members);
  free(f->starts), free(f->target), free(f->weight), free(f->scored), free(f->base);
  free(f->test), free(f->test_ends), free(f->leaf_node), free(f->leaf_value), free(f);
}
