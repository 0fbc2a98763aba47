"""The fake accelerator's knobs and counters: `devices[0].set(delay_us=200)`,
`devices[0]["launches"]`.

The device itself needs no import: pyflow finds it by its entry point, and
`tf.device("/device:FAKE:0")` places nodes on it.  What the knobs and counters mean is told in
src/fake_control.h.

    import pyflow as tf, pyflow_fake
    pyflow_fake.devices[0].set(real_time=1, flops=1e8)
"""

import ctypes
import math
import pathlib


class _Control(ctypes.Structure):
    """fake_control of src/fake_control.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("set", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_char_p, ctypes.c_double)),
        ("get", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int32, ctypes.c_char_p)),
        ("violation", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int32)),
        ("settle", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)),
        ("reset_counters", ctypes.CFUNCTYPE(None, ctypes.c_int32)),
    ]


class _Plugin(ctypes.Structure):
    """pf_plugin of kernel.h, as far as `extension`."""

    _fields_ = [("size", ctypes.c_uint32), ("flags", ctypes.c_uint32)]
    _fields_ += [(n, ctypes.c_void_p) for n in "id version ops kernels devices start stop".split()]
    _fields_ += [("extension", ctypes.CFUNCTYPE(ctypes.POINTER(_Control), ctypes.c_char_p))]


class Device:
    """FAKE:ordinal, or all of them with -1 (knobs only)."""

    def __init__(self, control, ordinal):
        self._control, self.ordinal = control, ordinal

    def set(self, **knobs):
        """KeyError names a knob that does not exist."""
        for name, value in knobs.items():
            if not self._control.set(self.ordinal, name.encode(), float(value)):
                raise KeyError(f"FAKE:{self.ordinal} has no knob '{name}'")

    def __getitem__(self, name):
        """A knob's or a counter's value; KeyError if there is none of this name."""
        value = self._control.get(self.ordinal, name.encode())
        if math.isnan(value):
            raise KeyError(f"FAKE:{self.ordinal} has no knob or counter '{name}'")
        return int(value) if value == int(value) else value

    @property
    def violation(self):
        """Text of the latest violation, "" if there was none since `reset_counters`."""
        return self._control.violation(self.ordinal).decode()

    def settle(self):
        """Waits until the device is idle and clears its streams' errors; returns how many had
        failed."""
        return self._control.settle(self.ordinal)

    def reset_counters(self):
        self._control.reset_counters(self.ordinal)


def open_library(path, host=None):
    """[FAKE:0, FAKE:1, ..] of the plugin at `path`, the one that pyflow has loaded."""
    if host is None:
        from pyflow import _executor

        host = _executor.host_address()
    library = ctypes.CDLL(str(path))
    library.pyflow_plugin_v1.restype = ctypes.POINTER(_Plugin)
    library.pyflow_plugin_v1.argtypes = [ctypes.c_void_p]
    control = library.pyflow_plugin_v1(host).contents.extension(b"pyflow.fake/1").contents
    found = []
    while not math.isnan(control.get(len(found), b"memory")):
        found.append(Device(control, len(found)))
    return found


def __getattr__(name):
    if name != "devices":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyflow import plugins

    plugins.load_all()
    found = open_library(next(pathlib.Path(__file__).parent.glob("libpyflow_fake.*")))
    globals()["devices"] = found
    return found
