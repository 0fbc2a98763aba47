"""The messages of TensorFlow's rewriter_config.proto: `rewriter_config_pb2.RewriterConfig.OFF`."""
from pyflow.framework.protos import (  # noqa: F401
    AutoParallelOptions,
    RewriterConfig,
    ScopedAllocatorOptions,
)
