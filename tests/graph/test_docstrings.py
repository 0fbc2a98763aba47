"""Everything public in `tf` says what it is; ops and functions of tensors say shapes, dtypes, errors.

A function of tensors has in its docstring one of

    Dtypes, shapes, errors: as op GatherV2.          (`python -m pyflow op GatherV2` prints them)
    x: floats [batch, n]; ... ValueError for shapes that do not fit.         (words of its own)

In the first case its code must use that op; in the second there are words for each of the three.
"""
import dis
import inspect
import re
import types

import pyflow as tf
from pyflow import _names
from pyflow.framework import op as op_lib

HEADINGS = ("Dtypes:", "Shapes:", "Raises:", "Source:")


def public(module=tf, prefix="tf."):
    """{dotted name: value} of tf and its namespaces."""
    found = {}
    for name in dir(module):
        if name.startswith("_") or name in ("compat", "v1", "raw_ops"):
            continue
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            path = f"{prefix}{name}".removeprefix("tf.")
            if path in _names.NAMESPACES or path in _names.LAZY:
                found.update(public(value, f"{prefix}{name}."))
        elif (getattr(value, "__module__", "") or "").startswith("pyflow"):
            found[prefix + name] = value
    return found


NAMES = public()
FUNCTIONS = {}                                  # function: its first name
for _name, _value in NAMES.items():
    if inspect.isfunction(_value):
        FUNCTIONS.setdefault(_value, _name)
OF_TENSORS = ("pyflow.ops.", "pyflow.lib.", "pyflow.gradients.", "pyflow.framework.convert",
              "pyflow.framework.constant", "pyflow.framework.static_value",
              "pyflow.train.learning_rate_decay")
NEITHER_TAKE_NOR_RETURN_TENSORS = set("""
    tf.all_variables tf.enable_resource_variables tf.fixed_size_partitioner tf.get_variable_scope
    tf.global_variables_initializer tf.initialize_local_variables tf.initialize_variables
    tf.local_variables tf.model_variables tf.moving_average_variables tf.no_regularizer
    tf.register_tensor_conversion_function tf.resource_variables_enabled tf.trainable_variables
    tf.contrib.tensorboard.plugins.projector.visualize_embeddings tf.io.tf_record_iterator
    tf.summary.get_summary_description tf.train.summary_iterator tf.variable_op_scope""".split())
WORDS = {
    "shapes (or ranks, [batch, n], a scalar, ...)": re.compile(
        r"\bshapes?\b|\bscalar|\bvector|\brank\b|\[[\w., *+:?-]+\]|\bdimension", re.I),
    "dtypes (or floats, ints, numbers, bool, strings, any dtype, ...)": re.compile(
        r"\bdtypes?\b|\bfloat|\bint(?:eger)?s?\b|\bbool|\bstring|\bnumber|\bcomplex", re.I),
    "errors (ValueError for ..., or `never an error`)": re.compile(r"\w+Error\b|\berrors?\b"),
}
AS_OPS = re.compile(r"Dtypes, shapes, errors: as ops? ([\w, ]+?)[.;]")


def used_by(code_of):
    """OpDefs and pyflow's functions that a function's code, or what it encloses, mentions."""
    codes, names = [code_of.__code__], code_of.__globals__
    for cell in code_of.__closure__ or ():
        yield cell.cell_contents
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        instructions = list(dis.get_instructions(code))
        for this, following in zip(instructions, instructions[1:]):
            if this.opname == "LOAD_GLOBAL":
                value = names.get(this.argval)
                yield value
                if isinstance(value, types.ModuleType) or value is op_lib.raw_ops:
                    yield getattr(value, str(following.argval), None)


def ops_of(function, depth=3):
    """Names of the ops that a function's code uses, itself or by functions it calls."""
    found, seen, level = set(), {function}, [function]
    for _ in range(depth):
        values = [v for f in level for v in used_by(f)]
        found |= {v.name for v in values if isinstance(v, op_lib.OpDef)}
        level = {v for v in values if inspect.isfunction(v) and v not in seen
                 and v.__module__.startswith("pyflow.")}
        seen |= level
    return found


def lacks(name, function):
    """What the docstring of a function of tensors does not say, in words; "" if it is complete."""
    text = inspect.getdoc(function) or ""
    named = AS_OPS.search(re.sub(r"\s+", " ", text))
    if named:
        wanted = set(re.split(r", | and ", named.group(1)))
        missing = wanted - ops_of(function)
        return f"it names ops that its code does not use: {sorted(missing)}" if missing else ""
    return "no word of " + ", ".join(missing) if (
        missing := [what for what, words in WORDS.items() if not words.search(text)]) else ""


def test_there_is_much_to_look_at():
    assert len(NAMES) > 600 and "tf.nn.relu" in NAMES and "tf.train.Saver" in NAMES


def test_functions_and_classes_have_docstrings():
    missing = [name for name, value in NAMES.items()
               if (inspect.isfunction(value) or inspect.isclass(value))
               and not (inspect.getdoc(value) or "").strip()]
    assert not missing, missing


def test_functions_of_tensors_say_shapes_dtypes_and_errors():
    assert sum(f.__module__.startswith(OF_TENSORS) for f in FUNCTIONS) > 300
    found = {name: lacks(name, function) for function, name in FUNCTIONS.items()
             if function.__module__.startswith(OF_TENSORS)
             and name not in NEITHER_TAKE_NOR_RETURN_TENSORS and ".nest." not in name}
    wrong = [f"{name} ({NAMES[name].__module__}): {what}" for name, what in found.items() if what]
    assert not wrong, ("add to these docstrings `Dtypes, shapes, errors: as op X.` or a sentence "
                       "like `x: floats [batch, n]. ValueError for shapes that do not fit.`:\n"
                       + "\n".join(wrong))


# Arguments of windows, which nobody guesses: what they mean stands in these, or one is named that
# says it (`as nn.conv2d's`).
EXPLAINED = {"nn.conv2d": ("(size - filter) //", "ceil(size / stride)", "how far a window moves"),
             "nn.max_pool": ("windows inside the image", "ceil(size / stride)", "how far it moves"),
             "image.extract_image_patches": ("windows inside", "ceil(size /", "how far it moves")}
OF_WINDOWS = {"padding", "stride", "strides"}


def test_functions_of_windows_explain_strides_and_padding():
    explained = {inspect.getdoc(NAMES[f"tf.{name}"]): parts for name, parts in EXPLAINED.items()}
    for text, parts in explained.items():
        assert all(part in re.sub(r"\s+", " ", text) for part in parts), text
    seen = 0
    for function, name in FUNCTIONS.items():
        asked = OF_WINDOWS & set(inspect.signature(function).parameters)
        if "padding" not in asked or name in ("tf.nn.with_space_to_batch",):
            continue                                # that one takes no window, but a function
        text, seen = inspect.getdoc(function), seen + 1
        assert not [word for word in asked if not re.search(rf"\b{word}\b", text)], name
        while text not in explained:
            named = re.search(r"as (nn\.\w+|image\.\w+)'s", re.sub(r"\s+", " ", text))
            assert named, f"{name}: neither explains its strides and padding nor names who does"
            text = inspect.getdoc(NAMES[f"tf.{named[1]}"])
    assert seen > 30


def methods():
    """(where, object) of the public methods and properties of public classes, each once."""
    seen = set()
    for name, value in NAMES.items():
        for base in value.__mro__ if inspect.isclass(value) else ():
            for key, member in vars(base).items():
                known = (base, key) in seen or not base.__module__.startswith("pyflow")
                plain = inspect.unwrap(getattr(member, "__func__", member))
                if not known and not key.startswith("_") and (
                        inspect.isfunction(plain) or isinstance(plain, property)):
                    seen.add((base, key))
                    yield f"{name}.{key} ({base.__module__})", getattr(value, key)


def test_methods_and_properties_have_docstrings():
    found = list(methods())
    assert len(found) > 300
    missing = [where for where, member in found if not (inspect.getdoc(member) or "").strip()]
    assert not missing, "write a docstring, one line will do, for:\n" + "\n".join(missing)


def test_a_reader_would_notice():
    """The checks find what is missing."""
    def bare(x):
        """Twice x."""
        return tf.add(x, x)

    def wrong(x):
        """Twice x. Dtypes, shapes, errors: as op MatMul."""
        return tf.add(x, x)
    assert "shapes" in lacks("bare", bare) and "errors" in lacks("bare", bare)
    assert "MatMul" in lacks("wrong", wrong)
    assert not lacks("tf.gather", tf.gather)


def test_ops_say_dtypes_shapes_errors_and_source():
    ops = {name: value for name, value in NAMES.items() if isinstance(value, op_lib.OpDef)}
    assert len(ops) > 150
    for name, op in ops.items():
        text = inspect.getdoc(op)
        assert op.doc.strip() and text.startswith(op.doc.strip()[:20]), name
        for heading in HEADINGS:
            assert re.search(rf"^{heading} \S", text, re.M), f"{name}: no {heading}"
        assert all(arg.name in text for arg in [*op.inputs, *op.outputs]), name


def test_the_class_keeps_its_own():
    assert inspect.getdoc(op_lib.OpDef).startswith("An op type")
