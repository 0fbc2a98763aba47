"""What a ConfigProto asks for: devices and their memory, pools, timeouts, logs; all of it is
accepted, and what acts acts."""
import subprocess
import sys
import os
import threading

import pytest
from quiet import clock

import pyflow as tf
from pyflow.framework import protos
from pyflow.session import devices as devices_lib
from pyflow.session import runtime


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


class Machine:
    """An executor with two GPUs and one NPU of 1000 MB each."""

    def __init__(self):
        self.limits = {}

    def Task(self):
        return runtime.start().Task()

    def devices(self):
        return [("CPU", 0, ""), ("GPU", 0, ""), ("GPU", 1, ""), ("NPU", 0, "")]

    def device_priority(self, kind):
        return {"GPU": 10}.get(kind, 5)

    def device_info(self, kind, ordinal, key):
        return {"memory": "1000000000", "flops": "2e12"}.get(key)

    def device_peers(self, kind, ordinal, other_kind, other):
        return kind == other_kind == "GPU" and ordinal < other

    def device_problem(self, kind, ordinal):
        return None

    def device_limit(self, kind, ordinal, limit):
        self.limits[kind, ordinal] = limit

    def device_stats(self, kind, ordinal):
        return {"limit": self.limits.get((kind, ordinal), 0)}

    def memory_stats(self):
        return {"cap": 0}

    def kernels(self):
        return []


def opened(machine=None, **config):
    return devices_lib.open_devices(machine or Machine(), tf.ConfigProto(**config))


def short(devices):
    return [d.name.rsplit("/device:", 1)[1] for d in devices.all]


def test_device_count():
    assert short(devices_lib.open_devices(Machine(), None)) == ["CPU:0", "GPU:0", "GPU:1", "NPU:0"]
    assert short(opened(device_count={"GPU": 0, "CPU": 2})) == ["CPU:0", "CPU:1", "NPU:0"]
    assert short(opened(device_count={"GPU": 1, "NPU": 9})) == ["CPU:0", "GPU:0", "NPU:0"]


def test_visible_devices_are_renumbered():
    devices = opened(gpu_options=tf.GPUOptions(visible_device_list="1"))
    assert short(devices) == ["CPU:0", "GPU:0", "NPU:0"]
    gpu = devices.all[1]
    assert gpu.core_name.endswith("/device:GPU:1") and devices.renamed == {gpu.name: gpu.core_name}
    both = opened(gpu_options=tf.GPUOptions(visible_device_list="1, 0"))
    assert [d.core_name[-5:] for d in both.all if d.kind == "GPU"] == ["GPU:1", "GPU:0"]
    for bad, words in (("2", "invalid GPU id '2'"), ("0,x", "'x'"), ("1,1", "twice")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            opened(gpu_options=tf.GPUOptions(visible_device_list=bad))


def test_memory_limits_of_devices():
    machine = Machine()
    opened(machine, gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=0.25,
                                              visible_device_list="1", allow_growth=True))
    assert machine.limits == {("GPU", 1): 250_000_000}
    config = tf.ConfigProto()
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[64])
    config.pluggable_device_options.per_process_gpu_memory_fraction = 0.5
    machine = Machine()
    devices = devices_lib.open_devices(machine, config)
    assert machine.limits == {("GPU", 0): 64 << 20, ("NPU", 0): 500_000_000}
    found = {d.name[-5:]: d for d in devices_lib.list_devices(machine, devices)}
    assert found["GPU:0"].memory_limit_bytes == 64 << 20
    assert found["GPU:1"].memory_limit_bytes == 1_000_000_000
    assert found["NPU:0"].device_type == "NPU" and found["CPU:0"].memory_limit_bytes > 1 << 20
    devices_lib.measure_speeds(machine, devices, threads=4)
    speed, names = {d.name[-5:]: d.speed for d in devices.all}, [d.name[-5:] for d in devices.all]
    assert {(names[a], names[b]) for a, b in devices.peers} == {("GPU:0", "GPU:1")}
    assert speed["GPU:1"].flops == 2e12 and speed["GPU:0"].memory == 64 << 20


def test_the_mapping_is_logged():
    text = devices_lib.mapping_text(Machine(), opened())
    assert text.splitlines()[0] == "Device mapping:"
    assert "device:GPU:1 -> device: 1, name: " in text
    program = ("import pyflow as tf\nwith tf.Session(config=tf.ConfigProto(log_device_placement=True)) as sess:\n"
               "    sess.run(tf.constant(1.0, name='one'))")       # a process without other tests' devices
    err = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert "Device mapping: no known devices." in err
    assert "one: (Const): /job:localhost/replica:0/task:0/device:CPU:0\n" in err


def test_list_devices_of_a_session():
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        found = [d for d in sess.list_devices() if d.device_type == "CPU"]
    assert len(found) == 2
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert {d.memory_limit_bytes for d in found} == {machine}


# ---------------------------------------------------------------- pools

def test_pools_are_shared_or_private():
    one, two = tf.Session(threads=2), tf.Session(threads=2)
    mine, yours = (tf.Session(config=tf.ConfigProto(
        use_per_session_threads=True, intra_op_parallelism_threads=2)) for _ in range(2))
    with one, two, mine, yours:
        pools = [s._compiler.pool for s in (one, two, mine, yours)]
        assert pools[0] is pools[1] and len({id(p) for p in pools}) == 3
        x = tf.constant([1.0, 2.0]) + 1
        assert [s.run(x).tolist() for s in (one, mine, yours)] == [[2, 3]] * 3


def test_pools_to_choose_from():
    config = tf.ConfigProto(use_per_session_threads=True)
    config.session_inter_op_thread_pool.add(num_threads=3)
    config.session_inter_op_thread_pool.add(num_threads=1)
    config.session_inter_op_thread_pool.add(num_threads=2, global_name="test_pools")
    x = tf.placeholder(tf.float32, [])
    y = x * 2
    with tf.Session(config=config) as sess, tf.Session(config=config) as other:
        for number, threads in ((0, 3), (1, 1), (2, 2), (-1, 1)):
            options = tf.RunOptions(inter_op_thread_pool=number)
            assert sess.run(y, {x: 2.0}, options) == 4 and sess.run(y, {x: 3.0}, options) == 6
            assert sess._pools.get(number).threads == threads
        assert sess._pools.get(2) is other._pools.get(2) is not sess._pools.get(0)
        assert sess._pools.get(0) is not other._pools.get(0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="inter_op_thread_pool: 3"):
            sess.run(y, {x: 1.0}, tf.RunOptions(inter_op_thread_pool=3))
        v = tf.Variable(1.0)
        sess.run(v.initializer, options=tf.RunOptions(inter_op_thread_pool=1))
        assert sess.run(v) == 1, "one state for all pools"
    config = tf.ConfigProto()
    config.session_inter_op_thread_pool.add(num_threads=4, global_name="test_pools")
    with pytest.raises(tf.errors.InvalidArgumentError, match="configured with num_threads = 2"):
        tf.Session(config=config)


def test_a_private_pool_goes_on_while_another_is_blocked():
    """Both sessions have one thread; the first is held up inside a py_func."""
    inside, leave = threading.Event(), threading.Event()

    def wait():
        inside.set()
        leave.wait(60)
        return 1.0
    config = tf.ConfigProto(use_per_session_threads=True, intra_op_parallelism_threads=1)
    blocked, free = tf.Session(config=config), tf.Session(config=config)
    with blocked, free:
        op = tf.py_func(wait, [], tf.double)
        runner = threading.Thread(target=blocked.run, args=(op,))
        runner.start()
        assert inside.wait(60)
        assert free.run(tf.constant(1.0) + 1) == 2
        leave.set()
        runner.join()


# ---------------------------------------------------------------- the rest

def test_timeouts():
    loop = tf.while_loop(lambda i: i >= 0, lambda i: i * 1, [tf.constant(0)])
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=50)) as sess:
        start = clock()
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(loop)
        assert clock() - start < 30
        assert sess.run(tf.constant(1.0)) == 1


def everything():
    """A ConfigProto with every field set that TensorFlow 1.x programs are known to set."""
    config = tf.ConfigProto(
        device_count={"CPU": 1, "GPU": 0}, intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=2, use_per_session_threads=True, placement_period=3,
        device_filters=["/job:ps"], allow_soft_placement=True, isolate_session_state=True,
        operation_timeout_in_ms=60_000, share_cluster_devices_in_session=True,
        gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=0.5, allow_growth=True,
                                  allocator_type="BFC", visible_device_list="",
                                  deferred_deletion_bytes=1, force_gpu_compatible=True,
                                  polling_active_delay_usecs=1, polling_inactive_delay_msecs=1),
        graph_options=tf.GraphOptions(
            enable_recv_scheduling=True, build_cost_model=1, infer_shapes=True,
            place_pruned_graph=True, enable_bfloat16_sendrecv=True, timeline_step=1,
            optimizer_options=tf.OptimizerOptions(
                opt_level=tf.OptimizerOptions.L0, do_constant_folding=True,
                global_jit_level=tf.OptimizerOptions.ON_1, do_function_inlining=True)))
    options = config.graph_options.rewrite_options
    for name in ("layout_optimizer", "constant_folding", "shape_optimization", "remapping",
                 "arithmetic_optimization", "dependency_optimization", "loop_optimization",
                 "function_optimization", "debug_stripper", "scoped_allocator_optimization",
                 "pin_to_host_optimization", "implementation_selector", "auto_mixed_precision"):
        setattr(options, name, protos.RewriterConfig.OFF)
    options.memory_optimization = protos.RewriterConfig.NO_MEM_OPT
    options.disable_model_pruning = options.disable_meta_optimizer = True
    options.meta_optimizer_iterations = protos.RewriterConfig.ONE
    options.auto_parallel.enable = False
    options.optimizers.append("pruning")
    config.rpc_options.compression_algorithm = "gzip"
    config.experimental.collective_group_leader = "/job:worker"
    config.experimental.executor_type = "DEFAULT"
    config.experimental.use_numa_affinity = True
    config.gpu_options.experimental.use_unified_memory = True
    config.gpu_options.experimental.num_dev_to_dev_copy_streams = 1
    return config


def test_everything_a_program_sets_is_accepted():
    config = everything()
    with tf.Session(config=config) as sess:
        assert sess.run(tf.constant(2.0) * 3) == 6
        assert [d.device_type for d in sess.list_devices() if d.device_type == "GPU"] == []
    again = tf.ConfigProto.FromString(config.SerializeToString())
    assert again == config and again.graph_options.rewrite_options.remapping == 2


def test_gpu_queries():
    assert tf.test.is_gpu_available(cuda_only=True) in (True, False)
    name = tf.test.gpu_device_name()
    assert name == ("/device:GPU:0" if tf.test.is_gpu_available() else "")


def test_module_paths_of_programs():
    from pyflow.core.protobuf import config_pb2, rewriter_config_pb2
    from pyflow.python.client import device_lib
    assert config_pb2.ConfigProto is tf.ConfigProto
    assert rewriter_config_pb2.RewriterConfig.OFF == 2
    first = device_lib.list_local_devices()[0]
    assert first.name == "/device:CPU:0" and first.device_type == "CPU" and first.memory_limit > 0


def test_explain_shows_devices_and_reasons(tmp_path, monkeypatch, capsys):
    from pyflow.passes import place
    from pyflow.session import devices
    from pyflow.tools import explain
    with tf.device("/cpu:1"):
        a = tf.constant([1.0, 2.0], name="a")
    tf.negative(a, name="b")
    path = tmp_path / "graph.pb"
    path.write_bytes(tf.get_default_graph().as_graph_def().SerializeToString())
    two = place.Devices.of_process({"CPU": 2})
    monkeypatch.setattr(devices, "open_devices", lambda executor, config: two)
    assert explain.main([str(path)]) == 0
    out = capsys.readouterr().out
    assert "%a = Const() {value: [1.0, 2.0]} : float @ /device:CPU:1 (asked for /device:CPU:1)" \
        in out
    assert "%b = Neg(%a)" in out and "@ /device:CPU:0 (highest priority" in out
    monkeypatch.setenv("PYFLOW_PLACEMENT", "cost")
    monkeypatch.setattr(devices, "measure_speeds", lambda *args: None)
    assert explain.main([str(path)]) == 0
    out = capsys.readouterr().out
    assert "cost model: a step is estimated at" in out and "(cost model: " in out
    monkeypatch.undo()
    if [k for k in tf.Session().list_devices() if k.device_type != "CPU"] == []:
        assert explain.main([str(path)]) == 0
        assert "one device here: every node runs on" in capsys.readouterr().out
