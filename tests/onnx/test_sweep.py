"""Every converter at the edges of its attributes, beside onnxruntime's recorded answers.

The cases are those of sweep_cases.py, the answers those of sweep.xz (record_sweep.py); neither onnx
nor onnxruntime is needed.  Cases are imported side by side into one graph and run by one step; one
that cannot be, or that onnxruntime refuses, runs on its own.  One image in three comes
channels-last, through a Transpose, which converters pass on instead of computing it."""
import itertools
import re
import zlib

import numpy as np
import pytest
import sweep_answers
import sweep_cases

import pyflow as tf
from pyflow.interop import onnx

# What differs on purpose: a pattern of cases' names -> why.
DIFFERENT = {
    r"AffineGrid.* align_corners=1 .*1,4\]": "one place on an axis: PyTorch's 0 here",
    r"Bernoulli-15 .*float32\[4\]$": "onnx.reference draws 1 with the probability of 0",
    r"(Blackman|Hamming)Window.*output_datatype=11": "onnxruntime's coefficients are float32",
    r"Clip.*float32\[20\]": "no bound is none, as in onnx.reference; 3.4e38 in onnxruntime",
    r"Gelu-20 .*float64|Shrink-9 lambd=0.3 float64": "onnxruntime computes by float32 numbers",
    r"Hardmax.*float32\[1,2\] #3": "NaN counts as the largest; onnxruntime finds none",
    r"(GRU|LSTM).*activations=\[[A-Za-z,]*ThresholdedRelu": "alpha is the op's default 1, not 0",
    r"MaxPool.*float32\[1,1,(3,3|5)\]$": "NaN and -inf pass; onnxruntime starts at -3.4e38",
    r"MaxUnpool.*int64:\[1,1,5,5\]": "places are the smaller image's, as in ONNX's own case",
    r"MeanVarianceNormalization.*\[1,2,2,2\]": "0 for constants, by ONNX's 1e-9; NaN there",
    r"NonZero.*float32\[\]": "no axes, as ONNX says; onnxruntime gives one",
    r"Reduce(Max|Min).* #6": "NaN passes; in onnxruntime that depends on its place",
    r"ReduceMean.*float32\[2,0,3\]": "the mean of nothing is NaN, not 0",
    r"Resize.*=align_corners .*float32\[4\]c": "ONNX does not round scale * size down here",
    r"Sign.*float16": "NaN passes, as it does in onnxruntime's float32",
}

# Which ops may need the value of an input while the graph is built -> what of it.
NEEDS = {
    "AffineGrid": "size", "Attention": "heads and features", "CenterCropPad": "shape",
    "Col2Im": "image_shape and block_shape", "Conv": "the weights' shape",
    "ConvTranspose": "the weights' shape; the image's for output_shape",
    "DFT": "the length of the transformed axis", "DeformConv": "all shapes",
    "DepthToSpace": "channels; height and width for CRD", "Dropout": "training_mode",
    "GatherND": "the indices' last size", "MaxPool": "the image's shape, for places only",
    "MaxUnpool": "the image's shape", "MelWeightMatrix": "all",
    "NonMaxSuppression": "how many images and classes", "Pad": "axes",
    "Resize": "sizes for antialias and keep_aspect_ratio_policy", "ScatterND":
    "the indices' last size", "Slice": "axes, or how many", "SpaceToDepth": "sizes for CRD",
    "STFT": "the number of parts", "Squeeze": "axes", "Unsqueeze": "axes"}

_NOISE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-9}


def shards(count, full=None):
    """The cases with their answers, those of one op together, in `count` lists."""
    index, body = sweep_answers.read(full)
    made, at = [[] for _ in range(count)], 0
    ops = itertools.groupby(sweep_cases.cases(full is not None), lambda case: case.op)
    for k, (_, cases) in enumerate(ops):
        for case in cases:
            digest, found = index[case.name]
            assert digest == case.digest(), f"{case.name} has changed: run record_sweep.py"
            if not isinstance(found, str):
                found, at = sweep_answers.arrays(case, found, body, at)
            made[k % count].append((case, found))
    return made


def made_of(pairs):
    """{name: arrays or an exception} of (case, answer) pairs."""
    graph, fetched, feeds, made = tf.Graph(), {}, {}, {}
    for number, (case, expected) in enumerate(pairs):
        if isinstance(expected, str):
            continue
        try:
            model = onnx.import_model(case.model(turned(case)), graph, name=f"case{number}")
        except onnx.NeedsConstant:
            assert case.op in NEEDS, case.name
            continue                        # alone, values take the place of inputs
        except onnx.OnnxError:
            continue
        fetched[case.name] = list(model.outputs.values())
        given = case.feeds(turned(case))
        feeds.update({t: given[name] for name, t in model.inputs.items()})
    with tf.Session(graph=graph) as session:
        try:
            made = session.run(fetched, feeds)
        except tf.errors.OpError:
            pass                            # one of them: each alone
    return {case.name: made[case.name] if case.name in made else alone(case) for case, _ in pairs}


def turned(case):
    """Whether the case's first input comes channels-last."""
    return case.turnable and zlib.crc32(case.name.encode()) % 3 == 0


def alone(case):
    """The arrays, or what was raised."""
    try:
        prepared = onnx.prepare(case.model(turned(case)))
        try:
            return prepared.run(case.feeds(turned(case)))
        finally:
            prepared.close()
    except (onnx.OnnxError, tf.errors.OpError) as error:
        return error


def difference(case, expected, made):
    """What is wrong with the arrays, or None."""
    if isinstance(expected, str):
        return None                         # onnxruntime refuses: an error or an answer, as made_of
    if isinstance(made, Exception):
        return f"{type(made).__name__}: {made}"
    for (dtype, shape, array), own in zip(expected, made, strict=True):
        own = np.asarray(own, object if dtype == object else None)
        if own.dtype != dtype or own.shape != shape:
            return f"expected {dtype}{shape}, got {own.dtype}{own.shape}"
        if array is None:
            continue
        if dtype == object:
            flat = [t.decode() if isinstance(t, bytes) else t for t in own.ravel()]
            own = sweep_answers.texts(flat, shape)
        if not _close(array, own, case.tolerance):
            return f"expected {array.tolist()}, got {own.tolist()}"
    return None


def _close(expected, made, tolerance):
    if expected.dtype.kind != "f":
        return bool((expected == made).all())
    noise = tolerance * _NOISE[expected.dtype.name]
    finite = expected[np.isfinite(expected)].astype(np.float64)
    size = min(np.abs(finite).max(initial=0.0), 1.0) if tolerance == 1 else 1.0
    return np.allclose(made.astype(np.float64), expected.astype(np.float64), rtol=noise,
                       atol=noise * size, equal_nan=True)


SHARDS = 12


@pytest.fixture(scope="module")
def recorded():
    return shards(SHARDS)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_cases(recorded, shard):
    pairs = recorded[shard]
    made = made_of(pairs)
    on_purpose = "|".join(DIFFERENT)
    wrong = {case.name: difference(case, expected, made[case.name]) for case, expected in pairs}
    surprises = [f"{name}: {text}" for name, text in wrong.items()
                 if text is not None and not re.match(on_purpose, name)]
    assert not surprises, f"{len(surprises)} cases\n" + "\n".join(surprises)


def test_every_op_is_swept():
    ops = {op for op in onnx.supported_ops() if "." not in op}
    assert ops == set(sweep_cases.FAMILIES) | set(sweep_cases.UNSWEPT)
    assert set(sweep_cases.FAMILIES) <= set(sweep_cases.VERSIONS)


def test_what_differs_on_purpose_differs(recorded):
    """No entry of DIFFERENT is about no case."""
    names = [case.name for pairs in recorded for case, expected in pairs
             if not isinstance(expected, str)]
    idle = [pattern for pattern in DIFFERENT if not any(re.match(pattern, n) for n in names)]
    assert not idle
