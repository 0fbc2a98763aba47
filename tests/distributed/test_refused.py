"""What a task cannot run, and what cannot travel, is refused when a step is first compiled."""
import pathlib
import subprocess

import pytest

import plugins_of_fuzz
import processes
import pyflow as tf
from pyflow import plugins
from pyflow.distributed.run import cluster_compiler
from pyflow.passes import node as nodes

A, B = "/job:a/replica:0/task:0", "/job:b/replica:0/task:0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the plugin, and its version 2, whose op Note has one more attribute."""
    found = tmp_path_factory.mktemp("plugins")
    plugins_of_fuzz.build(found, "libfuzz_kernels.so")
    source = pathlib.Path(plugins_of_fuzz.__file__).with_name("kernels.c").read_text()
    source = source.replace('.version = "1"', '.version = "2"')
    source = source.replace('"id: int = 0, "', '"id: int = 0, tag: string, "')
    (found / "two.c").write_text(source)
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC",
                    "-fvisibility=hidden", "-I", str(plugins_of_fuzz.ROOT / "include"),
                    str(found / "two.c"), "-o", str(found / "libtwo.so"), "-pthread", "-lm"],
                   check=True)
    return found


@pytest.fixture(scope="module")
def op(folder):
    return plugins_of_fuzz.load_kernels(folder)


def cluster(setup=""):
    return processes.Cluster({"a": 1, "b": 1}, ("a", 0), setup=setup)


@pytest.fixture(scope="module")
def without(op):
    with cluster() as found:
        yield found


def refused(target, make, error=tf.errors.InvalidArgumentError):
    """What is said when a step with make() is run."""
    with tf.Graph().as_default() as graph:
        fetch = make()
    with pytest.raises(error) as failed, tf.Session(target, graph=graph) as session:
        session.run(fetch)
    return str(failed.value)


def test_a_kernel_that_a_task_lacks(without, op):
    def make():
        with tf.device(B):
            return op("Later")(tf.constant(1.0))
    said = refused(without.server.target, make)
    for part in ("fuzz.Later", "pyflow.test.fuzz", f"on {A}", f"none on {B}", "test_refused.py"):
        assert part in said, said


def test_a_master_that_does_not_know_an_op(without, op):
    def make():
        with tf.device(A):
            return op("Later")(tf.constant(1.0))
    said = refused(without.target("b", 0), make, tf.errors.NotFoundError)
    assert "fuzz.Later" in said and B in said and "plugin" in said


def test_another_version_of_a_plugin(folder, op):
    def make():
        with tf.device(B):
            return op("Note")(tf.constant(1.0), id=1)
    with cluster(f"tf.load_op_library({str(folder / 'libtwo.so')!r})") as found:
        said = refused(found.server.target, make, tf.errors.OpError)
    for part in ("fuzz.Note", "'pyflow.test.fuzz' is 2 at " + B, "1 at " + A, "tag"):
        assert part in said, said


def test_kernels_are_listed_when_plugins_come(monkeypatch):
    """Not at each question what a task has, of which every new session asks one."""
    with tf.train.Server({"w": ["localhost:0"]}) as server:
        found, listed = server._worker, []
        inner = found.kernel_rows

        def kernel_rows():
            listed.append(1)
            return [*inner(), ("New", "CPU", "")] if len(listed) > 1 else inner()
        monkeypatch.setattr(found, "kernel_rows", kernel_rows)
        first = found.status().kernels_digest
        assert found.status().kernels_digest == found.kernels_digest() == first and len(listed) == 1
        assert found.kernel_table() is found.kernel_table()
        monkeypatch.setattr(plugins, "load_all", lambda: [*plugins._loaded, plugins._loaded[-1]])
        assert found.status().kernels_digest != first and len(listed) == 2


def test_python_functions_run_in_the_clients_process_only(without):
    def make():
        with tf.device(B):
            return tf.py_func(lambda: 1.0, [], tf.float32, name="python")
    said = refused(without.server.target, make)
    assert "'python'" in said and B in said and "client's" in said


def test_python_functions_on_servers_of_one_process():
    (one, two), _ = tf.test.create_local_cluster(2, 0)
    try:
        with tf.Graph().as_default() as graph, tf.device("/job:worker/task:1"):
            y = tf.py_func(lambda: 1.0, [], tf.float64)
        with tf.Session(one.target, graph=graph) as session:
            assert session.run(y) == 1
    finally:
        one.stop()
        two.stop()


def queue_elsewhere():
    """A handle made on one task and read on another, whatever colocation says."""
    with tf.device(A):
        queue = tf.FIFOQueue(1, tf.float32, name="queue")
    with tf.device(B):
        size = queue.size(name="size")
    for node in (queue.queue_ref.op, size.op):
        node.attrs.pop("_class", None)
    return size


@pytest.mark.parametrize("apart", [False, True], ids=["process", "processes"])
def test_handles_do_not_travel(apart):
    source = nodes.Node("queue", "FIFOQueueV2", device=f"{A}/device:CPU:0", types=(tf.resource,))
    reader = nodes.Node("size", "QueueSizeV2", [(source, 0)], device=f"{B}/device:CPU:0",
                        types=(tf.int32,))
    graph = nodes.Graph([source, reader], [], [reader])
    with pytest.raises(tf.errors.InvalidArgumentError) as failed:
        cluster_compiler.check_edges(graph, {A: apart, B: apart})
    for part in ("'queue'", "FIFOQueueV2", A, "resource", "'size'", "QueueSizeV2", B):
        assert part in str(failed.value)


def test_a_handle_and_its_readers_stay_together(without):
    """Where the user asks for something else, the placer says so, or puts them on one task."""
    with tf.Graph().as_default() as graph:
        size = queue_elsewhere()
    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Session(without.server.target, graph=graph, config=config) as session:
        try:
            assert session.run(size) == 0
        except tf.errors.InvalidArgumentError as error:
            assert "queue" in str(error) and "size" in str(error)
