"""Why nothing goes on: what all tasks say of their waits, joined to chains that end at a culprit.

    client's step -> part of a task -> key of a Recv -> its Send's part -> queue -> ... -> CULPRIT

A culprit is where a chain ends: a task that does not answer, a step that never began at a task, a
tensor that was sent and did not arrive, one that nobody sends, a queue that nobody fills, a kernel
that runs, a circle of steps that wait for each other.

Invariants
1. Only what was answered is said: a task that is silent is the end of every chain that leads to it.
2. The order is by kind of culprit (`_RANKS`); then those come first that a client waits for, then
   those that most steps wait for, then by age.

Threads: pure functions of the answers; `explain` and `of_cluster` ask.

    print(of_cluster(cluster).text())               # look.Cluster
"""
import re
from typing import NamedTuple

from pyflow.distributed import look, messages
from pyflow.distributed.wait_reports import Report, read_key

_RANKS = ("silent", "unbegun", "lost", "missing", "answer", "circle", "empty", "held", "kernel",
          "idle", "full", "unknown")
_ROWS = 40                              # of a table in an error's text
# What a kernel waits for, by its op: (state of the resource, the ops that end the wait, in words).
_FILLS = re.compile(r"Enqueue|InsertMany|ApplyGradient|Stage$|^Stage|^MapStage|^OrderedMapStage|"
                    r"BarrierInsert")
_DRAINS = re.compile(r"Dequeue|TakeMany|TakeGradient|Unstage")


class Culprit(NamedTuple):
    """Where chains end.  kind: of _RANKS; task: where it is; steps: how many wait for it; seconds:
    the longest wait."""

    kind: str
    task: str
    text: str
    steps: int
    seconds: float


class Row(NamedTuple):
    """One wait: who, for what, from whom, since when."""

    who: str
    what: str
    whom: str
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
    """The Why of a look.Cluster.  least: seconds below which a step's age is of no interest."""
    asker = cluster.asker
    return _Join(asker, asker.ask_all("GetWaits", messages.WaitsRequest()), None, least).why()


def explain(asker, step, tasks):
    """Text for the error of one (session, step) that was not over in time.  tasks: of its parts;
    others are asked if a chain leads on from them."""
    replies = asker.ask_all("GetWaits", messages.WaitsRequest(), tasks)
    found = _Join(asker, replies, step, 0.0).why()
    others = [t for t in asker.addresses if t not in replies]
    if others and (not found.culprits or found.culprits[0].kind in ("empty", "full", "held")):
        replies.update(asker.ask_all("GetWaits", messages.WaitsRequest(), others))
        found = _Join(asker, replies, step, 0.0).why()
    return found.text()


# ---------------------------------------------------------------- the join

class _Join:
    """Chains of waits.  focus: the (session, step) to explain; None: all."""

    def __init__(self, asker, replies, focus, least):
        self.asker, self.focus, self.least = asker, focus, least
        self.silent = {t: r for t, r in replies.items() if isinstance(r, look.Silent)}
        self.reports = {t: Report(r) for t, r in replies.items() if t not in self.silent}
        self.masters = {}               # (session, step): (task of the master, MasterStep)
        for task, report in self.reports.items():
            for step in report.masters:
                self.masters[step.session, step.step] = (task, step)
        self.edges, self.texts, self.ends, self.rows = {}, {}, {}, {}
        self.lines, self.partners, self.known = {}, {}, {}

    def why(self):
        """The Why."""
        self._ask_more()
        roots = self._roots()
        for root in roots:
            self._follow(root)
        reached, seconds = self._reached(roots)
        for kind, task, text in self._circles(roots, reached):
            end = ("circle", task, text)
            self.ends[end] = (kind, task, text)
            reached[end], seconds[end] = set(roots), max(
                [self.rows[r].seconds for r in roots if r in self.rows] or [0.0])
        culprits = [Culprit(*self.ends[end], len(reached[end]), seconds[end]) for end in reached]
        asked = {self.ends[end] for end, from_ in reached.items()
                 if any(root[0] == "client" for root in from_)}
        culprits += [Culprit("silent", task, self._silent_text(task), 0, 0.0)
                     for task in self.silent if ("silent", task) not in reached
                     and self.focus is None]
        culprits.sort(key=lambda c: (_RANKS.index(c.kind), c[:3] not in asked, -c.steps, -c.seconds,
                                     c.text))
        return Why(culprits, self._table(culprits, reached))

    # ------------------------------------------------------------ who waits

    def _roots(self):
        if self.focus is not None:
            if self.focus in self.masters:
                return [("client", *self.focus)]
            return [("part", task, *self.focus) for task, report in self.reports.items()
                    if self.focus in report.runs]
        roots = [("client", *key) for key, (_, step) in self.masters.items()
                 if step.seconds >= self.least]
        for task, report in self.reports.items():
            for key, run in report.runs.items():
                if key not in self.masters and run.seconds >= self.least:
                    roots.append(("part", task, *key))
        return roots

    def _follow(self, root):
        """Fills in edges, rows and ends from a root on."""
        todo = [root]
        while todo:
            at = todo.pop()
            if at in self.edges or at in self.ends:
                continue
            self.edges[at] = []
            getattr(self, "_of_" + at[0])(at)
            todo += self.edges[at]

    def _end(self, at, kind, task, text):
        end = (kind, task, text) if kind != "silent" else ("silent", task)
        self.ends[end] = (kind, task, text)
        self.edges[at].append(end)

    def _silent_text(self, task):
        found = self.silent[task]
        return f"{task} at {found.address} does not answer: {found.reason}"

    def _of_client(self, at):
        session, number = at[1:]
        master, step = self.masters[at[1:]]
        what = ", ".join(step.fetch[:3]) + (", ..." if len(step.fetch) > 3 else "")
        waiting = [p for p in step.part if not p.ended]
        self.rows[at] = Row(f"client of {look.short(master)}", f"step {number}" + (
            f" ({what})" if what else ""), ", ".join(look.short(p.task) for p in waiting),
            step.seconds)
        for part in waiting:
            if not self._silence(at, part.task):
                self.edges[at].append(("part", part.task, session, number))

    def _silence(self, at, task):
        """The task does not answer: that is the end of it."""
        if task in self.silent:
            self._end(at, "silent", task, self._silent_text(task))
            return True
        return False

    def _of_part(self, at):
        task, session, number = at[1:]
        report = self.reports.get(task)
        if report is None:
            self._end(at, "unknown", task, f"{task} was not asked")
            return
        run = report.runs.get((session, number))
        if run is None:
            self._not_running(at, task, report, session, number)
            return
        self._leaves(at, task, session, number, run, None)

    def _not_running(self, at, task, report, session, number):
        entry = report.steps.get((session, number))
        if entry is not None and entry.a == 2:
            self._end(at, "answer", task, f"{task} is done with its part of step {number}, but its "
                      "answer did not arrive")
            return
        early = ", though tensors for it wait there" if entry is not None else ""
        self._end(at, "unbegun", task, f"{task} never began step {number}{early}: the request to "
                  "run it was lost, or it ended and its answer was")

    def _leaves(self, at, task, session, number, run, names):
        """What a partition waits for; names: only these nodes."""
        keys = {self._recv_of(k): k for k in self._waiting_keys(task, session, number)}
        found = False
        for call in run.calls:
            if names is not None and call.node not in names:
                continue
            found = True
            if call.node in keys:
                self.edges[at].append(("key", task, session, number, keys[call.node].text[0]))
            elif call.op == "_Recv" or call.op == "_HostRecv":
                self._all_keys(at, task, session, number)
            else:
                self.edges[at].append(("call", task, session, number, call.node))
        computing = run.running(names)
        if computing is not None:
            node, op = computing
            self._end(at, "kernel", task, f"{task} computes {self._node(session, node, op)} or what"
                      " follows it")
        elif not found and names is None:
            ready = any(b[2] == 0 for b in run.blocks.values())
            self._end(at, "idle", task, f"{task} has step {number} under way and " + (
                "no thread of its pool takes it up" if ready else "nothing in it can be named"))

    def _waiting_keys(self, task, session, number):
        return [k for k in self.reports[task].keys.get((session, number), ()) if k.a == 2]

    def _all_keys(self, at, task, session, number):
        for key in self._waiting_keys(task, session, number):
            self.edges[at].append(("key", task, session, number, key.text[0]))

    @staticmethod
    def _recv_of(row):
        key = read_key(row.text[0])
        if key is None:
            return None
        head, _, tail = key.send.rpartition("send_")
        return f"{head}recv_{tail}"

    # ------------------------------------------------------------ keys

    def _of_key(self, at):
        task, session, number, text = at[1:]
        row = next(k for k in self._waiting_keys(task, session, number) if k.text[0] == text)
        key = read_key(text)
        if key is None:
            self.rows[at] = Row(look.short(task), f"key {text[:80]}", "?", row.seconds)
            self._end(at, "unknown", task,
                      f"{task} waits for key {text[:200]!r}, of no form of ours")
            return
        if key.task == task:
            self.rows[at] = Row(look.short(task), f"tensor {key.tensor}", look.short(task),
                                row.seconds)
            self._leaves_of_sender(at, key, session, number)
            return
        whom = f"{look.short(key.task)} {self._node(session, key.send)}"
        self.rows[at] = Row(look.short(task), f"tensor {key.tensor}", whom, row.seconds)
        if not self._silence(at, key.task):
            self._leaves_of_sender(at, key, session, number, task)

    def _leaves_of_sender(self, at, key, session, number, to=None):
        report = self.reports.get(key.task)
        if report is None:
            self._end(at, "unknown", key.task, f"{key.task} was not asked")
            return
        run = report.runs.get((session, number))
        if run is None and not self._began(report, key.task, session, number):
            self._end(at, "unbegun", key.task, f"{key.task} never began step {number}, so "
                      f"{self._node(session, key.send)} is not sent: the request to run it was "
                      "lost, or it ended and was forgotten there")
            return
        if run is not None and (key.send in run.nodes or key.in_loop and run.blocks):
            own = ("part", key.task, session, number)
            names = run.leaves(key.send) if key.send in run.nodes else None
            if names is None:
                self.edges[at].append(own)
            else:
                before = len(self.edges[at])
                self._leaves(at, key.task, session, number, run, names)
                if len(self.edges[at]) == before:
                    self.edges[at].append(own)
            return
        if self.known.get((key.task, session, key.send), True):
            self._end(at, "lost", key.task, f"tensor {key.tensor} was sent by {key.task} and did "
                      f"not arrive at {to or key.task}: it was lost on the way ("
                      f"{self._node(session, key.send)})")
        else:
            self._end(at, "missing", key.task, f"nothing at {key.task} sends tensor {key.tensor}, "
                      f"for which {to or key.task} waits: its Send is missing from the plan ("
                      f"{self._node(session, key.send)})")

    def _began(self, report, task, session, number):
        entry = report.steps.get((session, number))
        if entry is not None and entry.a == 2:
            return True
        _, step = self.masters.get((session, number), (None, None))
        return step is not None and any(p.task == task and p.ended for p in step.part)

    # ------------------------------------------------------------ resources and kernels

    def _of_call(self, at):
        task, session, number, node = at[1:]
        run = self.reports[task].runs[session, number]
        call = next(c for c in run.calls if c.node == node)
        who = f"{look.short(task)} {self._node(session, call.node, call.op)}"
        state = self._state(call)
        if state is None:
            self.rows[at] = Row(who, "its kernel", "", call.seconds)
            self._end(at, "kernel", task, f"{task} has been at {who.partition(' ')[2]} for "
                      f"{call.seconds:.1f} s")
            return
        kind, wanted, words = state
        name = call.resource.strip("/") or "?"
        self.rows[at] = Row(who, f"{words} {name!r}", look.short(task), call.seconds)
        self._partners(at, task, call, kind, wanted, f"{words} {name!r} at {task}")

    @staticmethod
    def _state(call):
        """(kind, pattern of the ops that end the wait, words) of what a call waits for; None: it
        waits for nothing but itself."""
        if not call.resource and "Mutex" not in call.op:
            return None
        if _DRAINS.search(call.op):
            return "empty", _FILLS, _words(call.op, "empty")
        if _FILLS.search(call.op):
            return "full", _DRAINS, _words(call.op, "full")
        if "MutexLock" in call.op:
            return "held", re.compile("MutexLock"), "lock"
        return None

    def _partners(self, at, task, call, kind, wanted, what):
        """Who could end the wait: those under way lead on, else that nobody does is the end."""
        known = [p for p in self.partners.get(call.resource, ())
                 if wanted.search(p.op) and p.node != call.node]
        led = False
        for other, report in self.reports.items():
            for (session, number), run in report.runs.items():
                for partner in known:
                    if partner.node in run.nodes and not any(
                            c.node == partner.node for c in run.calls):
                        before = len(self.edges[at])
                        names = run.leaves(partner.node)
                        self._leaves(at, other, session, number, run, names)
                        led = led or len(self.edges[at]) > before
        if led:
            return
        if kind == "held":
            self._holders(at, task, call, what)
            return
        need = "fills" if kind == "empty" else "empties"
        if known:
            named = "; ".join(dict.fromkeys(f"{p.op} {p.node!r} made at {p.line}"
                                            for p in known[:3]))
            text = f"{what}: nothing that runs {need} it; this would: {named}"
        else:
            text = f"{what}: nothing {need} it, in no session's graph"
        self._end(at, kind, task, f"{text}; waiting: {self._node(0, call.node, call.op)}")

    def _holders(self, at, task, call, what):
        """Other steps of the task whose plans use the lock and that are at something."""
        users = {p.node for p in self.partners.get(call.resource, ())}
        for (session, number), run in self.reports[task].runs.items():
            if any(c.node == call.node and c.resource == call.resource for c in run.calls):
                continue
            for c in run.calls:
                self.edges[at].append(("call", task, session, number, c.node))
        if not self.edges[at]:
            self._end(at, "held", task, f"{what} is held by a step that is over or gone; waiting: "
                      f"{self._node(0, call.node, call.op)}" + (
                          f"; others that use it: {', '.join(sorted(users)[:3])}" if users else ""))

    # ------------------------------------------------------------ more questions

    def _ask_more(self):
        """Lines of nodes, partners of resources, and whether Sends exist."""
        nodes, resources, senders = {}, set(), {}
        for task, report in self.reports.items():
            for (session, _), run in report.runs.items():
                for call in run.calls:
                    nodes.setdefault(session, set()).add(call.node)
                    if call.resource:
                        resources.add(call.resource)
                computing = run.running()
                if computing:
                    nodes.setdefault(session, set()).add(computing[0])
            for (session, _), rows in report.keys.items():
                for row in rows:
                    key = read_key(row.text[0]) if row.a == 2 else None
                    if key is not None:
                        nodes.setdefault(session, set()).add(key.send)
                        senders.setdefault((key.task, session), set()).add(key.send)
        asked = [t for t in self.reports]
        requests = [(t, messages.WaitsRequest(session=s, node=sorted(n)[:2000]))
                    for s, n in nodes.items() for t in self._homes(s, asked)]
        requests += [(t, messages.WaitsRequest(resource=sorted(resources)[:1000]))
                     for t in asked if resources]
        requests += [(t, messages.WaitsRequest(session=s, sender=sorted(n)[:2000]))
                     for (t, s), n in senders.items() if t in self.reports]
        for task, request in requests:
            reply = self.asker.ask(task, "GetWaits", request)
            if not isinstance(reply, look.Silent):
                self._learn(task, request, reply)

    def _homes(self, session, asked):
        """The masters of a session; all tasks where it is none's."""
        found = {task for (s, _), (task, _) in self.masters.items() if s == session}
        return found or asked

    def _learn(self, task, request, reply):
        for place in reply.place:
            self.lines.setdefault((request.session, place.node), place)
            self.lines.setdefault((0, place.node), place)
        for partner in reply.partner:
            self.partners.setdefault(partner.resource, []).append(partner)
        for name, known in zip(request.sender, reply.known):
            self.known[task, request.session, name] = known

    def _node(self, session, node, op=""):
        """"MatMul 'fc/MatMul' made at train.py:3"."""
        place = self.lines.get((session, node)) or self.lines.get((0, node))
        if place is not None:
            return f"{place.op!r} made at {place.line}" if not op or op == "_Recv" else \
                f"{op} {place.op!r} made at {place.line}"
        return f"{op} {node!r}".strip()

    # ------------------------------------------------------------ ends and circles

    def _reached(self, roots):
        """({end: roots that lead to it}, {end: the longest of their waits})."""
        reached, seconds = {}, {}
        for root in roots:
            seen, todo = set(), [root]
            while todo:
                at = todo.pop()
                if at in seen:
                    continue
                seen.add(at)
                if at in self.ends:
                    reached.setdefault(at, set()).add(root)
                    longest = max(seconds.get(at, 0.0), self._seconds(root))
                    seconds[at] = longest
                todo += self.edges.get(at, ())
        return reached, seconds

    def _seconds(self, root):
        if root in self.rows:
            return self.rows[root].seconds
        run = self.reports[root[1]].runs.get(root[2:]) if root[0] == "part" else None
        return run.seconds if run is not None else 0.0

    def _circles(self, roots, reached):
        """(kind, task, text) where roots lead to no end at all."""
        for root in roots:
            if any(root in from_ for from_ in reached.values()):
                continue
            loop = self._loop_from(root)
            if loop:
                steps = [self.rows[n] for n in loop if n in self.rows]
                text = "a circle: " + ", which waits for ".join(
                    f"{r.who} waits for {r.what}" if k == 0 else f"{r.who} ({r.what})"
                    for k, r in enumerate(steps))
                task = next((n[1] for n in loop if n[0] in ("part", "call", "key")), "")
                yield "circle", task, text + ", and so on"
                return

    def _loop_from(self, root):
        path, on_path = [], {}

        def walk(at):
            if at in on_path:
                return path[on_path[at]:]
            if at in done:
                return None
            on_path[at] = len(path)
            path.append(at)
            for after in self.edges.get(at, ()):
                found = walk(after)
                if found:
                    return found
            path.pop()
            del on_path[at]
            done.add(at)
            return None
        done = set()
        return walk(root)

    def _table(self, culprits, reached):
        """All rows, those that lead to the first culprit first."""
        first = set()
        if culprits:
            for end, from_ in reached.items():
                if self.ends[end] == tuple(culprits[0][:3]):
                    first = self._leading_to(end)
        rows = sorted(self.rows.items(), key=lambda item: (
            item[0] not in first, item[0][0] != "client", -item[1].seconds))
        return list(dict.fromkeys(row for _, row in rows))

    def _leading_to(self, end):
        before = {}
        for at, after in self.edges.items():
            for to in after:
                before.setdefault(to, []).append(at)
        seen, todo = set(), [end]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += before.get(at, ())
        return seen


def _words(op, state):
    for name in ("Barrier", "Accumulator", "MapS", "OrderedMap", "Stage", "Unstage"):
        if name in op:
            what = {"MapS": "staging map", "OrderedMap": "staging map", "Stage": "staging area",
                    "Unstage": "staging area"}.get(name, name.lower())
            if what == "accumulator":
                few = state == "empty"
                return "accumulator with too few gradients" if few else "full accumulator"
            if what == "barrier":
                return "incomplete barrier" if state == "empty" else "full barrier"
            return f"{state} {what}"
    return f"{state} queue"
