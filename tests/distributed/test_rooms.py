"""The modules of pyflow.distributed that programs name without their room."""
import importlib
import sys

import pytest

from pyflow import distributed


@pytest.mark.parametrize("name", sorted(distributed.PUBLIC))
def test_a_public_module_is_that_of_its_room(name, monkeypatch):
    real = importlib.import_module(f"pyflow.distributed.{distributed.PUBLIC[name]}.{name}")
    monkeypatch.delitem(sys.modules, f"pyflow.distributed.{name}", raising=False)
    assert importlib.import_module(f"pyflow.distributed.{name}") is real
    assert real.__spec__.name == real.__name__ and real.__spec__.loader is real.__loader__
    assert getattr(distributed, name) is real and name in dir(distributed)


def test_what_is_not_there():
    with pytest.raises(ImportError, match="nowhere"):
        from pyflow.distributed import nowhere      # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pyflow.distributed.nowhere")
