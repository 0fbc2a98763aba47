/* tree_walk.h - samples through trees of one node type; with NODE, T, TAG and NAN_BIT set.
 *
 * A walk is a chain of loads that wait for each other, so LANES of them go side by side: samples of
 * a block through one tree, or one sample through some trees.  They take `least` steps without
 * looking, then go on until none of them moves.
 */
#define NAME_(a, b) a##_##b
#define NAME__(a, b) NAME_(a, b)
#define W(name) NAME__(name, TAG)

PF_INLINE uint32_t W(next)(const NODE *tree, const T *x, uint32_t at, const int missing) {
  const NODE *n = tree + at;
  if (!missing) return n->child + (uint32_t)(x[n->feature] <= n->split);
  const uint32_t feature = n->feature;
  const T v = x[feature & ~NAN_BIT];
  const uint32_t nan_true = (uint32_t)(v != v) & (uint32_t)((feature & NAN_BIT) != 0);
  return n->child + ((uint32_t)(v <= n->split) | nan_true);
}

/* Leaves of LANES walks. */
PF_INLINE void W(walk)(const NODE *const tree[LANES], const T *const x[LANES], int32_t least,
                       int32_t most, uint32_t at[LANES], const int missing) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  for (int32_t i = 0; i < least; i++) {
    a = W(next)(tree[0], x[0], a, missing), b = W(next)(tree[1], x[1], b, missing);
    c = W(next)(tree[2], x[2], c, missing), d = W(next)(tree[3], x[3], d, missing);
  }
  for (int32_t i = least; i < most; i++) {
    uint32_t e = W(next)(tree[0], x[0], a, missing), f = W(next)(tree[1], x[1], b, missing);
    uint32_t g = W(next)(tree[2], x[2], c, missing), h = W(next)(tree[3], x[3], d, missing);
    if (!((a ^ e) | (b ^ f) | (c ^ g) | (d ^ h))) break;
    a = e, b = f, c = g, d = h;
  }
  at[0] = a, at[1] = b, at[2] = c, at[3] = d;
}

/* Places of the leaves, among the forest's nodes, that `samples` samples come to in one tree. */
PF_INLINE void W(samples)(const pf_forest *f, const pf_tree *tree, const T *x, int64_t features,
                          int64_t samples, int64_t *at, const int missing) {
  const NODE *nodes = (const NODE *)f->nodes + tree->first;
  const NODE *const trees[LANES] = {nodes, nodes, nodes, nodes};
  for (int64_t i = 0; i < samples; i += LANES) {
    const T *rows[LANES];
    uint32_t to[LANES];
    for (int l = 0; l < LANES; l++) rows[l] = x + PF_MIN(i + l, samples - 1) * features;
    W(walk)(trees, rows, tree->least, tree->most, to, missing);
    for (int l = 0; l < LANES && i + l < samples; l++) at[i + l] = tree->first + to[l];
  }
}

/* The same of one sample in `n` <= LANES trees. */
PF_INLINE void W(trees)(const pf_forest *f, const pf_tree *tree, int64_t n, const T *x, int64_t *at,
                        const int missing) {
  const NODE *roots[LANES];
  const T *const rows[LANES] = {x, x, x, x};
  uint32_t to[LANES];
  int32_t least = INT32_MAX, most = 0;
  for (int l = 0; l < LANES; l++) {
    const pf_tree *t = tree + PF_MIN(l, n - 1);
    roots[l] = (const NODE *)f->nodes + t->first;
    least = PF_MIN(least, t->least), most = PF_MAX(most, t->most);
  }
  W(walk)(roots, rows, least, most, to, missing);
  for (int l = 0; l < n; l++) at[l] = tree[l].first + to[l];
}

static void W(leaves_of_samples)(const pf_forest *f, const pf_tree *tree, const void *x,
                                 int64_t features, int64_t samples, int64_t *at) {
  if (f->kind == PF_TREES_PLAIN) W(samples)(f, tree, x, features, samples, at, 0);
  else W(samples)(f, tree, x, features, samples, at, 1);
}
static void W(leaves_of_trees)(const pf_forest *f, const pf_tree *tree, int64_t n, const void *x,
                               int64_t *at) {
  if (f->kind == PF_TREES_PLAIN) W(trees)(f, tree, n, x, at, 0);
  else W(trees)(f, tree, n, x, at, 1);
}
#undef NODE
#undef T
#undef TAG
#undef NAN_BIT
#undef W
#undef NAME_
#undef NAME__
