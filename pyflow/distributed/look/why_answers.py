"""What all tasks said of their waits, by what chains of them look for (why_chains.py), and what is
asked besides: what goes over the edges at whose ends calls wait, lines of nodes, partners at
resources, whether senders exist.

Invariants
1. Only what was answered is here: a task that is silent says nothing.

Threads: objects of whoever asked.
"""
from pyflow.distributed.look import asking
from pyflow.distributed.look.wait_reports import CALLS, Report
from pyflow.distributed.wire import messages

_ASKED = 1000                           # names or keys in one question


class Answers:
    """silent: {task: Silent}; reports: {task: Report}; masters: {(session, step): (task of the
    master, MasterStep)}; partners: {resource: [PartnerMessage]}."""

    def __init__(self, asker, replies):
        self.asker = asker
        self.silent = {t: r for t, r in replies.items() if isinstance(r, asking.Silent)}
        self.reports = {t: Report(r) for t, r in replies.items() if t not in self.silent}
        self.masters = {}
        self.sessions = {}              # number: SessionRow, of who is its master if that answers
        self.partners = {}
        self._lines, self._known, self._sent, self._carried = {}, {}, {}, {}
        for task, report in self.reports.items():
            for step in report.masters:
                self.masters[step.session, step.step] = (task, step)
        for report in self.reports.values():
            for number, row in report.sessions.items():
                if row.master and (row.client or number not in self.sessions):
                    self.sessions[number] = row
        self._ask_more()

    # ------------------------------------------------------------ what is known

    def owner(self, session):
        """(its master's task, its client where that is another process) of a session; None."""
        row = self.sessions.get(session)
        return None if row is None else (row.master, row.client)

    def silence(self, task):
        """Text: that the task does not answer, and why."""
        found = self.silent[task]
        return f"{task} at {found.address} does not answer: {found.reason}"

    def node(self, session, node, op=""):
        """"MatMul 'fc/MatMul' made at train.py:3"; of what sends or receives, whose it is."""
        place, edge = self._place(session, node), self._carried.get((session, node))
        if edge is not None:            # of the two ends one may be missing
            op, place = "", place or self._place(session, edge.recv)
        if place is not None:
            return f"{op} {place.op!r} made at {place.line}".strip()
        return f"{op} {node!r}".strip()

    def _place(self, session, node):
        return self._lines.get((session, node)) or self._lines.get((0, node))

    def awaited(self, task, session, number):
        """The keys that a step waits for at a task."""
        return [k for k in self.reports[task].keys.get((session, number), ()) if k.awaited]

    def sent(self, session, key):
        """The EdgeMessage of a key; None: nobody knows it."""
        return self._sent.get((session, key))

    def carried(self, session, node):
        """The EdgeMessage of a node that sends or receives; None: it does not."""
        return self._carried.get((session, node))

    def has_sender(self, task, session, node):
        """False: the task's plans have no such node."""
        return self._known.get((task, session, node), True)

    def began(self, task, session, number):
        """The step has begun at a task that answered."""
        entry = self.reports[task].steps.get((session, number))
        if entry is not None and entry.begun:
            return True
        _, step = self.masters.get((session, number), (None, None))
        return step is not None and any(p.task == task and p.ended for p in step.part)

    # ------------------------------------------------------------ more questions

    def _ask_more(self):
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
                   for s, k in keys.items() if k for t in self._homes(s)]
                  + [(t, messages.WaitsRequest(session=s, end=sorted(n)[:_ASKED]))
                     for s, n in self._ends().items() for t in self._homes(s)])
        for (session, _), edge in [*self._sent.items(), *self._carried.items()]:
            nodes.setdefault(session, set()).update((edge.send, edge.recv))
            senders.setdefault((edge.task, session), set()).add(edge.send)
        self._ask(
            [(t, messages.WaitsRequest(session=s, node=sorted(n)[:_ASKED]))
             for s, n in nodes.items() if n for t in self._homes(s)]
            + [(t, messages.WaitsRequest(resource=sorted(resources)[:_ASKED]))
               for t in self.reports if resources]
            + [(t, messages.WaitsRequest(session=s, sender=sorted(n)[:_ASKED]))
               for (t, s), n in senders.items() if t in self.reports])

    def _ends(self):
        """{session: nodes that may be the ends of edges}: what is under way without a resource."""
        found = {}
        for report in self.reports.values():
            for (session, _), run in report.runs.items():
                names = {c.node for c in run.calls if not c.resource and c.role != CALLS}
                if names:
                    found.setdefault(session, set()).update(names)
        return found

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
            self._lines.setdefault((request.session, place.node), place)
            self._lines.setdefault((0, place.node), place)
        for edge in reply.edge:
            if edge.key:
                self._sent[request.session, edge.key] = edge
            for end in (edge.send, edge.recv):
                self._carried[request.session, end] = edge
        for partner in reply.partner:
            self.partners.setdefault(partner.resource, []).append(partner)
        for name, known in zip(request.sender, reply.known):
            self._known[task, request.session, name] = known
