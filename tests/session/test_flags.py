"""tf.flags: what programs do with FLAGS besides reading it.  Literals are absl's answers."""
import pytest

from pyflow.platform import flags


@pytest.fixture
def values(monkeypatch):
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
