"""Replicas that keep others waiting: several sessions use a resource at which somebody waits, and
each of them that could end the wait is looked at by itself.

    REPLICA     of several who put into a queue, an accumulator or the like: absent, late, stuck
    AWAY        it has no step under way; the end of its chain, no culprit of its own

Invariants
1. A replica that itself waits for another one is none: the last one is.

Threads: objects of whoever asked.  Callers: why_chains.py, why.py.
"""
from typing import NamedTuple

from pyflow.distributed.look import why_paths
from pyflow.distributed.look.wait_reports import PUTS
from pyflow.distributed.wire import task_names


class Late(NamedTuple):
    """A replica at a resource.  use: its last of it (UseRow), or None; what: one waits for there;
    role: how it would end the wait."""

    use: object
    what: str
    role: int


class Replicas:
    """Of some Answers.  late: {node of chains: Late}; a node: ("replica", task of the resource,
    resource, master, client, session and step that wait)."""

    def __init__(self, answers):
        self._answers, self.late = answers, {}

    def at(self, at, task, call, resource, role, what, partners):
        """The nodes of those that could end the wait of a call, ("call", task, session, step,
        node); None: no other session uses the resource, or is to."""
        owner_of = self._answers.owner
        session, number = at[2:4]
        own = owner_of(session) if session else (task, "")      # a step of the task's own process
        users = {}
        for use in resource.uses:
            if use.role == role:
                owner = owner_of(use.session) or (f"session {use.session:016x}", "")
                if owner not in users or use.seconds < users[owner].seconds:
                    users[owner] = use
        absent = self._absent(users, own, resource) if role == PUTS else []
        if not users and not absent:            # nobody has yet: those in whose graphs it stands
            absent = {owner_of(p.session) for p in partners if p.session != session} - {None, own}
        if not absent and all(use.session == session for use in users.values()):
            return None
        late = self._without_those_that_came(users, resource, bool(absent))
        found = []
        for owner, use in [*late.items(), *((owner, None) for owner in sorted(absent))]:
            found.append(("replica", task, call.resource, *owner, session, number))
            self.late[found[-1]] = Late(use, what, role)
        return found

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
        return [(task, "") for task in sorted(self._answers.asker.addresses, key=task_names.order)
                if task_names.parts(task)[0] in jobs and (task, "") not in users]

    def steps_of(self, node):
        """The nodes of what a replica is at, other than the step that waits for it."""
        answers = self._answers
        owner, waiting = node[3:5], node[5:]
        found = [("client", *key) for key in answers.masters
                 if answers.owner(key[0]) == owner and key != waiting]
        for task, report in answers.reports.items():
            for key in report.runs:
                mine = answers.owner(key[0]) == owner if key[0] else task == owner[0]
                if mine and key not in answers.masters and key != waiting:
                    found.append(("part", task, *key))
        return found

    # ------------------------------------------------------------ culprits

    def culprits(self, edges, ends, rank):
        """[(nodes, task, text)] of those that do not themselves wait for another one.  edges, ends:
        of the chains; rank: of a kind of end, the one to tell of first the least."""
        found = {}
        for node in self.late:
            reached = why_paths.ends_without(edges, ends, node, lambda at: at[0] == "replica")
            if reached:
                best = min((ends[end] for end in reached), key=lambda e: (rank(e[0]), e))
                found.setdefault(node[3:5], []).append((node[2], node, best))
        return [self._culprit(sorted(where)) for where in found.values()]

    def _culprit(self, where):
        _, node, best = where[0]
        master, client = node[3:5]
        use, what, role = self.late[node]
        who = f"{client}, a client of {master}," if client else master
        did, does = ("put", "fills") if role == PUTS else ("taken", "empties")
        last = (f"last {use.seconds:.1f} s ago by "
                f"{self._answers.node(use.session, use.node, use.op)}"
                if use is not None else f"it has {did} nothing yet")
        more = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
        text = f"{who} keeps others waiting, at {what}{more}, which it {does}: {last}; {best[2]}"
        return [n for _, n, _ in where], master, text
