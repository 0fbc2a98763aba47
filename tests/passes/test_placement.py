"""Placement: who may go where, TensorFlow's default rule, colocation, conflicts, reasons."""
import re
import time

import pytest

import pyflow as tf
from pyflow.passes import node, place, place_devices, place_kernels, printer

CPU, NPU, NPU1 = (f"/job:localhost/replica:0/task:0/device:{d}" for d in ("CPU:0", "NPU:0",
                                                                         "NPU:1"))
FLOAT_OPS = ("MatMul Add AddV2 AddN Mul Sub Tanh TanhGrad Assign AssignAdd Fill"
             " RandomUniform").split()


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def devices(**more):
    """CPU:0, NPU:0 and NPU:1; the NPU has FLOAT_OPS for float, Reshape and Shape for any type, and
    `more`: {op: where}."""
    from pyflow.session import runtime
    kernels = [k for k in runtime.start().kernels() if k["device"] in ("CPU", "*")]
    for op in FLOAT_OPS:
        kernels.append({"op": op, "device": "NPU",
                        "where": "dtype=float" if op == "RandomUniform" else "T=float"})
    kernels += [{"op": op, "device": "NPU", "where": ""} for op in ("Reshape", "Shape")]
    kernels += [{"op": op, "device": "NPU", "where": where} for op, where in more.items()]
    return place.Devices.of_process({}, [("NPU", 0), ("NPU", 1)],
                                    place_kernels.KernelTable(kernels), {"NPU": 3})


def placed(fetches, targets=(), feeds=(), soft=False, there=None, **options):
    """{node name: device}."""
    g = node.prune(list(fetches), list(targets), list(feeds))
    place.place(g, there or devices(), soft, **options)
    return {n.name: n.device for n in g.nodes}


def fails(*args, **options):
    with pytest.raises(tf.errors.InvalidArgumentError) as e:
        placed(*args, **options)
    return e.value.message


# ---------------------------------------------------------------- the default rule

def test_the_highest_priority_with_a_kernel():
    x = tf.placeholder(tf.float32, [8, 8], name="x")
    y = tf.tanh(tf.matmul(x, x, name="m"), name="t")
    z = tf.exp(y, name="e")
    got = placed([z], feeds=[x])
    assert got["m"] == got["t"] == NPU and got["e"] == CPU, "no kernel for Exp there"
    assert got["_arg_x_0_0"] == got["_retval_e_0_0"] == CPU


def test_kernels_count_by_element_type():
    for dtype, where in ((tf.float32, NPU), (tf.float64, CPU)):
        x = tf.placeholder(dtype, [8], name=f"x_{dtype.name}")
        y = tf.tanh(x, name=f"t_{dtype.name}")
        assert placed([y], feeds=[x])[y.op.name] == where


def test_sources_go_to_their_readers():
    x = tf.placeholder(tf.float32, [8])
    near_npu, near_cpu = tf.constant(1.0, name="near_npu"), tf.constant(2.0, name="near_cpu")
    both = tf.constant(3.0, name="both")
    a, b = tf.tanh(x + near_npu) + both, tf.exp(near_cpu) + tf.exp(both)
    got = placed([a, b], feeds=[x])
    assert (got["near_npu"], got["near_cpu"], got["both"]) == (NPU, CPU, NPU)


def test_routing_follows_its_input_and_shapes_stay_on_the_cpu():
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.tanh(x, name="y")
    size = tf.shape(y, name="size")
    rows = size[0] * 2
    flat = tf.reshape(y, tf.stack([rows, 2]), name="flat")
    text = tf.identity(tf.constant(["a"]), name="text")
    same = tf.identity(tf.exp(y), name="same")
    got = placed([tf.identity(flat, name="copy"), text, same], feeds=[x])
    assert got["y"] == got["size"] == got["flat"] == got["copy"] == NPU
    assert got["same"] == CPU
    assert got[rows.op.name] == CPU, "a few integers are no work"


def test_a_training_step_is_on_the_accelerator_as_a_whole():
    there = devices(ApplyGradientDescent="T=float", Square="T=float", Sum="T=float", Tile="T=float",
                    BroadcastGradientArgs="", Pow="T=float", Prod="")
    x = tf.placeholder(tf.float32, [4, 8])
    w = tf.Variable(tf.random_uniform([8, 8]), name="w")
    loss = tf.reduce_sum(tf.tanh(tf.matmul(x, w)))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    got = placed([loss], [step], [x], there=there)
    heavy = {got[n] for n in got if re.search("MatMul|Tanh|Apply|^w$|Sum$", n)}
    assert heavy == {NPU}


def test_loops_run_where_their_values_are():
    x = tf.placeholder(tf.float32, [8, 8])
    i, y = tf.while_loop(lambda i, y: i < 10, lambda i, y: (i + 1, tf.tanh(y)), [0, tf.tanh(x)])
    got = placed([y], feeds=[x])
    of_counter = {d for n, d in got.items() if re.search(r"while/(Less|Merge|Switch|LoopCond)$", n)}
    of_value = {d for n, d in got.items() if re.search(r"while/(Merge_1|Switch_1|Tanh|Exit_1)$", n)}
    assert of_counter == {CPU} and of_value == {NPU}


def test_python_functions_are_on_the_host():
    x = tf.placeholder(tf.float32, [8])
    y = tf.py_func(lambda a: a, [tf.tanh(x)], tf.float32, name="py")
    assert placed([y], feeds=[x])["py"] == CPU


# ---------------------------------------------------------------- requests

@pytest.mark.parametrize("request_,device", [
    ("/device:NPU:1", NPU1), ("/device:NPU:*", NPU), ("/cpu:0", CPU), ("/job:localhost", NPU),
    ("/replica:0/task:0", NPU), ("/job:local/cpu:0", CPU), ("/cpu", CPU)])
def test_partial_requests(request_, device):
    x = tf.placeholder(tf.float32, [])
    with tf.device(request_):
        y = tf.tanh(x, name="y")
    assert placed([y], feeds=[x])["y"] == device


def test_an_unknown_device_names_line_and_devices():
    with tf.device("/device:NPU:7"):
        y = tf.constant(1.0, name="y")
    text = fails([y])
    assert "test_placement.py:" in text and "NPU:7" in text and NPU1 in text
    assert "allow_soft_placement" in text
    assert placed([y], soft=True)["y"] == NPU, "the nearest there is: its type"
    with tf.device("/job:ps"):
        z = tf.constant(1.0)
    assert "grpc://" in fails([z])


def test_a_device_without_the_kernel_is_refused_with_those_there_are():
    x = tf.placeholder(tf.float64, [2])
    with tf.device("/device:NPU:0"):
        y = tf.tanh(x, name="y")
    text = fails([y], feeds=[x])
    assert "no supported kernel for op Tanh/float64" in text and "NPU: T=float" in text
    assert "test_placement.py:" in text
    assert placed([y], feeds=[x], soft=True)["y"] == CPU


def test_devices_that_cannot_be_opened_are_left_out():
    asked = []

    def opener(device):
        asked.append(device.name)
        return "no driver" if device.name == NPU else None
    broken = place.Devices(devices().all, devices().kernels, opener)
    x = tf.placeholder(tf.float32, [])
    y = tf.tanh(x, name="y")
    with tf.device("/device:NPU:0"):
        z = tf.tanh(x, name="z")
    got = placed([y, y + 1], feeds=[x], there=broken)
    assert got["y"] == NPU1 and asked == [NPU, NPU1], "each once, when it is needed"
    assert placed([z], feeds=[x], there=broken, soft=True)["z"] == NPU1
    text = fails([z], feeds=[x], there=broken)
    assert "NPU:0 is there, but cannot be used: no driver" in text and len(asked) == 2


# ---------------------------------------------------------------- colocation

def test_groups_get_what_all_of_them_can_use():
    x = tf.placeholder(tf.float32, [2])
    y = tf.tanh(x, name="y")
    with tf.colocate_with(y):
        z = tf.exp(x, name="z")
    with tf.colocate_with(z):
        w = tf.tanh(x, name="w")
    got = placed([y, z, w], feeds=[x])
    assert got["y"] == got["z"] == got["w"] == CPU
    assert placed([y], feeds=[x])["y"] == NPU, "those that are not run do not count"


def test_colocation_survives_pruning_of_the_named_node():
    x = tf.placeholder(tf.float32, [2])
    anchor = tf.tanh(x, name="anchor")
    with tf.colocate_with(anchor):
        a, b = tf.tanh(x, name="a"), tf.exp(x, name="b")
    got = placed([a, b], feeds=[x])
    assert got["a"] == got["b"] == CPU and "anchor" not in got


def test_a_conflict_of_requests_names_both_nodes_and_lines():
    with tf.device("/device:NPU:1"):
        v = tf.Variable([1.0], name="v", use_resource=True)
    with tf.device("/cpu:0"):                       # one variable, two holders, two requests
        bad = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[1], shared_name="v", name="bad")
    text = fails([v.handle, bad])
    lines = re.findall(r"test_placement.py:(\d+)", text)
    assert len(set(lines)) == 2 and "'bad'" in text and "'v'" in text, text
    assert "share state" in text and "NPU:1" in text and "CPU:0" in text
    assert placed([v.handle, bad], soft=True)["bad"] == NPU1, "the first request wins"


def test_users_of_a_variable_go_where_it_asked_to_be():
    """TensorFlow: "Ignoring device specification ... because the input edge is a reference"."""
    with tf.device("/device:NPU:1"):
        v = tf.Variable([1.0], name="v")
    for asked in ("/cpu:0", "/cpu:7"):              # there is no such one: it is not looked at
        assign = tf.assign(v, [2.0]).op
        assign.attrs.pop("_class", None)            # without it, a request against the variable's
        assign._set_device(asked)
        assert placed([], [assign])[assign.name] == NPU1


def test_a_conflict_of_kernels_names_both_nodes_and_lines():
    there = place_devices.Devices(devices(**{"MatrixInverse": "T=float"}).all, place_kernels.KernelTable([
        {"op": "MatrixInverse", "device": "NPU"}, {"op": "Exp", "device": "CPU"}]))
    x = tf.placeholder(tf.float32, [2, 2])
    a = tf.matrix_inverse(x, name="a")
    with tf.colocate_with(a):
        b = tf.exp(x, name="b")
    text = fails([a, b], feeds=[x], there=there)
    assert len(set(re.findall(r"test_placement.py:(\d+)", text))) == 2, text
    assert "'a' has kernels for NPU only" in text and "'b' has kernels for CPU only" in text
    assert "are colocated" in text
    fails([a, b], feeds=[x], there=there, soft=True)


def test_variables_are_where_all_their_users_can_be():
    """The initialiser's plan alone would put it on the NPU; the update has no kernel there."""
    v = tf.Variable(tf.ones([4]), name="v")
    there, pins = devices(), place.Pins(devices())
    update = tf.assign_sub(v, tf.ones([4]), name="sub")
    pins.refresh(tf.get_default_graph(), False)
    assert placed([], [v.initializer], there=there, pins=pins.at)["v"] == CPU
    assert placed([update], there=there, pins=pins.at)["v"] == CPU
    assert placed([], [v.initializer], there=there)["v"] == NPU
    r = tf.Variable(tf.ones([4]), name="r")
    pins.refresh(tf.get_default_graph(), False)
    assert placed([], [r.initializer], there=there, pins=pins.at)["r"] == NPU
    tf.assign_sub(r, tf.ones([4]), name="late")
    pins.refresh(tf.get_default_graph(), False)
    assert pins.at == {"v": 0, "r": 1}, "what was placed stays"


def test_resources_hold_their_users():
    with tf.device("/device:NPU:1"):
        v = tf.get_variable("v", [2], use_resource=True)
    there = devices(AssignVariableOp="", AssignAddVariableOp="")
    got = placed([v.read_value()], [v.initializer, v.assign_add([1.0, 1.0]).op], there=there)
    assert {d for n, d in got.items() if re.search("^v$|Assign", n)} == {NPU1}


# ---------------------------------------------------------------- what it says

def test_log():
    lines = []
    placed([tf.constant(1.0, name="one")], log=lines.append)
    assert lines == [f"one: (Const): {CPU}", f"_retval_one_0_0: (_Retval): {CPU}"]


def explained(fetches, targets=(), feeds=(), **options):
    g = node.prune(list(fetches), list(targets), list(feeds))
    place.place(g, devices(), explain=True, **options)
    return {n.name: n.why for n in g.nodes}, printer.text(g)


def test_reasons():
    x = tf.placeholder(tf.float64, [2], name="x")
    with tf.device("/device:NPU:1"):
        v = tf.Variable([1.0], name="v")
    a = tf.tanh(x, name="a")
    b = tf.tanh(tf.cast(x, tf.float32), name="b")
    with tf.colocate_with(b):
        c = tf.tanh(b, name="c")
    add = tf.assign_add(v, [1.0], name="add")
    why, text = explained([a, c, add, tf.identity(a, name="copy")], [], [x])
    assert why["v"] == "asked for /device:NPU:1"
    assert why["add"] == "asked for /device:NPU:1"          # with its variable, as in TensorFlow
    assert re.fullmatch(r"colocated with b \(.*test_placement.py:\d+.*\)", why["c"])
    assert why["a"] == "no NPU kernel for op Tanh/float64: CPU"
    assert why["copy"] == "follows its input a"
    assert why["_arg_x_0_0"] == "feeds and fetches are on the host"
    assert "%a = Tanh(%_arg_x_0_0) : double[2] @ /device:CPU:0 (no NPU kernel for op" in text


def test_reasons_of_soft_placement():
    x = tf.placeholder(tf.float64, [2])
    with tf.device("/device:NPU:0"):
        y = tf.tanh(x, name="y")
    why, _ = explained([y], feeds=[x], soft=True)
    assert why["y"].startswith("asked for /device:NPU:0, which is not possible: soft placement; no")


# ---------------------------------------------------------------- time

@pytest.mark.alone
def test_time_is_linear_and_short():
    def took(n, there):
        with tf.Graph().as_default():
            x = y = tf.placeholder(tf.float32, [4])
            for k in range(n):
                y = tf.tanh(y + x) if k % 2 else tf.reshape(y, [4])
            best = 1e9
            for _ in range(3):
                g = node.prune([y], [], [x])
                start = time.process_time()
                place.place(g, there)
                best = min(best, time.process_time() - start)
        return best
    many = devices()
    took(50, many)
    small, large = took(800, many), took(6400, many)
    assert large < 24 * small + 0.01
    assert took(6400, place_devices.Devices([CPU])) < large / 4, "one device: hardly any work"


def test_one_task_stands_for_another():
    """A session's renames: what a graph asks for is on the task that is meant, whatever the form."""
    ps = [f"/job:ps/replica:0/task:{k}/device:CPU:0" for k in range(2)]
    devices = place.Devices(["/job:worker/replica:0/task:0/device:CPU:0", *ps],
                            renames={("ps", 0): ("ps", 1), ("ps", 5): ("ps", 0)})
    for asked in ("/job:ps/task:0", "/job:ps/replica:0/task:0/device:CPU:0", "/job:ps/task:1/cpu:0"):
        assert devices.resolve(asked) == ps[1]
    assert devices.resolve("/job:ps/task:5") == ps[0]
    assert devices.task_mask("/job:ps/task:5/device:GPU:7") == devices.mask("/job:ps/task:5")
    assert devices.resolve("/job:ps/task:7") is None
    assert devices.resolve("/job:ps") == ps[0], "a job alone is its first task"
