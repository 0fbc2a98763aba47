"""Python 2 leftovers of old programs, rewritten for Python 3: print statements, `except E, e`, xrange,
iteritems, has_key, moved modules.

    text, changed = converted(text)         # changed: [(line, what)]

Invariants
    1. Lines stay where they are: the n-th line of the result comes from the n-th of the source.
    2. What is valid in both languages and means the same stays as it is; strings and comments too.
    3. What a program text does not show is left: division of integers, and lists that are iterators
       in Python 3 (map, filter, zip, keys).

A small tokenizer of its own: Python's refuses Python 2's numbers and strings from 3.12 on.
Threads: any.
"""
import re
import typing

_TOKEN = re.compile(r"""
    (?P<string>[uUbBrRfF]{0,3}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}
        |"(?:\\(?:.|\n)|[^"\\\n])*"|'(?:\\(?:.|\n)|[^'\\\n])*'))
  | (?P<comment>\#[^\n]*)
  | (?P<number>0[xX][0-9a-fA-F]+[lL]?|0[oObB][0-7]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[jJlL]?)
  | (?P<name>[^\W\d]\w*)
  | (?P<end>\n)
  | (?P<space>(?:[ \t\f\r]|\\\r?\n)+)
  | (?P<op><>|>>=?|<<=?|\*\*=?|//=?|->|:=|[-+*/%&|^=<>!]=?|[][(){},:;.@~`])
  | (?P<other>.)
""", re.VERBOSE | re.DOTALL)

_NAMES = {"xrange": "range", "raw_input": "input", "unicode": "str", "long": "int",
          "basestring": "str", "unichr": "chr"}
_METHODS = {"iteritems": "items", "itervalues": "values", "iterkeys": "keys",
            "viewitems": "items", "viewvalues": "values", "viewkeys": "keys", "getcwdu": "getcwd"}
_MODULES = {"cPickle": "pickle", "Queue": "queue", "ConfigParser": "configparser",
            "StringIO": "io", "cStringIO": "io", "urllib2": "urllib.request",
            "urlparse": "urllib.parse", "__builtin__": "builtins", "commands": "subprocess",
            "Tkinter": "tkinter", "thread": "_thread", "copy_reg": "copyreg"}
_URLLIB = {"urlretrieve": "request", "urlopen": "request", "urlencode": "parse", "quote": "parse",
           "unquote": "parse", "quote_plus": "parse"}


class Token(typing.NamedTuple):
    """A piece of the text: its kind (a group of _TOKEN), the text, its line, from 1."""

    kind: str
    text: str
    line: int


def tokens(text):
    """The pieces of a program, all of them: joined they give the text."""
    found, line = [], 1
    for match in _TOKEN.finditer(text):
        found.append(Token(match.lastgroup, match[0], line))
        line += match[0].count("\n")
    return found


def converted(text):
    """(the program for Python 3, [(line, what was changed)])."""
    changed = []
    out = _expanded(text.replace("\r\n", "\n"), changed)
    for step in (_one_by_one, _imports, _statements, _has_key, _pickles):
        out = step(out, changed)
    return out, sorted(set(changed))


def _expanded(text, changed):
    """Tabs in indentation, where spaces are used too, as the eight columns they meant."""
    lines = text.split("\n")
    heads = [re.match(r"[ \t]*", line)[0] for line in lines]
    if not (any("\t" in h for h in heads) and any(h.startswith(" ") for h in heads)):
        return text
    for at, head in enumerate(heads):
        if "\t" in head:
            lines[at] = head.expandtabs(8) + lines[at][len(head):]
            changed.append((at + 1, "tabs beside spaces"))
    return "\n".join(lines)


# ---------------------------------------------------------------- single tokens

def _one_by_one(text, changed):
    out, before = [], ""
    all_tokens = tokens(text)
    for at, token in enumerate(all_tokens):
        new = _single(token, before, all_tokens[at + 1:at + 3])
        if new != token.text:
            changed.append((token.line, token.text.split("\n")[0]))
        out.append(new)
        if token.kind not in ("space", "comment"):
            before = token.text
    return _no_backticks("".join(out), changed)


def _single(token, before, after):
    kind, text = token.kind, token.text
    if kind == "name" and before != ".":
        keyword = [t.text for t in after if t.kind != "space"][:1] == ["="]
        return text if keyword or before in ("def", "class") else _NAMES.get(text, text)
    if kind == "name":
        return _METHODS.get(text, text)
    if kind == "number":
        text = text.rstrip("lL") if not text.startswith(("0x", "0X")) else text.rstrip("lL")
        if re.fullmatch(r"0[0-7]+", text) and text.strip("0"):
            return "0o" + text.lstrip("0")
        return re.sub(r"^0+(?=\d+$)", "", text)
    if kind == "string":
        head = re.match(r"\w*", text)[0]
        return text[1:] if head.lower() == "ur" else text
    return "!=" if kind == "op" and text == "<>" else text


def _no_backticks(text, changed):
    parts = tokens(text)
    ticks = [at for at, t in enumerate(parts) if t.text == "`"]
    out = [t.text for t in parts]
    for first, last in zip(ticks[::2], ticks[1::2]):
        out[first], out[last] = "repr(", ")"
        changed.append((parts[first].line, "`...`"))
    return "".join(out)


# ---------------------------------------------------------------- imports

def _imports(text, changed):
    lines = text.split("\n")
    urllib = False
    for at, line in enumerate(lines):
        new = re.sub(r"^(\s*)import\s+([\w., ]+)$", _import_line, line)
        new = re.sub(r"^(\s*from\s+)(\w+)(\s+import\b)",
                     lambda m: m[1] + _MODULES.get(m[2], m[2]) + m[3], new)
        new = re.sub(r"^(\s*)from\s+itertools\s+import\s+(izip|imap|ifilter)\s*$", r"\1pass", new)
        urllib = urllib or bool(re.match(r"\s*import\s+urllib\s*$", line))
        if urllib:
            new = re.sub(r"^(\s*)import\s+urllib\s*$",
                         r"\1import urllib.error, urllib.parse, urllib.request", new)
            new = re.sub(r"\burllib\.(\w+)", _urllib_name, new) if "import" not in new else new
        new = re.sub(r"\bitertools\.i(zip|map|filter)\b", r"\1", new)
        if new != line:
            changed.append((at + 1, line.strip()))
            lines[at] = new
    return "\n".join(lines)


def _import_line(match):
    parts = []
    for part in match[2].split(","):
        words = part.split()
        name = words[0] if words else ""
        if name in _MODULES:
            alias = words[2] if len(words) == 3 else name
            new = _MODULES[name]
            part = f"import {new}" if alias == new else f"import {new} as {alias}"
            parts.append(part.removeprefix("import "))
        else:
            parts.append(part.strip())
    return f"{match[1]}import {', '.join(parts)}"


def _urllib_name(match):
    module = _URLLIB.get(match[1])
    return f"urllib.{module}.{match[1]}" if module else match[0]


# ---------------------------------------------------------------- statements

def _statements(text, changed):
    """print, exec, raise E, "text" and except E, e."""
    out, statement, depth = [], [], 0
    for token in tokens(text):
        if token.text in "([{" and token.kind == "op":
            depth += 1
        elif token.text in ")]}" and token.kind == "op":
            depth = max(depth - 1, 0)
        ends = depth == 0 and (token.kind in ("end", "comment") or token.text in (";", ":"))
        if not ends:
            statement.append(token)
            continue
        if token.text == ":" and not _is_block(statement):
            statement.append(token)
            continue
        out += [_statement(statement, changed), token.text]
        statement = []
    return "".join([*out, _statement(statement, changed)])


def _is_block(statement):
    """True of what a colon ends: `else`, `except E, e`, `if x`; not of a lambda or a slice."""
    words = [t.text for t in statement if t.kind not in ("space", "end")]
    blocks = ("if", "elif", "else", "for", "while", "try", "except", "finally", "with", "class",
              "def")
    return bool(words) and words[0] in blocks and "lambda" not in words


def _statement(statement, changed):
    source = "".join(t.text for t in statement)
    words = [t for t in statement if t.kind not in ("space", "comment")]
    if not words:
        return source
    head = source[:len(source) - len(source.lstrip())]
    first, rest = words[0].text, source.strip()[len(words[0].text):]
    new = None
    if first == "print" and words[0].kind == "name":
        new = _print(words, rest)
    elif first == "exec" and len(words) > 1 and words[1].text != "(":
        new = f"exec({rest.strip()})"
    elif first == "except":
        new = _except(words, rest)
    elif first == "raise":
        new = _raise(words, rest)
    if new is None:
        return source
    changed.append((words[0].line, source.strip().split("\n")[0]))
    tail = source[len(source.rstrip()):]
    return head + new + tail


def _print(words, rest):
    """print's statement as a call; None if it is one."""
    if len(words) > 1 and (words[1].text in ("=", ".", ",") or _is_one_group(words[1:])):
        return None
    rest = rest.strip()
    file = ""
    if rest.startswith(">>"):
        target, _, rest = _cut(rest[2:])
        file, rest = f"file={target.strip()}", rest.strip()
    end = ""
    if rest.endswith(","):
        rest, end = rest[:-1].rstrip(), 'end=" "'
    return f"print({', '.join(part for part in (rest, end, file) if part)})"


def _is_one_group(words):
    """True if one pair of brackets is all there is: print(x)."""
    if words[0].text != "(":
        return False
    depth = 0
    for at, token in enumerate(words):
        if token.kind == "op":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0:
            return at == len(words) - 1
    return False


def _cut(text):
    """(before, ",", after) the first comma outside brackets and strings."""
    depth, at = 0, 0
    for token in tokens(text):
        if token.kind == "op":
            depth += (token.text in "([{") - (token.text in ")]}")
            if token.text == "," and depth == 0:
                return text[:at], ",", text[at + 1:]
        at += len(token.text)
    return text, "", ""


def _except(words, rest):
    if any(t.text == "as" for t in words):
        return None
    kind, comma, name = _cut(rest)
    if not comma or not re.fullmatch(r"[^\W\d]\w*", name.strip()):
        return None
    return f"except {kind.strip()} as {name.strip()}"


def _raise(words, rest):
    kind, comma, value = _cut(rest)
    if not comma:
        return None
    value, more, trace = _cut(value)
    call = f"{kind.strip()}({value.strip()})"
    return f"raise {call}.with_traceback({trace.strip()})" if more else f"raise {call}"


_HAS_KEY = re.compile(r"(?<![\w.)\]])((?:[^\W\d]\w*)(?:\.[^\W\d]\w*)*)\.has_key\(([^()]*(?:\([^()]*\))?[^()]*)\)")


_OPEN = r"""open\(\s*(?P<path>[^(),]+?|[\w.]+\([^()]*\))\s*(?:,\s*(?P<mode>['"][rw]t?['"])\s*)?\)"""
_PICKLED = re.compile(rf"(?P<call>\bc?[pP]ickle\.(?P<what>load|dump)\((?:[^()\n]|\([^()\n]*\))*?){_OPEN}")
_OPENED = re.compile(rf"{_OPEN}(?P<as>\s+as\s+(?P<name>\w+)\s*:)")


def _pickles(text, changed):
    """Files that are given to pickle, which Python 3 wants opened for bytes."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        new = _PICKLED.sub(lambda m: m["call"] + _for_bytes(m, m["what"]), line)
        opened = _OPENED.search(line)
        if opened:
            below = "\n".join(lines[at:at + 10])
            used = re.search(rf"\bc?[pP]ickle\.(load\(\s*|dump\(.*,\s*){opened['name']}\b", below)
            if used:
                new = line[:opened.start()] + _for_bytes(opened, used[1][:4]) + opened["as"] \
                    + line[opened.end():]
        if new != line:
            lines[at] = new
            changed.append((at + 1, "a file for pickle, opened as text"))
    return "\n".join(lines)


def _for_bytes(match, what):
    return f"open({match['path']}, '{'rb' if what == 'load' else 'wb'}')"


def _has_key(text, changed):
    """d.has_key(k) of a plain name d as (k in d); `not d.has_key(k)` stays right."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        new = _HAS_KEY.sub(r"(\2 in \1)", line)
        if new != line:
            changed.append((at + 1, "has_key"))
            lines[at] = new
    return "\n".join(lines)
