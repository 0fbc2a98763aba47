"""Programs of readers and of tf.parse_example and its kin: each is run by TensorFlow (record.py)
and by pyflow (test_answers.py), and has to say the same.

A program is a function of (tf, x, path): as those of tests/queues/queue_programs.py, and with a
folder for its files.
"""
import gzip
import pathlib
import struct
import sys
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "queues"))

from queue_programs import Session  # noqa: E402

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def answers(tf, name, folder, wait=0.05):
    with tf.Graph().as_default():
        x = Session(tf, wait)
        with x.session:
            PROGRAMS[name](tf, x, folder)
        return [without(said, folder) for said in x.said]


def without(said, folder):
    """The answer without the folder's name."""
    if isinstance(said, str):
        return said.replace(str(folder), "DIR")
    return [without(part, folder) for part in said] if isinstance(said, list) else said


# -------------------------------------------------------------------------------- messages
def feature(tf, values):
    """A Feature of ints, floats or bytes; None: of no kind."""
    if values is None:
        return tf.train.Feature()
    kind = type(values[0]) if values else int
    if kind is bytes:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if kind is float:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def features(tf, named):
    return tf.train.Features(feature={name: feature(tf, v) for name, v in named.items()})


def example(tf, **named):
    return tf.train.Example(features=features(tf, named)).SerializeToString()


def sequence(tf, context, **lists):
    return tf.train.SequenceExample(
        context=features(tf, context), feature_lists=tf.train.FeatureLists(feature_list={
            name: tf.train.FeatureList(feature=[feature(tf, v) for v in steps])
            for name, steps in lists.items()})).SerializeToString()


# --------------------------------------------------------------------------- parse_example
@program
def dense_features(tf, x, path):
    records = [example(tf, a=[7], b=[1.5, -2.0], s=[b"x", b"yy"]), example(tf, b=[3.0, 4.0])]
    asked = {"a": tf.FixedLenFeature([], tf.int64, 9), "b": tf.FixedLenFeature([2], tf.float32),
             "s": tf.FixedLenFeature([2, 1], tf.string, [["p"], ["q"]])}
    parsed = tf.parse_example(records, asked)
    x.note(sorted((key, t.shape.as_list(), t.dtype.name, t.op.type) for key, t in parsed.items()))
    x.run(parsed)
    x.run(tf.parse_example(records[:1], asked, name="named"))
    x.run(tf.io.parse_single_example(records[0], asked))
    fed = tf.placeholder(tf.string)
    x.note([t.shape.dims is None for t in tf.parse_example(fed, asked).values()])
    x.run(tf.parse_example(fed, asked)["b"], {fed: records * 3})
    x.run(tf.parse_example(fed, asked)["b"], {fed: np.zeros(0, object)})


@program
def sparse_features(tf, x, path):
    records = [example(tf, a=[1, -2, 3]), example(tf, b=[b"w"]), b"", example(tf, a=[4], b=[])]
    asked = {"a": tf.VarLenFeature(tf.int64), "b": tf.io.VarLenFeature(tf.string)}
    parsed = tf.parse_example(records, asked)
    x.note([parsed["a"].shape.as_list(), parsed["a"].values.shape.as_list()])
    x.run(parsed)
    x.run(tf.parse_single_example(records[0], asked))
    x.run(tf.sparse_tensor_to_dense(parsed["a"], default_value=-1))


@program
def sequence_features(tf, x, path):
    records = [example(tf, a=[1, 2, 3, 4], s=[b"u"]), example(tf, a=[5, 6]), b""]
    asked = {"a": tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True, default_value=-1),
             "s": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True)}
    parsed = tf.parse_example(records, asked)
    x.note(sorted((key, t.shape.as_list()) for key, t in parsed.items()))
    x.run(parsed)
    x.run(tf.parse_single_example(records[0], asked))
    x.run(tf.parse_single_example(b"", asked))


@program
def sparse_by_index(tf, x, path):
    records = [example(tf, i=[3, 1], j=[0, 2], v=[1.0, 2.0]), example(tf, i=[0], j=[1], v=[3.0])]
    one = {"s": tf.SparseFeature("i", "v", tf.float32, 10)}
    two = {"s": tf.SparseFeature(["i", "j"], "v", tf.float32, [10, 3]),
           "v": tf.VarLenFeature(tf.float32)}
    x.run(tf.parse_example(records, one))
    x.run(tf.parse_example(records, two))
    x.run(tf.parse_single_example(records[0], one))
    x.run(tf.parse_single_example(
        records[0], {"s": tf.io.SparseFeature("i", "v", tf.float32, 10, already_sorted=True)}))


@program
def unfit_messages(tf, x, path):
    parse, single, fixed = tf.parse_example, tf.parse_single_example, tf.FixedLenFeature
    both = [example(tf, a=[1]), example(tf, b=[2])]
    x.run(parse(both, {"a": fixed([], tf.int64)}))
    x.run(parse(both, {"a": fixed([], tf.int64)}, example_names=["one", "two"]))
    x.run(single(both[1], {"a": fixed([], tf.int64)}))
    x.run(parse([example(tf, a=[1.5])], {"a": fixed([], tf.int64)}))
    x.run(single(example(tf, a=[1.5]), {"a": fixed([], tf.int64)}))
    x.run(parse([example(tf, a=[1.5])], {"a": tf.VarLenFeature(tf.string)}))
    x.run(single(example(tf, a=[1.5]), {"a": tf.VarLenFeature(tf.string)}))
    x.run(parse([example(tf, a=[1.5, 2.0])], {"a": fixed([3, 1], tf.float32)}))
    x.run(parse([example(tf, a=[1, 2, 3])],
                {"a": tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True)}))
    x.run(parse([example(tf, a=None)], {"a": fixed([], tf.int64)}))
    x.run(parse([example(tf, a=None)], {"a": fixed([], tf.int64, 7)}))
    x.run(parse([example(tf, a=[])], {"a": fixed([], tf.int64, 7)}))
    x.run(parse(["garbage"], {"a": fixed([], tf.int64, 7)}))
    x.run(single("garbage", {"a": fixed([], tf.int64, 7)}))
    fed = tf.placeholder(tf.string)
    x.run(parse(fed, {"a": tf.VarLenFeature(tf.int64)}), {fed: [[b""]]})
    x.run(parse([b"", b""], {"a": tf.VarLenFeature(tf.int64)}, example_names=["one"]))


@program
def unfit_features(tf, x, path):
    parse, fixed, blocks = tf.parse_example, tf.FixedLenFeature, tf.FixedLenSequenceFeature
    for asked in ({}, {"a": 3}, {"a": fixed(None, tf.int64)}, {"a": fixed([None], tf.int64)},
                  {"a": fixed([2, None], tf.int64)}, {"a": fixed([], None)},
                  {"a": tf.VarLenFeature(None)}, {"a": blocks([2], tf.int64)},
                  {"a": tf.SparseFeature("", "v", tf.int64, 3)},
                  {"a": tf.SparseFeature("i", "", tf.int64, 3)},
                  {"i": tf.VarLenFeature(tf.float32), "s": tf.SparseFeature("i", "v", tf.int64, 3)},
                  {"i": fixed([], tf.int64), "s": tf.SparseFeature("i", "v", tf.int64, 3)},
                  {"a": fixed([2], tf.int64, [1, 2, 3])}):
        x.fails(lambda: parse([b""], asked))
    x.fails(lambda: tf.parse_single_example([b""], {"a": fixed([], tf.int64)}))
    x.fails(lambda: tf.parse_single_example(b"", None))
    x.fails(lambda: tf.parse_single_sequence_example(b""))
    x.fails(lambda: tf.io.parse_sequence_example([b""], None, {"a": fixed([], tf.int64)}))


@program
def first_ops(tf, x, path):
    """The ops that TensorFlow 1.15's own functions made."""
    raw, records = tf.raw_ops, [example(tf, a=[1, 2]), b""]
    given = dict(sparse_types=[tf.int64], dense_shapes=[[1]],
                 dense_defaults=[np.array([5], np.float32)])
    x.run(list(raw.ParseExample(serialized=records, names=[], sparse_keys=["a"], dense_keys=["b"],
                                **given)))
    x.run(list(raw.ParseSingleExample(serialized=records[0], num_sparse=1, sparse_keys=["a"],
                                      dense_keys=["b"], **given)))
    ragged = dict(names=[], sparse_keys=np.zeros(0, object), dense_keys=np.zeros(0, object),
                  ragged_keys=["a", "b"], dense_defaults=[], num_sparse=0, sparse_types=[],
                  ragged_value_types=[tf.int64, tf.float32], dense_shapes=[],
                  ragged_split_types=[tf.int32, tf.int64])
    x.run(list(raw.ParseExampleV2(serialized=records + [example(tf, a=[4], b=[5.0])], **ragged)))
    x.run(list(raw.ParseExampleV2(serialized=records[0], **ragged)))
    x.run(list(raw.ParseExample(
        serialized=records, names=[], sparse_keys=["a"], dense_keys=["b"],
        **{**given, "dense_shapes": [[3]]})))
    x.run(list(raw.ParseExample(
        serialized=records, names=[], sparse_keys=["a"], dense_keys=["b"],
        **{**given, "dense_shapes": [[None, 2]], "dense_defaults": [np.zeros(2, np.float32)]})))


# ------------------------------------------------------------------------ SequenceExamples
def two_sequences(tf):
    return [sequence(tf, {"c": [1], "d": [2.5]}, w=[[1, 2], [3]],
                     x=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], s=[[b"p"], [b"q"]]),
            sequence(tf, {"c": [4, 5]}, w=[None], x=[], s=[[b"r"]])]


@program
def sequence_examples(tf, x, path):
    records = two_sequences(tf)
    context = {"c": tf.VarLenFeature(tf.int64), "d": tf.FixedLenFeature([], tf.float32, 0.5)}
    lists = {"w": tf.VarLenFeature(tf.int64), "x": tf.FixedLenSequenceFeature([2], tf.float32),
             "s": tf.FixedLenSequenceFeature([], tf.string),
             "none": tf.FixedLenSequenceFeature([3], tf.int64, allow_missing=True)}
    parsed = tf.io.parse_sequence_example(records, context, lists)
    x.note([sorted((key, t.shape.as_list()) for key, t in part.items()) for part in parsed])
    x.run(parsed)
    one = tf.parse_single_sequence_example(records[0], context, lists)
    x.note([sorted((key, t.shape.as_list()) for key, t in part.items()) for part in one])
    x.run(one)
    x.run(tf.io.parse_single_sequence_example(b"", {"c": context["c"]}, {
        "w": lists["w"], "none": lists["none"]}))
    fed = tf.placeholder(tf.string)
    x.run(tf.io.parse_sequence_example(fed, context, {"w": lists["w"], "x": lists["x"]}),
          {fed: np.zeros(0, object)})


@program
def unfit_sequences(tf, x, path):
    records = two_sequences(tf)
    fixed, blocks, some = tf.FixedLenFeature, tf.FixedLenSequenceFeature, tf.VarLenFeature
    parse = tf.io.parse_sequence_example

    def both(context, lists, records=records, **kwargs):
        x.run(parse(records, context, lists, **kwargs))
    both({"c": some(tf.int64)}, {"none": blocks([2], tf.float32)})
    x.run(tf.parse_single_sequence_example(b"", None, {"none": blocks([2], tf.float32)}))
    both({"d": fixed([], tf.float32)}, {"w": some(tf.int64)}, example_names=["n", "m"])
    both({"d": fixed([], tf.int64)}, {"w": some(tf.int64)})
    both({"d": some(tf.int64)}, {"w": some(tf.int64)})
    both({"c": fixed([], tf.int64)}, {"w": some(tf.int64)}, records[1:])
    both(None, {"w": some(tf.float32)}, records[:1])
    both(None, {"x": blocks([2], tf.int64)}, records[:1])
    both(None, {"x": blocks([3], tf.float32)}, records[:1])
    both(None, {"w": blocks([], tf.int64)}, records[1:])
    both(None, {"w": some(tf.int64)}, ["garbage"])


@program
def first_sequence_ops(tf, x, path):
    raw, records = tf.raw_ops, two_sequences(tf)
    x.run(list(raw.ParseSequenceExample(
        serialized=records, debug_name=[], context_dense_defaults=[np.array([.5], np.float32)],
        feature_list_dense_missing_assumed_empty=["gone"], context_sparse_keys=["c"],
        context_dense_keys=["d"], feature_list_sparse_keys=["w"],
        feature_list_dense_keys=["x", "gone"], Ncontext_sparse=1, Ncontext_dense=1,
        Nfeature_list_sparse=1, Nfeature_list_dense=2, context_sparse_types=[tf.int64],
        feature_list_dense_types=[tf.float32, tf.int64], context_dense_shapes=[[1]],
        feature_list_sparse_types=[tf.int64], feature_list_dense_shapes=[[2], []])))
    single = dict(context_sparse_keys=["c"], context_dense_keys=["d"],
                  feature_list_sparse_keys=["w"], feature_list_dense_keys=["x"],
                  context_dense_defaults=[np.array([.5], np.float32)], debug_name="dbg",
                  context_sparse_types=[tf.int64], feature_list_dense_types=[tf.float32],
                  context_dense_shapes=[[1]], feature_list_sparse_types=[tf.int64],
                  feature_list_dense_shapes=[[2]])
    for record, missing in ((records[0], np.zeros(0, object)), (b"", ["x"]), (b"", ["y"])):
        x.run(list(raw.ParseSingleSequenceExample(
            serialized=record, feature_list_dense_missing_assumed_empty=missing, **single)))
    nothing = np.zeros(0, object)
    x.run(list(raw.ParseSequenceExampleV2(
        serialized=records + [b""], debug_name=[], context_sparse_keys=nothing,
        context_dense_keys=nothing, context_ragged_keys=["c"], feature_list_sparse_keys=nothing,
        feature_list_dense_keys=nothing, feature_list_ragged_keys=["w"],
        feature_list_dense_missing_assumed_empty=np.zeros(0, bool), context_dense_defaults=[],
        context_ragged_value_types=[tf.int64], context_ragged_split_types=[tf.int32],
        feature_list_ragged_value_types=[tf.int64], feature_list_ragged_split_types=[tf.int64])))


# ------------------------------------------------------------------------- CSV, JSON, tensors
@program
def csv(tf, x, path):
    def columns(records, defaults, **kwargs):
        x.run(tf.decode_csv(records, defaults, **kwargs))
    columns(["1,2.5,a", ",,"], [[9], [0.5], ["d"]])
    columns('"a ""quoted"", one",2', [[""], [0]])
    columns("a;b;;", [["-"]] * 4, field_delim=";")
    columns('a"b,c', [[""], [""]], use_quote_delim=False)
    columns("x NA z", [["-"], ["?"], ["!"]], field_delim=" ", na_value="NA")
    columns(["1,2,3,4", "5,6,7,8"], [[0], [0.0]], select_cols=[1, 3])
    columns(["1", "-2"], [tf.constant([], tf.int64)])
    columns(" 7 ,1e3", [[0], [0.0]])
    columns("9223372036854775807,1e400", [tf.constant([0], tf.int64), tf.constant([0], tf.float64)])
    columns("a\tb", [[""], [""]], field_delim="\t")
    columns('"line\nbreak",1', [[""], [0]])
    columns(",1", [tf.constant([], tf.int32), [0]])
    columns("1,2", [[0]])
    columns("1", [[0], [0]])
    columns("x,2", [[0], [0]])
    columns("x,2", [[0.0], [0]])
    columns('a"b,c', [[""], [""]])
    columns('"ab"c,d', [[""], [""]])
    columns("1,2", [[0]], select_cols=[2])
    for given in (dict(select_cols=[1, 0]), dict(select_cols=[-1, 0]), dict(select_cols=[0])):
        x.fails(lambda: tf.decode_csv("1,2", [[0], [0]], **given))


@program
def raw_bytes(tf, x, path):
    x.run(tf.decode_raw([b"\x01\x00\x02\x00"], tf.int16))
    x.run(tf.decode_raw([b"\x01\x00\x02\x00"], tf.int16, little_endian=False))
    x.run(tf.decode_raw([[b"ab"], [b"cd"]], tf.uint8))
    x.run(tf.decode_raw(np.array([1.5, -2.0], "<f4").tobytes(), tf.float32))
    x.run(tf.io.decode_raw([b"abc", b"d"], tf.uint8))
    x.run(tf.decode_raw(b"abc", tf.int16))
    x.run(tf.io.decode_compressed([zlib.compress(b"aa"), zlib.compress(b"")], "ZLIB"))
    x.run(tf.io.decode_compressed(gzip.compress(b"bb"), compression_type="GZIP"))


@program
def json_examples(tf, x, path):
    text = ('{"features": {"feature": {"a": {"int64List": {"value": ["7", 8]}}, "f": {"floatList": '
            '{"value": [0.5, "NaN", "-Infinity"]}}, "s": {"bytesList": {"value": ["aGk="]}}}}}')
    asked = {"a": tf.FixedLenFeature([2], tf.int64), "f": tf.FixedLenFeature([3], tf.float32),
             "s": tf.FixedLenFeature([], tf.string)}
    found = tf.decode_json_example([text, text.replace("int64List", "int64_list")])
    x.note(found.shape.as_list())
    x.run({key: tf.as_string(t) if key == "f" else t
           for key, t in tf.parse_example(found, asked).items()})
    x.run(tf.io.decode_json_example("{}"))
    for wrong in ("{", '{"features": 3}', '{"nothing": 1}'):
        try:
            x.session.run(tf.decode_json_example(wrong))
        except tf.errors.InvalidArgumentError:
            x.note("InvalidArgumentError")


@program
def tensors(tf, x, path):
    for value in (np.arange(6, dtype=np.float32).reshape(2, 3), np.array([b"a", b""], object),
                  np.int64(-3), np.zeros([0, 2], np.int32), np.array([True, False]),
                  np.array([1.5], np.float16)):
        text = tf.serialize_tensor(value)
        x.run([text, tf.io.parse_tensor(text, text.op.inputs[0].dtype)])
    packed = b"\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02" + b"\x2d" + struct.pack("<f", 2.5)
    x.run(tf.parse_tensor(packed, tf.float32))          # one float_val for four elements
    x.run(tf.parse_tensor(packed, tf.int32))
    x.run(tf.parse_tensor("garbage", tf.int32))


# -------------------------------------------------------------------------------- readers
def text_files(path, **named):
    names = []
    for name, text in named.items():
        file = path / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        names.append(str(file))
    return names


def filled(tf, x, names):
    """A queue of the names, closed."""
    queue = tf.FIFOQueue(99, [tf.string], shapes=[()])
    x.run(queue.enqueue_many([names]))
    x.run(queue.close())
    return queue


@program
def text_line_reader(tf, x, path):
    names = text_files(path, one="h1\nh2\na\nb\r\n", two="h1\n", three="h1\nh2\nc")
    reader, queue = tf.TextLineReader(skip_header_lines=2, name="lines"), filled(tf, x, names)
    record = reader.read(queue)
    x.note([reader.reader_ref.op.type, [t.op.type for t in record], record[0].op.name,
            reader.supports_serialize, [t.shape.as_list() for t in record]])
    for _ in range(4):
        x.run(list(record))
        x.run([reader.num_records_produced(), reader.num_work_units_completed()])
    x.run(reader.serialize_state())
    x.run(reader.reset())
    x.run([reader.num_records_produced(), reader.num_work_units_completed()])


@program
def read_up_to(tf, x, path):
    names = text_files(path, one="a\nb\nc\n", two="", three="d\ne\n", four="f")
    reader, queue = tf.TextLineReader(), filled(tf, x, names)
    keys, values = reader.read_up_to(queue, 2)
    x.note([keys.shape.as_list(), values.op.type])
    for _ in range(5):
        x.run([keys, values])
        x.run([reader.num_records_produced(), reader.num_work_units_completed()])


@program
def whole_file_reader(tf, x, path):
    names = text_files(path, one="a\nb", two="", three=b"\x00\xff")
    reader, queue = tf.WholeFileReader(), filled(tf, x, names + [str(path / "none")])
    record = reader.read(queue)
    for _ in range(5):
        x.run(list(record))
    x.run([reader.num_records_produced(), reader.num_work_units_completed()])
    state = reader.serialize_state()
    saved = x.session.run(state)
    x.note(saved[:6].decode("latin-1"))          # the length of a path follows
    other = tf.WholeFileReader()
    x.run(other.restore_state(saved))
    x.run([other.num_records_produced(), other.num_work_units_completed()])
    x.run(other.restore_state("garbage"))
    x.run(other.restore_state(b"\x08\x01\x10\x02"))


@program
def identity_reader(tf, x, path):
    reader, queue = tf.IdentityReader(name="same"), filled(tf, x, ["a", "b", "c"])
    x.run(list(reader.read(queue)))
    x.run(list(reader.read_up_to(queue, 3)))
    x.run([reader.num_records_produced(), reader.num_work_units_completed()])
    x.run(reader.reset())
    x.run(list(reader.read(queue, name="last")))
    x.run(reader.serialize_state())


@program
def fixed_length_reader(tf, x, path):
    names = text_files(path, one="HHaabbccF", two="HHdF", three="HHeeff?F")

    def records(count, **sizes):
        reader, queue = tf.FixedLengthRecordReader(**sizes), filled(tf, x, names)
        for _ in range(count):
            x.run(list(reader.read(queue)))
        x.run([reader.num_records_produced(), reader.num_work_units_completed()])
    records(6, record_bytes=2, header_bytes=2, footer_bytes=1)
    records(7, record_bytes=2, header_bytes=2, footer_bytes=1, hop_bytes=1)
    records(4, record_bytes=2, header_bytes=2, hop_bytes=4)
    packed = text_files(path, packed=zlib.compress(b"aabbcc"))
    reader, queue = tf.FixedLengthRecordReader(3, encoding="ZLIB"), filled(tf, x, packed)
    x.run(list(reader.read_up_to(queue, 9)))
    for wrong in (dict(record_bytes=-1), dict(record_bytes=2, header_bytes=-1),
                  dict(record_bytes=2, footer_bytes=-1), dict(record_bytes=2, hop_bytes=-1)):
        try:
            x.session.run(tf.FixedLengthRecordReader(**wrong).num_records_produced())
        except tf.errors.InvalidArgumentError:
            x.note("InvalidArgumentError")


@program
def tf_record_reader(tf, x, path):
    for name in ("", "ZLIB", "GZIP"):
        options = tf.python_io.TFRecordOptions(
            getattr(tf.python_io.TFRecordCompressionType, name or "NONE"))
        files = [str(path / f"{name}{i}") for i in range(2)]
        for i, file in enumerate(files):
            with tf.python_io.TFRecordWriter(file, options) as writer:
                for k in range(i + 1):
                    writer.write(b"record %d" % k * (i + 1))
        reader = tf.TFRecordReader(options=options) if name else tf.TFRecordReader()
        queue = filled(tf, x, files)
        for _ in range(4):
            x.run(list(reader.read(queue)))
        x.run([reader.num_records_produced(), reader.num_work_units_completed()])


@program
def damaged_records(tf, x, path):
    file = path / "plain"
    with tf.python_io.TFRecordWriter(str(file)) as writer:
        for text in (b"first", b"second"):
            writer.write(text)
    whole = file.read_bytes()
    for wrong in (whole[:-3], whole[:25] + b"!" + whole[26:], whole[:22] + b"\xff" + whole[23:]):
        file.write_bytes(wrong)
        queue, reader = filled(tf, x, [str(file)]), tf.TFRecordReader()
        record = reader.read(queue)
        x.run(list(record))
        try:
            x.session.run(record)
        except tf.errors.DataLossError:
            x.note("DataLossError")
        except tf.errors.OutOfRangeError:
            x.note("OutOfRangeError")


@program
def readers_wait(tf, x, path):
    [name] = text_files(path, one="a\nb\nc\n")
    queue = tf.FIFOQueue(3, [tf.string], shapes=[()])
    reader = tf.TextLineReader()
    record = reader.read(queue)
    waits = [x.blocked(list(record)) for _ in range(1)]
    x.run(queue.enqueue([name]))
    waits[0].end()
    x.run(list(record))
    x.run(list(record))
    waits = x.blocked(list(record))
    x.run(queue.close())
    waits.end()


@program
def wrong_queues(tf, x, path):
    reader = tf.TextLineReader()
    for queue, given in ((tf.FIFOQueue(3, [tf.int32], shapes=[()]), [1]),
                         (tf.FIFOQueue(3, [tf.string, tf.string], shapes=[(), ()]), ["a", "b"]),
                         (tf.FIFOQueue(3, [tf.string], shapes=[(2,)]), [["a", "b"]])):
        x.run(queue.enqueue(given))
        x.run(list(reader.read(queue)))
    x.run(list(reader.read_up_to(tf.FIFOQueue(3, [tf.string], shapes=[()]), 0)))


@program
def producers(tf, x, path):
    names = text_files(path, one="1,2\n3,4\n", two="5,6\n")
    queue = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
    key, line = tf.TextLineReader().read(queue)
    a, b = tf.decode_csv(line, [[0], [0]])
    batch = tf.train.batch([a, b], batch_size=4, allow_smaller_final_batch=True)
    x.session.run(tf.local_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(x.session, coord)
    for _ in range(3):
        x.run(batch)
    coord.request_stop()
    coord.join(threads)


# ------------------------------------------------------------------------------- datasets
def drained(x, dataset):
    """What a dataset gives, until its end, or an error's type."""
    following, found = tf_of(x).data.make_one_shot_iterator(dataset).get_next(), []
    errors = tf_of(x).errors
    try:
        while True:
            found.append(x.session.run(following))
    except errors.OutOfRangeError:
        x.note(found)
    except errors.OpError as error:
        x.note(found + [type(error).__name__])


def tf_of(x):
    return x.tf


@program
def csv_datasets(tf, x, path):
    one, two = text_files(path, one="a,b,c\n1,2.5,x\n3,,\"y,z\"\n", two="a,b,c\n5,6,w\n,7,v\n")
    make = tf.data.experimental.CsvDataset
    drained(x, make([one], [tf.int32, [0.5], tf.string], header=True))
    drained(x, make([one, two], [[9], [0.5], ["-"]], header=True))
    drained(x, make(one, [[0.25], ["-"]], header=True, select_cols=[1, 2]))
    drained(x, make([two], [tf.int32, [0.5], tf.string], header=True))
    drained(x, make(two, [tf.string, tf.string, tf.string], na_value="w"))
    dataset = make(one, [tf.int64, [0.5], tf.string], header=True)
    x.note([[t.name for t in dataset.output_types], [s.as_list() for s in dataset.output_shapes]])


@program
def made_csv_datasets(tf, x, path):
    text_files(path, one="a,b,c\n1,2.5,x\n3,4,y\n5,6,w\n", two="a,b,c\n7,8,v\n9,1e10,\n")
    make = tf.data.experimental.make_csv_dataset

    def made(**kwargs):
        dataset = make([str(path / "one"), str(path / "two")], 2, shuffle=False, num_epochs=1,
                       **kwargs)
        drained(x, dataset.map(lambda *parts: parts))
    made(column_defaults=[0, 0.0, ""])
    made(label_name="a", column_defaults=[0, 0.0, ""])
    made(select_columns=["c", "a"], column_defaults=[0, ""])
    made(column_names=["p", "q", "r"], label_name="q", column_defaults=["", "", ""])
    dataset = make(str(path / "one"), 2, label_name="c", num_epochs=1, shuffle=False)
    x.note([str(sorted((k, t.name) for k, t in dataset.output_types[0].items())),
            dataset.output_types[1].name])
    for wrong in (dict(label_name="z"), dict(column_names=["a", "a", "b"]),
                  dict(select_columns=["a", "a"]), dict(select_columns=["z"])):
        x.fails(lambda: make(str(path / "one"), 2, **wrong))


@program
def sparse_datasets(tf, x, path):
    rows = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], [1.0, 2.0, 3.0], [3, 4])
    dataset = tf.data.Dataset.from_tensor_slices((rows, [10, 20, 30]))
    x.note([str(tf.data.get_output_types(dataset)), str(tf.data.get_output_shapes(dataset)).replace(
        "Dimension(", "").replace(")", "").replace("TensorShape(", "").replace("(", "")])
    drained(x, dataset)
    drained(x, dataset.batch(2))
    drained(x, dataset.batch(2).map(lambda s, n: (tf.sparse_tensor_to_dense(s), n + 1)))
    drained(x, dataset.map(lambda s, n: tf.SparseTensor(s.indices, s.values * 2, s.dense_shape)))
    drained(x, dataset.filter(lambda s, n: tf.equal(tf.size(s.values), 0)))
    drained(x, dataset.batch(3).apply(tf.data.experimental.unbatch()))
    drained(x, tf.data.Dataset.from_tensors({"s": rows}).repeat(2))
    drained(x, tf.data.Dataset.range(3).map(
        lambda i: tf.SparseTensor([[i]], [i], [i + 1])).batch(3))
    drained(x, tf.data.Dataset.zip((dataset, dataset.skip(1))))
    drained(x, dataset.concatenate(dataset.take(1)).shuffle(1).prefetch(1))
    iterator = tf.data.Iterator.from_structure(
        tf.data.get_output_types(dataset), tf.data.get_output_shapes(dataset),
        output_classes=tf.data.get_output_classes(dataset))
    following = iterator.get_next()
    x.run(iterator.make_initializer(dataset))
    x.run(following)
    x.fails(lambda: dataset.padded_batch(2, ([4], [])))


@program
def datasets_of_examples(tf, x, path):
    files = [str(path / f"{i}.tfrecord") for i in range(2)]
    for i, file in enumerate(files):
        with tf.python_io.TFRecordWriter(file) as writer:
            for k in range(3):
                writer.write(example(tf, n=[10 * i + k], v=[1.5] * k))
    asked = {"n": tf.FixedLenFeature([], tf.int64), "v": tf.VarLenFeature(tf.float32)}
    records = tf.data.TFRecordDataset(files).batch(4)
    drained(x, records.apply(tf.data.experimental.parse_example_dataset(asked, 2)))
    make = tf.data.experimental.make_batched_features_dataset
    drained(x, make(files, 4, asked, num_epochs=1, shuffle=False))
    drained(x, make(files, 4, asked, label_key="n", num_epochs=1, shuffle=False,
                    drop_final_batch=True))
    drained(x, make(str(path / "*"), 6, {"n": asked["n"]}, num_epochs=2, shuffle=False,
                    reader_num_threads=2))
    x.fails(lambda: make(str(path / "none*"), 4, asked))
    x.fails(lambda: make(files, 4, asked, label_key="z"))
