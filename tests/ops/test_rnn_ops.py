"""The fused recurrent ops against the same network built of small ops: values and gradients."""
import zlib

import numpy as np
import pytest

import pyflow as tf

CELL = tf.nn.rnn_cell
FUSED = tf.contrib.rnn
X = np.random.default_rng(0).standard_normal((6, 3, 4)).astype(np.float32)


def solve(build):
    """[outputs and states, then gradients of x and of the variables], with seeded variables."""
    with tf.Graph().as_default():
        x = tf.constant(X)
        outputs = tf.nest.flatten(build(x))
        loss = tf.add_n([tf.reduce_sum(t * np.cos(np.arange(t.shape.num_elements(), dtype="f"))
                                       .reshape(t.shape.as_list())) for t in outputs])
        variables = sorted(tf.trainable_variables(), key=lambda v: v.name)
        grads = tf.gradients(loss, [x] + variables)
        with tf.Session() as session:
            for v in variables:
                rng = np.random.default_rng(zlib.crc32(v.name.split("/")[-1].encode()))
                v.load(rng.uniform(-0.7, 0.7, v.shape.as_list()).astype("f"), session)
            return session.run([outputs, grads])


def check_same(one, other):
    found, wanted = solve(one), solve(other)
    for a, b in zip(found[0] + found[1], wanted[0] + wanted[1]):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def dynamic(cell, **options):
    def build(x):
        return tf.nn.dynamic_rnn(cell(), x, dtype=tf.float32, time_major=True, scope="net",
                                 **options)
    return build


@pytest.mark.parametrize("peephole", [False, True])
def test_lstm_block_cell(peephole):
    check_same(dynamic(lambda: FUSED.LSTMBlockCell(5, forget_bias=0.5, use_peephole=peephole)),
               dynamic(lambda: CELL.LSTMCell(5, forget_bias=0.5, use_peepholes=peephole)))


def test_lstm_block_cell_with_lengths():
    check_same(dynamic(lambda: FUSED.LSTMBlockCell(5), sequence_length=[2, 6, 0]),
               dynamic(lambda: CELL.LSTMCell(5), sequence_length=[2, 6, 0]))


@pytest.mark.parametrize("cell", [FUSED.GRUBlockCell, FUSED.GRUBlockCellV2])
def test_gru_block_cell(cell):
    built = dynamic(lambda: cell(5))
    if cell is FUSED.GRUBlockCellV2:
        check_same(built, dynamic(lambda: CELL.GRUCell(5)))
        return
    with tf.Graph().as_default():
        built(tf.constant(X))
        names = [v.op.name for v in tf.trainable_variables()]
    assert names == [f"net/gru_cell/{n}" for n in ("w_ru", "b_ru", "w_c", "b_c")]


@pytest.mark.parametrize("lengths", [None, [6, 6, 6], [4, 1, 3], [0, 0, 0]])
@pytest.mark.parametrize("peephole", [False, True])
def test_lstm_block_fused_cell(lengths, peephole):
    def fused(x):
        layer = FUSED.LSTMBlockFusedCell(5, use_peephole=peephole, name="net/lstm_cell")
        return layer(x, dtype=tf.float32, sequence_length=lengths)
    check_same(fused, dynamic(lambda: CELL.LSTMCell(5, use_peepholes=peephole),
                              sequence_length=lengths))


def test_fused_cell_takes_a_list_and_a_state():
    def state():
        return CELL.LSTMStateTuple(tf.ones([3, 5]), tf.fill([3, 5], 0.5))

    def fused(x):
        outputs, last = FUSED.LSTMBlockFusedCell(5, name="net/lstm_cell")(tf.unstack(x), state())
        return tf.stack(outputs), last

    def small(x):
        return tf.nn.dynamic_rnn(CELL.LSTMCell(5), x, time_major=True, initial_state=state(),
                                 scope="net")
    check_same(fused, small)


def test_block_lstm_v2_is_the_other_order_of_gates():
    """V2 with its columns reordered, and the forget bias in b, is BlockLSTM."""
    rng = np.random.default_rng(1)
    w, b = rng.standard_normal((9, 20)).astype("f"), rng.standard_normal(20).astype("f")
    order = np.r_[0:5, 10:15, 5:10, 15:20]

    def run(op, w, b, **more):
        with tf.Graph().as_default():
            args = [tf.constant(X), tf.zeros([3, 5]), tf.zeros([3, 5]), tf.constant(w)]
            peep = [tf.constant(rng_peep[i]) for i in range(3)]
            outs = op(seq_len_max=5, x=args[0], cs_prev=args[1], h_prev=args[2], w=args[3],
                      wci=peep[0], wcf=peep[1], wco=peep[2], b=tf.constant(b), use_peephole=True,
                      cell_clip=0.0, **more)
            grads = tf.gradients([outs[1], outs[6]], args + peep)
            with tf.Session() as session:
                return session.run([list(outs), grads])
    rng_peep = rng.standard_normal((3, 5)).astype("f")
    one = run(tf.raw_ops.BlockLSTM, w, b, forget_bias=1.0)
    shifted = b[order] + np.repeat([0, 1, 0, 0], 5).astype("f")
    two = run(tf.raw_ops.BlockLSTMV2, w[:, order], shifted)
    one[1][3] = one[1][3][:, order]
    for a, c in zip(one[0] + one[1], two[0] + two[1]):
        np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-5)


def test_wrong_shapes_name_what_is_wrong():
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.placeholder(tf.float32)
        y = tf.raw_ops.GRUBlockCell(x=tf.ones([2, 3]), h_prev=tf.ones([2, 4]), w_ru=w,
                                    w_c=tf.ones([7, 4]), b_ru=tf.ones([8]), b_c=tf.ones([4]))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"w_ru must have shape \[7,8\]"):
            session.run(y, {w: np.ones((7, 7))})
