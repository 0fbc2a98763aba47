"""tf.summary's ops: values, histograms, pictures, sounds and texts of a step for TensorBoard.

Invariants
  1. A tag is the op's name scope, behind `family` where one is given; characters that tags do not
     have become underscores.
  2. Each op gives one serialized Summary, a scalar string, and stands in the collection SUMMARIES
     or those given.

Thread: the one building the graph.  Source: TF 1.15's tensorflow/python/summary.

Example:  `tf.summary.scalar("loss", loss); merged = tf.summary.merge_all()`.
"""
import contextlib
import logging
import re

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.ops.summary.summary_ops import (AudioSummaryV2, HistogramSummary, ImageSummary,
                                            MergeSummary, ScalarSummary, TensorSummaryV2)

_NO_TAG = re.compile(r"[^-/\w\.]")
_log = logging.getLogger("tensorflow")


def _clean(name):
    """`name` as a tag may be; None stays."""
    if name is None:
        return None
    made = _NO_TAG.sub("_", name).lstrip("/")
    if made != name:
        _log.info("Summary name %s is illegal; using %s instead.", name, made)
    return made


@contextlib.contextmanager
def _summary_scope(name, family, values):
    """(tag, scope) for an op of that name."""
    name, family = _clean(name), _clean(family)
    with ops.name_scope(name if family is None else f"{family}/{name}", None, values) as scope:
        tag = scope.rstrip("/")
        yield (tag if family is None else f"{family}/{tag}"), scope


def _collected(summary, collections, default=(GraphKeys.SUMMARIES,)):
    for key in default if collections is None else collections:
        ops.add_to_collection(key, summary)
    return summary


def scalar(name, tensor, collections=None, family=None):
    """A number per step: a scalar string, the Summary of a real scalar `tensor`.

    name: the op's, and with the name scope the tag; collections: default [SUMMARIES]; family: a
    group of tags, put before the tag. InvalidArgumentError when run for another shape.
    TF: tf.summary.scalar.

        >>> with tf.Session() as sess:
        ...     data = sess.run(tf.summary.scalar("loss", tf.constant(0.5)))
        >>> tf.summary.Summary.FromString(data).value[0].simple_value
        0.5
    """
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        return _collected(ScalarSummary(tag, tensor, name=scope), collections)


def histogram(name, values, collections=None, family=None):
    """How real numbers `values` of any shape are spread, in TensorFlow's 1,551 buckets.

    The other arguments as in scalar. InvalidArgumentError when run for NaN and infinity.
    TF: tf.summary.histogram.
    name: of the node and the curve. collections: where the summary is put, by default the one of
    merge_all; family: a prefix of its tag.

        >>> data = tf.Session().run(tf.summary.histogram("weights", [1.0, 2.0, 3.0]))
        >>> [value] = tf.Summary.FromString(data).value
        >>> value.tag, value.histo.num, value.histo.sum
        ('weights', 3.0, 6.0)
    """
    with _summary_scope(name, family, [values]) as (tag, scope):
        return _collected(HistogramSummary(tag, values, name=scope), collections)


def image(name, tensor, max_outputs=3, collections=None, family=None):
    """Up to max_outputs pictures of `tensor`, [batch, height, width, channels], channels 1, 3 or 4,
    uint8, half, float or double; tags end in /image, or in /image/0, ... if max_outputs is not 1.

    Floats are scaled, each picture by itself: the largest becomes 255, or, where one is negative, 0
    becomes 128. The other arguments as in scalar. InvalidArgumentError when run for other shapes.
    TF: tf.summary.image.
    name: of the node and the pictures. collections: where the summary is put; family: a prefix of
    its tags.

        >>> data = tf.Session().run(tf.summary.image("digit", tf.zeros([2, 28, 28, 1])))
        >>> [(v.tag, v.image.height, v.image.width) for v in tf.Summary.FromString(data).value]
        [('digit/image/0', 28, 28), ('digit/image/1', 28, 28)]
    """
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        made = ImageSummary(tag, tensor, max_images=max_outputs, name=scope)
        return _collected(made, collections)


def audio(name, tensor, sample_rate, max_outputs=3, collections=None, family=None):
    """Up to max_outputs sounds of `tensor`, float32 [batch, frames] or [batch, frames, channels] in
    -1 to 1, as WAV files; sample_rate: a scalar, in Hz; tags end in /audio, or /audio/0, ...

    The other arguments as in scalar. InvalidArgumentError when run for other shapes.
    TF: tf.summary.audio."""
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        rate = ops.convert_to_tensor(sample_rate, dtype=dtypes.float32, name="sample_rate")
        made = AudioSummaryV2(tag, tensor, rate, max_outputs=max_outputs, name=scope)
        return _collected(made, collections)


def text(name, tensor, collections=None):
    """Texts, a string tensor of up to two dimensions, as Markdown or a table of it.

    ValueError for other types. The other arguments as in scalar. TF: tf.summary.text."""
    from pyflow.framework import protos
    tensor = ops.convert_to_tensor(tensor)
    if tensor.dtype.base_dtype is not dtypes.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    plugin = protos.SummaryMetadata.PluginData(plugin_name="text")
    return tensor_summary(name, tensor, collections=collections,
                          summary_metadata=protos.SummaryMetadata(plugin_data=plugin))


def tensor_summary(name, tensor, summary_description=None, collections=None, summary_metadata=None,
                   family=None, display_name=None):
    """A tensor of any shape and dtype as it is, for a plugin of TensorBoard's.

    summary_metadata: a SummaryMetadata that names it; summary_description, display_name: texts put
    into that. The other arguments as in scalar. InvalidArgumentError when run for a resource.
    TF: tf.summary.tensor_summary."""
    from pyflow.framework import protos
    metadata = protos.SummaryMetadata()
    if summary_metadata is not None:
        metadata.MergeFromString(summary_metadata.SerializeToString())
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        made = TensorSummaryV2(tag, tensor, metadata.SerializeToString(), name=scope)
        return _collected(made, collections)


def merge(inputs, collections=None, name=None):
    """Several summaries, scalar strings, as one.

    collections: where it is put besides, default none. InvalidArgumentError when run if two have a
    tag in common. TF: tf.summary.merge.
    inputs: the summaries.

        >>> both = tf.summary.merge([tf.summary.scalar("a", 1.0), tf.summary.scalar("b", 2.0)])
        >>> [v.simple_value for v in tf.Summary.FromString(tf.Session().run(both)).value]
        [1.0, 2.0]
    """
    inputs = list(inputs)
    name = _clean(name)
    with ops.name_scope(name, "Merge", inputs):
        return _collected(MergeSummary(inputs, name=name), collections, ())


def merge_all(key=GraphKeys.SUMMARIES, scope=None, name=None):
    """All summaries of the graph's collection `key` as one scalar string, or None if there is none.

    scope: a regular expression that their names begin with. InvalidArgumentError when run, as merge.
    TF: tf.summary.merge_all.
    key: the collection's name; None, too, where nothing is in it.

        >>> nodes = [tf.summary.scalar(name, 0.5) for name in ("loss", "rate")]
        >>> merged = tf.summary.merge_all()
        >>> data = tf.Session().run(merged)
        >>> [value.tag for value in tf.Summary.FromString(data).value]
        ['loss', 'rate']
        >>> tf.summary.merge_all(scope="nothing") is None
        True
    """
    found = ops.get_collection(key, scope=scope)
    return merge(found, name=name) if found else None


def get_summary_description(node_def):
    """The SummaryDescription in a TensorSummary's NodeDef; ValueError for other ops.
    TF: tf.summary.get_summary_description."""
    from google.protobuf import json_format

    from pyflow.framework import protos
    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    text = node_def.attr["description"].s.decode()
    return json_format.Parse(text, protos.SummaryDescription())


PUBLIC = {f"summary.{name}": function for name, function in (
    ("scalar", scalar), ("histogram", histogram), ("image", image), ("audio", audio),
    ("text", text), ("tensor_summary", tensor_summary), ("merge", merge),
    ("merge_all", merge_all), ("get_summary_description", get_summary_description))}
