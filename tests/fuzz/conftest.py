"""The plugins of the random programs, built once per test session."""
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "executor")]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """A folder with libfuzz_kernels.so and libpyflow_fake.so."""
    import plugins_of_fuzz
    folder = tmp_path_factory.mktemp("fuzz")
    for name in plugins_of_fuzz.LIBRARIES:
        plugins_of_fuzz.build(folder, name)
    return folder
