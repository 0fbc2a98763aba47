"""README's pictures are of this tree: folders that are there, figures that were measured."""
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "benchmarks" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["architecture.svg", "speed.svg"])
def test_it_is_drawn_from_what_is_kept(pictures, name):
    """`python benchmarks/pictures.py docs/images` writes both anew."""
    drawn = pictures.PICTURES[name]()
    assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == drawn
    assert f"](docs/images/{name})" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_places_are_there(pictures):
    """And every folder of the package and of the plugins that holds a part is in it, or in README's
    table."""
    named = [place for _, _, boxes in pictures.FLOORS for _, places, _ in boxes for place in places]
    for place in named:
        assert (ROOT / place).exists(), place
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in [*(ROOT / "_executor" / "core").iterdir(), *(ROOT / "plugins").iterdir()]:
        if folder.is_dir() and any(folder.iterdir()) and folder.name not in ("look", "__pycache__"):
            place = folder.relative_to(ROOT).as_posix()
            assert place in named or f"`{place}/`" in readme, place


def test_ratios_are_of_the_same_run(pictures):
    """A row's peers were measured beside each other; every bar is the faster executor's."""
    for name, tf, torch in pictures.ratios():
        assert tf > 1 and (torch is None or torch > 1), name
    assert len(re.findall("<rect", pictures.speed())) > 2 * len(pictures.WORK) / 2
