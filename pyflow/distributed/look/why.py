"""Why nothing goes on: what all tasks say of their waits, joined to chains that end at a culprit.

    client's step -> part of a task -> key of a Recv -> its Send's part -> queue -> ... -> CULPRIT

A culprit is where a chain ends: a task that does not answer, a step that never began at a task, a
tensor that was sent and did not arrive, one that nobody sends, a queue that nobody fills, a kernel
that runs, a circle of steps that wait for each other.  Before them all comes a REPLICA that keeps
others waiting: one of several who put into a queue, an accumulator or the like, at which somebody
waits, and that is absent, late, stuck or dead; what it is at follows.

Which ops wait, and which end waits, their kernels say (PF_KERNEL_TAKES, PF_KERNEL_PUTS), and what
they wait for the resource does (pf_type.tell): no op and no kind of resource is known here by name.

Invariants
1. Only what was answered is said: a task that is silent is the end of every chain that leads to it.
2. The order is by kind of culprit (`_RANKS`); then those come first that a client waits for, then
   those that most steps wait for, then by age.

What was answered is in why_answers.py, the chains in why_chains.py, replicas in why_replicas.py,
what leads where in why_paths.py.

Threads: pure functions of the answers; `explain` and `of_cluster` ask.

    print(of_cluster(cluster).text())               # asking.Cluster
"""
from typing import NamedTuple

from pyflow.distributed.look import why_paths
from pyflow.distributed.look.why_answers import Answers
from pyflow.distributed.look.why_chains import Chains
from pyflow.distributed.wire import messages

_RANKS = ("replica", "silent", "unbegun", "lost", "missing", "answer", "circle", "empty", "held",
          "kernel", "idle", "full", "unknown", "away")
_ROWS = 40                              # of a table in an error's text


class Culprit(NamedTuple):
    """Where chains end.  kind: of _RANKS; task: where it is; steps: how many wait for it; seconds:
    the longest wait."""

    kind: str
    task: str
    text: str
    steps: int
    seconds: float


class Why(NamedTuple):
    """culprits, the first the one to look at; rows: every wait, the chains of the first culprit
    first."""

    culprits: list
    rows: list

    def text(self, most=_ROWS):
        """The culprits and one table."""
        if not self.rows and not self.culprits:
            return "nobody waits"
        lines = [c.text for c in self.culprits[:1]]
        lines += [f"also: {c.text}" for c in self.culprits[1:5]]
        if not self.culprits:
            lines = ["what they wait for cannot be told"]
        cells = [("who waits", "for", "from", "since")]
        cells += [(r.who, r.what, r.whom, f"{r.seconds:.1f} s") for r in self.rows[:most]]
        widths = [max(len(row[k]) for row in cells) for k in range(3)]
        lines += ["  " + "  ".join([*(f"{t:{w}}" for t, w in zip(row, widths)), row[3]])
                  for row in cells]
        if len(self.rows) > most:
            lines.append(f"  ... {len(self.rows) - most} more")
        return "\n".join(lines)


def of_cluster(cluster, least=0.0):
    """The Why of an asking.Cluster.  least: seconds below which a step's age is of no interest."""
    asker = cluster.asker
    return _why(asker, asker.ask_all("GetWaits", messages.WaitsRequest()), None, least)


def explain(asker, step, tasks):
    """Text for the error of one (session, step) that was not over in time.  tasks: of its parts;
    others are asked if a chain leads on from them."""
    replies = asker.ask_all("GetWaits", messages.WaitsRequest(), tasks)
    found = _why(asker, replies, step, 0.0)
    others = [t for t in asker.addresses if t not in replies]
    if others and (not found.culprits or found.culprits[0].kind in (
            "replica", "empty", "full", "held", "unknown")):
        replies.update(asker.ask_all("GetWaits", messages.WaitsRequest(), others))
        found = _why(asker, replies, step, 0.0)
    return found.text()


# ---------------------------------------------------------------- the join

def _why(asker, replies, focus, least):
    """The Why of what was answered.  focus: the (session, step) to explain; None: all that are
    older than `least` seconds."""
    answers = Answers(asker, replies)
    chains, roots = Chains(answers), _roots(answers, focus, least)
    for root in roots:
        chains.follow(root)
    found = _Culprits(answers, chains, roots)
    culprits = found.all(focus is None)
    return Why(culprits, found.table(culprits))


def _roots(answers, focus, least):
    """The nodes of chains at which they begin."""
    if focus is not None:
        if focus in answers.masters:
            return [("client", *focus)]
        return [("part", task, *focus) for task, report in answers.reports.items()
                if focus in report.runs]
    roots = [("client", *key) for key, (_, step) in answers.masters.items()
             if step.seconds >= least]
    for task, report in answers.reports.items():
        roots += [("part", task, *key) for key, run in report.runs.items()
                  if key not in answers.masters and run.seconds >= least]
    return roots


def _rank(kind):
    return _RANKS.index(kind)


class _Culprits:
    """Where the chains of some roots end."""

    def __init__(self, answers, chains, roots):
        self._answers, self._chains, self._roots = answers, chains, roots
        self._reached = why_paths.leading(chains.edges, chains.ends, roots)
        self._add_circle()

    def all(self, silent_too):
        """[Culprit], the first the one to look at.  silent_too: tasks that nobody waits for."""
        chains = self._chains
        found = [*self._replicas(), *(
            Culprit(*chains.ends[end], len(roots), self._longest(roots))
            for end, roots in self._reached.items() if chains.ends[end][0] != "away")]
        asked = {chains.ends[end] for end, roots in self._reached.items()
                 if any(root[0] == "client" for root in roots)}
        if silent_too:
            found += [Culprit("silent", task, self._answers.silence(task), 0, 0.0)
                      for task in self._answers.silent if ("silent", task) not in self._reached]
        return sorted(found, key=lambda c: (_rank(c.kind), c[:3] not in asked, -c.steps,
                                            -c.seconds, c.text))

    def _replicas(self):
        chains = self._chains
        late = chains.replicas.late
        reached = why_paths.leading(chains.edges, late, self._roots)
        for nodes, task, text in chains.replicas.culprits(chains.edges, chains.ends, _rank):
            roots = set().union(*(reached[n] for n in nodes))
            yield Culprit("replica", task, text, len(roots), self._longest(roots))

    def _longest(self, roots):
        """The seconds of the longest of some roots' waits."""
        return max((self._seconds(root) for root in roots), default=0.0)

    def _seconds(self, root):
        if root in self._chains.rows:
            return self._chains.rows[root].seconds
        run = self._answers.reports[root[1]].runs.get(root[2:]) if root[0] == "part" else None
        return run.seconds if run is not None else 0.0

    def _add_circle(self):
        """An end where roots lead to no end at all."""
        chains = self._chains
        for root in self._roots:
            if any(root in from_ for from_ in self._reached.values()):
                continue
            nodes = why_paths.circle(chains.edges, root)
            if nodes:
                rows = [chains.rows[n] for n in nodes if n in chains.rows]
                text = "a circle: " + ", which waits for ".join(
                    f"{r.who} waits for {r.what}" if k == 0 else f"{r.who} ({r.what})"
                    for k, r in enumerate(rows))
                task = next((n[1] for n in nodes if n[0] in ("part", "call", "key")), "")
                end = "circle", task, text + ", and so on"
                chains.ends[end] = end
                self._reached[end] = set(self._roots)
                return

    def table(self, culprits):
        """All rows, those that lead to the first culprit first."""
        chains, first = self._chains, set()
        if culprits:
            for end in self._reached:
                if chains.ends[end] == tuple(culprits[0][:3]):
                    first = why_paths.leading_to(chains.edges, end)
            for node in chains.replicas.late:
                if culprits[0].kind == "replica" and node[3] == culprits[0].task:
                    first |= why_paths.leading_to(chains.edges, node)
        rows = sorted(chains.rows.items(), key=lambda item: (
            item[0] not in first, item[0][0] != "client", -item[1].seconds))
        return list(dict.fromkeys(row for _, row in rows))
