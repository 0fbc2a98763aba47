"""tf.train.Server: its arguments, forms of clusters, properties, errors."""
from cluster_programs import free_ports, program, spec_of, without_ports


@program
def server_properties(tf, x):
    server = x.cluster.servers["worker", 1]
    x.note("target", without_ports(server.target))
    x.note("port", server.target == f"grpc://{x.cluster.spec['worker'][1]}")
    definition = server.server_def
    x.note("server_def", [type(definition).__name__, definition.job_name, definition.task_index,
                          definition.protocol])
    x.note("cluster", tf.train.ClusterSpec(definition.cluster) == tf.train.ClusterSpec(
        x.cluster.spec))
    x.note("class", type(server).__name__)


@program
def server_forms(tf, x):
    """Everything that says what a cluster is."""
    def said(*args, **kwargs):
        server = tf.train.Server(*args, **kwargs)
        d = server.server_def
        return [d.job_name, d.task_index, d.protocol, sorted(j.name for j in d.cluster.job),
                server.target.split(":")[0]]

    x.note("dict", said(spec_of(only=1)))
    x.note("spec", said(tf.train.ClusterSpec(spec_of(only=1))))
    x.note("cluster_def", said(tf.train.ClusterSpec(spec_of(only=1)).as_cluster_def()))
    x.note("two tasks, one job", said(spec_of(only=2), task_index=1))
    x.note("job and task", said(spec_of(a=1, b=2), "b", 1))
    x.note("all positional", said(spec_of(a=1, b=2), "a", 0, "grpc", None, False))
    definition = tf.train.ServerDef(
        cluster=tf.train.ClusterSpec(spec_of(a=1, b=2)).as_cluster_def(), job_name="b",
        task_index=1, protocol="grpc")
    x.note("server_def", said(definition))
    definition = tf.train.ServerDef(
        cluster=tf.train.ClusterSpec(spec_of(a=1, b=2)).as_cluster_def(), protocol="grpc")
    x.note("server_def and arguments", said(definition, job_name="b", task_index=0))
    port, = free_ports(1)
    x.note("sparse", said({"w": {3: f"127.0.0.1:{port}"}}, job_name="w", task_index=3))


@program
def server_arguments_refused(tf, x):
    x.error("two jobs, none named", lambda: tf.train.Server(spec_of(a=1, b=1)), "job name")
    x.error("two tasks, none named", lambda: tf.train.Server(spec_of(a=2)))
    x.error("no such job", lambda: tf.train.Server(spec_of(a=1), job_name="b", task_index=0))
    x.error("no such task", lambda: tf.train.Server(spec_of(a=1), job_name="a", task_index=1))
    x.error("protocol", lambda: tf.train.Server(spec_of(a=1), protocol="carrier-pigeon"),
            "carrier-pigeon")
    x.error("type", lambda: tf.train.Server(7))
    x.error("list", lambda: tf.train.Server(["127.0.0.1:1"]))
    x.error("config", lambda: tf.train.Server(spec_of(a=1), config=3))
    x.error("address without port", lambda: tf.train.Server({"a": ["127.0.0.1"]}))
    x.error("port of letters", lambda: tf.train.Server({"a": ["127.0.0.1:http"]}))
    x.error("task of letters", lambda: tf.train.Server(spec_of(a=1), task_index="0"))


@program
def server_port_taken(tf, x):
    spec = spec_of(a=1)
    keep = tf.train.Server(spec)
    x.error("taken", lambda: tf.train.Server(spec))
    del keep


@program
def server_local(tf, x):
    """create_local_server takes any port."""
    one, two = tf.train.Server.create_local_server(), tf.train.Server.create_local_server()
    x.note("scheme and host", one.target.rpartition(":")[0])
    x.note("two ports", one.target != two.target)
    x.note("port is known", one.target.rpartition(":")[2] != "0")
    x.note("definition", [one.server_def.job_name, one.server_def.task_index,
                          one.server_def.protocol])
    sess = x.session(target=one.target)
    x.note("devices", sorted(d.name for d in sess.list_devices() if d.device_type == "CPU"))
    x.note("run", sess.run(tf.constant(2) + 3))
    config = tf.ConfigProto(device_count={"CPU": 2})
    three = tf.train.Server.create_local_server(config=config)
    sess = x.session(target=three.target)
    x.note("two CPUs", sorted(d.name for d in sess.list_devices() if d.device_type == "CPU"))
    late = tf.train.Server.create_local_server(start=False)
    x.note("start", late.start())
    x.note("start again", late.start())
    sess = x.session(target=late.target)
    x.note("runs after start", sess.run(tf.constant(2) + 3))


@program
def server_port_zero(tf, x):
    server = tf.train.Server({"a": ["127.0.0.1:0"]})
    x.note("port", server.target.rpartition(":")[2] != "0")
    x.note("host", server.target.rpartition(":")[0])
    x.note("server_def keeps 0", without_ports(server.server_def.cluster.job[0].tasks[0]))
    sess = x.session(target=server.target)
    x.note("run", sess.run(tf.constant("here")))


@program
def server_of_localhost(tf, x):
    port, = free_ports(1)
    server = tf.train.Server({"a": [f"localhost:{port}"]})
    x.note("target", without_ports(server.target))
    x.note("run", x.session(target=server.target).run(tf.constant(1)))
    x.note("by address", x.session(target=f"grpc://127.0.0.1:{port}").run(tf.constant(1)))


@program
def server_config(tf, x):
    """The server's config is where its sessions begin."""
    server = tf.train.Server(spec_of(a=1), config=tf.ConfigProto(device_count={"CPU": 3}))
    x.note("device_count in server_def",
           dict(server.server_def.default_session_config.device_count))
    x.note("devices", len([d for d in x.session(target=server.target).list_devices()
                           if d.device_type == "CPU"]))


@program
def cluster_spec(tf, x):
    """What is said of a cluster that servers use."""
    spec = tf.train.ClusterSpec({"ps": ["a:1", "b:2"], "worker": {1: "c:3", 3: "d:4"}})
    x.note("jobs", sorted(spec.jobs))
    x.note("as_dict", spec.as_dict())
    x.note("num_tasks", [spec.num_tasks("ps"), spec.num_tasks("worker")])
    x.note("task_indices", [spec.task_indices("ps"), spec.task_indices("worker")])
    x.note("job_tasks", [spec.job_tasks("ps"), spec.job_tasks("worker")])
    x.note("task_address", spec.task_address("worker", 3))
    x.error("no job", lambda: spec.num_tasks("chief"), "chief")
    x.error("no task", lambda: spec.task_address("worker", 2))
