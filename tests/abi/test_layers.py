"""Dependencies run one way: parses every import, cimport and #include of the tree."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What each layer may import beside itself.  Every module and package of pyflow/ is here.
FRAMEWORK = {"framework", "config", "progress"}
OPS = FRAMEWORK | {"ops"}
LIB = OPS | {"lib"}
GRAPH = LIB | {"gradients", "passes"}
SESSION = GRAPH | {"plugins", "plugin_probe", "session", "_executor"}
ALLOWED = {
    "config": set(),
    "progress": {"config"},
    "_names": {"_public", "framework"},     # the rest it imports by name, from its tables
    "_public": set(),
    "framework": FRAMEWORK,
    "ops": OPS,
    "lib": LIB,
    "gradients": LIB,
    "passes": OPS | {"_executor"},
    "_plugin_entry": set(),
    "plugin_probe": {"plugins", "_executor"},
    "plugins": FRAMEWORK | {"plugin_probe", "_executor", "_plugin_entry"},
    "session": LIB | {"passes", "plugins", "_executor"},
    "timeline": set(),                  # reads StepStats messages and nothing else
    "train": LIB | {"gradients", "session", "_names", "timeline"},
    "interop": SESSION | {"timeline", "_names", "python", "train", "examples", "feature_column"},   # profiles of a model; TF's paths
    "platform": SESSION | {"examples", "distributed"},     # MNIST's files; tf.test.create_local_cluster
    "saved_model": SESSION | {"train", "interop"},
    "serving": SESSION | {"train", "saved_model"},
    "feature_column": LIB,          # and names of tf, where a checkpoint gives first values
    "estimator": SESSION | {"train", "saved_model", "feature_column", "distributed"},   # servers, for a cluster's tasks
    "distributed": SESSION | {"train", "timeline"},
    "tools": SESSION | {"distributed", "platform", "train", "interop", "saved_model", "serving", "timeline", "_names",
                        "feature_column", "estimator"},
    "examples": FRAMEWORK,              # TensorFlow's module names for tutorials
    "core": FRAMEWORK,                  # TensorFlow's module names for messages
    "python": SESSION | {"timeline", "train"},   # TensorFlow's module names for clients
    "__init__": {"_names"},
    "__main__": {"tools"},
}
EXCEPTIONS = {
    ("script_functions", "_executor"): "py_func hands its callables to the executor, when a node is made"
}
ONLY_IN_DISTRIBUTED = {"grpc", "ray"}


def python_files():
    return sorted(p for p in (ROOT / "pyflow").rglob("*.py"))


@functools.cache
def said(path):
    """(imports, those of them that loading the module runs, strings) of a file: their nodes."""
    imports, top, strings, inside = [], [], [], (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    todo = [(ast.parse(path.read_text(encoding="utf-8")), True)]
    for node, loaded in todo:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
            top += [node] * loaded
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node)
        loaded = loaded and not isinstance(node, inside)
        todo += [(child, loaded) for child in ast.iter_child_nodes(node)]
    return imports, top, strings


def imported(path):
    """-> {(dotted module, line)} of absolute and relative imports, inside functions too."""
    package = path.relative_to(ROOT).with_suffix("").parts
    package = package[:-1]
    for node in said(path)[0]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            yield module, node.lineno
            for alias in node.names:
                yield f"{module}.{alias.name}", node.lineno


def layer(dotted):
    parts = dotted.split(".")
    return parts[1] if parts[0] == "pyflow" and len(parts) > 1 else None


@pytest.mark.parametrize("path", python_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_python_layers(path):
    own = path.relative_to(ROOT / "pyflow").with_suffix("").parts[0]
    problems = []
    assert own in ALLOWED, f"{own} is new: give it a layer in ALLOWED"
    layers = set(ALLOWED) | {"_executor"}
    for module, line in imported(path):
        top = module.split(".")[0]
        if top in ONLY_IN_DISTRIBUTED and own != "distributed":
            problems.append(f"line {line}: {top} belongs to pyflow.distributed and plugins/")
        used = layer(module)
        if (
            used in layers - {own}
            and used not in ALLOWED[own]
            and (path.stem, used) not in EXCEPTIONS
        ):
            problems.append(f"line {line}: {own} imports {used}")
    assert not problems, "\n".join(problems)


ROOMS = ("wire", "look", "run", "launch", "train")      # each may import those before it


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_of_distributed(room):
    """Its modules name modules of their own room, and of those below it, in strings too."""
    home = ROOT / "pyflow" / "distributed"
    assert {p.name for p in home.iterdir() if p.suffix == ".py" or any(p.rglob("*.py"))} == {
        *ROOMS, "__init__.py"}
    allowed, seen = set(ROOMS[:ROOMS.index(room) + 1]), 0
    for path in sorted((home / room).rglob("*.py")):
        for module, line in named(path).items():
            parts = module.split(".")
            if parts[:2] == ["pyflow", "distributed"] and len(parts) > 2:
                seen += 1
                assert parts[2] in allowed, f"{path}:{line}: {room} imports {module}"
    assert seen > 5


def test_the_table_has_no_circle():
    """Layers that import each other are one layer: only plugins and its child process do."""
    def reaches(start):
        seen, todo = set(), [start]
        while todo:
            for below in ALLOWED.get(todo.pop(), ()):
                if below not in seen:
                    seen.add(below)
                    todo.append(below)
        return seen

    circular = {name for name in ALLOWED if name in reaches(name) and name not in ALLOWED[name]}
    assert circular == {"plugins", "plugin_probe"}
    assert {name for name in ALLOWED if "distributed" in ALLOWED[name]} == {"platform", "tools", "estimator"}


def imported_at_the_top(path):
    """Modules of pyflow that a module imports while it is loaded itself."""
    for node in said(path)[1]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def test_modules_import_each_other_without_circles():
    """At their top: so threads that load modules at once wait for each other in one order."""
    modules = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in python_files()}
    packages = {name.removesuffix(".__init__") for name in modules if name.endswith("__init__")}
    below = {name: {m for m in imported_at_the_top(path) if m in modules and m not in packages}
             for name, path in modules.items() if not name.endswith("__init__")}
    assert len(below["pyflow.lib.rnn.rnn_cell"]) > 5
    while leaves := [name for name, needs in below.items() if not needs & below.keys()]:
        for name in leaves:
            del below[name]
    assert not below, f"these, and what they import, form circles: {below}"


def named(path):
    """{module: line} of all that a module of pyflow names: in imports, inside functions too, and in
    strings, by which some are loaded when they are first used."""
    found = {}
    for module, line in imported(path):
        found.setdefault(module, line)
    for node in said(path)[2]:
        if re.fullmatch(r"pyflow(\.\w+){2,}", node.value):
            found.setdefault(node.value, node.lineno)
            found.setdefault(node.value.rpartition(".")[0], node.lineno)
    return found


TABLES = {"pyflow._names", "pyflow._public"}    # strings that tell where a user's name comes from


def circles(below):
    """The strongly connected components of {module: modules}, those of one module left out."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(below[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            members = stack[stack.index(name):]
            del stack[stack.index(name):]
            found.append(members)

    for name in sorted(below):
        if name not in index:
            visit(name)
    return [sorted(members) for members in found if len(members) > 1]


def test_circles_are_of_few_modules():
    """Imports inside functions counted: what hangs together like that can only be read together."""
    modules = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
               for p in python_files()}
    below = {name: set() if name in TABLES else {m for m in named(path) if m in modules} - {name}
             for name, path in modules.items()}
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    for name in below:          # importing a module of a package names the module, not the package
        below[name] -= {p for p in packages & below[name]
                        if any(m.startswith(p + ".") for m in below[name])}
    assert len(below["pyflow.lib.rnn.rnn_cell"]) > 5
    assert "pyflow.lib.array.slicing_functions" in below["pyflow.lib.operators"]   # by a string
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}) == [["a", "b", "c"]]
    large = [members for members in circles(below) if len(members) > 3]
    assert not large, f"modules that import each other in circles: {large}"


def executor_sources():
    files = [p for p in sorted((ROOT / "_executor").rglob("*"))
             if p.suffix in (".pyx", ".pxi", ".pxd", ".h")]
    assert len(files) > 40
    return [(p, p.read_text(encoding="utf-8")) for p in files]


def test_the_executor_never_imports_pyflow():
    """Not by a statement, not by a module's name in a string."""
    own = {"pyflow.core", "pyflow.python", "pyflow.plugins"}    # ids of plugins, and a logger
    for path, text in executor_sources():
        imports = r"^\s*(from|import|cimport)\s+pyflow\b(?!\._executor\.)"
        assert not re.search(imports, text, re.M), path
        assert not re.search(r"\b(import_module|__import__)\b|\bPyImport_", text), path
        for name in set(re.findall(r"[\"'](pyflow(?:\.\w+)+)[\"']", text)) - own:
            module = ROOT.joinpath(*name.split("."))
            assert not module.exists() and not module.with_suffix(".py").exists(), (path, name)


def op_names():
    from pyflow.framework import op
    return set(op.registered_ops()) | {"_Arg", "_Retval", "_CopyToHost", "_CopyToDevice"}


# Where the executor names ops.  Anything else it knows by the op's class and flags, and by what
# its kernel's table says.
NAMES_OPS = {
    "core/graph/sig.h": "the ops that the plan carries out itself: signatures and classes",
    "core/graph/graph.h": "pf_name_*: the ops of nodes that the core makes",
    "core/step/builtin.h": "kernels of the core's own, whose table names its ops as a plugin's",
    "api/callbacks.pyx": "the same of py_func's",
}


def test_the_executor_knows_no_op_by_name():
    """String literals of its sources against the names of all ops."""
    names, found = op_names(), {}
    for path, text in executor_sources():
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        text = re.sub(r'(from \*:\s*)?""".*?"""', lambda m: m.group() if m.group(1) else "", text,
                      flags=re.S)           # docstrings, not the C between them
        for literal in re.findall(r"""["'](\w+)["']""", text):
            if literal in names:
                found.setdefault(str(path.relative_to(ROOT / "_executor")), set()).add(literal)
    assert found.keys() == NAMES_OPS.keys(), found
    assert found["core/graph/graph.h"] == {"_Arg", "_Retval", "_CopyToHost", "_CopyToDevice",
                                           "StatefulPartitionedCall"}


def test_the_core_has_no_python():
    for path in sorted((ROOT / "_executor" / "core").rglob("*")):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert not re.search(
            r"#include\s*[<\"](Python|numpy)|cimport\s+(cpython|numpy)|from\s+cpython", text
        ), path


def test_core_modules_meet_in_headers_only():
    """A core module cimports declarations (.pxd without .pyx), never another module."""
    core = ROOT / "_executor" / "core"
    modules = {p.stem for p in core.rglob("*.pyx")}
    for path in sorted(core.rglob("*.p[yx][xdi]")):
        for name in re.findall(
            r"^\s*(?:from|cimport)\s+(\w+)", path.read_text(encoding="utf-8"), re.M
        ):
            assert name not in modules, f"{path.name} cimports module {name}"


PUBLIC_HEADERS = {"pyflow/kernel.h", "pyflow/tensor.h", "pyflow/link.h"}


def includes(path):
    """[(quoted or not, name)] of the #include lines of a C file."""
    found = re.findall(r'^\s*#\s*include\s*(["<])([^">]+)', path.read_text(encoding="utf-8"), re.M)
    return [(mark == '"', name) for mark, name in found]


@functools.cache
def own_sources(plugin):
    """Names of a plugin's headers and C files, as they are included."""
    return {p.name.removesuffix(".in") for kind in ("*.h*", "*.c*") for p in plugin.rglob(kind)}


def plugin_sources():
    plugins = [*(ROOT / "plugins").iterdir(), ROOT / "examples" / "plugin_accelerator",
               ROOT / "examples" / "plugin_hello"]
    for plugin in sorted(plugins):
        for path in sorted(plugin.rglob("*")):
            if path.suffix in (".c", ".h", ".cpp", ".cu", ".cuh", ".inc"):
                yield plugin, path


def test_plugins_use_nothing_but_the_header():
    """Of ours: kernel.h and tensor.h.  A quoted header is the plugin's own."""
    internal = {p.name for p in (ROOT / "_executor" / "core").rglob("*.h")}
    seen = 0
    for plugin, path in plugin_sources():
        own = own_sources(plugin)
        for quoted, name in includes(path):
            seen += 1
            base = name.rpartition("/")[2]
            if name.startswith("pyflow/"):
                assert name in PUBLIC_HEADERS, f"{path}: {name}"
                continue
            assert not re.match(r"Python\.h|numpy/", name), f"{path}: {name}"
            assert base in own or base not in internal, f"{path}: {name} is the core's"
            if quoted:
                assert base in own, f"{path}: {name} is not in {plugin.name}"
    assert seen > 200


def test_plugins_keep_no_host():
    """There may be two in a process: a call's is in its pf_ctx or pf_infer."""
    for plugin, path in plugin_sources():
        kept = re.findall(r"^(?:static )?const pf_host \*\s*\w+\s*[=;]", path.read_text("utf-8"),
                          re.M)
        assert not kept or plugin.name != "cpu", (path, kept)


def test_public_headers_stand_alone():
    """They include each other and the C library, nothing of the core."""
    for path in sorted((ROOT / "include" / "pyflow").glob("*.h")):
        for quoted, name in includes(path):
            assert name in ("tensor.h", "kernel.h") if quoted else re.fullmatch(
                r"std\w+\.h|inttypes\.h|string\.h", name), f"{path}: {name}"


def test_the_core_meets_plugins_in_the_header():
    """It includes no header of a plugin, and Python's only through none at all."""
    own = {p.name for p in (ROOT / "_executor" / "core").rglob("*.h")}
    for path in sorted((ROOT / "_executor" / "core").rglob("*.h")):
        for quoted, name in includes(path):
            assert not quoted or name.rpartition("/")[2] in own or name in PUBLIC_HEADERS, (path, name)


NET = ROOT / "_executor" / "core" / "net"


def order_of_net():
    """{file: its number} out of net.h's list: the names of a line before its text, `x` for x.c and x.h."""
    text = NET.joinpath("net.h").read_text(encoding="utf-8")
    rows = re.search(r"the lowest first:.*?\n \*\n(.*?)\n \*\n", text, re.S).group(1).splitlines()
    places = {}
    for number, row in enumerate(rows):
        for name in re.match(r" \*   ((?:[\w.]+ {1,2})+)", row + " ").group(1).split():
            for file in [name] if "." in name else [f"{name}.h", f"{name}.c"]:
                places.setdefault(file, number)
    return places


def test_core_net_has_an_order():
    """Each file includes headers of those before it, and names functions of those before it alone."""
    places, files = order_of_net(), {p.name: p.read_text(encoding="utf-8") for p in NET.glob("*.[ch]")}
    assert not files.keys() - places.keys(), "net.h's list leaves these out"
    codes = {name: re.sub(r"/\*.*?\*/", "", text, flags=re.S) for name, text in files.items()}
    made_in = {function: name for name, code in codes.items() if name.endswith(".c")
               for function in re.findall(r"^(?!static|typedef)\w[\w *]*?\b(pf_\w+)\([^;]*?\) \{", code, re.M)}
    assert len(made_in) > 90
    problems = []
    for name, code in codes.items():
        below = {other.rpartition("/")[2] for _, other in includes(NET / name) if other.startswith("net/")}
        if name.endswith(".c"):
            below |= {made_in[word] for word in set(re.findall(r"\bpf_\w+", code)) if word in made_in}
        problems += [f"{name} uses {other}" for other in below - {name}
                     if places[other] > places[name] or (places[other] == places[name] and name.endswith("h")
                                                         and other.endswith("c"))]
    assert not problems, problems


def test_each_part_of_a_peer_is_touched_by_one_file():
    """Its members; others call that file's functions."""
    parts = {"inbox": "inbox.c", "outbox": "outbox.c", "arenas": "arenas.c", "calls": "calls.c",
             "servings": "serving.c", "arrivals": "incoming.c", "polled": "peer.c"}
    members = set(re.findall(r"^  pf_\w+ (\w+);", re.search(
        r"struct pf_peer \{.*?\n\};", NET.joinpath("peer.h").read_text("utf-8"), re.S).group(), re.M))
    assert parts.keys() | {"signs", "letters"} == members - {"why"}
    for path in sorted(NET.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        for part, own in parts.items():
            assert path.name == own or not re.search(rf"->{part}\.", text), (path.name, part)
        assert not re.search(r"->letters\.", text), path.name


def test_kernels_of_datasets_form_no_circles():
    """By the functions of each other that their files name, in headers' inline functions, too."""
    folder = ROOT / "plugins" / "cpu" / "kernels" / "dataset"
    codes = {p.name: re.sub(r"/\*.*?\*/", "", p.read_text(encoding="utf-8"), flags=re.S)
             for p in sorted(folder.glob("*.[ch]"))}
    made_in, within = {}, {}
    for name, code in codes.items():
        found = re.findall(r"^(static inline )?[a-z][\w *]*?\b(ds_\w+)\([^;{]*?\)\s*\{(.*?)\n?\}$", code, re.M | re.S)
        for inline, function, body in found:
            if name.endswith(".c"):
                made_in[function] = name
            elif inline:
                within[function] = set(re.findall(r"\bds_\w+", body))
    assert len(made_in) > 60 and within["ds_interrupted"] >= {"ds_asker_gone"}
    below = {}
    for name in codes:
        if name.endswith(".c"):
            words = set(re.findall(r"\bds_\w+", codes[name]))
            words |= {word for inline in words & within.keys() for word in within[inline]}
            below[name] = {made_in[word] for word in words & made_in.keys()} - {name}
    assert "rows.c" in below["state.c"] and "reading.c" in below["filter.c"]
    assert not circles(below)
