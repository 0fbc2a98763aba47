"""Chains of waits, from answers that are written here: where do they end?"""
import pytest

from pyflow.distributed.look import asking, why
from pyflow.distributed.look.wait_reports import CALLS, PUTS, RECEIVES, SENDS, TAKES
from pyflow.distributed.wire import messages

A, B, C = (f"/job:{t}/replica:0/task:0" for t in ("a", "b", "c"))
KEY = "{0}/device:CPU:0;00000000000000ff;{1}/device:CPU:0;part_edge_3_{2}:0;:0"


class Asker:
    """An asking.Asker whose tasks answer what they are told to."""

    def __init__(self, replies, partners=(), places=(), unknown=(), ends=()):
        self.replies, self.partners, self.places, self.ends = replies, partners, places, ends
        self.unknown, self.addresses = unknown, dict.fromkeys(replies, "host:1")

    def ask_all(self, call, request, tasks=None):
        return {t: self.replies[t] for t in (self.replies if tasks is None else tasks)}

    def ask(self, task, call, request):
        reply = messages.WaitsResponse()
        for key in request.key:
            source, _, _, name, _ = key.split(";")
            tensor = name.removeprefix("part_edge_3_")
            node = tensor.removesuffix(":0")
            reply.edge.add(key=key, task=source.partition("/device")[0], tensor=tensor,
                           send=f"{node}/_part_send_3", recv=f"{node}/_part_recv_3")
        for edge in self.ends:
            if {edge["send"], edge["recv"]}.intersection(request.end):
                reply.edge.add(**edge)
        reply.known.extend(name not in self.unknown for name in request.sender)
        for node, op, line in self.places:
            if node in request.node:
                reply.place.add(node=node, op=op, line=line)
        for resource, node, op, *role in self.partners:
            if resource in request.resource:
                reply.partner.add(resource=resource, node=node, op=op, line="user.py:7", session=9,
                                  role=role[0] if role else PUTS)
        return reply


def task(*rows, steps=(), session=9, sessions=()):
    """A WaitsResponse.  rows: (kind, fields); steps: (step, {task: (begun, ended)}) of this master's;
    sessions: (number, master)."""
    reply = messages.WaitsResponse()
    for kind, fields in rows:
        row = getattr(reply, kind).add(**fields)
        for field, usual in (("session", 9), ("step", 1), ("id", 1), ("seconds", 2.0)):
            if field in row.DESCRIPTOR.fields_by_name and field not in fields:
                setattr(row, field, usual)
    for step, parts in steps:
        found = reply.step.add(session=session, step=step, seconds=3.0, fetch=["y:0"])
        for name, (begun, ended) in parts.items():
            found.part.add(task=name, begun=begun, ended=ended)
    for number, master in sessions:
        reply.session.add(number=number, master=master)
    return reply


def begun(step=1, session=9):
    return "open", dict(step=step, session=session, begun=True)


def under_way(node, op, before=None, resource="", role=0, **of):
    """Rows of a call that waits; before: (node, op, its block) that follow it."""
    rows = [("run", dict(nodes=5, **of)),
            ("call", dict(node=node, op=op, resource=resource, role=role, **of)),
            ("block", dict(node=node, op=op, missing=-1, successor=[1] if before else [], **of)),
            ("node", dict(node=node, op=op, **of))]
    if before:
        rows += [("block", dict(node=before[0], op=before[1], number=1, missing=1, **of)),
                 ("node", dict(node=before[0], op=before[1], block=1, **of))]
    return rows


def recv(source, to, tensor, step=1, before=None):
    """Rows of a task that waits for a tensor."""
    return (begun(step), ("key", dict(key=KEY.format(source, to, tensor), awaited=True, step=step)),
            *under_way(f"{tensor}/_part_recv_3", "_Recv", before, role=RECEIVES, step=step))


def first(replies, **how):
    found = why.explain(Asker(replies, **how), (9, 1), set(replies))
    return found.split("\n")[0], found


WAITS = {A: (True, False), B: (True, False)}


def test_a_silent_task_ends_every_chain():
    silent = asking.Silent(C, "host:3", "its process 12 is stopped")
    chain = {A: task(*recv(B, A, "y"), steps=[(1, {**WAITS, C: (True, False)})]),
             B: task(*recv(C, B, "x"), ("block", dict(node="y/_part_send_3", op="_net.Send",
                                                      number=1, missing=1)),
                     ("node", dict(node="y/_part_send_3", op="_net.Send", block=1))), C: silent}
    text, whole = first(chain)
    assert text == f"{C} at host:3 does not answer: its process 12 is stopped"
    assert "client of a/0" in whole and "tensor x:0" in whole


@pytest.mark.parametrize("rows, unknown, expected", [
    ((), (), f"{B} never began step 1, so .* is not sent"),
    ((("open", dict(begun=False)),), (), f"{B} never began step 1"),
    ((begun(),), (), f"tensor x:0 was sent by {B} and did not arrive at {A}"),
    ((begun(),), ("x/_part_send_3",), f"nothing at {B} sends tensor x:0"),
])
def test_what_became_of_a_tensor(rows, unknown, expected):
    import re
    replies = {A: task(*recv(B, A, "x"), steps=[(1, {A: (True, False), B: (True, True)} if "sent"
                                                 in expected and "not sent" not in expected else
                                                 {A: (True, False)})]), B: task(*rows)}
    text, whole = first(replies, unknown=unknown,
                        places=[("x/_part_send_3", "x", "user.py:5")])
    assert re.match(expected, text), whole
    assert "'x' made at user.py:5" in text


def queue(op, resource, step=1, session=9, **state):
    """Rows of a task where a dequeue waits."""
    return (begun(step, session), ("resource", dict(name=resource, **{
        "takes": "empty queue", "puts": "full queue", **state})),
            *under_way(f"my/{op}", op, resource=resource, role=TAKES, step=step, session=session))


def test_a_queue_and_who_would_fill_it():
    replies = {A: task(*queue("QueueDequeueV2", "/q"), steps=[(1, {A: (True, False)})])}
    text, _ = first(replies)
    assert text.startswith(f"empty queue 'q' at {A}: nothing fills it, in no session's graph")
    text, _ = first(replies, partners=[("/q", "put", "QueueEnqueueV2"),
                                       ("/q", "size", "QueueSize", 0)])
    assert "this would: QueueEnqueueV2 'put' made at user.py:7;" in text and "size" not in text


def test_the_filler_leads_on():
    """Its enqueue is under way in another step, and waits for what was lost."""
    replies = {A: task(*queue("QueueDequeueV2", "/q"),
                       *recv(B, A, "x", 2, before=("put", "QueueEnqueueV2")),
                       steps=[(1, {A: (True, False)}), (2, {A: (True, False), B: (True, True)})]),
               B: task(begun(2))}
    text, whole = first(replies, partners=[("/q", "put", "QueueEnqueueV2")])
    assert text.startswith("tensor x:0 was sent by"), whole


def test_a_circle():
    def half(step, takes, puts):
        return (begun(step), ("resource", dict(name=takes, takes="empty queue")),
                *under_way(f"take{takes}", "QueueDequeueV2", (f"put{puts}", "QueueEnqueueV2"), takes,
                           TAKES, step=step))
    replies = {A: task(*half(1, "/p", "/q"), *half(2, "/q", "/p"),
                       steps=[(1, {A: (True, False)}), (2, {A: (True, False)})])}
    partners = [(f"/{k}", f"{what}/{k}", op, role) for k in "pq" for what, op, role in (
        ("put", "QueueEnqueueV2", PUTS), ("take", "QueueDequeueV2", TAKES))]
    text, whole = first(replies, partners=partners)
    assert text.startswith("a circle: ") and "'p'" in text and "'q'" in text, whole


def test_a_kernel_that_runs():
    rows = (begun(), ("run", {}), ("block", dict(node="big", op="MatMul", missing=-1)))
    text, _ = first({A: task(*rows, steps=[(1, {A: (True, False)})])},
                    places=[("big", "big", "user.py:3")])
    assert text == f"{A} computes MatMul 'big' made at user.py:3 or what follows it"


# ---------------------------------------------------------------- replicas
W = [f"/job:w/replica:0/task:{k}" for k in range(3)]


def waits_at(resource, session, op="Take", **state):
    """Rows of the task of a resource at which a step of a session waits."""
    return queue(op, resource, session=session, **state)


def puts(resource, session, node="give"):
    """The lower the session's number, the later."""
    return "use", dict(resource=resource, session=session, node=node, op="Give", role=PUTS, times=3,
                       seconds=session - 9.0)


def sums(*givers, needed=2, there=1, sources=()):
    """The task of an accumulator for which session 10, of w/0, waits."""
    return task(*waits_at("/sums", 10, takes=f"sum of {there} of {needed}", there=there,
                          needed=needed), *(puts("/sums", s) for s in givers),
                *(("source", dict(resource="/sums", number=n)) for n in sources),
                sessions=[(10 + k, w) for k, w in enumerate(W)])


def master(k, *rows, at=None):
    """w/k, whose session 10 + k has a step under way there or at another task; None: it has none."""
    steps = [(1, {at or W[k]: (True, False)})] if at or rows else []
    return task(*rows, steps=steps, session=10 + k, sessions=[(10 + k, W[k])])


def whom(replies):
    found = why._why(Asker(replies), replies, None, 0.0)
    return found.culprits[0], found.text()


def test_a_replica_that_does_nothing():
    """w/1 has no step under way, and has given before."""
    replies = {A: sums(10, 11, sources=[0]), W[0]: master(0, at=A), W[1]: master(1)}
    culprit, text = whom(replies)
    assert culprit.kind == "replica" and culprit.task == W[1], text
    assert text.startswith(f"{W[1]} keeps others waiting, at sum of 1 of 2 'sums' at {A}, which it "
                           "fills: last 2.0 s ago by Give 'give'; no step of"), text


def test_a_replica_that_never_came():
    culprit, text = whom({A: sums(10, sources=[0]), W[0]: master(0, at=A), W[1]: master(1)})
    assert culprit.task == W[1] and "has put nothing yet" in text


def test_a_replica_whose_process_is_gone():
    """Not a task that nobody needs."""
    replies = {A: sums(10, 11), W[0]: master(0, at=A),
               W[1]: asking.Silent(W[1], "h:1", "no process"), C: asking.Silent(C, "h:2", "no process")}
    culprit, text = whom(replies)
    assert culprit.task == W[1] and "does not answer: no process" in text.split("\n")[0]


def test_a_replica_that_computes():
    rows = [("open", dict(begun=True, session=11)), ("run", dict(session=11)),
            ("block", dict(node="slow", op="PyFunc", missing=-1, session=11))]
    culprit, text = whom({A: sums(10, 11), W[0]: master(0, at=A), W[1]: master(1, *rows)})
    assert culprit.task == W[1] and f"{W[1]} computes PyFunc 'slow'" in text.split("\n")[0]


def test_a_deadline_of_a_step_asks_the_replicas_too():
    """They take no part in the step that is late."""
    rows = [("open", dict(begun=True, session=11)), ("run", dict(session=11)),
            ("block", dict(node="slow", op="PyFunc", missing=-1, session=11))]
    replies = {A: sums(10, 11), W[0]: master(0, at=A), W[1]: master(1, *rows)}
    text = why.explain(Asker(replies), (10, 1), {A, W[0]})
    assert text.startswith(f"{W[1]} keeps others waiting") and "PyFunc 'slow'" in text, text


def test_a_replica_at_an_empty_queue_of_another_task():
    """It is named, not the task of the queue."""
    replies = {A: sums(10, 11), W[0]: master(0, at=A), W[1]: master(1, at=B),
               B: task(*queue("QueueDequeueV2", "/input", session=11))}
    culprit, text = whom(replies)
    assert culprit.task == W[1] and f"empty queue 'input' at {B}: nothing" in text.split("\n")[0]


def test_those_that_wait_for_the_last_are_not_it():
    """w/1 has given and waits at a gate that the chief opens; w/2 is at a kernel."""
    at_gate = queue("Next", "/gate", session=11, takes="gate shut")
    rows = [("open", dict(begun=True, session=12)), ("run", dict(session=12)),
            ("block", dict(node="slow", op="MatMul", missing=-1, session=12))]
    both = task(*waits_at("/sums", 10, takes="sum of 2 of 3", there=2, needed=3), *at_gate,
                *(puts("/sums", 10 + k) for k in range(3)), puts("/gate", 10, "open"),
                sessions=[(10 + k, w) for k, w in enumerate(W)])
    for order in (1, -1):
        replies = dict(list({A: both, W[0]: master(0, at=A), W[1]: master(1, at=A),
                             W[2]: master(2, *rows)}.items())[::order])
        culprit, text = whom(replies)
        assert culprit.task == W[2] and culprit.steps == 2, text


def test_a_client_that_is_no_task():
    """Its master is alive and has others' sessions, too."""
    host = task(*waits_at("/sums", 10, takes="sum"), puts("/sums", 11), session=10,
                steps=[(1, {A: (True, False)})])
    host.session.add(number=10, master=A, client="process 1 on h")
    host.session.add(number=11, master=A, client="process 2 on h")
    culprit, text = whom({A: host})
    assert text.startswith(f"process 2 on h, a client of {A}, keeps others waiting"), text


def test_one_session_alone_has_no_replicas():
    """What it put itself does not make it one that others wait for."""
    replies = {A: task(*queue("QueueDequeueV2", "/q"), puts("/q", 9), steps=[(1, {A: (True, False)})],
                       sessions=[(9, A)])}
    text, _ = first(replies, partners=[("/q", "put", "QueueEnqueueV2")])
    assert text.startswith(f"empty queue 'q' at {A}: nothing that runs fills it; this would:")


def test_what_a_process_would_do_itself_makes_it_no_replica():
    """Steps of a server's own process have no session; the graph's session is its own, too: who
    waits for a token waits for who waits for sums, and is not what that waits for."""
    def at(resource, step, session, *more):
        return (begun(step, session), ("resource", dict(name=resource, takes=resource[1:])),
                *under_way(f"take{resource}", "Take", *more, resource=resource, role=TAKES,
                           step=step, session=session))
    replies = {A: task(*at("/sums", 7, 0, ("let", "Put")), *at("/token", 8, 0),
                       sessions=[(9, A)])}
    partners = [("/sums", "give", "Give"), ("/token", "let", "Put")]
    found = why._why(Asker(replies, partners), replies, None, 0.0)
    assert [c.kind for c in found.culprits] == ["empty"], found.text()
    assert "this would: Give 'give' made at user.py:7" in found.text()


def test_a_lock_is_given_back_by_who_has_it():
    replies = {A: task(*queue("Lock", "/m", takes="lock", held=True),
                       *under_way("slow", "PyFunc", step=2), begun(2),
                       steps=[(1, {A: (True, False)}), (2, {A: (True, False)})])}
    text, whole = first(replies)
    assert text.startswith(f"{A} has been at PyFunc 'slow' for"), whole


# ---------------------------------------------------------------- what is at no resource
EDGE = dict(task=B, to=A, send="x/_send", recv="x/_recv", tensor="x:0")


def test_a_pair_whose_kernels_wait_by_themselves():
    """Its Recv waits under no key; what comes before its Send is the culprit."""
    replies = {A: task(begun(), *under_way("x/_recv", "acme.Get"), steps=[(1, WAITS)]),
               B: task(begun(), *under_way("slow", "PyFunc", before=("x/_send", "acme.Give")))}
    text, whole = first(replies, ends=[EDGE], places=[("x/_send", "x", "user.py:5")])
    assert text == f"{B} has been at PyFunc 'slow' for 2.0 s", whole
    assert "tensor x:0" in whole and "b/0 'x' made at user.py:5" in whole


def test_a_tensor_for_which_there_is_no_room():
    replies = {A: task(steps=[(1, {B: (True, False)})]),
               B: task(begun(), *under_way("x/_send", "_net.Send", role=SENDS))}
    text, whole = first(replies, ends=[EDGE])
    assert text.startswith(f"{A} does not take in tensor x:0 of {B}"), whole
    assert "room for tensor x:0" in whole


def test_a_function_is_waited_for_by_what_it_waits_for():
    within = [("run", dict(id=2, depth=1)), ("call", dict(id=2, node="inner", op="PyFunc"))]
    replies = {A: task(begun(), *under_way("f", "PartitionedCall", role=CALLS), *within,
                       steps=[(1, {A: (True, False)})])}
    text, whole = first(replies)
    assert text == f"{A} has been at PyFunc 'inner' for 2.0 s" and "also" not in whole, whole


@pytest.mark.parametrize("functions", [True, False])
def test_an_iterator_works_itself(functions):
    """Functions that its pipeline calls are of no step."""
    calls = [("run", dict(step=0)), ("call", dict(step=0, node="map", op="PyFunc"))] * functions
    replies = {A: task(*queue("Next", "/it", takes="next element of iterator", works=True), *calls,
                       steps=[(1, {A: (True, False)})])}
    text, whole = first(replies)
    assert text == (f"{A} has been at PyFunc 'map' for 2.0 s" if functions else
                    f"{A} has been at Next 'my/Next', next element of iterator 'it', for 2.0 s")


def test_nobody_waits():
    assert why.of_cluster(type("Seen", (), {"asker": Asker({A: task()})})).text() == "nobody waits"
