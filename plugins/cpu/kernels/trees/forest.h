/* forest.h - decision trees as kernels walk them: checked once, then laid out for it.
 *
 * Invariants
 *   1. Every place in a made forest is inside its arrays; a leaf's child is the leaf itself, and
 *      any other node's children lie behind it: walking from a root ends, wherever values lead.
 *   2. A node's two children are neighbours, the false one first; a step is
 *      `child + (value <= split)`.  A leaf's split is NaN, so it stays where it is.  Comparisons
 *      other than <= are turned into it: x < s is x <= the number before s, x >= s and x > s are
 *      what x < s and x <= s are not, with the children exchanged.  In a forest of kind
 *      PF_TREES_MIXED every node has its own.
 *   3. A tree's nodes lie together, depth first.  Children are counted from the tree's root.
 *
 * Threads: a made forest is read-only.
 */
#ifndef PF_CPU_FOREST_H
#define PF_CPU_FOREST_H
#include "base/common.h"

enum {
  PF_BRANCH_LEQ,
  PF_BRANCH_LT,
  PF_BRANCH_GTE,
  PF_BRANCH_GT,
  PF_BRANCH_EQ,
  PF_BRANCH_NEQ,
  PF_BRANCH_MEMBER
};
/* Columns of the op's input `nodes`. */
enum {
  PF_NODE_FEATURE,
  PF_NODE_MODE,
  PF_NODE_MISSING,
  PF_NODE_TRUE,
  PF_NODE_FALSE,
  PF_NODE_MEMBERS,
  PF_NODE_COLUMNS
};
enum {
  PF_TREES_PLAIN,   /* NaN goes to the false child everywhere */
  PF_TREES_MISSING, /* to the true one where `feature` has PF_TREE_*_NAN */
  PF_TREES_MIXED
}; /* EQ, NEQ or MEMBER are among the modes: see `mode` */
enum { PF_SCORED_NEVER, PF_SCORED_MAYBE, PF_SCORED_ALWAYS };
enum { PF_MASK_LEAVES = 128, PF_MASK_WORDS = PF_MASK_LEAVES / 32 };
#define PF_TREE_NARROW_NAN 0x8000u
#define PF_TREE_WIDE_NAN 0x80000000u
enum { PF_MIXED_NAN = 0x80 };

typedef struct {
  float split;
  uint16_t feature, child;
} pf_tree_narrow; /* where both fit */
typedef struct {
  float split;
  uint32_t feature, child;
} pf_tree_wide;
typedef struct {
  double split;
  uint32_t feature, child;
} pf_tree_double;

typedef struct {
  int64_t first;                  /* its root among the forest's nodes */
  int32_t least, most;            /* steps to its nearest and its farthest leaf */
  int32_t target;                 /* of all leaves, each with one weight; -1: lists */
  int32_t words;                  /* its leaves / 32 if it has masks (tree_masks.h); else 0 */
  int64_t first_word, first_leaf; /* places of its first word and leaf, of those of masks */
} pf_tree;

/* A test of tree_masks.h: one that fails leaves `mask` of a word of leaves. */
typedef struct {
  float split;
  int32_t mask;
  uint32_t feature;
} pf_tree_test;

typedef struct {
  int32_t type, kind, narrow; /* type: PF_FLOAT32 or PF_FLOAT64 */
  int32_t targets;
  int64_t trees, count, features; /* count: nodes; features: that a sample must have */
  double steps;                   /* of one sample through all trees, at most */
  pf_tree *tree;
  void *nodes;     /* [count] of one of the three */
  void *value;     /* [count] of type: of a leaf whose tree has a target */
  int32_t *leaf;   /* [count]: number of the leaf; -1 inside */
  uint8_t *mode;   /* MIXED, [count]: | PF_MIXED_NAN: NaN passes */
  int64_t *member; /* MIXED, [count]: where its values begin in `members` */
  void *members;   /* of type: runs of values, each ended by NaN */
  int64_t *starts; /* [leaves + 1] in the two below */
  int32_t *target;
  void *weight;    /* of type */
  uint8_t *scored; /* [targets]: whether samples get a weight for it */
  void *base;      /* of type: n_base values */
  int64_t n_base;
  pf_tree_test *test;           /* by tree and word: those that NaN fails, then others */
  int64_t *test_ends;           /* behind one 0, [words][2]: where the two end */
  int32_t *leaf_node;           /* nodes of the leaves of masks, in their order there */
  float *leaf_value;            /* `value` of them */
  int64_t masked;               /* trees with masks */
  int32_t one_target, positive; /* all weights are for one target; none is below 0 */
} pf_forest;

/* The op's inputs behind the samples, in its order. */
enum {
  PF_PART_ROOTS,
  PF_PART_NODES,
  PF_PART_SPLITS,
  PF_PART_LEAVES,
  PF_PART_TARGETS,
  PF_PART_WEIGHTS,
  PF_PART_MEMBERS,
  PF_PART_BASE,
  PF_PARTS
};

/* The forest of these arrays, which may lie anywhere and say anything; an error says what is wrong
 * with them. */
pf_status pf_forest_make(pf_ctx *c, const DLTensor *const parts[PF_PARTS], int32_t type,
                         int64_t targets, pf_forest **out);
void pf_forest_free(pf_forest *); /* NULL is allowed */
#endif
