"""Chains of waits, from answers that are written here: where do they end?"""
import pytest

from pyflow.distributed import look, messages, why

A, B, C = (f"/job:{t}/replica:0/task:0" for t in ("a", "b", "c"))
KEY = "{0}/device:CPU:0;00000000000000ff;{1}/device:CPU:0;part_edge_3_{2}:0;:0"


class Asker:
    """A look.Asker whose tasks answer what they are told to."""

    def __init__(self, replies, partners=(), places=(), unknown=()):
        self.replies, self.partners, self.places = replies, partners, places
        self.unknown, self.addresses = unknown, dict.fromkeys(replies, "host:1")

    def ask_all(self, call, request, tasks=None):
        return {t: self.replies[t] for t in (self.replies if tasks is None else tasks)}

    def ask(self, task, call, request):
        reply = messages.WaitsResponse()
        reply.known.extend(name not in self.unknown for name in request.sender)
        for node, op, line in self.places:
            if node in request.node:
                reply.place.add(node=node, op=op, line=line)
        for resource, node, op in self.partners:
            if resource in request.resource:
                reply.partner.add(resource=resource, node=node, op=op, line="user.py:7")
        return reply


def task(*rows, steps=()):
    """A WaitsResponse.  rows: (kind, texts, a, b); steps: (step, {task: (begun, ended)})."""
    reply = messages.WaitsResponse()
    for kind, texts, a, b, *step in rows:
        reply.row.add(kind=kind, session=9, step=step[0] if step else 1, id=1, seconds=2.0, a=a,
                      b=b, text=[*texts, "", "", ""][:3])
    for step, parts in steps:
        found = reply.step.add(session=9, step=step, seconds=3.0, fetch=["y:0"])
        for name, (begun, ended) in parts.items():
            found.part.add(task=name, begun=begun, ended=ended)
    return reply


def recv(source, to, tensor, *step):
    """Rows of a task that waits for a tensor."""
    key = KEY.format(source, to, tensor)
    name = f"{tensor}/_part_recv_3"
    return (("step", (), 2, 0, *step), ("key", (key,), 2, 0, *step), ("run", (), 5, 0, *step),
            ("call", (name, "_Recv"), 0, 0, *step), ("block", (name, "_Recv"), 0, -1, *step),
            ("node", (name, "_Recv"), 0, 0, *step))


def first(replies, **how):
    found = why.explain(Asker(replies, **how), (9, 1), set(replies))
    return found.split("\n")[0], found


WAITS = {A: (True, False), B: (True, False)}


def test_a_silent_task_ends_every_chain():
    silent = look.Silent(C, "host:3", "its process 12 is stopped")
    chain = {A: task(*recv(B, A, "y"), steps=[(1, {**WAITS, C: (True, False)})]),
             B: task(*recv(C, B, "x"), ("block", ("y/_part_send_3", "_net.Send"), 1, 1),
                     ("node", ("y/_part_send_3", "_net.Send"), 1, 0)), C: silent}
    text, whole = first(chain)
    assert text == f"{C} at host:3 does not answer: its process 12 is stopped"
    assert "client of a/0" in whole and "tensor x:0" in whole


@pytest.mark.parametrize("rows, unknown, expected", [
    ((), (), f"{B} never began step 1, so .* is not sent"),
    ((("step", (), 1, 0),), (), f"{B} never began step 1"),
    ((("step", (), 2, 0),), (), f"tensor x:0 was sent by {B} and did not arrive at {A}"),
    ((("step", (), 2, 0),), ("x/_part_send_3",), f"nothing at {B} sends tensor x:0"),
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


def queue(op, resource, *step):
    return (("step", (), 2, 0, *step), ("run", (), 5, 0, *step),
            ("call", (f"my/{op}", op, resource), 0, 0, *step),
            ("block", (f"my/{op}", op, "1"), 0, -1, *step), ("node", (f"my/{op}", op), 0, 0, *step))


def test_a_queue_and_who_would_fill_it():
    replies = {A: task(*queue("QueueDequeueV2", "/q"), steps=[(1, {A: (True, False)})])}
    text, _ = first(replies)
    assert text.startswith(f"empty queue 'q' at {A}: nothing fills it, in no session's graph")
    text, _ = first(replies, partners=[("/q", "put", "QueueEnqueueV2"),
                                       ("/q", "size", "QueueSize")])
    assert "this would: QueueEnqueueV2 'put' made at user.py:7;" in text and "size" not in text


def test_the_filler_leads_on():
    """Its enqueue is under way in another step, and waits for what was lost."""
    put = (("block", ("put", "QueueEnqueueV2"), 1, 1, 2),
           ("node", ("put", "QueueEnqueueV2"), 1, 0, 2))
    before = tuple(row if row[0] != "block" else ("block", (*row[1], "1"), 0, -1, 2)
                   for row in recv(B, A, "x", 2))
    replies = {A: task(*queue("QueueDequeueV2", "/q"), *before, *put,
                       steps=[(1, {A: (True, False)}), (2, {A: (True, False), B: (True, True)})]),
               B: task(("step", (), 2, 0, 2))}
    text, whole = first(replies, partners=[("/q", "put", "QueueEnqueueV2")])
    assert text.startswith("tensor x:0 was sent by"), whole


def test_a_circle():
    def half(step, takes, puts):
        return (*queue("QueueDequeueV2", takes, step)[:2],
                ("call", (f"take{takes}", "QueueDequeueV2", takes), 0, 0, step),
                ("block", (f"take{takes}", "QueueDequeueV2", "1"), 0, -1, step),
                ("node", (f"take{takes}", "QueueDequeueV2"), 0, 0, step),
                ("block", (f"put{puts}", "QueueEnqueueV2"), 1, 1, step),
                ("node", (f"put{puts}", "QueueEnqueueV2"), 1, 0, step))
    replies = {A: task(*half(1, "/p", "/q"), *half(2, "/q", "/p"),
                       steps=[(1, {A: (True, False)}), (2, {A: (True, False)})])}
    partners = [(f"/{k}", f"{what}/{k}", op) for k in "pq" for what, op in (
        ("put", "QueueEnqueueV2"), ("take", "QueueDequeueV2"))]
    text, whole = first(replies, partners=partners)
    assert text.startswith("a circle: ") and "'p'" in text and "'q'" in text, whole


def test_a_kernel_that_runs():
    rows = (("step", (), 2, 0), ("run", (), 5, 0), ("block", ("big", "MatMul"), 0, -1))
    text, _ = first({A: task(*rows, steps=[(1, {A: (True, False)})])},
                    places=[("big", "big", "user.py:3")])
    assert text == f"{A} computes MatMul 'big' made at user.py:3 or what follows it"


def test_nobody_waits():
    assert why.of_cluster(type("Seen", (), {"asker": Asker({A: task()})})).text() == "nobody waits"
