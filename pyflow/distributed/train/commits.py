"""Checkpoints that a replaced process cannot spoil: committed under (step, epoch), read by rule.

A chief that was frozen between its last check and a rename still renames when it is thawed.  So a
checkpoint's name has the epoch in it, whoever starts draws a line, and readers know what counts:

    model.ckpt.e3.fence             epoch 3 began; what was committed then is named in it
    model.ckpt-120.e3.index ...     files of step 120, epoch 3, in whatever format
    model.ckpt-120.e3.commit        they are complete: names and sizes

A folder's epochs are its own: `begin` makes the next one, by a file that is created once.  Which
process may begin, two starts of one job compare by the epochs that their launcher gave.

Invariants
1. What is committed is: of the newest fence's epoch or later, or named by that fence.  A commit of
   an older epoch counts for nothing, whenever it comes.
2. A .commit file is renamed into place after all it names, and their folder, are synced.
3. Nothing of a checkpoint is changed once it is committed; what is removed loses .commit first, and
   two are always kept, so that a process replaced in the midst of removing hurts nobody.
4. All files are read as untrusted: sizes, names and numbers are checked.

    INVISIBLE -> WRITTEN [prefix, save] -> SYNCED [_sync_all] -> COMMITTED [_publish]
              -> REMOVED [prune]

Threads: one writer a CheckpointFolder; any thread or process reads.

    store = CheckpointFolder("/tmp/run", epoch=task.epoch, job=task.job_id)
    resumed = store.begin()                                 # the newest, or None
    if resumed: saver.restore(sess, resumed.prefix)
    saver.save(sess, store.prefix(step), write_state=False)
    store.commit(step)
"""
import json
import logging
import os
import re
import secrets
import zlib
from typing import NamedTuple

from pyflow.distributed.run import epochs
from pyflow.framework import errors

LARGEST_RECORD = 1 << 20            # bytes of a .commit or .fence file
_HEAD = b'{"crc32":"'               # then 8 hex digits and '"': 19 bytes the CRC does not cover
_log = logging.getLogger("pyflow.distributed")


class Committed(NamedTuple):
    """A checkpoint that counts. prefix: its path, for Saver.restore; files: {name: bytes}."""

    step: int
    epoch: int
    prefix: str
    files: dict


class Files:
    """The calls on files that this module makes; tests put faults into them."""

    listdir = staticmethod(os.listdir)
    replace = staticmethod(os.replace)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    write = staticmethod(os.write)
    fsync = staticmethod(os.fsync)

    @staticmethod
    def size(path):
        """Bytes of a file."""
        return os.stat(path).st_size

    @staticmethod
    def read(path, largest):
        """At most `largest` + 1 bytes of a file."""
        with open(path, "rb") as f:
            return f.read(largest + 1)


class CheckpointFolder:
    """The committed checkpoints of a folder, and a writer's way to add to them.

    folder: it is there. name: the checkpoints' common beginning.
    epoch: what the launcher gave this process (`launch.task().epoch`), 0 if nobody counts.
    job: an id of the launcher's run: only within one are epochs compared; "" of nobody.
    keep: how many committed checkpoints stay, at least 2.

    What the system refuses (no space, broken disk) is a tf.errors exception, and no checkpoint that
    was there is touched."""

    def __init__(self, folder, name="model.ckpt", epoch=0, job="", keep=5, files=Files):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
            raise ValueError(f"name {name!r}: expected letters, digits and _ . + - as model.ckpt")
        if keep < 2:
            raise ValueError(f"keep={keep}: at least 2 checkpoints must stay")
        self.folder, self.name, self.keep = os.fspath(folder), name, keep
        self.epoch = None                       # of the folder, given by begin
        self._files = files
        self._claim = {"job": str(job), "epoch": epochs.checked_epoch(epoch),
                       "incarnation": secrets.token_hex(8)}

    # ------------------------------------------------------------ reading

    def committed(self):
        """All that counts, a list of Committed, newest first: by step, then by epoch."""
        try:
            names = self._files.listdir(self.folder)
        except OSError as e:
            raise errors.of_os_error(e) from None
        fence = self._newest_fence(names)
        found = [self._read_commit(int(m[1]), int(m[2])) for m in
                 map(re.compile(re.escape(self.name) + r"-([0-9]{1,18})\.e([0-9]{1,10})\.commit")
                     .fullmatch, names) if m and _counts(fence, int(m[1]), int(m[2]))]
        return sorted((c for c in found if c), key=lambda c: (c.step, c.epoch), reverse=True)

    def newest(self):
        """The newest Committed, or None."""
        return next(iter(self.committed()), None)

    def _newest_fence(self, names):
        """{"number", "job", "epoch", "incarnation", "survivors"} of the latest, or None."""
        pattern = re.compile(re.escape(self.name) + r"\.e([0-9]{1,10})\.fence")
        for number in sorted((int(m[1]) for m in map(pattern.fullmatch, names) if m), reverse=True):
            record = self._read_record(self._fence_path(number), _fence_checked)
            if record is not None:
                return {**record, "number": number}
        return None

    def _read_commit(self, step, epoch):
        prefix = self._prefix(step, epoch)
        files = self._read_record(f"{prefix}.commit", _commit_checked)
        if files is None:
            return None
        for name, size in files.items():
            try:
                there = self._files.size(os.path.join(self.folder, name))
            except OSError:
                there = None
            if there != size or not name.startswith(os.path.basename(prefix) + "."):
                _log.warning("%s.commit is passed over: %s has %s bytes, not %d", prefix, name,
                             there, size)
                return None
        return Committed(step, epoch, prefix, files)

    def _read_record(self, path, check):
        """What `check` makes of a record, or None, with a warning, for what is none."""
        try:
            data = self._files.read(path, LARGEST_RECORD)
            if len(data) > LARGEST_RECORD or data[:10] != _HEAD or data[18:19] != b'"' or \
                    int(data[10:18], 16) != zlib.crc32(data[19:]):
                raise ValueError("it is damaged")
            return check(json.loads(data))
        except FileNotFoundError:           # removed meanwhile
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as e:
            _log.warning("%s is passed over: %s", path, e)
            return None

    # ------------------------------------------------------------ writing

    def begin(self):
        """Takes the folder over from earlier epochs; returns the Committed to resume from, or
        None. Once a process: what others commit later, if they began before, counts no more.

        Raises epochs.StaleEpochError if this process itself was replaced."""
        try:
            while True:
                names = self._files.listdir(self.folder)
                fence = self._newest_fence(names)
                self._check_claim(fence)
                number = max([0, *_numbers(self.name, names)]) + 1
                survivors = [[c.step, c.epoch] for c in self.committed()]
                record = {**self._claim, "format": "pyflow.fence/1", "survivors": survivors}
                try:
                    self._write_record(self._fence_path(number), record, new=True)
                    break
                except FileExistsError:     # another began at the same time: compare again
                    continue
        except OSError as e:
            raise errors.of_os_error(e) from None
        self.epoch = number
        return self.newest()

    def prefix(self, step):
        """The path under which files of `step` are written: prefix + ".index" and so on. A
        checkpoint of this step and epoch that is there already counts no more from here on."""
        self._require_begun()
        prefix = self._prefix(_step(step), self.epoch)
        self._remove(f"{prefix}.commit")
        return prefix

    def save(self, step, contents):
        """Writes {suffix: bytes} as the files of a checkpoint, and commits it."""
        prefix = self.prefix(step)
        try:
            for suffix, data in contents.items():
                self._write(f"{prefix}.{suffix}", data)
        except OSError as e:
            raise errors.of_os_error(e) from None
        return self.commit(step)

    def commit(self, step):
        """Makes the files that begin with `prefix(step)` a checkpoint that counts; returns its
        Committed. Then removes what is too old (`keep`).

        Raises epochs.StaleEpochError if this process was replaced, ValueError without files."""
        self._require_begun()
        prefix = self._prefix(_step(step), self.epoch)
        try:
            self._check_current()
            files = self._sync_all(prefix)
            self._check_current()           # the shorter the time from here to the rename
            self._publish(prefix, files)
        except OSError as e:
            if isinstance(e, FileNotFoundError):    # removed by who replaced this process?
                self._check_current()
            raise errors.of_os_error(e) from None
        try:
            self.prune()
        except OSError as e:                # the checkpoint is there all the same
            _log.warning("%s: old checkpoints stay: %s", self.folder, e)
        return Committed(_step(step), self.epoch, prefix, files)

    def prune(self):
        """Removes committed checkpoints beyond `keep`, fences before this epoch's, and files of
        earlier epochs that were never committed. What cannot be removed stays."""
        self._check_current()
        kept = self.committed()
        stay = {f"{os.path.basename(c.prefix)}." for c in kept[:self.keep]}
        pattern = re.compile(re.escape(self.name) + r"(?:-[0-9]{1,18})?\.e([0-9]{1,10})\.")
        old = {f"{os.path.basename(c.prefix)}." for c in kept[self.keep:]}
        names = self._files.listdir(self.folder)
        # .commit first: what is left then is no checkpoint
        for name in sorted(names, key=lambda name: not name.endswith(".commit")):
            found = pattern.match(name)
            if found and found[0] not in stay and (int(found[1]) < self.epoch or found[0] in old):
                self._remove(os.path.join(self.folder, name))

    def _require_begun(self):
        if self.epoch is None:
            raise RuntimeError(f"checkpoints of {self.folder}: call begin() first, which says what "
                               "to resume from")

    def _check_claim(self, fence):
        """Raises if the newest fence is of a later process of this job."""
        mine = self._claim
        if fence is None or not mine["epoch"] or fence["job"] != mine["job"]:
            return
        if fence["epoch"] > mine["epoch"] or (fence["epoch"] == mine["epoch"] and
                                              fence["incarnation"] != mine["incarnation"]):
            self._refuse(f"epoch {mine['epoch']} of job {mine['job']!r} was replaced by epoch "
                         f"{fence['epoch']}, incarnation {fence['incarnation']}")

    def _check_current(self):
        self._require_begun()
        names = self._files.listdir(self.folder)
        newest = max([0, *_numbers(self.name, names)])
        if newest > self.epoch:
            fence = self._read_record(self._fence_path(newest), _fence_checked) or {}
            self._refuse(f"the folder's epoch {self.epoch} was replaced by {newest} (this process: "
                         f"epoch {self._claim['epoch']} of job {self._claim['job']!r}; that one: "
                         f"epoch {fence.get('epoch')} of job {fence.get('job')!r})")

    def _refuse(self, what):
        text = (f"checkpoints of {self.folder}: {what}: this process must end, and its checkpoints "
                "count no more")
        _log.warning("refused: %s", text)
        raise epochs.StaleEpochError(None, None, text)

    def _prefix(self, step, epoch):
        return os.path.join(self.folder, f"{self.name}-{step}.e{epoch}")

    def _fence_path(self, number):
        return os.path.join(self.folder, f"{self.name}.e{number}.fence")

    def _sync_all(self, prefix):
        """{name: bytes} of the files under a prefix, all on the disk."""
        base = os.path.basename(prefix) + "."
        names = sorted(name for name in self._files.listdir(self.folder)
                       if name.startswith(base) and name != f"{base}commit" and ".tmp-" not in name)
        if not names:
            raise ValueError(f"there is no file {prefix}.* to commit")
        sizes = {}
        for name in names:
            path = os.path.join(self.folder, name)
            self._sync(path)
            sizes[name] = self._files.size(path)
        self._sync(self.folder)
        return sizes

    def _publish(self, prefix, files):
        self._write_record(f"{prefix}.commit", {"format": "pyflow.commit/1", "files": files})

    def _write_record(self, path, record, new=False):
        body = "," + json.dumps(record, sort_keys=True)[1:]
        self._write(path, _HEAD + b'%08x"' % zlib.crc32(body.encode()) + body.encode(), new)

    def _write(self, path, data, new=False):
        """A file that is there as a whole or not at all; new: FileExistsError if it is there."""
        temporary = f"{path}.tmp-{secrets.token_hex(4)}"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                self._write_all(descriptor, data)
                self._files.fsync(descriptor)
            finally:
                os.close(descriptor)
            if new:
                self._files.link(temporary, path)
            else:
                self._files.replace(temporary, path)
        finally:
            self._remove(temporary)
        self._sync(self.folder)

    def _write_all(self, descriptor, data):
        rest = memoryview(data)
        while rest:
            written = self._files.write(descriptor, rest)
            if written <= 0:
                raise OSError(5, "a write took nothing")        # EIO
            rest = rest[written:]

    def _sync(self, path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self._files.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _remove(self, path):
        try:
            self._files.unlink(path)
        except OSError:
            pass


def newest_committed(folder, name="model.ckpt"):
    """The newest valid (step, epoch) of a folder's checkpoints, a Committed, or None; what is
    half-written, damaged or of a replaced process is passed over.

    Raises tf.errors.NotFoundError and its like for a folder that cannot be read."""
    return CheckpointFolder(folder, name).newest()


def _counts(fence, step, epoch):
    return fence is None or epoch >= fence["number"] or [step, epoch] in fence["survivors"]


def _numbers(name, names):
    pattern = re.compile(re.escape(name) + r"\.e([0-9]{1,10})\.fence")
    return [int(m[1]) for m in map(pattern.fullmatch, names) if m]


def _step(step):
    step = int(step)
    if not 0 <= step < 10**18:
        raise ValueError(f"step {step}: expected a number from 0")
    return step


def _commit_checked(record):
    files = record["files"]
    if record["format"] != "pyflow.commit/1" or not files or not isinstance(files, dict):
        raise ValueError("it is no pyflow.commit/1")
    for name, size in files.items():
        if os.path.basename(name) != name or type(size) is not int or size < 0:
            raise ValueError(f"it names {name!r} of {size!r} bytes")
    return files


def _fence_checked(record):
    fence = {key: record[key] for key in ("job", "epoch", "incarnation", "survivors")}
    if record["format"] != "pyflow.fence/1" or type(fence["epoch"]) is not int or not all(
            type(n) is int for pair in fence["survivors"] for n in pair):
        raise ValueError("it is no pyflow.fence/1")
    return fence


PUBLIC = {}
