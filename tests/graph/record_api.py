"""Records what TensorFlow 1.15's public names are, into tf_api.json, a row a name: [kind, arguments]
of functions and classes, [kind] of modules and values.  Needs TensorFlow 1.15, not pyflow.

    PYTHONPATH=. python tests/graph/test_api.py > asked.json          # the names that pyflow has
    python tests/graph/record_api.py asked.json                       # TensorFlow 1.15

Arguments are a text, "x, axis=None, *args, **kwargs"; a default that is no plain value is written
<name of it or of its class>, a dtype tf.float32.
"""
import inspect
import json
import pathlib
import sys
import types
import warnings

import tensorflow as tf
import tensorflow.contrib  # noqa: F401 - loads it

PATH = pathlib.Path(__file__).resolve().parent / "tf_api.json"


def kind_of(value):
    if isinstance(value, types.ModuleType) or type(value).__name__ in (
            "TFModuleWrapper", "LazyLoader", "DeprecationWrapper"):
        return "module"
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else "value"


def default_text(value):
    if isinstance(value, tf.DType):
        return f"tf.{value.name}"
    if value is None or isinstance(value, (bool, int, float, str, tuple, list, dict)):
        return repr(value)
    return f"<{getattr(value, '__name__', type(value).__name__)}>"


def arguments_of(value):
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return ", ".join(
        stars.get(p.kind, "") + p.name
        + ("" if p.default is p.empty else f"={default_text(p.default)}") for p in parameters)


def main(path):
    warnings.simplefilter("ignore")
    rows = {}
    for name in json.loads(pathlib.Path(path).read_text()):
        value = tf
        try:
            for part in name.split("."):
                value = getattr(value, part)
        except AttributeError:
            continue
        kind = kind_of(value)
        rows[name] = [kind, arguments_of(value)] if kind in ("function", "class") else [kind]
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
    PATH.write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
