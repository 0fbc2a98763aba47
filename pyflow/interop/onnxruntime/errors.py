"""onnxruntime's exceptions by name, with its numbers and the text that programs look for.

    raise InvalidArgument("Invalid input name: x")     # [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ...
"""

from contextlib import contextmanager

from pyflow.interop.onnx.errors import OnnxError, UnsupportedError


class _Status(Exception):
    """Base of all; `code` and `status` are onnxruntime's."""

    code, status = 1, "FAIL"

    def __init__(self, message):
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {self.status} : {message}")


_CODES = {"Fail": (1, "FAIL"), "InvalidArgument": (2, "INVALID_ARGUMENT"),
          "NoSuchFile": (3, "NO_SUCHFILE"), "NoModel": (4, "NO_MODEL"),
          "EngineError": (5, "ENGINE_ERROR"), "RuntimeException": (6, "RUNTIME_EXCEPTION"),
          "InvalidProtobuf": (7, "INVALID_PROTOBUF"), "ModelLoaded": (8, "MODEL_LOADED"),
          "NotImplemented": (9, "NOT_IMPLEMENTED"), "InvalidGraph": (10, "INVALID_GRAPH"),
          "EPFail": (11, "EP_FAIL")}

__all__ = NAMES = tuple(_CODES)


def _made(name):
    code, status = _CODES[name]
    return type(name, (_Status,), {"code": code, "status": status, "__module__": __name__,
                                   "__doc__": f"onnxruntime's status {code}, {status}."})


Fail, InvalidArgument, NoSuchFile, NoModel, EngineError, RuntimeException = map(_made, NAMES[:6])
InvalidProtobuf, ModelLoaded, NotImplemented, InvalidGraph, EPFail = map(_made, NAMES[6:])


@contextmanager
def loading(what):
    """What goes wrong while a model is read and converted, as onnxruntime says it."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoSuchFile(f"Load model from {what} failed:{error}. File doesn't exist") from error
    except OSError as error:
        raise Fail(f"Load model from {what} failed:{error}") from error
    except UnsupportedError as error:
        raise NotImplemented(str(error)) from error
    except OnnxError as error:
        if error.op is None and "not an ONNX model" in str(error):
            raise InvalidProtobuf(f"Load model from {what} failed:Protobuf parsing failed. "
                                  f"{error}") from error
        raise InvalidGraph(f"Load model from {what} failed:This is an invalid model. "
                           f"{error}") from error


def of_step(error):
    """The exception for what a step raised."""
    if isinstance(error, OnnxError):
        return Fail(str(error))
    op = error.op
    where = f"{op.type} node. Name:'{op.name}'" if op is not None else "the model."
    kind = InvalidArgument if op is not None and op.type == "EnsureShape" else Fail
    return kind(f"Non-zero status code returned while running {where} Status Message: "
                f"{error.message}")
