"""The tutorial's cells run in order and give what is shown under them.  WRITE_GOLDEN=1 writes that."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"

# Runs cells as Jupyter does: the last expression of each is shown by its repr.
RUNNER = """
import ast, contextlib, io, json, sys
space, shown = {"__name__": "__main__"}, []
for number, source in enumerate(json.load(sys.stdin)):
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), space)
    shown.append([printed.getvalue(), None if value is None else repr(value)])
print(json.dumps(shown))
"""


def outputs(printed, value, count):
    """A cell's outputs in the notebook's form."""
    made = []
    if printed:
        made.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(True)})
    if value is not None:
        made.append({"data": {"text/plain": value.splitlines(True)}, "execution_count": count,
                     "metadata": {}, "output_type": "execute_result"})
    return made


def test_the_cells_give_what_they_show(tmp_path):
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]).replace("/tmp/pyflow-tutorial", str(tmp_path))
               for cell in cells]
    done = subprocess.run([sys.executable, "-P", "-c", RUNNER], input=json.dumps(sources), cwd=ROOT,
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    for count, (cell, (printed, value)) in enumerate(zip(cells, json.loads(done.stdout),
                                                         strict=True), 1):
        found = outputs(printed, value, count)
        if os.environ.get("WRITE_GOLDEN"):
            cell["outputs"], cell["execution_count"] = found, count
        else:
            assert found == cell["outputs"], "".join(cell["source"])
    if os.environ.get("WRITE_GOLDEN"):
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        NOTEBOOK.write_text(text, encoding="utf-8")
