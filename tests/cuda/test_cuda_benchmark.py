"""benchmarks/gpu.py runs dry on the emulated device; without a device it says why."""
import json
import os
import subprocess
import sys

import plugin_build

SCRIPT = str(plugin_build.ROOT / "benchmarks" / "gpu.py")


def run(*arguments, **environment):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)


def test_a_dry_run_prints_and_writes_its_figures(tmp_path):
    folder = plugin_build.emulated_folder()
    figures, trace = tmp_path / "figures.json", tmp_path / "trace.json"
    done = run("--plugin", str(folder / "libpyflow_cuda.so"), "--steps", "1", "--batch", "2",
               "--json", str(figures), "--trace", str(trace), PYFLOW_CUDA_LIB_DIR=str(folder))
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads(figures.read_text())
    assert printed["device"] == "emulated GPU" and printed["batch"] == 2
    assert printed["pyflow_us"] > 0
    assert printed["torch_us"] is None and printed["why_not"] == "a dry run"
    names = {e["args"]["name"] for e in json.loads(trace.read_text())["traceEvents"]
             if e["ph"] == "M"}
    assert any("GPU:0" in name and "stream:compute" in name for name in names), names


def test_without_a_gpu_the_reason_is_said():
    library = plugin_build.emulated_folder() / "libpyflow_cuda.so"
    done = run("--plugin", str(library), CUDA_EMULATED_DEVICES="0")
    assert done.returncode == 1
    assert "no GPU here: the NVIDIA driver sees no GPU" in done.stderr
