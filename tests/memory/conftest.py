"""The fake accelerator of tests/accelerator, for swapping: a device with memory of its own."""
import importlib.util
import pathlib

_PATH = pathlib.Path(__file__).resolve().parents[1] / "accelerator" / "conftest.py"
_spec = importlib.util.spec_from_file_location("accelerator_conftest", _PATH)
_found = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_found)
library, devices, fake = _found.library, _found.devices, _found.fake
