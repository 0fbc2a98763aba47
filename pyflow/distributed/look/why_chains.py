"""Chains of waits, from who waits to where they end.

Nodes of a chain, and what one of each waits for:

    ("client", session, step)               parts of the step at tasks
    ("part", task, session, step)           calls under way there, keys, or what computes
    ("within", task, session, step, id)     the same of functions that a part, by its id, calls
    ("key", task, session, step, key)       whoever sends it
    ("edge", task, session, step, node)     the other end of what a node sends, or receives
    ("call", task, session, step, node)     a resource, and so who could end the wait
    ("replica", ...)                        why_replicas.py

A call's role says which of these it is; a step 0 is of the functions that no step of their session
waits for itself, as those of a tf.data pipeline.

Invariants
1. Every node that was followed has edges, or an end: (kind, task, text).

Threads: objects of whoever asked.  Caller: why.py.

    chains = Chains(Answers(asker, replies))
    chains.follow(("client", session, step));  chains.edges, chains.ends, chains.rows
"""
from typing import NamedTuple

from pyflow.distributed.look import why_replicas
from pyflow.distributed.look.wait_reports import CALLS, PUTS, RECEIVES, SENDS, TAKES
from pyflow.distributed.wire import task_names


class Row(NamedTuple):
    """One wait: who, for what, from whom, since when."""

    who: str
    what: str
    whom: str
    seconds: float


class Chains:
    """edges: {node: those it waits for}; ends: {the last of a chain: (kind, task, text)}; rows:
    {node: Row}."""

    def __init__(self, answers):
        self._answers, self.replicas = answers, why_replicas.Replicas(answers)
        self.edges, self.ends, self.rows = {}, {}, {}

    def follow(self, root):
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

    def _is_mute(self, at, task):
        """The task did not answer, or was not asked: that is the end of it."""
        if task in self._answers.silent:
            self._end(at, "silent", task, self._answers.silence(task))
        elif task not in self._answers.reports:
            self._end(at, "unknown", task, f"{task} was not asked")
        else:
            return False
        return True

    # ------------------------------------------------------------ steps and their parts

    def _of_client(self, at):
        session, number = at[1:]
        master, step = self._answers.masters[at[1:]]
        what = ", ".join(step.fetch[:3]) + (", ..." if len(step.fetch) > 3 else "")
        waiting = [p for p in step.part if not p.ended]
        self.rows[at] = Row(f"client of {task_names.short(master)}", f"step {number}" + (
            f" ({what})" if what else ""), ", ".join(task_names.short(p.task) for p in waiting),
            step.seconds)
        for part in waiting:
            if part.task not in self._answers.silent:
                self.edges[at].append(("part", part.task, session, number))
            else:
                self._is_mute(at, part.task)

    def _of_part(self, at):
        task, session, number = at[1:]
        if self._is_mute(at, task):
            return
        if (session, number) not in self._answers.reports[task].runs:
            self._not_running(at, task, session, number)
            return
        self._leaves(at, task, session, number)

    def _of_within(self, at):
        task, session, number, outer = at[1:]
        run = self._answers.reports[task].runs[session, number]
        self._leaves(at, task, session, number, ids=run.within(outer))

    def _not_running(self, at, task, session, number):
        entry = self._answers.reports[task].steps.get((session, number))
        if entry is not None and entry.begun:
            self._end(at, "answer", task, f"{task} is done with its part of step {number}, but its "
                      "answer did not arrive")
            return
        early = ", though tensors for it wait there" if entry is not None else ""
        self._end(at, "unbegun", task, f"{task} never began step {number}{early}: the request to "
                  "run it was lost, or it ended and its answer was")

    def _leaves(self, at, task, session, number, names=None, ids=None):
        """What a part waits for; names: only these nodes; ids: only what runs by these."""
        run = self._answers.reports[task].runs[session, number]
        calls = [c for c in run.calls if (names is None or c.node in names)
                 and (ids is None or c.id in ids)]
        keys = self._keys_of(task, session, number)
        for call in calls:
            self._lead_on(at, task, session, number, run, call, keys)
        computing = run.running(names, ids)
        if computing is not None:
            node, op = computing
            self._end(at, "kernel", task, f"{task} computes {self._answers.node(session, node, op)}"
                      " or what follows it")
        elif not calls and names is None and ids is None:
            self._end(at, "idle", task, f"{task} has step {number} under way and " + (
                "no thread of its pool takes it up" if run.is_ready() else
                "nothing in it can be named"))

    def _lead_on(self, at, task, session, number, run, call, keys):
        """An edge to what a call waits for."""
        if call.node in keys:
            self.edges[at].append(("key", task, session, number, keys[call.node]))
        elif call.role == RECEIVES:
            self.edges[at] += [("key", task, session, number, row.key)
                               for row in self._answers.awaited(task, session, number)]
        elif self._answers.carried(session, call.node) is not None:
            self.edges[at].append(("edge", task, session, number, call.node))
        elif call.role == CALLS and run.within(call.id):
            self.edges[at].append(("within", task, session, number, call.id))
        else:
            self.edges[at].append(("call", task, session, number, call.node))

    def _keys_of(self, task, session, number):
        """{node that receives: its key} of those that a step waits for there."""
        found = {}
        for row in self._answers.awaited(task, session, number):
            edge = self._answers.sent(session, row.key)
            if edge is not None:
                found[edge.recv] = row.key
        return found

    # ------------------------------------------------------------ tensors between parts

    def _of_key(self, at):
        task, session, number, text = at[1:]
        row = next(k for k in self._answers.awaited(task, session, number) if k.key == text)
        edge = self._answers.sent(session, text)
        if edge is None:
            self.rows[at] = Row(task_names.short(task), f"key {text[:80]}", "?", row.seconds)
            self._end(at, "unknown", task, f"{task} waits for key {text[:200]!r}, of which no "
                      "session's plans know")
            return
        self._receives(at, task, session, number, edge, row.seconds)

    def _of_edge(self, at):
        """A node of a pair whose kernels wait by themselves, or one that has no room to send."""
        task, session, number, node = at[1:]
        edge = self._answers.carried(session, node)
        call = self._call(task, session, number, node)
        if node == edge.recv:
            self._receives(at, task, session, number, edge, call.seconds)
            return
        what = f"room for tensor {edge.tensor}" if call.role == SENDS else f"tensor {edge.tensor}"
        self.rows[at] = Row(task_names.short(task), what, task_names.short(edge.to), call.seconds)
        if self._is_mute(at, edge.to):
            return
        if (session, number) in self._answers.reports[edge.to].runs:
            self.edges[at].append(("part", edge.to, session, number))
            return
        self._end(at, "full", edge.to, f"{edge.to} does not take in tensor {edge.tensor} of {task} "
                  f"({self._answers.node(session, node)})")

    def _receives(self, at, task, session, number, edge, seconds):
        whom = task_names.short(edge.task)
        if edge.task != task:
            whom += f" {self._answers.node(session, edge.send)}"
        self.rows[at] = Row(task_names.short(task), f"tensor {edge.tensor}", whom, seconds)
        if not self._is_mute(at, edge.task):
            self._sender(at, task, edge, session, number)

    def _sender(self, at, to, edge, session, number):
        """What is before the node that sends; or that it is over, has not begun, is not there."""
        answers = self._answers
        run = answers.reports[edge.task].runs.get((session, number))
        send = answers.node(session, edge.send)
        if run is None and not answers.began(edge.task, session, number):
            self._end(at, "unbegun", edge.task, f"{edge.task} never began step {number}, so "
                      f"{send} is not sent: the request to run it was lost, or it ended and was "
                      "forgotten there")
        elif run is not None and (edge.send in run.nodes or edge.frame and run.blocks):
            before = len(self.edges[at])
            if edge.send in run.nodes:
                self._leaves(at, edge.task, session, number, run.leaves(edge.send))
            if len(self.edges[at]) == before:
                self.edges[at].append(("part", edge.task, session, number))
        elif answers.has_sender(edge.task, session, edge.send):
            self._end(at, "lost", edge.task, f"tensor {edge.tensor} was sent by {edge.task} and did"
                      f" not arrive at {to}: it was lost on the way ({send})")
        else:
            self._end(at, "missing", edge.task, f"nothing at {edge.task} sends tensor {edge.tensor}"
                      f", for which {to} waits: its Send is missing from the plan ({send})")

    # ------------------------------------------------------------ resources and kernels

    def _call(self, task, session, number, node):
        return next(c for c in self._answers.reports[task].runs[session, number].calls
                    if c.node == node)

    def _of_call(self, at):
        task, session, number, node = at[1:]
        call = self._call(task, session, number, node)
        name = self._answers.node(session, call.node, call.op)
        resource = self._answers.reports[task].resources.get(call.resource)
        words = resource.state.get(call.role) if resource is not None else ""
        if not words:
            self.rows[at] = Row(f"{task_names.short(task)} {name}", "its kernel", "", call.seconds)
            self._end(at, "kernel", task, f"{task} has been at {name} for {call.seconds:.1f} s")
            return
        what = f"{words} {call.resource.strip('/') or '?'!r}"
        here = task_names.short(task)
        self.rows[at] = Row(f"{here} {name}", what, here, call.seconds)
        if resource.works:
            self._works(at, task, session, call, f"{name}, {what},")
        else:
            self._who_ends(at, task, call, resource, f"{what} at {task}")

    def _works(self, at, task, session, call, what):
        """What is taken is computed: functions that are called for it, else it itself."""
        if (session, 0) in self._answers.reports[task].runs:
            self.edges[at].append(("part", task, session, 0))
        else:
            self._end(at, "kernel", task, f"{task} has been at {what} for {call.seconds:.1f} s")

    def _who_ends(self, at, task, call, resource, what):
        """Who could end the wait: replicas, of which each is looked at; else those under way lead
        on, else that nobody does is the end."""
        role = TAKES if call.role == PUTS else PUTS
        partners = [p for p in self._answers.partners.get(call.resource, ())
                    if p.role == role and p.node != call.node]
        replicas = self.replicas.at(at, task, call, resource, role, what, partners)
        if replicas is not None:
            self.edges[at] += replicas
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
                  f"{text}; waiting: {self._answers.node(0, call.node, call.op)}")

    def _those_under_way(self, at, partners):
        led = False
        for other, report in self._answers.reports.items():
            for (session, number), run in report.runs.items():
                for partner in partners:
                    if partner.node in run.nodes and not any(
                            c.node == partner.node for c in run.calls):
                        before = len(self.edges[at])
                        self._leaves(at, other, session, number, run.leaves(partner.node))
                        led = led or len(self.edges[at]) > before
        return led

    def _holders(self, at, task, call, what):
        """Who took it has to give it back: other steps of the task that are at something."""
        for (session, number), run in self._answers.reports[task].runs.items():
            if not any(c.node == call.node and c.resource == call.resource for c in run.calls):
                for c in run.calls:
                    self._lead_on(at, task, session, number, run, c, {})
        if not self.edges[at]:
            users = {p.node for p in self._answers.partners.get(call.resource, ())} - {call.node}
            self._end(at, "held", task, f"{what} is held by a step that is over or gone; waiting: "
                      f"{self._answers.node(0, call.node, call.op)}" + (
                          f"; others that use it: {', '.join(sorted(users)[:3])}" if users else ""))

    def _of_replica(self, at):
        """What a replica is at."""
        master, client = at[3:5]
        if self._is_mute(at, master):
            return
        self.edges[at] += self.replicas.steps_of(at)
        if not self.edges[at]:
            self._end(at, "away", master, f"no step of {client or master} is under way: its "
                      "program is at something else, or has not begun")
