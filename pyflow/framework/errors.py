"""Exceptions that running a graph raises: `OpError` and one class per canonical status code.

Names, codes and constructor arguments are TF 1.x's `tf.errors`. A code comes from a kernel or the
executor (kernel.h's `pf_status`); `exception_type_from_error_code` picks the class.

    >>> try: raise InvalidArgumentError(None, None, "bad")
    ... except OpError as e: print(e.error_code == INVALID_ARGUMENT, e.message)
    True bad
"""
import errno

from pyflow.framework import user_traceback

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """A step failed. `op` is the Operation when it is known, `node_def` its NodeDef (built
    lazily)."""

    def __init__(self, node_def, op, message, error_code):
        super().__init__(message)
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code

    @property
    def message(self):
        """What went wrong, without the creation trace."""
        return self._message

    @property
    def op(self):
        """The Operation that failed, or None if it is unknown or was made by a rewrite."""
        return self._op

    @property
    def node_def(self):
        """The NodeDef of the failed node, or None."""
        if self._node_def is None and self._op is not None:
            self._node_def = self._op.node_def
        return self._node_def

    @property
    def error_code(self):
        """The canonical status code, such as `tf.errors.INVALID_ARGUMENT`."""
        return self._error_code

    def _render_traceback_(self):
        """What IPython prints."""
        return user_traceback.render(self)

    def __reduce__(self):  # an Operation does not travel between processes: its message does
        return _rebuild, (type(self), str(self), self._error_code)

    def __str__(self):
        trace = getattr(self._op, "creation_trace", None)
        if trace is None:
            return str(self._message)
        node = f"Node {self._op.name!r} ({self._op.type})"
        return f"{self._message}\n\n{node} was made here:\n{trace()}"


def _rebuild(cls, message, code):
    return OpError(None, None, message, code) if cls is OpError else cls(None, None, message)


_CLASS_BY_CODE = {}


def _with_code(code):
    def decorate(cls):
        def __init__(self, node_def, op, message):
            OpError.__init__(self, node_def, op, message, code)
        if "__init__" not in vars(cls):
            cls.__init__ = __init__
        _CLASS_BY_CODE[code] = cls
        return cls
    return decorate


@_with_code(CANCELLED)
class CancelledError(OpError):
    """The step was cancelled, by a failure elsewhere or by closing its session."""


@_with_code(UNKNOWN)
class UnknownError(OpError):
    """An error without a better code; `error_code`: what was known of it."""

    def __init__(self, node_def, op, message, error_code=UNKNOWN):
        super().__init__(node_def, op, message, error_code)


@_with_code(INVALID_ARGUMENT)
class InvalidArgumentError(OpError):
    """An input's value, shape or type is not one the op accepts."""


@_with_code(DEADLINE_EXCEEDED)
class DeadlineExceededError(OpError):
    """The deadline passed before the step was done."""


@_with_code(NOT_FOUND)
class NotFoundError(OpError):
    """A file, kernel, op or named resource does not exist."""


@_with_code(ALREADY_EXISTS)
class AlreadyExistsError(OpError):
    """Something that was to be created exists already."""


@_with_code(PERMISSION_DENIED)
class PermissionDeniedError(OpError):
    """The caller may not do this, for example write to a folder."""


@_with_code(UNAUTHENTICATED)
class UnauthenticatedError(OpError):
    """The peer did not prove who it is."""


@_with_code(RESOURCE_EXHAUSTED)
class ResourceExhaustedError(OpError):
    """Memory, disk or another quota ran out."""


@_with_code(FAILED_PRECONDITION)
class FailedPreconditionError(OpError):
    """The system is not in the state the op needs, for example a variable is not initialised."""


@_with_code(ABORTED)
class AbortedError(OpError):
    """The step was aborted, for example because a worker was restarted."""


@_with_code(OUT_OF_RANGE)
class OutOfRangeError(OpError):
    """An input is at its end, for example a closed and empty queue.
    node_def: of the node; op: the Operation, None if it is not the graph's; message: what the error
    says.

        >>> element = tf.data.Dataset.range(2).make_one_shot_iterator().get_next()
        >>> with tf.Session() as sess:
        ...     try:
        ...         while True:
        ...             print(sess.run(element))
        ...     except tf.errors.OutOfRangeError:
        ...         print("end")
        0
        1
        end
    """


@_with_code(UNIMPLEMENTED)
class UnimplementedError(OpError):
    """The op has no kernel for this device, type or option."""


@_with_code(INTERNAL)
class InternalError(OpError):
    """An invariant of the runtime or of a kernel is broken."""


@_with_code(UNAVAILABLE)
class UnavailableError(OpError):
    """The runtime or a peer cannot be reached now; trying again may help."""


@_with_code(DATA_LOSS)
class DataLossError(OpError):
    """Data is lost or corrupt, for example a truncated checkpoint."""


_BY_ERRNO = {name: kind for kind, names in (
    (NotFoundError, "ENOENT ENODEV ENXIO"),
    (InvalidArgumentError, "ENAMETOOLONG EINVAL E2BIG ESPIPE"),
    (AlreadyExistsError, "EEXIST"),
    (PermissionDeniedError, "EACCES EPERM EROFS"),
    (FailedPreconditionError, "ENOTDIR EISDIR ENOTEMPTY EBUSY ETXTBSY EBADF EPIPE"),
    (ResourceExhaustedError, "ENOSPC EDQUOT EMFILE ENFILE EMLINK ENOMEM"),
    (OutOfRangeError, "EFBIG EOVERFLOW"),
) for name in names.split()}


def of_os_error(error):
    """The exception TF's file systems raise for what an OSError says."""
    kind = _BY_ERRNO.get(errno.errorcode.get(error.errno), UnknownError)
    return kind(None, None, str(error))


def exception_type_from_error_code(error_code):
    """The exception class of a code; UnknownError for a code nobody defined."""
    return _CLASS_BY_CODE.get(error_code, UnknownError)


def error_code_from_exception_type(cls):
    """The code of an exception class, or UNKNOWN."""
    return next((code for code, known in _CLASS_BY_CODE.items() if known is cls), UNKNOWN)
