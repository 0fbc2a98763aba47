"""Graphs whose input comes from data sets, queues and readers, for the exchange.

    data:NAME      pipelines of tests/data, in iterators that are initialized, or run once
    failing:NAME   its pipelines with elements that fail
    input:NAME     iterators of all kinds, state, SavedModels: below
    queue:NAME     queues, barriers, staging areas and runners of tests/queues
    reader:NAME    readers and parsing of tests/readers

Left out is what needs two steps at once: runs are repeated one after another.
"""
import inspect
import pathlib

import numpy as np

MOST = 40               # elements of a pipeline


# ---------------------------------------------------------------------------------------- pipelines
def drained(tf, session, fetches):
    """All elements; an error may stand for one."""
    for _ in range(MOST):
        try:
            session.run(fetches)
        except tf.errors.OutOfRangeError:
            break
        except tf.errors.OpError:
            pass


def pipeline_program(make, once):
    def program(tf, tools):
        dataset = make(tf)
        if once:
            following = tf.data.make_one_shot_iterator(dataset).get_next()
        else:
            iterator = tf.data.make_initializable_iterator(dataset)
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            following = iterator.get_next()
        with tf.Session() as session:
            for _ in range(1 if once else 2):
                if not once:
                    session.run(iterator.initializer)
                drained(tf, session, following)
    return program


def data_programs(load):
    recorded, errors = load("data", "recorded_pipelines"), load("data", "error_pipelines")

    class Names:
        def __getattr__(self, name):
            return self

        def __call__(self, *given, **named):
            return self
    found = {}
    for name in recorded.cases(Names()):
        for once in (False, True):
            found["data:" + name.replace(" ", "_") + ("_once" if once else "")] = pipeline_program(
                lambda tf, name=name: recorded.cases(tf)[name](), once)
    for name in errors.pipelines(Names(), [2, 3]):
        found["failing:" + name] = pipeline_program(
            lambda tf, name=name: errors.pipelines(tf, [2, 3])[name](), False)
    return found


# ----------------------------------------------------------------------------------- own pipelines
INPUTS = {}


def program(function):
    INPUTS["input:" + function.__name__] = function
    return function


def of_dataset(function):
    """A program of what makes a dataset, in an iterator that is initialized."""
    INPUTS["input:" + function.__name__] = pipeline_program(function, False)
    return function


def ranged(tf, n=10):
    return tf.data.Dataset.range(n)


@of_dataset
def parallel_map(tf):
    return ranged(tf).map(lambda x: x * 2, num_parallel_calls=3)


@of_dataset
def parallel_interleave(tf):
    return ranged(tf, 5).interleave(lambda x: tf.data.Dataset.range(x), cycle_length=3,
                                    block_length=2, num_parallel_calls=2)


@of_dataset
def older_parallel_interleave(tf):
    return ranged(tf, 5).apply(tf.data.experimental.parallel_interleave(
        lambda x: tf.data.Dataset.range(x + 1), cycle_length=2, block_length=1))


@of_dataset
def map_and_batch_in_parallel(tf):
    return ranged(tf).apply(tf.data.experimental.map_and_batch(
        lambda x: (x, tf.fill([2], x)), 4, num_parallel_calls=2))


@of_dataset
def shuffled(tf):
    """In an order of each library's own: sums alone are compared."""
    return ranged(tf, 8).shuffle(3, seed=5).batch(8).map(tf.reduce_sum)


@of_dataset
def shuffled_once(tf):
    return ranged(tf, 8).shuffle(3, seed=5, reshuffle_each_iteration=False).batch(8).map(
        tf.reduce_sum)


@of_dataset
def shuffled_and_repeated(tf):
    return ranged(tf, 4).apply(tf.data.experimental.shuffle_and_repeat(8, 3, seed=1)).batch(4).map(
        tf.reduce_sum)


@of_dataset
def enumerated_and_filtered(tf):
    return ranged(tf).map(lambda x: x * x).enumerate().filter(lambda i, x: x % 3 > 0)


@of_dataset
def sampled(tf):
    data = tf.data.Dataset
    return tf.data.experimental.sample_from_datasets(
        [data.from_tensors(0).repeat(5), data.from_tensors(1).repeat(5)], [0.3, 0.7],
        seed=3).batch(10).map(tf.reduce_sum)


@of_dataset
def random_numbers(tf):
    return tf.data.experimental.RandomDataset(3).take(6)


@of_dataset
def sparse_elements(tf):
    sparse = tf.SparseTensor([[0, 0], [1, 1], [1, 2]], [1.0, 2.0, 3.0], [2, 3])
    return tf.data.Dataset.from_tensor_slices(sparse).map(tf.sparse_tensor_to_dense)


@of_dataset
def captured_tensors(tf):
    table, v = tf.constant([10.0, 20.0, 30.0]), tf.constant(2, tf.int64)
    return ranged(tf, 3).map(lambda x: table[x] * tf.cast(v, tf.float32)).filter(
        lambda x: x < table[2] * 2.0)


@of_dataset
def functions_of_functions(tf):
    def inner(x):
        return tf.data.Dataset.range(x).map(lambda y: y * x).filter(lambda y: y > 0)
    return ranged(tf, 5).flat_map(inner)


@of_dataset
def loops_in_functions(tf):
    return ranged(tf, 5).map(lambda x: tf.while_loop(
        lambda i, s: i < x, lambda i, s: (i + 1, s + i), (tf.constant(0, tf.int64),) * 2)[1])


@of_dataset
def branches_in_functions(tf):
    return ranged(tf, 5).map(lambda x: tf.cond(x > 2, lambda: x * 10, lambda: -x))


@of_dataset
def mapped_rows(tf):
    return tf.data.Dataset.from_tensor_slices(np.arange(12.0).reshape(4, 3)).map(
        lambda r: tf.map_fn(lambda x: x * x, r))


@of_dataset
def dictionaries(tf):
    return tf.data.Dataset.from_tensor_slices({"b": [1, 2, 3], "a": ["x", "y", "z"]}).map(
        lambda e: {"c": e["b"] + 1, "d": tf.string_join([e["a"], "!"])}).batch(2)


@of_dataset
def taken_reduced(tf):
    return ranged(tf).window(3).flat_map(lambda w: tf.data.Dataset.from_tensors(
        w.reduce(np.int64(0), lambda a, b: a + b)))


@of_dataset
def cached_and_prefetched(tf):
    return ranged(tf, 3).cache().repeat(2).prefetch(tf.data.experimental.AUTOTUNE)


@program
def reinitializable(tf, tools):
    a, b = ranged(tf, 3), ranged(tf, 9).skip(6)
    iterator = tf.data.Iterator.from_structure(tf.int64, [])
    first, second = iterator.make_initializer(a), iterator.make_initializer(b)
    following = iterator.get_next()
    with tf.Session() as session:
        for start in (first, second, first):
            session.run(start)
            drained(tf, session, following)


@program
def of_a_shared_name(tf, tools):
    with tf.Session() as session:
        iterators = [tf.data.make_initializable_iterator(ranged(tf, 4), shared_name="one")
                     for _ in range(2)]
        nexts = [i.get_next() for i in iterators]
        session.run(iterators[0].initializer)
        for following in nexts + nexts[::-1]:
            session.run(following)


@program
def fed(tf, tools):
    n = tf.placeholder(tf.int64, [], name="n")
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(n).map(lambda x: x + n))
    following = iterator.get_next()
    with tf.Session() as session:
        for size in (2, 3):
            session.run(iterator.initializer, {n: size})
            drained(tf, session, following)


@program
def not_initialized(tf, tools):
    following = tf.data.make_initializable_iterator(ranged(tf)).get_next()
    with tf.Session() as session:
        try:
            session.run(following)
        except tf.errors.FailedPreconditionError:
            pass


@program
def single_elements(tf, tools):
    total = ranged(tf).reduce(np.int64(1), lambda a, x: a + x)
    one = tf.data.experimental.get_single_element(ranged(tf).skip(3).take(1))
    with tf.Session() as session:
        session.run([total, one])


@program
def with_variables_and_tables(tf, tools):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([0, 1, 2], tf.int64), tf.constant(["zero", "one", "two"])), "none")
    iterator = tf.data.make_initializable_iterator(ranged(tf, 4).map(table.lookup))
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    v = tf.get_variable("v", initializer="word ")
    y = tf.string_join([v, iterator.get_next()], name="y")
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), table.initializer])
        session.run(iterator.initializer)
        drained(tf, session, y)


@program
def optionals(tf, tools):
    iterator = tf.data.make_initializable_iterator(ranged(tf, 2))
    optional = tf.data.experimental.get_next_as_optional(iterator)
    there, value = optional.has_value(), optional.get_value()
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run([there, value])
        session.run([there, value])
        session.run(there)


@program
def a_model_that_reads_its_input(tf, tools):
    """A SavedModel whose initializer starts the iterator."""
    iterator = tf.data.make_initializable_iterator(
        tf.data.Dataset.from_tensor_slices(np.arange(8.0, dtype=np.float32)).batch(4))
    w = tf.get_variable("w", [4], initializer=tf.constant_initializer(0.5))
    y = tf.reduce_sum(iterator.get_next() * w, name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        session.run(y)
        session.run(iterator.initializer)
        tools.save(session, [y], main_op=iterator.initializer, frozen=False)


# --------------------------------------------------------------------------- queues, areas, readers
def told_program(module, function, needs_folder):
    """A program of (tf, x) or (tf, x, folder) of tests/queues and tests/readers."""
    def program(tf, tools):
        x = module.Session(tf, 0.0)
        with x.session:
            if needs_folder:
                folder = pathlib.Path(tools.files(function.__name__))
                function(tf, x, folder)
            else:
                function(tf, x)
    return program


def queue_programs(load):
    queues = load("queues", "queue_programs")
    inputs = load("readers", "input_programs")
    found = {"queue:" + name: told_program(queues, function, False)
             for name, function in queues.PROGRAMS.items()}
    found.update(("reader:" + name, told_program(inputs, function, True))
                 for name, function in inputs.PROGRAMS.items())
    return {name: made for name, made in found.items()
            if "blocked(" not in inspect.getsource(
                {**queues.PROGRAMS, **inputs.PROGRAMS}[name.partition(":")[2]])}


def input_programs(load):
    return {**data_programs(load), **INPUTS, **queue_programs(load)}
