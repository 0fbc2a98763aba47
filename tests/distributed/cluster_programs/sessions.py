"""Sessions of a cluster: targets, devices, placement, what they share, what ends them."""
import numpy as np

from cluster_programs import device_names, program

WORKER0, WORKER1 = "/job:worker/task:0", "/job:worker/task:1"
PS0, PS1 = "/job:ps/task:0", "/job:ps/task:1"


@program
def targets(tf, x):
    three = tf.constant(1) + 2
    for job, task in (("worker", 0), ("worker", 1), ("ps", 0)):
        x.note("runs", x.session(job, task).run(three))
    x.note("bytes", x.session(target=x.target().encode()).run(three))
    x.error("no scheme", lambda: tf.Session(x.target()[len("grpc://"):]),
            "No session factory registered")
    x.error("another scheme", lambda: tf.Session("carrier://" + x.target()[7:]))
    with tf.Session(x.target()) as sess:
        x.note("with", sess.run(three))
    x.note("eval", [three.eval(session=x.session("worker", 1))])
    x.error("after with", lambda: sess.run(three), "closed")


@program
def devices_listed(tf, x):
    sess = x.session()
    devices = sess.list_devices()
    x.note("names", device_names(d.name for d in devices))
    cpus = [d for d in devices if d.device_type == "CPU"]
    x.note("incarnations differ", len({d.incarnation for d in cpus}) == len(cpus))
    again = [d for d in x.session("ps", 1).list_devices() if d.device_type == "CPU"]
    x.note("same from another task", sorted((d.name, d.incarnation) for d in cpus) == sorted(
        (d.name, d.incarnation) for d in again))


@program
def device_filters(tf, x):
    config = tf.ConfigProto(device_filters=["/job:ps", WORKER0])
    sess = x.session(config=config)
    x.note("names", device_names(d.name for d in sess.list_devices()))
    with tf.device(PS1):
        there = tf.placeholder_with_default(1.0, []) + 1.0
    x.note("allowed", sess.run(there))
    with tf.device(WORKER1):
        hidden = tf.placeholder_with_default(3.0, [], name="hidden") + 1.0
    x.error("filtered", lambda: sess.run(hidden), "hidden")
    own = x.session("worker", 1, tf.ConfigProto(device_filters=["/job:ps/task:0"]))
    x.note("own task is there", device_names(d.name for d in own.list_devices()))
    none = x.session("worker", 1, tf.ConfigProto(device_filters=["/job:nobody"]))
    x.note("nothing matches", device_names(d.name for d in none.list_devices()))


@program
def default_placement(tf, x):
    """Without a device: the first task by name."""
    a = tf.placeholder(tf.float32, [2])
    y = a * 2.0
    for job, task in (("worker", 0), ("worker", 1), ("ps", 1)):
        meta = tf.RunMetadata()
        traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        x.session(job, task).run(y, {a: [1, 2]}, options=traced, run_metadata=meta)
        x.note("ran on", device_names({d.device for d in meta.step_stats.dev_stats}))


@program
def placement_refused(tf, x):
    for what, device in (("job", "/job:nobody/task:0"), ("task", "/job:ps/task:7"),
                         ("gpu", "/job:ps/task:0/device:GPU:0"), ("cpu", "/job:ps/task:0/cpu:9")):
        for soft in (False, True):
            with tf.Graph().as_default(), tf.device(device):
                y = tf.placeholder_with_default(1.0, [], name=what) + 1.0
                sess = x.session(config=tf.ConfigProto(allow_soft_placement=soft))
                x.error("softly " + what if soft else what, lambda: sess.run(y),
                        "Cannot assign a device for operation", device.split("/")[1])


@program
def partial_device_names(tf, x):
    """Job alone, task alone, no job."""
    where, fed = {}, tf.placeholder(tf.float32, [])
    for name in ("/job:ps", "/task:1", "/cpu:0", "/job:worker", "/job:ps/task:1/device:CPU:0"):
        with tf.device(name):
            where[name] = tf.add(fed, 1.0, name="n" + name.replace("/", "_").replace(":", "_"))
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    for name, tensor in sorted(where.items()):
        meta = tf.RunMetadata()
        x.session("worker", 1).run(tensor, {fed: 1.0}, options=options, run_metadata=meta)
        x.note(name, device_names(
            d.device for d in meta.step_stats.dev_stats
            if any(tensor.op.name in n.node_name for n in d.node_stats)))


@program
def variables_are_shared(tf, x):
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0)
    with tf.device(PS1):
        w = tf.get_variable("w", initializer=10.0, use_resource=True)
    grow = tf.group(v.assign_add(1.0), w.assign_add(10.0))
    one = x.session("worker", 0)
    x.error("not yet", lambda: one.run(v), "Attempting to use uninitialized value")
    x.error("nor this", lambda: one.run(w.read_value()), "w")
    x.note("initialised", list(one.run(tf.report_uninitialized_variables())))
    one.run(tf.global_variables_initializer())
    two = x.session("worker", 1)
    two.run(grow)
    x.note("seen by one", one.run([v, w]))
    one.close()
    x.note("kept after close", two.run([v, w]))
    two.run(grow)
    two.close()
    three = x.session("ps", 0)
    x.note("kept when none is open", three.run([v, w]))
    x.note("nothing missing", list(three.run(tf.report_uninitialized_variables())))


@program
def variables_of_a_worker(tf, x):
    """Without a device a variable is the first task's: all workers have the same."""
    v = tf.get_variable("v", initializer=5.0)
    one, two = x.session("worker", 0), x.session("worker", 1)
    one.run(v.initializer)
    x.note("one", one.run(tf.is_variable_initialized(v)))
    x.note("two", two.run(tf.is_variable_initialized(v)))
    again = x.session("worker", 0)
    x.note("another session of the first", again.run(tf.is_variable_initialized(v)))


@program
def another_graph_sees_the_variable(tf, x):
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=tf.constant([1., 2.]))
    x.session().run(v.initializer)
    with tf.Graph().as_default():
        with tf.variable_scope(x.name), tf.device(PS0):
            same = tf.get_variable("v", shape=[2])
        sess = x.session("worker", 1)
        x.note("by name", sess.run(same))


@program
def isolated_sessions(tf, x):
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0)
        q = tf.FIFOQueue(3, tf.int32, shapes=[[]], shared_name=x.name + "q")
    config = tf.ConfigProto(isolate_session_state=True)
    one, two = x.session("worker", 0, config), x.session("worker", 0, config)
    shared = x.session("worker", 0)
    one.run([v.initializer, q.enqueue(3)])
    x.note("variable", [s.run(tf.is_variable_initialized(v)) for s in (one, two, shared)])
    x.note("queue", [s.run(q.size()) for s in (one, two, shared)])


@program
def containers(tf, x):
    """tf.container separates; reset forgets one of them, or all."""
    with tf.device(PS0):
        with tf.container("c1" + x.name):
            a = tf.get_variable("a", initializer=1.0)
        with tf.container("c2" + x.name):
            b = tf.get_variable("b", initializer=2.0)
        c = tf.get_variable("c", initializer=3.0)
    variables = [a, b, c]
    there = [tf.is_variable_initialized(v) for v in variables]
    sess = x.session("ps", 0)
    sess.run(tf.global_variables_initializer())
    x.note("all", sess.run(there))
    x.note("reset returns", tf.Session.reset(x.target("ps", 0), ["c1" + x.name]))
    x.error("a step after reset", lambda: sess.run(there), "reset", "closed")
    sess = x.session("ps", 0)
    x.note("one forgotten", sess.run(there))
    tf.Session.reset(x.target("ps", 0), ["nobody knows it"])
    sess = x.session("ps", 0)
    x.note("an unknown container", sess.run(there))
    tf.Session.reset(x.target("ps", 0))
    sess = x.session("ps", 0)
    x.note("all forgotten?", sess.run(there))


@program
def reset_reaches_all_tasks(tf, x):
    """Session.reset at a worker clears the containers of the tasks that it knows."""
    with tf.device(PS1), tf.container("r" + x.name.replace("_", "")):
        v = tf.get_variable("v", initializer=1.0)
    there = tf.is_variable_initialized(v)
    other = x.session("worker", 1)
    other.run(v.initializer)
    tf.Session.reset(x.target("worker", 0), ["r" + x.name.replace("_", "")])
    x.error("a session of another master", lambda: other.run(there))
    x.error("its variable", lambda: other.run(v))


@program
def reset_ends_blocked_steps(tf, x):
    with tf.device(PS0):
        q = tf.FIFOQueue(3, tf.int32, shapes=[[]], shared_name=x.name)
        take = q.dequeue()
    sess = x.session("worker", 1)
    step = x.thread(lambda: sess.run(take))
    x.note("blocked", step.blocked())
    tf.Session.reset(x.target("worker", 1), ["nobody knows it"])
    x.note("ends", step.end())


@program
def closed_sessions(tf, x):
    c = tf.constant(1)
    sess = x.session()
    sess.run(c)
    x.note("close", sess.close())
    x.note("close again", sess.close())
    x.error("run", lambda: sess.run(c), "closed")
    unused = x.session()
    x.note("close without a run", unused.close())


@program
def close_ends_blocked_steps(tf, x):
    with tf.device(PS0):
        q = tf.FIFOQueue(3, tf.int32, shapes=[[]], shared_name=x.name)
        take = q.dequeue()
    sess, other = x.session("worker", 0), x.session("worker", 1)
    step = x.thread(lambda: sess.run(take))
    x.note("blocked", step.blocked())
    sess.close()
    x.note("ends", step.end()[:2])
    other.run(q.enqueue(3))
    x.note("nobody took it", other.run(q.size()))
    x.note("others go on", other.run(take))


@program
def graph_grows(tf, x):
    """ExtendSession: nodes added after the first run, on other tasks too."""
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0)
    sess = x.session()
    sess.run(v.initializer)
    with tf.device(PS1):
        w = tf.get_variable("w", initializer=4.0)
    sess.run(w.initializer)
    with tf.device(WORKER1):
        y = v * w
    x.note("grown", sess.run(y))
    z = y + 1.0
    x.note("again", sess.run([z, y]))


@program
def graph_of_one_task(tf, x):
    """Nothing remote."""
    a = tf.placeholder(tf.float32, [2])
    x.note("run", x.session().run(a * 2.0, {a: [1, 2]}))
    with tf.device(WORKER0):
        b = tf.reduce_sum(tf.constant([[1., 2.], [3., 4.]]), 1)
    x.note("pinned", x.session("worker", 0).run(b))
    x.note("elsewhere", x.session("worker", 1).run(b))


@program
def empty_graph(tf, x):
    sess = x.session()
    x.error("nothing", lambda: sess.run([]))
    x.error("empty dict", lambda: sess.run({}))
    with tf.Graph().as_default():
        x.error("list_devices", lambda: len(device_names(
            d.name for d in x.session().list_devices())))


@program
def colocation(tf, x):
    """colocate_with over tasks, and what it is refused for."""
    with tf.device(PS1):
        v = tf.get_variable("v", initializer=1.0)
    with tf.device(PS0):
        with tf.colocate_with(v):
            a = tf.placeholder(tf.float32, [])
            y = tf.add(a, 1.0, name="beside")
    meta = tf.RunMetadata()
    x.session().run(y, {a: 4.0}, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
                    run_metadata=meta)
    x.note("beside the variable", device_names(
        d.device for d in meta.step_stats.dev_stats
        if any("beside" in n.node_name for n in d.node_stats)))
    with tf.device(PS1):
        assign = v.assign(3.0)
    x.note("assign", x.session().run(assign))


@program
def metadata(tf, x):
    """What a run says of partitions and devices."""
    with tf.device(PS0):
        a = tf.placeholder(tf.float32, [2], name="a")
        b = tf.multiply(a, 2.0, name="b")
    with tf.device(WORKER0):
        c = tf.add(b, 1.0, name="c")
    with tf.device(WORKER1):
        d = tf.subtract(c, b, name="d")
    meta = tf.RunMetadata()
    feed = {a: np.float32([1, 2])}
    value = x.session().run(d, feed, options=tf.RunOptions(
        trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True), run_metadata=meta)
    x.note("value", value)
    x.note("devices with times", device_names({s.device for s in meta.step_stats.dev_stats}))
    x.note("partitions", len(meta.partition_graphs))
    x.note("each sends or receives", all(any("Send" in n.op or "Recv" in n.op for n in graph.node)
                                         for graph in meta.partition_graphs))
    x.note("devices of partitions", sorted({n.device for g in meta.partition_graphs
                                            for n in g.node}))
    meta = tf.RunMetadata()
    x.session().run(d, feed, run_metadata=meta)
    x.note("nothing asked", [len(meta.step_stats.dev_stats), len(meta.partition_graphs)])
    quiet = tf.RunOptions(trace_level=tf.RunOptions.NO_TRACE)
    x.session().run(d, feed, options=quiet, run_metadata=meta)
    x.note("no trace", len(meta.step_stats.dev_stats))
