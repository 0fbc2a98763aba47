"""A program as `python -m pyflow coverage` reads and writes it: a Python file in its own encoding,
or the code of a notebook.

    program = read("train.ipynb")
    program.text                        # all code cells, one after the other
    program.place(7)                    # "train.ipynb: cell 3, line 2"
    program.write(new_text)

Invariants
    1. What is written has the encoding, the byte order mark and the ends of lines that were read: the
       text that is given back has as many lines.
    2. Of a notebook only the cells' sources change. Lines of IPython (`%matplotlib inline`, `!ls`) are
       statements without effect in the text, and come back as they were.

Threads: any.
"""
import io
import json
import pathlib
import re
import tokenize

_MAGIC = re.compile(r"^(?P<indent>[ \t]*)(?P<rest>[%!?].*|[\w.]+\?{1,2}[ \t]*|\w+[ \t]*=[ \t]*[!%].*)$")
_SHOWN = "pass  # IPython: "
_OF_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun")      # cells of Python under these


class Program:
    """A Python file: its name, its text with "\\n" at the ends of lines."""

    def __init__(self, name, data):
        self.name = name
        self._encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        self._lines = data.decode(self._encoding).split("\n")
        self.text = "\n".join(line.removesuffix("\r") for line in self._lines)

    def place(self, line):
        """Where a line of the text is, for reports."""
        return f"{self.name}:{line}"

    def write(self, text):
        """Writes another text in the file's place. UnicodeEncodeError if its encoding lacks a
        character."""
        new = text.split("\n")
        crlf = [line.endswith("\r") for line in self._lines]
        if len(new) != len(crlf):
            crlf = [any(crlf)] * len(new)
            crlf[-1:] = [False]
        out = "\n".join(line + "\r" * end for line, end in zip(new, crlf))
        pathlib.Path(self.name).write_bytes(out.encode(self._encoding))


class Notebook:
    """A notebook: the code of its cells as one text."""

    def __init__(self, name, data):
        self.name = name
        try:
            self._content = json.loads(data.decode("utf-8"))
            self._cells = list(_code_cells(self._content))
            sources = ["".join(cell[key]) for _, cell, key in self._cells]
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise SyntaxError(f"not a notebook: {e}") from None
        self._sources = [_shown(source) for source in sources]
        self.text = "\n".join(self._sources)

    def place(self, line):
        """Where a line of the text is, for reports."""
        for (number, _, _), source in zip(self._cells, self._sources):
            count = source.count("\n") + 1
            if line <= count:
                return f"{self.name}: cell {number}, line {line}"
            line -= count
        return self.name

    def write(self, text):
        """Writes the notebook with another text in its cells."""
        lines = iter(text.split("\n"))
        for (_, cell, key), source in zip(self._cells, self._sources):
            new = "\n".join(_hidden(next(lines)) for _ in range(source.count("\n") + 1))
            cell[key] = new.splitlines(keepends=True) if isinstance(cell[key], list) else new
        out = json.dumps(self._content, indent=1, ensure_ascii=False)
        pathlib.Path(self.name).write_text(out + "\n", encoding="utf-8")


def read(name):
    """The Program or Notebook of a file. OSError, SyntaxError and UnicodeError as they come."""
    data = pathlib.Path(name).read_bytes()
    return (Notebook if str(name).endswith(".ipynb") else Program)(name, data)


def _code_cells(content):
    """(number from 1, cell, key of its source) of the code cells, of formats 3 and 4."""
    sheets = content["worksheets"] if "worksheets" in content else [content]
    cells = [cell for sheet in sheets for cell in sheet["cells"]]
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code":
            yield number, cell, "source" if "source" in cell else "input"


def _shown(source):
    """A cell's source as Python."""
    lines = source.split("\n")
    first = lines[0].split()[:1]
    if first and first[0].startswith("%%") and first[0] not in _OF_PYTHON:
        return "\n".join(f"{_SHOWN}{line}" for line in lines)
    return "\n".join(_MAGIC.sub(lambda m: f"{m['indent']}{_SHOWN}{m['rest']}", line)
                     for line in lines)


def _hidden(line):
    return line.replace(_SHOWN, "", 1)
