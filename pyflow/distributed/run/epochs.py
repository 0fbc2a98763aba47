"""Fencing numbers: which of two processes that say they are the same task is the one.

A task has an epoch, a number that whoever starts or restarts it counts up, and an incarnation, 64
random bits of its server.  A process that was frozen, replaced and thawed goes on as if nothing had
happened; its epoch gives it away.

Invariants
1. Once an epoch of a task was seen, older ones are refused for ever.
2. Two incarnations never share an epoch that somebody counted; the one seen first has it.
3. Epoch 0: nobody counts. The incarnation that came last is the one, and those before it stay out.
4. A refusal names the task and both epochs, and is logged.

Threads: a Fences has a lock; a Fence does not change.
Callers: what receives requests of peers; launch/ gives the epochs; commits.py fences checkpoints.

    fences = Fences()
    fences.admit("/job:worker/task:1", Fence.parse("3:00000000000000a7"))     # True: new here
    fences.admit("/job:worker/task:1", Fence(2, 9))                           # StaleEpochError
"""
import logging
import os
import re
import secrets
import threading
from typing import NamedTuple

from pyflow.framework import errors

LARGEST = (1 << 31) - 1     # epochs travel as 32-bit numbers
KEPT = 1000                 # incarnations without an epoch that are remembered as gone, per task
_log = logging.getLogger("pyflow.distributed")


class StaleEpochError(errors.FailedPreconditionError):
    """A process was replaced by one of a later epoch: it must end, trying again does not help.
    `error_code` is FAILED_PRECONDITION."""


class Fence(NamedTuple):
    """The epoch and the incarnation of a task; as text "EPOCH:INCARNATION", sixteen hex digits."""

    epoch: int
    incarnation: int

    @classmethod
    def new(cls, epoch):
        """One of this epoch with a new, random incarnation."""
        return cls(checked_epoch(epoch), secrets.randbits(64) or 1)

    @classmethod
    def parse(cls, text):
        """The Fence of its text. tf.errors.InvalidArgumentError if it is none."""
        found = isinstance(text, str) and re.fullmatch(r"([0-9]{1,10}):([0-9a-f]{16})", text)
        if not found or int(found[1]) > LARGEST or not int(found[2], 16):
            raise errors.InvalidArgumentError(None, None, (
                f"fencing number {str(text)[:60]!r}: expected EPOCH:INCARNATION, as "
                "3:00000000000000a7"))
        return cls(int(found[1]), int(found[2], 16))

    def __str__(self):
        return f"{self.epoch}:{self.incarnation:016x}"


def checked_epoch(value, name="epoch"):
    """`value` as an epoch. tf.errors.InvalidArgumentError, with `name`, if it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise errors.InvalidArgumentError(None, None, (
            f"{name} is {value!r}: expected a whole number from 0 to {LARGEST}; 0 where nobody "
            "counts restarts"))
    return value


class Fences:
    """The newest Fence of each task that was heard of."""

    def __init__(self):
        self._lock = threading.Lock()
        self._newest = {}           # task -> Fence
        self._gone = {}             # task -> {incarnation of epoch 0: None}, oldest first

    def __len__(self):
        return len(self._newest)

    def admit(self, task, fence):
        """True if `fence` is newer than what was known of `task`, whose state must then be dropped;
        False if it is the one known. Raises StaleEpochError for what was replaced."""
        with self._lock:
            known = self._newest.get(task)
            if known == fence:
                return False
            refusal = self._refusal(task, known, fence)
            if refusal is None:
                self._replace(task, known, fence)
        if refusal is None:
            return True
        _log.warning("refused: %s", refusal)
        raise StaleEpochError(None, None, refusal)

    def current(self, task):
        """The newest Fence of a task, or None."""
        with self._lock:
            return self._newest.get(task)

    def _refusal(self, task, known, fence):
        if known is None or fence.epoch > known.epoch:
            return None
        if fence.epoch < known.epoch:
            return (f"{task} of epoch {fence.epoch} was replaced by epoch {known.epoch}: the old "
                    "process must end")
        if fence.epoch:
            return (f"two processes claim epoch {fence.epoch} of {task}: incarnation "
                    f"{known.incarnation:016x} has it, {fence.incarnation:016x} must end; whoever "
                    "restarts a task gives it a new epoch")
        if fence.incarnation in self._gone.get(task, ()):
            return (f"{task}, incarnation {fence.incarnation:016x} (nobody counts its epochs), was "
                    f"replaced by {known.incarnation:016x}: the old process must end")
        return None

    def _replace(self, task, known, fence):
        if known is not None and not known.epoch:
            gone = self._gone.setdefault(task, {})
            gone[known.incarnation] = None
            if len(gone) > KEPT:
                del gone[next(iter(gone))]
        if fence.epoch:
            self._gone.pop(task, None)
        self._newest[task] = fence


# ---------------------------------------------------------------- who counts

COUNTERS = {        # variable: where it is set, though for the first time 0 or missing
    "JOBSET_RESTART_ATTEMPT": "JOBSET_RESTART_ATTEMPT",
    "SLURM_RESTART_COUNT": "SLURM_JOB_ID",
}


def restart_epoch(environ=None):
    """The epoch that an engine's count of restarts stands for: 1 and up, from Slurm's
    SLURM_RESTART_COUNT (not set before the first restart) or from JOBSET_RESTART_ATTEMPT, as our
    template gives it to pods; 0 where neither is. tf.errors.InvalidArgumentError for a count that
    is none."""
    environ = os.environ if environ is None else environ
    for name, sign in COUNTERS.items():
        if environ.get(sign, "").strip():
            text = environ.get(name, "").strip() or "0"
            if not (text.isascii() and text.isdigit() and int(text) < LARGEST):
                raise errors.InvalidArgumentError(None, None, (
                    f"{name}={text[:60]!r}: expected a count of restarts, a whole number"))
            return int(text) + 1
    return 0


PUBLIC = {}
