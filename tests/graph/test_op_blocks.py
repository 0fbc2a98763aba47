"""The @op block: schemas, calling, type inference, checks, shape functions, samples, registry."""

import pathlib
import re

import numpy as np
import pytest

from pyflow.framework import dtypes, errors, graph as ops, op as op_lib, op_schema
from pyflow.framework.dtypes import FLOATS, NUMBERS, float32, int32, int64
from pyflow.framework.op import NOT_GIVEN, S, bools, ints, lit, op, pos, strs, unit
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape


@op("TAdd", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class TAdd:
    """Sum of x and y."""

    def shape(x, y):
        return broadcast_static_shape(x, y)

    def reference(x, y):
        return x + y

    gradient = None
    samples = [S((2, 3), (3,)), S(pos((2,)), unit((2,)), types=FLOATS)]
    note = "kept"


@op("TConv", inputs="input: T", outputs="output: T",
    attrs='strides: list(int) >= 2, padding: {"SAME", "VALID"}, scale: float = 1.0, flag: bool = '
          'false, '
          'name_attr: string = "x", out: shape = ?, T: {float, double} = float')
class TConv:
    def shape(input, strides, padding, op):
        assert op.type == "TConv" and isinstance(padding, str) and isinstance(strides, list)
        return input


@op("TPack", inputs="values: N * T", outputs="output: T", attrs="axis: int = 0, N: int >= 1")
class TPack:
    def shape(values, axis):
        return TensorShape([len(values)]).concatenate(values[0])


@op("TLists", inputs="first: Tin, last: int32", outputs="head: float, rest: Tout",
    attrs="Tin: list(type) >= 1, Tout: list(type)")
class TLists:
    def shape(first, last, Tout):
        assert isinstance(first, list) and isinstance(last, TensorShape)
        return [TensorShape([])] + [TensorShape([i]) for i in range(len(Tout))]


@op("TSink", inputs="x: T", outputs="", stateful=True)
class TSink:
    pass


@op("TRef", inputs="ref: Ref(T), value: T", outputs="out: Ref(T)")
class TRef:
    def shape(ref, value):
        return ref


@op("TVar", outputs="ref: Ref(dtype)", attrs="dtype: type, shape: shape")
class TVar:
    def shape(shape):
        return shape


SIGNATURES = [
    "a: T, b: T -> product: T; transpose_a: bool = false, T: {float, double, int32}",
    " -> y: T; T: type = float, shape: shape = ?",
    "x: T -> ; T: type",
    'x: N * T, r: Ref(T), l: Tl -> y: int32; N: int >= 2, T: type, Tl: list({float, int32}) >= 1, '
    'l1: list(int) >= 4 = [1, -1], p: {"SAME", "VALID"} = "SAME", s: shape = [2, -1], f: float = '
    '-inf',
    'a: string -> b: bool; q: list(string) = ["a", "b\\"c"], t: list(type) = [float, half]',
]


class TestSchema:
    @pytest.mark.parametrize("text", SIGNATURES)
    def test_canonical_text_round_trip(self, text):
        assert op_schema.format_signature(*op_schema.parse_signature(text)) == text

    def test_parts(self):
        inputs, outputs, attrs = op_schema.parse_signature(SIGNATURES[3])
        assert [str(a) for a in inputs] == ["x: N * T", "r: Ref(T)", "l: Tl"]
        assert inputs[0].number_attr == "N" and inputs[1].is_ref
        assert inputs[2].type_list_attr == "Tl"
        assert outputs[0].dtype is int32 and attrs["N"].minimum == 2
        assert attrs["s"].default == TensorShape([2, None]) and attrs["f"].default == float("-inf")
        assert attrs["Tl"].allowed == (float32, int32) and attrs["p"].allowed == ("SAME", "VALID")

    @pytest.mark.parametrize("bad,problem", [
        ("a -> b: T", "expected ':'"), ("a: T", "expected '->'"),
        ("a: T -> b: T; q: bool = 3", "no value of"),
        ("a: T -> b: T; T: int", "which is a int attribute"),
        ("a: T -> b: T; q: nonsense", "unknown attribute kind"),
        ("a: T, a: T -> b: T", "two inputs have one name"), ("a: T -> b: T; x: int, x: int",
                                                             "declared twice"),
        ("a: N * T -> b: T; N: float", "not an int"), ("a: T -> b: T; x: int %", "unexpected "
                                                                                 "character")])
    def test_mistakes_are_located(self, bad, problem):
        with pytest.raises(ValueError, match=problem):
            op_schema.parse_signature(bad)

    def test_mistake_in_a_block_names_the_op(self):
        block = op("Broken", inputs="x T", outputs="y: T")(type("Broken", (), {}))
        with pytest.raises(ValueError, match="op Broken: expected ':'"):
            block.signature()

    def test_constraints(self):
        assert TAdd.attrs["T"].allowed == NUMBERS and TAdd.signature().startswith("x: T, y: T -> "
                                                                                  "z: T; T: {half,")
        assert TSink.signature() == "x: T -> ; T: type" and TSink.stateful

    def test_block_becomes_an_opdef(self):
        assert TAdd.name == "TAdd" and TAdd.doc == "Sum of x and y." and TAdd.note == "kept"
        assert TAdd.gradient is None and TSink.gradient is NOT_GIVEN and not NOT_GIVEN
        with pytest.raises(ValueError, match="an OpDef uses itself"):
            op("Bad")(type("Bad", (), {"signature": 1}))


class TestCalling:
    def test_single_output(self, graph):
        z = TAdd(ops.constant([1.0]), [[2.0], [3.0]], name="z")
        assert z.name == "z:0" and z.dtype is float32 and z.shape == [2, 1]
        assert z.op.get_attr("T") is float32

    def test_attributes_by_position_and_name(self, graph):
        x = ops.constant([1.0])
        node = TConv(x, [1, 2], "SAME", 0.5, flag=True, name="c").op
        assert node.get_attr("strides") == [1, 2] and node.get_attr("padding") == b"SAME"
        assert node.get_attr("scale") == 0.5 and node.get_attr("flag") is True
        assert node.get_attr("name_attr") == b"x" and node.get_attr("out").unknown_rank
        assert node.attr("padding") == "SAME" and node.attr("out") == TensorShape(None)
        with pytest.raises(ValueError, match="has no attr named 'nope'"):
            node.get_attr("nope")

    def test_default_of_a_list_is_not_shared(self, graph):
        @op("TList", outputs="y: float", attrs="l: list(int) = [1]")
        class TList:
            def shape():
                return []
        TList().op.attrs["l"].append(2)
        assert TList().op.attrs["l"] == [1]

    def test_number_attr(self, graph):
        y = TPack([ops.constant([1.0]), [2.0], np.float32([3.0])])
        assert y.shape == [3, 1] and y.op.get_attr("N") == 3
        assert [t.op.name for t in y.op.inputs] == ["Const", "TPack/values_1", "TPack/values_2"]

    def test_named_outputs_and_type_lists(self, graph):
        out = TLists([1.0, "a", ops.constant(2)], 7, Tout=[int64, float32])
        assert type(out).__name__ == "TLists" and out._fields == ("head", "rest")
        assert out.head.dtype is float32 and [t.dtype for t in out.rest] == [int64, float32]
        assert [t.shape.as_list() for t in out.rest] == [[0], [1]]
        assert out.head.op.get_attr("Tin") == [float32, dtypes.string, int32]

    def test_no_outputs_gives_the_operation(self, graph):
        assert isinstance(TSink(1.0), ops.Operation)

    def test_references(self, graph):
        v = TVar(float32, [2])
        assert v.dtype is float32._as_ref and v.shape == [2]
        out = TRef(v, [1.0, 2.0])
        assert out.dtype is float32._as_ref and out.op.get_attr("T") is float32
        assert TAdd(v, v).dtype is float32          # read where no reference is asked for
        with pytest.raises(TypeError, match="requires that input 'ref' be a mutable tensor"):
            TRef(ops.constant([1.0]), [1.0])

    def test_explicit_type_attr(self, graph):
        assert TAdd(1, 2, T=dtypes.float64).dtype is dtypes.float64


class TestRefusals:
    @pytest.mark.parametrize("call,error,problem", [
        (lambda x: TAdd(x), TypeError, "No argument for input 'y' of op TAdd"),
        (lambda x: TAdd(x, x, Tx=dtypes.float32), TypeError, "unexpected keyword argument 'Tx'"),
        (lambda x: TAdd(x, x, T_=dtypes.float32), TypeError, "unexpected keyword argument 'T_'"),
        (lambda x: TAdd(x, x, z=1), TypeError, "unexpected keyword argument 'z'; it takes x, y, T, "
                                               "name"),
        (lambda x: TAdd(x, x, x, x), TypeError, "at most 2 positional"),
        (lambda x: TAdd(x, x, x=x), TypeError, "two values for 'x'"),
        (lambda x: TAdd(x, ops.constant(1)), TypeError,
         "Input 'y' of 'TAdd' Op has type int32 that does not match type float32 of argument 'x'"),
        (lambda x: TAdd(x, "a"), TypeError, "Expected float32 passed to parameter 'y' of op "
                                            "'TAdd', got 'a'"),
        (lambda x: TAdd(ops.constant(1), 2.5), TypeError, "Expected int32.*got 2.5 of type "
                                                          "'float'"),
        (lambda x: TAdd("a", "b"), TypeError, "DataType string not in list of allowed values: "
                                              "float16"),
        (lambda x: TAdd(None, x), ValueError, "Tried to convert 'x' to a tensor and failed.*None "
                                              "values"),
        (lambda x: TConv(x, padding="SAME"), TypeError, "No argument for attr 'strides'"),
        (lambda x: TConv(x, [1], "SAME"), ValueError, "'strides'.*length 1 less than minimum 2"),
        (lambda x: TConv(x, 3, "SAME"), TypeError, "Expected list for attr 'strides'"),
        (lambda x: TConv(x, [1, "a"], "SAME"), TypeError, "Expected int for argument 'strides' not "
                                                          "'a'"),
        (lambda x: TConv(x, [1, 1.5], "SAME"), TypeError, "Expected int"),
        (lambda x: TConv(x, [1, 1], "FULL"), ValueError, '"FULL" is not in the list of allowed '
                                                         'values: "SAME"'),
        (lambda x: TConv(x, [1, 1], 3), TypeError, "Expected string for argument 'padding' not 3"),
        (lambda x: TConv(x, [1, 1], "SAME", flag=1), TypeError, "Expected bool for argument 'flag' "
                                                                "not 1"),
        (lambda x: TConv(x, [1, 1], "SAME", scale="a"), TypeError, "Expected float"),
        (lambda x: TConv(x, [1, 1], "SAME", out="a"), TypeError, "Expected TensorShape"),
        (lambda x: TVar("nonsense", []), TypeError, "Expected DataType for argument 'dtype'"),
        (lambda x: TPack(x), TypeError, "Expected list for 'values' argument to 'TPack' Op"),
        (lambda x: TPack([]), ValueError, "length 0 shorter than minimum length 1"),
        (lambda x: TPack([x, ops.constant(1)]), TypeError, "have types .float32, int32. that don't "
                                                           "all match"),
        (lambda x: TLists([], 1, Tout=[]), ValueError, "length 0 shorter than minimum length 1"),
        (lambda x: TLists([x], 1.5, Tout=[]), TypeError, "Expected int32 passed to parameter "
                                                         "'last'"),
        (lambda x: TLists([x], x, Tout=[]), TypeError, "that does not match expected type of "
                                                       "int32"),
    ])
    def test_message_names_op_argument_and_line(self, graph, call, error, problem):
        x = ops.constant([1.0])
        before = graph.version
        with pytest.raises(error, match=problem):
            call(x)
        assert not [o for o in graph.get_operations()[before:] if o.type.startswith("T")]

    def test_user_line(self, graph):
        with pytest.raises(TypeError, match=r"test_op_blocks\.py:\d+"):
            TAdd(ops.constant(1.0), ops.constant(1))


class TestShapeFunctions:
    def test_wrong_number_of_shapes(self, graph):
        @op("TBad", inputs="x: T", outputs="a: T, b: T")
        class TBad:
            def shape(x):
                return [x]
        with pytest.raises(ValueError, match="1 shapes for 2 outputs for 'TBad'"):
            TBad(1.0)

    def test_any_mistake_becomes_a_value_error(self, graph):
        @op("TBad2", inputs="x: T", outputs="a: T")
        class TBad2:
            def shape(x):
                return x[7]
        with pytest.raises(ValueError, match="for 'TBad2' .op: 'TBad2'. with input shapes: .2,3."):
            TBad2(ops.constant(np.zeros((2, 3))))

    def test_parameters_by_position_and_unknown_ones(self, graph):
        @op("TPos", inputs="features: T", outputs="a: T")
        class TPos:
            def shape(x, rank=2):
                assert rank == 2
                return x
        assert TPos([1.0]).shape == [1]

        @op("TUnknown", inputs="x: T", outputs="a: T")
        class TUnknown:
            def shape(x, wrong):
                return x
        with pytest.raises(ValueError, match="'wrong'.*neither an input nor an attribute"):
            TUnknown([1.0])

    def test_none_means_unknown(self, graph):
        @op("TNone", inputs="x: T", outputs="a: T")
        class TNone:
            def shape(x):
                return None
        assert TNone([1.0]).shape.ndims is None


class TestSamples:
    def test_same_seed_same_arrays(self):
        sample = TAdd.samples[0]
        first, second = sample.arrays(TAdd, {"T": float32}), sample.arrays(TAdd, {"T": float32})
        np.testing.assert_array_equal(first[0], second[0])
        assert first[0].dtype == np.float32 and first[0].shape == (2, 3)
        assert TAdd.call_reference(first, {}).shape == (2, 3)

    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
    def test_every_type(self, dtype):
        for spec in (S((2, 3)), S(bools((2,))), S(pos((2,))), S(unit((2,))), S(ints((2,), 0, 3))):
            if dtype is dtypes.string and spec.inputs[0]._text != "(2, 3)":
                continue
            array, = spec.arrays(TSink, {"T": dtype})
            assert dtypes.as_dtype(array.dtype) is dtype

    def test_ranges(self):
        array, = S(unit((500,))).arrays(TSink, {"T": float32})
        assert np.abs(array).max() < 1
        array, = S(pos((500,))).arrays(TSink, {"T": float32})
        assert array.min() > 0
        array, = S(ints((500,), -2, 3)).arrays(TSink, {"T": int64})
        assert set(array.tolist()) == {-2, -1, 0, 1, 2}

    def test_literals_lists_and_strings(self):
        values, = S([lit([1, 2]), (2,)]).arrays(TPack, {"T": float32})
        assert values[0].tolist() == [1, 2] and values[0].dtype == np.float32
        assert values[1].shape == (2,)
        array, = S(lit([1], "int64")).arrays(TSink)
        assert array.dtype == np.int64
        array, = S(strs(["a", b"\xff"])).arrays(TSink)
        assert array.tolist() == [b"a", b"\xff"]

    def test_mistakes(self):
        with pytest.raises(ValueError, match="gives 1 inputs, the op has 2: x, y"):
            S((1,)).arrays(TAdd)
        with pytest.raises(TypeError, match="is no input spec"):
            S("abc")


class TestRegistry:
    def test_explicit_and_unique(self):
        assert op_lib.find_op("TAdd") is None
        with pytest.raises(errors.NotFoundError, match="Op type not registered 'MatMull'.*Did you "
                                                       "mean.*MatMul"):
            op_lib.get_op("MatMull")
        assert op_lib.get_op("Const").name == "Const"
        const = op_lib.get_op("Const")
        assert op_lib.register(const) is const
        with pytest.raises(ValueError, match="Two ops are called 'Const'"):
            op_lib.register(op_lib.op_from_signature("Const", " -> y: float"))

    def test_every_shipped_schema_parses(self):
        import pyflow.ops  # noqa: F401 - registers them
        for name, op_def in op_lib.registered_ops().items():
            text = op_def.signature()
            assert op_schema.format_signature(*op_schema.parse_signature(text)) == text, name

    def test_no_module_is_forgotten(self):
        import importlib
        import pkgutil

        import pyflow.ops
        for info in pkgutil.walk_packages(pyflow.ops.__path__, "pyflow.ops."):
            module = importlib.import_module(info.name)
            mine = [v.name for v in vars(module).values()
                    if isinstance(v, op_lib.OpDef) and v.module == module.__name__]
            listed = info.name.removeprefix("pyflow.ops.") in pyflow.ops.MODULES
            assert listed == bool(mine), f"{info.name}: op_types.py is not current"
            assert all(op_lib.find_op(name) for name in mine)

    def test_families_hold_blocks_and_the_library_none(self):
        """Every module of a family declares ops, but for a few; nothing else of pyflow does."""
        import pyflow.ops
        folder = pathlib.Path(pyflow.ops.__file__).parent
        without = {"control.routing", "containers.tensor_arrays", "gemm.products",
                   "image.image_codec", "strings.string_codec", "summary.summary_image"}
        found = {".".join(p.relative_to(folder).with_suffix("").parts)
                 for p in folder.glob("*/*.py") if p.name != "__init__.py"}
        assert {m for m in found if not m.startswith("base.")} - without == set(pyflow.ops.MODULES)
        homes = {d.module for d in op_lib.registered_ops().values() if "." not in d.name}
        assert {h for h in homes if h and h.startswith("pyflow.")} == {
            "pyflow.framework.constant", *(f"pyflow.ops.{m}" for m in pyflow.ops.MODULES)}

    def test_ops_named_by_type_exist(self):
        import pyflow
        wanted = {}
        for path in pathlib.Path(pyflow.__file__).parent.rglob("*.py"):
            for found in re.finditer(r"\braw_ops\.(\w+)", path.read_text(encoding="utf-8")):
                if path.parent.name != "platform":      # tf.raw_ops
                    wanted.setdefault(found[1], path)
        assert len(wanted) > 60 and not {k: v for k, v in wanted.items() if not op_lib.find_op(k)}
        assert op_lib.raw_ops.MatMul is op_lib.get_op("MatMul")
        assert not hasattr(op_lib.raw_ops, "__wrapped__")
        with pytest.raises(errors.NotFoundError, match="Did you mean.*MatMul"):
            op_lib.raw_ops.MatMull

    def test_op_from_signature(self, graph):
        double = op_lib.op_from_signature("MyDouble", SIGNATURES[0].replace(", b: T", ""),
                                          shape=lambda a: a)
        assert double([1.0], transpose_a=True).shape == [1]


class TestOpDefProto:
    def test_fields(self):
        proto = TPack.as_proto()
        assert (proto.name, proto.is_stateful) == ("TPack", False) and TSink.as_proto().is_stateful
        values = proto.input_arg[0]
        assert (values.name, values.type_attr, values.number_attr) == ("values", "T", "N")
        attrs = {a.name: a for a in proto.attr}
        assert attrs["axis"].type == "int" and attrs["axis"].default_value.i == 0
        assert attrs["N"].has_minimum and attrs["N"].minimum == 1
        assert attrs["T"].type == "type" and not attrs["T"].HasField("default_value")
        ref = TRef.as_proto()
        assert ref.input_arg[0].is_ref and ref.output_arg[0].is_ref
        conv = {a.name: a for a in TConv.as_proto().attr}
        assert list(conv["padding"].allowed_values.list.s) == [b"SAME", b"VALID"]
        assert list(conv["T"].allowed_values.list.type) == [1, 2]

    def test_every_shipped_op(self):
        from pyflow.framework import protos
        for name, op_def in op_lib.registered_ops().items():
            proto = op_def.as_proto()
            again = protos.OpDef.FromString(proto.SerializeToString())
            assert again.name == name and len(again.input_arg) == len(op_def.inputs)


class TestCreateOp:
    def test_native_and_proto_attributes(self, graph):
        from pyflow.framework import protos
        c = graph.create_op("Const", [], name="c", attrs={
            "dtype": protos.AttrValue(type=1), "value": np.float32([1, 2])})
        assert c.outputs[0].shape == [2] and c.outputs[0].dtype is float32
        y = graph.create_op("Identity", [c.outputs[0]], [float32], name="y")
        assert y.outputs[0].shape == [2] and y.get_attr("T") is float32

    @pytest.mark.parametrize("op_type,count,attrs,error,problem", [
        ("Identity", 0, {}, ValueError, "lacks attr 'T'|has 0 inputs"),
        ("Identity", 2, {}, ValueError, "has 2 inputs, its schema says 1"),
        ("Identity", 1, {"T": 3}, TypeError, "must be int32, but 'Const:0' is float32"),
        ("Const", 0, {"dtype": 1}, ValueError, "lacks attr 'value'"),
        ("Nonsense", 0, {}, errors.NotFoundError, "not registered"),
        ("Identity", None, {}, TypeError, "is not a tensor")])
    def test_refusals(self, graph, op_type, count, attrs, error, problem):
        c = ops.constant(1.0)
        inputs = ["text"] if count is None else [c] * count
        with pytest.raises(error, match=problem):
            graph.create_op(op_type, inputs, attrs=attrs)
        assert graph.version == 1
