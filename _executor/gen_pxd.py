"""The core's C headers as Cython sees them: one .pxd a header, written by the build.

    python gen_pxd.py -I core -I include --depfile pxd.d --out FOLDER core/step/step.h ...

`core/step/step.h` becomes `step_h.pxd`, which declares what the header declares and what the headers
it includes declare: a module says `from step_h cimport *` where C would say #include "step/step.h".

Invariants
1. A .pxd is complete: a module cimports one of them and no second (a struct declared in two of them
   would be two types for Cython).  A struct that is only named there (`struct pf_step;`) is opaque.
2. Every declaration comes from its header: structs with all their fields, enums, functions, inline
   ones too, tables, and macros that are a number.  Other macros are C's alone.
3. What the parser does not understand stops the build with the header's name and the declaration.

The C read here is ours: no unions, no bit fields, no K&R.  Conditionals are not evaluated (what any
branch declares is declared once), but __cplusplus is false.  Fields whose name Cython reserves get
another one there: `in` is `ins`, `def` is `def_`, `async` is `async_`.  What the C library declares
is in core/system.pxd.
"""

import argparse
import keyword
import pathlib
import re
import sys

TOKEN = re.compile(r'\s*("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w[\w.]*|\.\.\.|<<|>>|\S)')
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
NUMBER = re.compile(r"\(?\s*(-?(?:0[xX][0-9a-fA-F]+|\d+))([uUlL]*)\s*\)?$")
SPECIFIERS = {"static", "extern", "inline", "typedef", "_Thread_local", "__thread", "struct", "volatile"}
BASE_WORDS = {"unsigned", "signed", "long", "short", "int", "char"}
RESERVED = {"in": "ins"} | {word: word + "_" for word in (*keyword.kwlist, "cdef", "include", "gil")
                            if word != "in"}


class Unread(Exception):
    """A declaration that this parser does not know."""


# ---------------------------------------------------------------- text -> declarations
def branches(text):
    """The header without directives; -> (text, [included], {macro: body})."""
    lines, included, macros, skipped = [], [], {}, []
    for line in re.sub(r"\\\n", " ", COMMENT.sub(" ", text)).splitlines():
        words = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if not words:
            if not any(skipped):
                lines.append(line)
            continue
        directive, rest = words[1], words[2].strip()
        if directive in ("if", "ifdef", "ifndef"):
            skipped.append(directive == "ifdef" and rest == "__cplusplus")
        elif directive in ("else", "elif"):
            skipped[-1] = False
        elif directive == "endif":
            skipped.pop()
        elif any(skipped):
            continue
        elif directive == "include" and rest.startswith('"'):
            included.append(rest.strip('"'))
        elif directive == "define" and (macro := re.match(r"(\w+)(?:\s+(.*))?$", rest)):
            macros.setdefault(macro[1], macro[2] or "")
    return "\n".join(lines), included, macros


def tokens(text, macros):
    """C's tokens; macros that stand for words (`static inline`, an attribute) are put in."""
    out = []
    for token in TOKEN.findall(text):
        body = macros.get(token)
        if body is not None and not NUMBER.match(body):
            out += tokens(body, {k: v for k, v in macros.items() if k != token})
        else:
            out.append(token)
    return out


def closing(words, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for k in range(at, len(words)):
        depth += (words[k] in "([{") - (words[k] in ")]}")
        if not depth:
            return k
    raise Unread("a bracket is not closed")


def without_attributes(words):
    out, k = [], 0
    while k < len(words):
        if words[k] in ("__attribute__", "_Alignas"):
            k = closing(words, k + 1) + 1
        else:
            out.append(words[k])
            k += 1
    return out


def statements(words):
    """The declarations of a file, function bodies and initial values cut off."""
    words, k, start = without_attributes(words), 0, 0
    while k < len(words):
        if words[k] in "([":
            k = closing(words, k)
        elif words[k] == "{":
            end = closing(words, k)
            if words[k - 1] == ")":                     # a function's body
                yield words[start:k]
                start = end + 1
            elif words[k - 1] == "=":                   # an initial value
                del words[k - 1:end + 1]
                k -= 2
                end = k
            k = end
        elif words[k] == "=":
            end = words.index(";", k)
            if "{" not in words[k:end]:
                del words[k:end]
                k -= 1
        elif words[k] == ";":
            if k > start:
                yield words[start:k]
            start = k + 1
        k += 1
    if start < len(words):
        raise Unread(" ".join(words[start:start + 12]))


# ---------------------------------------------------------------- declarators
def split(words, mark=","):
    """The parts between marks that no bracket encloses."""
    parts, k, start = [], 0, 0
    while k < len(words):
        if words[k] in "([{":
            k = closing(words, k)
        elif words[k] == mark:
            parts.append(words[start:k])
            start = k + 1
        k += 1
    return [*parts, words[start:]]


def base_of(words):
    """(`const char`, the rest): the type a declaration starts with."""
    const, base, k = False, [], 0
    while k < len(words):
        if words[k] == "const":
            const = True
        elif words[k] in BASE_WORDS or (not base and re.match(r"[A-Za-z_]", words[k]) and words[k] not in SPECIFIERS):
            base.append(words[k])
        elif words[k] not in SPECIFIERS:
            break
        k += 1
    if not base:
        raise Unread(" ".join(words[:12]))
    if base in (["unsigned"], ["signed"]):
        base.append("int")
    return ("const " if const else "") + " ".join(base), words[k:]


def declarator(words, sizes):
    """-> (name, function of the text inside): `(*fn)(void *)` wraps `fn` as Cython writes it."""
    k = 0
    prefix = ""
    while k < len(words) and words[k] in ("*", "const", "restrict", "volatile"):
        prefix += {"*": "*", "const": " const "}.get(words[k], "")
        k += 1
    name, inner = "", None
    if k < len(words) and words[k] == "(" and words[k + 1] == "*":
        end = closing(words, k)
        name, inner = declarator(words[k + 1:end], sizes)
        k = end + 1
    elif k < len(words) and re.match(r"[A-Za-z_]", words[k]):
        name = words[k]
        k += 1
    suffix = ""
    while k < len(words):
        end = closing(words, k)
        inside = words[k + 1:end]
        if words[k] == "(":
            suffix += f"({parameters(inside, sizes)})"
            suffix += " noexcept nogil" if inner else " noexcept"
        elif words[k] == "[":
            suffix += f"[{size(inside, sizes)}]"
        else:
            raise Unread(" ".join(words))
        k = end + 1

    def wrap(text):
        if inner:
            return f"{prefix}({inner(text)}){suffix}"
        return f"{prefix}{text}{suffix}"

    return name, wrap


def size(words, sizes):
    if not words:
        return "1"                                      # a flexible array
    value = number(" ".join(words), sizes)
    if value is None:
        raise Unread(f"the size {' '.join(words)}")
    return str(value)


def parameters(words, sizes):
    if words in (["void"], []):
        return ""
    out = []
    for part in split(words):
        if part == ["..."]:
            out.append("...")
            continue
        base, rest = base_of(part)
        name, wrap = declarator(rest, sizes)
        out.append(re.sub(r"\[\d*\]$", "*", f"{base} {wrap('')}").replace(" *", "*").strip())
    return ", ".join(out)


def number(text, sizes):
    """The value of a constant expression; None where C alone knows it."""
    if NUMBER.match(text.replace(" ", "")):
        return int(NUMBER.match(text.replace(" ", ""))[1], 0)
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", re.sub(r"\( *u?int\w* *\)", "", text))
    try:
        return int(eval(text, {"__builtins__": {}}, sizes))     # our own headers' sums and shifts
    except (NameError, SyntaxError, TypeError):
        return None


# ---------------------------------------------------------------- declarations -> Cython
class Header:
    """What one header declares, as lines of `cdef extern from`."""

    def __init__(self, path, name, known, sizes):
        self.path, self.name, self.lines = path, name, []
        self.known, self.sizes = known, sizes           # of the headers it includes, too
        text, self.included, self.macros = branches(path.read_text(encoding="utf-8"))

    def read(self, macros):
        text = branches(self.path.read_text(encoding="utf-8"))[0]
        for macro, body in self.macros.items():
            if (found := NUMBER.match(body)) and self.new("=" + macro):
                unsigned = "u" in found[2].lower()
                self.lines.append(f"{'uint32_t' if unsigned else 'int'} {macro}")
                self.sizes[macro] = int(found[1], 0)
        for words in statements(tokens(text, macros)):
            try:
                self.declare(words)
            except Unread as problem:
                raise Unread(f"{self.path}: {' '.join(words)[:200]}: {problem}") from None

    def new(self, key):
        if key in self.known:
            return False
        self.known.add(key)
        return True

    def declare(self, words):
        if words[0] == "_Static_assert":
            return
        brace = words.index("{") if "{" in words else -1
        if words[0] == "enum" and brace >= 0:
            self.enum(words[brace + 1:closing(words, brace)])
        elif brace >= 0 and "struct" in words[:brace]:
            self.struct(words, brace)
        elif words[0] == "struct" and len(words) == 2:
            self.opaque(words[1])
        elif words[:2] == ["typedef", "struct"] and len(words) == 4 and words[2] == words[3]:
            self.opaque(words[2])
        elif words[0] == "typedef":
            base, rest = base_of(words)
            name, wrap = declarator(rest, self.sizes)
            if self.new(name):
                self.lines.append(f"ctypedef {base} {wrap(name)}")
        else:
            self.object(words)

    def opaque(self, name):
        if name + "{" not in self.known and self.new(name):
            self.lines.append(f"ctypedef struct {name}")

    def enum(self, words):
        names, value = [], -1
        for part in split(words):
            if not part:
                continue
            value = number(" ".join(part[2:]), self.sizes) if len(part) > 2 else value + 1 if value is not None else None
            if value is not None:
                self.sizes[part[0]] = value
            if self.new("=" + part[0]):
                names.append(part[0])
        if names:
            self.lines += ["enum:", *("    " + ", ".join(names[k:k + 6]) for k in range(0, len(names), 6))]

    def struct(self, words, brace):
        end = closing(words, brace)
        if "typedef" not in words[:brace] and words[brace - 1] == "struct":
            return                                      # a table of its own kind: C's alone
        name = words[end + 1] if len(words) > end + 1 and re.match(r"\w", words[end + 1]) else words[brace - 1]
        if not self.new(name + "{"):
            return
        self.known.add(name)
        body = words[brace + 1:end]
        fields = []
        for part in split(body, ";"):
            if part and "_Atomic" not in part:
                fields += self.fields(part)
        self.lines.append(f"ctypedef struct {name}:")
        self.lines += ["    " + field for field in fields] or ["    pass"]
        if rest := words[end + 2:]:                     # struct {...} table[] = ...
            raise Unread(" ".join(rest))

    def fields(self, words):
        base, rest = base_of(words)
        for part in split(rest):
            name, wrap = declarator(part, self.sizes)
            shown = f'{RESERVED[name]} "{name}"' if name in RESERVED else name
            yield f"{base} {wrap(shown)}"

    def object(self, words):
        """A function, or a variable of the core's."""
        base, rest = base_of(words)
        for part in split(rest):
            name, wrap = declarator(part, self.sizes)
            text = wrap(name)
            if not text.endswith("noexcept"):           # a variable: Cython need not know that it is constant
                text = re.sub(r"\[\d*\]$", "", text) if "[" in text else text
                text = ("*" if re.search(r"\[", wrap(name)) else "") + text.replace(" const " + name, name)
                if "*" not in text:
                    base = base.removeprefix("const ")
            if self.new("=" + name):
                self.lines.append(f"{base} {text}")


def found(name, near, folders):
    """The header that `#include "name"` in a file of folder `near` means."""
    for folder in (near, *folders):
        if (folder / name).is_file():
            return (folder / name).resolve(), name
    raise Unread(f"{near}: #include \"{name}\" was not found")


def closure(path, folders):
    """The header and those it includes, lower ones first."""
    out = []

    def visit(path):
        for name in branches(path.read_text(encoding="utf-8"))[1]:
            below = found(name, path.parent, folders)[0]
            if below not in out:
                visit(below)
        if path not in out:
            out.append(path)

    visit(path.resolve())
    return out


def spelling(path, folders):
    """How C includes it."""
    for folder in folders:
        if path.is_relative_to(folder.resolve()):
            return path.relative_to(folder.resolve()).as_posix()
    return path.name


def pxd(path, folders):
    """-> (the text of the header's .pxd, the headers it was made from)."""
    headers, known, sizes, macros = closure(path, folders), set(), {}, {}
    named = set()
    for part in headers:
        named |= set(re.findall(r"\bstruct\s+((?:pf_|DL)\w+)", COMMENT.sub(" ", part.read_text(encoding="utf-8"))))
    lines = [
        "# cython: language_level=3",
        f'"""{spelling(path.resolve(), folders)} and what it includes: written by _executor/gen_pxd.py."""',
        "from system cimport *",
    ]
    ahead = [f"    ctypedef struct {name}" for name in sorted(named)]
    for part in headers:
        header = Header(part, spelling(part, folders), known, sizes)
        macros |= header.macros
        if ahead:
            known |= named
            lines += [f'cdef extern from "{header.name}" nogil:', *ahead]
            ahead = None
        header.read(macros)
        if header.lines:
            lines += [f'cdef extern from "{header.name}" nogil:', *("    " + line for line in header.lines)]
    return "\n".join(lines) + "\n", headers


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headers", nargs="+", type=pathlib.Path)
    parser.add_argument("-I", dest="folders", action="append", type=pathlib.Path, default=[],
                        help="where headers include each other from")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder of the .pxd files")
    parser.add_argument("--depfile", type=pathlib.Path, help="make rule: what the outputs depend on")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    made, used = [], set()
    try:
        for header in arguments.headers:
            text, headers = pxd(header, arguments.folders)
            target = arguments.out / f"{header.stem}_h.pxd"
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                target.write_text(text, encoding="utf-8")
            made.append(str(target))
            used |= set(map(str, headers))
    except Unread as problem:
        print(problem, file=sys.stderr)
        return 1
    if arguments.depfile:
        arguments.depfile.write_text(f"{' '.join(made)}: {' '.join(sorted(used))}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
