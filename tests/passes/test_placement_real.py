"""The cost model's placement beside every other one, run for real on two fake accelerators whose
kernels and copies take the time that they state (real_makespans.py, in a process of its own)."""
import json
import os
import statistics
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.alone, pytest.mark.long]

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real_makespans.py")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    library = tmp_path_factory.mktemp("fake") / "libpyflow_fake.so"
    done = subprocess.run([sys.executable, SCRIPT, str(library)], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_real_step_is_close_to_the_best_of_all_placements(report):
    graphs = report["graphs"]
    assert len(graphs) == 3 and all(r["worst"] > 1.5 * r["best"] for r in graphs), graphs
    assert statistics.median(r["took"] / r["best"] for r in graphs) <= 1.1, graphs
    assert {p for r in graphs for p in r["chosen"]} == {"/device:FAKE:0", "/device:FAKE:1"}


def test_visible_devices_and_memory_fractions_act(report):
    """FAKE:0 of the session is the second of the process, with 1/64 of its 256 MB."""
    options = report["options"]
    assert options["launches"][0] == 0 < options["launches"][1]
    assert options["value"] == pytest.approx([0.0, 0.76159416])
    assert options["limits"]["FAKE:0"] == 4 << 20 and "FAKE:1" not in options["limits"]
    assert "OOM" in options["failure"] and "FAKE" in options["failure"]
