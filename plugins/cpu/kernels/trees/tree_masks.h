/* tree_masks.h - many samples through a small tree at once, without walking.
 *
 * The leaves of a tree are numbered from the true side.  A node whose test fails rules out the
 * leaves below its true child: a mask.  What is left of all ones after the masks of all failing
 * nodes begins with the leaf that the sample comes to, because the way to it rules out all leaves
 * before it and none of the others can.  No test waits for another one, and each is done for a
 * vector of samples, whose features lie side by side.  (Lucchese et al. 2015, QuickScorer; Ye et
 * al. 2018, RapidScorer.)
 *
 * A word of 32 leaves at a time; a node has an entry per word that it rules leaves out of.
 *
 * Beside walks (tree_walk.h), in forests as those of benchmarks/trees.py at batches of 100 and
 * 10,000: depth6 2.2 to 2.7 times as fast, leaves32 5.7 to 7.4, with missing values 6.0 to 9.2
 * (AVX-512, one thread).
 */
#include "vec/vfloat.h"

enum { GROUP = 4 * PF_VF }; /* samples at once */
typedef int32_t tree_vi __attribute__((vector_size(sizeof(pf_vf))));
typedef uint32_t tree_vu __attribute__((vector_size(sizeof(pf_vf))));

/* What is left of `v` where the test fails, all of it elsewhere. */
PF_INLINE tree_vi masked(tree_vi v, const float *x, pf_vf split, tree_vi mask, const int nan_true) {
  const pf_vf value = pf_vf_load(x);
#if defined(__AVX512F__)
  const __mmask16 fails = nan_true ? _mm512_cmp_ps_mask(value, split, _CMP_GT_OQ)
                                   : _mm512_cmp_ps_mask(value, split, _CMP_NLE_UQ);
  return (tree_vi)_mm512_mask_and_epi32((__m512i)v, fails, (__m512i)v, (__m512i)mask);
#else
  const tree_vi holds = nan_true ? ~(tree_vi)(value > split) : (tree_vi)(value <= split);
  return v & (mask | holds);
#endif
}

/* The place of the lowest bit; of 0 what comes out is not looked at. */
PF_INLINE tree_vi lowest_bit(tree_vi v) {
  const tree_vi low = v & (tree_vi)(~(tree_vu)v + 1);
  const pf_vf f = __builtin_convertvector(low, pf_vf); /* a power of two, or -2^31 */
  return (((tree_vi)f >> 23) & 255) - 127;
}

PF_INLINE void mask_words(const pf_forest *f, const pf_tree *tree, const float *x, int32_t *leaf,
                          const int vectors) {
  tree_vi found[4] = {{0}};
  for (int32_t word = tree->words - 1; word >= 0; word--) {
    const int64_t *ends = f->test_ends + 1 + (tree->first_word + word) * 2;
    tree_vi v[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < vectors; i++) v[i] = ~(tree_vi){0};
    const pf_tree_test *t = f->test + ends[-1];
    for (const pf_tree_test *end = f->test + ends[0]; t < end; t++) {
      const pf_vf split = pf_vf_set(t->split);
      const tree_vi mask = (tree_vi){0} + t->mask;
      const float *at = x + (int64_t)t->feature * GROUP;
      _Pragma("GCC unroll 4") for (int i = 0; i < vectors; i++) v[i] =
          masked(v[i], at + i * PF_VF, split, mask, 0);
    }
    for (const pf_tree_test *end = f->test + ends[1]; t < end; t++) {
      const pf_vf split = pf_vf_set(t->split);
      const tree_vi mask = (tree_vi){0} + t->mask;
      const float *at = x + (int64_t)t->feature * GROUP;
      _Pragma("GCC unroll 4") for (int i = 0; i < vectors; i++) v[i] =
          masked(v[i], at + i * PF_VF, split, mask, 1);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < vectors; i++) {
      const tree_vi any = v[i] != 0;
      found[i] = (any & (32 * word + lowest_bit(v[i]))) | (~any & found[i]);
    }
  }
  _Pragma("GCC unroll 4") for (int i = 0; i < vectors; i++)
      memcpy(leaf + i * PF_VF, &found[i], sizeof found[i]);
}

/* Numbers of the leaves, within the tree, that the samples of a group come to. */
static void masked_leaves(const pf_forest *f, const pf_tree *tree, const float *x, int64_t samples,
                          int32_t leaf[GROUP]) {
  if (samples <= PF_VF) mask_words(f, tree, x, leaf, 1);
  else if (samples <= 2 * PF_VF) mask_words(f, tree, x, leaf, 2);
  else mask_words(f, tree, x, leaf, 4);
}

/* The features of some samples, [features][GROUP]; zeros for samples that there are not. */
static void turn_group(const float *x, int64_t stride, int64_t features, int64_t samples,
                       float *to) {
  if (samples < GROUP) memset(to, 0, sizeof *to * (size_t)(features * GROUP));
  for (int64_t i = 0; i < samples; i++)
    for (int64_t j = 0; j < features; j++) to[j * GROUP + i] = x[i * stride + j];
}
