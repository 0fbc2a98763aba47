"""What one task knows of who waits: its steps, from the core; the steps it is master of; where the
graphs of its sessions were made.  why.py joins the answers of all tasks.

    rows      the core's glance (core/host/glance.pyx): steps, keys, runs, calls, blocks, nodes, and
              what the resources at which calls wait say of themselves, and who used them
    steps     of sessions whose master is here: which tasks' parts began and ended
    sessions  open here, or of late: whose they are
    known     asked for a session: is a sender in one of its plans here
    edges     asked for a session: what is sent under keys, by which node; what nodes send, receive
    places    asked for a session: the user's operation and line of nodes
    partners  asked for a resource: who reads and writes it, in the graphs of sessions here

Invariants
1. Nothing of it is asked for, or paid for, while steps run: the plans' tables are made when asked.

Threads: any; the sessions' tables are read while they change.
"""
from pyflow.distributed.wire import messages

_LARGEST = 4096                         # names asked for at once


def answer(worker, request):
    """The WaitsResponse of a worker's task."""
    reply = messages.WaitsResponse(task=worker.name, incarnation=worker.incarnation)
    links = list(worker.place.sessions) if worker.place is not None else []
    if not (request.sender or request.node or request.resource or request.key or request.end):
        for kind, fields in worker.task.glance():
            _add_row(reply, kind, fields)
        for link in links:
            for step in link.running():
                _add_step(reply, link, step)
        for number, master in worker.masters():
            reply.session.add(number=number, master=master)
        for link in links:
            reply.session.add(number=link.number, master=worker.name, client=link.client)
        return reply
    for key in request.key[:_LARGEST]:
        _add_edge(reply, key, request.session, links)
    _add_ends(reply, request.end[:_LARGEST], request.session, links)
    names = _nodes_of(worker, request.session, links) if request.sender else ()
    reply.known.extend(name in names for name in request.sender[:_LARGEST])
    for name in request.node[:_LARGEST]:
        _add_place(reply, name, request, links)
    for name in request.resource[:_LARGEST]:
        for link in links:
            _add_partners(reply, name, link, worker.kernel_table())
    return reply


# ---------------------------------------------------------------- the core's rows

_OPEN, _AWAITED = 2, 2                  # of a step's and a key's row (core/host/host.h)
_HELD, _WORKS = 1, 2                    # PF_WAIT_HELD, PF_WAIT_WORKS of kernel.h


def _add_row(reply, kind, fields):
    """A row of a glance, whose fields are the message's but for numbers that mean something."""
    if kind == "cut":
        reply.cut = True
    elif kind == "step":
        reply.open.add(begun=fields.pop("state") == _OPEN, **fields)
    elif kind == "key":
        reply.key.add(awaited=fields.pop("state") == _AWAITED, **fields)
    elif kind == "resource":
        flags = fields.pop("flags")
        reply.resource.add(held=flags & _HELD != 0, works=flags & _WORKS != 0, **fields)
    else:
        getattr(reply, kind).add(**fields)


# ---------------------------------------------------------------- steps and plans

def _add_step(reply, link, step):
    found = reply.step.add(session=link.number, step=step.number, seconds=step.age(),
                           fetch=step.names[:20])
    for task, begun, ended in step.parts():
        found.part.add(task=task, begun=begun, ended=ended)


def _nodes_of(worker, session, links):
    """The names of all nodes in a session's plans here."""
    plans = worker.plans_of(session)
    for link in links:
        if link.number == session:
            for step in link.running():
                plans += step.own_plans()
    return {node[0] for plan in plans for node in plan.trace_table()["nodes"]}


# ---------------------------------------------------------------- graphs of the sessions here

def _add_place(reply, name, request, links):
    own = [link for link in links if link.number == request.session] or links
    for link in own:
        op = operation(link, name)
        if op is not None:
            reply.place.add(node=name, op=op.name, line=str(op.user_frame))
            return


def operation(link, name):
    """The user's operation that a node of one of a session's plans is, or serves."""
    for graph, origins in link.graphs():
        op = origins.get(name) or graph._nodes_by_name.get(name)
        if op is not None:
            return op
    return None


def _add_edge(reply, key, session, links):
    for link in links:
        found = link.edge_of(key) if link.number == session else None
        if found is not None:
            _add_found(reply, key, found)


def _add_ends(reply, names, session, links):
    for link in links:
        if link.number == session:
            for found in link.edges_at(names).values():
                _add_found(reply, "", found)


def _add_found(reply, key, found):
    reply.edge.add(key=key, task=found.source, to=found.destination, send=found.edge.send,
                   recv=found.edge.recv, tensor=found.edge.tensor, frame=found.frame)


def _add_partners(reply, resource, link, kernels):
    """Every operation that gets the handle of a resource, "container/name", or is it."""
    for graph, _ in link.graphs():
        for op in graph.get_operations():
            shared = op.attrs.get("shared_name")
            if shared is None or resource != \
                    f"{op.attrs.get('container') or ''}/{shared or op.name}":
                continue
            for user in _users(op):
                reply.partner.add(resource=resource, node=user.name, op=user.type,
                                  line=str(user.user_frame), device=user.device or op.device,
                                  session=link.number, role=kernels.role(user.type))


def _users(op):
    """The readers of a handle; the op itself if it makes none."""
    if op.outputs and not op.inputs and (op.outputs[0].dtype._is_ref_dtype
                                         or op.outputs[0].dtype.name == "resource"):
        return [reader for output in op.outputs for reader in output.consumers()]
    return [op]
