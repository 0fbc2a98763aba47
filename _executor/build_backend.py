"""What pip calls to build pyflow: meson-python, and what it leaves undone.

- A wheel's libraries are stripped, and on Linux it says which C library it needs: manylinux_2_35 for
  one whose libraries ask for functions of glibc 2.35 at most, which is what auditwheel says of it.
- A wheel says which commit it was built from (pyflow/commit.txt), where that can be found out.
- The public types (pyflow/__init__.pyi and 98 others, pyflow/tools/stubs.py) are written from the
  tree's modules, 1.5 seconds: into the wheel, or, for an editable install, beside the modules.
- An editable install whose build tools pip is about to delete (build isolation) could not be
  imported: it is refused, with what to do instead.

pyproject.toml names this module; python -m pip wheel, install and build use it.  It runs in the
build's environment and imports nothing of pyflow; a child that writes the types does.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import mesonpy
from mesonpy import (build_sdist, get_requires_for_build_sdist,  # noqa: F401 - hooks as they are
                     get_requires_for_build_wheel)

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Libraries that every Linux of a manylinux tag has (PEP 600), and the loader.
EVERYWHERE = re.compile(rb"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[\w-]*)\.so[.\d]*")
ISOLATED = ("pip-build-env-", "/uv/builds-v")       # where pip and uv make a build's own environment
REFUSED = """
pyflow: an editable install needs its build tools whenever it is imported, and this one's (Meson, ninja,
Cython) are in an environment that is deleted after the build.  Instead:

    make dev        # a virtual environment in .venv, the tools in it, an editable install

or, in an environment of your own:

    pip install "meson-python>=0.16" "meson>=1.3" ninja "Cython==3.3.*" "numpy>=2.0" cffi "protobuf>=4.25"
    pip install --no-build-isolation -e .
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    made = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    with tempfile.TemporaryDirectory() as folder:
        types = write_types(pathlib.Path(folder))
        return finish(pathlib.Path(wheel_directory) / made, types).name


def get_requires_for_build_editable(config_settings=None):
    if any(mark in pathlib.Path(mesonpy.__file__).as_posix() for mark in ISOLATED):
        raise SystemExit(REFUSED)
    return mesonpy.get_requires_for_build_editable(config_settings)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    get_requires_for_build_editable(config_settings)
    write_types(ROOT / "pyflow")
    return mesonpy.build_editable(wheel_directory, config_settings, metadata_directory)


# ---------------------------------------------------------------- wheels

def write_types(folder):
    """Writes the public types, *.pyi, into a folder; {name in a wheel: bytes}."""
    program = ("import pathlib, sys; sys.path.insert(0, sys.argv[1]); from pyflow.tools import stubs; "
               "stubs.main(pathlib.Path(sys.argv[2]))")
    subprocess.run([sys.executable, "-B", "-c", program, ROOT, folder], check=True)
    return {f"pyflow/{path.relative_to(folder).as_posix()}": path.read_bytes()
            for path in sorted(folder.rglob("*.pyi"))}


def finish(wheel, types=None):
    """The wheel with its libraries stripped, the public types {name: bytes} in it, and its platform
    tag; the path of it."""
    with zipfile.ZipFile(wheel) as source:
        files = {entry: source.read(entry) for entry in source.infolist()
                 if not entry.is_dir() and not entry.filename.endswith(".pyi")}   # a developer's
    for name, data in (types or {}).items():
        entry = zipfile.ZipInfo(name)
        entry.external_attr = 0o644 << 16
        files[entry] = data
    entry = zipfile.ZipInfo("pyflow/commit.txt")
    entry.external_attr = 0o644 << 16
    files = {entry: commit().encode(), **files}
    libraries = [e for e, data in files.items() if data.startswith(b"\x7fELF")]
    for entry in libraries:
        files[entry] = stripped(files[entry])
    tag = platform_tag([files[e] for e in libraries])
    old = wheel.stem.rpartition("-")[2]
    if tag is None or not old.startswith("linux_"):
        new = old
    else:
        new = f"{tag}_{old.removeprefix('linux_')}"
    for entry in files:
        if entry.filename.endswith(".dist-info/WHEEL"):
            files[entry] = re.sub(rf"(?m)^(Tag: .*-){old}$", rf"\g<1>{new}", files[entry].decode()).encode()
    made = wheel.with_name(wheel.name.replace(f"-{old}.whl", f"-{new}.whl"))
    wheel.unlink()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for entry, data in files.items():
            if entry.filename.endswith(".dist-info/RECORD"):
                data = record(files)
            target.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return made


def commit():
    """The tree's commit, with a plus behind it if files of it were changed; empty where the tree is
    no checkout of its own."""
    def git(*words):
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return ""
    return git("rev-parse", "--short=12", "HEAD") + "+" * bool(
        git("status", "--porcelain", "--untracked-files=no"))


def record(files):
    """The text of RECORD."""
    lines = []
    for entry, data in files.items():
        if entry.filename.endswith(".dist-info/RECORD"):
            lines.append(f"{entry.filename},,")
        else:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{entry.filename},sha256={digest},{len(data)}")
    return ("\n".join(lines) + "\n").encode()


def stripped(library):
    """Without debugging sections and local symbols; as it is where there is no `strip`."""
    tool = os.environ.get("STRIP") or shutil.which("strip")
    if not tool:
        return library
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "library.so")
        path.write_bytes(library)
        done = subprocess.run([tool, "--strip-unneeded", path], capture_output=True)
        return library if done.returncode else path.read_bytes()


def platform_tag(libraries):
    """manylinux_2_N of libraries (as bytes) that need glibc 2.N and only what is everywhere; None
    for others: musl's, and those that need libraries of this machine."""
    versions = {int(v) for data in libraries for v in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", data)}
    own = {name for data in libraries for name in re.findall(rb"\0(libpyflow\w*\.so[.\d]*)(?=\0)", data)}
    needed = {name for data in libraries for name in re.findall(rb"\0([\w+-]+\.so[.\d]*)(?=\0)", data)}
    others = {name for name in needed - own if name.startswith(b"lib") and not EVERYWHERE.fullmatch(name)}
    return f"manylinux_2_{max(versions)}" if versions and not others else None
