"""Element-wise fusion: what becomes a program, equal bits with and without, errors, options."""
import random

import numpy as np
import pytest

import pyflow as tf
import rewriting
from pyflow.passes import fuse_elementwise, pipeline
from pyflow.passes.options import OFF, ON, Options

FLOATS = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
PROGRAMS = 60


def fused(fetches, feeds=(), targets=()):
    graph = rewriting.pruned(fetches, feeds, targets)
    fuse_elementwise.fuse(graph)
    return graph


def programs(graph):
    return [n.attrs["program"] for n in graph.nodes if n.op == fuse_elementwise.OP]


def session(on):
    """A session whose only rewrite is fusion, or none."""
    config = tf.ConfigProto()
    options = config.graph_options.rewrite_options
    options.constant_folding = options.arithmetic_optimization = OFF
    options.common_subgraph_elimination = OFF
    options.remapping = ON if on else OFF
    return tf.Session(config=config)


def same_bits(fetches, feeds):
    found = []
    for on in (True, False):
        with session(on) as sess:
            found.append(sess.run(fetches, feeds))
    for a, b in zip(*found):
        assert a.dtype == b.dtype and a.shape == b.shape
        nan = np.isnan(np.asarray(a, np.float64))
        assert (nan == np.isnan(np.asarray(b, np.float64))).all()
        assert a[~nan].tobytes() == b[~nan].tobytes()
    return found[0]


# ------------------------------------------------------------------------------- what is fused
def test_chain():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        b = tf.placeholder(tf.float32, [4], name="b")
        y = tf.nn.relu(tf.nn.bias_add(x * 2.0, b), name="y")
        rewriting.check_golden("fuse_elementwise_chain", rewriting.pruned([y], [x, b]),
                               fuse_elementwise.fuse)


def test_gradients_of_activations():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 5], name="x")
        y = tf.tanh(tf.sigmoid(x * 0.5))
        dx = tf.gradients(y, x)[0]
        rewriting.check_golden("fuse_elementwise_gradient", rewriting.pruned([dx], [x]),
                               fuse_elementwise.fuse)


def test_select_and_logic():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [64], name="x")
        inside = tf.logical_and(x > -1.0, tf.logical_not(x >= 1.0))
        y = tf.where(inside, x, tf.zeros([64]))
        assert len(programs(fused([y], [x]))) == 1
        data = np.array([-2, -1, -0.5, np.nan, 0.999, 1, 3, -0.0] * 8, np.float32)
        (found,) = same_bits([y], {x: data})
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(found, np.where((data > -1) & ~(data >= 1), data, 0))


def test_fetched_and_awaited_nodes_stay():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [100])
        a = x * 2.0
        b = a + 1.0
        c = tf.exp(b)
        with tf.control_dependencies([b]):
            d = tf.no_op()
        assert programs(fused([c], [x])) == ["Mul 0 1;AddV2 3 2;Exp 4"]
        assert programs(fused([c, a], [x])) == ["AddV2 0 1;Exp 2"]
        assert not programs(fused([b, c, a], [x]))
        assert programs(fused([c], [x], [d])) == ["Mul 0 1;AddV2 3 2"]


def test_controls_move_to_the_program():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [100])
        v = tf.Variable(0.0)
        with tf.control_dependencies([tf.assign_add(v, 1.0)]):
            a = tf.square(x)
        graph = fused([tf.exp(a)], [x])
        (node,) = [n for n in graph.nodes if n.op == fuse_elementwise.OP]
        assert [c.op for c in node.controls] == ["AssignAdd"]


def test_what_broadcasting_repeats_is_not_fused():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [50, 10])
        row = tf.placeholder(tf.float32, [10])
        column = tf.placeholder(tf.float32, [None, 1])
        y = tf.exp(tf.exp(row)) + x
        graph = fused([y], [x, row])
        assert rewriting.ops(graph).count("Add") + rewriting.ops(graph).count("AddV2") == 1
        assert not programs(fused([tf.tanh(column) * tf.placeholder(tf.float32, [None, None])]))


def test_small_tensors_are_fused_when_they_are_many():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        assert not programs(fused([tf.exp(x * x)], [x]))
        assert len(programs(fused([tf.exp(tf.exp(tf.exp(x * x)))], [x]))) == 1


def test_types_do_not_mix():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [100])
        y = tf.cast(tf.exp(x) + 1.0, tf.float64)
        assert programs(fused([tf.exp(y) * 2.0], [x])) == ["Exp 0;AddV2 2 1", "Exp 0;Mul 2 1"]
        i = tf.placeholder(tf.int32, [100])
        assert programs(fused([tf.maximum(i * i, 3) - i], [i])) == ["Mul 0 0;Maximum 2 1;Sub 3 0"]
        assert not programs(fused([i // i % 3], [i]))


def test_long_chains_are_cut():
    with tf.Graph().as_default():
        y, c = tf.placeholder(tf.float32, [100]), tf.constant(1.5)
        for _ in range(150):
            y = y * c
        lengths = [p.count(";") + 1 for p in programs(fused([y]))]
        assert sum(lengths) == 150 and max(lengths) == fuse_elementwise.MAX_INSTRUCTIONS


def test_shapes_are_read_before_programs():
    """Gradients that ask for the shape of an intermediate do not keep it."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 8])
        a = tf.tanh(x * 2.0)
        graph = fused([tf.exp(a), tf.shape(a)], [x])
        (shape,) = [n for n in graph.nodes if n.op == "Shape"]
        assert shape.inputs[0][0].op == "_Arg" and len(programs(graph)) == 1
        assert same_bits([tf.exp(a), tf.shape(a)], {x: np.ones([3, 8])})[1].tolist() == [3, 8]


# ------------------------------------------------------------------------------- equal bits
UNARY = (tf.abs, tf.negative, tf.sign, tf.square, tf.sqrt, tf.rsqrt, tf.reciprocal, tf.floor,
         tf.ceil, tf.round, tf.nn.softsign, tf.nn.relu, tf.nn.relu6, tf.exp, tf.expm1, tf.log,
         tf.log1p, tf.tanh, tf.sigmoid, tf.nn.softplus, tf.nn.elu, tf.nn.selu, lambda x: tf.nn.leaky_relu(x, 0.3))
BINARY = (tf.add, tf.subtract, tf.multiply, tf.divide, tf.floordiv, tf.maximum, tf.minimum,
          tf.squared_difference, tf.div_no_nan, lambda a, b: tf.where(a < b, a, b),
          lambda a, b: tf.add_n([a, b, a]))
INTS = (tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.squared_difference,
        lambda a, b: a * b - tf.abs(a))
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1.0, 6.0, 88.8, 1e30)


def values(rng, shape, dtype):
    if dtype is tf.int32:
        return rng.integers(-2**31, 2**31, shape).astype(np.int32)
    x = rng.standard_normal(shape) * 3
    x.reshape(-1)[:len(SPECIAL)] = SPECIAL[:x.size]
    with np.errstate(over="ignore"):
        return rng.permutation(x.reshape(-1)).reshape(shape).astype(dtype.as_numpy_dtype)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs_give_the_same_bits(seed):
    """Trees over tensors, vectors, columns, scalars, of static or unknown shape; gradients too."""
    rng, choose = np.random.default_rng(seed), random.Random(seed)
    dtype = choose.choice((*FLOATS, tf.float32, tf.int32))
    rows, columns = choose.choice(((1, 1), (3, 5), (7, 130), (64, 16), (2, 1000), (0, 4)))
    known = choose.random() < 0.5
    with tf.Graph().as_default():
        feeds = {}
        for shape in ((rows, columns), (rows, columns), (columns,), (rows, 1), ()):
            made = tf.placeholder(dtype, shape if known or not shape else [None] * len(shape))
            feeds[made] = values(rng, shape, dtype)
        leaves = list(feeds)
        made = [leaves[0]]
        for _ in range(12):
            if dtype is tf.int32:
                made.append(choose.choice(INTS)(made[-1], choose.choice(leaves)))
            elif choose.random() < 0.5:
                made.append(choose.choice(UNARY)(made[-1]))
            else:
                a, b = made[-1], choose.choice(leaves[:2])     # of one shape: Select, AddN
                made.append(choose.choice(BINARY)(*((a, b) if choose.random() < 0.5 else (b, a))))
                if choose.random() < 0.5:
                    made.append(made[-1] + choose.choice(leaves))
        fetches = [made[-1], made[5]]
        if dtype is not tf.int32:
            fetches += [g for g in tf.gradients(made[-1], leaves[:2]) if g is not None]
        same_bits(fetches, feeds)


def test_in_a_loop_and_a_branch():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [40])
        y = tf.while_loop(lambda i, a: i < 5,
                          lambda i, a: (i + 1, tf.cond(tf.reduce_sum(a) > 0, lambda: a * 0.5 - 1.0,
                                                       lambda: tf.tanh(a + 3.0) * a)),
                          [tf.constant(0), x])[1]
        same_bits([y, tf.gradients(y, x)[0]], {x: np.linspace(-1, 2, 40).astype(np.float32)})


def test_large_results_and_threads():
    """Non-temporal stores, several threads, a rest that fills no block."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        y = tf.maximum(x * 1.5 + 0.25, 0.5) - x
        data = np.random.default_rng(3).standard_normal(2_100_003).astype(np.float32)
        (found,) = same_bits([y], {x: data})
        wanted = np.maximum(data * np.float32(1.5) + np.float32(0.25), np.float32(0.5)) - data
        np.testing.assert_array_equal(found, wanted)


def test_inputs_are_not_overwritten():
    """The buffer of an input is taken only when nobody else reads it."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [1000])
        a = tf.matmul(tf.reshape(x, [1, 1000]), tf.eye(1000))
        y, z = tf.exp(a * 2.0), tf.exp(a * 3.0)
        same_bits([y, z, a], {x: np.linspace(0, 1, 1000)})


# ------------------------------------------------------------------------------- errors, options
def test_an_error_names_the_node_inside():
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        bad = tf.add(x * 2.0, y, name="bad")
        out = tf.exp(bad)
        assert len(programs(fused([out], [x, y]))) == 1
        texts = []
        for on in (True, False):
            with session(on) as sess, pytest.raises(tf.errors.InvalidArgumentError) as info:
                sess.run(out, {x: np.zeros([2, 3]), y: np.zeros([2, 4])})
            assert info.value.op is bad.op
            assert "Incompatible shapes: [2,3] vs. [2,4]" in str(info.value)
            texts.append(str(info.value).split("(inputs: float")[0])
        assert texts[0] == texts[1]


def test_options_turn_it_off():
    config = tf.ConfigProto()
    assert Options.of(config).programs
    config.graph_options.rewrite_options.remapping = OFF
    assert not Options.of(config).programs
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    assert not Options.of(config).programs
    assert not Options.none().programs
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [100])
        graph = rewriting.pruned([tf.exp(x * 2.0)], [x])
        assert rewriting.fuse(graph, Options.none()) == {}
        counts = rewriting.fuse(graph, Options())
        assert pipeline.report(counts) == "programs: 2 (1 Exp, 1 Mul)"


def test_a_bad_program_is_refused():
    """Programs come out of files: what does not fit is an error of the node."""
    from pyflow.framework import op as op_lib
    make = op_lib.get_op("_FusedElementwise")
    good = dict(program="Mul 0 1;Exp 2", results=[3], T=tf.float32, Tout=[tf.float32])
    for change in (dict(program="Mul 0 9"), dict(program=""), dict(program="Mul 0"),
                   dict(program="Mul 0 1 1"), dict(program="Pow 0 1"), dict(program="Mul 0 -1"),
                   dict(program="Mul 0 99999999999"), dict(results=[0]), dict(results=[9]),
                   dict(results=[3, 3]), dict(program=";".join(["Exp 0"] * 65)),
                   dict(params=[1.0]), dict(program="Mul 0 1;"), dict(T=tf.float64)):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [4])
            op = make([x, x], **good)[0].op
            op.attrs = {**op.attrs, **change}
            with rewriting.session(False) as sess:
                with pytest.raises(tf.errors.InvalidArgumentError):
                    sess.run(op.outputs[0], {x: np.ones(4)})
