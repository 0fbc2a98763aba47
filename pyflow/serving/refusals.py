"""What an error is in HTTP: its status code, and a body {"error": message}.

Errors are tf.errors of the canonical codes, whose HTTP codes are those of TensorFlow Serving
(model_servers/http_server.cc), and `Refused` for what only HTTP knows.

    raise errors.InvalidArgumentError(None, None, "...")        # 400
    raise refusals.Refused(413, "...")

Threads: functions without state.
"""
from pyflow.framework import errors

STATUS = {
    errors.CANCELLED: 499, errors.UNKNOWN: 500, errors.INVALID_ARGUMENT: 400,
    errors.DEADLINE_EXCEEDED: 504, errors.NOT_FOUND: 404, errors.ALREADY_EXISTS: 409,
    errors.PERMISSION_DENIED: 403, errors.RESOURCE_EXHAUSTED: 429,
    errors.FAILED_PRECONDITION: 400, errors.ABORTED: 409, errors.OUT_OF_RANGE: 400,
    errors.UNIMPLEMENTED: 501, errors.INTERNAL: 500, errors.UNAVAILABLE: 503,
    errors.DATA_LOSS: 500, errors.UNAUTHENTICATED: 401,
}
LONGEST = 2000          # characters of a message


class Refused(Exception):
    """A request that is answered with this HTTP status, and headers as pairs of bytes."""

    def __init__(self, status, message, headers=()):
        super().__init__(message)
        self.status, self.headers = status, list(headers)


def bad(message):
    """The error of a request that is wrong in itself: 400."""
    return errors.InvalidArgumentError(None, None, message)


def busy(message):
    """503: the same request may be answered in a second."""
    return Refused(503, message, [(b"retry-after", b"1")])


def status_and_message(error):
    """(HTTP status, text) of an error that was raised on purpose; None for any other."""
    if isinstance(error, Refused):
        return error.status, str(error)
    if isinstance(error, errors.OpError):
        return STATUS.get(error.error_code, 500), shortened(error.message)
    return None


def shortened(text):
    """`text`, of which LONGEST characters are shown."""
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."
