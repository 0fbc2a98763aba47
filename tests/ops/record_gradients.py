"""Records for which ops TensorFlow has a gradient, into tf_gradients.json.  Needs TensorFlow.

    python -c "import pyflow, pyflow.framework.op as o; print(*o.registered_ops())" > names
    .venv-tf/bin/python tests/ops/record_gradients.py $(cat names)

One list of op names for each of "gradient" (a function is registered), "none" (it is declared not
differentiable, or its function returns None for every input) and "error" (nothing is registered:
tf.gradients raises LookupError).  Ops that TensorFlow does not have are left out.
"""
import ast
import inspect
import json
import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent


def gives_none(function):
    """Every `return` of the function is None or a list of None."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    leaves = [leaf for value in values
              for leaf in (value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])]
    return bool(leaves) and all(isinstance(leaf, ast.Constant) and leaf.value is None
                                for leaf in leaves)


def record(names):
    import tensorflow.compat.v1  # noqa: F401 - registers the gradients
    from tensorflow.python.framework import op_def_registry, ops
    found = {"gradient": [], "none": [], "error": []}
    for name in sorted(names):
        if op_def_registry.get(name) is None:
            continue
        try:
            function = ops.gradient_registry.lookup(name)
        except LookupError:
            found["error"].append(name)
        else:
            found["none" if function is None or gives_none(function) else "gradient"].append(name)
    text = ",\n".join(f"{json.dumps(kind)}:\n" + "\n".join(
        textwrap.wrap(json.dumps(ops), 100)) for kind, ops in found.items())
    (HERE / "tf_gradients.json").write_text("{" + text + "}\n")
    print({kind: len(ops) for kind, ops in found.items()})


if __name__ == "__main__":
    record(sys.argv[1:])
