"""Types of pyflow.python_io.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import python_io as _python_io
TFRecordCompressionType = _python_io.TFRecordCompressionType
TFRecordOptions = _python_io.TFRecordOptions
TFRecordWriter = _python_io.TFRecordWriter
tf_record_iterator = _python_io.tf_record_iterator
