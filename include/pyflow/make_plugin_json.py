"""Writes plugin.json from the tables of a built plugin, so that neither is ever written twice.

    python make_plugin_json.py LIBRARY OUTPUT [--preload DISTRIBUTION:PATH ...] [--pair ...]

It lies beside kernel.h, and with it is all that building a plugin needs.

The library is opened and `pyflow_plugin_v1` called with a host of zeros: a plugin may look at its
host in `start` and later, never while it hands over its tables.  Fields: id, version, abi,
min_minor, library, preload, ops, kernels, devices, links, pairs. `preload` names libraries (distribution:path
inside its package) which the loader opens first, with global symbols, and does without where they
are absent.  `pairs`: of ops that carry tensors between tasks, "NAME SEND RECV [SOURCE DESTINATION]",
where a session's options say NAME, from devices that SOURCE allows to those that DESTINATION does.
"""

import argparse
import json
import pathlib
import re

import cffi

HERE = pathlib.Path(__file__).resolve().parent
ENTRY = "pyflow_plugin_v1"


def read_declarations():
    """The regions of the headers that are written for cffi."""
    text = "".join((HERE / name).read_text(encoding="utf-8")
                   for name in ("tensor.h", "kernel.h", "link.h"))
    return "\n".join(re.findall(r"/\*PF:BEGIN.*?\*/(.*?)/\*PF:END\*/", text, re.S))


def table(ffi, first):
    """A NULL-ended array of pointers, as a list."""
    found = []
    while first != ffi.NULL and first[len(found)] != ffi.NULL:
        found.append(first[len(found)])
    return found


def describe(library):
    ffi = cffi.FFI()
    ffi.cdef(read_declarations() + f"\nconst pf_plugin *{ENTRY}(const pf_host *host);")
    opened = ffi.dlopen(str(library))
    host = ffi.new("pf_host *", {"size": ffi.sizeof("pf_host"), "minor": 1})
    plugin = getattr(opened, ENTRY)(host)
    if plugin == ffi.NULL:
        raise SystemExit(f"{library}: {ENTRY} returned NULL")

    def text(pointer):
        return None if pointer == ffi.NULL else ffi.string(pointer).decode()

    return {
        "id": text(plugin.id),
        "version": text(plugin.version),
        "abi": [plugin.abi_major, plugin.abi_minor],
        "min_minor": plugin.min_minor,
        "ops": [{"name": text(o.name), "sig": text(o.sig)} for o in table(ffi, plugin.ops)],
        "kernels": [
            {
                "op": text(k.op),
                "where": text(k.where),
                "device": text(k.device),
                "needs": text(k.needs),
            }
            for k in table(ffi, plugin.kernels)
        ],
        "devices": [text(d.type) for d in table(ffi, plugin.devices)],
        **links(ffi, plugin, text),
    }


def links(ffi, plugin, text):
    """{"links": kinds} where it offers any."""
    if plugin.extension == ffi.NULL:
        return {}
    name = ffi.new("char[]", b"pyflow.link/1")
    offered = ffi.cast("const pf_link *const *", plugin.extension(name))
    found = [text(link.kind) for link in table(ffi, offered)]
    return {"links": found} if found else {}


def pair(words):
    """A row of `pairs`."""
    names, given = ("name", "send", "recv", "source", "destination"), words.split()
    if len(given) not in (3, 5):
        raise SystemExit(f"--pair {words!r}: expected NAME SEND RECV, and perhaps SOURCE DESTINATION")
    return dict(zip(names, given))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--preload", action="append", default=[])
    parser.add_argument("--pair", action="append", default=[])
    arguments = parser.parse_args()
    found = describe(arguments.library.resolve())
    found.update(library=arguments.library.name, preload=arguments.preload)
    if arguments.pair:
        found["pairs"] = [pair(words) for words in arguments.pair]
    arguments.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
