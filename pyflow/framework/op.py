"""Ops: the `@op` block, `OpDef`, and the registry of op types.

One block describes an op; everything else is derived from it:

    @op("MatMul", inputs="a: T, b: T", outputs="product: T",
        attrs="transpose_a: bool = false, transpose_b: bool = false", T=FLOATS)
    class MatMul:
        \"\"\"Matrix product of `a` [m, k] and `b` [k, n] -> [m, n].\"\"\"
        def shape(a, b, transpose_a, transpose_b): ...       # TensorShapes and attributes, by name
        def gradient(op, dy): ...            # or None: no gradient flows; UNREGISTERED: an error
        def reference(a, b, transpose_a, transpose_b): ...   # NumPy in, NumPy out; or None
        samples = [S((2, 3), (3, 4)), S((3, 2), (3, 4), transpose_a=True)]

    y = MatMul(x, w, transpose_b=True, name="y")

Invariants:
1. The decorated name is the OpDef: calling it adds a node to the graph of its inputs.  It has the
   signature of that call, and as source (`??`, inspect.getsource) its block.
2. Schemas are parsed when first used, so that importing hundreds of blocks stays cheap.
3. Registration is explicit (`register`); defining a block registers nothing, and a name has one op.
4. An op whose module is not loaded yet is known by its name alone (`declare`); looking it up loads
   the module.  Only `registered_ops` loads all.

Threads: any.  Blocks are read-only once defined; the registry only grows, an entry at a time, and
Python's import system lets one thread load a module while others wait for it.
"""

import sys

from pyflow.framework import dtypes, errors, late_text, op_schema, user_traceback
from pyflow.framework.op_apply import CallPlan, apply_op, call_signature
from pyflow.framework.op_samples import S, bools, ints, lit, normal, pos, strs, unit
from pyflow.framework.static_value import inference
from pyflow.framework.tensor_shape import BroadcastError, TensorShape, as_shape

__all__ = ["op", "OpDef", "S", "normal", "pos", "unit", "ints", "bools", "lit", "strs", "apply_op",
           "declare", "register", "get_op", "find_op", "op_names", "loaded_ops", "registered_ops",
           "op_from_signature", "raw_ops", "NOT_GIVEN", "UNREGISTERED"]


class _Absent:
    """A false value with a name, for a part that is not there."""

    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return f"<{self._text}>"

    def __bool__(self):
        return False


NOT_GIVEN = _Absent("not given")   # a block neither gave nor declined (None) this part
UNREGISTERED = _Absent("unregistered")   # a gradient that TF has none for: asking is a LookupError
_PARTS = ("shape", "gradient", "reference", "samples")
_MESSAGE_FIELDS = frozenset(("input_arg", "output_arg", "attr", "is_stateful", "is_commutative",
                             "is_aggregate", "allows_uninitialized_input", "summary",
                             "description", "deprecation"))
_LAZY = frozenset(("inputs", "outputs", "attrs", "call_plan", "__signature__"))


class OpDef:
    """An op type: its schema, shape function, gradient, reference and samples.

    .name .inputs .outputs (lists of ArgDef) .attrs (dict of AttrDef) .stateful .doc .shape
    .gradient .reference .samples .module .over_sparse; other public names of the block become
    attributes too.
    """

    def __init__(self, name, parse, stateful=False, doc="", parts=None, module=None, block=None):
        self.name = name
        self._parse = parse
        if block is not None:
            self.__wrapped__ = block    # where inspect looks for the source
        self.stateful = stateful
        self.doc = doc
        self.module = self.__module__ = module
        parts = parts or {}
        self.shape = parts.pop("shape", NOT_GIVEN)
        self.gradient = parts.pop("gradient", NOT_GIVEN)
        self.reference = parts.pop("reference", NOT_GIVEN)
        self.samples = parts.pop("samples", NOT_GIVEN)
        # f(0) = 0: takes a SparseTensor's values
        self.over_sparse = parts.pop("over_sparse", False)
        self._called = None
        self._shape_binding = None
        self._reference_binding = None
        for key, value in parts.items():
            if hasattr(OpDef, key) or key in _LAZY:
                raise ValueError(f"op {name}: {key!r} is a name an OpDef uses itself; choose "
                                 f"another")
            setattr(self, key, value)

    def __getattr__(self, key):
        if key in _MESSAGE_FIELDS:      # programs that read op.op_def as TensorFlow's message
            return getattr(self.as_proto(), key)
        if key not in _LAZY:
            raise AttributeError(f"op {self.name} has no attribute {key!r}", name=key, obj=self)
        if key == "__signature__":
            self.__signature__ = call_signature(self)
        else:
            self.inputs, self.outputs, self.attrs = self._parse()
            self.call_plan = CallPlan(self)
        return self.__dict__[key]

    def __copy__(self):
        return self                     # as a function: a copied cell keeps its activation

    def __deepcopy__(self, memo):
        return self

    @property
    def __name__(self):
        """The name of the public function that it is, "relu" of Relu; the op's own if it is none."""
        if self._called is not None:
            return self._called
        table = getattr(sys.modules.get(self.module), "PUBLIC", {})
        names = [path for path, value in table.items() if value is self]
        names.sort(key=lambda path: (path.startswith("contrib."), -path.count("."), path))
        return names[0].rpartition(".")[2] if names else self.name

    @__name__.setter
    def __name__(self, name):
        self._called = name

    def __reduce__(self):
        return get_op, (self.name,)

    @property
    def is_stateful(self):
        return self.stateful

    def signature(self):
        """The canonical text of the schema, as the C core reads it."""
        return op_schema.format_signature(self.inputs, self.outputs, self.attrs)

    def __call__(self, *args, name=None, **kwargs):
        """Adds a node: inputs, then attributes, by position or name, as TF's generated
        functions."""
        try:
            return apply_op(self, args, name, kwargs)
        except Exception as error:
            user_traceback.mark(error)
            raise

    def as_proto(self):
        """The schema as a TensorFlow OpDef message."""
        from pyflow.framework.op_proto import op_def_proto
        return op_def_proto(self)

    # Shapes

    def infer_shapes(self, node):
        """Sets the static shapes of `node`'s outputs, and checks its inputs (also where there is no
        output); ValueError names node, op, shapes and line."""
        if not self.shape:
            return
        if self._shape_binding is None:
            self._shape_binding = _bind(self, self.shape)
        inference.active = True
        try:
            inputs = [t._shape for t in node._inputs]
            result = self.shape(*_arguments(self, self._shape_binding, inputs, node.attrs, node))
            _set_shapes(node, result)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise _shape_error(node, error) from error
        finally:
            inference.active = False

    def call_reference(self, arrays, attrs):
        """The NumPy reference on flat input arrays and native attributes (defaults are filled
        in)."""
        if self._reference_binding is None:
            self._reference_binding = _bind(self, self.reference)
        full = {a.name: a.default for a in self.attrs.values() if a.has_default}
        full.update(attrs)
        return self.reference(*_arguments(self, self._reference_binding, arrays, full, None))

    def input_spans(self, attrs):
        """[(start, stop)] of each input's tensors in the flat input list."""
        return _spans(self.inputs, attrs)

    def output_spans(self, attrs):
        """[(start, stop)] of each output's tensors in the flat output list."""
        return _spans(self.outputs, attrs)

    def __repr__(self):
        return f"<op {self.name}({self.signature()})>"


class _OpDoc:
    """`op.__doc__`: what the block says, and what its schema says, put together when asked for."""

    def __init__(self, of_class):
        self.of_class = of_class

    def __get__(self, op_def, owner):
        if op_def is None:
            return self.of_class
        source = (f"TensorFlow's op {op_def.name}" if "." not in op_def.name
                  else f"op {op_def.name} of a plugin")
        return "\n".join([
            op_def.doc or "", "",
            f"Call: {op_def.name}{op_def.__signature__}",
            f"Dtypes: {op_def.signature()}",
            f"Shapes: by the rule of {source}; checked when the node is made, as far as known",
            "Raises: TypeError for other element types, ValueError for shapes that do not fit, both",
            "    with your line; tf.errors.InvalidArgumentError where only the step can tell",
            f"Source: {source}"])


OpDef.__doc__ = _OpDoc(OpDef.__doc__)


def _spans(args, attrs):
    spans, start = [], 0
    for arg in args:
        count = 1
        if arg.number_attr:
            count = attrs[arg.number_attr]
        elif arg.type_list_attr:
            count = len(attrs[arg.type_list_attr])
        spans.append((start, start + count))
        start += count
    return spans


def _bind(op_def, function):
    """[(source, key)] for each parameter of a shape or reference function.

    Parameters are inputs or attributes by name, or `op`; others are inputs by position.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        raise ValueError(f"op {op_def.name}: {function!r} must be a plain Python function")
    inputs = {arg.name: i for i, arg in enumerate(op_def.inputs)}
    is_list = [arg.is_list for arg in op_def.inputs]
    any_list = any(is_list)
    required = code.co_argcount - len(function.__defaults__ or ())
    binding = []
    for i, param in enumerate(code.co_varnames[:code.co_argcount]):
        name = param[:-1] if param.endswith("_") and param[:-1] in {**inputs,
                                                                    **op_def.attrs} else param
        if name in inputs or name not in op_def.attrs and name != "op" and i < len(is_list):
            index = inputs.get(name, i)
            source = "list" if is_list[index] else "span" if any_list else "input"
            binding.append((source, index))
        elif name in op_def.attrs:
            binding.append(("attr", name))
        elif name == "op":
            binding.append(("op", None))
        elif i < required:
            raise ValueError(f"op {op_def.name}: parameter {param!r} of {function.__qualname__} is "
                             f"neither an input nor an attribute")
        else:
            break
    return binding


def _arguments(op_def, binding, inputs, attrs, node):
    arguments = []
    spans = None
    for source, key in binding:
        if source == "input":
            arguments.append(inputs[key])
        elif source == "attr":
            arguments.append(attrs[key])
        elif source == "op":
            arguments.append(node)
        else:
            spans = spans or op_def.input_spans(attrs)
            start, stop = spans[key]
            arguments.append(list(inputs[start:stop]) if source == "list" else inputs[start])
    return arguments


def _set_shapes(node, result):
    outputs = node.outputs
    if len(outputs) == 1:
        if isinstance(result, (list, tuple)) and len(result) == 1 \
                and isinstance(result[0], (TensorShape, list, tuple)):
            result = result[0]
        outputs[0]._shape = as_shape(result)
        return
    if result is None:
        return
    result = _flat_shapes(result)
    if len(result) != len(outputs):
        raise ValueError(f"the shape function gave {len(result)} shapes for {len(outputs)} outputs")
    for tensor, shape in zip(outputs, result):
        tensor._shape = as_shape(shape)


def _flat_shapes(result):
    """One shape per output tensor; a list output's shapes may stand in a list of TensorShapes."""
    flat = []
    for shape in result:
        if isinstance(shape, list) and shape and all(isinstance(s, TensorShape) for s in shape):
            flat.extend(shape)
        else:
            flat.append(shape)
    return flat


def _shape_error(node, error):
    if isinstance(error, BroadcastError):
        error = "Dimensions must be equal, but are {} and {}".format(*error.sizes)  # TF's words
    shapes = ", ".join(_brackets(t.shape) for t in node.inputs)
    return ValueError(f"{error} for '{node.name}' (op: '{node.type}') with input shapes: "
                      f"{shapes or 'none'}. ({node.user_frame})")


def _brackets(shape):
    dims = shape.as_tuple()
    return "<unknown>" if dims is None else \
        "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def op(name, inputs="", outputs="", attrs="", stateful=False, doc=None, **constraints):
    """Decorator: the class under it becomes the OpDef `name`.

    inputs, outputs, attrs: TF's grammar (see op_schema). Keyword arguments limit type attributes to
    tuples of DTypes, for example T=FLOATS, and declare them where `attrs` does not.
    """
    def decorate(block):
        parts = {key: value for key, value in vars(block).items() if not key.startswith("_")}
        for key in _PARTS:
            if isinstance(parts.get(key), staticmethod):
                parts[key] = parts[key].__func__

        def parse():
            return op_schema.parse_parts(inputs, outputs, attrs, constraints, f"op {name}")

        return OpDef(name, parse, stateful, doc or block.__doc__ or "", parts, block.__module__,
                     block)
    return decorate


def op_from_signature(name, signature, stateful=False, doc="", shape=NOT_GIVEN,
                      gradient=UNREGISTERED, package=None):
    """An OpDef of an op declared elsewhere (a C plugin) by its signature.

    gradient: a function, None if the op is not differentiable, or UNREGISTERED: a program, or the
    Python `package` that comes with the plugin, may register one."""
    parts = {"shape": shape, "gradient": gradient, "reference": None, "samples": [],
             "package": package}
    return OpDef(name, lambda: op_schema.parse_signature(signature, f"op {name}"), stateful, doc,
                 parts)


_registry = {}
_modules = {}       # op type -> the module that registers it; what `declare` was told
_load = None        # load(module) registers the ops of a module, load(None) those of all
on_unknown = None   # called when nobody knows a name: loads plugins, which declare ops, once


def declare(modules, load):
    """Says where ops are that nobody has needed yet.

    modules: {op type: module}. load(module) registers what the module has, load(None) everything;
    from any thread, any number of times."""
    global _load
    _modules.update(modules)
    _load = load


def register(op_def):
    """Makes `op_def` known by its name; ValueError if another op has that name."""
    if op_def.name in _modules and op_def.module != _modules[op_def.name]:
        _load(_modules[op_def.name])
    known = _registry.setdefault(op_def.name, op_def)
    if known is not op_def:
        raise ValueError(f"Two ops are called {op_def.name!r}: one from {known.module}, one from "
                         f"{op_def.module}. Remove or rename one.")
    return op_def


def find_op(name):
    """The OpDef called `name`, or None; loads the module or the plugins that have it."""
    found = _registry.get(name)
    if found is None and name in _modules:
        _load(_modules[name])
        found = _registry.get(name)
    if found is None and on_unknown is not None:
        on_unknown()
        found = _registry.get(name)
    return found


def get_op(name):
    """The OpDef called `name`; NotFoundError with near names if there is none."""
    found = find_op(name)
    if found is None:
        raise late_text.error(errors.NotFoundError, lambda: (
            f"Op type not registered {name!r}.{_near(name)} Install the plugin that declares it, "
            f"or see `python -m pyflow op` for the list."), None, None)
    return found


def _near(name):
    import difflib
    close = difflib.get_close_matches(name, op_names(), n=3)
    return f" Did you mean {' or '.join(close)}?" if close else ""


class _ByType:
    """Ops by type, loaded when first named: how blocks, whose gradients need each other in circles,
    name each other without importing each other's modules.

        dx = raw_ops.Reshape(dy, shape)
    """

    def __getattr__(self, op_type):
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        found = get_op(op_type)
        setattr(self, op_type, found)
        return found


raw_ops = _ByType()


def op_names():
    """The names of all ops, sorted; loads nothing."""
    return sorted({*_modules, *_registry})


def loaded_ops():
    """The OpDefs registered so far; loads nothing."""
    return list(_registry.values())


def registered_ops():
    """All OpDefs by name (a copy, sorted); loads every module of ops."""
    if _load is not None:
        _load(None)
    return dict(sorted(_registry.items()))


def type_choices(op_def, attr_name):
    """The DTypes an attribute may take: its allowed list, or all types."""
    allowed = op_def.attrs[attr_name].allowed
    return dtypes.ALL if allowed is None else allowed
