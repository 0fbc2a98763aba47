"""Neural-network ops, continued: recurrent blocks, CTC, candidate sampling, pooling, embeddings."""

import numpy as np

from cases import bools, ints, normal, op, positive, unit, value

V = (2, 4, 5, 6, 3)  # a batch of volumes
I = (2, 7, 6, 3)  # a batch of images


def at(x):
    """An int32 input."""
    return value(x, np.int32)


def long(x):
    return value(x, np.int64)


def sparse(tf, rows, dtype=np.int32):
    """A SparseTensor of rows of different lengths."""
    where = [[b, i] for b, row in enumerate(rows) for i in range(len(row))]
    flat = np.array([v for row in rows for v in row], dtype)
    return tf.SparseTensor(np.array(where, np.int64).reshape(-1, 2), flat,
                           np.array([len(rows), max(map(len, rows))], np.int64))


# ------------------------------------------------------------------------------------------ pooling
for kind in ("max", "avg"):
    for padding in ("SAME", "VALID"):
        op(f"{kind}_pool3d_{padding}", lambda tf, x, k=kind, p=padding: getattr(
            tf.nn, k + "_pool3d")(x, [1, 2, 3, 2, 1], [1, 2, 1, 2, 1], p), normal(*V))
        op(f"{kind}_pool1d_{padding}", lambda tf, x, k=kind, p=padding: getattr(
            tf.nn, k + "_pool1d")(x, 3, 2, p), normal(2, 9, 4))
    op(f"{kind}_pool3d_ints", lambda tf, x, k=kind: getattr(tf.nn, k + "_pool3d")(x, 2, 2, "SAME"),
       normal(*V))
    for n, shape in ((1, (2, 9, 3)), (2, (2, 7, 8, 3)), (3, (1, 4, 5, 6, 2))):
        op(f"{kind}_pool_{n}d", lambda tf, x, k=kind, n=n: tf.nn.pool(
            x, [2] * n, k.upper(), "SAME", strides=[2] * n), normal(*shape))
        op(f"{kind}_pool_{n}d_dilated", lambda tf, x, k=kind, n=n: tf.nn.pool(
            x, [2] * n, k.upper(), "VALID", dilation_rate=[2] * n), normal(*shape))
        op(f"{kind}_pool_v2_{n}d", lambda tf, x, k=kind, n=n: getattr(tf.nn, k + "_pool_v2")(
            x, [3] * n, [2] * n, "VALID"), normal(*shape))
op("max_pool1d_explicit_height", lambda tf, x: tf.nn.max_pool1d(x, [1, 3, 1], [1, 1, 1], "SAME"),
   normal(1, 5, 2))
for batch in (False, True):
    op(f"max_pool_argmax_{batch}", lambda tf, x, b=batch: tf.nn.max_pool_with_argmax(
        x, [1, 3, 2, 1], [1, 2, 2, 1], "SAME", include_batch_in_index=b), normal(*I))


def twice(pool):
    """The gradient of a pooling's gradient with respect to what came into it."""
    def function(tf, x, weights):
        y = pool(tf, x)
        slope = tf.gradients(y, x, grad_ys=tf.slice(weights, [0] * len(x.shape), tf.shape(y)))[0]
        return tf.gradients(slope, weights, grad_ys=x)[0]
    return function


op("max_pool_second", twice(lambda tf, x: tf.nn.max_pool(x, 3, 2, "SAME")), normal(*I),
   normal(*I), gradient=False)
op("max_pool3d_second", twice(lambda tf, x: tf.nn.max_pool3d(x, 2, 2, "VALID")), normal(*V),
   normal(*V), gradient=False)
op("avg_pool3d_second", twice(lambda tf, x: tf.nn.avg_pool3d(x, 2, 2, "SAME")), normal(*V),
   normal(*V), gradient=False)
op("max_pool_third", lambda tf, x, dy: tf.raw_ops.MaxPoolGradGrad(
    orig_input=x, orig_output=tf.nn.max_pool(tf.stop_gradient(x), 2, 2, "SAME"), grad=dy,
    ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"), normal(*I), normal(*I),
   gradient=False)
op("max_pool_inputs", lambda tf, x: tf.raw_ops.MaxPoolV2(
    input=x, ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1], padding="VALID"), normal(*I))
for kind in ("max", "avg"):
    for how in ("plain", "pseudo_random", "overlapping"):
        more = {} if how == "plain" else {how: True}
        op(f"fractional_{kind}_{how}", lambda tf, x, k=kind, more=more: getattr(
            tf.nn, f"fractional_{k}_pool")(x, [1.0, 1.44, 1.73, 1.0], deterministic=True, seed=5,
                                           seed2=7, **more), normal(2, 11, 9, 3))
op("nth_element", lambda tf, x: tf.raw_ops.NthElement(input=x, n=3), normal(3, 4, 9))
op("nth_element_reverse", lambda tf, x: tf.raw_ops.NthElement(input=x, n=2, reverse=True),
   ints(-50, 50, 3, 9))

# ------------------------------------------------------------------------------- recurrent blocks
B, N, C, T = 3, 4, 5, 6


def cell_weights():
    return [unit(N + C, 4 * C), unit(C), unit(C), unit(C), unit(4 * C)]


def lstm_cell(tf, x, c, h, w, wci, wcf, wco, b, **options):
    return tf.raw_ops.LSTMBlockCell(x=x, cs_prev=c, h_prev=h, w=w, wci=wci, wcf=wcf, wco=wco, b=b,
                                    **options)


def lstm_cell_grad(tf, x, c, h, w, wci, wcf, wco, b, dc, dh, peephole):
    i, cs, f, o, ci, co, _ = lstm_cell(tf, x, c, h, w, wci, wcf, wco, b, use_peephole=peephole)
    return tf.raw_ops.LSTMBlockCellGrad(
        x=x, cs_prev=c, h_prev=h, w=w, wci=wci, wcf=wcf, wco=wco, b=b, i=i, cs=cs, f=f, o=o, ci=ci,
        co=co, cs_grad=dc, h_grad=dh, use_peephole=peephole)


def block_lstm(tf, x, c, h, w, wci, wcf, wco, b, version, steps=T, **options):
    block = tf.raw_ops.BlockLSTM if version == 1 else tf.raw_ops.BlockLSTMV2
    i, cs, f, o, ci, co, h = block(seq_len_max=tf.constant(steps, tf.int64), x=x, cs_prev=c,
                                   h_prev=h, w=w, wci=wci, wcf=wcf, wco=wco, b=b, **options)
    return cs[:steps], h[:steps]


def block_lstm_grad(tf, x, c, h, w, wci, wcf, wco, b, dc, dh, peephole):
    inputs = dict(seq_len_max=tf.constant(5, tf.int64), x=x, cs_prev=c, h_prev=h, w=w, wci=wci,
                  wcf=wcf, wco=wco, b=b, use_peephole=peephole)
    i, cs, f, o, ci, co, h = tf.raw_ops.BlockLSTMV2(**inputs)
    return tf.raw_ops.BlockLSTMGradV2(**inputs, i=i, cs=cs, f=f, o=o, ci=ci, co=co, h=h, cs_grad=dc,
                                      h_grad=dh)[:7 if peephole else 4]


CELL = [normal(B, N), normal(B, C), normal(B, C)]
SEQUENCE = [normal(T, B, N), normal(B, C), normal(B, C)]
for peephole in (False, True):
    op(f"lstm_block_cell_{peephole}", lambda tf, *a, p=peephole: lstm_cell(
        tf, *a, use_peephole=p, forget_bias=0.5), *CELL, *cell_weights(), gradient=False)
    op(f"lstm_block_cell_grad_{peephole}", lambda tf, *a, p=peephole: lstm_cell_grad(
        tf, *a, p), *CELL, *cell_weights(), normal(B, C), normal(B, C), gradient=False)
    op(f"block_lstm_{peephole}", lambda tf, *a, p=peephole: block_lstm(tf, *a, 1, use_peephole=p),
       *SEQUENCE, *cell_weights())
    # TensorFlow's own gradient of BlockLSTMV2 takes BlockLSTMGrad, whose gates are in another order
    op(f"block_lstm_v2_{peephole}", lambda tf, *a, p=peephole: block_lstm(
        tf, *a, 2, use_peephole=p), *SEQUENCE, *cell_weights(), gradient=False)
    op(f"block_lstm_v2_grad_{peephole}", lambda tf, *a, p=peephole: block_lstm_grad(tf, *a, p),
       *SEQUENCE, *cell_weights(), normal(T, B, C), normal(T, B, C), gradient=False)
op("lstm_block_cell_clip", lambda tf, *a: lstm_cell(tf, *a, cell_clip=0.25), *CELL, *cell_weights(),
   gradient=False)
op("block_lstm_clip", lambda tf, *a: block_lstm(tf, *a, 1, cell_clip=0.25), *SEQUENCE,
   *cell_weights())
op("block_lstm_short", lambda tf, *a: block_lstm(tf, *a, 1, steps=3), *SEQUENCE, *cell_weights())
op("block_lstm_half", lambda tf, *a: block_lstm(tf, *a, 1),
   *[normal(*s, dtype=np.float16) for s in ((T, B, N), (B, C), (B, C))],
   *[unit(*s, dtype=np.float16) for s in ((N + C, 4 * C), (C,), (C,), (C,), (4 * C,))],
   gradient=False)


def gru(tf, x, h, w_ru, w_c, b_ru, b_c):
    return tf.raw_ops.GRUBlockCell(x=x, h_prev=h, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c)


def gru_grad(tf, x, h, w_ru, w_c, b_ru, b_c, dh):
    r, u, c, _ = gru(tf, x, h, w_ru, w_c, b_ru, b_c)
    return tf.raw_ops.GRUBlockCellGrad(x=x, h_prev=h, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, r=r,
                                       u=u, c=c, d_h=dh)


GRU = [normal(B, N), normal(B, C), unit(N + C, 2 * C), unit(N + C, C), unit(2 * C), unit(C)]
op("gru_block_cell", gru, *GRU, gradient=False)
op("gru_block_cell_grad", gru_grad, *GRU, normal(B, C), gradient=False)

# ---------------------------------------------------------------------------------------------- CTC
ROWS = [[0, 1, 1], [2], [0, 3]]
for name, options in {
    "": {}, "collapse": {"preprocess_collapse_repeated": True},
    "no_merge": {"ctc_merge_repeated": False},
    "ignore": {"ignore_longer_outputs_than_inputs": True},
}.items():
    op("ctc_loss_" + name, lambda tf, x, o=options: tf.nn.ctc_loss(
        sparse(tf, ROWS), x, [6, 4, 5], **o), normal(6, 3, 5))
    # in double TensorFlow still adds logarithms as float
    op("ctc_loss_double_" + name, lambda tf, x, o=options: tf.cast(tf.nn.ctc_loss(
        sparse(tf, ROWS), x, [6, 4, 5], **o), tf.float32), normal(6, 3, 5, dtype=np.float64),
       gradient=False)
op("ctc_loss_batch_major", lambda tf, x: tf.nn.ctc_loss(sparse(tf, ROWS), x, [6, 4, 5],
                                                        time_major=False), normal(3, 6, 5))
op("ctc_loss_ignored", lambda tf, x: tf.nn.ctc_loss(
    sparse(tf, [[0, 1, 0, 1], [2]]), x, [3, 3], ignore_longer_outputs_than_inputs=True),
   normal(3, 2, 4))
op("ctc_loss_null_labels", lambda tf, x: tf.nn.ctc_loss(
    sparse(tf, [[0, 1, 3, 3], [2, 3]]), x, [4, 4]), normal(4, 2, 4))
op("ctc_loss_no_time", lambda tf, x: tf.nn.ctc_loss(
    sparse(tf, [[0], [1]]), x, [4, 0], ignore_longer_outputs_than_inputs=True), normal(4, 2, 3))
for blank in (0, 2, -1):
    op(f"ctc_loss_sparse_blank_{blank}", lambda tf, x, b=blank: tf.nn.ctc_loss_v2(
        sparse(tf, [[1, 3], [4, 3, 1]] if b != -1 else [[1, 3], [0, 3, 1]]), x, None, [6, 5],
        blank_index=b), normal(6, 2, 5))
for merge in (False, True):
    op(f"ctc_greedy_{merge}", lambda tf, x, m=merge: decoded(tf.nn.ctc_greedy_decoder(
        x, [9, 7, 1], merge_repeated=m)), normal(9, 3, 3), gradient=False)
    op(f"ctc_beam_{merge}", lambda tf, x, m=merge: decoded(tf.nn.ctc_beam_search_decoder(
        x, [9, 7, 3], beam_width=6, top_paths=3, merge_repeated=m)), normal(9, 3, 4),
       gradient=False)
op("ctc_beam_wide", lambda tf, x: decoded(tf.nn.ctc_beam_search_decoder(
    x, [12, 12], beam_width=100, top_paths=5, merge_repeated=False)), normal(12, 2, 6),
   gradient=False)
op("ctc_beam_narrow", lambda tf, x: decoded(tf.nn.ctc_beam_search_decoder_v2(
    x, [20, 15], beam_width=2, top_paths=1)), normal(20, 2, 5), gradient=False)
op("ctc_greedy_blank_0", lambda tf, x: decoded(tf.nn.ctc_greedy_decoder(
    x, [8, 8], blank_index=0)), normal(8, 2, 3), gradient=False)
op("collapse_repeated", lambda tf, x: tf.nn.collapse_repeated(x, [6, 4, 2]), ints(0, 3, 3, 6))
op("ctc_unique_labels", lambda tf, x: tf.nn.ctc_unique_labels(x), ints(0, 4, 3, 6))


def decoded(found):
    rows, scores = found
    return [t for r in rows for t in (r.indices, r.values, r.dense_shape)] + [scores]


# ------------------------------------------------------------------------------ candidate sampling
TRUE = [[3, 5], [0, 11], [7, 7]]
for name in ("uniform", "log_uniform", "learned_unigram"):
    for unique in (False, True):
        op(f"candidates_{name}_{unique}", lambda tf, x, n=name, u=unique: getattr(
            tf.nn, n + "_candidate_sampler")(x, 2, 7, u, 12, seed=13), long(TRUE), gradient=False)
for unique in (False, True):
    op(f"candidates_fixed_{unique}", lambda tf, x, u=unique: tf.nn.fixed_unigram_candidate_sampler(
        x, 2, 5, u, 12, num_reserved_ids=2, distortion=0.75, seed=4,
        unigrams=[9.0, 1.0, 4.0, 2.0, 7.0, 3.0, 3.0, 1.0, 5.0, 6.0]), long(TRUE), gradient=False)
op("candidates_fixed_shard", lambda tf, x: tf.nn.fixed_unigram_candidate_sampler(
    x, 2, 9, False, 3, num_shards=2, shard=1, seed=4, unigrams=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
   long([[0, 1]]), gradient=False)
op("candidates_all", lambda tf, x: tf.nn.all_candidate_sampler(x, 2, 12, True), long(TRUE),
   gradient=False)
op("candidates_large", lambda tf, x: tf.nn.log_uniform_candidate_sampler(
    x, 1, 500, True, 100000, seed=1), long([[0], [99999]]), gradient=False)
op("accidental_hits", lambda tf, x, s: tf.nn.compute_accidental_hits(x, s, 2), long(TRUE),
   long([5, 1, 7, 0, 9]), gradient=False)


def sampled_loss(tf, loss, w, b, x, **options):
    return getattr(tf.nn, loss)(w, b, tf.constant([[3], [0], [7], [3]], tf.int64), x, 5, 9,
                                **options)


for loss in ("nce_loss", "sampled_softmax_loss"):
    op(loss, lambda tf, w, b, x, loss=loss: sampled_loss(
        tf, loss, w, b, x, sampled_values=tf.nn.uniform_candidate_sampler(
            tf.constant([[3], [0], [7], [3]], tf.int64), 1, 5, True, 9, seed=3)),
       normal(9, 6), normal(9), normal(4, 6))
    op(loss + "_hits", lambda tf, w, b, x, loss=loss: sampled_loss(
        tf, loss, w, b, x, remove_accidental_hits=True,
        sampled_values=(tf.constant([3, 1, 7, 7, 8], tf.int64), tf.fill([4, 1], 0.3),
                        tf.fill([5], 0.2))), normal(9, 6), normal(9), normal(4, 6))
    op(loss + "_shards", lambda tf, w, v, b, x, loss=loss: sampled_loss(
        tf, loss, [w, v], b, x, sampled_values=(tf.constant([3, 1, 5, 2, 8], tf.int64),
                                                tf.fill([4, 1], 0.3), tf.fill([5], 0.2))),
       normal(5, 6), normal(4, 6), normal(9), normal(4, 6))
    op(loss + "_true", lambda tf, w, b, x, loss=loss: getattr(tf.nn, loss)(
        w, b, tf.constant([[3, 1], [0, 2]], tf.int64), x, 4, 9, num_true=2,
        sampled_values=(tf.constant([5, 1, 4, 8], tf.int64), tf.fill([2, 2], 0.3),
                        tf.fill([4], 0.2))), normal(9, 6), normal(9), normal(2, 6))
op("sampled_softmax_default", lambda tf, w, b, x: sampled_loss(
    tf, "sampled_softmax_loss", w, b, x, seed=11), normal(9, 6), normal(9), normal(4, 6))

# --------------------------------------------------------------------------------------- embeddings
# Gradients with weights only: without, TensorFlow 2's graphs have ops that 1.x did not know.
IDS = [[1, 3], [0], [5, 2, 2], [4]]
WEIGHTS = [[1.0, 2.0], [0.5], [3.0, 0.25, 1.0], [2.0]]
for combiner in ("mean", "sum", "sqrtn"):
    op(f"embedding_sparse_{combiner}", lambda tf, w, c=combiner: tf.nn.embedding_lookup_sparse(
        w, sparse(tf, IDS, np.int64), None, combiner=c), normal(6, 3), gradient=False)
    op(f"embedding_sparse_weights_{combiner}",
       lambda tf, w, c=combiner: tf.nn.embedding_lookup_sparse(
           w, sparse(tf, IDS, np.int64), sparse(tf, WEIGHTS, np.float32), combiner=c),
       normal(6, 3))
    op(f"embedding_safe_{combiner}", lambda tf, w, c=combiner: tf.nn.safe_embedding_lookup_sparse(
        w, sparse(tf, [[1, -3], [], [5, 2, 2], [-1]], np.int64),
        sparse(tf, [[1.0, 2.0], [], [3.0, -0.25, 1.0], [2.0]], np.float32), combiner=c),
       normal(6, 3))
op("embedding_sparse_shards", lambda tf, w, v: tf.nn.embedding_lookup_sparse(
    [w, v], sparse(tf, IDS, np.int64), None, combiner="sum"), normal(3, 2), normal(3, 2))
op("embedding_sparse_norm", lambda tf, w: tf.nn.embedding_lookup_sparse(
    w, sparse(tf, IDS, np.int64), None, combiner="sum", max_norm=0.8), normal(6, 3))
op("embedding_safe_default", lambda tf, w: tf.nn.safe_embedding_lookup_sparse(
    w, sparse(tf, [[1, 3], [], [5]], np.int64), default_id=2), normal(6, 3), gradient=False)
op("embedding_safe_rank3", lambda tf, w: tf.nn.safe_embedding_lookup_sparse(
    w, tf.SparseTensor([[0, 0, 0], [0, 1, 1], [1, 1, 0]], np.array([1, 2, 4], np.int64),
                       [2, 2, 2])), normal(6, 3), gradient=False)

# ---------------------------------------------------------------------------- moments and the rest
op("weighted_moments", lambda tf, x, w: tf.nn.weighted_moments(x, [0, 2], w), normal(3, 4, 5),
   positive(3, 1, 5))
op("weighted_moments_keep", lambda tf, x, w: tf.nn.weighted_moments(x, [1], w, keep_dims=True),
   normal(3, 4, dtype=np.float64), positive(4, dtype=np.float64))
op("weighted_moments_zero", lambda tf, x: tf.nn.weighted_moments(x, [0], tf.zeros([3, 1])),
   normal(3, 4), gradient=False)
op("average_loss", lambda tf, x: tf.nn.compute_average_loss(x, sample_weight=[1.0, 2.0, 0.0]),
   normal(3))
op("silu", lambda tf, x: tf.nn.silu(x), normal(3, 4))
op("silu_beta", lambda tf, x: tf.nn.silu(x, 1.5), normal(3, 4))
op("moments_axes", lambda tf, x: tf.nn.moments(x, [0, 1, 2]), normal(*I))
op("moments_keep", lambda tf, x: tf.nn.moments(x, [1], keep_dims=True), normal(3, 4, 5))
op("sufficient_shift", lambda tf, x: tf.nn.sufficient_statistics(x, [0], shift=tf.ones([4]))[:3],
   normal(3, 4))
op("normalize_moments", lambda tf, a, b: tf.nn.normalize_moments(
    tf.constant(5.0), a, b, tf.constant(0.5)), normal(4), positive(4))
op("batch_normalization_none", lambda tf, x, m, v: tf.nn.batch_normalization(
    x, m, v, None, None, 1e-3), normal(*I), normal(3), positive(3))
op("batch_norm_global", lambda tf, x, m, v, b, g: tf.nn.batch_norm_with_global_normalization(
    x, m, v, b, g, 1e-3, True), normal(*I), normal(3), positive(3), normal(3), normal(3))
for training in (False, True):
    for layout, channels in (("NHWC", 3), ("NCHW", 7)):
        op(f"fused_batch_norm_{layout}_{training}",
           lambda tf, x, s, o, m, v, t=training, f=layout: tf.nn.fused_batch_norm(
               x, s, o, mean=None if t else m, variance=None if t else v, data_format=f,
               is_training=t)[0], normal(*I), positive(channels), normal(channels),
           normal(channels), positive(channels),
           # TensorFlow's CPU has no such gradient for NCHW outside training
           gradient=training or layout == "NHWC")
for sort in (False, True):
    op(f"top_k_{sort}", lambda tf, x, s=sort: tf.sort(tf.nn.top_k(x, 4, sorted=s)[0]),
       normal(3, 9))
op("in_top_k_2", lambda tf, x, t: tf.nn.in_top_k(x, t, 2), normal(5, 6), ints(0, 6, 5))
op("crelu_axis", lambda tf, x: tf.nn.crelu(x, axis=1), normal(2, 3, 4))
op("relu_layer", lambda tf, x, w, b: tf.nn.relu_layer(x, w, b), normal(3, 4), normal(4, 5),
   normal(5))
op("xw_plus_b_3", lambda tf, x, w, b: tf.nn.xw_plus_b(x, w, b), normal(3, 4), normal(4, 5),
   normal(5))
op("zero_fraction_ints", lambda tf, x: tf.nn.zero_fraction(x), ints(0, 2, 4, 5))
op("log_poisson_full", lambda tf, x, t: tf.nn.log_poisson_loss(t, x, compute_full_loss=True),
   normal(5), positive(5))
op("weighted_cross_entropy_rows", lambda tf, x, t: tf.nn.weighted_cross_entropy_with_logits(
    t, x, tf.constant([0.5, 2.0, 1.0])), normal(4, 3), unit(4, 3))
op("l2_normalize_axes", lambda tf, x: tf.nn.l2_normalize(x, [0, 2]), normal(3, 4, 5))
op("lrn_radius", lambda tf, x: tf.nn.lrn(x, 2, bias=1.5, alpha=0.4, beta=0.75), normal(1, 2, 3, 9))
op("sigmoid_mask", lambda tf, x, m: tf.where(m, tf.nn.sigmoid(x), tf.nn.tanh(x)), normal(3, 4),
   bools(3, 4))
