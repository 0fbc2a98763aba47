"""One version of a model: loaded into a session of its own, used by requests, drained, closed.

    LOADED -> RETIRED [retire] -> CLOSED [when nobody uses it, the last `release` or `retire`]

Invariants
    1. A servable in use has an open session: `close` runs after the last `release`.
    2. One that loads answers: signatures whose plan does not compile are `broken`, by name; if
       it is "serving_default", or all are, loading fails.

Threads: `of_saved_model` from any; `use`, `release`, `retire` on the event loop's only.

    servable = of_saved_model("exported/1")
    servable.endpoint(None).run([x])
"""
from pyflow.framework import dtypes, errors, graph as graph_lib
from pyflow.framework.tensor_shape import TensorShape
from pyflow.saved_model import folders, keys, reading
from pyflow.serving import refusals
from pyflow.serving.endpoint import Endpoint
from pyflow.train import checkpoint

_RESTORES = ("RestoreV2", "Restore", "RestoreSlice")


def of_saved_model(folder, tags=None, threads=None):
    """The Servable of a SavedModel's folder. IOError, RuntimeError, ValueError, KeyError or
    tf.errors where it cannot be served."""
    message = folders.meta_graph(folders.read(folder), tags, folder)
    graph = graph_lib.Graph()
    give_state = reading.import_into(graph, message, None, folder)
    if not checkpoint.checkpoint_exists(folders.variables_path(folder)) and any(
            op.type in _RESTORES for op in graph.get_operations()):
        raise IOError(f"{folder} lacks {keys.VARIABLES_DIRECTORY}/{keys.VARIABLES_FILENAME}.index, "
                      "which its graph restores its variables from")
    signatures = {name: signature for name, signature in message.signature_def.items()
                  if not name.startswith("__saved_model")}
    return Servable(graph, signatures, give_state, threads)


class Servable:
    """A graph, {name: SignatureDef}, and what gives a session its state."""

    def __init__(self, graph, signatures, give_state, threads=None):
        from pyflow.session import Session
        self.signatures = signatures
        self.endpoints, self.broken = {}, {}
        self._users, self._on_idle = 0, None
        self._session = Session(graph=graph, threads=threads)
        try:
            give_state(self._session)
            for name in sorted(signatures):
                self._open(name, signatures[name])
            self._require_some()
        except BaseException:
            self._session.close()
            raise

    def _open(self, name, signature):
        try:
            self.endpoints[name] = Endpoint(self._session, name, signature)
        except (errors.OpError, KeyError, ValueError, TypeError) as e:
            self.broken[name] = e.message if isinstance(e, errors.OpError) else str(e)

    def _require_some(self):
        default = keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        wrong = [default] if default in self.broken else list(self.broken)
        if not self.endpoints or default in self.broken:
            raise errors.FailedPreconditionError(None, None, (
                f"signature {wrong[0]!r}: {self.broken[wrong[0]]}" if wrong else
                "the model has no signature to serve"))

    def endpoint(self, name):
        """The Endpoint of a signature; None: "serving_default", or the only one."""
        there = self.endpoints
        if name is None:
            name = keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY
            if name not in there and len(there) == 1 and not self.broken:
                (name,) = there
        if name in there:
            return there[name]
        if name in self.broken:
            raise errors.UnimplementedError(
                None, None, f"signature {name!r} cannot be served: {self.broken[name]}")
        raise refusals.bad(f"the model has no signature {name!r}; it has {', '.join(there)}")

    # ------------------------------------------------------------ its life

    def use(self):
        """One more request uses it."""
        self._users += 1

    def release(self):
        """One less."""
        self._users -= 1
        self._end_if_idle()

    def retire(self, on_idle):
        """Calls `on_idle` once nobody uses it; the caller gives it to no more requests."""
        self._on_idle = on_idle
        self._end_if_idle()

    def _end_if_idle(self):
        if not self._users and self._on_idle is not None:
            on_idle, self._on_idle = self._on_idle, None
            on_idle()

    def close(self):
        """Ends the session."""
        self._session.close()

    def metadata(self):
        """{name: signature} as TensorFlow Serving's JSON of SignatureDefMap has it."""
        return {name: {"inputs": _infos(signature.inputs), "outputs": _infos(signature.outputs),
                       "method_name": signature.method_name}
                for name, signature in sorted(self.signatures.items())}


def _infos(infos):
    return {key: _info(infos[key]) for key in sorted(infos)}


def _info(info):
    shape = TensorShape(info.tensor_shape)
    dims = [] if shape.ndims is None else shape.as_list()
    described = {"dtype": _type_name(info.dtype),
                 "tensor_shape": {"dim": [{"size": str(-1 if d is None else d), "name": ""}
                                          for d in dims],
                                  "unknown_rank": shape.ndims is None}}
    if info.WhichOneof("encoding") == "name":
        described["name"] = info.name
    return described


def _type_name(number):
    try:
        return f"DT_{dtypes.schema_name(dtypes.as_dtype(number).base_dtype).upper()}"
    except TypeError:
        return "DT_INVALID"
