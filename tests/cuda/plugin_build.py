"""The plugin under test: the installed pyflow_cuda where a GPU is, else an emulated build.

The emulated plugin is plugins/cuda compiled as plain C++ (PF_CUDA_EMULATED): kernels are loops in
host memory, cuBLAS and cuDNN are stand-ins written from their documentation.  It is built once per
machine and content into a folder under the temporary directory.
"""
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugins" / "cuda"
INCLUDE = ROOT / "include"
FLAGS = ["-std=c++20", "-O0", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fPIC",
         "-fvisibility=hidden", "-ffp-contract=off", "-DPF_CUDA_EMULATED", f"-I{INCLUDE}"]


def compiler():
    return shutil.which(os.environ.get("CXX", "c++"))


def _folder():
    files = sorted(PLUGIN.glob("source/*")) + sorted(PLUGIN.glob("emulation/*"))
    files += sorted(INCLUDE.glob("pyflow/*.h"))
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for file in files:
        digest.update(file.read_bytes())
    user = os.getuid() if hasattr(os, "getuid") else 0
    return pathlib.Path(tempfile.gettempdir()) / f"pyflow-cuda-{user}-{digest.hexdigest()[:16]}"


def _compile(source, target, *flags):
    subprocess.run([compiler(), "-x", "c++", *FLAGS, *flags, "-c", str(source), "-o", str(target)],
                   check=True)
    return target


@functools.cache
def emulated_folder():
    """A folder with libpyflow_cuda.so, plugin.json, libcublas.so.13 and libcudnn.so.9, emulated."""
    folder = _folder()
    if (folder / "plugin.json").exists():
        return folder
    work = pathlib.Path(tempfile.mkdtemp(prefix="pyflow-cuda-"))
    sources = sorted((PLUGIN / "source").glob("*.cu"), key=lambda f: -f.stat().st_size)
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        jobs = [pool.submit(_compile, f, work / (f.stem + ".o")) for f in sources]
        fakes = {name: pool.submit(_compile, PLUGIN / "emulation" / (name + ".cpp"),
                                   work / (name + "_fake.o"), "-fvisibility=default")
                 for name in ("cublas", "cudnn")}
        objects = [str(job.result()) for job in jobs]
    link = [compiler(), "-shared", "-Wl,--as-needed", "-Wl,-z,defs"]
    subprocess.run([*link, "-o", str(work / "libpyflow_cuda.so"), *objects, "-lm", "-lpthread"],
                   check=True)
    for name, file in (("cublas", "libcublas.so.13"), ("cudnn", "libcudnn.so.9")):
        subprocess.run([*link, "-o", str(work / file), str(fakes[name].result())], check=True)
    describe(work / "libpyflow_cuda.so", work / "plugin.json")
    try:
        work.rename(folder)
    except OSError:                      # another process was faster
        shutil.rmtree(work, ignore_errors=True)
    return folder


def describe(library, output):
    script = INCLUDE / "pyflow" / "make_plugin_json.py"
    subprocess.run([sys.executable, str(script), str(library), str(output)], check=True)


@functools.cache
def installed():
    """The installed pyflow_cuda's folder where its driver sees a GPU, else None."""
    import importlib.util

    spec = importlib.util.find_spec("pyflow_cuda")
    folder = pathlib.Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / "plugin.json").exists():
        return None
    probe = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False) \
        if shutil.which("nvidia-smi") else None
    return folder if probe and probe.returncode == 0 and "GPU" in probe.stdout else None


def folder():
    return installed() or emulated_folder()


@functools.cache
def description():
    return json.loads((folder() / "plugin.json").read_text(encoding="utf-8"))
