"""Records MetaGraphDefs of TensorFlow 1.15.5 with what they give, and gradients that are made after
an import, into recorded.json.gz.

    PYTHON-WITH-TF-1.15.5 tests/exchange/record.py
"""
import base64
import gzip
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs  # noqa: E402
import recording  # noqa: E402
import write  # noqa: E402

RECORDED = programs.HERE / "recorded.json.gz"
CASES = set(
    "fractional_max_plain flow_while loop call_in_a_loop no_arguments_no_results "
    "rnn mapped scanned nested_loops branch_in_loop loop_in_branch three_loops_deep "
    "arrays_of_unknown_size loop_in_branch_in_loop loop_of_lookups one_of_many "
    "parallel_map older_parallel_interleave map_and_batch_in_parallel shuffled_and_repeated "
    "random_numbers optionals reinitializable with_variables_and_tables batches producers "
    "words_in_tables examples_parsed".split())


def own(tf, tools):
    """What other programs of the sample have not: accumulators, functions with gradients."""
    total = tf.ConditionalAccumulator(tf.float32, [2], name="total")
    x = tf.placeholder(tf.float32, [2], name="x")
    add, mean = total.apply_grad(x), total.take_grad(1)

    @tools.function.Defun(tf.float32, tf.float32, func_name="FiveOf")
    def five(x, dy):
        return 5.0 * x * dy

    @tools.function.Defun(tf.float32, grad_func=five, func_name="SquareWithFive")
    def square(x):
        return x * x

    y = tf.identity(square(x), name="y")
    with tf.Session() as session:
        session.run(add, {x: [1.0, 2.0]})
        session.run(mean)
        session.run(y, {x: [3.0, -1.0]})


def plain(value):
    """Bytes as text for JSON."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {"dict": [[k, plain(v)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def back(value):
    if isinstance(value, dict) and "bytes" in value:
        return base64.b64decode(value["bytes"])
    if isinstance(value, dict):
        return {k: back(v) for k, v in value["dict"]}
    if isinstance(value, list):
        return [back(v) for v in value]
    return value


def main():
    tf = recording.library("tensorflow")
    chosen = {name: program for name, program in programs.all_programs(tf, None).items()
              if name.partition(":")[2] in CASES and not name.startswith(("reader:", "failing:"))}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        tools = write.Tools(tf, "tensorflow", folder)
        for name, program in {"own": own, **chosen}.items():
            found[name] = dict(write.written(tf, tools, program), saved=[])
            if isinstance(found[name]["gradients"], str):
                found[name]["gradients"] = None
    text = json.dumps(plain({"version": tf.__version__, "programs": found}), sort_keys=True)
    RECORDED.write_bytes(gzip.compress(text.encode()))
    print(len(found), "graphs:", *found)


if __name__ == "__main__":
    main()
