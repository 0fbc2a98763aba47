"""Where the vendors' headers and libraries are, where they are installed: NVIDIA's wheels
(nvidia-cublas, nvidia-cudnn-cu13 and, for cuda_runtime.h, nvidia-cuda-runtime) or a toolkit."""
import functools
import importlib.util
import pathlib

NEEDED = ("cublas_v2.h", "cudnn.h", "cuda_runtime.h", "cuda_fp16.h", "crt/host_defines.h")


def _roots():
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations) if spec else []
    return sorted(p for place in places for p in pathlib.Path(place).iterdir() if p.is_dir()) \
        + [pathlib.Path("/usr/local/cuda")]


@functools.cache
def headers():
    """Include folders that hold every header in NEEDED, else None."""
    folders = [root / "include" for root in _roots()]
    if all(any((folder / name).exists() for folder in folders) for name in NEEDED):
        return [folder for folder in folders if folder.is_dir()]
    return None


@functools.cache
def library(pattern):
    """The first shared library of that name, or None."""
    found = [file for root in _roots() for lib in ("lib", "lib64")
             for file in sorted((root / lib).glob(pattern))]
    return found[0] if found else None
