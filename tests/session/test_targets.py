"""Where sessions run: the table of targets, servers of one process that share nothing, kernels and incarnations by task."""

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor
from pyflow.passes import partition_split
from pyflow.passes.node import Graph, Node
from pyflow.passes.place_devices import Device, Devices
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import targets


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def servers():
    """Two servers of this process, each a task with its target."""
    made = {}
    for k in range(2):
        task = _executor.Task(f"/job:worker/replica:0/task:{k}")
        made[f"test://server{k}"] = targets.Local(task)
    for target, place in made.items():
        targets.register(target, place)
    yield made
    for target in made:
        targets.unregister(target)


def test_servers_of_one_process_share_no_named_container(servers):
    with tf.container("shared"):
        v = tf.get_variable("v", initializer=1.0)
        grow = tf.assign_add(v, 1.0)
    first, second = servers
    with tf.Session(first) as sess:
        sess.run(v.initializer)
        assert sess.run(grow) == 2
    with tf.Session(first) as sess:
        assert sess.run(grow) == 3, "two sessions of one server share it"
    for target in (second, ""):
        with tf.Session(target) as sess:
            assert not sess.run(tf.is_variable_initialized(v))
            sess.run(v.initializer)
    tf.Session.reset(first)
    with tf.Session(first) as sess:
        assert not sess.run(tf.is_variable_initialized(v))
    with tf.Session(second) as sess:
        assert sess.run(v) == 1
    tf.Session.reset("", ["shared"])


def test_reset_closes_the_sessions_of_its_target_only(servers):
    first, second = servers
    here, there = tf.Session(first), tf.Session(second)
    tf.Session.reset(first)
    with pytest.raises(RuntimeError, match="closed"):
        here.run(tf.constant(1))
    assert there.run(tf.constant(1)) == 1
    there.close()


def test_devices_and_errors_name_the_task(servers):
    first, _ = servers
    bad = tf.gather([1.0], tf.placeholder_with_default(7, []), name="pick")
    with tf.device("/job:worker/task:0"):
        y = tf.constant(2.0) * 3.0
    with tf.Session(first) as sess:
        [device] = [d for d in sess.list_devices() if d.device_type == "CPU"]
        assert device.name == "/job:worker/replica:0/task:0/device:CPU:0"
        assert device.incarnation == servers[first].task.incarnation
        assert sess.run(y) == 6
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            sess.run(bad)
        assert str(caught.value).startswith("From /job:worker/replica:0/task:0:\n")
        assert caught.value.op.name == "pick"


def test_local_devices_have_the_incarnation_of_the_process():
    with tf.Session() as sess:
        assert {d.incarnation for d in sess.list_devices()} == {_executor.Task().incarnation}
    assert _executor.Task().incarnation > 2**32, "64 random bits, not a counter"


def test_unknown_targets_are_refused(servers):
    with pytest.raises(tf.errors.NotFoundError, match=r"target 'none://nowhere:1'. Here are .*'test://server1'.*run in"):
        tf.Session("none://nowhere:1")
    with pytest.raises(tf.errors.NotFoundError, match="No session factory registered"):
        tf.Session.reset("none://nowhere:1")
    with pytest.raises(TypeError, match="target must be a string"):
        tf.Session(3)
    with pytest.raises(ValueError, match="registered already"):
        targets.register("test://server0", targets.Local())
    assert tf.Session(b"local").sess_str == "local"


def test_a_scheme_makes_one_place_per_target():
    made = []

    def place_of(target):
        made.append(target)
        return targets.Local(_executor.Task(f"/job:{target.split('//')[1]}/replica:0/task:0"))
    if "testscheme" not in targets._schemes:
        targets.register_scheme("testscheme", place_of)
    for name in ("a", "b", "a"):
        with tf.Session(f"testscheme://{name}") as sess:
            assert sess.list_devices()[0].name.startswith(f"/job:{name}/")
    assert sorted(set(made)) == ["testscheme://a", "testscheme://b"]
    with pytest.raises(ValueError, match="testscheme://... are registered already"):
        targets.register_scheme("testscheme", place_of)


# ---------------------------------------------------------------- by task: kernels, incarnations


def table(*ops, device="CPU"):
    return KernelTable([{"op": op, "device": device, "where": ""} for op in ops])


def devices_of(*tables):
    return Devices([Device(f"/job:w/replica:0/task:{k}/device:CPU:0", kernels=t, incarnation=100 + k)
                    for k, t in enumerate(tables)])


def node(op, inputs=(), device=""):
    return Node(f"a_{op}", op, list(inputs), device=device, types=(tf.float32,))


def test_a_node_goes_to_a_task_that_has_its_kernel():
    """Workers with different plugins: only task 1 has the plugin's op, only task 0 the other's."""
    devices = devices_of(table("Relu", "acme.Old"), table("Relu", "acme.New"))
    assert devices.kernel_mask(node("Relu")) == 0b11
    assert devices.kernel_mask(node("acme.Old")) == 0b01
    assert devices.kernel_mask(node("acme.New")) == 0b10
    assert devices.kernel_mask(node("Const")) == 0b11, "what plans run themselves is anywhere"
    assert devices.kernel_mask(node("acme.Nobody")) == 0b11, "another part says what is missing"
    assert devices.kernels_text(node("acme.New")) == "CPU of /job:w/replica:0/task:1"
    assert devices.registered("acme.New") == ("none on /job:w/replica:0/task:0; "
                                              "CPU: any type on /job:w/replica:0/task:1")


def test_placement_says_which_task_lacks_a_kernel():
    from pyflow.passes import place
    devices = devices_of(table("Relu"), table("Relu", "Tanh"))
    x = Node("x", "Const", attrs={"dtype": tf.float32, "value": np.ones(1, np.float32)}, types=(tf.float32,))
    placed = Graph([x, node("Tanh", [(x, 0)])])
    place.place(placed, devices, True)
    assert placed.nodes[1].device.startswith("/job:w/replica:0/task:1/")
    strict = Graph([x, node("Tanh", [(x, 0)], "/job:w/task:0")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="task:1"):
        place.place(strict, devices, False)


def test_edges_carry_the_incarnation_of_the_sending_task():
    devices = devices_of(table("Relu"), table("Relu"))
    names = devices.names
    x = Node("x", "Const", attrs={"dtype": tf.float32, "value": np.ones(1, np.float32)}, types=(tf.float32,), device=names[1])
    parts = partition_split.split(Graph([x, node("Relu", [(x, 0)], names[0])]), "task", None, devices.incarnation)
    found = {n.attrs["send_device_incarnation"] for p in parts for n in p.graph.nodes if n.op in ("_Send", "_Recv")}
    assert found == {101}
