"""Records what the names in TensorFlow's modules are, into tf_modules.json, a row a module:
{module: {kind: names}}, kind "function", "class", "module", "value", or "op" for a function of
gen_*_ops.  Needs TensorFlow 1.15, not pyflow.

    PYTHONPATH=. python tests/porting/test_module_tables.py > asked.json        # pyflow's names
    python tests/porting/record_modules.py asked.json                           # TensorFlow 1.15
"""
import importlib
import inspect
import json
import pathlib
import sys
import types

import tensorflow as tf
import tensorflow.contrib  # noqa: F401 - loads its modules

tf.logging.set_verbosity("ERROR")


def kind_of(value):
    if isinstance(value, types.ModuleType) or type(value).__name__ in (
            "TFModuleWrapper", "LazyLoader", "DeprecationWrapper"):
        return "module"
    if inspect.isclass(value):
        return "class"
    if callable(value):
        return "op" if ".gen_" in (getattr(value, "__module__", None) or "") else "function"
    return "value"


def main(path):
    rows = {}
    for name, names in json.loads(pathlib.Path(path).read_text()).items():
        try:
            module = importlib.import_module(f"tensorflow.{name}")
        except ImportError:
            continue
        kinds = {}
        for each in names:
            if hasattr(module, each):
                kinds.setdefault(kind_of(getattr(module, each)), []).append(each)
        if kinds:
            rows[name] = {kind: " ".join(sorted(found)) for kind, found in sorted(kinds.items())}
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
    (pathlib.Path(__file__).parent / "tf_modules.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
