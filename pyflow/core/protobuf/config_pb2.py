"""The messages of TensorFlow's config.proto: `config_pb2.ConfigProto`, `config_pb2.RunOptions`."""
from pyflow.framework.protos import (  # noqa: F401
    CallableOptions,
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RPCOptions,
    RunOptions,
    TensorConnection,
    ThreadPoolOptionProto,
)
from pyflow.framework.run_metadata import RunMetadata  # noqa: F401
