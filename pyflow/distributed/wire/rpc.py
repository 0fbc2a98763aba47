"""Services over grpcio: tables of calls, stubs, and what an error looks like on the way.

A service is a table {call: (request, reply, kind)} of message names; kind: "unary", "to" (a stream
of requests), "from" (a stream of replies), "both"; without names of messages: bytes as they are.

Invariants
1. A failure travels as a status code (tf.errors' numbers are gRPC's) with an ErrorMessage in the
   trailing metadata: what is raised there is raised here, with node, op, device and task.
2. Every channel has keep-alive: who calls finds a frozen or cut-off server within its lease.  A
   server pings seldom: its clients may be stopped for SILENCE seconds, and go on.  Where a peer is
   no client, and calls alone, links.Watch calls back.
3. A message is at most MAX_MESSAGE bytes.

Threads: any.  grpc is imported by the first call.
"""
from pyflow.distributed.wire import messages
from pyflow.distributed.wire.security import grpc
from pyflow.framework import errors, protos

MAX_MESSAGE = (1 << 31) - 1
SILENCE = 600.0                         # seconds of a client that is stopped, or cut off
_TRAILER = "pyflow-error-bin"
_KINDS = {"unary": "unary_unary", "to": "stream_unary", "from": "unary_stream",
          "both": "stream_stream"}


def options(lease=2.5):
    """Channel options; a server's with lease=SILENCE.  lease: seconds without a sign of life after
    which a peer is taken for lost."""
    every, patience = max(100, int(lease * 360)), int(lease * 520)
    return [("grpc.max_send_message_length", MAX_MESSAGE),
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.keepalive_time_ms", every), ("grpc.keepalive_timeout_ms", patience),
            ("grpc.http2.ping_timeout_ms", patience),       # what newer ones of grpc go by
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0),
            ("grpc.http2.min_ping_interval_without_data_ms", every // 2),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 50),
            ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.min_reconnect_backoff_ms", 1000),        # what an attempt has, at least
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1), ("grpc.so_reuseport", 0)]


# ---------------------------------------------------------------- errors

def error_message(failure, task="", origin=None):
    """The ErrorMessage of a StepError, an OpError or any exception.  origin: function of a node's
    name -> the name of the operation it serves."""
    if isinstance(failure, Failure):
        return failure.message
    if isinstance(failure, errors.OpError):
        op = failure.op
        return messages.ErrorMessage(
            code=failure.error_code, message=failure.message, node=op.name if op is not None else
            "", op=op.type if op is not None else "", task=task, explained=True)
    code = getattr(failure, "code", None)
    if isinstance(failure, protos.EncodeError):
        return messages.ErrorMessage(code=errors.INVALID_ARGUMENT, task=task, message=(
            f"over {MAX_MESSAGE} bytes are to be sent at once, which no message can have: feed and "
            "fetch such values in parts, or from a session in a server's process"))
    if not isinstance(code, int):       # neither of ours
        code = failure_code(failure)
        return messages.ErrorMessage(code=code, message=f"{type(failure).__name__}: {failure}",
                                     task=task)
    node = failure.node
    if origin is not None and node:
        node = origin(node) or node
    return messages.ErrorMessage(code=code, message=failure.message, node=node, op=failure.op,
                                 device=failure.device, task=failure.task or task,
                                 derived=failure.derived)


def failure_code(exception):
    """A status code for an exception that has none."""
    if isinstance(exception, (ValueError, TypeError, OverflowError)):
        return errors.INVALID_ARGUMENT
    if isinstance(exception, MemoryError):
        return errors.RESOURCE_EXHAUSTED
    return errors.INTERNAL


def of_call(error, what, task, address, step_error=None):
    """The StepError (or tf.errors exception without step_error) of a grpc.RpcError.

    what: the call's name; task, address: whom it went to."""
    for key, value in error.trailing_metadata() or ():
        if key == _TRAILER:
            try:
                return of_message(messages.ErrorMessage.FromString(value), step_error)
            except Exception:
                break
    code = error.code().value[0] if error.code() is not None else errors.UNKNOWN
    text = (f"{what} of {task or 'the server'} at {address}: {error.details() or 'no answer'}")
    if step_error is not None:
        return step_error(code, text, task=task or "")
    return errors.exception_type_from_error_code(code)(None, None, text)


def of_message(message, step_error=None):
    """The StepError of an ErrorMessage; without step_error a tf.errors exception."""
    code = message.code if message.code in range(1, 17) else errors.UNKNOWN
    if step_error is not None:
        found = step_error(code, message.message, message.node, message.op, message.device,
                           message.task, message.derived)
        found.explained = message.explained
        return found
    return errors.exception_type_from_error_code(code)(None, None, message.message)


class Failure(Exception):
    """Ends a call with an ErrorMessage: `message`."""

    def __init__(self, message):
        super().__init__(message.message)
        self.message = message


def abort(context, message):
    """Ends a call with an ErrorMessage."""
    status = {code.value[0]: code for code in grpc().StatusCode}
    context.set_trailing_metadata(((_TRAILER, message.SerializeToString()),))
    code = status.get(message.code, grpc().StatusCode.UNKNOWN)
    context.abort(code, message.message[:1000].encode("ascii", "replace").decode())


# ---------------------------------------------------------------- services and stubs

def handler(service, calls, implementation, task=""):
    """A grpc handler: `implementation` has a method per call, (request, context) -> reply."""
    module, methods = grpc(), {}
    for call, (request, reply, kind) in calls.items():
        make = getattr(module, f"{_KINDS[kind]}_rpc_method_handler")
        methods[call] = make(
            _guarded(getattr(implementation, call), request and getattr(messages, request), kind,
                     task),
            response_serializer=reply and getattr(messages, reply).SerializeToString or None)
    return module.method_handlers_generic_handler(f"pyflow.{service}", methods)


def parsed(request, data):
    """The message of these bytes.  Raises InvalidArgumentError."""
    try:
        return request.FromString(data)
    except Exception as problem:
        raise errors.InvalidArgumentError(None, None, f"{len(data)} bytes are no "
                                          f"{request.DESCRIPTOR.name}: {problem}") from None


def _guarded(method, request, kind, task):
    """Bytes become requests, exceptions statuses."""
    def read(given):
        if not request:
            return given
        if kind in ("to", "both"):
            return (parsed(request, data) for data in given)
        return parsed(request, given)

    if kind in ("from", "both"):
        def stream(given, context):
            try:
                yield from method(read(given), context)
            except Exception as failure:
                if not context.is_active():
                    return
                abort(context, error_message(failure, task))
        return stream

    def unary(given, context):
        try:
            return method(read(given), context)
        except Exception as failure:
            return abort(context, error_message(failure, task))
    return unary


class Stub:
    """The calls of a service as methods: stub.GetStatus(request, timeout=...)."""

    def __init__(self, channel, service, calls):
        for call, (request, reply, kind) in calls.items():
            make = getattr(channel, _KINDS[kind])
            setattr(self, call, make(
                f"/pyflow.{service}/{call}",
                request_serializer=request and getattr(messages, request).SerializeToString or None,
                response_deserializer=reply and getattr(messages, reply).FromString or None))
