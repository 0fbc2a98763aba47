"""Handles of tensors that stay in a session between runs (tf.get_session_handle).

Invariants
    1. The tensor itself lives in the session's state (core: kept.pyx); a handle is its name.
    2. A TensorHandle that ends without `delete` or `get_raw_handle` is dead; the session deletes
       the tensors of dead handles together, when DEAD of them have come together (TF's number).

Threads: handles may be used and may end on any thread.
"""
import collections

from pyflow.framework import dtypes, errors

DEAD = 10
_FETCHED = frozenset(("GetSessionHandle", "GetSessionHandleV2"))


class TensorHandle:
    """What fetching tf.get_session_handle gives: the name of a tensor that lives in the session.

    It can be fed for any tensor of its type and shape, without becoming an array on the way.
    """

    def __init__(self, handle, dtype, session):
        self._handle, self._dtype, self._session = handle, dtype, session
        self._alive = True

    def __del__(self):
        if self._alive:
            self._session._register_dead_handle(self._handle)

    def __str__(self):
        return self._handle

    def __repr__(self):
        return f"<TensorHandle {self._handle!r} of {self._dtype.name}>"

    @property
    def handle(self):
        """The text that names the tensor, to feed for tf.get_session_tensor's placeholder."""
        return self._handle

    def eval(self):
        """The tensor's value.  Raises TypeError after `delete` and `get_raw_handle`,
        InvalidArgumentError if its tensor was deleted otherwise."""
        self._require_alive()
        self._session._require_open()
        found = find(self._session._state, self._handle)
        return found.array() if found.on_host else self._brought()

    def delete(self):
        """Deletes the tensor now.  Raises as `eval`."""
        self._require_alive()
        self._alive = False
        self._session._require_open()
        if not self._session._state.forget(self._handle):
            raise errors.InvalidArgumentError(
                None, None,
                f"Failed to delete a tensor with handle '{self._handle}' in the session store.")

    def get_raw_handle(self):
        """The text that names the tensor, which from now on lives until it is deleted through
        tf.delete_session_tensor."""
        self._alive = False
        return self._handle

    def _require_alive(self):
        if not self._alive:
            raise TypeError(
                f"Persistent tensor {self._handle} may have already been deleted.")

    def _brought(self):
        """The value of a tensor in another memory than the host's, by a plan."""
        session = self._session
        reader = session._handle_readers.get(self._dtype)
        if reader is None:
            with session.graph.as_default():
                from pyflow.lib.variables import session_functions     # seldom: sessions start without it
                reader = session_functions.get_session_tensor("", self._dtype)
            session._handle_readers[self._dtype] = reader
        return session.run(reader[1], {reader[0]: self._handle})


class DeadHandles:
    """The handles of a session that ended with their tensors alive."""

    def __init__(self, state):
        self._state, self._names = state, collections.deque()

    def add(self, name):
        """Any thread, also from a finaliser that interrupts this very function."""
        self._names.append(name)
        if len(self._names) < DEAD:
            return
        try:
            while True:
                self._state.forget(self._names.popleft())
        except IndexError:
            pass                        # none left


def find(state, name):
    """The core's Kept of that name.  Raises InvalidArgumentError."""
    found = state.kept(name)
    if found is None:
        raise errors.InvalidArgumentError(
            None, None, f"The tensor with handle '{name}' is not in the session store.")
    return found


def fed(value, tensor, state):
    """What a plan takes for `tensor` where a TensorHandle is fed: a Kept, or an array of a tensor in
    a device's memory.  Raises InvalidArgumentError for another type, ValueError for another
    shape."""
    found = find(state, value.handle)
    wanted = tensor.dtype.base_dtype
    if found.type != wanted.as_datatype_enum:
        raise errors.InvalidArgumentError(
            None, tensor.op,
            f"Expects the handle fed for {tensor.name} to be of {wanted.name} but that of "
            f"{dtypes.as_dtype(found.type).name} is provided: {value.handle}")
    if not tensor.get_shape().is_compatible_with(found.shape):
        raise ValueError(
            f"Cannot feed value of shape {found.shape} for Tensor {tensor.name!r}, which has shape "
            f"'{tensor.get_shape()}' and was made at {tensor.op.user_frame}: it is that of the "
            f"handle {value.handle}")
    return found if found.on_host else value._brought()


def fetched(tensors):
    """{slot: element type of what is kept} of the fetches that become TensorHandles."""
    return {i: t.op.inputs[0].dtype.base_dtype for i, t in enumerate(tensors)
            if t.op.type in _FETCHED}


def wrap(session, slots, results):
    """`results`, a list, with TensorHandles in the slots of `fetched`."""
    results = list(results)
    for slot, dtype in slots.items():
        value = results[slot]
        name = value.decode() if isinstance(value, bytes) else value.name
        results[slot] = TensorHandle(name, dtype, session)
    return results
