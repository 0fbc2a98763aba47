"""What fits between a graph's saver and a checkpoint: everything that does not, in one message.

Invariants
    1. The comparison reads the nodes of the graph (RestoreV2 and what assigns its outputs), not the
       Saver that built them, so it works for imported graphs too.
    2. Nothing is changed by comparing.

    report = saver.restore(sess, path, strict=False)
    report.missing, report.unexpected, report.misshaped, report.restored
"""
import collections
import difflib
import os

from pyflow.framework import errors, tensor_util
from pyflow.train import checkpoint

Wanted = collections.namedtuple("Wanted", "key dtype shape value assign")
Mismatch = collections.namedtuple("Mismatch", "key wanted found")


class RestoreReport:
    """missing: keys the graph wants and the checkpoint lacks.  unexpected: keys of the checkpoint
    that the graph does not ask for.  misshaped: `Mismatch(key, wanted, found)`, shapes or types.
    restored: keys that fit.
    """

    def __init__(self, prefix, matching, missing, unexpected, misshaped):
        self.prefix, self.missing, self.unexpected, self.misshaped = (
            prefix,
            missing,
            unexpected,
            misshaped,
        )
        self.restored = [w.key for w in matching]
        self._matching = matching

    def __repr__(self):
        return (f"RestoreReport({len(self.restored)} restored, missing={self.missing}, "
                f"unexpected={self.unexpected}, misshaped={self.misshaped})")

    def raise_for_problems(self):
        """NotFoundError if keys are missing, InvalidArgumentError if only shapes or types
        differ."""
        if not self.missing and not self.misshaped:
            return
        kind = errors.NotFoundError if self.missing else errors.InvalidArgumentError
        raise kind(None, None, self.message())

    def message(self):
        """All problems, one per line, with nearest names."""
        lines = [
            f"Restoring from checkpoint '{self.prefix}' failed: it does not fit the graph. Nothing"
            " was restored."
        ]
        for key in self.missing:
            near = difflib.get_close_matches(key, self.unexpected, n=2, cutoff=0.5)
            lines.append(f"  Key {key} not found in checkpoint"
                         + (f"; nearest: {', '.join(near)}" if near else ""))
        for m in self.misshaped:
            lines.append(
                f"  Key {m.key}: the graph expects {m.wanted}, the checkpoint has {m.found}"
            )
        if self.unexpected:
            shown = ", ".join(self.unexpected[:20]) + (", ..." if len(self.unexpected) > 20 else "")
            lines.append(f"  In the checkpoint but not asked for: {shown}")
        lines.append("Rename with Saver({'checkpoint key': variable}), or restore what fits with "
                     "saver.restore(sess, path, strict=False).")
        return "\n".join(lines)

    def restore_matching(self, sess, reader):
        """Assigns what fits, by feeding the outputs of RestoreV2: the graph does not grow."""
        feeds = {w.value: reader.get_slice(w.key, _slice_of(w.value)) for w in self._matching}
        if feeds:
            sess.run([w.assign for w in self._matching], feeds)


def compare(graph, saver_def, reader, reshape=False):
    """A RestoreReport of the saver's nodes in `graph` against the checkpoint behind `reader`."""
    entries = reader.entries()
    matching, missing, misshaped, wanted_keys = [], [], [], set()
    for wanted in _wanted(graph, saver_def):
        known = wanted.key in wanted_keys          # another part of a partitioned variable
        wanted_keys.add(wanted.key)
        entry = entries.get(wanted.key)
        if entry is None:
            missing.extend([] if known else [wanted.key])
        elif entry.dtype != wanted.dtype or not _fits(wanted.shape, entry.shape, reshape):
            found = f"{getattr(entry.dtype, 'name', entry.dtype)} {list(entry.shape)}"
            misshaped.extend([] if known else [Mismatch(
                wanted.key, f"{wanted.dtype.name} {_show(wanted.shape)}", found)])
        else:
            matching.append(wanted)
    unexpected = sorted(k for k in entries if k not in wanted_keys)
    return RestoreReport(reader.prefix, matching, missing, unexpected, misshaped)


def _show(shape):
    return "of any shape" if shape is None else str(["?" if d is None else d for d in shape])


def _fits(wanted, found, reshape):
    if wanted is None:
        return True
    if reshape:
        size = 1
        for d in wanted:
            if d is None:
                return True
            size *= d
        for d in found:
            if d == 0:
                return size == 0
            if size % d:
                return False
            size //= d
        return size == 1
    return len(wanted) == len(found) and all(w is None or w == f for w, f in zip(wanted, found))


def _wanted(graph, saver_def):
    """One `Wanted` per key that the restore op would read."""
    restore_all = graph.get_operation_by_name(saver_def.restore_op_name)
    found, stack, seen = [], [restore_all], set()
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "NoOp" or not _assigned_value(op):
            stack.extend(reversed(op.control_inputs))
            continue
        found.extend(_from_assign(op))
        stack.extend(reversed(op.control_inputs))    # restore_sequentially chains the assigns
    return found


def _assigned_value(op):
    return op.type in ("Assign", "AssignVariableOp") and len(op.inputs) >= 2


def _from_assign(op):
    value, shape = op.inputs[1], _variable_shape(op)
    while value.op.type in ("Reshape", "Identity", "SplitV"):
        if value.op.type == "SplitV":           # a part of a partitioned variable
            shape = _whole_shape(shape, value.op)
        value = value.op.inputs[0]
    if value.op.type not in ("RestoreV2", "Restore", "RestoreSlice"):
        return []
    names = tensor_util.constant_value(value.op.inputs[1])
    if names is None:
        return []
    if _slice_of(value):                        # the parts of a tensor: their shapes are slices'
        shape = None
    key = names.ravel()[value.value_index]
    key = key.decode() if isinstance(key, bytes) else str(key)
    return [Wanted(key, value.dtype.base_dtype, shape, value, op)]


def _slice_of(value):
    """Which slice of the checkpoint's tensor RestoreV2 gives, "" for the whole."""
    op = value.op
    slices = tensor_util.constant_value(op.inputs[2]) if len(op.inputs) > 2 else None
    text = "" if slices is None else slices.ravel()[value.value_index]
    return text.decode() if isinstance(text, bytes) else str(text)


def _whole_shape(part, split):
    sizes, axis = (tensor_util.constant_value(t) for t in split.inputs[1:3])
    if part is None or sizes is None or axis is None:
        return None
    whole = list(part)
    whole[int(axis)] = int(sizes.sum())
    return whole


def _variable_shape(assign):
    shape = assign.inputs[0].get_shape()
    if assign.type == "AssignVariableOp":
        handle = assign.inputs[0].op
        if handle.type != "VarHandleOp":
            return None
        shape = handle.attr("shape")
    if assign.type == "Assign" and not assign.attr("validate_shape"):
        if not shape.is_fully_defined():
            return None
    from pyflow.framework.tensor_shape import TensorShape
    shape = TensorShape(shape)
    return None if shape.ndims is None else shape.as_list()


def suggest_prefix(path):
    """'; did you mean ...' for a path that is no checkpoint."""
    if path.endswith((".index", ".meta")) or ".data-" in os.path.basename(path):
        stem = (
            path.split(".data-")[0]
            if ".data-" in os.path.basename(path)
            else path.rsplit(".", 1)[0]
        )
        if checkpoint.checkpoint_exists(stem):
            return f"; the prefix without its ending is: '{stem}'"
    folder, base = os.path.split(path)
    try:
        known = sorted(n[:-6] for n in os.listdir(folder or ".") if n.endswith(".index"))
    except OSError:
        return f"; the folder '{folder}' does not exist"
    if os.path.isdir(path):
        return "; it is a folder: use tf.train.latest_checkpoint(folder)"
    if not known:
        return f"; there is no checkpoint in '{folder or '.'}'"
    near = difflib.get_close_matches(base, known, n=3, cutoff=0.3) or known[-3:]
    return "; there are: " + ", ".join(os.path.join(folder, n) for n in near)
