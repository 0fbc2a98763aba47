"""Ops of older graphs that newer functions no longer write, and ops that only files and streams
of pixels reach."""

import base64

import numpy as np

from cases import ints, normal, op, positive, script, value

I = (2, 5, 6, 3)
GIF = base64.b64decode(
    "R0lGODlhBAADAIEAAPDw8KCgoFBQUAAAACH5BAABAAAALAAAAAAEAAMAAAgOAAUEAEAQwIAAAwgGCAgAIfkEAQEABAAs"
    "AAAAAAQAAwCB8PDwoKCgUFBQAAAACA4AARAYICAAAQAFCQ4ICAA7")
BMP = base64.b64decode(
    "Qk1mAAAAAAAAADYAAAAoAAAABQAAAAMAAAABABgAAAAAADAAAADEDgAAxA4AAAAAAAAAAAAARZtM+IKawElff7+656Hc"
    "ABxO0HmmQOmqWe2yf3txgABC8B0nthM7BDss3lEyengA")


def raw(name, *arguments, **attributes):
    """tf.raw_ops.NAME with its inputs in the order of `arguments`."""
    return lambda tf, *x: getattr(tf.raw_ops, name)(**dict(zip(arguments, x)), **attributes)


# ------------------------------------------------------------------------------------- arithmetic
op("older_div", raw("Div", "x", "y"), normal(3, 4), positive(4))
for _type in ("int32", "int64", "uint8"):
    op(f"older_div_{_type}", raw("Div", "x", "y"), ints(0, 99, 3, 4, dtype=_type),
       ints(1, 9, 4, dtype=_type))
for _type in ("int32", "int64", "float32", "float64"):
    op(f"older_mod_{_type}", raw("Mod", "x", "y"), ints(-99, 99, 3, 4, dtype=_type),
       ints(1, 9, 4, dtype=_type), gradient=False)
op("older_rank", lambda tf, x: tf.raw_ops.Rank(input=x), normal(3, 1, 2))
# Not at 0: TensorFlow's gradient of BesselI1 is 1 there, the derivative is 1/2.
for _name in ("BesselI0", "BesselI1"):
    op(f"older_{_name}", raw(_name, "x"), normal(3, 4))
    op(f"older_{_name}_double", raw(_name, "x"), value([0.01, -0.5, 7.9, 8.1, 50.0], "float64"))
op("older_batch_matmul", raw("BatchMatMul", "x", "y", adj_x=True), normal(2, 4, 3),
   normal(2, 4, 5))
op("older_batch_matmul_adjoint", raw("BatchMatMul", "x", "y", adj_y=True),
   normal(2, 3, 4, dtype=np.complex64), normal(2, 5, 4, dtype=np.complex64), gradient=False)
for _i, _equation in enumerate(["ij,jk->ik", "bij,bkj->bik", "ijj->ji", "...ij,jk->...ik"]):
    _operands = {0: [(3, 4), (4, 2)], 1: [(2, 3, 4), (2, 5, 4)], 2: [(3, 4, 4)],
                 3: [(2, 2, 3, 4), (4, 5)]}[_i]
    op(f"older_einsum_{_i}", lambda tf, *x, e=_equation: tf.raw_ops.Einsum(
        inputs=list(x), equation=e), *[normal(*s) for s in _operands])


# ------------------------------------------------------------------------------------ arrays
op("older_space_to_batch", lambda tf, x: tf.raw_ops.SpaceToBatch(
    input=x, paddings=[[1, 0], [0, 2]], block_size=2), normal(*I))
op("older_batch_to_space", lambda tf, x: tf.raw_ops.BatchToSpace(
    input=x, crops=[[0, 1], [1, 0]], block_size=2), normal(8, 3, 2, 2))
op("older_empty", lambda tf, x: tf.raw_ops.Empty(shape=[2, 3], dtype=tf.float32, init=True) + x,
   normal(2, 3))
# TensorFlow's gradient of MatrixDiagV2 aligns diagonals of several lengths to the right, the op to
# the left: compared in value there.
for _k in ([0, 0], [-1, 1], [0, 1]):
    _tag = f"{_k[0]}_{_k[1]}"
    op(f"older_diag_part_{_tag}", raw(
        "MatrixDiagPartV2", "input", k=_k, padding_value=np.float32(9)), normal(2, 3, 4))
    op(f"older_diag_{_tag}", raw("MatrixDiagV2", "diagonal", k=_k, num_rows=-1, num_cols=-1,
                                 padding_value=np.float32(7)),
       normal(*((2, 3) if _k[0] == _k[1] else (2, _k[1] - _k[0] + 1, 3))),
       gradient=_k[0] == _k[1])
    op(f"older_set_diag_{_tag}", raw("MatrixSetDiagV2", "input", "diagonal", k=_k),
       normal(2, 3, 4), normal(*((2, 3) if _k[0] == _k[1] else (2, _k[1] - _k[0] + 1, 3))))

# ------------------------------------------------------------------------------------ normalisation
for _version in ("", "V2"):
    for _training in (True, False):
        op(f"older_batch_norm{_version}_{_training}",
           lambda tf, x, s, o, m, v, name="FusedBatchNorm" + _version, training=_training:
           list(getattr(tf.raw_ops, name)(
               x=x, scale=s, offset=o, mean=m[:0] if training else m,
               variance=v[:0] if training else v, is_training=training, epsilon=0.01))[:3],
           normal(2, 4, 5, 3), positive(3), normal(3), normal(3), positive(3))


# ------------------------------------------------------------------------------------ detection
def boxes(count):
    """Boxes of 0.3 by 0.4 around a line, and their scores."""
    return positive(count, 4), positive(count)


op("older_nms", lambda tf, b, s: tf.raw_ops.NonMaxSuppression(
    boxes=b, scores=s, max_output_size=4, iou_threshold=0.3), *boxes(9), gradient=False)
op("older_nms_v2", lambda tf, b, s: tf.raw_ops.NonMaxSuppressionV2(
    boxes=b, scores=s, max_output_size=6, iou_threshold=0.2), *boxes(9), gradient=False)
for _seed in (3, 8):
    op(f"older_distorted_box_{_seed}", lambda tf, b, s=_seed: list(
        tf.raw_ops.SampleDistortedBoundingBox(
            image_size=[40, 50, 3], bounding_boxes=b, seed=s, seed2=5, min_object_covered=0.3,
            area_range=[0.1, 0.9], use_image_if_no_bounding_boxes=True)),
       value([[[0.1, 0.2, 0.7, 0.9]]]), gradient=False)
op("older_unigram_sampler", lambda tf, x: list(tf.raw_ops.ThreadUnsafeUnigramCandidateSampler(
    true_classes=x, num_true=1, num_sampled=5, unique=True, range_max=9, seed=2, seed2=3)),
   ints(0, 9, 3, 1, dtype=np.int64))

# ----------------------------------------------------------------------------------- strings, files
op("older_full_match", lambda tf, x: tf.raw_ops.RegexFullMatch(
    input=["abc", "ab", "", "aab"], pattern="a+b"), normal(1))
PACKED = [("ZLIB", "eJxLTEpOSU0DAAgeAlY="), ("GZIP", "H4sIAAAAAAACA0tMSk5JTQMA7zmOSwYAAAA="),
          ("", "YWJj")]
op("older_decode_compressed", lambda tf, x: [tf.raw_ops.DecodeCompressed(
    bytes=[base64.b64decode(text)], compression_type=kind) for kind, text in PACKED], normal(1))
op("older_decode_gif", lambda tf, x: [tf.raw_ops.DecodeGif(contents=GIF),
                                      tf.raw_ops.DecodeImage(contents=GIF)], normal(1))
op("older_decode_bmp", lambda tf, x: [
    tf.raw_ops.DecodeBmp(contents=BMP), tf.raw_ops.DecodeBmp(contents=BMP, channels=3),
    tf.raw_ops.DecodeImage(contents=BMP, dtype=tf.float32)], normal(1))


def ramp(tf):
    """A smooth image, which JPEG keeps."""
    rows, columns = np.mgrid[:16, :24]
    return np.stack([columns * 10, rows * 15, (rows + columns) * 6], -1).astype(np.uint8)


op("older_jpeg_crop", lambda tf, x: [
    tf.raw_ops.DecodeAndCropJpeg(
        contents=tf.raw_ops.EncodeJpeg(image=ramp(tf), format="rgb"), crop_window=[2, 4, 9, 7],
        dct_method="INTEGER_ACCURATE"),
    tf.shape(tf.raw_ops.DecodeJpeg(contents=tf.raw_ops.EncodeJpegVariableQuality(
        images=ramp(tf), quality=50)))], normal(1))


# ------------------------------------------------------------------------------------ effects
@script
def older_prints(tf):
    """What is printed passes through; a Python function without state is called."""
    x = tf.constant([1.0, 2.0])
    shown = tf.raw_ops.Print(input=x, data=[x], message="older_prints ")
    line = tf.raw_ops.PrintV2(input="older_prints", output_stream="stderr")
    with tf.control_dependencies([line]):
        y = tf.identity(shown)
    squared = tf.py_func(lambda v: v * v, [y], tf.float32, stateful=False)
    (slope,) = tf.gradients(y * y, x)
    with tf.Session() as session:
        return dict(zip(["y", "squared", "slope"], session.run([y, squared, slope])))


@script
def older_removed(tf):
    """Ops that TensorFlow keeps only for graphs of an early version."""
    graph_def = tf.GraphDef()
    with tf.Graph().as_default() as graph:
        tf.constant(np.linspace(-2, 1.5, 12).reshape(3, 4).astype(np.float32), name="x")
        tf.constant(np.array([0.5, 4.0, 30.0], np.float32), name="rate")
        tf.constant([6], name="shape")
        graph_def.CopyFrom(graph.as_graph_def())
    graph_def.versions.producer = 5
    wanted = {"QuantizeAndDequantize": ["x"], "PlaceholderV2": [],
              "RandomPoisson": ["shape", "rate"]}
    for name, inputs in wanted.items():
        node = graph_def.node.add(name=name, op=name, input=inputs)
        if name == "RandomPoisson":
            node.attr["seed"].i, node.attr["S"].type = 3, tf.int32.as_datatype_enum
        node.attr["dtype" if name in ("PlaceholderV2", "RandomPoisson") else "T"].type = 1
    graph_def.node[-2].attr["shape"].shape.dim.add(size=2)
    tf.import_graph_def(graph_def, name="")
    names = ["QuantizeAndDequantize:0", "PlaceholderV2:0", "RandomPoisson:0"]
    with tf.Session() as session:
        found = session.run(names, {"PlaceholderV2:0": [1.0, 2.0]})
    return dict(zip([n.replace(":", "_") for n in names], found))
