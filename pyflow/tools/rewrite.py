"""A program moved over to pyflow: its imports, the names and forms of TensorFlow 0.x, and what
Python 2 left.

    new, notes = rewritten(text)        # notes: [(line, what was left to the reader)]

Invariants
    1. Lines stay where they are; what needs no change keeps its bytes, comments and spaces.
    2. A form is changed only where it cannot be meant in the new one (old_forms.py has the same
       rules at run time).
    3. A second rewriting changes nothing.

Threads: any.
"""
import ast
import re

from pyflow.interop.tensorflow import renamed
from pyflow.tools import program_names, python2

_MODELS_RNN = {                         # TensorFlow 0.5's modules: where their content is
    "rnn": ("pyflow", "nn"), "rnn_cell": ("pyflow.nn", "rnn_cell"),
    "seq2seq": ("pyflow.contrib", "legacy_seq2seq"),
}
_LABELS = {"nn.softmax_cross_entropy_with_logits", "nn.sparse_softmax_cross_entropy_with_logits",
           "nn.sigmoid_cross_entropy_with_logits"}


def rewritten(text):
    """(the program with its changes, [(line, note)]).  SyntaxError if it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        text = python2.converted(text)[0]
        tree = ast.parse(text)
    else:
        text = text.replace("\r\n", "\n")
        for old in ("xrange", "iteritems", "itervalues", "iterkeys", "raw_input", "cPickle",
                    "urllib2", "has_key"):
            if old in text:                 # Python 3's syntax, Python 2's names
                text = python2.converted(text)[0]
                tree = ast.parse(text)
                break
    edits, notes = _Edits(text), []
    for use in program_names.names_of(tree):
        if not isinstance(use.node, (ast.Import, ast.ImportFrom)):
            _change(use, edits, notes)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _change_import(node, edits)
    return edits.applied(), sorted(set(notes))


class _Edits:
    """Replacements of nodes' texts, made in one go: (start, end, new), new a text or a list of texts
    and of spans of the program, which are changed inside."""

    def __init__(self, text):
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.text, self.made = text, []

    def span(self, node):
        return (self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset))

    def _at(self, line, column):
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def source(self, node):
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node, new):
        self.made.append((*self.span(node), new))

    def swap(self, first, second):
        """Each of two nodes gets the other's text, with the changes inside it."""
        a, b = self.span(first), self.span(second)
        self.made += [(*a, [b]), (*b, [a])]

    def wrap(self, node, before, after):
        """Text around a node, which may change inside."""
        start, end = self.span(node)
        self.made += [(start, start, before), (end, end, after)]

    def applied(self):
        return self._between(0, len(self.text))

    def _between(self, start, end, below=None):
        """The changed text of a span, without the edit that replaces all of it (`below`)."""
        out, at = [], start
        inside = (e for e in self.made if start <= e[0] and e[1] <= end and e[:2] != below)
        inside = sorted(inside, key=lambda e: (e[0], e[1] > e[0], -e[1]))   # insertions first
        for edit in inside:
            if edit[0] < at:
                continue                    # within one that has been written
            new = edit[2]
            if isinstance(new, list):
                new = "".join(part if isinstance(part, str) else self._between(*part, below=part)
                              for part in new)
            out += [self.text[at:edit[0]], new]
            at = edit[1]
        return "".join([*out, self.text[at:end]])


# ---------------------------------------------------------------- imports

def _change_import(node, edits):
    if isinstance(node, ast.ImportFrom):
        if node.module and program_names.path_of(node.module) is not None and not node.level:
            _change_from(node, edits)
        return
    names = [_import_name(alias) for alias in node.names]
    if names != [ast.unparse(alias) for alias in node.names]:
        edits.replace(node, f"import {', '.join(dict.fromkeys(names))}")


def _import_name(alias):
    path = program_names.path_of(alias.name)
    if path is None or alias.name.startswith("pyflow"):
        return ast.unparse(alias)
    module = f"pyflow.{path}".rstrip(".")
    if alias.asname:
        return f"{module} as {alias.asname}"
    return "pyflow as tensorflow" + (f", {module}" if path else "")


def _change_from(node, edits):
    if node.module.startswith("pyflow"):
        return
    path = program_names.path_of(node.module)
    source = edits.source(node)
    if node.module == "tensorflow" and [a.name for a in node.names] == ["compat"]:
        return
    if [a.name for a in node.names] == ["v1"]:      # from tensorflow.compat import v1 as tf
        edits.replace(node, f"import pyflow as {node.names[0].asname or 'v1'}")
        return
    if path == "models.rnn" and all(a.name in _MODELS_RNN for a in node.names):
        edits.replace(node, "; ".join(
            f"from {_MODELS_RNN[a.name][0]} import {_MODELS_RNN[a.name][1]}"
            + (f" as {a.asname or a.name}" if (a.asname or a.name) != _MODELS_RNN[a.name][1] else "")
            for a in node.names))
        return
    module = f"pyflow.{path}".rstrip(".")
    new = re.sub(r"^from(\s+)[\w.]+", lambda m: f"from{m[1]}{module}", source)
    edits.replace(node, new)


# ---------------------------------------------------------------- names and forms

def _change(use, edits, notes):
    path, call = use.path, use.call
    root = _root_text(use.node, path, edits)
    new = renamed.NAMES.get(path) or renamed.BECAME.get(path)
    if path in ("op_scope", "variable_op_scope"):
        new = None
    if new and root is not None:
        edits.replace(use.node, f"{root}.{new}")
    elif new:
        notes.append((use.line, f"tf.{path} became tf.{new}"))
    if call is not None:
        _change_call(path, call, edits, notes)


def _root_text(node, path, edits):
    """"tf" of tf.nn.relu; None where an alias stands for more than tensorflow."""
    chain = edits.source(node)
    parts = chain.split(".")
    if chain.endswith(path) and len(parts) == path.count(".") + 2:
        return parts[0]
    return None


def _change_call(path, call, edits, notes):
    args, words = call.args, {word.arg: word for word in call.keywords}
    last = path.removeprefix("python.ops.array_ops.")
    if last == "concat":
        if len(args) >= 2 and _is_number(args[0]) and not _is_number(args[1]):
            edits.swap(args[0], args[1])
        _rename_word(words, "concat_dim", "axis", edits)
    elif last == "split" and len(args) >= 3 and _is_number(args[0]):
        start, end = edits.span(args[0])[0], edits.span(args[2])[1]
        value, parts, axis = (edits.span(args[k]) for k in (2, 1, 0))
        edits.made.append((start, end, [value, ", ", parts, ", ", axis]))
    elif path in _LABELS:
        if len(args) >= 2:
            edits.wrap(args[0], "logits=", "")
            edits.wrap(args[1], "labels=", "")
        _rename_word(words, "targets", "labels", edits)
    elif path == "image.resize_images" and len(args) >= 3 and (
            _is_number(args[1]) or _is_number(args[2])):
        edits.wrap(args[1], "[", "")
        edits.wrap(args[2], "", "]")
    elif path == "batch_matmul":
        _rename_word(words, "adj_x", "adjoint_a", edits)
        _rename_word(words, "adj_y", "adjoint_b", edits)
    elif path in ("nn.sampled_softmax_loss", "nn.nce_loss") and len(args) >= 4:
        notes.append((call.lineno, f"tf.{path}: since 1.0 labels come before inputs"))
    elif path in ("op_scope", "variable_op_scope"):
        notes.append((call.lineno, f"tf.{path}(values, name, default_name) became "
                                   "tf.name_scope or variable_scope (name, default_name, values)"))


def _is_number(node):
    return (isinstance(node, ast.Constant) and type(node.value) is int or
            isinstance(node, ast.UnaryOp) and _is_number(node.operand))


def _rename_word(words, old, new, edits):
    if old in words:
        word = words[old]
        start = edits.span(word)[0]
        edits.made.append((start, start + len(old), new))
