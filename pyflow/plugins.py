"""Plugins: found through installed distributions, read before they are opened, quarantined if they
fail.

A plugin is a distribution with an entry point in the group `pyflow.plugins` whose value names a
package; the package holds a shared library and `plugin.json`, generated from the library's tables.

    found -> described [read plugin.json] -> tried [plugin_probe] -> opened [cffi dlopen]
    -> compared [_compare] -> registered [_executor.register_plugin]
      any failure -> quarantined: a warning through `logging`, listed by `python -m pyflow devices`

Invariants
    1. Nothing happens at import; the first session (or tool) loads all plugins, once per process.
    2. No Python of a plugin runs, no library is opened whose plugin.json does not fit this host.
    3. The working directory is never searched, and no path comes out of a graph.
    4. A library is never closed: its tables and threads live as long as the process.
    5. A plugin that fails changes nothing for the others.  One not seen before, installed or named
       to `load_library`, is opened and started in a process of its own first.
    6. pyflow's own packages come first, and their ids are theirs (`_refuse_squatter`).
    7. When the interpreter ends, steps are cancelled, devices closed and plugins stopped, once; not
       in a forked child.

Threads: `load_all` may be called from any thread; one loads, the others wait.

    pyflow.plugins.load_all()
    leaky = pyflow.plugins.op("acme.LeakyRelu")
    y = leaky(x, alpha=0.1)
"""
import atexit
import contextlib
import importlib.machinery
import importlib.util
import json
import logging
import os
import pathlib
import re
import sys
import threading

GROUP = "pyflow.plugins"
HOST_ABI = (1, 4)  # PF_ABI_MAJOR, PF_ABI_MINOR of include/pyflow/kernel.h (a test compares)
ENTRY = "pyflow_plugin_v1"
OWN = {"pyflow_cpu": "pyflow.cpu", "pyflow_cuda": "pyflow.cuda"}    # our packages, and their ids
RESERVED = frozenset([*OWN.values(), "pyflow", "pyflow.core", "pyflow.python", "pyflow.hosted"])
TRUSTED = "pyflow_cpu"              # part of every installation, no driver behind it: not tried first

log = logging.getLogger("pyflow")
_lock = threading.RLock()
_state = "new"                      # new -> loading -> loaded [load_all]
_loaded = []                        # Plugins in the order they were loaded
_libraries = []                     # open libraries, kept for ever
_files = (
    contextlib.ExitStack()
)  # libraries that had to be extracted from an archive stay until exit


def __getattr__(name):
    """Unknown: says what was meant, however this module came to be imported."""
    importlib.import_module("pyflow._names").missing_from(sys.modules[__name__], "plugins", name)


class PluginError(Exception):
    """A plugin cannot be used; the message says why and what to do."""


class Plugin:
    """One plugin as found: `id`, `version`, `origin` (distribution and package), `package` (None
    if it was named by path), `path`, `description` (plugin.json), `links`, the kinds of those it
    offers, and `problem`, None if it is in use."""

    def __init__(self, origin, description=None, path=None, problem=None, package=None):
        self.origin, self.description, self.path, self.problem, self.package = (
            origin,
            description or {},
            path,
            problem,
            package,
        )
        self.links = []

    @property
    def id(self):
        """What the plugin calls itself, or where it came from."""
        return self.description.get("id") or self.origin

    @property
    def version(self):
        """The plugin's version; "?" if it says none."""
        return self.description.get("version") or "?"

    def __repr__(self):
        return f"<Plugin {self.id} {self.version}{': ' + self.problem if self.problem else ''}>"


# ---------------------------------------------------------------- finding

def _search_path():
    """sys.path without the working directory."""
    here = os.path.realpath(os.getcwd()) if os.path.isdir(os.curdir) else None
    path = list(sys.path)
    if not sys.flags.safe_path and path and here and os.path.realpath(path[0] or os.curdir) == here:
        del path[0]                  # put there by -m, -c or a script in this folder
    return [p for p in path if p]


def _entry_points():
    """[(distribution, entry point name, package)] of all installed plugins, each package once;
    our own first."""
    found, seen = [], set()
    for distribution, name, value in (e for p in _search_path() for e in _entries_in(p)):
        if value not in seen:
            seen.add(value)
            found.append((distribution, name, value))
    return sorted(found, key=lambda entry: (entry[2] not in OWN, entry))


def _entries_in(path):
    """(distribution, entry point name, value) of the plugins that are installed in an entry of
    sys.path.  Folders are read here: importlib.metadata takes 40 ms to import."""
    try:
        names = os.listdir(path)
    except NotADirectoryError:                          # an archive
        from importlib import metadata
        for distribution in metadata.distributions(path=[path]):
            yield from ((distribution.metadata["Name"], entry.name, entry.value)
                        for entry in distribution.entry_points if entry.group == GROUP)
        return
    except OSError:
        return
    for name in names:
        stem, kind = os.path.splitext(name)
        if kind in (".dist-info", ".egg-info"):
            about = os.path.join(path, name)
            for entry, value in _group(_text(os.path.join(about, "entry_points.txt"))):
                yield _distribution(about, stem), entry, value


def _text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _group(text):
    """[(name, value)] of our section of an entry_points.txt."""
    found, inside = [], False
    for line in (text.splitlines() if GROUP in text else ()):
        line = line.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            found.append((name.strip(), value.strip()))
    return found


def _distribution(about, stem):
    """The name that a distribution gives itself."""
    text = _text(os.path.join(about, "METADATA")) or _text(os.path.join(about, "PKG-INFO"))
    named = re.search(r"^Name:\s*(\S+)", text, re.M)
    return named[1] if named else stem.partition("-")[0]


def _find_package(name):
    """The package's files, without running any of its code."""
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        path = _search_path() if finder is importlib.machinery.PathFinder else None
        spec = find_spec(name, path) if find_spec else None
        if spec is not None and spec.loader is not None:
            places = list(spec.submodule_search_locations or ())
            if len(places) == 1 and os.path.isdir(places[0]):
                return pathlib.Path(places[0])
            from importlib import resources
            return resources.files(importlib.util.module_from_spec(spec))
    raise PluginError(f"package '{name}' is not installed; reinstall its distribution")


def _describe(package):
    """The parsed plugin.json of `package` and the path of its library."""
    folder = _find_package(package)
    try:
        text = folder.joinpath("plugin.json").read_bytes()
    except OSError as e:
        raise PluginError(
            f"no plugin.json in package '{package}' at {folder} ({e.strerror}): the build writes it. "
            "If the plugin is installed, Python found its source folder first: run from another "
            "folder"
        ) from None
    try:
        description = json.loads(text)
        library = description["library"]
        check_abi(description)
        for key in ("id", "library"):
            if not isinstance(description.get(key, ""), str):
                raise TypeError(f"{key} is {description[key]!r}, expected text")
        _check_offers(description)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise PluginError(
            f"plugin.json of '{package}' is malformed: {type(e).__name__}: {e}"
        ) from None
    if os.path.basename(library) != library or library in ("", "..", "."):
        raise PluginError(
            f"plugin.json of '{package}': library {library!r} must be a bare file name"
        )
    path = folder.joinpath(library)
    if not isinstance(path, pathlib.Path):
        from importlib import resources
        path = _files.enter_context(resources.as_file(path))
    return description, os.fspath(path)


_KIND = re.compile(r"[a-z][a-z0-9_]{0,14}")
_PAIR = {"name", "send", "recv", "source", "destination"}


def _check_offers(description):
    """Raises TypeError, ValueError: `links` are kinds, `pairs` name two ops of the plugin's, and which
    devices they serve."""
    from pyflow.framework.device import parsed
    links, pairs = description.get("links", []), description.get("pairs", [])
    if not isinstance(links, list) or not all(isinstance(k, str) and _KIND.fullmatch(k)
                                              for k in links):
        raise TypeError(f"links is {links!r}, expected a list of kinds, each a-z, 0-9 and _")
    if not isinstance(pairs, list):
        raise TypeError(f"pairs is {pairs!r}, expected a list")
    ops = {row.get("name") for row in _rows(description, "ops") if isinstance(row, dict)}
    for pair in pairs:
        if not isinstance(pair, dict) or not {"name", "send", "recv"} <= set(pair) <= _PAIR \
                or not all(isinstance(text, str) for text in pair.values()):
            raise TypeError(f"a pair is {pair!r}, expected texts: name, send, recv, and perhaps "
                            "source and destination")
        if not _KIND.fullmatch(pair["name"]) or pair["name"] == "net":
            raise ValueError(f"a pair's name is {pair['name']!r}, expected a-z, 0-9 and _, not 'net'")
        for end in ("source", "destination"):
            parsed(pair.get(end, ""))           # ValueError: no device specification
        for op in (pair["send"], pair["recv"]):
            if op not in ops:
                raise ValueError(f"pair '{pair['name']}' names op '{op}', which is not the plugin's")


def check_abi(description):
    """Raises PluginError if this host does not offer the ABI version that plugin.json asks for."""
    major, minor = (int(x) for x in description["abi"])
    needed = (major, int(description.get("min_minor") or 0))
    if major != HOST_ABI[0] or needed[1] > HOST_ABI[1]:
        wanted = needed if major == HOST_ABI[0] else (major, minor)
        advice = (
            "install a newer pyflow"
            if wanted > HOST_ABI
            else "install a newer version of the plugin"
        )
        raise PluginError(f"needs v{wanted[0]}.{wanted[1]} of the kernel ABI, this host offers "
                          f"v{HOST_ABI[0]}.{HOST_ABI[1]}: {advice}")


# ---------------------------------------------------------------- opening

def _preload(items):
    """Opens shared libraries a plugin looks up by symbol; each may be absent.

    OPENBLAS_NUM_THREADS=1 while opening: compute threads belong to the host's pool.
    """
    if not items:
        return
    import ctypes
    ours = "OPENBLAS_NUM_THREADS" not in os.environ
    if ours:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        for item in items:
            package, _, file = item.partition(":")
            try:
                path = _find_package(package).joinpath(*file.split("/"))
                _libraries.append(ctypes.CDLL(os.fspath(path), mode=os.RTLD_NOW | os.RTLD_GLOBAL))
            except (PluginError, OSError, ValueError, TypeError) as e:
                log.debug("plugin preload %s: %s", item, e)
    finally:
        if ours:
            del os.environ["OPENBLAS_NUM_THREADS"]


def _open(path, opened=lambda: None):
    """The plugin's tables: the address that its entry function returned.  opened: called before
    that function is.

    The library is never unmapped, not even when the interpreter ends and drops its handle: threads
    of the plugin may still be in its code.
    """
    from pyflow import _executor
    from pyflow._plugin_entry import ffi
    forever = getattr(ffi, "RTLD_NODELETE", 0)
    try:
        library = ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_LOCAL | forever)
    except OSError as e:
        raise PluginError(f"cannot be opened: {e}") from None
    _libraries.append(library)
    try:
        entry = getattr(library, ENTRY)
    except (AttributeError, ffi.error):
        raise PluginError(
            f"{path} does not export {ENTRY}: is it a plugin for kernel ABI v1.x?"
        ) from None
    opened()
    tables = entry(ffi.cast("void *", _executor.host_address()))
    if tables == ffi.NULL:
        raise PluginError(
            f"{path}: {ENTRY} returned no tables: the plugin does not accept this host"
        )
    return int(ffi.cast("uintptr_t", tables))


def _register(plugin):
    """Opens and registers one described plugin; returns the problems of single kernels."""
    from pyflow import _executor
    _preload(plugin.description.get("preload") or ())
    address = _open(plugin.path)
    tables = _executor.describe_plugin(address)
    if tables["id"] in RESERVED:        # named by path: whoever names it vouches for other ids, and
        stem = os.path.basename(plugin.path).partition(".")[0]     # for a build of ours by its name
        _refuse_squatter(tables["id"], stem.removeprefix("lib"), plugin.origin)
    version = tables.pop("version", None)       # plugin.json may say more than the library
    if plugin.description:
        _compare(plugin.description, tables)
    else:                               # named by path, without a plugin.json beside it
        plugin.description = {**tables, "version": version,
                              "ops": [{"name": name} for name, _ in tables["ops"]]}
    for other in _loaded:
        if other.id == plugin.id and other.problem is None:
            raise PluginError(f"plugin '{plugin.id}' ({plugin.origin}) is loaded already, from "
                              f"{other.origin}; uninstall one of the two")
    _watch_over(plugin.id)
    try:
        problems = list(_executor.register_plugin(address, plugin.origin) or ())
    except PluginError:
        raise
    except Exception as e:
        raise PluginError(f"was refused: {e}") from None
    plugin.links = _register_links(address, plugin.description, problems)
    if problems and not plugin.links and not _contributes(plugin, _executor):
        raise PluginError("; ".join(problems))
    return problems


def _register_links(address, description, problems):
    """The kinds of the links that the plugin at an address offers; what is wrong is added to
    `problems`."""
    from pyflow import _executor
    if not hasattr(_executor, "register_links"):
        return []                       # no links at all on this system
    kinds = _executor.register_links(address, problems.append)
    lacking = [kind for kind in description.get("links", ()) if kind not in kinds]
    if lacking and not problems:
        problems.append(f"plugin.json promises links that the library does not offer: {lacking}")
    return kinds


def _refuse_squatter(id, package, origin):
    """Raises PluginError if `id` is not for `package` to use."""
    if id in RESERVED or id.split(".")[0] == "pyflow":
        if OWN.get(package) != id:
            raise PluginError(f"plugin id '{id}' is pyflow's own, and {origin} is not; a plugin's id "
                              "begins with its vendor's domain, such as 'com.acme.leaky'")
    elif package in OWN:
        raise PluginError(f"package '{package}' is pyflow's own, but {origin} holds plugin '{id}'")


_watched = []                       # the process that other plugins are looked after in


def _watch_over(id):
    """Before the first plugin that is not the CPU's: crashes in it will say where, and at the end of the
    interpreter it is stopped."""
    if id == OWN[TRUSTED] or os.getpid() in _watched:
        return
    from pyflow import _executor
    _watched.append(os.getpid())
    _executor.name_crashes()
    atexit.register(_stop)


def _stop():
    if os.getpid() != _watched[0]:
        return                          # a forked child: threads and devices are its parent's
    from pyflow import _executor
    if not _executor.stop_plugins():
        log.warning("a step still runs while the interpreter ends: plugins are not stopped")


def _compare(described, tables):
    """Raises PluginError if plugin.json, which was read to decide, is not about these tables."""
    def rows(key, *columns):
        return sorted(tuple(str(row.get(c)) for c in columns) for row in described.get(key) or ())

    if _same_rows(described, tables):
        tables = {key: value for key, value in tables.items() if key not in ("ops", "kernels")}
    told = {"id": described.get("id"), "abi": tuple(described["abi"]),
            "ops": rows("ops", "name", "sig"), "kernels": rows("kernels", "op", "device", "where"),
            "devices": sorted(described.get("devices") or ())}
    for key, found in tables.items():
        if isinstance(found, list):
            found = sorted(tuple(map(str, row)) if isinstance(row, tuple) else row for row in found)
        if told[key] == found or key not in described:
            continue
        if key == "abi" and told[key] < found and told[key][0] == found[0]:
            continue                    # written with an older header: it asks for less
        if isinstance(found, list):
            wrong = [row for row in told[key] if row not in found]
            missing = [row for row in found if row not in told[key]]
            told[key], found = wrong[:3] or "no more", missing[:3] or "no more"
        raise PluginError(f"its plugin.json is not about this library: {key}: plugin.json has "
                          f"{told[key]}, the library {found}; build the plugin anew "
                          f"(make_plugin_json.py writes the file)")


def _same_rows(described, tables):
    """Whether ops and kernels are the same ones in the same order, as the file is written."""
    ops = [(row.get("name"), row.get("sig")) for row in described.get("ops") or ()]
    kernels = [(row.get("op"), row.get("device"), row.get("where"))
               for row in described.get("kernels") or ()]
    return ops == tables["ops"] and kernels == tables["kernels"]


def _report(plugin, problems):
    """A kernel for an op that only other versions have is no fault; any other problem is."""
    for problem in problems:
        level = logging.INFO if _UNKNOWN_OP.search(problem) else logging.WARNING
        log.log(level, "plugin %s: %s", plugin.origin, problem)


_UNKNOWN_OP = re.compile(r"no op '[^']*' is known")


def _contributes(plugin, executor):
    """Did anything that the plugin describes get registered?"""
    wanted = plugin.description
    if any(k["plugin"] == plugin.id for k in executor.kernels()):
        return True
    if not wanted.get("kernels"):
        ops = {name for name, *_ in executor.plugin_ops()}
        return bool(wanted.get("devices")) or any(o["name"] in ops for o in wanted.get("ops") or ())
    return False


def _try_first(plugin):
    """A plugin not seen before is opened in a process of its own first: a crash is its own."""
    from pyflow import config, plugin_probe
    if config.value("PYFLOW_PLUGIN_PROBE"):
        log.debug("plugin %s: tried first if its library is new", plugin.origin)
        problem = plugin_probe.verdict(plugin.path, plugin.description.get("preload") or ())
        if problem:
            raise PluginError(problem)


def _load(distribution, package):
    """Describes, opens and registers; every failure ends in a quarantined Plugin."""
    plugin = Plugin(f"{distribution} ({package})", package=package)
    try:
        plugin.description, plugin.path = _describe(package)
        _refuse_squatter(plugin.id, package, plugin.origin)
        if any(p.id == plugin.id and p.problem is None for p in _loaded):
            raise PluginError(
                f"another plugin with id '{plugin.id}' is in use already; uninstall one of them"
            )
        if package != TRUSTED:
            _try_first(plugin)
        _report(plugin, _register(plugin))
    except Exception as e:              # whatever a plugin does, the others and pyflow go on
        plugin.problem = str(e) or type(e).__name__
        log.warning("plugin %s is not used: %s", plugin.origin, plugin.problem)
    _loaded.append(plugin)
    return plugin


def load_all():
    """Loads every installed plugin, once.  Returns the list of `Plugin`s, quarantined ones
    included."""
    global _state
    if _state != "loaded":
        with _lock:  # re-entered when a plugin's start comes back here: then a list in progress
            if _state == "new":
                _state = "loading"
                try:
                    _load_installed()
                finally:
                    _state = "loaded"
    return _loaded


def _load_installed():
    try:
        entries = _entry_points()
    except Exception as e:
        log.warning("plugins cannot be listed: %s", e)
        entries = []
    for distribution, _, package in entries:
        _load(distribution, package)
    _adopt_ops()


def load_op_library(library_filename):
    """load_library by TensorFlow's older name for it. TF: tf.load_op_library."""
    return load_library(library_filename)


def load_library(library_location):
    """Loads a plugin from a path the program names (for development; wheels are found by
    themselves).

    Returns an object with the new ops as functions.  Raises PluginError if it cannot be used, also
    where opening or starting it would end the process (it is tried in another one first).
    """
    path = os.fspath(library_location)
    if not os.path.isabs(path):
        raise PluginError(
            f"give an absolute path, got '{path}': the working directory is never searched"
        )
    load_all()
    with _lock:
        before = set(_plugin_ops)
        plugin = Plugin(path, _beside(path), path)
        if plugin.description:
            check_abi(plugin.description)
            try:
                _check_offers(plugin.description)
            except (TypeError, ValueError) as e:
                raise PluginError(f"plugin.json beside '{path}' is malformed: {e}") from None
        if os.path.isfile(path):
            _try_first(plugin)
        _report(plugin, _register(plugin))
        _loaded.append(plugin)
        _adopt_ops()
        return OpLibrary([name for name in _plugin_ops if name not in before])


def _beside(path):
    try:
        with open(os.path.join(os.path.dirname(path), "plugin.json"), encoding="utf-8") as f:
            description = json.load(f)
    except (OSError, ValueError):
        return {}
    return description if description.get("library") == os.path.basename(path) else {}


# ---------------------------------------------------------------- ops declared in C

_plugin_ops = {}                    # name -> OpDef


def op_flags(op_def):
    """kernel.h's PF_OP_* flags of a Python op."""
    return (1 * bool(op_def.stateful) | 2 * bool(getattr(op_def, "commutative", False))
            | 4 * bool(getattr(op_def, "allows_uninitialized", False)))


def _adopt_ops():
    """Makes Python OpDefs of ops that plugins declare in C."""
    from pyflow import _executor
    from pyflow.framework import op as op_lib
    packages = {op["name"]: plugin.package for plugin in _loaded if plugin.problem is None
                for op in plugin.description.get("ops") or ()}
    for name, signature, flags, doc in _executor.plugin_ops():
        if op_lib.find_op(name) is None:
            _plugin_ops[name] = op_lib.register(
                op_lib.op_from_signature(
                    name,
                    signature,
                    stateful=bool(flags & 1),
                    doc=doc or "",
                    shape=_shape_function(name),
                    package=packages.get(name),
                )
            )


def _shape_function(name):
    """A shape function that asks the plugin's own."""
    def infer(op):
        from pyflow import _executor
        from pyflow.framework import tensor_shape, tensor_util, wire
        dims = [None if s is None else [-1 if d is None else d for d in s]
                for s in (t.get_shape().as_tuple() for t in op.inputs)]
        constants = {i: value for i, value in enumerate(map(tensor_util.constant_value, op.inputs))
                     if value is not None}
        inputs = [f"input_{i}" for i in range(len(dims))]
        nodes = [wire.encode_node_parts(i, "Placeholder", attrs={"dtype": t.dtype.base_dtype})
                 for i, t in zip(inputs, op.inputs)]
        nodes.append(wire.encode_node_parts(op.name, op.type, inputs, "", op.attrs))
        graph = wire.encode_graph(nodes, wire.encode_versions(1))
        try:
            outputs = _executor.infer_shapes(graph, op.name, dims, constants)
        except _executor.StepError as e:
            raise ValueError(e.message) from None
        return [tensor_shape.TensorShape(None if d is None else [None if x < 0 else x for x in d])
                for d in outputs]
    return infer


def op(name):
    """The function of an op that a plugin declares: `op("acme.LeakyRelu")(x, alpha=0.1)`.

    Raises NotFoundError that lists the ops there are.
    """
    load_all()
    found = _plugin_ops.get(name)
    if found is None:
        from pyflow.framework import errors, late_text
        raise late_text.error(errors.NotFoundError, lambda: _no_op(name), None, None)
    return found


def _no_op(name):
    """The text that no plugin declares an op, with near names or all, and the broken plugins."""
    import difflib
    offered = sorted(n for n in _plugin_ops if not n.startswith("_"))
    have = ", ".join(difflib.get_close_matches(name, offered, n=3) or offered) or "none"
    broken = "".join(f"; plugin {p.origin} is not used: {p.problem}" for p in _loaded if p.problem)
    return f"no installed plugin declares op '{name}'; there are: {have}{broken}"


def why_without(op):
    """"; plugin X, which has one, is not used: ..." for the plugins with a kernel for `op` that were
    quarantined; else all of them; "" if every plugin is in use."""
    out = [p for p in load_all() if p.problem]
    having = [p for p in out if any(
        isinstance(k, dict) and k.get("op") == op for k in _rows(p.description, "kernels")) or any(
        isinstance(o, dict) and o.get("name") == op for o in _rows(p.description, "ops"))]
    return "".join(f"; plugin {p.origin}{', which has one,' if having else ''} is not used: {p.problem}"
                   for p in having or out)


def _rows(description, key):
    """A list of plugin.json, whatever stands there."""
    rows = description.get(key)
    return rows if isinstance(rows, list) else []


class OpLibrary:
    """Ops as attributes: 'acme.LeakyRelu' is `acme_LeakyRelu` and, if nothing else is called so,
    `leaky_relu`."""

    def __init__(self, names=None):
        self._names = names

    def _table(self):
        load_all()
        table = {}
        for name in (_plugin_ops if self._names is None else self._names):
            table[name.replace(".", "_")] = _plugin_ops[name]
            table.setdefault(_snake(name.rsplit(".", 1)[-1]), _plugin_ops[name])
        return table

    def __getattr__(self, attribute):
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        table = self._table()
        if attribute not in table:
            raise AttributeError(
                f"no plugin op '{attribute}'; there are: {', '.join(sorted(table)) or 'none'}"
            )
        return table[attribute]

    def __dir__(self):
        return sorted(self._table())


def _snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


plugin_ops = OpLibrary()
