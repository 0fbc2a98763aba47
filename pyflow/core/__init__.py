"""Module paths of TensorFlow 1.x programs: `from pyflow.core.protobuf import config_pb2`."""
