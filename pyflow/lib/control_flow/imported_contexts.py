"""Loops and branches that an import made of functions, as the context objects that gradients ask.

Invariants
  1. A loop or branch knows afterwards what it would know if tf.while_loop or tf.cond had built it.
  2. What an import did not make of functions stays unknown: GraphDefs of version 1 do not say which
     nodes are a loop.

Who calls it: framework/graph_import.py, through function_lower.make_contexts.  Thread: the one
building the graph.
"""
from pyflow.lib.control_flow.cond import CondContext
from pyflow.lib.control_flow.switch_case import CaseContext
from pyflow.lib.control_flow.while_loop import WhileContext, entered


def make_contexts(graph, contexts, members, tensor):
    """Gives the operations of `members` ({Operation: Context}) their context objects.

    contexts: all, outer before inner. tensor: what an input text of the file is in the graph."""
    objects = {None: None}
    for context in contexts:
        outer = objects[context.outer]
        with entered(outer):
            make = _loop if context.kind == "while" else _branch
            objects[context] = make(context, tensor)
    for op, context in members.items():
        found = objects[context]
        if found is not None:
            _adopt(found, op)
    for context in contexts:
        _remember_outside(objects[context], context, tensor)
        objects[context].collect()


def _loop(context, tensor):
    facts = context.facts
    found = WhileContext(parallel_iterations=max(1, facts["parallel_iterations"]),
                         name=context.name)
    found.loop_enters = [tensor(text) for text in facts["enters"]]
    found.loop_exits = [tensor(text) for text in facts["exits"]]
    found.pivot = tensor(facts["pred"])
    found.pivot_for_pred = tensor(facts["pivot_for_pred"])
    found.pivot_for_body = tensor(facts["pivot_for_body"])
    found._name = found.loop_enters[0].op.get_attr("frame_name").decode()
    return found


def _branch(context, tensor):
    facts = context.facts
    pred, pivot, branch = tensor(facts["pred"]), tensor(facts["pivot"]), facts["branch"]
    if context.kind == "case":
        return CaseContext(pred, pivot, branch, facts["count"], name=context.name)
    return CondContext(pred, pivot, branch, name=context.name)


def _adopt(context, op):
    """One operation becomes a member."""
    op._set_control_flow_context(context)
    context.mark_known([t.name for t in op.outputs])
    context.protect(op)


def _remember_outside(found, context, tensor):
    """What stands inside for values from outside."""
    if found is None:
        return
    for outside, inside in context.constants:
        outside, inside = tensor(outside), tensor(inside)
        found.add_name(outside.name)
        found._external_values[outside.name] = inside
