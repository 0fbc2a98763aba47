"""A model's folder: which versions there are, which serve, and loading new ones.

    half/1/saved_model.pb
    half/2/saved_model.pb          # the newest serves; 3, once it is there whole, takes over

States of a version, TensorFlow Serving's: LOADING -> AVAILABLE [_load] -> UNLOADING [_retire]
-> END [_ended]; LOADING -> END [_load] where it cannot be loaded.

Invariants
    1. The newest `keep` versions that load serve. A newer one serves before the older ones retire,
       so there is no moment without one.
    2. A version that cannot be loaded changes nothing; it is tried again when its files change.
    3. What serves goes on until something else can: also if its folder is deleted.

Threads: `refresh` and everything it changes on the event loop's; reading and loading run on
`loader`, an executor of one thread.

    model = ServedModel("half", "half", open_version)
    await model.refresh(loader)
    model.find().endpoint(None)
"""
import asyncio
import logging
import os
import re

from pyflow.framework import errors
from pyflow.saved_model import folders
from pyflow.serving import refusals

_log = logging.getLogger("pyflow")
_ENDED = 16             # versions that are over and still listed
_FILES = 1000           # of a version, looked at for changes


class Version:
    """A version's state, as the status API has it; `servable` while it is AVAILABLE."""

    def __init__(self, stamp):
        self.stamp = stamp
        self.become("LOADING")

    def become(self, state, servable=None, code="OK", message=""):
        """The only way its state changes."""
        self.state, self.servable = state, servable
        self.code, self.message = code, message

    def status(self, number):
        return {"version": str(number), "state": self.state,
                "status": {"error_code": self.code, "error_message": self.message}}


class ServedModel:
    """What `path` holds: a folder of numbered versions, a SavedModel, or a model's file.

    open_version: path -> Servable. keep: how many of the newest versions serve. labels:
    {label: version}.
    """

    def __init__(self, name, path, open_version, keep=1, labels=None):
        self.name, self.path = name, os.fspath(path)
        self._open_version, self._keep, self._labels = open_version, keep, labels or {}
        self._versions = {}

    # ------------------------------------------------------------ asked by requests

    def find(self, version=None, label=None):
        """(version, Servable): the newest, or the one asked for; NotFoundError."""
        if label is not None:
            if label not in self._labels:
                raise _not_found(f"model {self.name!r} has no version label {label!r}")
            version = self._labels[label]
        serving = self.serving()
        if version is None and serving:
            version = max(serving)
        if version not in serving:
            shown = ", ".join(map(str, sorted(serving))) or "none"
            raise _not_found(f"model {self.name!r} does not serve version {version}; it serves "
                             f"{shown}")
        return version, self._versions[version].servable

    def serving(self):
        """{number: Version} of those that answer."""
        return {n: v for n, v in self._versions.items() if v.state == "AVAILABLE"}

    def status(self, version=None, label=None):
        """The status API's answer: all versions, newest first, or one."""
        if label is not None:
            version, _ = self.find(label=label)
        if version is not None and version not in self._versions:
            raise _not_found(f"model {self.name!r} has no version {version}")
        chosen = sorted(self._versions, reverse=True) if version is None else [version]
        return {"model_version_status": [self._versions[n].status(n) for n in chosen]}

    # ------------------------------------------------------------ loading

    async def refresh(self, loader):
        """Looks at the folder; loads and retires versions. Raises nothing but cancellation."""
        loop = asyncio.get_running_loop()
        there = await loop.run_in_executor(loader, _versions_in, self.path)
        wanted = []
        for number in sorted(there, reverse=True):
            if len(wanted) < self._keep and await self._is_loaded(loop, loader, number,
                                                                  *there[number]):
                wanted.append(number)
        for number in self.serving():
            if wanted and number not in wanted:
                self._retire(loop, loader, number)
        self._forget_ended(there)

    async def _is_loaded(self, loop, loader, number, path, stamp):
        known = self._versions.get(number)
        if known is not None and (known.state == "AVAILABLE" or known.stamp == stamp):
            return known.state == "AVAILABLE"
        if known is not None and known.state == "UNLOADING":
            return False                # the next look will load it anew
        version = self._versions[number] = Version(stamp)
        try:
            servable = await loop.run_in_executor(loader, self._open_version, path)
        except Exception as e:  # noqa: BLE001  whatever is wrong with its files; the status says it
            _log.warning("model %s: version %d cannot be loaded: %s", self.name, number, e)
            version.become("END", None, _code(e), refusals.shortened(str(e)))
            return False
        version.become("AVAILABLE", servable)
        _log.info("model %s: version %d serves", self.name, number)
        for name, why in servable.broken.items():
            _log.warning("model %s: signature %s is not served: %s", self.name, name, why)
        return True

    def _retire(self, loop, loader, number):
        version = self._versions[number]
        servable = version.servable
        version.become("UNLOADING")
        _log.info("model %s: version %d ends with its last request", self.name, number)

        def close():
            loop.run_in_executor(loader, servable.close).add_done_callback(self._ended(version))
        servable.retire(close)

    @staticmethod
    def _ended(version):
        def ended(_):
            version.stamp = None        # there again: it is loaded again
            version.become("END")
        return ended

    def _forget_ended(self, there):
        over = sorted(n for n, v in self._versions.items() if v.state == "END" and n not in there)
        for number in over[:-_ENDED]:
            del self._versions[number]

    def close(self):
        """Ends all sessions; no request runs any more."""
        for version in self.serving().values():
            version.servable.close()


def _not_found(message):
    return errors.NotFoundError(None, None, message)


def _code(error):
    code = getattr(error, "error_code", errors.UNKNOWN)
    return next((name for name in ("INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED",
                                   "FAILED_PRECONDITION", "UNIMPLEMENTED", "DATA_LOSS", "INTERNAL")
                 if getattr(errors, name) == code), "UNKNOWN")


# ---------------------------------------------------------------- what is on disk

def _versions_in(path):
    """{number: (path, stamp)}: of a folder of versions those with a saved_model.pb; a SavedModel
    or a file is version 1."""
    if os.path.isfile(path) or folders.model_file(path):
        return {1: (path, _stamp(path))}
    found = {}
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return {}
    for name in names:
        folder = os.path.join(path, name)
        if re.fullmatch(r"[0-9]{1,18}", name) and folders.model_file(folder):
            found[int(name)] = (folder, _stamp(folder))
    return found


def _stamp(path):
    """What changes when a file of the version does."""
    if os.path.isfile(path):
        return _of_file(path)
    found = []
    for folder, below, files in os.walk(path):
        below.sort()
        for name in sorted(files):
            found.append((folder, name, _of_file(os.path.join(folder, name))))
            if len(found) == _FILES:
                return tuple(found)
    return tuple(found)


def _of_file(path):
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
