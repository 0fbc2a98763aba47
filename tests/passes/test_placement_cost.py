"""Placement by a cost model: against all placements of small random graphs, and its parts."""
import random
import statistics
import time

import numpy as np
import pytest
from placement_simulator import Machine

import pyflow as tf
from pyflow.framework import protos
from pyflow.framework.tensor_shape import TensorShape
from pyflow.passes import (node, place, place_cost, place_devices, place_kernels, place_loops,
                           place_search)

KINDS = ("CPU", "NPU", "DSP")


def random_case(rng, nodes, kinds, tight=False):
    """(pass graph, Devices, costs by node name, Machine, allowed, groups of indices)."""
    speeds = [place_devices.Speed(rng.uniform(1e9, 2e10), 1e10, rng.choice((1e8, 1e9, 1e10)),
                                  rng.choice((1e-6, 1e-4)), 0) for _ in kinds]
    speeds[0] = place_devices.HOST
    size = [4 * rng.choice((1, 1000, 100_000)) for _ in range(nodes)]
    seconds = [[rng.uniform(1e-5, 2e-3) * rng.choice((0.2, 1, 1, 5)) for _ in kinds]
               for _ in range(nodes)]
    made, sources, allowed, labels = [], [], [], {}
    kernels = [{"op": f"W{k}", "device": kind} for k in range(4) for kind in kinds
               if kind == "CPU" or rng.random() < 0.8]
    there = {k: [d for d, kind in enumerate(kinds) if {"op": f"W{k}", "device": kind} in kernels]
             for k in range(4)}
    for i in range(nodes):
        inputs = rng.sample(range(i), min(i, rng.choice((0, 1, 1, 2, 3))))
        work = rng.randrange(4)
        made.append(node.Node(f"n{i}", f"W{work}", [(made[k], 0) for k in inputs],
                              types=(tf.float32,), shapes=[TensorShape([size[i] // 4])]))
        sources.append(inputs)
        allowed.append(list(there[work]))
        if rng.random() < 0.15:
            d = rng.choice(there[work])
            made[i].device, allowed[i] = f"/device:{kinds[d]}:0", [d]
        elif i and rng.random() < 0.2:
            other = rng.randrange(i)
            label = labels.get(other, other)
            group = [k for k in range(i) if labels.get(k, k) == label] + [i]
            if set.intersection(*(set(allowed[k]) for k in group)):
                labels[i] = labels[other] = label
                made[i].attrs["_class"] = [f"loc:@n{other}".encode()]
    if tight:
        for speed in speeds[1:]:
            speed.memory = rng.choice((0, 400_000, 900_000))
    latency = [[0 if a == b else x.latency + y.latency for b, y in enumerate(speeds)]
               for a, x in enumerate(speeds)]
    pace = [[0 if a == b else 1 / x.link + 1 / y.link for b, y in enumerate(speeds)]
            for a, x in enumerate(speeds)]
    machine = Machine(seconds, [(p, r) for r, ps in enumerate(sources) for p in ps], latency, pace,
                      size, [s.memory for s in speeds])
    devices = place_devices.Devices(
        [place_devices.Device(f"{place.LOCAL}/device:{kind}:0", k, speeds[k])
         for k, kind in enumerate(kinds)], place_kernels.KernelTable(kernels))
    costs = {f"n{i}": dict(zip(kinds, seconds[i])) for i in range(nodes)}
    together = {}
    for i, label in labels.items():
        together.setdefault(label, []).append(i)
    return node.Graph(made), devices, costs, machine, allowed, list(together.values())


def placed(case):
    """The devices, by index, that the cost model chooses."""
    graph, devices, costs, *_ = case
    place.place(graph, devices, costs=place_cost.CostModel(measured=costs))
    return [devices.names.index(n.device) for n in graph.nodes]


def check_constraints(at, allowed, together, machine):
    assert all(d in mine for d, mine in zip(at, allowed)), "a request or a missing kernel"
    assert all(len({at[i] for i in group}) == 1 for group in together), "colocation"
    assert machine.fits(at), "memory"


@pytest.mark.parametrize("kinds,sizes,cases", [(KINDS[:2], (4, 10), 24), (KINDS, (4, 8), 12)])
def test_close_to_the_best_of_all_placements(kinds, sizes, cases):
    ratios = []
    for seed in range(cases):
        rng = random.Random(seed)
        case = random_case(rng, rng.randint(*sizes), kinds)
        machine, allowed, together = case[3:]
        at = placed(case)
        check_constraints(at, allowed, together, machine)
        ratios.append(machine.makespan(at) / machine.optimum(allowed, together))
    assert statistics.median(ratios) <= 1.1 and max(ratios) <= 1.5, sorted(ratios)[-5:]
    assert min(ratios) > 0.999999, "nothing beats the optimum: the simulators agree"


def test_local_search_is_close_where_it_cannot_try_everything(monkeypatch):
    monkeypatch.setattr(place_search, "EXACT", 1)
    ratios = []
    for seed in range(100, 120):
        case = random_case(random.Random(seed), 8, KINDS[:2])
        machine, allowed, together = case[3:]
        ratios.append(machine.makespan(placed(case)) / machine.optimum(allowed, together))
    assert statistics.median(ratios) <= 1.02 and max(ratios) <= 1.2, sorted(ratios)[-5:]


@pytest.mark.parametrize("seed", range(20))
def test_memory_limits_hold_or_an_error_says_so(seed):
    case = random_case(random.Random(1000 + seed), 7, KINDS[:2], tight=True)
    machine, allowed, together = case[3:]
    try:
        at = placed(case)
    except tf.errors.ResourceExhaustedError as e:
        assert machine.optimum(allowed, together) is None, "something would have fitted"
        assert "bytes more" in e.message and "NPU:0" in e.message
        return
    check_constraints(at, allowed, together, machine)
    assert machine.makespan(at) <= 1.2 * machine.optimum(allowed, together)


@pytest.mark.alone
def test_large_graphs_keep_the_constraints_and_near_linear_time():
    took = {}
    for nodes in (1000, 4000):
        rng = random.Random(7)
        case = random_case(rng, nodes, KINDS)
        start = time.process_time()
        at = placed(case)
        took[nodes] = time.process_time() - start
        allowed, together = case[4:]
        assert all(d in mine for d, mine in zip(at, allowed))
        assert all(len({at[i] for i in group}) == 1 for group in together)
    assert took[4000] < 15 * took[1000]


@pytest.mark.parametrize("seed", range(40))
def test_the_default_rule_breaks_no_constraint_either(seed):
    graph, devices, _, machine, allowed, together = random_case(
        random.Random(3000 + seed), 30, KINDS)
    place.place(graph, devices)
    at = [devices.names.index(n.device) for n in graph.nodes]
    check_constraints(at, allowed, together, machine)
    lone = set(range(30)) - {i for group in together for i in group}
    assert all(at[i] == max(allowed[i]) for i in lone if graph.nodes[i].inputs), "by priority"


def test_equal_graphs_are_placed_alike():
    first, second = (placed(random_case(random.Random(5), 60, KINDS)) for _ in range(2))
    assert first == second


# ---------------------------------------------------------------- what nodes cost

def two_devices(**speed):
    fast = place_devices.Speed(**{"flops": 1e12, "bandwidth": 1e12, "link": 1e10, "latency": 1e-6,
                                  **speed})
    return place_devices.Devices(
        [f"{place.LOCAL}/device:CPU:0",
         place_devices.Device(f"{place.LOCAL}/device:NPU:0", 1, fast)],
        place_kernels.KernelTable([{"op": "MatMul", "device": d} for d in ("CPU", "NPU")]))


def chain(n, steps):
    """(pass graph, its MatMul nodes): steps products of n x n matrices."""
    with tf.Graph().as_default():
        x = y = tf.placeholder(tf.float32, [n, n])
        for _ in range(steps):
            y = tf.matmul(y, x)
        graph = node.prune([y], [], [x])
    return graph, [m for m in graph.nodes if m.op == "MatMul"]


def declared(nodes):
    from pyflow.session import plans
    return plans._declared_costs(nodes)


def test_kernels_declare_their_costs():
    graph, products = chain(100, 2)
    costs = declared(graph.nodes)
    assert costs == {m.name: (2e6, 4 * 2 * 100 * 100) for m in products}
    graph, products = chain(None, 2)
    assert set(declared(graph.nodes)) == {m.name for m in products}, "unknown sizes count as 1"


def test_bytes_that_are_no_graph_are_an_error():
    from pyflow.session import runtime
    executor = runtime.start()
    assert executor.node_costs(b"", ["CPU"]) == {}
    with pytest.raises(executor.StepError):
        executor.node_costs(b"\x0a\xff garbage", ["CPU", "NPU"])


def test_big_work_moves_small_work_stays():
    for n, steps, where in ((1000, 10, "NPU:0"), (8, 3, "CPU:0")):
        graph, products = chain(n, steps)
        place.place(graph, two_devices(latency=1e-4), costs=place_cost.CostModel(declared))
        assert {m.device[-5:] for m in products} == {where}
        assert {m.device[-5:] for m in graph.nodes if m.op in ("_Arg", "_Retval")} == {"CPU:0"}


def test_a_slow_link_keeps_work_at_home():
    for link, where in ((1e11, "NPU:0"), (1e6, "CPU:0")):
        graph, products = chain(500, 1)
        place.place(graph, two_devices(link=link), costs=place_cost.CostModel(declared))
        assert {m.device[-5:] for m in products} == {where}


def step_stats(times, device="/job:localhost/replica:0/task:0/device:CPU:0"):
    metadata = tf.RunMetadata()
    lane = metadata.step_stats.dev_stats.add(device=device)
    for name, micros in times.items():
        lane.node_stats.add(node_name=name, all_start_micros=5, op_start_rel_micros=2,
                            op_end_rel_micros=2 + micros, all_end_rel_micros=4 + micros)
    return metadata


def test_measured_costs_win():
    graph, products = chain(1000, 2)
    devices = two_devices()
    slow = step_stats({m.name: 3 for m in products})
    model = place_cost.CostModel(declared, slow)
    place.place(graph, devices, costs=model, explain=True)
    assert {m.device[-5:] for m in products} == {"CPU:0"}, "3 us each are not worth a transfer"
    assert products[0].why.startswith("cost model: 3 us here, ")
    read = place_cost.read_measured(step_stats({"a": 7, "b:MatMul": 9}, "/device:GPU:0/stream:all"))
    assert read == {"a": {"GPU": pytest.approx(7e-6)}, "b": {"GPU": pytest.approx(9e-6)}}
    assert place_cost.read_measured(step_stats({"a": 7}).step_stats) == {
        "a": {"CPU": pytest.approx(7e-6)}}


def test_a_trace_of_a_run_is_measured_costs():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [64, 64])
        y = tf.matmul(tf.matmul(x, x, name="a"), x, name="b")
        feed, metadata = {x: [[1.0] * 64] * 64}, tf.RunMetadata()
        with tf.Session() as sess:
            want = sess.run(y, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
        read = place_cost.read_measured(metadata)
        assert read["a"]["CPU"] > 0 and read["b"]["CPU"] > 0
        config = tf.ConfigProto(device_count={"CPU": 2})
        with tf.Session(config=config, placement_costs=metadata) as sess:
            assert (sess.run(y, feed) == want).all()


def test_loops_and_state_are_placed():
    with tf.Graph().as_default():
        v = tf.Variable(tf.ones([50, 50]))
        w = tf.get_variable("w", [50, 50], use_resource=True)
        y = tf.while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, tf.matmul(t, w)),
                          [0, v.read_value()])[1]
        update = tf.assign_add(v, y)
        graph = node.prune([update], [], [])
    place.place(graph, two_devices(), costs=place_cost.CostModel(declared))
    by_op = {n.op: n.device for n in graph.nodes}
    assert by_op["VariableV2"] == by_op["AssignAdd"]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("padding,rows", [("SAME", 4), ("VALID", 3)])
def test_convolutions_declare_their_multiply_adds(layout, padding, rows):
    first = layout == "NCHW"
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3, 8, 8] if first else [2, 8, 8, 3])
        f = tf.placeholder(tf.float32, [3, 3, 3, 16])
        y = tf.nn.conv2d(x, f, [1, 1, 2, 2] if first else [1, 2, 2, 1], padding, data_format=layout)
        graph = node.prune([y, *tf.gradients(y, [x, f])], [], [x, f])
    costs, names = declared(graph.nodes), {n.name: n.op for n in graph.nodes}
    moved = 4 * (2 * 8 * 8 * 3 + 3 * 3 * 3 * 16 + 2 * rows * rows * 16)
    assert {names[name]: cost for name, cost in costs.items()} == dict.fromkeys(
        ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"),
        (2 * (2 * rows * rows) * 16 * (3 * 3 * 3), moved))


def test_depthwise_and_dilated_convolutions_too():
    with tf.Graph().as_default():
        x, f = tf.placeholder(tf.float64, [2, 9, 9, 3]), tf.placeholder(tf.float64, [3, 3, 3, 2])
        d = tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "SAME")
        g = tf.placeholder(tf.float64, [3, 3, 3, 16])
        y = tf.nn.conv2d(x, g, [1, 1, 1, 1], "VALID", dilations=[1, 2, 2, 1])
        graph = node.prune([y, d, *tf.gradients(d, [x, f])], [], [x, f, g])
    costs, names = declared(graph.nodes), {n.name: n.op for n in graph.nodes}
    flops = {names[name]: cost[0] for name, cost in costs.items()}
    assert flops.pop("Conv2D") == 2 * (2 * 5 * 5) * 16 * (3 * 3 * 3)
    assert set(flops) == {"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                          "DepthwiseConv2dNativeBackpropFilter"}
    assert set(flops.values()) == {2 * (2 * 9 * 9) * (3 * 3 * 3 * 2)}


# ---------------------------------------------------------------- loops and peers

def nested_loops():
    """(pass graph in construction order, {name: executions}): 3 iterations around 4."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 4])

        def inner(t):
            return tf.while_loop(lambda j, u: j < 4,
                                 lambda j, u: (j + 1, tf.matmul(u, x, name="in")), [0, t])[1]
        y = tf.while_loop(lambda i, t: i < 3,
                          lambda i, t: (i + 1, tf.add(inner(t), x, name="out")), [0, x])[1]
        z = tf.square(y, name="after")
        return node.prune([z], [], [x]), z, x


def test_nodes_of_loops_count_their_iterations():
    graph, z, x = nested_loops()
    index = {n: i for i, n in enumerate(graph.nodes)}
    ordered = [graph.nodes[i] for i in place_cost._order(graph.nodes, index)]

    def runs(counts=None):
        return {n.name.rsplit("/", 1)[-1]: k for n, k in place_loops.times(ordered, counts).items()
                if n.op in ("MatMul", "Add", "AddV2", "Square")
                and n.name.rsplit("/", 1)[-1] in ("in", "out", "after")}
    assert runs() == {"in": place_loops.TRIPS ** 2, "out": place_loops.TRIPS, "after": 1}
    by_name = {n.name.rsplit("/", 1)[-1]: n.name for n in ordered}
    assert runs({by_name["out"]: 3}) == {"in": 3 * place_loops.TRIPS, "out": 3, "after": 1}
    enters = {k for n, k in place_loops.times(ordered).items() if n.op == "Enter"}
    assert enters == {1, place_loops.TRIPS}, "Enter runs with the frame around it"
    metadata = tf.RunMetadata()
    with tf.Session(graph=z.graph) as sess:
        sess.run(z, {x: np.eye(4)}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    counts = place_cost.read_counts(metadata)
    assert (counts[by_name["in"]], counts[by_name["out"]], counts["after"]) == (12, 3, 1)
    measured = runs(counts)
    assert measured["after"] == 1 and 3 <= measured["out"] <= 4 and 12 <= measured["in"] <= 16


def test_a_loop_is_worth_a_transfer_that_one_product_is_not():
    def place_product(looped):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [100, 100])
            y = tf.while_loop(lambda i, t: i < 100, lambda i, t: (i + 1, tf.matmul(t, x)),
                              [0, x])[1] if looped else tf.matmul(x, x)
            graph = node.prune([y], [], [x])
        # one product: 67 us on the CPU, 2 us there; both ways 2 x 40 us and more
        place.place(graph, two_devices(link=1e9), costs=place_cost.CostModel(declared))
        return next(n.device for n in graph.nodes if n.op == "MatMul").rsplit("/", 1)[1]
    assert place_product(False) == "device:CPU:0"
    assert place_product(True) == "device:NPU:0"


def test_peers_copy_at_their_own_pace():
    speeds = [place_devices.HOST, place_devices.Speed(1e12, 1e12, 1e9, 1e-6, peer_link=1e10),
              place_devices.Speed(1e12, 1e12, 5e8, 1e-6)]
    latency, pace = place_cost._links(speeds, {(1, 2)})
    assert pace[2][1] == 1 / 1e9 + 1 / 5e8, "not told to be peers: through the host"
    assert pace[1][2] == 1 / 5e8, "at the slower one's link, which stands for its peer link"
    assert pace[0][1] == 1 / 1e9 and latency[1][2] == 2e-6


# ---------------------------------------------------------------- sessions

def test_sessions_take_it_by_argument_and_environment(monkeypatch):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        y = x * 2 + 1
        config = tf.ConfigProto(device_count={"CPU": 2})
        with tf.Session(config=config, placement="cost") as sess:
            assert sess.run(y, {x: [1.0]}) == 3
        with tf.Session(config=config, placement_costs={y.op.name: 1e-3}) as sess:
            assert sess.run(y, {x: [1.0]}) == 3
        with pytest.raises(ValueError, match="placement must be.*'fast'"):
            tf.Session(placement="fast")
        with pytest.raises(ValueError, match="without placement_costs"):
            tf.Session(placement="default", placement_costs={})
        monkeypatch.setenv("PYFLOW_PLACEMENT", "cost")
        with tf.Session(config=config) as sess:
            assert sess.run(y, {x: [1.0]}) == 3
        monkeypatch.setenv("PYFLOW_PLACEMENT", "best")
        with pytest.raises(ValueError, match="PYFLOW_PLACEMENT='best'"):
            tf.Session()


def test_a_graph_of_the_wire_has_unknown_sizes_as_one():
    graph, _ = chain(None, 1)
    message = protos.GraphDef.FromString(place_cost.bytes_for_costs(graph.nodes))
    shapes = [n.attr["_output_shapes"].list.shape[0] for n in message.node if n.op == "MatMul"]
    assert [[d.size for d in s.dim] for s in shapes] == [[1, 1]]
