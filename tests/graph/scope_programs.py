"""Random programs of nested scopes, run alike on pyflow and on TensorFlow.

A program is a list of steps; `run(tf, program)` builds it and returns, per operation, its name,
device, inputs, control inputs and colocation groups. `record_scopes.py` keeps TensorFlow's answers
in scope_answers.json; test_scope_programs.py compares.
"""

import random

NAMES = ("a", "A", "b", "a_1", "loss", "x/y", None)
SCOPES = ("s", "S", "s_1", "t", "t/u", "s/", "t/", None, "", "1x")
DEVICES = ("/cpu:0", "/gpu:1", "/job:ps", "/job:worker/task:3", "/replica:2/device:GPU:0", "", None,
           "function")


def make_program(seed, length=40):
    """[(kind, argument)], with balanced enter and leave steps."""
    rng = random.Random(seed)
    steps, depth = [], 0
    for _ in range(length):
        kind = rng.choice(("op", "op", "op", "scope", "device", "control", "colocate", "leave"))
        if kind == "leave":
            if depth:
                steps.append(("leave", None))
                depth -= 1
            continue
        if kind == "op":
            steps.append(("op", [rng.choice(NAMES), rng.choice(("constant", "identity")),
                                 rng.randrange(1000)]))
            continue
        depth += 1
        if kind == "scope":
            steps.append(("scope", rng.choice(SCOPES)))
        elif kind == "device":
            steps.append(("device", rng.choice(DEVICES)))
        elif kind == "control":
            steps.append(("control", rng.choice(([rng.randrange(1000)], None,
                                                 [rng.randrange(1000)] * 2))))
        else:
            steps.append(("colocate", [rng.randrange(1000), rng.random() < 0.3]))
    return steps + [("leave", None)] * depth


def _pick_gpu(op):
    return "/gpu:7" if op.type == "Identity" else op.device


def run(tf, program):
    """Builds `program` in a new graph of `tf`; [[name, device, inputs, control inputs, groups]]."""
    graph = tf.Graph()
    with graph.as_default():
        tensors = [tf.constant(0.0, name="first")]
        open_scopes = []
        for kind, argument in program:
            if kind == "leave":
                open_scopes.pop().__exit__(None, None, None)
            elif kind == "op":
                name, op_type, source = argument
                source = tensors[source % len(tensors)]
                made = tf.constant(1.0, name=name or "Const") if op_type == "constant" else \
                    tf.identity(source, name=name)
                tensors.append(made)
            else:
                scope = _open(tf, graph, tensors, kind, argument)
                scope.__enter__()
                open_scopes.append(scope)
    return [_describe(op) for op in graph.get_operations()]


def _open(tf, graph, tensors, kind, argument):
    if kind == "scope":
        return graph.name_scope(argument)
    if kind == "device":
        return tf.device(_pick_gpu if argument == "function" else argument)
    if kind == "control":
        picked = None if argument is None else [tensors[i % len(tensors)] for i in argument]
        return tf.control_dependencies(picked)
    index, ignore = argument
    return graph.colocate_with(tensors[index % len(tensors)].op, ignore_existing=ignore)


def _describe(op):
    try:
        groups = [g.decode() for g in op.get_attr("_class")]
    except ValueError:
        groups = []
    return [op.name, op.device, [t.name for t in op.inputs],
            sorted(c.name for c in op.control_inputs),
            groups]
