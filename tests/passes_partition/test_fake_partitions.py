"""Random graphs on CPU:0 and the two fake accelerators, in a process of their own, which the
accelerators' devices do not leave."""
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parent / "scattered.py"


@pytest.mark.long       # test_random_partitions.py has the small ones
def test_random_graphs_on_devices_with_their_own_memory(tmp_path):
    done = subprocess.run([sys.executable, str(SCRIPT), "20", "--fake", str(tmp_path / "fake.so")],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "seeds 0..19: equal" in done.stdout, done.stderr
