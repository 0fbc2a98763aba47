"""The C runtime on another machine, emulated: what compile_all.py compiled is linked and run.

    python tests/portability/run_emulated.py BUILD [COMPILER [EMULATOR...]]

by default aarch64-linux-gnu-gcc and `qemu-aarch64-static -L /usr/aarch64-linux-gnu`.  Two programs,
their graphs written by the pyflow installed here: the digit classifier of
examples/02_without_python, whose logits must be Python's, and the cases of tests/oracle, whose
values must be those recorded from TensorFlow.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / "examples" / "02_without_python")]

import cases  # noqa: E402
import freeze  # noqa: E402
import test_oracle as oracle  # noqa: E402

import pyflow as tf  # noqa: E402

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]
IMAGES, CASES = 60, 200                # emulated, an image takes about 20 ms
# Kernels written in Python (session/runtime.py), which the C runtime has not.
IN_PYTHON = ("Decode", "Encode", "ExtractJpeg", "StringLower", "StringUpper", "PyFunc")


def run(*command, **options):
    subprocess.run([str(c) for c in command], check=True, **options)


def link(build, compiler, folder):
    """-> (the plugin, function that compiles a C file to a program)"""
    objects = build / "portable" / compiler
    runtime, plugin = folder / "libpyflow_rt.so", folder / "libpyflow_cpu.so"
    for target, where in (runtime, "_executor"), (plugin, "plugins/cpu"):
        parts = sorted((objects / where).rglob("*.o"))
        if not parts:
            raise SystemExit(f"no objects in {objects / where}: run compile_all.py with {compiler} first")
        run(compiler, "-shared", "-o", target, *parts, "-Wl,--gc-sections", "-Wl,-z,defs", "-lm",
            "-lpthread", "-ldl")

    def program(source):
        made = folder / source.stem
        run(compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-I", ROOT / "include", source, "-o", made,
            f"-L{folder}", "-lpyflow_rt", "-Wl,-rpath,$ORIGIN")
        return made
    return plugin, program


def digits(folder, plugin, program, emulator):
    images, labels, wanted = freeze.train_and_freeze(folder / "digits.pb")
    images[:IMAGES].tofile(folder / "images.bin")
    run(*emulator, program(ROOT / "examples/02_without_python/main.c"), plugin, "digits.pb", "images.bin",
        "logits.bin", 2, cwd=folder)
    found = np.fromfile(folder / "logits.bin", np.float32).reshape(-1, 10)
    np.testing.assert_allclose(found, wanted[:IMAGES], rtol=1e-4, atol=1e-4)
    right = (found.argmax(1) == labels[:IMAGES]).mean()
    assert right > 0.95, right
    print(f"digits: {IMAGES} images, {right:.1%} right, logits as Python's")


def recorded():
    """A graph of CASES of the oracle's expressions; -> {tensor: answer}, their inputs constants."""
    wanted = {}
    for case in cases.load_all()[0]:
        if len(wanted) >= CASES:
            break
        before = tf.get_default_graph().as_graph_def()
        known = {n.name for n in before.node}
        with tf.name_scope(f"case{len(known)}"):
            given = [tf.constant(x, shape=x.shape) for x in cases.arrays(case)]
            found = case.function(tf, *given)
            outputs = [tf.identity(y) for y in (found if isinstance(found, (list, tuple)) else [found])]
        added = [n.op for n in tf.get_default_graph().as_graph_def().node if n.name not in known]
        if not any(op.startswith(IN_PYTHON) for op in added) and all(y.dtype != tf.string for y in outputs):
            wanted.update({y.name: oracle.ANSWERS[f"{case.name}/out{i}"] for i, y in enumerate(outputs)})
    return wanted


def read(path, names):
    """What values.c wrote."""
    data, at = path.read_bytes(), 0
    for name in names:
        kind, rank = np.frombuffer(data, np.int64, 2, at)
        shape = np.frombuffer(data, np.int64, rank, at + 16)
        dtype = tf.as_dtype(int(kind)).as_numpy_dtype
        at += 16 + 8 * rank
        value = np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape)
        at += value.nbytes
        yield name, value
    assert at == len(data)


def values(folder, plugin, program, emulator):
    with tf.Graph().as_default() as graph:
        wanted = recorded()
        (folder / "values.pb").write_bytes(graph.as_graph_def().SerializeToString())
    (folder / "names").write_text("".join(f"{name}\n" for name in wanted))
    run(*emulator, program(HERE / "values.c"), plugin, "values.pb", "names", "values.bin", cwd=folder)
    for name, value in read(folder / "values.bin", wanted):
        oracle.check(value, wanted[name], name)
    assert len(wanted) >= CASES
    print(f"kernels: {len(wanted)} values as recorded from TensorFlow")


def main(build, compiler=COMPILER, *emulator):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        plugin, program = link(pathlib.Path(build).resolve(), compiler, folder)
        for part in digits, values:
            part(folder, plugin, program, emulator or (EMULATOR if compiler == COMPILER else []))


if __name__ == "__main__":
    main(*sys.argv[1:])
