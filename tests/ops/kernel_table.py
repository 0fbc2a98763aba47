"""Which element types each op has a kernel for, from the executor's own table.

Example:  `has_kernel(case)`.
"""
import functools

from pyflow.framework import dtypes
from pyflow.session import runtime


@functools.cache
def table():
    """{op: [{attr: set of type names}]} of the kernels for the CPU or any device."""
    found = {}
    for kernel in runtime.start().kernels():
        if kernel["device"] in ("CPU", "*"):
            found.setdefault(kernel["op"], []).append(_constraints(kernel["where"]))
    return found


def _constraints(where):
    """"T=float|double, Tidx=int32" as {"T": {"float", "double"}, "Tidx": {"int32"}}."""
    pairs = [part.split("=") for part in (where or "").split(",") if part.strip()]
    return {name.strip(): set(types.strip().split("|")) for name, types in pairs}


# Ops the executor's core does itself: no kernel is looked up.
CORE = {"Identity", "StopGradient", "PreventGradient", "Snapshot", "Placeholder", "PlaceholderV2"}


def has_kernel(case):
    """Whether some kernel takes the element types of the case."""
    if case.op.name in CORE:
        return True
    attrs = case.op.attrs.values()
    types = {a.name: a.default for a in attrs if a.kind == "type" and a.has_default}
    types.update(case.types)
    types.update((k, v) for k, v in case.sample.attrs.items() if k in case.op.attrs)
    return any(all(_name(types[attr]) in names for attr, names in where.items() if attr in types)
               for where in table().get(case.op.name, ()))


def _name(value):
    return dtypes.schema_name(dtypes.as_dtype(value))
