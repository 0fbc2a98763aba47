"""kernel.h, tensor.h and link.h as cffi sees them, and their golden table: every constant, every struct's
size and offsets.

python tests/abi/header.py > tests/abi/golden_v1.txt        # after a change of the header that was
meant
"""

import pathlib
import re

import cffi

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
HEADERS = ("tensor.h", "kernel.h", "link.h")


def declarations():
    text = "".join((INCLUDE / "pyflow" / name).read_text(encoding="utf-8") for name in HEADERS)
    return "\n".join(re.findall(r"/\*PF:BEGIN.*?\*/(.*?)/\*PF:END\*/", text, re.S))


def parsed():
    ffi = cffi.FFI()
    ffi.cdef(declarations())
    return ffi


def structs(ffi):
    """-> {name: cffi type} of all structs with fields."""
    typedefs, tags, _ = ffi.list_types()
    found = {}
    for name in list(typedefs) + ["struct " + t for t in tags]:
        kind = ffi.typeof(name)
        if kind.kind == "struct" and kind.fields:
            found.setdefault(kind, name)
    return {name: kind for kind, name in sorted(found.items(), key=lambda item: item[1])}


def constants():
    """-> {name: value}, in the header's order."""
    text = re.sub(r"/\*.*?\*/", "", declarations(), flags=re.S)
    names = [
        n
        for body in re.findall(r"enum\s*\w*\s*\{(.*?)\}", text, re.S)
        for n in re.findall(r"(\w+)\s*=", body)
    ]
    library = parsed().dlopen(None)
    return {name: getattr(library, name) for name in names}


def golden():
    ffi, lines = parsed(), []
    for name, value in constants().items():
        lines.append(f"{name} = {value}")
    for name, kind in structs(ffi).items():
        lines.append(f"{name}: {ffi.sizeof(kind)} bytes")
        for field, f in kind.fields:
            lines.append(f"  {f.offset:4d} {field}: {f.type.cname}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(golden(), end="")
