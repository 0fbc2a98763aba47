"""Special functions, segments, searches, scattered updates, quantisation, older forms: what
cases_math leaves out."""

import numpy as np

from cases import Input, bools, ints, normal, op, positive, unit, value

D = np.float64

# --------------------------------------------------------------------------- special functions
for name, make in {
    "ndtri": lambda *s, **k: Input(lambda rng: rng.random(s).astype(k.get("dtype", np.float32))),
    "erfinv": unit,
    "bessel_i0e": normal,
    "bessel_i1e": normal,
    "bessel_i0": normal,
    "bessel_i1": normal,
}.items():
    for dtype in (np.float32, D):
        op(
            f"{name}_{np.dtype(dtype).name}",
            lambda tf, x, name=name: getattr(tf.math, name)(x),
            make(3, 4, dtype=dtype),
        )
op("bessel_far", lambda tf, x: [tf.math.bessel_i0e(x), tf.math.bessel_i1e(x)],
   value([0.0, -0.5, 7.9, 8.1, -30.0, 400.0], D))
op("erfcinv", lambda tf, x: tf.math.erfcinv(x), positive(3, 4, dtype=D), gradient=True)
for name in ("igamma", "igammac"):
    for dtype in (np.float32, D):
        op(
            f"{name}_{np.dtype(dtype).name}",
            lambda tf, a, x, name=name: getattr(tf, name)(a, x),
            positive(3, 4, dtype=dtype),
            positive(4, dtype=dtype),
        )
op("igamma_far", lambda tf, a, x: [tf.igamma(a, x), tf.igammac(a, x)],
   value([0.1, 0.5, 20.0, 100.0, 3.0, 50.0], D), value([5.0, 0.01, 25.0, 80.0, 0.0, 200.0], D))
op("igamma_edges", lambda tf, a, x: [tf.igamma(a, x), tf.igammac(a, x)],
   value([-1.0, 0.0, 2.0, 2.0], D), value([1.0, 1.0, -1.0, np.inf], D), gradient=False)
op("gamma_slopes", lambda tf, a, x: [
    tf.raw_ops.IgammaGradA(a=a, x=x), tf.raw_ops.RandomGammaGrad(alpha=a, sample=x)],
   positive(3, 4, dtype=D), positive(3, 4, dtype=D), gradient=False)
op("betainc", lambda tf, a, b, x: tf.betainc(a, b, x), positive(5, dtype=D), positive(5, dtype=D),
   Input(lambda rng: rng.random(5)))
op("zeta_polygamma", lambda tf, a, x: [tf.zeta(a + 1.0, x), tf.polygamma(tf.floor(a * 2.0), x)],
   positive(4, dtype=D), positive(4, dtype=D))
op("lbeta", lambda tf, x: tf.lbeta(x), positive(3, 4, dtype=D))
op("xlog_family", lambda tf, x, y: [
    tf.math.xlogy(x, y), tf.math.xdivy(x, y), tf.math.xlog1py(x, y)],
   value([0.0, 1.5, -2.0, 0.0]), value([0.0, 0.5, 3.0, 2.0]))
op("next_after", lambda tf, x, y: tf.math.nextafter(x, y), normal(4, dtype=D), normal(4, dtype=D))
op("population_count", lambda tf, x, y: [
    tf.bitwise.invert(x), tf.bitwise.left_shift(x, y), tf.bitwise.right_shift(x, y),
    tf.raw_ops.PopulationCount(x=x)], ints(-99, 99, 6), ints(0, 8, 6))
for flags in ({}, {"reverse": True}, {"exclusive": True}):
    op("cumulative_logsumexp_" + "_".join(flags),
       lambda tf, x, flags=flags: tf.math.cumulative_logsumexp(x, 1, **flags),
       normal(3, 5, dtype=D))
op("polyval", lambda tf, x: tf.math.polyval([tf.constant(2.0), 3.0, -1.0], x), normal(4))
op("reciprocals", lambda tf, x: [tf.math.reciprocal_no_nan(x), tf.raw_ops.Inv(x=x + 3.0)],
   value([0.0, 2.0, -4.0]))
op("scalar_mul", lambda tf, x: tf.scalar_mul(3.0, x), normal(4))
op("multiply_no_nan", lambda tf, x, y: tf.math.multiply_no_nan(x, y), normal(3),
   value([0.0, 1.0, 2.0]))
op("divide_no_nan", lambda tf, x, y: tf.div_no_nan(x, y), normal(3), value([0.0, 1.0, 2.0]))
op("truncatemod", lambda tf, x, y: [tf.truncatemod(x, y), tf.div(x, y), tf.mod(x, y)],
   ints(-9, 9, 5), value([2, -3, 4, -5, 7], np.int32))
op("angles", lambda tf, x, y: tf.angle(tf.complex(x, y)), normal(5, dtype=D), normal(5, dtype=D))
op("clip_op", lambda tf, x: tf.raw_ops.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.5),
   normal(3, 4))
op("approximately_equal", lambda tf, x, y: tf.raw_ops.ApproximateEqual(x=x, y=y, tolerance=0.5),
   normal(9), normal(9))
op("euclidean_norm", lambda tf, x: tf.reduce_euclidean_norm(x, 1)
   if hasattr(tf, "reduce_euclidean_norm") else tf.math.reduce_euclidean_norm(x, 1), normal(3, 4))
op("select_v2", lambda tf, c, x, y: tf.where_v2(c, x, y), bools(3, 1), normal(3, 4), normal(4))
op("bias_add_v1", lambda tf, x, b: tf.raw_ops.BiasAddV1(value=x, bias=b), normal(3, 4), normal(4))
op("old_forms", lambda tf, x: [
    tf.raw_ops.Concat(concat_dim=1, values=[x, x]), tf.raw_ops.Gather(params=x, indices=[1, 0]),
    tf.ensure_shape(x, [2, None])], normal(2, 3))
op("snapshot", lambda tf, x: tf.raw_ops.Snapshot(input=x), normal(3), gradient=False)
op("placeholder_with_default", lambda tf, x: tf.placeholder_with_default(x * 2.0, [3]), normal(3))
op("empty_rank", lambda tf, x: [tf.rank(x), tf.shape(tf.raw_ops.Empty(
    shape=tf.shape(x), dtype=tf.float32))], normal(3, 4))
op("concat_offset", lambda tf, x: tf.raw_ops.ConcatOffset(
    concat_dim=1, shape=[tf.shape(x), tf.shape(x)]), normal(3, 4))
op("batch_space_blocks", lambda tf, x: [
    tf.space_to_batch(x, [[0, 0], [1, 1]], block_size=2),
    tf.batch_to_space(tf.space_to_batch(x, [[0, 0], [1, 1]], block_size=2), [[0, 0], [1, 1]],
                      block_size=2)], normal(1, 4, 2, 3))

# ------------------------------------------------------------------------------------ segments
IDS = [0, 0, 1, 3]
for name in ("max", "min", "prod"):
    op(f"segment_{name}", lambda tf, x, name=name: getattr(tf.math, f"segment_{name}")(x, IDS),
       normal(4, 3), gradient=name != "prod")
for name in ("max", "min", "prod", "mean", "sqrt_n"):
    op(f"unsorted_segment_{name}",
       lambda tf, x, name=name: getattr(tf.math, f"unsorted_segment_{name}")(x, [2, 0, 2, 1], 3),
       normal(4, 3))
for name in ("sum", "mean", "sqrt_n"):
    op(f"sparse_segment_{name}", lambda tf, x, name=name: [
        getattr(tf, f"sparse_segment_{name}")(x, [3, 0, 1, 0], IDS),
        getattr(tf, f"sparse_segment_{name}")(x, [3, 0, 1, 0], IDS, num_segments=6)], normal(4, 3))
for name in ("Sum", "Mean", "SqrtN"):
    op(f"sparse_segment_{name}_grad_op",
       lambda tf, g, name=name: getattr(tf.raw_ops, f"SparseSegment{name}Grad")(
           grad=g, indices=[3, 0, 1, 0], segment_ids=IDS, output_dim0=5), normal(4, 3),
       gradient=False)

# ------------------------------------------------------------------------------------- searches
op("searchsorted", lambda tf, s, v: [
    tf.searchsorted(tf.sort(s), v), tf.searchsorted(tf.sort(s), v, side="right"),
    tf.searchsorted([1, 3, 3, 9], [3, 4, 0, 9, 10], out_type=tf.int64)],
   normal(2, 5), normal(2, 3))
op("sort", lambda tf, x: [
    tf.sort(x), tf.sort(x, axis=0, direction="DESCENDING"), tf.sort(x, direction="DESCENDING")],
   normal(3, 4))
op("argsort", lambda tf, x, i: [
    tf.argsort(x), tf.argsort(x, axis=0, direction="DESCENDING"), tf.sort(i),
    tf.argsort(i, stable=True)],
   normal(3, 4), ints(-4, 4, 9))
op("unravel_index", lambda tf, i: [tf.unravel_index(i, [3, 4]), tf.unravel_index(5, [2, 3])],
   ints(0, 12, 5))
op("histograms", lambda tf, x: [
    tf.histogram_fixed_width(x, [-1.0, 1.0], 5), tf.histogram_fixed_width_bins(x, [-1.0, 1.0], 5),
    tf.raw_ops.HistogramFixedWidth(values=x, value_range=[-1.0, 1.0], nbins=7)], normal(20))
op("unique_counts", lambda tf, x: [
    *tf.unique_with_counts(x), *tf.raw_ops.UniqueV2(x=x, axis=np.zeros(0, np.int64)),
    *tf.raw_ops.UniqueWithCountsV2(x=x, axis=np.zeros(0, np.int64))], ints(0, 5, 12))
op("listdiff", lambda tf, x, y: list(tf.setdiff1d(x, y)), ints(0, 9, 8), ints(0, 9, 4))
op("confusion_matrix", lambda tf, x, y: [
    tf.confusion_matrix(x, y), tf.confusion_matrix(x, y, 6, tf.float32),
    tf.confusion_matrix(x, y, weights=[1.0, 2.0, 0.5, 1.0, 1.0, 3.0], dtype=tf.float32)],
   ints(0, 5, 6), ints(0, 5, 6))
op("repeat", lambda tf, x: [
    tf.repeat(x, 2), tf.repeat(x, [1, 0, 2], axis=0), tf.repeat(x, 3, axis=-1)], normal(3, 2))
op("in_top_k_older", lambda tf, x: [
    tf.raw_ops.InTopK(predictions=x, targets=[1, 0, 4], k=2), tf.nn.in_top_k(x, [1, 0, 4], 3)],
   normal(3, 5))
op("reverse_older", lambda tf, x: tf.raw_ops.Reverse(tensor=x, dims=[True, False]), normal(3, 4))

# ------------------------------------------------------------------------------ scattered updates
for name in ("add", "sub", "max", "min"):
    call = "tensor_scatter_nd_" + name
    op(call, lambda tf, x, u, call=call: [
        getattr(tf, call)(x, [[0], [2], [0]], u), getattr(tf, call)(x, [[0, 1], [2, 0]], u[:2, 0])],
       normal(3, 2), normal(3, 2))

# ---------------------------------------------------------------------------------- quantisation
op("fake_quant_args", lambda tf, x: [
    tf.fake_quant_with_min_max_args(x), tf.fake_quant_with_min_max_args(x, -1, 2, 3),
    tf.fake_quant_with_min_max_args(x, -1, 1, narrow_range=True)], normal(3, 5))
op("fake_quant_args_gradient",
   lambda tf, g, x: tf.fake_quant_with_min_max_args_gradient(g, x, -1, 1), normal(9), normal(9),
   gradient=False)
op("fake_quant_vars", lambda tf, x, a, b: [
    tf.fake_quant_with_min_max_vars(x, a, b), tf.fake_quant_with_min_max_vars(x, a, b, 4, True)],
   normal(4, 3), value(-0.7), value(1.1))
op("fake_quant_vars_gradient", lambda tf, g, x: list(tf.fake_quant_with_min_max_vars_gradient(
    g, x, -0.5, 0.75)), normal(9), normal(9), gradient=False)
op("fake_quant_channels", lambda tf, x, a, b: tf.fake_quant_with_min_max_vars_per_channel(x, a, b),
   normal(4, 3), value([-0.5, -1.0, -0.1]), value([0.5, 0.3, 2.0]))
op("fake_quant_channels_gradient", lambda tf, g, x: list(
    tf.fake_quant_with_min_max_vars_per_channel_gradient(
        g, x, [-0.5, -1.0, -0.1], [0.5, 0.3, 2.0])),
   normal(4, 3), normal(4, 3), gradient=False)
op("quantize_and_dequantize", lambda tf, x: [
    tf.quantization.quantize_and_dequantize(x, -1.0, 1.0, range_given=True),
    tf.quantization.quantize_and_dequantize(x, 0.0, 0.0, num_bits=4, narrow_range=True),
    tf.quantization.quantize_and_dequantize(x, 0.0, 2.0, signed_input=False, range_given=True,
                                            round_mode="HALF_UP")], normal(4, 3))
op("quantize_and_dequantize_v3", lambda tf, x: tf.raw_ops.QuantizeAndDequantizeV3(
    input=x, input_min=-1.0, input_max=1.5, num_bits=6), normal(4, 3))
