"""Recurrent networks: cells, loops over time, gradients, variable names.

TensorFlow 2.21 keeps TF 1.x's cells in a private module; under pyflow they are tf.nn.rnn_cell.
Every variable gets numbers made from its name, so that both sides compute the same network.
"""

import importlib
import zlib

import numpy as np

from cases import script

LENGTHS = [3, 6]


def cells(tf):
    if tf.__version__.startswith("2."):
        return importlib.import_module(
            "tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl"
        )
    return tf.nn.rnn_cell


def numbers(shape, name, scale=0.5):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def inputs(tf, batch=2, time=6, depth=4):
    return tf.constant(numbers((batch, time, depth), f"x{batch}{time}{depth}", 1.0))


def flat(tf, value):
    return list(tf.nest.flatten(value))


def solved(tf, outputs, more=()):
    """{name: array}: outputs, gradients of a weighted sum of them, names of the variables."""
    tensors = flat(tf, outputs)
    loss = tf.add_n([tf.reduce_sum(t * numbers(t.shape.as_list(), f"w{i}"))
                     for i, t in enumerate(tensors)])
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables + list(more))
    with tf.Session() as session:
        for variable in variables:
            variable.load(numbers(variable.shape.as_list(), variable.name), session)
        values, slopes = session.run([tensors, gradients])
    found = {f"out{i}": v for i, v in enumerate(values)}
    found.update({f"grad{i}": g for i, g in enumerate(slopes)})
    found["variables"] = np.array([v.name for v in variables])
    return found


# ------------------------------------------------------------------------------- one cell, one step
def one_step(tf, make, batch=3, depth=4):
    cell = make(cells(tf))
    x = tf.constant(numbers((batch, depth), "step"))
    sizes = tf.nest.flatten(cell.state_size)
    state = tf.nest.pack_sequence_as(
        cell.state_size,
        [tf.constant(numbers((batch, n), f"s{i}")) for i, n in enumerate(sizes)],
    )
    output, new_state = cell(x, state)
    return solved(tf, [output, new_state], [x] + flat(tf, state))


CELLS = {
    "basic": lambda c: c.BasicRNNCell(5),
    "basic_relu": lambda c: c.BasicRNNCell(5, activation="relu"),
    "gru": lambda c: c.GRUCell(5),
    "gru_named": lambda c: c.GRUCell(3, name="mine"),
    "basic_lstm": lambda c: c.BasicLSTMCell(5),
    "basic_lstm_forget": lambda c: c.BasicLSTMCell(5, forget_bias=0.25),
    "basic_lstm_joined": lambda c: c.BasicLSTMCell(5, state_is_tuple=False),
    "lstm": lambda c: c.LSTMCell(5),
    "lstm_peepholes": lambda c: c.LSTMCell(5, use_peepholes=True),
    "lstm_clip": lambda c: c.LSTMCell(5, cell_clip=0.3, use_peepholes=True),
    "lstm_projection": lambda c: c.LSTMCell(5, num_proj=3),
    "lstm_projection_clip": lambda c: c.LSTMCell(5, num_proj=3, proj_clip=0.2, cell_clip=0.5),
    "lstm_joined": lambda c: c.LSTMCell(5, num_proj=3, state_is_tuple=False),
    "multi": lambda c: c.MultiRNNCell([c.BasicLSTMCell(5), c.GRUCell(3)]),
    "multi_joined": lambda c: c.MultiRNNCell(
        [c.BasicRNNCell(5), c.GRUCell(3)], state_is_tuple=False
    ),
    "residual": lambda c: c.ResidualWrapper(c.BasicLSTMCell(4)),
    "residual_fn": lambda c: c.ResidualWrapper(c.GRUCell(4), lambda x, y: x * y),
    "device": lambda c: c.DeviceWrapper(c.GRUCell(4), "/cpu:0"),
    "dropout_none": lambda c: c.DropoutWrapper(c.GRUCell(4)),
}


CELLS.update({
    "dropout_lstm": lambda c: c.DropoutWrapper(
        c.BasicLSTMCell(5), input_keep_prob=0.7, output_keep_prob=0.6, state_keep_prob=0.5, seed=3
    ),
    "dropout_stack": lambda c: c.DropoutWrapper(
        c.MultiRNNCell([c.GRUCell(5), c.GRUCell(4)]), state_keep_prob=0.5, seed=9
    ),
})


def _named(name, function):
    function.__name__ = name
    script(function)


for _name, _make in CELLS.items():
    _named("cell_" + _name, lambda tf, make=_make: one_step(tf, make))


# ---------------------------------------------------------------------------------- loops over time
def over_time(tf, make, **options):
    return solved(tf, tf.nn.dynamic_rnn(make(cells(tf)), inputs(tf), dtype=tf.float32, **options))


for _name in ("basic", "gru", "basic_lstm", "lstm_projection_clip", "multi", "lstm_peepholes"):
    _named("dynamic_" + _name, lambda tf, make=CELLS[_name]: over_time(tf, make))
    _named("dynamic_lengths_" + _name,
           lambda tf, make=CELLS[_name]: over_time(tf, make, sequence_length=LENGTHS))


@script
def dynamic_time_major(tf):
    x = tf.transpose(inputs(tf), [1, 0, 2])
    return solved(tf, tf.nn.dynamic_rnn(cells(tf).GRUCell(3), x, sequence_length=[2, 5],
                                        dtype=tf.float32, time_major=True, scope="net"))


@script
def dynamic_short(tf):
    """All rows end before the last step, one at once."""
    return solved(tf, tf.nn.dynamic_rnn(cells(tf).BasicLSTMCell(3), inputs(tf), dtype=tf.float32,
                                        sequence_length=[0, 4]))


@script
def dynamic_initial_state(tf):
    c = cells(tf)
    state = c.LSTMStateTuple(tf.constant(numbers((2, 3), "c")), tf.constant(numbers((2, 3), "h")))
    found = tf.nn.dynamic_rnn(c.BasicLSTMCell(3), inputs(tf), initial_state=state)
    return solved(tf, found, [state.c, state.h])


@script
def dynamic_twice(tf):
    """Two networks of one cell share its variables."""
    cell, x = cells(tf).GRUCell(3), inputs(tf)
    first, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, scope="a")
    second, _ = tf.nn.dynamic_rnn(cell, 2 * x, dtype=tf.float32, scope="b")
    return solved(tf, [first, second])


@script
def dynamic_two_networks(tf):
    c, x = cells(tf), inputs(tf)
    with tf.variable_scope("model"):
        first, _ = tf.nn.dynamic_rnn(c.GRUCell(3), x, dtype=tf.float32)
        second, _ = tf.nn.dynamic_rnn(c.MultiRNNCell([c.GRUCell(3)]), x, dtype=tf.float32,
                                      scope="other")
    return solved(tf, [first, second])


@script
def bidirectional(tf):
    c = cells(tf)
    return solved(tf, tf.nn.bidirectional_dynamic_rnn(
        c.GRUCell(3), c.BasicLSTMCell(2), inputs(tf), sequence_length=LENGTHS, dtype=tf.float32))


@script
def bidirectional_whole(tf):
    c = cells(tf)
    return solved(tf, tf.nn.bidirectional_dynamic_rnn(
        c.BasicRNNCell(3), c.BasicRNNCell(3), tf.transpose(inputs(tf), [1, 0, 2]),
        dtype=tf.float32, time_major=True))


for _name in ("basic", "basic_lstm", "multi"):
    _named("static_" + _name, lambda tf, make=CELLS[_name]: solved(tf, tf.nn.static_rnn(
        make(cells(tf)), tf.unstack(inputs(tf), axis=1), dtype=tf.float32)))
    _named("static_lengths_" + _name, lambda tf, make=CELLS[_name]: solved(tf, tf.nn.static_rnn(
        make(cells(tf)), tf.unstack(inputs(tf), axis=1), dtype=tf.float32,
        sequence_length=[2, 4])))


@script
def static_bidirectional(tf):
    c = cells(tf)
    return solved(tf, tf.nn.static_bidirectional_rnn(
        c.GRUCell(3), c.BasicLSTMCell(2), tf.unstack(inputs(tf), axis=1), dtype=tf.float32))


@script
def static_bidirectional_lengths(tf):
    c = cells(tf)
    return solved(tf, tf.nn.static_bidirectional_rnn(
        c.GRUCell(3), c.GRUCell(3), tf.unstack(inputs(tf), axis=1), dtype=tf.float32,
        sequence_length=tf.constant(LENGTHS)))


class Saver:
    """A state saver of variables."""

    def __init__(self, tf):
        self.tf = tf

    def state(self, name):
        return self.tf.constant(numbers((2, 3), name))

    def save_state(self, name, state):
        return self.tf.identity(state, name="saved_" + name)


@script
def static_state_saving(tf):
    return solved(tf, tf.nn.static_state_saving_rnn(
        cells(tf).BasicLSTMCell(3), tf.unstack(inputs(tf), axis=1), Saver(tf), ("c", "h")))


@script
def raw(tf):
    """dynamic_rnn written with raw_rnn, as its documentation does."""
    cell, lengths = cells(tf).GRUCell(3), tf.constant(LENGTHS)
    x = tf.TensorArray(tf.float32, 6).unstack(tf.transpose(inputs(tf), [1, 0, 2]))

    def loop_fn(time, output, state, loop_state):
        if output is None:
            state = cell.zero_state(2, tf.float32)
        finished = time >= lengths
        next_input = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([2, 4]),
                             lambda: x.read(time))
        next_input.set_shape([2, 4])
        return finished, next_input, state, output, None
    emitted, state, _ = tf.nn.raw_rnn(cell, loop_fn)
    stacked = emitted.stack()
    stacked.set_shape([6, 2, 3])
    return solved(tf, [stacked, state])


@script
def raw_emits(tf):
    """Other emissions than the cell's outputs, and a loop state."""
    cell = cells(tf).BasicRNNCell(3)

    def loop_fn(time, output, state, loop_state):
        if output is None:
            emit = (tf.zeros([2]), tf.zeros([4], tf.float32))
            return (tf.zeros([2], tf.bool), tf.ones([2, 4]), cell.zero_state(2, tf.float32), emit,
                    tf.constant(1.0))
        emit = (tf.ones([2, 2]) * tf.cast(time, tf.float32), tf.concat([output, output[:, :1]], 1))
        return (tf.fill([2], time >= 4), tf.ones([2, 4]), state, emit, loop_state * 2.0)
    emitted, state, loop_state = tf.nn.raw_rnn(cell, loop_fn)
    stacked = [e.stack() for e in emitted]
    stacked[0].set_shape([4, 2, 2])
    stacked[1].set_shape([4, 2, 4])
    return solved(tf, stacked + [state, loop_state])


class Scaled:
    """A cell written by a user, in the old way: __call__ with its own scope."""

    def __init__(self, base, tf):
        self.tf = tf

    @staticmethod
    def make(tf):
        class Cell(cells(tf).RNNCell):
            @property
            def state_size(self):
                return 4

            @property
            def output_size(self):
                return 4

            def __call__(self, inputs, state, scope=None):
                with tf.variable_scope(scope or "scaled"):
                    w = tf.get_variable("w", [4, 4])
                    new = tf.tanh(tf.matmul(inputs + state, w))
                return new, new
        return Cell()


@script
def user_cell(tf):
    return solved(tf, tf.nn.dynamic_rnn(Scaled.make(tf), inputs(tf), dtype=tf.float32))


@script
def user_cell_with_call(tf):
    class Cell(cells(tf).RNNCell):
        @property
        def state_size(self):
            return (4, 4)

        @property
        def output_size(self):
            return 4

        def call(self, inputs, state):
            w = tf.get_variable("w", [4, 4])
            new = tf.tanh(tf.matmul(inputs + state[0], w)) + 0.5 * state[1]
            return new, (new, state[0])
    stack = cells(tf).MultiRNNCell([Cell(), Cell()])
    return solved(tf, tf.nn.static_rnn(stack, tf.unstack(inputs(tf), axis=1), dtype=tf.float32))


@script
def dropout_seeds(tf):
    """Kept outputs are scaled; an LSTM's memory is spared: with probability 1 nothing changes."""
    cell = cells(tf).DropoutWrapper(cells(tf).BasicLSTMCell(4), output_keep_prob=1.0,
                                    state_keep_prob=tf.constant(1.0), seed=3)
    return solved(tf, tf.nn.dynamic_rnn(cell, inputs(tf), dtype=tf.float32))


@script
def dropout_variational(tf):
    """One mask for all steps.  (Masks drawn in a loop come in no fixed order in TensorFlow.)"""
    cell = cells(tf).DropoutWrapper(
        cells(tf).LSTMCell(4), input_keep_prob=0.8, state_keep_prob=0.7, output_keep_prob=0.6,
        variational_recurrent=True, input_size=4, dtype=tf.float32, seed=5)
    return solved(tf, tf.nn.dynamic_rnn(cell, inputs(tf), dtype=tf.float32))
