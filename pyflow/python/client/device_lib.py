"""`device_lib.list_local_devices()`, as TensorFlow 1.x programs call it."""
from pyflow.framework import protos
from pyflow.session import devices, runtime


def list_local_devices(session_config=None):
    """[DeviceAttributes messages] of this process: name ("/device:CPU:0"), device_type,
    memory_limit in bytes, physical_device_desc.

    session_config: ConfigProto; its device_count and visible devices apply.
    """
    executor = runtime.start()
    described = {(kind, i): name for kind, i, name in executor.devices()}
    found = []
    for entry in devices.list_devices(executor, devices.open_devices(executor, session_config)):
        name = entry.name[entry.name.index("/device:"):]
        kind, ordinal = name[len("/device:"):].split(":")
        found.append(protos.DeviceAttributes(
            name=name, device_type=kind, memory_limit=entry.memory_limit_bytes,
            incarnation=entry.incarnation,
            physical_device_desc=described.get((kind, int(ordinal)), "")))
    return found
