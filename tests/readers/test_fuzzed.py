"""The kernels of parse_example on mutated messages, compiled with ASan and UBSan: no byte beside a
message or an output is touched.  Longer: fuzz_parsing COUNT SEED SEEDS..."""
import pathlib
import shutil
import subprocess

import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNELS = ROOT / "plugins" / "cpu" / "kernels"
FLAGS = ["-std=gnu11", "-O0", "-w", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", f"-I{ROOT / 'include'}", f"-I{KERNELS}"]
SOURCES = ["example", "features", "parse_example", "parse_sequence"]


def seeds(folder):
    """An Example and a SequenceExample that have what the target asks for."""
    def feature(values):
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    named = {"i": [1, -1, 300], "f": [0.5, 2.0], "s": [b"", b"xyz"], "d": [7, 8],
             "e": [b"a", b"b", b"c", b"d"], "r": [5], "q": [1.5]}
    features = tf.train.Features(feature={k: feature(v) for k, v in named.items()})
    lists = tf.train.FeatureLists(feature_list={
        "f": tf.train.FeatureList(feature=[feature([0.5]), feature([1.0, 2.0])]),
        "s": tf.train.FeatureList(feature=[feature([b"u", b"v"]), tf.train.Feature()]),
        "d": tf.train.FeatureList(feature=[feature([1, 2]), feature([3, 4])]),
        "r": tf.train.FeatureList(feature=[feature([9, 9])])})
    messages = [tf.train.Example(features=features),
                tf.train.SequenceExample(context=features, feature_lists=lists)]
    for i, message in enumerate(messages):
        file = folder / f"seed{i}"
        file.write_bytes(message.SerializeToString())
        yield str(file)


def test_mutated_messages(tmp_path):
    compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    target = tmp_path / "fuzz_parsing"
    built = subprocess.run([compiler, *FLAGS, str(HERE / "fuzz_parsing.c"), *(
        str(KERNELS / "parsing" / f"{name}.c") for name in SOURCES), "-o", str(target)],
        capture_output=True, text=True)
    if "asan" in built.stderr and built.returncode:
        pytest.skip("this compiler has no sanitizers")
    assert not built.returncode, built.stderr
    ran = subprocess.run([str(target), "600", "1", *seeds(tmp_path)], capture_output=True,
                         text=True, timeout=300)
    assert not ran.returncode, ran.stderr[-4000:]
    calls, succeeded = (int(word) for word in ran.stdout.split() if word.isdigit())
    assert calls == 2400 and succeeded > 100, ran.stdout
