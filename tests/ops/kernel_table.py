"""Which element types each op has a kernel for, from the executor's own table.

Example:  `has_kernel(case)`.

    python tests/ops/kernel_table.py        # writes kernel_types.txt, after a change that was meant

kernel_types.txt: one line an op, the element types that its CPU kernels take.  A kernel that is
lost drops its cases from the derived tests; the record is what notices (test_kernel_types.py).
"""
import functools
import pathlib

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


RECORD = pathlib.Path(__file__).with_name("kernel_types.txt")
OWN = ("pyflow.cpu", "pyflow.core", "pyflow.python", "pyflow.hosted")   # tests load others, too


def recorded_lines():
    """kernel_types.txt as it should be: "Add: T=double|float; T=string", "Print: any"."""
    found = {}
    for kernel in runtime.start().kernels():
        if kernel["device"] in ("CPU", "*") and kernel["plugin"] in OWN:
            taken = _constraints(kernel["where"])
            text = ", ".join(f"{attr}={'|'.join(sorted(taken[attr]))}" for attr in sorted(taken))
            found.setdefault(kernel["op"], set()).add(text or "any")
    return [f"{op}: {'; '.join(sorted(texts))}" for op, texts in sorted(found.items())]


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


if __name__ == "__main__":
    RECORD.write_text("\n".join(recorded_lines()) + "\n", encoding="utf-8")
