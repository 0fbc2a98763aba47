"""Links and pairs of others: how they are found, refused, chosen and shown; floats that travel as bfloat16."""
import json
import logging
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import foreign
import processes
import pyflow as tf
from pyflow import _executor, plugins
from pyflow.distributed.look import ways
from pyflow.distributed.wire import links, pairs
from pyflow.passes.place_devices import Device, Devices
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import contract

BAD = r"""
#include <pyflow/link.h>
#include <string.h>
static pf_status l(const char *a, int32_t f, pf_link_port **o, char *b, int32_t r, pf_link_problem *p) { return PF_UNAVAILABLE; }
static int32_t pd(pf_link_port *p) { return -1; }
static pf_status a(pf_link_port *p, pf_link_conn **o) { return PF_UNAVAILABLE; }
static void u(pf_link_port *p) {}
static pf_status c(const char *a, int32_t f, int64_t t, pf_link_conn **o, pf_link_problem *p) { return PF_UNAVAILABLE; }
static int32_t d(pf_link_conn *p) { return -1; }
static int64_t po(pf_link_conn *p, const pf_span *s, int32_t n) { return 0; }
static int64_t re(pf_link_conn *p, const pf_span *s, int32_t n, pf_link_problem *q) { return 0; }
static void cl(pf_link_conn *p) {}
static void *ar(pf_link_conn *p, int64_t n, uint32_t *id) { return 0; }
#define ALL .listen = l, .port_descriptor = pd, .accept = a, .unlisten = u, .connect = c, .descriptor = d, .post = po, .receive = re, .close = cl
static const pf_link
  tiny = {.size = 8, .kind = "tiny"}, unnamed = {.size = sizeof(pf_link), ALL, .release = cl},
  small = {.size = offsetof(pf_link, release), .kind = "small", ALL, .release = cl},
  shouts = {.size = sizeof(pf_link), .kind = "LOUD", ALL, .release = cl},
  longer = {.size = sizeof(pf_link), .kind = "sixteen_letters_", ALL, .release = cl},
  grpc = {.size = sizeof(pf_link), .kind = "grpc", ALL, .release = cl}, ours = {.size = sizeof(pf_link), .kind = "unix", ALL, .release = cl},
  half = {.size = sizeof(pf_link), .kind = "half", ALL, .release = cl, .arena = ar},
  critical = {.size = sizeof(pf_link), .flags = 1u << 20, .kind = "critical", ALL, .release = cl},
  fine = {.size = offsetof(pf_link, arena), .flags = PF_LINK_FAR | PF_LINK_SECURE, .kind = "fine1", ALL, .release = cl, .arena = ar};
static const pf_link *const all[] = {&tiny, &unnamed, &small, &shouts, &longer, &grpc, &ours, &half, &critical, &fine, NULL};
static const void *extension(const char *id) { return strcmp(id, "pyflow.link/1") ? 0 : all; }
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.example.bad", .version = "1", .abi_major = PF_ABI_MAJOR,
                                 .abi_minor = PF_ABI_MINOR, .extension = extension};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { return &plugin; }
"""


@pytest.fixture(scope="module")
def pair_plugin():
    """The foreign pair is loaded in this process."""
    foreign.here("pair")


@pytest.fixture(scope="module")
def two():
    """Two servers in this process: (worker, peer)."""
    ports = processes.free_ports(2)
    spec = {"worker": [f"localhost:{ports[0]}"], "peer": [f"localhost:{ports[1]}"]}
    servers = [tf.train.Server(spec, job, 0, links=()) for job in ("worker", "peer")]
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def exchange(scale=3.0):
    """(x here, its multiple made there and back here)."""
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/job:worker/task:0"):
        here = x + 0.0
    with tf.device("/job:peer/task:0"):
        there = here * scale
    with tf.device("/job:worker/task:0"):
        return x, tf.negative(there)


# ---------------------------------------------------------------- links
def test_bad_links_are_refused_and_the_good_one_is_there(tmp_path, caplog):
    source, path = tmp_path / "bad.c", tmp_path / "libbad.so"
    source.write_text(BAD)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-I", str(foreign.include()), str(source),
                    "-o", str(path)], check=True)
    with caplog.at_level(logging.WARNING, "pyflow"):
        foreign.load(str(path))
    said = caplog.text
    for text in ("says that it has 8 bytes", "'small' has no function 'release'", "kind of a link is 1 to 15",
                 "there is a link of kind 'unix' already", "'half' has some of arena, map and unmap",
                 "'critical' needs something this version does not know (flags 0x100000)"):
        assert text in said
    assert said.count("kind of a link is 1 to 15") == 4 and said.count(str(path)) == 9
    assert _executor.links()["fine1"] == (True, True) and "LOUD" not in _executor.links()
    assert links.chosen(["fine1", "unix"], secure=True) == ("fine1",), "with certificates"
    loaded = next(p for p in plugins.load_all() if p.id == "com.example.bad")
    assert loaded.links == ["fine1"] and loaded.problem is None


def test_kinds_are_chosen(monkeypatch):
    assert links.chosen() == ("unix", "tcp") and links.chosen((), False) == ()
    assert links.chosen(secure=True) == ()
    with pytest.raises(ValueError, match="no link of kind 'pigeon', but 'unix', 'tcp'.*plugins"):
        tf.train.Server({"a": ["localhost:0"]}, links=("pigeon",))
    with pytest.raises(TypeError, match="must be a list of kinds"):
        tf.train.Server({"a": ["localhost:0"]}, links="unix")
    monkeypatch.setenv("PYFLOW_LINKS", "tcp, unix")
    assert links.chosen() == ("tcp", "unix")
    monkeypatch.setenv("PYFLOW_LINKS", "none")
    assert links.chosen() == () and links.chosen(["tcp"]) == ("tcp",)
    monkeypatch.setenv("PYFLOW_LINKS", "pigeon")
    with pytest.raises(ValueError, match="PYFLOW_LINKS='pigeon': there is no link of kind"):
        links.chosen()


def test_a_plugin_that_is_not_used_says_why(monkeypatch):
    broken = plugins.Plugin("acme (acme_rdma)", {"links": ["rdma"]}, problem="needs v9")
    monkeypatch.setattr(plugins, "load_all", lambda: [broken])
    assert "acme (acme_rdma), which offers it, is not used: needs v9" in links._unknown("rdma", {})


@pytest.mark.parametrize("offers, text", [
    ({"links": "acme"}, "links is 'acme'"), ({"links": [1]}, "links is"), ({"links": ["a/b"]}, "links is"),
    ({"pairs": {}}, "pairs is"), ({"pairs": [1]}, "a pair is 1"), ({"pairs": [{"name": "n", "send": "a.S"}]}, "a pair is"),
    ({"pairs": [{"name": "n", "send": "a.S", "recv": 3}]}, "a pair is"),
    ({"pairs": [{"name": "n", "send": "a.S", "recv": "a.R", "more": ""}]}, "a pair is"),
    ({"pairs": [{"name": "../n", "send": "a.S", "recv": "a.R"}]}, "a pair's name is '../n'"),
    ({"pairs": [{"name": "net", "send": "a.S", "recv": "a.R"}]}, "not 'net'"),
    ({"pairs": [{"name": "n", "send": "a.S", "recv": "a.R", "source": "/jobs:a"}]}, "Unknown attribute"),
    ({"pairs": [{"name": "n", "send": "a.S", "recv": "_Recv"}]}, "'_Recv', which is not the plugin's")])
def test_metadata_is_checked(offers, text):
    with pytest.raises((TypeError, ValueError)) as failed:
        plugins._check_offers({"ops": [{"name": "a.S"}, {"name": "a.R"}], **offers})
    assert text in str(failed.value)


def test_bad_metadata_beside_a_library(tmp_path):
    path = foreign.compiled("link", tmp_path)
    about = json.loads((tmp_path / "plugin.json").read_text())
    assert about["links"] == ["acme"] and "pairs" not in about
    (tmp_path / "plugin.json").write_text(json.dumps({**about, "links": "acme"}))
    with pytest.raises(plugins.PluginError, match="plugin.json beside .* is malformed: links is 'acme'"):
        tf.load_op_library(path)


def test_the_list_of_plugins_shows_what_they_bring(pair_plugin, capsys):
    from pyflow.tools import devices
    foreign.here("link")
    devices.main([])
    said = capsys.readouterr().out
    assert "com.acme.pair 1.0" in said and "2 kernels, pair acme" in said and "0 kernels, link acme" in said


# ---------------------------------------------------------------- pairs
def config_of(*rules):
    config = tf.ConfigProto()
    config.send_recv_pairs.extend(rules)
    return config


def shown(server, config=None, value=(1, 2, 3)):
    """What `explain` says of an exchange that was run."""
    x, y = exchange()
    with tf.Session(server.target, config=config) as sess:
        np.testing.assert_array_equal(sess.run(y, {x: value}), np.multiply(value, -3.0))
        return ways.explain(sess, y, {x: value})


def test_a_session_chooses_its_pairs(pair_plugin, two):
    net, acme = "1 tensor by _net.Send and _Recv over process", "1 tensor by acme.Send and acme.Recv\n"
    there, back = "worker/0 -> peer/0: ", "peer/0 -> worker/0: "
    plain = shown(two[0])
    assert there + net in plain and back + net in plain and plain.startswith("2 parts: ")
    both = shown(two[0], config_of("acme"))
    assert there + acme in both and back + acme in both
    one = shown(two[0], config_of("acme /job:worker /job:peer"))
    assert there + acme in one and back + net in one
    none = shown(two[0], config_of("net", "acme"))
    assert there + net in none and back + net in none
    elsewhere = shown(two[0], config_of("acme /job:ps /job:peer", "acme /device:GPU:* /device:GPU:*"))
    assert "acme.Send" not in elsewhere
    assert "not by acme: no entry of send_recv_pairs fits these devices" in elsewhere
    assert "CPU:0 to CPU:0" in elsewhere and "not by" not in plain + both + none


def test_a_program_registers_a_pair(pair_plugin, two):
    pairs.register_pair("mine", "acme.Send", "acme.Recv", source="/job:peer")
    try:
        text = shown(two[0])
        assert "peer/0 -> worker/0: 1 tensor by acme.Send" in text
        assert "worker/0 -> peer/0: 1 tensor by _net.Send" in text
        assert "acme" not in shown(two[0], config_of("net")), "a session says otherwise"
        assert "worker/0 -> peer/0" in shown(two[0], config_of("mine"))
        assert {"net", "mine", "acme"} <= set(pairs.known()), "acme is of plugin.json"
    finally:
        assert pairs.forget_pair("mine") and not pairs.forget_pair("mine")
    assert "acme" not in shown(two[0])


def test_bad_pairs(pair_plugin, two):
    with pytest.raises(ValueError, match="there is no op 'no.Send' in this process"):
        pairs.register_pair("a", "no.Send", "acme.Recv")
    with pytest.raises(ValueError, match="'acme.Recv' has not the signature of _Send: 1 inputs"):
        pairs.register_pair("a", "acme.Recv", "acme.Send")
    for name in ("net", "A", "", "a b"):
        with pytest.raises(ValueError, match="a pair's name is"):
            pairs.register_pair(name, "acme.Send", "acme.Recv")
    with pytest.raises(ValueError, match="device"):
        pairs.register_pair("a", "acme.Send", "acme.Recv", source="/jobs:worker")
    for rule, text in (("pigeon", "there is no pair 'pigeon', but acme"), ("acme /job:a", "expected NAME, or NAME SOURCE"),
                       ("acme /jobs:a /job:b", "send_recv_pairs: Unknown attribute"), ("", "no pair ''")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            tf.Session(two[0].target, config=config_of(rule))


def test_what_a_pair_cannot_carry_goes_by_net_and_a_task_without_it_is_named(pair_plugin):
    rows = _executor.kernels()
    with_it, without = KernelTable(rows), KernelTable([r for r in rows if not r["op"].startswith("acme.")])
    a, b = "/job:worker/replica:0/task:0/device:CPU:0", "/job:peer/replica:0/task:0/device:CPU:0"
    link = pairs.Choice(["acme"]).on(Devices([Device(a), Device(b, kernels=with_it)], with_it))
    assert link(a, b, tf.float32) == ("acme.Send", "acme.Recv")
    assert link(a, b, tf.string) == ("_net.Send", "_Recv")
    link = pairs.Choice(["acme"]).on(Devices([Device(a), Device(b, kernels=without)], with_it))
    with pytest.raises(tf.errors.InvalidArgumentError, match="/job:peer/replica:0/task:0 has no kernel of acme.Recv: install"):
        link(a, b, tf.float32)


def test_a_session_of_another_process_is_explained_by_its_server(pair_plugin, two):
    from pyflow.distributed.run import client
    x, y = exchange()
    place = client.place_of(two[0].target)
    for config, text in ((None, "_net.Send and _Recv over process"), (config_of("acme"), "by acme.Send and acme.Recv")):
        opened = place.open(contract.SessionOptions(tf.get_default_graph(), config))
        compiled = opened.compiler.compile([y], [], [x])
        assert text in compiled.plan.explain() and text in compiled.plan.explain()
        np.testing.assert_array_equal(compiled.run([np.float32([2])])[0], [-6])
        opened.state.close()


def test_the_command_explains_a_graph_for_a_cluster(two, tmp_path, capsys):
    from pyflow.tools import explain
    exchange()
    path = tmp_path / "graph.pb"
    path.write_bytes(tf.get_default_graph().as_graph_def().SerializeToString())
    for more in ([], ["--fetch", "Neg:0"]):
        assert explain.main([str(path), "--target", two[0].target, *more]) == 0
        assert "peer/0 -> worker/0: 1 tensor by _net.Send and _Recv over" in capsys.readouterr().out
    assert explain.main([str(path), "--target", two[0].address, "--fetch", "none:0"]) == 2
    assert "none" in capsys.readouterr().err


def test_dumps_show_the_ways(two, tmp_path, monkeypatch):
    monkeypatch.setenv("PYFLOW_DUMP", str(tmp_path))
    shown(two[0])
    [text] = [p.read_text() for p in tmp_path.glob("*/*-ways.txt")]
    assert text.startswith("2 parts: ") and "worker/0 -> peer/0: 1 tensor by _net.Send and _Recv over process" in text


# ---------------------------------------------------------------- bfloat16 on the wire
@pytest.fixture
def apart(two, monkeypatch):
    """The two servers, as if the peer were on another host."""
    real = two[1]._worker.status

    def status(*args):
        found = real(*args)
        found.boot = "another"
        return found
    monkeypatch.setattr(two[1]._worker, "status", status)
    return two


def narrow():
    config = tf.ConfigProto()
    config.graph_options.enable_bfloat16_sendrecv = True
    return config


def values():
    random = np.random.RandomState(3)
    spread = random.standard_normal(20_000) * 10.0 ** random.uniform(-37, 37, 20_000)
    return np.concatenate([spread, [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1 + 2**-8, 3.3895e38, 3.4e38, 1e-39, 3e-41, 1e-45]]).astype(np.float32)


def rounded(x):
    """The nearest bfloat16, ties to even, as ml_dtypes has it."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def test_floats_travel_as_bfloat16_between_hosts(apart):
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/job:worker/task:0"):
        here = tf.negative(x)
    with tf.device("/job:peer/task:0"):
        got = tf.negative(here)
    value = values()
    with tf.Session(apart[0].target, config=narrow()) as sess:
        found = sess.run(got, {x: value})
        text = ways.explain(sess, got, {x: value})
    np.testing.assert_array_equal(found, rounded(value))
    normal = np.isfinite(found) & (np.abs(value) >= 2.0**-126)
    with np.errstate(invalid="ignore"):
        error = np.abs(found.astype(np.float64) - value)
    assert 2.0**-9 < (error[normal] / np.abs(value[normal])).max() <= 2.0**-8
    assert 0 < error[np.abs(value) < 2.0**-126].max() <= 2.0**-134
    assert np.isinf(found[value == np.float32(3.4e38)]) and found[-5] == np.float32(3.3895314e38)
    assert "1 tensor by _net.Send and _Recv over process, 1 of them as bfloat16" in text and "float32 as bfloat16" in text


def test_what_stays_as_it_is(apart, two):
    """Fed and fetched values, other types, tasks of one host, sessions without the option."""
    x, d = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float64, [None])
    with tf.device("/job:peer/task:0"):
        fed, fetched = x * 1.0, tf.identity(x) * 2.0
        with tf.control_dependencies([fed]):
            wide = d * 1.0
    with tf.device("/job:worker/task:0"):
        with tf.control_dependencies([fetched]):
            same = wide + 0.0
    value = np.float32([1 + 2**-20, 3.14159])
    with tf.Session(apart[0].target, config=narrow()) as sess:
        a, b, c = sess.run([fed, fetched, same], {x: value, d: value})
        np.testing.assert_array_equal(a, value)
        np.testing.assert_array_equal(b, value * 2)
        np.testing.assert_array_equal(c, value.astype(np.float64))
        text = ways.explain(sess, [fed, fetched, same], {x: value, d: value})
        assert "bfloat16" not in text, text
    assert "bfloat16" not in shown(apart[0])


def test_off_on_one_host(two):
    assert "bfloat16" not in shown(two[0], narrow(), (1 + 2**-20, 2.5))


def test_bfloat16_through_loops_branches_and_variables(apart):
    """The casts are in the loop with their pair: the result is that of rounding at each crossing."""
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:peer/task:0"):
        v = tf.Variable(1.0 + 2**-9)
        read = v.read_value() if hasattr(v, "read_value") else v + 0.0

    def body(i, a):
        with tf.device("/job:peer/task:0"):
            b = a * 1.0078125
        with tf.device("/job:worker/task:0"):
            return i + 1, tf.cond(i > 2, lambda: b + 1.0, lambda: b)
    with tf.device("/job:worker/task:0"):
        _, y = tf.while_loop(lambda i, a: i < 5, body, [0, x])
        z = read * 2.0

    def near(value):
        return rounded(np.float32([value]))[0]
    expected = np.float32(1.2345)
    for k in range(5):
        expected = near(near(expected) * np.float32(1.0078125)) + np.float32(k > 2)
    with tf.Session(apart[0].target, config=narrow()) as sess:
        sess.run(v.initializer)
        found = sess.run([y, z], {x: 1.2345})
        assert found[0] == expected and found[1] == 2 * near(1 + 2**-9)
        assert sess.run(v) == np.float32(1 + 2**-9), "a fetch is as it is"


@pytest.mark.long       # test_conformance.py has loops and branches, too
def test_random_graphs_over_the_foreign_pair(pair_plugin, tmp_path):
    """Three servers, all that goes between them by acme.Send and acme.Recv: as the naive interpreter."""
    import fuzz_graphs
    pairs.register_pair("mine", "acme.Send", "acme.Recv")
    try:
        assert fuzz_graphs.main(str(tmp_path), 3, 150, None, 1, None, False, None, 1, None) == 0
    finally:
        pairs.forget_pair("mine")


# ---------------------------------------------------------------- wheels
@pytest.mark.long       # test_conformance.py runs the same plugins, compiled without their build systems
def test_wheels_of_third_parties_pass_the_same_tests(tmp_path):
    """Built from the released headers alone, installed by pip into a folder, found by their entry points."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    for name in ("link", "pair"):
        project = foreign.copied(name, tmp_path / name)
        foreign.ran([*pip, "wheel", project, "--no-deps", "--no-build-isolation", "-w", tmp_path / "dist",
                     f"-Csetup-args=-Dpyflow_include={foreign.include()}"], PATH=path)
    wheels = sorted((tmp_path / "dist").glob("*.whl"))
    assert len(wheels) == 2
    foreign.ran([*pip, "install", "--no-deps", "--no-index", "--target", tmp_path / "site", *wheels])
    said = foreign.ran([sys.executable, "-P", "-m", "pytest", "-rA", "-p", "no:cacheprovider",
                        foreign.HERE.parent / "conformance.py"],
                       CONFORMANCE="link=acme pair=acme", PYTHONPATH=os.pathsep.join(
                           [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]),
                       PYFLOW_PLUGIN_PROBE="0")
    assert "FAILED" not in said
    for way in ("[link_acme", "[pair_acme"):
        assert sum(line.startswith("PASSED") and way in line for line in said.splitlines()) >= 13
