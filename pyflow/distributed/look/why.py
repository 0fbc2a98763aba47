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

Threads: pure functions of the answers; `explain` and `of_cluster` ask.

    print(of_cluster(cluster).text())               # asking.Cluster
"""
from typing import NamedTuple

from pyflow.distributed.look import asking
from pyflow.distributed.wire import messages, task_names
from pyflow.distributed.look.wait_reports import PUTS, TAKES, Report

_RANKS = ("replica", "silent", "unbegun", "lost", "missing", "answer", "circle", "empty", "held",
          "kernel", "idle", "full", "unknown", "away")
_ROWS = 40                              # of a table in an error's text
_ASKED = 1000                           # names or keys in one question


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
    """The Why of an asking.Cluster.  least: seconds below which a step's age is of no interest."""
    asker = cluster.asker
    return _Join(asker, asker.ask_all("GetWaits", messages.WaitsRequest()), None, least).why()


def explain(asker, step, tasks):
    """Text for the error of one (session, step) that was not over in time.  tasks: of its parts;
    others are asked if a chain leads on from them."""
    replies = asker.ask_all("GetWaits", messages.WaitsRequest(), tasks)
    found = _Join(asker, replies, step, 0.0).why()
    others = [t for t in asker.addresses if t not in replies]
    if others and (not found.culprits or found.culprits[0].kind in (
            "replica", "empty", "full", "held", "unknown")):
        replies.update(asker.ask_all("GetWaits", messages.WaitsRequest(), others))
        found = _Join(asker, replies, step, 0.0).why()
    return found.text()


# ---------------------------------------------------------------- the join

class _Join:
    """Chains of waits.  focus: the (session, step) to explain; None: all."""

    def __init__(self, asker, replies, focus, least):
        self.asker, self.focus, self.least = asker, focus, least
        self.silent = {t: r for t, r in replies.items() if isinstance(r, asking.Silent)}
        self.reports = {t: Report(r) for t, r in replies.items() if t not in self.silent}
        self.masters = {}               # (session, step): (task of the master, MasterStep)
        for task, report in self.reports.items():
            for step in report.masters:
                self.masters[step.session, step.step] = (task, step)
        self.sessions = {}              # number: SessionRow, of who is its master if that answers
        for report in self.reports.values():
            for number, row in report.sessions.items():
                if row.master and (row.client or number not in self.sessions):
                    self.sessions[number] = row
        self.edges, self.ends, self.rows, self.late = {}, {}, {}, {}
        self.lines, self.partners, self.known, self.sent = {}, {}, {}, {}

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
        culprits = self._replicas(roots)
        culprits += [Culprit(*self.ends[end], len(reached[end]), seconds[end]) for end in reached
                     if self.ends[end][0] != "away"]
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
        self.rows[at] = Row(f"client of {task_names.short(master)}", f"step {number}" + (
            f" ({what})" if what else ""), ", ".join(task_names.short(p.task) for p in waiting),
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
        if entry is not None and entry.begun:
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
                self.edges[at].append(("key", task, session, number, keys[call.node].key))
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
            self._end(at, "idle", task, f"{task} has step {number} under way and " + (
                "no thread of its pool takes it up" if run.is_ready() else
                "nothing in it can be named"))

    def _waiting_keys(self, task, session, number):
        return [k for k in self.reports[task].keys.get((session, number), ()) if k.awaited]

    def _all_keys(self, at, task, session, number):
        for key in self._waiting_keys(task, session, number):
            self.edges[at].append(("key", task, session, number, key.key))

    def _recv_of(self, row):
        edge = self.sent.get((row.session, row.key))
        return None if edge is None else edge.recv

    # ------------------------------------------------------------ keys

    def _of_key(self, at):
        task, session, number, text = at[1:]
        row = next(k for k in self._waiting_keys(task, session, number) if k.key == text)
        key = self.sent.get((session, text))
        if key is None:
            self.rows[at] = Row(task_names.short(task), f"key {text[:80]}", "?", row.seconds)
            self._end(at, "unknown", task, f"{task} waits for key {text[:200]!r}, of which no "
                      "session's plans know")
            return
        if key.task == task:
            name = task_names.short(task)
            self.rows[at] = Row(name, f"tensor {key.tensor}", name, row.seconds)
            self._leaves_of_sender(at, key, session, number)
            return
        whom = f"{task_names.short(key.task)} {self._node(session, key.send)}"
        self.rows[at] = Row(task_names.short(task), f"tensor {key.tensor}", whom, row.seconds)
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
        if run is not None and (key.send in run.nodes or key.frame and run.blocks):
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
        if entry is not None and entry.begun:
            return True
        _, step = self.masters.get((session, number), (None, None))
        return step is not None and any(p.task == task and p.ended for p in step.part)

    # ------------------------------------------------------------ resources and kernels

    def _of_call(self, at):
        task, session, number, node = at[1:]
        report = self.reports[task]
        call = next(c for c in report.runs[session, number].calls if c.node == node)
        who = f"{task_names.short(task)} {self._node(session, call.node, call.op)}"
        resource = report.resources.get(call.resource)
        words = resource.state.get(call.role) if resource is not None else ""
        if not words:
            self.rows[at] = Row(who, "its kernel", "", call.seconds)
            self._end(at, "kernel", task, f"{task} has been at {who.partition(' ')[2]} for "
                      f"{call.seconds:.1f} s")
            return
        what = f"{words} {call.resource.strip('/') or '?'!r}"
        self.rows[at] = Row(who, what, task_names.short(task), call.seconds)
        self._who_ends(at, task, call, resource, f"{what} at {task}")

    def _who_ends(self, at, task, call, resource, what):
        """Who could end the wait: replicas, of which each is looked at; else those under way lead
        on, else that nobody does is the end."""
        role = TAKES if call.role == PUTS else PUTS
        partners = [p for p in self.partners.get(call.resource, ())
                    if p.role == role and p.node != call.node]
        if self._is_among_replicas(at, task, call, resource, role, what, partners):
            return
        if self._those_under_way(at, partners):
            return
        if resource.held:
            self._holders(at, task, call, what)
            return
        need = "fills" if role == PUTS else "empties"
        if partners:
            named = "; ".join(dict.fromkeys(f"{p.op} {p.node!r} made at {p.line}"
                                            for p in partners[:3]))
            text = f"{what}: nothing that runs {need} it; this would: {named}"
        else:
            text = f"{what}: nothing {need} it, in no session's graph"
        self._end(at, "empty" if role == PUTS else "full", task,
                  f"{text}; waiting: {self._node(0, call.node, call.op)}")

    def _those_under_way(self, at, partners):
        led = False
        for other, report in self.reports.items():
            for (session, number), run in report.runs.items():
                for partner in partners:
                    if partner.node in run.nodes and not any(
                            c.node == partner.node for c in run.calls):
                        before = len(self.edges[at])
                        self._leaves(at, other, session, number, run, run.leaves(partner.node))
                        led = led or len(self.edges[at]) > before
        return led

    def _holders(self, at, task, call, what):
        """Who took it has to give it back: other steps of the task that are at something."""
        for (session, number), run in self.reports[task].runs.items():
            if not any(c.node == call.node and c.resource == call.resource for c in run.calls):
                self.edges[at] += [("call", task, session, number, c.node) for c in run.calls]
        if not self.edges[at]:
            users = {p.node for p in self.partners.get(call.resource, ())} - {call.node}
            self._end(at, "held", task, f"{what} is held by a step that is over or gone; waiting: "
                      f"{self._node(0, call.node, call.op)}" + (
                          f"; others that use it: {', '.join(sorted(users)[:3])}" if users else ""))

    # ------------------------------------------------------------ replicas

    def _owner(self, session):
        """(its master's task, its client where that is another process) of a session; None."""
        row = self.sessions.get(session)
        return None if row is None else (row.master, row.client)

    def _is_among_replicas(self, at, task, call, resource, role, what, partners):
        """Several sessions use the resource, or are to: each that could end the wait is a node of
        its own, at which it turns out whether it is the one that is waited for."""
        session, number = at[2:4]
        users = {}
        for use in resource.uses:
            if use.role == role:
                owner = self._owner(use.session) or (f"session {use.session:016x}", "")
                if owner not in users or use.seconds < users[owner].seconds:
                    users[owner] = use
        absent = self._absent(users, self._owner(session), resource) if role == PUTS else []
        if not users and not absent:            # nobody has yet: those in whose graphs it stands
            absent = {self._owner(p.session) for p in partners if p.session != session} - {None}
        if not absent and all(use.session == session for use in users.values()):
            return False
        late = self._without_those_that_came(users, resource, bool(absent))
        for owner, use in [*late.items(), *((owner, None) for owner in sorted(absent))]:
            node = ("replica", task, call.resource, *owner, session, number)
            self.late[node] = use, what, role
            self.edges[at].append(node)
        return True

    @staticmethod
    def _without_those_that_came(users, resource, others):
        """Without the last `there` that put: what the take waits for beside it is others', or, as
        no one else is left, more of theirs."""
        there = resource.there if resource.needed else 0
        late = sorted(users, key=lambda owner: users[owner].seconds)[there:]
        return {owner: users[owner] for owner in (late if late or others else users)}

    def _absent(self, users, own, resource):
        """The owners that are to put, too, and never have: tasks of the same job, where more are
        needed than have come, and each who puts is one."""
        one_each = bool(resource.sources) or len(users) > 1
        if not one_each or len(users) >= resource.needed or resource.there >= resource.needed:
            return []
        masters = {master for master, client in users if not client} or {own and own[0]}
        jobs = {task_names.parts(master)[0] for master in masters if master}
        return [(task, "") for task in sorted(self.asker.addresses, key=task_names.order)
                if task_names.parts(task)[0] in jobs and (task, "") not in users]

    def _of_replica(self, at):
        """What a replica is at, other than the step that waits for it."""
        master, client, *waiting = at[3:]
        if master in self.silent:
            self._end(at, "silent", master, self._silent_text(master))
            return
        if master not in self.reports:
            self._end(at, "unknown", master, f"{master} was not asked")
            return
        steps = [key for key in self.masters
                 if self._owner(key[0]) == (master, client) and key != tuple(waiting)]
        self.edges[at] += [("client", *key) for key in steps]
        for task, report in self.reports.items():
            for key in report.runs:
                mine = self._owner(key[0]) == (master, client) if key[0] else task == master
                if mine and key not in self.masters and key != tuple(waiting):
                    self.edges[at].append(("part", task, *key))
        if not self.edges[at]:
            self._end(at, "away", master, f"no step of {client or master} is under way: its "
                      "program is at something else, or has not begun")

    def _replicas(self, roots):
        """[Culprit] of replicas that are waited for and do not themselves wait for another one: at
        the first resource where that is so, and how many more."""
        found = {}
        for node in self.late:
            ends = self._ends_before_replicas(node)
            if ends:
                found.setdefault(node[3:5], []).append((node[2], node, ends))
        reached, seconds = self._leading(self.late, roots)
        return [self._replica(sorted(where), reached, seconds) for where in found.values()]

    def _replica(self, where, reached, seconds):
        _, node, ends = where[0]
        (task, _, master, client), (use, what, role) = node[1:5], self.late[node]
        best = min(ends, key=lambda end: (_RANKS.index(end[0]), end))
        who = f"{client}, a client of {master}," if client else master
        did, does = ("put", "fills") if role == PUTS else ("taken", "empties")
        last = (f"last {use.seconds:.1f} s ago by {self._node(use.session, use.node, use.op)}"
                if use is not None else f"it has {did} nothing yet")
        more = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
        text = f"{who} keeps others waiting, at {what}{more}, which it {does}: {last}; {best[2]}"
        nodes = [n for _, n, _ in where]
        return Culprit("replica", master, text, len(set().union(*(reached[n] for n in nodes))),
                       max(seconds[n] for n in nodes))

    def _ends_before_replicas(self, node):
        """The ends that a replica's chains lead to without another replica between."""
        seen, todo, found = set(), list(self.edges.get(node, ())), []
        while todo:
            at = todo.pop()
            if at in seen or at[0] == "replica":
                continue
            seen.add(at)
            if at in self.ends:
                found.append(self.ends[at])
            todo += self.edges.get(at, ())
        return found

    # ------------------------------------------------------------ more questions

    def _ask_more(self):
        """What is sent under keys; then lines of nodes, partners of resources, and whether Sends
        exist."""
        keys, nodes, resources, senders = {}, {}, set(), {}
        for report in self.reports.values():
            for (session, _), rows in report.keys.items():
                keys.setdefault(session, set()).update(row.key for row in rows if row.awaited)
            for (session, _), run in report.runs.items():
                of_session = nodes.setdefault(session, set())
                of_session.update(call.node for call in run.calls)
                of_session.update((run.running() or ())[:1])
                resources.update(call.resource for call in run.calls if call.resource)
        self._ask([(t, messages.WaitsRequest(session=s, key=sorted(k)[:_ASKED]))
                   for s, k in keys.items() if k for t in self._homes(s)])
        for (session, _), edge in self.sent.items():
            nodes.setdefault(session, set()).add(edge.send)
            senders.setdefault((edge.task, session), set()).add(edge.send)
        self._ask(
            [(t, messages.WaitsRequest(session=s, node=sorted(n)[:_ASKED]))
             for s, n in nodes.items() if n for t in self._homes(s)]
            + [(t, messages.WaitsRequest(resource=sorted(resources)[:_ASKED]))
               for t in self.reports if resources]
            + [(t, messages.WaitsRequest(session=s, sender=sorted(n)[:_ASKED]))
               for (t, s), n in senders.items() if t in self.reports])

    def _ask(self, requests):
        for task, request in requests:
            reply = self.asker.ask(task, "GetWaits", request)
            if not isinstance(reply, asking.Silent):
                self._learn(task, request, reply)

    def _homes(self, session):
        """The master of a session; all tasks where it is not known."""
        found = {task for (s, _), (task, _) in self.masters.items() if s == session}
        row = self.sessions.get(session)
        if not found and row is not None and row.master in self.reports:
            found = {row.master}
        return found or list(self.reports)

    def _learn(self, task, request, reply):
        for place in reply.place:
            self.lines.setdefault((request.session, place.node), place)
            self.lines.setdefault((0, place.node), place)
        for edge in reply.edge:
            self.sent[request.session, edge.key] = edge
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
        return self._leading(self.ends, roots)

    def _leading(self, nodes, roots):
        """({node: roots that lead to it}, {node: the longest of their waits}) of some nodes."""
        reached, seconds = {}, {}
        for root in roots:
            seen, todo = set(), [root]
            while todo:
                at = todo.pop()
                if at in seen:
                    continue
                seen.add(at)
                if at in nodes:
                    reached.setdefault(at, set()).add(root)
                    seconds[at] = max(seconds.get(at, 0.0), self._seconds(root))
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
            for node in self.late:
                if culprits[0].kind == "replica" and node[3] == culprits[0].task:
                    first |= self._leading_to(node)
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

