"""Names what is in an image, with any frozen classifier: a TensorFlow GraphDef or an ONNX model.

    python examples/label_image/label_image.py --graph model.onnx --labels labels.txt --image cat.jpg
    python examples/label_image/label_image.py --graph inception_v3_frozen.pb --labels labels.txt \
        --image grace_hopper.jpg --input_layer input --output_layer InceptionV3/Predictions/Reshape_1

The size and the layout (NHWC or NCHW) of the model's input are read from the model where it tells
them.  `--labels` has one name per line.  Needs Pillow (pip install pillow) to decode images.

Preprocessing differs from model to model, and a classifier fed otherwise than it was trained names
things wrongly: (pixel - mean) / std is applied to pixels of 0 to 255, with --input_mean and
--input_std one number for all channels or three.

    Inception, MobileNet of TensorFlow   --input_mean 127.5 --input_std 127.5
    torchvision, many ONNX models        --input_mean 123.675,116.28,103.53 --input_std 58.395,57.12,57.375
    Caffe's (VGG, AlexNet in ONNX)       --input_mean 103.939,116.779,123.68 --input_std 1 --bgr
"""
import argparse
import sys

import numpy as np

import pyflow as tf
from pyflow.tools import models


def read_image(path, height, width, mean, std, bgr=False, nchw=False):
    """float32 [1, height, width, 3], or [1, 3, height, width], of a JPEG, PNG, GIF or BMP file."""
    with open(path, "rb") as f:
        data = f.read()
    with tf.Graph().as_default(), tf.Session() as session:
        contents = tf.placeholder(tf.string, [])
        image = tf.image.decode_image(contents, channels=3)
        image = image[0] if data[:3] == b"GIF" else image           # a GIF's first frame
        pixels = tf.expand_dims(tf.cast(image, tf.float32), 0)
        pixels = tf.image.resize_bilinear(pixels, [height, width])
        if bgr:
            pixels = tf.reverse(pixels, [3])
        pixels = (pixels - np.float32(mean)) / np.float32(std)
        if nchw:
            pixels = tf.transpose(pixels, [0, 3, 1, 2])
        return session.run(pixels, {contents: data})


def input_form(tensor, height, width):
    """(height, width, NCHW or not) that the model wants; arguments serve where it does not say."""
    shape = tensor.shape
    sizes = shape.as_list() if shape.ndims == 4 else [None] * 4
    nchw = sizes[1] in (1, 3) and sizes[3] not in (1, 3)
    own = sizes[2:] if nchw else sizes[1:3]
    return own[0] or height, own[1] or width, nchw


def scores_of(values):
    """Probabilities [classes] of what the model gave for one image: softmax of logits."""
    scores = np.asarray(values, np.float64).reshape(-1)
    if scores.min() < 0 or abs(scores.sum() - 1) > 1e-2:
        scores = np.exp(scores - scores.max())
        scores /= scores.sum()
    return scores


def read_labels(path, classes):
    """One name for each class.  A file with one line more, or less, has or lacks TensorFlow's class
    0, "background"."""
    with open(path, encoding="utf-8") as f:
        labels = [line.strip() for line in f if line.strip()]
    if len(labels) == classes + 1:
        return labels[1:]
    if len(labels) == classes - 1:
        return ["background", *labels]
    if len(labels) != classes:
        raise ValueError(f"{path} has {len(labels)} labels: expected {classes}, the classes that"
                         " the model tells apart")
    return labels


def numbers(text):
    """The float, or the floats separated by commas."""
    return [float(part) for part in text.split(",")]


def arguments(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", required=True, help="a JPEG, PNG, GIF or BMP file")
    parser.add_argument("--graph", required=True, help="a frozen GraphDef (.pb) or .onnx")
    parser.add_argument("--labels", help="one name per line; without it classes are numbers")
    parser.add_argument("--input_height", type=int, default=299,
                        help="where the model says none; default: 299")
    parser.add_argument("--input_width", type=int, default=299,
                        help="where the model says none; default: 299")
    parser.add_argument("--input_mean", type=numbers, default=[127.5],
                        help="one number, or one for each channel; default: 127.5")
    parser.add_argument("--input_std", type=numbers, default=[127.5], help="the same")
    parser.add_argument("--bgr", action="store_true", help="channels as Caffe has them")
    parser.add_argument("--input_layer", help="name of the input; default: the model's only one")
    parser.add_argument("--output_layer", help="name of the output; default: the model's last")
    parser.add_argument("--top", type=int, default=5, help="how many classes to print; default: 5")
    return parser.parse_args(argv)


def classify(args):
    """[(label, class, probability)], the likeliest first."""
    model = models.load(args.graph)
    if not args.input_layer and len(model.inputs) != 1:
        raise ValueError(f"{args.graph} has {len(model.inputs)} inputs; choose with --input_layer:"
                         f" {', '.join(model.inputs)}")
    fed = models.tensor_name(model.graph, args.input_layer or model.inputs[0])
    wanted = models.tensor_name(model.graph, args.output_layer or model.outputs[-1])
    tensor = model.graph.get_tensor_by_name(fed)
    height, width, nchw = input_form(tensor, args.input_height, args.input_width)
    image = read_image(args.image, height, width, args.input_mean, args.input_std, args.bgr, nchw)
    with tf.Session(graph=model.graph) as session:
        scores = scores_of(session.run(wanted, {fed: image}))
    labels = read_labels(args.labels, len(scores)) if args.labels else None
    best = np.argsort(-scores, kind="stable")[:args.top]
    return [(labels[k] if labels else f"class {k}", k, scores[k]) for k in best]


def main(argv=None):
    try:
        for label, number, score in classify(arguments(argv)):
            print(f"{label} ({number}): {score:.5f}")
    except tf.OpError as e:
        print(e.message, file=sys.stderr)           # without the trace of where the node was made
        return 1
    except (OSError, ValueError, KeyError, models.UnreadableModel) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
