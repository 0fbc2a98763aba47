"""The cost model's placement beside every other one, run for real on two fake accelerators whose
kernels and copies take the time that they state (real_makespans.py, in a process of its own)."""
import json
import os
import statistics
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real_makespans.py")


def test_the_real_step_is_close_to_the_best_of_all_placements(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, str(tmp_path / "libpyflow_fake.so")],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert len(report) == 3 and all(r["worst"] > 1.5 * r["best"] for r in report), report
    assert statistics.median(r["took"] / r["best"] for r in report) <= 1.1, report
    assert {p for r in report for p in r["chosen"]} == {"/device:FAKE:0", "/device:FAKE:1"}
