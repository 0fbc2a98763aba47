"""Random programs: graphs with everything in them that the executor treats specially.

    Program(rng, op)        # rng: random.Random, or hypothesis' (then failures shrink)
        .graph .fetches .placeholders .init
        .variables                  start values of ref and resource variables, by name of their op
        .pure                       no effects and no errors: gradients may be fetched, too

With calls=True some steps are calls of functions (Defun), nested, recursive, with captures, in
branches and loops; with calls="plain" the same program has their nodes instead.

Tensors are of one type and shape, drawn per program.  Values are whole numbers that stay small, so
no order of the arithmetic, in rewrites or on other devices, changes a bit.  Operations on one
variable are in one order, given by control edges, through branches and loops; between variables
anything goes.
"""
import contextlib
import random

import numpy as np

import pyflow as tf
from pyflow.ops.control import routing
from pyflow.python.framework import function

LIMIT = 40.0
SHAPES = ((), (), (3,), (2, 2), (70,))


class Chains:
    """Per variable the operation after which the next one on it may run, None: any time."""

    def __init__(self, n):
        self.last = [None] * n

    def enter(self, op):
        """Everything from now on, in a branch or a body, runs after op; returns what was before."""
        before, self.last = self.last, [op] * len(self.last)
        return before

    def leave(self, before, inside):
        """Back outside: the variables that were used; their chains are cut off."""
        used = [k for k, op in enumerate(self.last) if op is not inside[k]]
        ends = [self.last[k] for k in used]
        self.last = before
        return used, ends


class Program:
    def __init__(self, rng, op, calls=False):
        self.rng, self.op, self.calls, self.functions = rng, op, calls, 0
        self.pure = rng.random() < 0.25
        self.dtype = rng.choice([tf.float32, tf.float64])
        self.shape = rng.choice(SHAPES)
        self.notes, self.placeholders, self.variables, self.states = 0, [], {}, []
        self.references, self.dead = [], []
        with tf.Graph().as_default() as self.graph:
            self.build()

    def build(self):
        rng = self.rng
        for k in range(2):
            self.placeholders.append(tf.placeholder(self.dtype, self.shape, name=f"p{k}"))
        if not self.pure:
            self.make_variables(rng.choice([0, 0, 1, 2]))
        self.chains = Chains(len(self.states))
        pool = self.body(self.placeholders + [self.leaf(), self.leaf()], 0, rng.randint(2, 9))
        if not self.pure and rng.random() < 0.2:
            pool.append(self.op("FailIf")(rng.choice(pool), above=float(rng.randint(-6, 6)), us=20,
                                          late=rng.random() < 0.5))
        self.fetches = pool[2:] + [self.use(k, pool, "read") for k in range(len(self.states))]
        if self.dead and rng.random() < 0.1:
            self.fetches.append(rng.choice(self.dead))
        if self.pure and rng.random() < 0.5:
            unconnected = "zero" if self.calls else "none"  # a call's arguments get zeros
            found = tf.gradients(pool[-1], self.placeholders, unconnected_gradients=unconnected)
            self.fetches += [g for g in found if g is not None]
        self.init = tf.global_variables_initializer()

    def values(self):
        return [np.asarray(np.random.RandomState(self.rng.randint(0, 2**31)).randint(
            -5, 6, self.shape), self.dtype.as_numpy_dtype) for _ in self.placeholders]

    def leaf(self):
        value = np.full(self.shape, float(self.rng.randint(-5, 5)))
        return tf.constant(value, self.dtype)

    # ------------------------------------------------------------ state

    def make_variables(self, n):
        for k in range(n):
            start = np.full(self.shape, float(k + 1), self.dtype.as_numpy_dtype)
            resource = self.rng.random() < 0.5
            v = tf.get_variable(f"v{k}", initializer=tf.constant(start), use_resource=resource)
            self.states.append(v)
            self.references.append(not resource)
            self.variables[v.op.name] = start

    def use(self, k, pool, how):
        v, last = self.states[k], self.chains.last[k]
        with tf.control_dependencies([last] if last is not None else []):
            if how == "add":
                x = tf.identity(self.rng.choice(pool))
                done = v.assign_add(tf.clip_by_value(x, -LIMIT, LIMIT))
                y = x
            elif how == "assign":
                y = tf.identity(self.rng.choice(pool))
                done = v.assign(y)
            else:
                y = done = self.now(v.read_value())
        self.chains.last[k] = done.op if hasattr(done, "op") else done
        return y

    def merged_reference(self, k, pool):
        """A reference on one side of a Merge, a value on the other, or a reference on both."""
        if not self.references[k]:
            return self.use(k, pool, "read")
        last, reference = self.chains.last[k], self.states[k]._ref()
        pred = self.finish(self.predicate(pool), [last] if last is not None else [])
        no, yes = routing.switch_ref_or_tensor(reference, pred)
        if self.rng.random() < 0.7:
            yes = tf.add(yes, self.leaf())
        y = self.now(routing.merge([no, yes])[0])
        self.chains.last[k] = y.op
        return y

    def now(self, name):
        """The value of a variable at this place of its order: later readers of a name for it would
        see later updates."""
        return tf.multiply(name, tf.constant(1.0, self.dtype))

    # ------------------------------------------------------------ steps

    def small(self, x):
        """The same in a small range of whole numbers."""
        if self.rng.random() < 0.5:
            return tf.clip_by_value(x, -LIMIT, LIMIT)
        return tf.floormod(x, tf.constant(37.0, self.dtype))

    def body(self, pool, depth, n):
        pool = list(pool)
        for _ in range(n):
            pool.append(self.step(pool, depth))
        return pool

    def step(self, pool, depth):
        if self.calls and depth < 3 and self.rng.random() < 0.3:
            return self.recursion(pool) if self.rng.random() < 0.2 else self.call(pool, depth)
        kind = self.rng.random()
        if depth >= 3 and kind > 0.85:
            kind -= 0.6
        if kind < 0.4:
            return self.arithmetic(pool)
        if kind < 0.45:
            with tf.control_dependencies([self.rng.choice(pool).op]):
                return tf.identity(tf.negative(self.rng.choice(pool)))
        if kind < 0.5 and not (depth and self.pure):
            return self.dead_branch(pool, depth)
        if kind < 0.55 and depth < 3:
            return self.array(pool, depth)
        if kind < 0.7 and not self.pure:
            return self.effect(pool)
        if kind < 0.85 or depth >= 3:
            return self.arithmetic(pool)
        return self.branch(pool, depth) if kind < 0.93 else self.loop(pool, depth)

    def arithmetic(self, pool):
        a, b = self.rng.choice(pool), self.rng.choice(pool)
        op = self.rng.choice([tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.add_n])
        return self.small(tf.add_n([a, b, a]) if op is tf.add_n else op(a, b))

    def predicate(self, pool):
        a = tf.reduce_max(self.rng.choice(pool)) if self.shape else self.rng.choice(pool)
        return tf.less(a, tf.constant(float(self.rng.randint(-5, 20)), self.dtype))

    def effect(self, pool):
        x, kind = self.rng.choice(pool), self.rng.random()
        if self.states and kind < 0.08:
            return self.merged_reference(self.rng.randrange(len(self.states)), pool)
        if self.states and kind < 0.4:
            return self.use(self.rng.randrange(len(self.states)), pool,
                            self.rng.choice(["add", "assign", "read"]))
        if kind < 0.65:
            return self.op("Later")(x, us=self.rng.choice([0, 0, 20, 100]))
        if kind < 0.78:
            return self.op("FailIf")(x, above=float(self.rng.randint(2, 39)), us=20,
                                     late=self.rng.random() < 0.5)
        if kind < 0.84:
            index = tf.cast(tf.clip_by_value(tf.reduce_max(x), -1.0, 2.0), tf.int32)
            table = tf.constant([[0.5], [1.0], [2.0]], self.dtype)
            return tf.floor(tf.reshape(tf.gather(table, index), []) + self.rng.choice(pool))
        if kind < 0.9:
            y = tf.py_func(python_step, [x], self.dtype)
            y.set_shape(self.shape)
            return y
        self.notes += 1
        return self.op("Note")(x, id=self.notes)

    def dead_branch(self, pool, depth):
        """Switch and Merge by hand; one side may go nowhere."""
        no, yes = routing.switch(self.rng.choice(pool), self.predicate(pool))
        with tf.control_dependencies([self.rng.choice([no, yes]).op]):
            other = tf.identity(no)
        yes = tf.add(yes, self.leaf())
        if depth == 0 and not self.pure:
            self.dead.append(self.rng.choice([yes, other]))
        return routing.merge([other, yes] if self.rng.random() < 0.5 else [yes, other])[0]

    def array(self, pool, depth):
        """A TensorArray written in a loop."""
        n, x = self.rng.randint(1, 4), self.rng.choice(pool)
        array = tf.TensorArray(self.dtype, n, element_shape=self.shape)
        _, array = tf.while_loop(
            lambda i, a: tf.less(i, n),
            lambda i, a: (i + 1, a.write(i, self.small(x + tf.cast(i, self.dtype)))), [0, array])
        return self.small(tf.reduce_sum(array.stack(), 0))

    # ------------------------------------------------------------ functions

    @contextlib.contextmanager
    def in_function(self, seed):
        """The steps of a function's body: drawn from a seed of their own, without effects."""
        saved = self.rng, self.pure, self.chains.last
        self.rng, self.pure, self.chains.last = random.Random(seed), True, [None] * len(saved[2])
        try:
            yield
        finally:
            self.rng, self.pure, self.chains.last = saved

    def call(self, pool, depth):
        """One to three calls of one function, each of the last one's result."""
        rng, seed = self.rng, self.rng.randrange(10**9)
        noinline, results = rng.random() < 0.3, rng.randint(1, 2)
        args = [rng.choice(pool) for _ in range(rng.randint(1, 3))]
        captured = [rng.choice(pool)] if rng.random() < 0.5 else []
        late = rng.random() < 0.2 and not self.pure

        def body(*xs):
            for x in xs:
                x.set_shape(self.shape)
            with self.in_function(seed):
                inner = self.body([*xs, *captured], depth + 1, self.rng.randint(1, 3))
                if late:
                    inner.append(self.op("Later")(inner[-1], us=20))
                return [self.small(inner[-1 - k]) for k in range(results)]

        def nodes(*xs):
            found = body(*xs)
            with tf.control_dependencies([*xs, *captured]):     # a call computes its arguments, read or not
                return [tf.identity(y) for y in found]

        self.functions += 1
        made = nodes
        if self.calls != "plain":
            options = {"noinline": True} if noinline else {}
            made = function.Defun(*[self.dtype] * len(args), func_name=f"f{self.functions}",
                                  shape_func=lambda op: [self.shape] * results, **options)(body)
        for _ in range(rng.randint(1, 3)):
            y = made(*args)
            y = y[0] if isinstance(y, (list, tuple)) else y
            args[rng.randrange(len(args))] = y
        return y

    def recursion(self, pool):
        """f(n, x) = x if n < 1 else f(n - 1, g(x)); or what it comes to."""
        turns, a, x = self.rng.randint(0, 4), self.leaf(), self.rng.choice(pool)
        if self.calls == "plain":
            for _ in range(turns):
                x = tf.clip_by_value(tf.subtract(a, x), -LIMIT, LIMIT)
            return tf.identity(x)
        self.functions += 1
        again = function.Declare(f"f{self.functions}", [("n", tf.int32), ("a", self.dtype),
                                                        ("x", self.dtype)], [("y", self.dtype)])

        def body(n, a, x):
            for tensor in (a, x):
                tensor.set_shape(self.shape)
            n.set_shape([])

            def more():
                y = again(n - 1, a, tf.clip_by_value(tf.subtract(a, x), -LIMIT, LIMIT))
                y.set_shape(self.shape)
                return y
            return tf.cond(tf.less(n, 1), lambda: tf.identity(x), more)
        made = function.Defun(tf.int32, self.dtype, self.dtype, func_name=f"f{self.functions}",
                              out_names=["y"], shape_func=lambda op: [self.shape])(body)
        return made(turns, a, x)

    # ------------------------------------------------------------ branches and loops

    def used(self):
        return [op for op in self.chains.last if op is not None]

    def finish(self, y, ends):
        with tf.control_dependencies(ends):
            return tf.identity(y)

    def branch(self, pool, depth):
        used = set()

        def make():
            start = list(self.chains.last)
            before, self.chains.last = self.chains.last, list(start)
            y = self.body(pool, depth + 1, self.rng.randint(1, 3))[-1]
            changed, ends = self.chains.leave(before, start)
            used.update(changed)
            return self.finish(y, ends)
        y = tf.cond(self.finish(self.predicate(pool), self.used()), make, make)
        for k in used:
            self.chains.last[k] = y.op
        return y

    def loop(self, pool, depth):
        turns, used = self.rng.randint(0, 4), set()
        before = self.used()

        def body(i, x, y):
            start = [x.op] * len(self.states)
            outside = self.chains.enter(x.op)
            inner = self.body(pool + [x, y], depth + 1, self.rng.randint(1, 3))
            changed, ends = self.chains.leave(outside, start)
            used.update(changed)
            return i + 1, self.finish(self.small(inner[-1]), ends), self.rng.choice([x, inner[-2]])
        start = [self.finish(self.rng.choice(pool), before) for _ in range(2)]
        _, x, y = tf.while_loop(lambda i, x, y: tf.less(i, turns), body, [tf.constant(0), *start],
                                parallel_iterations=self.rng.choice([1, 2, 10]))
        y = self.small(tf.add(x, y))
        for k in used:
            self.chains.last[k] = x.op
        return y


def python_step(x):
    """Of tf.py_func: fails for large numbers."""
    if np.max(x) > 36:
        raise ArithmeticError("too large on purpose")
    return np.floor(x / 2)
