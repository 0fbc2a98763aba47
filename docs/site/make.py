"""The documentation as a site: a reference made from docstrings, the pages of docs/, a page a command.

    python docs/site/make.py build/site-pages && python -m sphinx -W build/site-pages build/site

Invariants
    1. A public symbol (of pyflow/_public.py and the modules that `tf.` finds by name) stands on the
       page of its namespace with its signature and docstring; a second name of it says so.
    2. A command's page is what its `--help` prints.
    3. A link that leads out of docs/ to a file of the tree becomes the file's name: the site is of
       the pages alone.  Links between pages are checked by Sphinx, warnings are errors.

It needs an installed pyflow, and sphinx, myst-parser and furo for the second step (`make docs`).
"""
import importlib
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pyflow as tf
from pyflow import _public
from pyflow.tools import command

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent
ROOT = DOCS.parent
OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")   # pages beside docs/
GUIDES = [
    ("Begin", ["readme", "tutorial", "porting", "examples", "faq", "troubleshooting"]),
    ("Train", ["training", "input", "state", "estimator", "tensorboard", "debugging"]),
    ("Models", ["onnx", "savedmodel", "serving", "runtime"]),
    ("Clusters", ["distributed", "launch", "transports", "cluster-model"]),
    ("Kernels and devices", ["plugins", "devices"]),
    ("Reference", ["settings", "differences", "limits", "speed", "compatibility", "glossary"]),
    ("The project", ["map", "decisions", "paths", "contributing", "security", "changelog"])]
_MISSING = inspect.Parameter.empty


# ---------------------------------------------------------------- names

def public_names():
    """Dotted names below `tf.` of all public symbols, sorted."""
    names = set()
    for words in _public.PUBLIC.values():
        names.update(words.split())
    for name in dir(tf):
        value = getattr(tf, name, None)
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isroutine(value)):
            names.add(name)
    return sorted(names)


def find(name):
    """What `tf.NAME` is; None where it cannot be had here (a package that is not installed)."""
    found = tf
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except (AttributeError, ImportError):
        return None
    return found


def canonical(names):
    """{id of an object: the name it is described under}: the one with the fewest dots, then by
    alphabet; tf.nn's and tf.train's before tf.math's."""
    chosen = {}
    for name in sorted(names, key=lambda n: (n.count("."), n.startswith("compat."), n)):
        value = find(name)
        if value is not None:
            chosen.setdefault(id(value), name)
    return chosen


# ---------------------------------------------------------------- docstrings

_SPECIAL = re.compile(r"([\\*_\[\]<>{}#$~|])")
_ITEM = re.compile(r"([A-Za-z_][\w*, /().]*): (.*)")


def escaped(text):
    """A line of a docstring as Markdown: code in backticks stays, nothing else is markup."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(p if p.startswith("`") and len(p) > 1 else _SPECIAL.sub(r"\\\1", p).replace(
        "`", "\\`") for p in parts)


def markdown(value):
    """An object's docstring as Markdown: its arguments as a list, examples as code."""
    lines, made, index = (inspect.getdoc(value) or "").splitlines(), [], 0
    arguments = arguments_of(value)
    while index < len(lines):
        line = lines[index]
        if line.startswith("    ") or line.startswith(">>>"):
            index = _block(lines, index, made)
            continue
        item = _ITEM.fullmatch(line)
        if item and set(re.findall(r"\w+", item[1])) <= arguments:
            text = [escaped(item[2])]
            while index + 1 < len(lines) and lines[index + 1].strip() \
                    and not _begins_anew(lines[index + 1], arguments):
                index += 1
                text.append(escaped(lines[index].strip()))
            made += ["", f"- **{escaped(item[1])}**: {' '.join(text)}", ""]
        else:
            made.append(escaped(line))
        index += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(made)).strip()


def arguments_of(value):
    """Names of a function's or class's arguments."""
    try:
        return set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return set()


def _begins_anew(line, arguments):
    """Whether a line of a docstring does not go on with the argument before it."""
    if line.lstrip().startswith(">>>") or re.match(r"(Dtypes|Raises|Returns|Source)\b", line):
        return True
    item = _ITEM.fullmatch(line)
    return item is not None and set(re.findall(r"\w+", item[1])) <= arguments


def _block(lines, index, made):
    """Appends an indented block as code; returns the line behind it."""
    block = []
    while index < len(lines) and (lines[index].startswith("    ") or lines[index].startswith(">>>")
                                  or not lines[index].strip() and _goes_on(lines, index)):
        block.append(lines[index])
        index += 1
    dents = [len(b) - len(b.lstrip()) for b in block if b.strip()]
    language = "pycon" if any(">>>" in b for b in block) else "text"
    made += ["", f"```{language}", *[b[min(dents):] for b in block], "```", ""]
    return index


def _goes_on(lines, index):
    rest = next((x for x in lines[index:] if x.strip()), "")
    return rest.startswith("    ")


# ---------------------------------------------------------------- the reference

def signature_of(value):
    """A signature as text, defaults as they are written; "" where there is none to be had."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    parts, star = [], False
    for parameter in signature.parameters.values():
        text = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            text, star = f"*{text}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if parameter.default is not _MISSING:
            text += f"={default_of(parameter.default)}"
        parts.append(text)
    return f"({', '.join(parts)})"


def default_of(value):
    """A default as one would write it."""
    if isinstance(value, tf.DType):
        return f"tf.{value.name}"
    if callable(value):
        return getattr(value, "__name__", "...")
    text = repr(value)
    return text if len(text) < 40 and "<" not in text and "\n" not in text else "..."


def described(name, value, others):
    """The directive of one symbol."""
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    head = f"tf.{name}" + (signature_of(value) if kind != "data" else "")
    body = [markdown(value) if kind != "data" else escaped(
        f"A constant: {value!r}"[:200])]
    if others:
        body.append("Also: " + ", ".join(f"`tf.{other}`" for other in others))
    if kind == "class":
        body += members(value)
    return [f"::::{{py:{kind}}} {head}", "", "\n\n".join(b for b in body if b), "", "::::", ""]


def members(cls):
    """The directives of a class's public methods and properties, its bases' of pyflow too."""
    made = []
    for name, value in inspect.getmembers(cls):
        if name.startswith("_") or not _is_ours(cls, name):
            continue
        if isinstance(value, property):
            made += [f":::{{py:property}} {name}\n\n{markdown(value)}\n:::"]
        elif callable(value) and not inspect.isclass(value):
            signature = re.sub(r"^\((self|cls)(, )?", "(", signature_of(value))
            made += [f":::{{py:method}} {name}{signature}\n\n"
                     f"{markdown(value)}\n:::"]
    return made


def _is_ours(cls, name):
    owner = next((c for c in cls.__mro__ if name in c.__dict__), None)
    return owner is not None and owner.__module__.startswith("pyflow")


def reference(folder):
    """Writes a page a namespace; returns their names."""
    names = public_names()
    chosen, groups, aliases = canonical(names), {}, {}
    for name in names:
        value = find(name)
        if value is None:
            continue
        first = chosen[id(value)]
        if first == name:
            groups.setdefault(name.rpartition(".")[0], []).append((name, value))
        else:
            aliases.setdefault(first, []).append(name)
    pages = []
    for namespace, symbols in sorted(groups.items()):
        title = f"tf.{namespace}".rstrip(".")
        lines = [f"# {title}", ""]
        for name, value in symbols:
            lines += described(name, value, aliases.get(name, ()))
        page = title.replace(".", "_")
        (folder / f"{page}.md").write_text("\n".join(lines), encoding="utf-8")
        pages.append(page)
    return pages, sum(map(len, groups.values())), sum(map(len, aliases.values()))


# ---------------------------------------------------------------- commands and pages

def commands(folder):
    """Writes a page a command; returns their names."""
    pages = []
    for name, says in command.COMMANDS.items():
        done = subprocess.run([sys.executable, "-m", "pyflow", name, "--help"], text=True,
                              capture_output=True, check=True, env=_environment())
        text = f"# python -m pyflow {name}\n\n{says}.\n\n```text\n{done.stdout.rstrip()}\n```\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
        pages.append(name)
    return pages


def _environment():
    return {**os.environ, "COLUMNS": "100"}


_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")        # a label may go over lines


def page(path, folder):
    """A page of the tree as one of the site."""
    text = path.read_text(encoding="utf-8")

    def link(match):
        image, label, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match[0]
        place, _, anchor = target.partition("#")
        found = (path.parent / place).resolve()
        anchor = f"#{anchor}" if anchor else ""
        if found.parent == DOCS and found.suffix == ".md":
            return f"{image}[{label}]({found.name}{anchor})"
        if found.parent == ROOT and found.name in OUTSIDE:
            return f"{image}[{label}]({found.stem.lower()}.md{anchor})"
        if found.parent == DOCS / "images":
            return f"{image}[{label}](images/{found.name})"
        return label if label.startswith("`") else f"{label} (`{found.relative_to(ROOT)}`)"
    parts = re.split(r"(^```.*?^```$|(?:^    [^\n]*\n)+)", text, flags=re.S | re.M)
    return "".join(_fence(p) if p.startswith(("```", "    ")) else _LINK.sub(link, p)
                   for p in parts)


def _fence(block):
    """Code, in a language that Pygments knows, without what stands behind it for our tests."""
    language = re.match(r"```(\w*)", block)
    if language is None:
        return block
    known = language[1] if language[1] in ("python", "c", "sh", "console", "json", "make") else "text"
    return re.sub(r"^```.*", f"```{known}", block, count=1)


def notebook(path):
    """A notebook as a page: text, code, and what is shown under it."""
    made = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            made.append(source)
            continue
        made.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            text = "".join(output.get("text") or output["data"]["text/plain"])
            made.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(made) + "\n"


def pages(folder):
    """Writes the guides; returns their names."""
    names = [path.stem for path in sorted(DOCS.glob("*.ipynb"))]
    for name in names:
        (folder / f"{name}.md").write_text(notebook(DOCS / f"{name}.ipynb"), encoding="utf-8")
    for path in [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in OUTSIDE)]:
        name = path.stem.lower()
        (folder / f"{name}.md").write_text(page(path, folder), encoding="utf-8")
        names.append(name)
    return names


def toctree(caption, names, depth=1):
    return ["```{toctree}", f":caption: {caption}", f":maxdepth: {depth}", "", *names, "```", ""]


def index(folder, guides, api, tools):
    """Writes the first page."""
    known = {name for _, group in GUIDES for name in group}
    lines = ["# pyflow", "", "Dataflow for machine learning: the TensorFlow 1.x graph API on a small"
             " executor, kernels as plugins.", "", "- [README](readme.md): what it is, in two "
             "commands and twenty lines", "- [A tutorial of an hour](tutorial.md)",
             "- [The reference](api/tf.md) · [commands](commands/check.md)", ""]
    for caption, names in GUIDES:
        lines += toctree(caption, [n for n in names if n in guides])
    lines += toctree("More", [n for n in guides if n not in known]) if set(guides) - known else []
    lines += toctree("API", [f"api/{p}" for p in api])
    lines += toctree("Commands", [f"commands/{p}" for p in tools])
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def main(target):
    """Writes all pages into a folder of its own."""
    folder = pathlib.Path(target)
    shutil.rmtree(folder, ignore_errors=True)
    for part in (folder, folder / "api", folder / "commands"):
        part.mkdir(parents=True)
    shutil.copytree(DOCS / "images", folder / "images")
    shutil.copy(HERE / "conf.py", folder)
    (folder / "version.txt").write_text(tf.pyflow_version, encoding="utf-8")
    importlib.import_module("pyflow.ops")
    guides, tools = pages(folder), commands(folder / "commands")
    api, count, others = reference(folder / "api")
    index(folder, guides, api, tools)
    print(f"{len(guides)} pages, {len(tools)} commands, {count} symbols and {others} further names "
          f"of them on {len(api)} pages")


if __name__ == "__main__":
    main(sys.argv[1])
