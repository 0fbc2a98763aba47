"""Programs of reads and updates of variables, made from a seed; the same for pyflow and TensorFlow.

Every read is ordered against every update of its variable, by data or control edges, within loops from one iteration to the
next, too; so a program has one answer, and what TensorFlow answers is what its reads of references see.  A read is what
computes: names for a variable's value (`identity(v)` and its like) may be made long before they are used.

    fetches, variables = build(tf, seed)
"""
import random

import numpy as np

SIZE = 4


class _Variable:
    """A variable with the operations that its next read and its next update have to wait for."""

    def __init__(self, tensor, is_ref):
        self.tensor, self.is_ref = tensor, is_ref
        self.written, self.read = [], []        # the last update; what read since then


class _Program:
    def __init__(self, tf, seed, ways):
        self.tf, self.random, self.ways = tf, random.Random(seed), ways
        self.variables, self.aliases, self.values = [], [], []
        self.before = []                        # what everything here waits for (the body of a loop)

    def number(self):
        return round(self.random.uniform(-2, 2), 2)

    def constant(self):
        return self.tf.constant([self.number() for _ in range(SIZE)], self.tf.float32)

    def after(self, operations):
        return self.tf.control_dependencies(self.before + operations)

    # ---------------------------------------------------------------- reads

    def compute(self):
        """A new value from a variable, or a name for its value, and a value there is."""
        tf, variable = self.tf, self.random.choice(self.variables)
        names = [(a, v) for a, v in self.aliases if v is variable]
        source = variable.tensor
        if names and self.random.random() < 0.6:
            source = self.random.choice(names)[0]
        other = self.random.choice(self.values) if self.values else self.constant()
        place, kind = self.ways.place(self.random), self.random.randrange(5)
        if kind == 4:                           # a resource is read where it is
            place = None
        with self.after(variable.written), tf.device(place):
            if kind == 0:
                result = tf.multiply(source, 0.5) + other * 0.25
            elif kind == 1:
                result = tf.add(source, other)
            elif kind == 2:
                result = tf.tanh(tf.subtract(source, other))
            elif kind == 3:
                result = tf.reshape(tf.matmul(tf.reshape(source, [2, 2]), tf.reshape(other, [2, 2])),
                                    [SIZE]) * 0.25
            else:
                result = tf.gather(source, self.random.sample(range(SIZE), SIZE))
            result = tf.clip_by_value(result, -10., 10.)
        self.note_read(variable, result)
        self.values.append(result)
        return result

    def note_read(self, variable, result):
        variable.read.append(result)

    def name(self):
        """A name for a variable's value: made now, used later."""
        tf, variable = self.tf, self.random.choice(self.variables)
        names = [a for a, v in self.aliases if v is variable]
        source = self.random.choice([variable.tensor, *names])
        make = self.random.choice([tf.identity, tf.stop_gradient, tf.identity,
                                   lambda x: tf.reshape(tf.reshape(x, [2, 2]), [SIZE]),
                                   lambda x: tf.squeeze(tf.expand_dims(x, 0), [0])])
        with self.after(variable.written):
            alias = make(source)
        variable.read.append(alias)             # of a resource variable this is the read
        self.aliases.append((alias, variable))

    # ---------------------------------------------------------------- updates

    def update(self):
        tf, variable = self.tf, self.random.choice(self.variables)
        value = self.random.choice(self.values) if self.values else self.constant()
        kind = self.random.randrange(8 if self.ways.optimizers else 6)
        tensor = variable.tensor
        with self.after(variable.written + variable.read):
            value = tf.identity(value) * 0.5
            at = self.random.randrange(SIZE)
            if kind == 0:
                done = tf.assign(tensor, value)
            elif kind == 1:
                done = tf.assign_add(tensor, value)
            elif kind == 2:
                done = tf.assign_sub(tensor, value)
            elif kind == 3:
                done = tf.scatter_update(tensor, [at], value[:1])
            elif kind == 4:
                done = tf.scatter_add(tensor, [at, (at + 1) % SIZE], value[:2])
            elif kind == 5:
                done = tf.scatter_nd_update(tensor, [[at]], value[1:2])
            else:
                done = self.random.choice(self.ways.optimizers).apply_gradients([(value, tensor)])
        done = getattr(done, "op", done)
        variable.written, variable.read = [done], []

    # ---------------------------------------------------------------- control flow

    def everything(self):
        return [x for v in self.variables for x in v.written + v.read]

    def settle(self, results):
        """What follows waits for `results`, which wait for all that was done in a conditional or a loop."""
        for variable in self.variables:
            variable.written, variable.read = list(results), []

    def nested(self, steps, before):
        """A program in a branch or a body, with the same variables and names."""
        inner = _Program.__new__(_Program)
        inner.tf, inner.random, inner.ways = self.tf, self.random, self.ways.inside()
        inner.variables = [_Variable(v.tensor, v.is_ref) for v in self.variables]
        inner.aliases = [(a, inner.variables[self.variables.index(v)]) for a, v in self.aliases]
        inner.values, inner.before = list(before), list(before)
        inner.steps(steps, 1)
        with self.tf.control_dependencies(inner.everything()):
            return self.tf.identity(inner.values[-1])

    def conditional(self):
        tf, variable = self.tf, self.random.choice(self.variables)
        with self.after(self.everything()):
            start = tf.reduce_sum(tf.multiply(variable.tensor, 1.))
            pick = start > self.number() + 0.00371      # no sum comes near
            first = tf.identity(self.random.choice(self.values)) if self.values else self.constant()
        result = tf.cond(pick, lambda: self.nested(self.random.randint(1, 3), [tf.identity(first)]),
                         lambda: self.nested(self.random.randint(1, 3), [tf.negative(first)]))
        self.settle([result])
        self.values.append(result)

    def loop(self):
        tf, variable = self.tf, self.random.choice(self.variables)
        limit, bound = self.random.randint(1, 4), self.number() * 10 + 0.00371
        with self.after(self.everything()):
            count = tf.identity(tf.constant(0))
            start = tf.identity(self.random.choice(self.values)) if self.values else self.constant()
        looks = self.random.random() < 0.4
        steps = self.random.randint(1, 3)

        def go_on(i, value):
            more = i < limit
            if looks:
                with tf.control_dependencies([i, value]):
                    more = tf.logical_and(more, tf.reduce_sum(tf.multiply(variable.tensor, 1.)) < bound)
            return more

        def body(i, value):
            with tf.control_dependencies([i]):
                value = tf.identity(value) * 1.0
            result = self.nested(steps, [value])
            with tf.control_dependencies([result]):
                return i + 1, result * 0.75
        count, result = tf.while_loop(go_on, body, [count, start],
                                      parallel_iterations=self.random.choice([1, 10]))
        with tf.control_dependencies([count]):
            result = tf.identity(result)
        self.settle([result])
        self.values.append(result)

    def steps(self, n, depth):
        for _ in range(n):
            chance = self.random.random()
            if chance < 0.35:
                self.compute()
            elif chance < 0.5:
                self.name()
            elif chance < 0.85 or depth >= self.ways.depth:
                self.update()
            elif chance < 0.93:
                self.conditional()
            else:
                self.loop()
        if not self.values:
            self.compute()


class Ways:
    """What a program may use.  devices: names of which each reader gets one."""

    def __init__(self, devices=(), optimizers=(), depth=1):
        self.devices, self.optimizers, self.depth = devices, optimizers, depth

    def inside(self):
        return Ways(self.devices, (), self.depth)       # slots are made outside of loops

    def place(self, draw):
        at = draw.randrange(2)
        return self.devices[at % len(self.devices)] if self.devices else None


def build(tf, seed, devices=()):
    """([tensors to fetch], [variables]) of the program with this seed, in the default graph."""
    draw = random.Random(f"variables {seed}")
    ways = Ways(devices, [tf.train.GradientDescentOptimizer(0.5), tf.train.MomentumOptimizer(0.1, 0.9),
                          tf.train.AdagradOptimizer(0.5), tf.train.AdamOptimizer(0.1),
                          tf.train.RMSPropOptimizer(0.1)])
    program = _Program(tf, seed, ways)
    with tf.device(devices[0] if devices else None):
        for k in range(draw.randint(1, 3)):
            first = np.float32([round(draw.uniform(-2, 2), 2) for _ in range(SIZE)])
            is_ref = draw.random() < 0.75
            program.variables.append(_Variable(
                tf.Variable(first, name=f"v{k}", use_resource=not is_ref), is_ref))
        program.steps(draw.randint(4, 14), 0)
    fetches = [program.values[-1]]
    fetches += draw.sample(program.values, min(3, len(program.values)))
    everything = program.everything()
    with tf.control_dependencies(everything):
        done = tf.identity(fetches[0])
    # fetched names, read when the step is over; of a resource variable only what was computed
    fetches += [a for a, v in program.aliases if v.is_ref]
    fetches += [v.tensor for v in program.variables if v.is_ref]
    return [done, *fetches], [v.tensor for v in program.variables]


def run(tf, seed, threads=1, times=1, devices=(), config=None):
    """The distinct answers of `times` runs, each [arrays]: fetches, then the variables afterwards."""
    answers = []
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        fetches, variables = build(tf, seed, devices)
        initial = tf.global_variables_initializer()
        config = config or tf.ConfigProto(intra_op_parallelism_threads=threads,
                                          inter_op_parallelism_threads=threads,
                                          device_count={"CPU": max(1, len(devices))})
        with tf.Session(config=config) as session:
            for _ in range(times):
                session.run(initial)
                values = session.run(fetches) + session.run(variables)
                values = np.float32([np.reshape(v, [SIZE]) for v in values])
                if not any(np.array_equal(values, a) for a in answers):
                    answers.append(values)
    return answers
