"""Plugins: found through installed distributions only, read before they are opened, quarantined if
they fail.

Each test runs a process of its own with a folder of made-up distributions on its path.
"""
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap

import pytest

import pyflow as tf
from pyflow import plugins

SOURCE = r"""
#include <pyflow/kernel.h>
static const pf_host *host;
static pf_status infer(pf_infer *in) {
  const int64_t *dims; int32_t n;
  host->infer_dims(in, 0, &dims, &n);
  return host->infer_set(in, 0, dims, n);
}
typedef struct { double factor; } state;
static pf_status compute(pf_ctx *c, const void *s) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  float *out = PF_DATA(float, y); const float *x = PF_DATA(float, c->in[0]);
  for (int64_t i = 0; i < pf_numel(y); i++) out[i] = (float)(((const state *)s)->factor * x[i]);
  return PF_OK;
}
static const pf_op scale = {.size = sizeof scale, .name = "ID.Scale", .infer = infer,
                            .sig = "x: float -> y: float; factor: float = 2.0"};
static const pf_attr *const attrs[] = {PF_ATTR(state, PF_ATTR_FLOAT, factor), 0};
static const pf_kernel kernel = {.size = sizeof kernel, .op = "ID.Scale", .device = "CPU",
                                 .attrs = attrs, .state_size = sizeof(state), .compute = compute};
static pf_status start(const pf_host *h) { return START; }
static const pf_op *const ops[] = {&scale, 0};
static const pf_kernel *const kernels[] = {&kernel, 0};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.ID", .version = "1.0",
                                 .ops = ops, .kernels = kernels, .start = start,
                                 .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { host = h; return RETURN; }
"""


def include():
    return tf.sysconfig.get_include()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A function that builds a plugin's library, once per variant."""
    folder, done = tmp_path_factory.mktemp("plugin_build"), {}
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    compiler = shutil.which(compiler) or shutil.which("cc")

    def build(ident="acme", start="PF_OK", returns="&plugin"):
        key = (ident, start, returns)
        if key not in done:
            source = folder / f"{len(done)}.c"
            source.write_text(
                SOURCE.replace("ID", ident).replace("START", start).replace("RETURN", returns)
            )
            done[key] = folder / f"lib{len(done)}.so"
            subprocess.run(
                [
                    compiler,
                    "-shared",
                    "-fPIC",
                    "-O1",
                    "-std=c11",
                    f"-I{include()}",
                    str(source),
                    "-o",
                    str(done[key]),
                ],
                check=True,
            )
        return done[key]
    return build


def install(site, name, binary=None, entry=True, **description):
    """Puts a made-up distribution into the folder `site`."""
    package, info = site / name, site / f"{name}-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    if entry:
        (info / "entry_points.txt").write_text(f"[pyflow.plugins]\n{name} = {name}\n")
    (package / "__init__.py").write_text("raise SystemExit('no Python of a plugin runs')\n")
    text = {
        "id": f"com.{name}",
        "version": "1.0",
        "abi": [1, 0],
        "min_minor": 0,
        "library": f"lib{name}.so",
        "preload": [],
        **description,
    }
    (package / "plugin.json").write_text(json.dumps(text))
    if binary is not None:
        shutil.copy(binary, package / f"lib{name}.so")
    return package


def python(code, *path, cwd=None):
    """stdout and stderr of a new process with `path` before everything else."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(str(p) for p in path))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=env,
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_plugin_is_found_and_used_from_python(tmp_path, built):
    install(tmp_path, "acme", built())
    out, err = python("""
        import numpy as np, pyflow as tf
        scale = tf.plugins.op("acme.Scale")
        @tf.RegisterGradient("acme.Scale")
        def _(op, dy):
            return scale(dy, factor=op.get_attr("factor"))
        x = tf.placeholder(tf.float32, [2, 3])
        y = scale(x, factor=3.0)
        assert y.shape == [2, 3]
        assert tf.plugin_ops.acme_Scale is scale and tf.plugin_ops.scale is scale
        dx = tf.gradients(y, x)[0]
        with tf.Session() as sess:
            got = sess.run([y, dx, scale(x)], {x: np.ones((2, 3))})
        print([float(g.sum()) for g in got])
        """, tmp_path)
    assert out == "[18.0, 18.0, 12.0]" and not err


def test_importing_looks_at_nothing(tmp_path):
    install(tmp_path, "acme")
    out, err = python(
        "import pyflow, sys; print('importlib.metadata' in sys.modules, '_cffi_backend' in"
        " sys.modules)",
        tmp_path,
    )
    assert out == "False False" and not err


CASES = {
    "newer": (
        dict(abi=[2, 3], min_minor=3),
        "needs v2.3 of the kernel ABI, this host offers v1.4: install a newer pyflow",
    ),
    "minor": (dict(min_minor=7), "needs v1.7 of the kernel ABI, this host offers v1.4"),
    "missing": ({}, "cannot be opened"),
    "outside": (dict(library="../../evil.so"), "must be a bare file name"),
    "malformed": (dict(abi="x"), "plugin.json of 'malformed' is malformed"),
}


def test_failing_plugins_are_quarantined_and_the_others_work(tmp_path, built):
    for name, (description, _) in CASES.items():
        install(tmp_path, name, **description)
    install(tmp_path, "nojson").joinpath("plugin.json").unlink()
    install(tmp_path, "null", built(returns="0"))
    install(tmp_path, "nostart", built(ident="nostart", start="PF_INTERNAL"))
    install(tmp_path, "good", built(ident="good"))
    install(tmp_path, "gone")
    shutil.rmtree(tmp_path / "gone")
    out, err = python("""
        import pyflow as tf
        with tf.Session() as sess:
            print(sess.run(tf.plugins.op("good.Scale")([1.0, 2.0])).tolist())
        print(sorted(p.origin.split()[0] for p in tf.plugins.load_all() if p.problem))
        try:
            tf.plugins.op("newer.Thing")
        except tf.errors.NotFoundError as e:
            assert "needs v2.3" in str(e), e
        """, tmp_path)
    first, second = out.splitlines()
    assert first == "[2.0, 4.0]"
    assert second == str(sorted([*CASES, "gone", "nojson", "null", "nostart"]))
    for _, expected in CASES.values():
        assert expected in err
    assert "returned no tables" in err and "package 'gone' is not installed" in err


def test_two_plugins_of_one_id(tmp_path, built):
    install(tmp_path, "one", built(), id="com.acme")
    install(tmp_path, "two", built(), id="com.acme")
    out, err = python(
        "import pyflow as tf; print([p.problem is None for p in tf.plugins.load_all() "
        "if p.id == 'com.acme'])",
        tmp_path,
    )
    assert out == "[True, False]" and "is in use already" in err


def test_the_working_directory_is_never_searched(tmp_path, built):
    install(tmp_path, "acme", built())
    out, _ = python(
        "import pyflow as tf; tf.Session(); print([p.origin for p in tf.plugins.load_all()])",
        cwd=tmp_path,
    )
    assert "acme" not in out
    shadow = tmp_path / "elsewhere"
    install(shadow, "pyflow_cpu", built(ident="evil"), entry=False)
    out, _ = python(
        "import pyflow as tf; tf.Session(); print([p.id for p in tf.plugins.load_all()])",
        cwd=shadow,
    )
    assert "evil" not in out


def test_the_same_from_a_script(tmp_path, built):
    """sys.path[0] is the script's folder, which is not the working directory: that is the user's
    own code."""
    install(tmp_path / "site", "acme", built())
    script = tmp_path / "main.py"
    script.write_text(
        "import pyflow as tf\ntf.Session()\nprint([p.origin for p in tf.plugins.load_all()])\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path / "site",
        env=env,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0 and "acme" not in done.stdout, done.stderr


def test_load_library(tmp_path, built):
    library = built(ident="byhand")
    out, _ = python(f"""
        import pyflow as tf
        ops = tf.load_op_library({str(library)!r})
        with tf.Session() as sess:
            print(sess.run(ops.scale([1.5])).tolist(), dir(ops))
        try:
            tf.load_op_library("relative.so")
        except tf.plugins.PluginError as e:
            print("absolute" in str(e))
        """)
    assert out.splitlines() == ["[3.0] ['byhand_Scale', 'scale']", "True"]


def test_unknown_plugin_op_names_near_ones():
    with pytest.raises(
        tf.errors.NotFoundError, match="no installed plugin declares op 'acme.Nope'"
    ):
        plugins.op("acme.Nope")


def test_host_version_is_the_headers():
    text = open(os.path.join(include(), "pyflow", "kernel.h"), encoding="utf-8").read()
    found = re.search(r"PF_ABI_MAJOR = (\d+), PF_ABI_MINOR = (\d+)", text)
    assert tuple(int(x) for x in found.groups()) == plugins.HOST_ABI


def test_our_own_kernels_are_a_plugin_like_any_other(caplog):
    with caplog.at_level(logging.WARNING):
        found = [p for p in plugins.load_all() if "pyflow_cpu" in p.origin]
    assert len(found) == 1 and found[0].problem is None and found[0].description["kernels"]


def test_deterministic_refuses_kernels_that_do_not_promise_it(tmp_path, built):
    install(tmp_path, "acme", built())
    out, _ = python("""
        import pyflow as tf
        y = tf.plugins.op("acme.Scale")([1.0], name="careless")
        with tf.Session(deterministic=True) as sess:
            try:
                sess.run(y)
            except tf.errors.InvalidArgumentError as e:
                print("'careless' (acme.Scale" in str(e) and "deterministic=True" in str(e))
        """, tmp_path)
    assert out == "True"


def test_an_imported_graph_finds_plugin_ops_before_any_session(tmp_path, built):
    install(tmp_path, "acme", built())
    out, _ = python("""
        import pyflow as tf
        with tf.Graph().as_default() as g:
            tf.plugins.op("acme.Scale")([1.0, 2.0], name="y")
        open("g.pb", "wb").write(g.as_graph_def().SerializeToString())
        """, tmp_path, cwd=tmp_path)
    out, _ = python("""
        import pyflow as tf
        definition = tf.GraphDef.FromString(open("g.pb", "rb").read())
        (y,) = tf.import_graph_def(definition, return_elements=["y:0"], name="")
        with tf.Session() as sess:
            print(sess.run(y).tolist(), tf.raw_ops.Add is not None)
        """, tmp_path, cwd=tmp_path)
    assert out == "[2.0, 4.0] True"
