"""Some 250 faulty plugins: each is refused with a reason, loses only what is wrong with it, or ends with an
error (or on stderr) that names plugin, node and op.

Two sources, each compiled once: faults/tables.c is copied under the name of its fault, which it reads from
its own path; faults/kernels.c gets the fault as an attribute.  The tables below name every fault and what
must come of it.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import pyflow as tf
from pyflow import _executor, plugin_probe, plugins

HERE = pathlib.Path(__file__).resolve().parent
PLUGIN = "com.example.faults"

# ---------------------------------------------------------------- tables: a library named by its path
REFUSED = {                             # fault -> what the PluginError says
    "size_0": "no usable pf_plugin",
    "size_8": "no usable pf_plugin",
    "no_tables": "returned no tables",
    "major_0": "built for ABI v0",
    "major_2": "built for ABI v2",
    "needs_minor_99": "needs v1.99",
    "critical_flag": "critical flag 0x80000000",
    "no_id": "no id",
    "empty_id": "no id",
    "id_of_the_cpu": "'pyflow.cpu' is pyflow's own",
    "id_of_cuda": "'pyflow.cuda' is pyflow's own",
    "id_of_the_core": "'pyflow.core' is pyflow's own",
    "id_of_python": "'pyflow.python' is pyflow's own",
    "id_of_hosted": "'pyflow.hosted' is pyflow's own",
    "id_pyflow": "'pyflow' is pyflow's own",
    "start_fails": "start function returned status 14",
    "start_returns_pending": "start function returned status -1",
    "op_size_0": "op .*left out.*too small",
    "op_size_8": "op .*left out.*too small",
    "op_without_name": "op .*left out.*no name",
    "op_with_empty_name": "op .*left out: .*carries a prefix",
    "op_without_signature": "op .*left out.*no name or signature",
    "op_without_prefix": "'Twice' left out: .*such as 'acme.Twice'",
    "op_of_the_core": "'_Twice' left out: .*pyflow's own",
    "op_of_pyflow": "'pyflow.Twice' left out: .*pyflow's own",
    "op_relu": "'Relu' is pyflow's own op",
    "op_matmul_otherwise": "'MatMul' is pyflow's own op",
    "op_critical_flag": "critical flag 0x100000",
    "op_needs_minor_99": "needs v1.99",
    "signature_garbage": "op .*left out.*expected ':' after",
    "signature_empty": "op .*left out",
    "signature_unknown_type": "op .*left out.*quaternion",
    "signature_unbalanced": "op .*left out",
    "signature_same_argument": "op .*left out.*x",
    "signature_bad_default": "op .*left out.*much",
    "signature_not_utf8": "op .*left out",
    "kernel_without_op": "kernel .*left out.*no op",
    "kernel_without_device": "kernel .*left out.*device",
    "kernel_without_compute": "kernel .*left out.*compute",
    "kernel_of_unknown_op": "no op 'faults.Unheard' is known",
    "kernel_critical_flag": "critical flag 0x40000000",
    "kernel_needs_minor_99": "needs v1.99",
    "kernel_huge_state": "state is larger than 1 GB",
    "kernel_needs_nonsense": "'quantum', an instruction set",
    "where_unknown_type": "unknown element type at 'quaternion",
    "where_unknown_attribute": "'Nope', which is no type attribute",
    "where_no_type_attribute": "'k', which is no type attribute",
    "where_without_types": "needs '=' after 'T'",
    "where_ends_early": "names '', which is no type",
    "where_goes_on": "unknown element type at 'float\\)x",
    "where_not_utf8": "unknown element type",
    "attr_size_0": "attribute's struct is too small",
    "attr_without_name": "no name",
    "attr_unknown": "'q' is not declared by the op",
    "attr_unknown_kind": "unknown kind",
    "attr_other_kind": "the kernel takes another kind",
    "attr_before_the_state": "misaligned or beyond",
    "attr_behind_the_state": "misaligned or beyond",
    "attr_misaligned": "misaligned or beyond",
    "attr_critical_flag": "critical flag 0x20000",
    "arg_size_0": "argument's struct is too small",
    "arg_without_name": "no name",
    "arg_unknown": "'z' is not declared by the op",
    "arg_unknown_memory": "unknown memory kind",
    "arg_negative_reuse": "negative reuse",
    "arg_critical_flag": "critical flag 0x20000",
}
LEFT_OUT = {                            # the rest serves; fault -> what the log says
    "op_twice_otherwise": "another signature",
    "device_size_0": "device .*too small",
    "device_without_type": "device .*left out",
    "device_of_empty_type": "device .*left out.*empty",
    "device_of_long_type": "device .*left out.*23 bytes",
    "device_cpu": "the host's own",
    "device_without_open": "needs open",
    "device_without_free": "with alloc also free and copy",
    "device_without_events": "event_record",
    "device_critical_flag": "critical flag 0x40000",
    "compiler_of_no_size": "extension .*left out",
    "compiler_without_functions": "extension .*left out.*supports",
}
SOUND = ("sound start_calls_with_nothing id_not_utf8 no_version op_doc_not_utf8 arg_reuse_of_no_input arg_reuse_by_an_input "
         "device_very_many device_fewer_than_none").split()
NOTHING_IN_IT = ["no_tables_in_it"]
NO_KERNEL = {                           # the op is there, its kernel is not; fault -> what the log says
    "kernel_size_0": "kernel .*left out.*too small",
    "kernel_size_16": "kernel .*left out.*too small",
}


@pytest.fixture(scope="module")
def sources(build_plugin):
    """-> {"tables": path, "kernels": path}"""
    return {name: build_plugin("faults", "-O1", name=name, sources=[HERE / "faults" / f"{name}.c"]) for name in ("tables", "kernels")}


@pytest.fixture(scope="module")
def library(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")

    def make(fault):
        target = folder / f"lib{fault}.so"
        if not target.exists():         # a library that is open must not change
            shutil.copy(sources["tables"], target)
        return str(target)

    return make


@pytest.fixture(scope="module")
def unprobed():
    """The program names the library, and takes it as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYFLOW_PLUGIN_PROBE", "0")
        yield


def works():
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.reduce_sum(tf.nn.relu(tf.constant([1.0, -1.0])) * 2.0)) == 2


def twice(fault):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(plugins.op(f"faults.{fault}")(tf.constant(3.0)))


@pytest.mark.parametrize("fault", REFUSED)
def test_refused_with_its_reason(library, unprobed, fault):
    with pytest.raises(plugins.PluginError, match=f"(?s){REFUSED[fault]}") as caught:
        plugins.load_library(library(fault))
    assert fault in str(caught.value), "it says which plugin"
    assert not [k for k in _executor.kernels() if k["plugin"] == f"faults.{fault}"]


@pytest.mark.parametrize("fault", LEFT_OUT)
def test_only_what_is_wrong_is_left_out(library, unprobed, fault, caplog):
    plugins.load_library(library(fault))
    assert re.search(LEFT_OUT[fault], caplog.text) and fault in caplog.text
    assert twice(fault) == 6


@pytest.mark.parametrize("fault", NO_KERNEL)
def test_an_op_without_its_kernel(library, unprobed, fault, caplog):
    plugins.load_library(library(fault))
    assert re.search(NO_KERNEL[fault], caplog.text) and fault in caplog.text
    with pytest.raises(tf.errors.OpError, match=f"op faults.{fault} has no kernel at all"):
        twice(fault)


@pytest.mark.parametrize("fault", [name for name in SOUND if not name.startswith("device")])
def test_strange_but_usable(library, unprobed, fault):
    plugins.load_library(library(fault))
    assert twice(fault) == 6
    works()


@pytest.mark.parametrize("fault", [name for name in SOUND if name.startswith("device")])
def test_strange_devices_in_a_process_of_their_own(library, unprobed, fault):
    """Here they would be devices of every session that comes after."""
    code = ("import sys, pyflow as tf; tf.load_op_library(sys.argv[1]); from pyflow import plugins;"
            "print(tf.Session().run(plugins.op('faults.' + sys.argv[2])(tf.constant(3.0))))")
    done = subprocess.run([sys.executable, "-c", code, library(fault), fault], capture_output=True,
                          text=True, check=False)
    assert done.stdout.split()[-1:] == ["6.0"], done.stderr[-2000:]


def test_a_plugin_of_nothing(library, unprobed):
    for fault in NOTHING_IN_IT:
        plugins.load_library(library(fault))
    works()


# ---------------------------------------------------------------- ends of the process, tried first elsewhere
ENDS = {                                # fault -> what the verdict says
    "crash_in_load": "crashed with SIGSEGV while it was opened",
    "crash_in_entry": "crashed with SIGSEGV in its entry function",
    "crash_in_start": "crashed with SIGSEGV in its start function",
    "crash_in_count": "crashed with SIGSEGV in its start function, or while its tables were read",
    "crash_in_extension": "crashed with SIGSEGV in its start function, or while its tables were read",
    "abort_in_entry": "crashed with SIGABRT",
    "divide_in_start": "crashed with SIGFPE",
    "overflow_in_start": "crashed with SIGSEGV",
    "exit_0_in_load": "exit status 0 while it was opened",
    "exit_0_in_start": "exit status 0 in its start",
    "_exit_0_in_entry": "exit status 0 in its entry",
    "_exit_3_in_start": "exit status 3",
    "mute_in_start": "exit status 0",
    "chatter_in_start": "exit status 0 in its start",
    "hang_in_entry": "did not come back within 2 seconds in its entry function",
    "busy_in_start": "did not come back within 2 seconds in its start",
    "kill_in_start": "SIGKILL ended in its start.*tried again next time",
    "term_in_start": "SIGTERM ended in its start.*tried again next time",
}
NOT_REMEMBERED = ["kill_in_start", "term_in_start"]
PASSES = ["sound", "daemon_in_start", "no_tables", "start_fails"]      # the host refuses two of them politely
HANGS = ["hang_in_entry", "busy_in_start"]


def test_what_would_end_the_process_is_tried_in_another(library, monkeypatch):
    tried = {}
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        def run(faults):
            tried.update(zip(faults, threads.map(lambda f: plugin_probe._run(library(f), []), faults)))
        run([f for f in [*ENDS, *PASSES] if f not in HANGS])
        monkeypatch.setattr(plugin_probe, "PATIENCE", 2)    # for these alone: six at once may take as long to start
        run(HANGS)
    for fault, said in ENDS.items():
        problem, final = tried[fault]
        assert re.search(said, problem or ""), (fault, problem)
        assert fault in problem and final == (fault not in NOT_REMEMBERED)
    assert {fault: tried[fault] for fault in PASSES} == dict.fromkeys(PASSES, (None, True))


def test_load_op_library_tries_first_too(library, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYFLOW_PLUGIN_PROBE", "1")
    for fault in ("crash_in_start", "_exit_0_in_entry"):
        with pytest.raises(plugins.PluginError, match="in a process of its own.*") as caught:
            tf.load_op_library(library(fault))
        assert fault in str(caught.value)
    assert len(json.loads((tmp_path / "pyflow" / "plugins.json").read_text())) == 2


def test_a_child_that_does_not_come_as_far_is_no_verdict(library, monkeypatch):
    monkeypatch.setattr(plugin_probe, "_CHILD", "raise SystemExit(9)")
    assert plugin_probe._run(library("sound"), []) == (None, False)


# ---------------------------------------------------------------- installed: what plugin.json says
LIES = {                                # fault -> (what plugin.json says instead, what the problem says)
    "id_of_cpu": ({"id": "pyflow.cpu"}, "'pyflow.cpu' is pyflow's own"),
    "id_reserved": ({"id": "pyflow.anything"}, "'pyflow.anything' is pyflow's own"),
    "other_id": ({"id": "test.somebody"}, "test.somebody"),
    "id_of_no_text": ({"id": 7}, "id is 7, expected text"),
    "abi_of_tomorrow": ({"abi": [1, 99], "min_minor": 99}, "needs v1.99"),
    "abi_of_the_past": ({"abi": [0, 5]}, "needs v0.5"),
    "abi_of_no_numbers": ({"abi": "new"}, "malformed"),
    "abi_of_three": ({"abi": [1, 0, 0]}, "malformed"),
    "min_minor_of_no_number": ({"min_minor": "many"}, "malformed"),
    "library_outside": ({"library": "../evil.so"}, "bare file name"),
    "library_absolute": ({"library": "/lib/libc.so"}, "bare file name"),
    "library_dots": ({"library": ".."}, "bare file name"),
    "library_missing": ({"library": "libgone.so"}, "cannot be opened|No such file"),
    "library_of_no_text": ({"library": 5}, "malformed|TypeError"),
    "ops_of_another": ({"ops": [{"name": "faults.Other", "sig": "x: float -> y: float"}]}, "not about this library: ops"),
    "ops_of_no_list": ({"ops": 5}, "."),
    "ops_of_no_dicts": ({"ops": ["faults.Other"]}, "."),
    "kernels_of_none": ({"kernels": []}, "not about this library: kernels"),
    "kernels_of_another": ({"kernels": [{"op": "MatMul", "device": "CPU"}]}, "not about this library: kernels"),
    "devices_of_another": ({"devices": ["GPU"]}, "not about this library: devices"),
    "preload_of_no_list": ({"preload": 5}, "."),
}
FILES = {                               # fault -> (file, bytes; None: no such file, what the problem says)
    "json_missing": ("plugin.json", None, "no plugin.json"),
    "json_empty": ("plugin.json", b"", "malformed"),
    "json_broken": ("plugin.json", b"{", "malformed"),
    "json_list": ("plugin.json", b"[]", "malformed"),
    "json_null": ("plugin.json", b"null", "malformed"),
    "json_not_utf8": ("plugin.json", b"\xff\xfe", "malformed"),
    "json_deep": ("plugin.json", b"[" * 100000, "malformed|Recursion"),
    "library_empty": ("lib{}.so", b"", "cannot be opened"),
    "library_text": ("lib{}.so", b"not a library", "cannot be opened"),
    "library_cut": ("lib{}.so", b"\x7fELF\x02\x01\x01" + b"\0" * 200, "cannot be opened"),
    "package_missing": (".", None, "is not installed"),
}


def install(site, name, binary, description=(), distribution=None):
    """A made-up distribution; its Python must not run."""
    package, info = site / name, site / f"{distribution or name}-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution or name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pyflow.plugins]\n{name} = {name}\n")
    (package / "__init__.py").write_text("raise SystemExit('no Python of a plugin runs')\n")
    shutil.copy(binary, package / f"lib{name}.so")
    op = f"faults.{name}"
    text = {"id": op, "version": "1", "abi": list(plugins.HOST_ABI), "library": f"lib{name}.so",
            "ops": [{"name": op, "sig": "x: T -> y: T; k: int = 1, T: {float, double} = float"}],
            "kernels": [{"op": op, "device": "CPU", "where": "T=float"}], **dict(description)}
    (package / "plugin.json").write_text(json.dumps(text))


REPORT = """
    import json, pyflow as tf
    from pyflow import plugins, _executor
    found = {p.origin.partition(" ")[0]: p.problem for p in plugins.load_all()}
    with tf.Session() as session:
        assert session.run(tf.reduce_sum(tf.nn.relu(tf.constant([1.0, -1.0])) * 2.0)) == 2
        assert session.run(plugins.op("faults.sound")(tf.constant(3.0))) == 6
    print(json.dumps(found))
"""


def test_installed_with_lies(sources, tmp_path):
    site = tmp_path / "site"
    install(site, "sound", sources["tables"])
    install(site, "a_twin", sources["tables"], {"id": "faults.sound"}, distribution="zzz-twin")
    for name, (description, _) in LIES.items():
        install(site, name, sources["tables"], description, distribution=f"aaa-{name}")
    for name, (file, content, _) in FILES.items():
        install(site, name, sources["tables"], distribution=f"aaa-{name}")
        at = site / name / file.format(name)
        if content is not None:
            at.write_bytes(content)
        elif at.is_dir():
            shutil.rmtree(site / name)
        else:
            at.unlink()
    env = {**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYFLOW_PLUGIN_PROBE": "0"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(REPORT)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["sound"] is None and found["pyflow-dataflow"] is None, "our own is there, whatever came before it"
    assert re.search("is in use already", found["zzz-twin"])
    for name, (*_, says) in {**LIES, **FILES}.items():
        assert re.search(says, found[f"aaa-{name}"] or ""), (name, found[f"aaa-{name}"])


# ---------------------------------------------------------------- kernels: an op that goes wrong
E = tf.errors
INTERNAL, LOST, INVALID, OOM = E.InternalError, E.DataLossError, E.InvalidArgumentError, E.ResourceExhaustedError
COMPUTE = {                             # fault -> (error, what it says), or the result of a step that goes on
    "returns_77": (E.OpError, "status 77 and no message"),
    "returns_minus_77": (E.OpError, "status -77 and no message"),
    "returns_pending": (INTERNAL, "PF_PENDING"),
    "returns_decline": (E.OpError, "status -2 and no message"),
    "returns_ok_without_output": (INTERNAL, "without setting output 0"),
    "fails_without_text": (LOST, "status 15 and no message"),
    "fails_with_negative_length": (LOST, "status 15 and no message"),
    "fails_with_status_ok": (INTERNAL, "it is fine"),
    "fails_with_percent": (LOST, "100 %s %n"),
    "fails_not_in_utf8": (LOST, "broken"),
    "fails_at_length": (LOST, "xxxx"),
    "output_7": (INTERNAL, "output 7 of 1"),
    "output_minus_1": (INTERNAL, "output -1 of 1"),
    "output_of_rank_minus_1": (INTERNAL, "-1 dimensions"),
    "output_of_rank_300": (INTERNAL, "300 dimensions"),
    "output_at_no_address": (INTERNAL, "2 dimensions at no address"),
    "output_of_negative_size": (INTERNAL, "a size of -4 in dimension 0"),
    "output_of_huge_size": (OOM, "OOM when allocating tensor with shape"),
    "output_twice": 3,
    "set_output_of_nothing": (INTERNAL, "set_output of no tensor"),
    "set_output_9": (INTERNAL, "output 9"),
    "tensor_of_doubles": (INTERNAL, "output 0 is not of type float"),
    "tensor_of_ints": (INTERNAL, "output 0 is not of type float, but of int32"),
    "own_of_ints": (INTERNAL, "output 0 is not of type float, but of int32"),
    **dict.fromkeys(["own_without_data", "own_with_other_data", "own_with_byte_offset", "own_of_more",
                     "own_of_negative_size", "own_with_other_shape", "own_without_shape",
                     "own_of_rank_200", "own_with_strides", "own_said_to_be_ints"],
                    (INTERNAL, "set_output of output 0 with a tensor whose .* were written over")),
    "set_output_twice": (INTERNAL, "set_output of output 0 with a tensor that is an output already"),
    "tensor_of_lanes": (INTERNAL, "output 0 is not of type float"),
    "tensor_of_version_9": (INTERNAL, "DLPack's version"),
    "tensor_without_data": (INTERNAL, "not usable"),
    "tensor_of_negative_size": (INTERNAL, "not usable"),
    "tensor_of_negative_rank": (INTERNAL, "not usable"),
    "bring_output_before_defer": (INTERNAL, "before defer"),
    "forward_of_input_5": 3,
    "forward_to_output_5": (INTERNAL, "output 5 of 1"),
    "forward_at_no_address": (INTERNAL, "3 dimensions at no address"),
    "alias_of_input_5": (INTERNAL, "alias of an argument that is not there"),
    "alias_to_output_5": (INTERNAL, "output 5 of 1"),
    "alias_of_other_size": (INVALID, "shape of another size"),
    "alias_of_rank_minus_3": (INTERNAL, "-3 dimensions"),
    "scratch_huge": (OOM, "scratch memory"),
    "scratch_aligned_to_4096": (OOM, "scratch memory"),
    "retain_of_input_5": (INTERNAL, "retain of an input that is not there"),
    "retain_of_input_minus_1": (INTERNAL, "retain of an input that is not there"),
    "var_lock_of_no_variable": (INVALID, "input 0 is not a variable"),
    "var_lock_of_input_9": (INVALID, "input 9 is not a variable"),
    "var_lock_of_nothing": (INTERNAL, "var_lock of no variables"),
    "var_lock_in_mode_9": (INTERNAL, "unknown mode"),
    "var_get_unlocked": (INVALID, "input 0 is not a variable"),
    "var_swap_of_nothing": (E.OpError, "is not a variable|no tensor"),
    "var_swap_of_no_variable": (E.OpError, "is not a variable"),
    "var_assign_of_no_variable": (INVALID, "input 0 is not a variable"),
    "var_read_of_no_variable": (INVALID, "input 0 is not a variable"),
    "var_handle_without_name": (INTERNAL, "var_handle of no name"),
    "resource_without_type": (INTERNAL, "without a usable pf_type"),
    "resource_of_empty_type": (INTERNAL, "without a usable pf_type"),
    "resource_of_nameless_type": (INTERNAL, "without a usable pf_type"),
    "resource_to_nowhere": (INTERNAL, "place for the object"),
    "resource_that_cannot_be_made": (LOST, "."),
    "resource_of_the_step_not_there": (E.NotFoundError, "no such resource"),
    "resource_get_of_no_handle": (INVALID, "not a resource handle"),
    "resource_get_without_type": (INTERNAL, "without a usable pf_type"),
    "resource_delete_of_no_handle": (INVALID, "not a resource handle"),
    "resource_delete_of_input_9": (INTERNAL, "no such input"),
    "resource_handle_without_type": (INTERNAL, "without a usable pf_type"),
    "resource_output_without_make": (INTERNAL, "name or make"),
    "rng_to_nowhere": (INTERNAL, "place for key"),
    "set_dead_undeclared": (INTERNAL, "not declared PF_KERNEL_DEAD"),
    "drop_constant_in_compute": (INTERNAL, "outside init"),
    "defer_undeclared": (INTERNAL, "not declared PF_KERNEL_ASYNC"),
    "defer_without_ticket": (INTERNAL, "place for the ticket"),
    "done_of_nobody": 3,
    "on_cancel_of_nobody": (E.FailedPreconditionError, "status 9 and no message"),
    "on_cancel_without_function": (INVALID, "status 3 and no message"),
    "after_without_function": (INTERNAL, "after without a function"),
    "parallel_for_without_function": (INTERNAL, "parallel_for without a function"),
    "post_without_function": (INVALID, "status 3 and no message"),
    "post_caller_without_function": (INVALID, "status 3 and no message"),
    "send_of_nothing": (INVALID, "send of no tensor"),
    "send_under_no_key": (INVALID, "under no key"),
    "send_twice": (E.AlreadyExistsError, "sent twice under key 'key'"),
    "recv_without_function": (INVALID, "recv without a function"),
    "recv_under_no_key": (INVALID, "under no key"),
    "recv_twice": (E.AlreadyExistsError, "."),
    "inject_into_no_step": (E.UnavailableError, "status 14"),
    "inject_into_step_0": (INVALID, "status 3"),
    "inject_of_another_incarnation": (E.AbortedError, "status 10"),
    "inject_of_nothing": (INVALID, "status 3"),
    "abort_without_text": (E.UnavailableError, "the step was aborted"),
    "everything_of_nobody": 3,
}
ONLY_SYNC = {"returns_pending", "defer_undeclared", "defer_without_ticket", "bring_output_before_defer"}
ASYNC = {
    "fails_before_defer": (LOST, "not even begun"),
    "defers_twice": 3,
    "done_of_strange_status": (INTERNAL, "status 13 and no message"),
    "done_without_output": (INTERNAL, "without setting output 0"),
    "done_and_ok": 3,
    "ok_and_no_done": 3,
    "brings_nothing": (INTERNAL, "bring_output of no tensor"),
    "sound": 3,
}
INIT = {
    "init_fails_without_text": (LOST, "init failed with status 15 and without a message"),
    "init_fails_with_text": (LOST, "no such model"),
    "init_returns_minus_77": (INTERNAL, "init failed with status -77"),
    "init_returns_pending": (INTERNAL, "init failed with status -1"),
    "init_declines": (E.OpError, "no kernel|declined"),
    "init_output": (INTERNAL, "output 0 of 1 outside of compute"),
    "init_forward": (INTERNAL, "output 0 of 1 outside of compute"),
    "init_alias": (INTERNAL, "output 0 of 1 outside of compute"),
    "init_retain": (INTERNAL, "retain of an input that is not there"),
    "init_defer": (INTERNAL, "defer by a kernel"),
    "init_var_lock": (INVALID, "not a variable"),
    "init_resource_of_the_step": (INTERNAL, "outside of a step"),
    "init_resource_get": (INVALID, "not a resource handle"),
    "init_drop_of_no_constant": (INTERNAL, "not a constant"),
    "init_set_dead": (INTERNAL, "set_dead"),
}
SHAPE = {                               # while the graph is built: ValueError, or the static shape
    "infer_fails_without_text": "status 3 and without a message",
    "infer_fails_with_no_text": "status 3 and without a message",
    "infer_fails_with_empty_text": "status 3 and without a message",
    "infer_returns_minus_77": "status -77 and without a message",
    "infer_says_and_forgets": "meant, but not returned",
    "infer_output_9": "status 11 and without a message",
    "infer_rank_300": "status 11 and without a message",
    "infer_negative_size": "status 3 and without a message",
    "infer_at_no_address": "status 3 and without a message",
    "infer_dims_of_input_9": "status 11 and without a message",
    "infer_dims_to_nowhere": "status 3 and without a message",
    "infer_attr_unknown": "status 5 and without a message",
    "infer_attr_of_no_name": "status 3 and without a message",
    "infer_of_nobody": "status 11 and without a message",
}
SHAPED = {
    "lies_about_rank": (INTERNAL, r"output 0 of shape \[\], where the graph was built with \[10\]"),
    "lies_about_size": (INTERNAL, r"output 0 of shape \[1048576\], where the graph was built with \[10\]"),
}
TEXT = {
    "str_set_beyond": (E.OutOfRangeError, "status 11"),
    "str_set_before": (E.OutOfRangeError, "status 11"),
    "str_set_of_nothing": (E.OutOfRangeError, "status 11"),
    "str_set_negative": (E.OutOfRangeError, "status 11"),
    "str_set_of_nobody": (E.OutOfRangeError, "status 11"),
    "str_set_of_an_input": (E.OutOfRangeError, "status 11"),
    "str_get_beyond": (E.OutOfRangeError, "status 11"),
    "str_get_to_nowhere": (INVALID, "status 3"),
}
COST = {name: 3 for name in ("cost_negative", "cost_fails", "cost_not_a_number")}
KERNELS = [("Sync", fault, COMPUTE[fault]) for fault in COMPUTE]
KERNELS += [("Brief", fault, COMPUTE[fault]) for fault in ("fails_without_text", "returns_77", "done_of_nobody")]
KERNELS += [("Lane", fault, COMPUTE[fault]) for fault in COMPUTE if fault not in ONLY_SYNC]
KERNELS += [(op, fault, rows[fault]) for op, rows in
            (("Async", ASYNC), ("Init", INIT), ("Shaped", SHAPED), ("Text", TEXT), ("Costly", COST)) for fault in rows]


@pytest.fixture(scope="module")
def kernels(sources):
    return tf.load_op_library(sources["kernels"])


def call(op, fault):
    x = tf.constant("text" if op == "Text" else 1.0)
    return plugins.op(f"faults.{op}")(x, fault=fault, name="culprit")


@pytest.mark.parametrize("op, fault, outcome", KERNELS, ids=[f"{op}-{fault}" for op, fault, _ in KERNELS])
def test_an_error_names_node_op_and_plugin(kernels, op, fault, outcome):
    with tf.Graph().as_default(), tf.Session(threads=2) as session:
        y = call(op, fault)
        if not isinstance(outcome, tuple):
            assert session.run(y) == outcome
            return
        with pytest.raises(outcome[0], match=f"(?s){outcome[1]}") as caught:
            session.run(y)
        for name in ("culprit", f"faults.{op}", PLUGIN):
            assert name in str(caught.value), name
        assert session.run(call("Sync", "sound")) == 3


@pytest.mark.parametrize("fault", SHAPE)
def test_a_shape_functions_error_names_op_and_plugin(kernels, fault):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=f"(?s){SHAPE[fault]}") as caught:
        call("Shaped", fault)
    for name in ("culprit", "faults.Shaped", PLUGIN):
        assert name in str(caught.value), name


def test_a_shape_that_is_kept_costs_no_error(kernels):
    with tf.Graph().as_default(), tf.Session() as session:
        y = call("Shaped", "keeps_its_word")
        assert y.shape.as_list() == [None] and session.run(tf.shape(y)).tolist() == [1 << 20]
        y.set_shape([7])
        with pytest.raises(INTERNAL, match=r"\[1048576\].*\[7\].*set_shape"):
            session.run(y)


# ---------------------------------------------------------------- crashes and exits while running
CRASHES = {                             # (op, fault) -> what stderr says
    ("Sync", "crash"): "SIGSEGV in the kernel of plugin",
    ("Sync", "abort"): "SIGABRT in the kernel of plugin",
    ("Sync", "divide"): "SIGFPE in the kernel of plugin",
    ("Sync", "exit"): r"exit\(\) was called in the kernel of plugin",
    ("Sync", "overflow"): "SIGSEGV in the kernel of plugin",
    ("Sync", "crash_in_loop"): "SIGSEGV in the kernel of plugin",
    ("Brief", "crash"): "SIGSEGV in the kernel of plugin",
    ("Lane", "crash"): "SIGSEGV in the kernel of plugin",
    ("Async", "crash"): "SIGSEGV in the kernel of plugin",
    ("Init", "init_crash"): "SIGSEGV in init of a kernel of plugin",
    ("Shaped", "infer_crash"): "SIGSEGV in the shape function of plugin",
    ("Costly", "cost_crash"): "SIGSEGV in the cost function of a kernel of plugin",
}
CRASHING = """
    import json, os, sys, pyflow as tf
    from pyflow import plugins
    tf.load_op_library(sys.argv[1])
    for op, fault in json.loads(sys.argv[2]):
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(into, 2)
            y = plugins.op("faults." + op)(tf.constant(1.0), fault=fault, name="culprit")
            with tf.Session(threads=2) as session:
                session.run(y)
            os._exit(99)
        os.close(into)
        said = os.fdopen(out, "rb").read().decode("utf-8", "replace")
        print(json.dumps([os.waitpid(child, 0)[1], said]), flush=True)
"""


def test_a_crash_while_running_names_plugin_node_and_op(sources, tmp_path):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(CRASHING), sources["kernels"], json.dumps(list(CRASHES))],
                          env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for (op, fault), line in zip(CRASHES, done.stdout.splitlines(), strict=True):
        status, said = json.loads(line)
        assert re.search(f"pyflow: {CRASHES[op, fault]} '{PLUGIN}', node 'culprit', op faults.{op}\n", said), (op, fault, said)
        assert os.WIFSIGNALED(status) or fault == "exit", "it ends as it would have ended"
        assert said.count("pyflow: ") == 1


def test_there_are_over_a_hundred():
    kinds = [*REFUSED, *LEFT_OUT, *NO_KERNEL, *SOUND, *NOTHING_IN_IT, *ENDS, *PASSES, *LIES, *FILES, *COMPUTE, *ASYNC, *INIT, *SHAPE,
             *SHAPED, *TEXT, *COST, *CRASHES]
    assert len(kinds) > 230
