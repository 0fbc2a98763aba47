"""onnxruntime's InferenceSession over a pyflow graph.

Invariants:
1. What a program sees - names, symbolic shapes, type strings, what is accepted as a feed, exceptions
   - is onnxruntime's.
2. A session keeps its model by shapes as `onnx.prepare` does (variants.py).
3. float16 is computed in float32, as there; inputs and outputs are float16.

Threads: any number may run one session at once.

    session = InferenceSession("model.onnx");  y, = session.run(None, {"x": x})
"""

import json
import os
import time
import warnings

import numpy as np

import pyflow as tf
from pyflow import config as env
from pyflow.framework import dtypes
from pyflow.interop.onnx import messages
from pyflow.interop.onnx.backend import native
from pyflow.interop.onnx.errors import OnnxError
from pyflow.interop.onnx.maps import entries
from pyflow.interop.onnx.model import load
from pyflow.interop.onnx.small_types import codes_of, number_of
from pyflow.interop.onnx.tensors import NUMBERS
from pyflow.interop.onnx.variants import Variants
from pyflow.interop.onnxruntime import errors
from pyflow.interop.onnxruntime.metadata import (element_dtype, metadata_of, node_arg,
                                                 small_number, tensor_type_name)
from pyflow.interop.onnxruntime.options import SessionOptions
from pyflow.interop.onnxruntime.values import IOBinding, OrtValue, dtype_of

PROVIDERS = ["CPUExecutionProvider"]


class InferenceSession:
    """A model ready to run.

    path_or_bytes: a path or the file's bytes.  sess_options: SessionOptions.  providers: only
    "CPUExecutionProvider" is there; others are warned of, as onnxruntime does.  Raises errors.* as
    onnxruntime does: NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented, ...
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None,
                 **kwargs):
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._options = sess_options if sess_options is not None else SessionOptions()
        _check_providers(providers)
        what = "bytes" if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        with errors.loading(what):
            model, folder = self._read(path_or_bytes)
            self._variants = Variants(model, folder, threads=_threads(self._options),
                                      shapes=_overrides(model, self._options.free_dimensions),
                                      deterministic=self._options.use_deterministic_compute,
                                      wide_halves=True)
        self._profile = _Profile(self._options) if self._options.enable_profiling else None
        general = self._variants.general
        made = general.model.outputs if general is not None else {}
        self._inputs = [node_arg(info) for info in self._variants.inputs]
        self._outputs = [node_arg(info, made.get(info.name)) for info in model.graph.output]
        declared = {info.name: info for info in model.graph.input}
        self._overridable = [node_arg(declared[t.name]) for t in model.graph.initializer
                             if t.name in declared]
        self._expected = {arg.name: _Expected(arg, info, self._variants.kinds[arg.name])
                          for arg, info in zip(self._inputs, self._variants.inputs)}
        self._output_names = [arg.name for arg in self._outputs]
        self._meta = metadata_of(model)

    def _read(self, path_or_bytes):
        try:
            model, folder = load(path_or_bytes)
        except OnnxError as error:
            if not len(path_or_bytes if isinstance(path_or_bytes, bytes) else b"?"):
                raise errors.InvalidArgument("No graph was found in the protobuf.") from error
            raise
        if model.graph is None:
            raise errors.InvalidArgument("No graph was found in the protobuf.")
        if self._options.initializers:
            model.graph.initializer = [
                _tensor_proto(t.name, self._options.initializers[t.name].numpy())
                if t.name in self._options.initializers else t for t in model.graph.initializer]
        return model, folder

    # ------------------------------------------------------------ what the model says

    def get_inputs(self):
        """NodeArgs of the inputs that must be fed."""
        return list(self._inputs)

    def get_outputs(self):
        """NodeArgs of the outputs."""
        return list(self._outputs)

    def get_overridable_initializers(self):
        """NodeArgs of the initializers that are inputs, too."""
        return list(self._overridable)

    def get_modelmeta(self):
        """The ModelMetadata."""
        return self._meta

    def get_session_options(self):
        """The SessionOptions it was made with."""
        return self._options

    def get_providers(self):
        """["CPUExecutionProvider"]."""
        return list(PROVIDERS)

    def get_provider_options(self):
        """No options, for each provider."""
        return {name: {} for name in PROVIDERS}

    def set_providers(self, providers=None, provider_options=None):
        """Warns of providers that are not there."""
        _check_providers(providers)

    def enable_fallback(self):
        """Nothing: there is one provider."""

    def disable_fallback(self):
        """Nothing: there is one provider."""

    # ------------------------------------------------------------ running

    def run(self, output_names, input_feed, run_options=None):
        """[value, ...] of the outputs called `output_names`, all for None.

        input_feed: {name: ndarray, OrtValue or (nested) list}.  An array's element type must be the
        input's; lists are converted.  Raises ValueError for inputs that are missing,
        InvalidArgument for names, types and shapes that do not fit, Fail for what a node says.
        """
        feeds = self._feeds(input_feed)
        names = None
        if output_names:
            names = list(output_names)
            for name in names:
                if name not in self._output_names:
                    raise errors.InvalidArgument(f"Invalid output name:{name}")
        if run_options is not None and run_options.terminate:
            raise errors.Fail("Exiting due to terminate flag being set to true.")
        try:
            variant = self._variants.find(feeds)
            values = (variant.outputs(feeds, names) if self._profile is None else
                      self._profile.outputs(variant, feeds, names or self._output_names))
        except (tf.errors.OpError, OnnxError) as error:
            raise errors.of_step(error) from error
        if variant.simple:
            return [v if type(v) is np.ndarray else np.asarray(v) for v in values]
        return [native(value, variant.model, name)
                for value, name in zip(values, names or self._output_names)]

    def _feeds(self, given):
        expected = self._expected
        if type(given) is dict and given.keys() == expected.keys():     # what is usual, quickly
            return {name: expected[name].array(value) for name, value in given.items()}
        missing = [name for name in self._expected if name not in given.keys()]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed "
                             f"({list(given)}).")
        feeds = {}
        for name, value in given.items():
            expected = self._expected.get(name)
            if expected is None:
                raise errors.InvalidArgument(f"Invalid input name: {name}")
            feeds[name] = expected.array(value)
        return feeds

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        """The same with OrtValues in and out."""
        return [OrtValue(value) for value in
                self.run(output_names, dict(input_dict_ort_values), run_options)]

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """Runs on a thread of its own, which calls callback(results, user_data, error text)."""
        import threading

        def work():
            try:
                results, said = self.run(output_names, input_feed, run_options), ""
            except Exception as error:
                results, said = [], str(error)
            callback(results, user_data, said)
        threading.Thread(target=work, daemon=True).start()

    def io_binding(self):
        """An IOBinding for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        """Runs with what is bound; the results are the binding's."""
        iobinding.run(run_options)

    # ------------------------------------------------------------ profiling

    def end_profiling(self):
        """The file of events (Chrome's trace format) of all runs, "" without enable_profiling."""
        return self._profile.write() if self._profile is not None else ""

    def get_profiling_start_time_ns(self):
        """When profiling began, 0 without it."""
        return self._profile.started if self._profile is not None else 0


class _Expected:
    """What an input takes."""

    def __init__(self, arg, info, kind):
        self.name, self.type, self.kind = arg.name, arg.type, kind
        self.small = small_number(arg.type)
        self.dtype = element_dtype(arg.type) if self.small is None else dtypes.uint8
        self.numpy = np.dtype(self.dtype.as_numpy_dtype) if self.dtype is not None else None
        self.any_rank = info.type is None or info.type.tensor_type is None or \
            info.type.tensor_type.shape is None
        self.shape = tuple(d if isinstance(d, int) else None for d in arg.shape)
        self.said = [(i, d) for i, d in enumerate(self.shape) if d is not None]
        self.usual = self.numpy if kind.plain and self.small is None else None

    def array(self, value):
        """The array of a feed.  Raises InvalidArgument or RuntimeError as onnxruntime does."""
        if type(value) is np.ndarray and self.usual is not None and value.dtype == self.usual \
                and value.ndim == len(self.shape):
            shape = value.shape
            if all(shape[i] == size for i, size in self.said):
                return value
        if isinstance(value, OrtValue):
            value = value.numpy()
        if not self.kind.plain:
            return self._structure(value)
        if self.small is not None and isinstance(value, np.ndarray):
            value = codes_of(value) if number_of(value) == self.small else value
        if not isinstance(value, np.ndarray):
            if not isinstance(value, list):
                raise self._no_array(value)
            value = np.array(value, object if self.dtype is dtypes.string else self.numpy)
        if value.dtype != self.numpy:
            found = dtype_of(value)
            if found is not self.dtype:
                raise errors.InvalidArgument(
                    f"Unexpected input data type. Actual: ({tensor_type_name(found)}) , expected: "
                    f"({self.type})")
        if self.any_rank:
            return value
        if len(value.shape) != len(self.shape):
            raise errors.InvalidArgument(
                f"Invalid rank for input: {self.name} Got: {value.ndim} Expected: "
                f"{len(self.shape)} Please fix either the inputs/outputs or the model.")
        if value.shape != self.shape:
            wrong = [f" index: {i} Got: {have} Expected: {want}\n" for i, (have, want) in
                     enumerate(zip(value.shape, self.shape)) if want is not None and want != have]
            if wrong:
                raise errors.InvalidArgument(
                    f"Got invalid dimensions for input: {self.name} for the following indices\n"
                    f"{''.join(wrong)} Please fix either the inputs/outputs or the model.")
        return value

    def _no_array(self, value):
        """The exception for what is fed and no array, as onnxruntime chooses it."""
        if value is None:
            return errors.Fail(f"the input {self.name!r} is None; expected an array "
                               f"({self.type})")
        if isinstance(value, dict) and not value:
            return RuntimeError("Size of dictionary is empty, unable to run the prediction.")
        if isinstance(value, (str, tuple)):
            return RuntimeError("Input must be a list of dictionaries or a single numpy array for "
                                f"input '{self.name}'.")
        return RuntimeError(f"Unable to handle object of type {type(value)}")

    def _structure(self, value):
        """The arrays of a sequence, or what an optional holds, None for nothing."""
        if value is None and self.kind.optional:
            return None
        if self.kind.entries is not None:
            if not isinstance(value, dict):
                raise RuntimeError(f"Unable to handle object of type {type(value)}")
            if not value:
                raise RuntimeError("Size of dictionary is empty, unable to run the prediction.")
            try:
                return entries(value, *self.kind.entries)
            except TypeError as error:
                raise errors.InvalidArgument(f"Unexpected input data type for input: {self.name} "
                                             f"({self.type}): {error}") from None
        if not self.kind.sequence:
            return np.asarray(value)
        if not isinstance(value, (list, tuple)):
            raise RuntimeError(f"Unable to handle object of type {type(value)}")
        return [item.numpy() if isinstance(item, OrtValue) else np.asarray(item) for item in value]


class _Profile:
    """Events of the runs, for `end_profiling`."""

    def __init__(self, options):
        self.started = time.perf_counter_ns()
        self._path = f"{options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        self._events = []

    def outputs(self, variant, feeds, names):
        """The outputs of a step whose nodes are noted."""
        begun = (time.perf_counter_ns() - self.started) / 1e3
        values, events = variant.traced(feeds, names)
        self._events.append({"cat": "Session", "ph": "X", "name": "model_run", "ts": begun,
                             "dur": (time.perf_counter_ns() - self.started) / 1e3 - begun,
                             "pid": os.getpid(), "tid": 0, "args": {}})
        events = [event for event in events if event.get("ph") == "X"]
        first = min((event["ts"] for event in events), default=0)
        self._events += [{**event, "cat": "Node", "ts": event["ts"] - first + begun}
                         for event in events]
        return values

    def write(self):
        """Writes the file; -> its path."""
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(self._events, file)
        return self._path


def _check_providers(providers):
    for entry in providers or ():
        name = entry[0] if isinstance(entry, tuple) else entry
        if name not in PROVIDERS:
            warnings.warn(f"Specified provider '{name}' is not in available provider names."
                          f"Available providers: '{', '.join(PROVIDERS)}'", UserWarning,
                          stacklevel=3)


def _threads(options):
    """The threads that SessionOptions ask for, or None; PYFLOW_THREADS has the last word."""
    threads = int(options.intra_op_num_threads)
    return threads if threads > 0 and env.value("PYFLOW_THREADS") is None else None


def _overrides(model, sizes):
    """Shapes of the inputs that have a dimension with one of the names in `sizes`."""
    shapes = {}
    for info in model.graph.input if sizes else ():
        shape = node_arg(info).shape
        if any(isinstance(d, str) and d in sizes for d in shape):
            shapes[info.name] = [sizes.get(d) if isinstance(d, str) else d for d in shape]
    return shapes


def _tensor_proto(name, array):
    """Our TensorProto of an array of numbers."""
    dtype = dtype_of(array)
    return messages.CLASSES["TensorProto"](
        name=name, dims=list(array.shape), data_type=NUMBERS[dtype],
        raw_data=memoryview(np.ascontiguousarray(array).tobytes()))
