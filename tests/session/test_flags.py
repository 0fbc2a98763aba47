"""tf.flags: what programs do with FLAGS besides reading it.  Literals are absl's answers."""
import subprocess
import sys

import pytest

from pyflow.platform import flags


@pytest.fixture
def values(monkeypatch):
    monkeypatch.setattr(flags, "_absl", None)       # those of programs without absl-py
    fresh = flags._Flags()
    monkeypatch.setattr(flags, "FLAGS", fresh)
    flags.DEFINE_string("s", "a", "text")
    flags.DEFINE_integer("i", 3, "number")
    flags.DEFINE_bool("b", False, "switch")
    flags.DEFINE_list("l", "a,b", "list")
    fresh(["prog", "--i=7", "--l=q"])
    return fresh


def test_the_flags_themselves(values):
    inside = values.__flags                 # no mangling here: programs say FLAGS.__flags.items()
    assert {n: (f.name, f.value, f.default, f.help, f.present, f.boolean)
            for n, f in inside.items()} == {
        "s": ("s", "a", "a", "text", 0, False), "i": ("i", 7, 3, "number", 1, False),
        "b": ("b", False, False, "switch", 0, True), "l": ("l", ["q"], ["a", "b"], "list", 1, False)}
    assert values["i"] is inside["i"] and list(values) == ["s", "i", "b", "l"] and len(values) == 4
    assert {"s", "i", "b", "l", "flag_values_dict"} <= set(dir(values))
    assert sorted(f"{k}={v.value}" for k, v in values.__flags.items())[1] == "i=7"


def test_setting_and_forgetting(values):
    values.set_default("s", "new")
    values.set_default("i", 5)
    assert (values.s, values.i, values["i"].default) == ("new", 7, 5)
    values.i = 9
    assert values.i == 9 and values["i"].present == 1 and values.get_flag_value("i", 0) == 9
    assert values.flags_into_string() == "--s=new\n--i=9\n--nob\n--l=q\n"
    del values.l
    assert "l" not in values and not hasattr(values, "l")
    with pytest.raises(KeyError):
        values["l"]
    with pytest.raises(AttributeError):
        values.nothing = 1


def test_flags_given_several_times_and_old_parsing(values, monkeypatch):
    flags.DEFINE_multi_string("ms", ["a"], "texts")
    flags.DEFINE_multi_integer("mi", None, "numbers")
    flags.DEFINE_multi_float("mf", 1.5, "numbers")
    monkeypatch.setattr("sys.argv", ["prog", "--ms=x", "--ms=y"])
    values._parse_flags()
    assert (values.ms, values.mi, values.mf) == (["x", "y"], None, [1.5])
    flags.mark_flags_as_required(["mi"])
    with pytest.raises(SystemExit):
        values(["prog"])


def test_other_names_and_values_that_are_refused(values):
    flags.DEFINE_alias("number", "i")
    flags.DEFINE_alias("on", "b")
    flags.DEFINE_multi_enum("me", "x", ["x", "y"], "some")
    flags.register_validator("i", lambda value: value < 100, "below 100")
    flags.DEFINE_string(flag_name="old", default_value="o", docstring="TensorFlow 1.0's names")
    assert values(["prog", "--number=8", "--noon", "--me=y", "--me=x", "rest"]) == ["prog", "rest"]
    assert (values.i, values.number, values.b, values.me, values.old) == (8, 8, False, ["y", "x"], "o")
    with pytest.raises(flags.IllegalFlagValueError, match="below 100"):
        values.i = 100
    assert values.i == 8
    for wrong in ("--number=100", "--me=z"):
        with pytest.raises(SystemExit):
            values(["prog", wrong])
    with pytest.raises(AttributeError):
        flags.DEFINE_alias("other", "nothing")
    with pytest.raises(ValueError, match="defined twice"):
        flags.DEFINE_alias("s", "i")


SHARED = """
import sys
from absl import app, flags
import pyflow as tf
flags.DEFINE_integer("ours", 1, "")
tf.flags.DEFINE_string("theirs", "a", "")
tf.app.flags.DEFINE_alias("other", "theirs")

def main(argv):
    print(flags.FLAGS.theirs, tf.flags.FLAGS.ours, tf.flags.FLAGS.other, argv[1:])

if sys.argv.pop(1) == "tf":
    tf.app.run()
app.run(main)
"""


@pytest.mark.parametrize("run", ["tf", "absl"])
def test_flags_of_absl_are_those_of_tf(run, tmp_path):
    pytest.importorskip("absl")
    (tmp_path / "program.py").write_text(SHARED)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py"), run, "--theirs=b", "--ours=7",
                           "rest"], capture_output=True, text=True)
    assert done.stdout == "b 7 b ['rest']\n", done.stderr
