"""tf.RunMetadata: a message whose content is made when it is first read.

`Session.run` leaves in it what the step recorded, 64 bytes per kernel and output; making the
protobuf message of that costs more than tracing does, so whoever reads it pays for it, and who does
not read it never does.

Invariants
    1. Every method and attribute of a protobuf message makes the content, but for Clear and what
       replaces everything (CopyFrom, ParseFromString), which drop it unread.
    2. The content is made once.  Where threads read at once each may work it out, and all get that
       of the first.  There is no lock, so a fork in the midst of it leaves none held.
    3. What is unread refers to records and names, not to sessions, graphs, feeds or tensors.

It is a google.protobuf.message.Message with all of its methods, copied, compared, pickled, printed
and converted like one, but not of the class that protobuf generates, protos.RunMetadata: code in C
which insists on that one (CopyFrom and MergeFrom of a plain message, UnknownFieldSet) raises
TypeError, and takes `protos.RunMetadata.FromString(m.SerializeToString())`.

Threads: any may read; one message is for one run at a time.

    metadata = tf.RunMetadata()
    sess.run(y, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    metadata.step_stats                 # made now
"""
from google.protobuf.message import Message

from pyflow.framework import protos

_Plain = protos.RunMetadata


class RunMetadata(Message):
    """What a `Session.run` tells about itself, TensorFlow's message of that name.

    step_stats: of a traced run (RunOptions.trace_level).  partition_graphs: where RunOptions has
    output_partition_graphs.  Each run replaces both, also one that fails.  They are made when they
    are first read: about 400 ns per kernel, once.
    """

    __slots__ = ("_content", "__weakref__")
    DESCRIPTOR = _Plain.DESCRIPTOR

    def __init__(self, **fields):
        self._fill_later()
        if fields:
            self.MergeFrom(_Plain(**fields))

    @property
    def step_stats(self):
        """StepStats: what ran when, device by device."""
        return self._message().step_stats

    def _repr_html_(self):
        from pyflow.framework import notebook
        return notebook.step_html(self.step_stats) or None

    @property
    def cost_graph(self):
        """CostGraphDef: empty, for what kernels cost is in step_stats."""
        return self._message().cost_graph

    @property
    def partition_graphs(self):
        """[GraphDef] of what ran, one per partition."""
        return self._message().partition_graphs

    def _fill_later(self, write=None):
        """Replaces the content by what write(message) will put into an empty one."""
        self._content = {"write": write}

    def _message(self):
        """The message; made by the first who asks."""
        content = self._content             # of one run, whatever others put in its place meanwhile
        if "message" not in content:
            message, write = _Plain(), content.get("write")
            if write is not None:
                write(message)
            content.setdefault("message", message)        # one step: the first thread's counts
            content.pop("write", None)
        return content["message"]

    @property
    def _unread(self):
        """There is something that nobody has read."""
        return self._content.get("write") is not None

    def Clear(self):
        """Empties the message."""
        self._fill_later()

    def MergeFrom(self, other_msg):
        """Adds the content of a RunMetadata, of this class or of protobuf's."""
        if isinstance(other_msg, RunMetadata):
            other_msg = other_msg._message()
        self._message().MergeFrom(other_msg)

    @classmethod
    def FromString(cls, s):
        """A RunMetadata of serialized bytes."""
        message = cls()
        message.ParseFromString(s)
        return message

    def __eq__(self, other):
        if isinstance(other, RunMetadata):
            other = other._message()
        return self._message() == other

    __hash__ = Message.__hash__

    def __repr__(self):
        return repr(self._message())

    def __getattr__(self, name):
        return getattr(self._message(), name)


def _forward(name):
    def method(self, *args, **kwargs):
        return getattr(self._message(), name)(*args, **kwargs)
    method.__name__, method.__qualname__ = name, f"RunMetadata.{name}"
    method.__doc__ = getattr(Message, name).__doc__
    return method


for _name in ("ByteSize", "ClearExtension", "ClearField", "DiscardUnknownFields", "HasExtension",
              "HasField", "IsInitialized", "ListFields", "MergeFromString",
              "SerializePartialToString", "SerializeToString", "SetInParent", "UnknownFields",
              "WhichOneof", "_SetListener", "__contains__", "__str__", "__unicode__"):
    if hasattr(Message, _name):         # which of them there are depends on protobuf's version
        setattr(RunMetadata, _name, _forward(_name))
for _field in RunMetadata.DESCRIPTOR.fields:
    setattr(RunMetadata, f"{_field.name.upper()}_FIELD_NUMBER", _field.number)
