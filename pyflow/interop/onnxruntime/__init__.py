"""onnxruntime's surface over pyflow: programs that import onnxruntime run on pyflow.

    from pyflow.interop import onnxruntime as ort
    session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: x})

`pyflow.compat.install_as_onnxruntime()`, or `python -m pyflow exec --onnxruntime SCRIPT`, lets
packages that say `import onnxruntime` find this module.
"""

from pyflow.interop.onnxruntime.errors import *  # noqa: F403
from pyflow.interop.onnxruntime.metadata import ModelMetadata, NodeArg
from pyflow.interop.onnxruntime.options import (ExecutionMode, ExecutionOrder,
                                                GraphOptimizationLevel, RunOptions,
                                                SessionOptions)
from pyflow.interop.onnxruntime.process import (__version__, disable_telemetry_events,
                                                enable_telemetry_events, get_all_providers,
                                                get_available_providers, get_build_info,
                                                get_device, get_version_string, preload_dlls,
                                                set_default_logger_severity,
                                                set_default_logger_verbosity, set_seed)
from pyflow.interop.onnxruntime.session import InferenceSession
from pyflow.interop.onnxruntime.values import IOBinding, OrtValue
