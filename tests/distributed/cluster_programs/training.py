"""Training over a cluster: savers, sessions that wait for the chief, synchronous replicas."""
import glob
import os
import threading

import numpy as np

from cluster_programs import program, spec_of

WORKER0, WORKER1 = "/job:worker/task:0", "/job:worker/task:1"
PS0, PS1 = "/job:ps/task:0", "/job:ps/task:1"


@program
def device_setter(tf, x):
    with tf.device(tf.train.replica_device_setter(cluster=x.cluster.spec, worker_device=WORKER1)):
        made = [tf.get_variable(f"v{k}", initializer=float(k)) for k in range(3)]
        step = tf.train.get_or_create_global_step()
        y = tf.add_n(made)
    x.note("devices", [t.device for t in (*made, step, y)])
    sess = x.session("worker", 1)
    sess.run(tf.variables_initializer(made))
    x.note("sum", sess.run(y))


@program
def saver(tf, x):
    """Variables of two parameter servers into one file, or into one per server."""
    with tf.device(PS0):
        a = tf.get_variable("a", initializer=tf.constant([1., 2.]))
    with tf.device(PS1):
        b = tf.get_variable("b", initializer=5, dtype=tf.int32)
        c = tf.get_variable("c", initializer=tf.constant([[7.]]), use_resource=True)
    change = tf.group(a.assign([0., 0.]), b.assign(0), c.assign([[0.]]))
    sess = x.session()
    for sharded in (False, True):
        save = tf.train.Saver([a, b, c], sharded=sharded)
        sess.run(tf.variables_initializer([a, b, c]))
        path = save.save(sess, os.path.join(x.folder, f"m{sharded}"), write_meta_graph=False)
        x.note("files", sorted(
            os.path.basename(f).removesuffix(".safetensors") for f in glob.glob(path + "*")))
        sess.run(change)
        save.restore(x.session("worker", 1), path)
        x.note("restored", sess.run([a, b, c]))
        x.note("inside", tf.train.list_variables(path))


@program
def training_by_two_workers(tf, x):
    """Between-graph replication, asynchronous; each worker has a graph of its own."""
    def graph(task):
        with tf.Graph().as_default() as g, tf.variable_scope(x.name):
            with tf.device(tf.train.replica_device_setter(
                    cluster=x.cluster.spec, worker_device=f"/job:worker/task:{task}")):
                step = tf.get_variable("step", initializer=0, dtype=tf.int32, trainable=False)
                w = tf.get_variable("w", initializer=tf.constant([0., 0.]))
                a = tf.placeholder(tf.float32, [2])
                loss = tf.reduce_sum(tf.square(w - a))
                train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, step)
                return g, tf.global_variables_initializer(), w, a, train, step

    (g0, init, w, a0, train0, step), (g1, _, w1, a1, train1, _) = graph(0), graph(1)
    one, two = x.session("worker", 0, graph=g0), x.session("worker", 1, graph=g1)
    one.run(init)
    one.run(train0, {a0: [4, 8]})
    x.note("after one", two.run(w1))
    two.run(train1, {a1: [0, 8]})
    x.note("after two", one.run([w, step]))


@program
def optimizers(tf, x):
    """Slots beside their variables."""
    for name, make in (("momentum", lambda: tf.train.MomentumOptimizer(0.1, 0.9)),
                       ("adam", lambda: tf.train.AdamOptimizer(0.1)),
                       ("adagrad", lambda: tf.train.AdagradOptimizer(0.1)),
                       ("ftrl", lambda: tf.train.FtrlOptimizer(0.1))):
        with tf.variable_scope(name):
            with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device=WORKER0)):
                v = tf.get_variable("v", initializer=tf.constant([1., -2.]))
                w = tf.get_variable("w", initializer=3.0)
                loss = tf.reduce_sum(v * v) * w
                train = make().minimize(loss, var_list=[v, w])
        every = tf.global_variables(f"{x.name}/{name}")
        sess = x.session("worker", 1)
        sess.run(tf.variables_initializer(every))
        for _ in range(3):
            sess.run(train)
        x.note(name, [sess.run([v, w]), sorted([u.op.name, u.device] for u in every)])


@program
def worker_waits_for_the_chief(tf, x):
    """A session manager's wait ends once another has initialised the variables."""
    with tf.device(PS0):
        w = tf.get_variable("w", initializer=1.0)
        v = tf.get_variable("v", initializer=2.0)
    graph = tf.get_default_graph()
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables([w, v]),
                                      recovery_wait_secs=x.wait / 2, graph=graph)
    init, y = tf.variables_initializer([w, v]), w + v

    def wait():
        with manager.wait_for_session(x.target("worker", 1), max_wait_secs=60) as sess:
            return sess.run(y)

    waiting = x.thread(wait)
    x.note("waits", waiting.blocked())
    chief = x.session("worker", 0)
    chief.run(w.initializer)
    x.note("one of two is not enough", waiting.blocked())
    chief.run(init)
    x.note("goes on", waiting.end())


@program
def monitored_workers(tf, x):
    """A chief and a worker in threads, each with a graph and master of its own."""
    found, chief_is_there = {}, threading.Event()

    def work(task):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(
                    cluster=x.cluster.spec, worker_device=f"/job:worker/task:{task}")):
                with tf.variable_scope(x.name):
                    w = tf.get_variable("w", initializer=1.0)
                    step = tf.get_variable(
                        "step", initializer=np.int64(0), trainable=False, collections=[
                            tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP])
                train = tf.group(w.assign_add(1.0, use_locking=True),
                                 step.assign_add(1, use_locking=True))
            if task == 1:
                chief_is_there.wait(30)
            config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"])
            with tf.train.MonitoredTrainingSession(
                    master=x.target("worker", task), is_chief=task == 0, config=config,
                    checkpoint_dir=x.folder if task == 0 else None,
                    hooks=[tf.train.StopAtStepHook(last_step=20)]) as sess:
                chief_is_there.set()
                n = 0
                while not sess.should_stop():
                    sess.run(train)
                    n += 1
            found[task] = n

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in (1, 0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    x.note("alive", [t.is_alive() for t in threads])
    x.note("the chief worked", found[0] > 0)
    x.note("so many steps", 20 <= sum(found.values()) <= 21)
    x.note("checkpoint", os.path.basename(tf.train.latest_checkpoint(x.folder)).split("-")[0])
    with tf.device(PS0):
        w = tf.get_variable("w", shape=[])
    x.note("value", bool(x.session().run(w) == sum(found.values()) + 1))


@program
def supervisor(tf, x):
    with tf.device(tf.train.replica_device_setter(cluster=x.cluster.spec, worker_device=WORKER0)):
        w = tf.get_variable("w", initializer=1.0)
        step = tf.get_variable("step", initializer=0, dtype=tf.int32, trainable=False)
        train = tf.group(w.assign_add(1.0), step.assign_add(1))
    sv = tf.train.Supervisor(is_chief=True, logdir=x.folder, global_step=step, save_model_secs=0,
                             summary_op=None, save_summaries_secs=0)
    with sv.managed_session(x.target("worker", 0)) as sess:
        for _ in range(3):
            sess.run(train)
        x.note("trained", sess.run([w, step]))
        sv.saver.save(sess, sv.save_path, step)
    with tf.Graph().as_default(), tf.variable_scope(x.name):
        with tf.device(tf.train.replica_device_setter(cluster=x.cluster.spec)):
            w = tf.get_variable("w", initializer=1.0)
            step = tf.get_variable("step", initializer=0, dtype=tf.int32, trainable=False)
        other = tf.train.Supervisor(is_chief=False, logdir=x.folder, global_step=step,
                                    summary_op=None)
        with other.managed_session(x.target("worker", 1), start_standard_services=False) as sess:
            x.note("seen by a worker", sess.run([w, step]))


@program
def synchronous_replicas(tf, x):
    """Two workers, a chief's queue runner; the values after so many steps."""
    found, last, done = {}, 4, threading.Barrier(2, timeout=60)
    chief_is_there = threading.Event()

    def work(task):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(
                    cluster=x.cluster.spec, worker_device=f"/job:worker/task:{task}")):
                with tf.variable_scope(x.name):
                    w = tf.get_variable("w", initializer=tf.constant([0., 0.]))
                    step = tf.get_variable(
                        "step", initializer=np.int64(0), trainable=False, collections=[
                            tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP])
                a = tf.constant([[4., 0.], [0., 8.]][task])
                loss = tf.reduce_sum(tf.square(w - a))
                optimizer = tf.train.SyncReplicasOptimizer(
                    tf.train.GradientDescentOptimizer(0.125), replicas_to_aggregate=2,
                    total_num_replicas=2)
                train = optimizer.minimize(loss, global_step=step)
            hook = optimizer.make_session_run_hook(is_chief=task == 0, num_tokens=0)
            if task == 1:
                chief_is_there.wait(30)
            sess = tf.train.MonitoredTrainingSession(
                master=x.target("worker", task), is_chief=task == 0, hooks=[hook],
                stop_grace_period_secs=1,
                config=tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"]))
            chief_is_there.set()
            for _ in range(last):
                sess.run(train)             # nobody takes the other's token
                done.wait()
            if task == 0:
                found["w"], found["step"] = sess.run([w, step])
            done.wait()
            try:
                sess.close()
            except tf.errors.CancelledError:
                pass

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    x.note("ended", [not t.is_alive() for t in threads])
    x.note("value", found.get("w"))
    x.note("step", found.get("step"))


def recurrent(tf, name, inputs, units):
    """An LSTM without biases as a while loop; inputs and result are [time, batch, features]."""
    steps, batch, features = inputs.shape.as_list()
    kernel = tf.get_variable(f"kernel_{name}", initializer=np.linspace(
        -1, 1, (features + units) * 4 * units, dtype=np.float32).reshape(-1, 4 * units))
    read = tf.TensorArray(tf.float32, steps,
                          colocate_with_first_write_call=False).unstack(inputs)

    def body(t, h, c, out):
        i, f, o, j = tf.split(tf.matmul(tf.concat([read.read(t), h], 1), kernel), 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        return t + 1, h, c, out.write(t, h)

    zero = tf.zeros([batch, units])
    out = tf.while_loop(lambda t, *_: t < steps, body,
                        [0, zero, zero, tf.TensorArray(
                            tf.float32, steps, colocate_with_first_write_call=False)])[3].stack()
    out.set_shape([steps, batch, units])
    return out, kernel


@program
def model_parallel(tf, x):
    """An LSTM whose layers lie on different workers, its variables on parameter servers."""
    setters = [tf.train.replica_device_setter(cluster=x.cluster.spec, worker_device=worker)
               for worker in (WORKER0, WORKER1)]
    a = tf.placeholder(tf.float32, [3, 2, 2])
    with tf.device(setters[0]):
        one, k1 = recurrent(tf, "one", a, 3)
    with tf.device(setters[1]):
        two, k2 = recurrent(tf, "two", one, 2)
        loss = tf.reduce_sum(tf.square(two))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(
        loss, var_list=[k1, k2], colocate_gradients_with_ops=True)
    sess = x.session()
    sess.run(tf.variables_initializer([k1, k2]))
    feed = {a: np.arange(12, dtype=np.float32).reshape(3, 2, 2) / 10}
    x.note("gradients", sess.run(tf.gradients(loss, [k1, k2]), feed))
    losses = []
    for _ in range(4):
        losses.append(sess.run([loss, train], feed)[0])
    x.note("losses", losses)


@program
def global_step(tf, x):
    with tf.device(PS0):
        step = tf.train.get_or_create_global_step()
        up = step.assign_add(1)
    one, two = x.session("worker", 0), x.session("worker", 1)
    one.run(step.initializer)
    one.run(up)
    two.run(up)
    x.note("tf.train.global_step", tf.train.global_step(one, step))
    v = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables([step]))
    x.note("ready session", type(v.wait_for_session(x.target("worker", 1),
                                                    max_wait_secs=20)).__name__)


@program
def waiting_takes_no_longer(tf, x):
    """A worker whose chief never comes."""
    with tf.device(PS0):
        w = tf.get_variable("w", initializer=1.0)
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables([w]),
                                      recovery_wait_secs=0.5)
    x.error("too long", lambda: manager.wait_for_session(x.target("worker", 1), max_wait_secs=1),
            "Session was not ready after waiting 1 secs")


@program
def supervised_replicas(tf, x):
    """TensorFlow's mnist_replica.py in small: Supervisor, SyncReplicasOptimizer, its queue runner
    and tokens, two workers in threads."""
    steps, found, done = 3, {}, threading.Barrier(2, timeout=60)
    data = np.float32([[1, 0, 2], [0, 1, 1], [2, 1, 0], [1, 1, 1]])

    def work(task):
        chief = task == 0
        with tf.Graph().as_default(), tf.variable_scope(x.name):
            with tf.device(tf.train.replica_device_setter(
                    worker_device=f"/job:worker/task:{task}", ps_device="/job:ps/cpu:0",
                    cluster=tf.train.ClusterSpec(x.cluster.spec))):
                step = tf.Variable(0, name="step", trainable=False, dtype=tf.int64)
                w = tf.Variable(tf.zeros([3, 1]), name="w")
                b = tf.Variable(tf.zeros([1]), name="b")
                a = tf.placeholder(tf.float32, [None, 3])
                loss = tf.reduce_mean(tf.square(tf.matmul(a, w) + b - 1.0))
                optimizer = tf.train.SyncReplicasOptimizer(
                    tf.train.AdamOptimizer(0.1), replicas_to_aggregate=2, total_num_replicas=2,
                    name="replicas" + x.name)
                train = optimizer.minimize(loss, global_step=step)
            local_init = optimizer.chief_init_op if chief else optimizer.local_step_init_op
            runner, tokens = optimizer.get_chief_queue_runner(), optimizer.get_init_tokens_op(0)
            sv = tf.train.Supervisor(
                is_chief=chief, logdir=x.folder, init_op=tf.global_variables_initializer(),
                local_init_op=local_init, ready_for_local_init_op=optimizer.ready_for_local_init_op,
                recovery_wait_secs=0.2, global_step=step, save_model_secs=0, summary_op=None)
            config = tf.ConfigProto(allow_soft_placement=True, device_filters=[
                "/job:ps", f"/job:worker/task:{task}"])
            sess = sv.prepare_or_wait_for_session(x.target("worker", task), config=config)
            if chief:
                sess.run(tokens)
                sv.start_queue_runners(sess, [runner])
            for _ in range(steps):
                sess.run(train, {a: data[2 * task:2 * task + 2]})
                done.wait()
            if chief:
                found["step"], found["w"], found["b"] = sess.run([step, w, b])
                found["loss"] = sess.run(loss, {a: data})
            done.wait()
            sv.request_stop()
            sess.close()

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    x.note("ended", [not t.is_alive() for t in threads])
    for what in ("step", "w", "b", "loss"):
        x.note(what, found.get(what))


@program
def greedy_placement(tf, x):
    """Variables by size over two parameter servers."""
    contrib = getattr(tf, "contrib", None)
    if contrib is not None:
        greedy = contrib.training.GreedyLoadBalancingStrategy
        size = contrib.training.byte_size_load_fn
    else:                               # TensorFlow 2 has lost it: 1.15's, in a few lines

        class greedy:
            def __init__(self, tasks, load):
                self.loads, self.load = [0] * tasks, load

            def __call__(self, op):
                task = int(np.argmin(self.loads))
                self.loads[task] += self.load(op)
                return task

        def size(op):
            shape = tf.TensorShape(op.get_attr("shape"))
            return shape.num_elements() * tf.as_dtype(op.get_attr("dtype")).size

    with tf.device(tf.train.replica_device_setter(
            cluster=x.cluster.spec, ps_strategy=greedy(2, size))):
        made = [tf.get_variable(f"v{k}", [n]) for k, n in enumerate((100, 10, 20, 60, 5, 200))]
    x.note("devices", [v.device for v in made])
    sess = x.session()
    sess.run(tf.variables_initializer(made))
    x.note("sizes", [int(n) for n in sess.run([tf.size(v) for v in made])])


@program
def sessions_of_other_kinds(tf, x):
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=2.0)
        step = tf.get_variable("step", initializer=0, dtype=tf.int32, trainable=False)
    y = v * 3.0
    sess = tf.InteractiveSession(x.target())
    v.initializer.run()
    step.initializer.run()
    x.note("interactive", y.eval())
    sess.close()
    with tf.train.SingularMonitoredSession(master=x.target("worker", 1)) as sess:
        x.note("singular", sess.run(y))
    sv = tf.train.Supervisor(logdir=None, summary_op=None, global_step=step)
    with sv.prepare_or_wait_for_session(x.target("worker", 0)) as sess:
        x.note("supervised", sess.run(y))


@program
def input_by_queues(tf, x):
    """A monitored session whose queue runners fill a worker's queue from files."""
    path = os.path.join(x.folder, "rows")
    with open(path, "w") as file:
        file.writelines(f"{k},{k * k}\n" for k in range(6))
    with tf.device(WORKER0):
        names = tf.train.string_input_producer([path], num_epochs=1, shuffle=False)
        row = tf.TextLineReader().read(names)[1]
        columns = tf.decode_csv(row, [[0], [0]])
        a, b = tf.train.batch(columns, 2)
    with tf.device(PS0):
        step = tf.train.get_or_create_global_step()
        total = tf.get_variable("total", initializer=0, dtype=tf.int32)
        add = total.assign_add(tf.reduce_sum(a * 10 + b))
    found = []
    with tf.train.MonitoredTrainingSession(master=x.target("worker", 0)) as sess:
        while not sess.should_stop():
            found.append(int(sess.run(add)))
    x.note("sums", found)
    x.note("step", int(x.session().run(step)))


@program
def reset_while_monitored(tf, x):
    """Session.reset takes a monitored session's variables and session away: it makes another one,
    from its checkpoint."""
    with tf.device(PS0), tf.container("m" + x.name.replace("_", "")):
        step = tf.get_variable("step", initializer=np.int64(0), trainable=False, collections=[
            tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP])
        up = step.assign_add(1)
    seen = []
    with tf.train.MonitoredTrainingSession(
            master=x.target("worker", 1), checkpoint_dir=x.folder, save_checkpoint_steps=2,
            save_checkpoint_secs=None, save_summaries_steps=None, save_summaries_secs=None,
            log_step_count_steps=None) as sess:
        for k in range(8):
            seen.append(int(sess.run(up)))
            if k == 4:
                tf.Session.reset(x.target("worker", 1), ["m" + x.name.replace("_", "")])
    x.note("steps", seen)


@program(alone=True)
def chief_recovers(tf, x):
    """The only ps is killed while a monitored session trains, and comes back empty: the session
    goes on from the checkpoint."""
    spec = spec_of(ps=1, worker=1)
    ps = x.start(spec, "ps", 0)
    server = tf.train.Server(spec, job_name="worker", task_index=0)
    with tf.device(tf.train.replica_device_setter(cluster=spec)):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", initializer=0.0)
        train = tf.group(w.assign_add(1.0), step.assign_add(1))
        both = [step, w]
    seen = []
    with tf.train.MonitoredTrainingSession(
            master=server.target, checkpoint_dir=x.folder, save_checkpoint_steps=5,
            save_checkpoint_secs=None, save_summaries_steps=None, save_summaries_secs=None,
            log_step_count_steps=None, hooks=[tf.train.StopAtStepHook(last_step=20)]) as sess:
        while not sess.should_stop():
            sess.run(train)
            if not sess.should_stop():
                seen.append([int(v) for v in sess.run_step_fn(
                    lambda step_context: step_context.session.run(both))])
            if len(seen) == 12 and ps is not None:
                ps.kill()
                ps = None
                x.start(spec, "ps", 0)
    x.note("step and sum go together", all(a == b for a, b in seen))
    x.note("it went back once", sum(b[0] < a[0] for a, b in zip(seen, seen[1:])))
    x.note("the last", seen[-1])
