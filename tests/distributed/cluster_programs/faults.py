"""What fails, and how it is told: kernels of other tasks, time-outs, servers that die."""
import time

import numpy as np

from cluster_programs import device_names, program, spec_of

WORKER0, WORKER1 = "/job:worker/task:0", "/job:worker/task:1"
PS0, PS1 = "/job:ps/task:0", "/job:ps/task:1"


@program
def errors_of_kernels(tf, x):
    """The type, the op and the text of an error on another task."""
    n = tf.placeholder(tf.int32, None, name="n")
    with tf.device(PS0):
        gathered = tf.gather(tf.constant([1., 2.]), n, name="gathered")
        reshaped = tf.reshape(tf.placeholder_with_default(np.zeros(6, np.float32), None), [n, 4],
                              name="reshaped")
        number = tf.string_to_number(tf.placeholder_with_default("x y", []), name="number")
        checked = tf.check_numerics(tf.placeholder_with_default(np.nan, []), "my words",
                                    name="checked")
        with tf.control_dependencies([tf.Assert(tf.equal(n, 77), ["my data", n], name="check")]):
            asserted = tf.identity(n)
        read = tf.read_file("/no/such/file/anywhere", name="read")
        solved = tf.matrix_inverse(tf.zeros([2, 2]), name="solved")
    outputs = {"gathered": gathered, "reshaped": reshaped, "number": number, "checked": checked,
               "asserted": asserted, "read": read, "solved": solved}
    texts = ("indices", "7 is not in [0, 2)", "x y", "my words", "my data", "No such file",
             "not invertible")
    sess, far = x.session("worker", 0), x.session("worker", 1)
    for name, tensor in outputs.items():
        with tf.device(WORKER0):
            after = tf.identity(tensor)
        x.error(name, lambda: sess.run(after, {n: 7}), *texts)
        x.error(name + " fetched", lambda: far.run(tensor, {n: 7}), *texts)
    x.note("goes on", sess.run(gathered, {n: 1}))


@program
def errors_leave_the_session(tf, x):
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0)
        bad = tf.gather([1.0], tf.placeholder_with_default(3, []))
    with tf.device(WORKER1):
        y = bad + v
    sess = x.session()
    sess.run(v.initializer)
    for _ in range(3):
        x.error("fails", lambda: sess.run(y))
    x.note("goes on", sess.run(v.assign_add(1.0)))


@program
def error_beside_blocked(tf, x):
    """One task waits for ever, another fails: the step ends with the failure."""
    with tf.device(PS0):
        q = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name=x.name + "q")
        never = q.dequeue(name="never")
    with tf.device(PS1):
        bad = tf.gather([1.0], tf.placeholder_with_default(9, []), name="bad")
    with tf.device(WORKER1):
        other = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name=x.name + "o").dequeue()
    y = never + bad + other
    sess = x.session()
    step = x.thread(lambda: sess.run(y), "9 is not in [0, 1)")
    x.note("ends", step.end())
    x.note("nobody took it", sess.run(q.size()))
    sess.run(q.enqueue(1.0))
    x.note("the queue works", sess.run(q.dequeue()))


@program
def uninitialised(tf, x):
    with tf.device(PS0):
        a = tf.get_variable("a", initializer=1.0)
        b = tf.get_variable("b", initializer=1.0, use_resource=True)
    with tf.device(WORKER1):
        ya, yb = a + 1.0, b + 1.0
    sess = x.session()
    x.error("reference", lambda: sess.run(ya), "Attempting to use uninitialized value",
            x.name + "/a")
    x.error("resource", lambda: sess.run(yb), x.name + "/b")
    x.error("assign_add", lambda: sess.run(a.assign_add(1.0)), x.name + "/a")


@program
def timeouts(tf, x):
    with tf.device(PS0):
        q = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name=x.name + "q")
        take = q.dequeue()
    with tf.device(WORKER1):
        y = take + 1.0
    sess = x.session()
    began = time.monotonic()
    x.error("RunOptions", lambda: sess.run(y, options=tf.RunOptions(timeout_in_ms=200)))
    x.note("in time", 0.15 < time.monotonic() - began < 5)
    limited = x.session(config=tf.ConfigProto(operation_timeout_in_ms=200))
    x.error("operation_timeout_in_ms", lambda: limited.run(y))
    x.note("quick ones pass", limited.run(tf.constant(1.0) + 1.0))
    sess.run(q.enqueue(4.0))
    x.note("nobody took it", sess.run(q.size()))
    x.note("the session lives", sess.run(y))


@program
def unreachable(tf, x):
    """Nobody listens there."""
    address = spec_of(a=1)["a"][0]
    config = tf.ConfigProto(operation_timeout_in_ms=500)
    c = tf.constant(1)
    began = time.monotonic()

    def connect():
        with tf.Session(f"grpc://{address}", config=config) as sess:
            return sess.run(c)

    x.error("a session", connect)
    x.note("in time", time.monotonic() - began < 30)


@program
def cluster_incomplete(tf, x):
    """A task of the cluster is missing; with filters a session starts."""
    spec = spec_of(ps=1, worker=1)
    server = tf.train.Server(spec, job_name="worker", task_index=0)
    filtered = tf.ConfigProto(device_filters=["/job:worker"])
    x.note("filtered", x.session(target=server.target, config=filtered).run(tf.constant(1)))


@program(alone=True)
def ps_is_killed(tf, x):
    spec = spec_of(ps=1, worker=1)
    ps = x.start(spec, "ps", 0)
    server = tf.train.Server(spec, job_name="worker", task_index=0)
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0)
        take = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name="q").dequeue()
    with tf.device(WORKER0):
        y, z = v + 1.0, take + 1.0
    sess = x.session(target=server.target)
    sess.run(v.initializer)
    x.note("before", sess.run(y))
    blocked = x.thread(lambda: sess.run(z))
    x.note("blocked", blocked.blocked())
    ps.kill()
    began = time.monotonic()
    x.note("the blocked step", blocked.end(60)[:2])
    x.note("in time", time.monotonic() - began < 20)
    x.error("the next step", lambda: sess.run(y))
    x.note("what is here", x.failing(lambda: sess.run(tf.constant(2) + 1))[0])
    again = x.start(spec, "ps", 0)
    x.note("the old session is lost", [x.failing(lambda: sess.run(y))[1] in
                                       ("AbortedError", "UnavailableError") for _ in range(3)])
    new = x.session(target=server.target)
    x.error("a new session", lambda: new.run(y), "Attempting to use uninitialized value")
    new.run(v.initializer)
    x.note("initialised", new.run(y))
    again.kill()


@program(alone=True)
def ps_starts_late(tf, x):
    """A step that needs a task which is not there yet waits for it; so does a session at it."""
    spec = spec_of(ps=1, worker=1)
    server = tf.train.Server(spec, job_name="worker", task_index=0)
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0)
    with tf.device(WORKER0):
        y = v + 1.0

    x.start(spec, "ps", 0, delay=1.0)
    sess = x.session(target=server.target)
    sess.run(v.initializer)
    x.note("a step at a worker", sess.run(y))
    later = spec_of(ps=1)
    x.start(later, "ps", 0, delay=1.0)
    with tf.Graph().as_default():
        three = tf.constant(3.0)
        sess = x.session(target=f"grpc://{later['ps'][0]}")
        x.note("a session at the ps itself", sess.run(three))


LOST = ("AbortedError", "UnavailableError", "DeadlineExceededError")


@program(alone=True)
def master_is_killed(tf, x):
    """The client's own server dies.  (TensorFlow notices by the time-out only.)"""
    spec = spec_of(worker=1)
    worker = x.start(spec, "worker", 0)
    v = tf.get_variable("v", initializer=1.0)
    config = tf.ConfigProto(operation_timeout_in_ms=3000)
    sess = x.session(target=worker.target, config=config)
    sess.run(v.initializer)
    worker.kill()
    x.note("the next step", x.failing(lambda: sess.run(v))[1] in LOST)
    x.start(spec, "worker", 0)
    x.note("the old session", x.failing(lambda: sess.run(v))[1] in LOST)
    new = x.session(target=worker.target)
    x.error("a new session", lambda: new.run(v), "Attempting to use uninitialized value")


@program(alone=True)
def processes(tf, x):
    """Two parameter servers and two workers, four processes, a client that is none of them."""
    spec = spec_of(ps=2, worker=2)
    for job in spec:
        for task in range(2):
            x.start(spec, job, task)
    with tf.device(tf.train.replica_device_setter(cluster=spec, worker_device=WORKER0)):
        w = tf.get_variable("w", initializer=tf.constant([[1.], [2.]]))
        b = tf.get_variable("b", initializer=0.5)
        a = tf.placeholder(tf.float32, [None, 2])
        y = tf.matmul(a, w) + b
        loss = tf.reduce_sum(tf.square(y))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    first = x.session(target=f"grpc://{spec['worker'][0]}")
    second = x.session(target=f"grpc://{spec['worker'][1]}")
    first.run(tf.global_variables_initializer())
    x.note("value", second.run(y, {a: [[1, 1], [2, 0]]}))
    for sess in (first, second):
        sess.run(train, {a: [[1, 1]]})
    x.note("trained", first.run([w, b]))
    x.error("error", lambda: second.run(tf.gather(w, 5, name="outside")))
    x.note("a step lists", len([d for d in second.list_devices() if d.device_type == "CPU"]))
    meta = tf.RunMetadata()
    second.run(y, {a: [[1, 1]]}, options=tf.RunOptions(
        trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True), run_metadata=meta)
    mine = "/job:worker/replica:0/task:1/device:CPU:0"   # the master's: TensorFlow fetches by it
    x.note("traced", device_names({d.device for d in meta.step_stats.dev_stats} - {mine}))
    x.note("partitions", len([graph for graph in meta.partition_graphs
                              if graph.node[0].device != mine]))
    f = second.make_callable(loss, [a])
    x.note("callable", f([[0, 1]]))
    handle = first.partial_run_setup([y, loss], [a])
    x.note("partial", first.partial_run(handle, y, {a: [[1, 0]]}))


@program(alone=True)
def python_function_elsewhere(tf, x):
    """py_func on a task of another process."""
    spec = spec_of(ps=1, worker=1)
    x.start(spec, "ps", 0)
    server = tf.train.Server(spec, job_name="worker", task_index=0)
    with tf.device(PS0):
        y = tf.py_func(lambda a: np.float32(a * 2), [tf.constant(3.0)], tf.float32, name="mine")
    with tf.device(WORKER0):
        z = y + 1.0
    sess = x.session(target=server.target)
    x.error("refused", lambda: sess.run(z), "mine")
