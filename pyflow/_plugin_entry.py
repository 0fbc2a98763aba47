"""cffi's view of a plugin's entry function, made ahead of time so that no C is parsed at run time.

    ffi = cffi.FFI(); ffi.cdef("const void *pyflow_plugin_v1(const void *host);")
    ffi.set_source("pyflow._plugin_entry", None); ffi.emit_python_code(path)       # made by these
    lines
"""
import _cffi_backend

ffi = _cffi_backend.FFI(
    'pyflow._plugin_entry',
    _version=0x2601,
    _types=b'\x00\x00\x01\x0D\x00\x00\x03\x03\x00\x00\x00\x0F\x00\x00\x00\x01',
    _globals=(b'\x00\x00\x00\x23pyflow_plugin_v1', 0,),
)
