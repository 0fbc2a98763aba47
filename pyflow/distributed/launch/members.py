"""Who is there now: a file that whoever launches keeps true, and tasks read.

A contract is fixed when its process starts; afterwards tasks die, move to other addresses, join and
leave.  The launcher on a machine writes the file named in the contracts there:

    {"generation": 7, "job": "5f2c...", "tasks": {"worker": {"0": {"address": "localhost:2222",
     "epoch": 2, "state": "running"}, ...}}}

Invariants
1. The file is replaced as a whole; a reader sees one generation.
2. A generation is counted up by each change; one that is lower than another is older.
3. A task that left stays in it, as "gone": its number may come back with a later epoch.

States: running; restarting (a process ended, the next is on its way); done (it ended well); gone.
Threads: functions without state; `follow` starts one.

    who = members.read(task.members)
    who.cluster()                           # the ClusterSpec of those that run
    who.tasks["worker", 0].epoch
"""
import json
import logging
import os
import threading
import time
from typing import NamedTuple

from pyflow.framework import errors
from pyflow.train.cluster_spec import ClusterSpec

STATES = ("running", "restarting", "done", "gone")
LARGEST = 16 << 20              # bytes of the file
_log = logging.getLogger("pyflow.distributed")


class Member(NamedTuple):
    """A task: where its server listens, its epoch, and one of STATES."""

    address: str
    epoch: int
    state: str


class Members(NamedTuple):
    """All tasks: generation, job id, {(job, index): Member}."""

    generation: int
    job_id: str
    tasks: dict

    def cluster(self, states=("running", "restarting")):
        """The ClusterSpec of the tasks in these states."""
        jobs = {}
        for (job, index), member in sorted(self.tasks.items()):
            if member.state in states:
                jobs.setdefault(job, {})[index] = member.address
        return ClusterSpec(jobs)

    def to_json(self):
        """The file's text."""
        jobs = {}
        for (job, index), member in sorted(self.tasks.items()):
            jobs.setdefault(job, {})[str(index)] = member._asdict()
        return json.dumps({"generation": self.generation, "job": self.job_id, "tasks": jobs})


def write(path, members):
    """Replaces the file."""
    temporary = f"{path}.tmp-{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as f:
        f.write(members.to_json())
    os.replace(temporary, path)


def read(path):
    """The Members of a file. tf.errors.NotFoundError if it is not there, DataLossError if it is
    none."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read(LARGEST + 1)
        return parse(text)
    except OSError as e:
        raise errors.of_os_error(e) from None
    except (ValueError, RecursionError) as e:
        raise errors.DataLossError(None, None, f"members of the cluster: {path}: {e}") from None


def follow(path, changed, is_over, every=0.2):
    """Has a thread call changed(Members) now and at each generation, until is_over() is true.
    every: seconds between looks at the file. A file that is gone says nothing more."""
    def watch():
        seen = -1
        while not is_over():
            try:
                found = read(path)
                if found.generation > seen:
                    seen = found.generation
                    changed(found)
            except errors.OpError as e:
                _log.debug("%s", e)
            time.sleep(every)
    thread = threading.Thread(target=watch, name="pyflow members", daemon=True)
    thread.start()
    return thread


def parse(text):
    """The Members of a text; ValueError if it is none."""
    if len(text) > LARGEST:
        raise ValueError(f"it has over {LARGEST} characters")
    record = json.loads(text)
    try:
        tasks = {(job, int(index)): Member(**fields) for job, those in record["tasks"].items()
                 for index, fields in those.items()}
        found = Members(record["generation"], record["job"], tasks)
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"it is no list of members: {e!r}") from None
    for member in tasks.values():
        if not isinstance(member.address, str) or type(member.epoch) is not int or \
                member.state not in STATES:
            raise ValueError(f"it has {member}")
    if type(found.generation) is not int or not isinstance(found.job_id, str):
        raise ValueError("its generation or job is none")
    return found
