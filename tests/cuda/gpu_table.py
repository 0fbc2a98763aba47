"""Which cases of the op blocks the GPU plugin has a kernel for: its plugin.json says."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops"))

from derive import cases                                            # noqa: E402
from kernel_table import _constraints, _name                        # noqa: E402


def gpu_kernels():
    """{op: [{attr: type names}]} of the kernels for device type GPU."""
    from plugin_build import description

    found = {}
    for kernel in description()["kernels"]:
        found.setdefault(kernel["op"], []).append(_constraints(kernel["where"]))
    return found


def takes(case, kernels):
    attrs = case.op.attrs.values()
    types = {a.name: a.default for a in attrs if a.kind == "type" and a.has_default}
    types.update(case.types)
    types.update((k, v) for k, v in case.sample.attrs.items() if k in case.op.attrs)
    return any(all(_name(types[attr]) in names for attr, names in where.items() if attr in types)
               for where in kernels.get(case.op.name, ()))


def gpu_cases():
    kernels = gpu_kernels()
    return [case for case in cases() if takes(case, kernels)]


def cases_by_op():
    """{op name: [cases]}."""
    found = {}
    for case in gpu_cases():
        found.setdefault(case.op.name, []).append(case)
    return found
