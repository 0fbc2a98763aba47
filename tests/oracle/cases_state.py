"""State: variables behind references and behind handles, scatters into them, slices of them,
counters, temporary variables, locks, stacks, tensor arrays, checkpoints.  Each script runs a
sequence of steps in one session and keeps what it reads back after each."""

import os
import tempfile

import numpy as np

from cases import script

KINDS = ("float32", "float64", "int32", "int64")
TABLE = np.arange(1, 16).reshape(5, 3)


def ref(tf, value, name):
    """(handle, op that initialises it, tensor that reads it) of a reference variable."""
    value = np.asarray(value)
    raw = tf.raw_ops
    handle = raw.VariableV2(shape=value.shape, dtype=value.dtype.name, shared_name=name)
    return handle, raw.Assign(ref=handle, value=value).op, lambda: raw.Identity(input=handle)


def resource(tf, value, name):
    """The same of a resource variable."""
    value = np.asarray(value)
    raw, dtype = tf.raw_ops, value.dtype.name
    handle = raw.VarHandleOp(shape=value.shape, dtype=dtype, shared_name=name)
    start = raw.AssignVariableOp(resource=handle, value=value)
    return handle, start, lambda: raw.ReadVariableOp(resource=handle, dtype=dtype)


def after(tf, start, steps, read):
    """The variable's value after initialisation and after each step."""
    value = read()
    with tf.Session() as session:
        session.run(start)
        found = [session.run(value)]
        for step in steps:
            session.run(step)
            found.append(session.run(value))
    return np.stack(found)


@script
def state_scatter(tf):
    """Rows, one index several times; a scalar update; int64 indices."""
    found, raw = {}, tf.raw_ops
    rows = np.array([[2, 3, 4], [5, 6, 7], [-1, -2, -3]])
    for kind in KINDS:
        for name in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
            for make, prefix, key in ((ref, "", "ref"), (resource, "Resource", "resource")):
                handle, start, read = make(tf, TABLE.astype(kind), f"s{prefix}{name}{kind}")
                scatter = getattr(raw, f"{prefix}Scatter{name}")
                variable = {key: handle}
                steps = [
                    scatter(**variable, indices=[4, 0, 4], updates=rows.astype(kind)),
                    scatter(**variable, indices=np.array([[1], [2]], np.int64),
                            updates=rows[:2, None].astype(kind)),
                    scatter(**variable, indices=np.int32(3), updates=np.array(2).astype(kind)),
                    scatter(**variable, indices=np.zeros(0, np.int32),
                            updates=np.zeros((0, 3), kind)),
                ]
                found[f"{name}_{kind}_{key}"] = after(tf, start, steps, read)
    return found


@script
def state_scatter_nd(tf):
    """Elements, rows, the whole, nothing."""
    found, raw = {}, tf.raw_ops
    for kind in KINDS:
        for name in ("Add", "Sub", "Update"):
            for make, prefix in ((ref, ""), (resource, "Resource")):
                handle, start, read = make(tf, TABLE.astype(kind), f"n{prefix}{name}{kind}")
                scatter = getattr(raw, f"{prefix}ScatterNd{name}")
                steps = [
                    scatter(ref=handle, indices=[[4, 0], [0, 2], [4, 1]],
                            updates=np.array([10, 20, 30], kind)),
                    scatter(ref=handle, indices=np.array([[1], [3]], np.int64),
                            updates=np.array([[1, 2, 3], [4, 5, 6]], kind)),
                    scatter(ref=handle, indices=np.zeros((0, 2), np.int32),
                            updates=np.zeros(0, kind)),
                ]
                found[f"{name}_{kind}_{prefix}"] = after(tf, start, steps, read)
    return found


@script
def state_scatter_nd_python(tf):
    """The public functions and methods over them."""
    v = tf.get_variable("v", initializer=TABLE.astype("float32"), use_resource=True)
    r = tf.get_variable("r", initializer=TABLE.astype("float32"), use_resource=False)
    places, rows = [[0], [3]], np.ones((2, 3), np.float32)
    steps = [
        tf.scatter_nd_update(r, places, rows * 5), tf.scatter_nd_add(r, places, rows),
        tf.scatter_nd_sub(r, places, rows * 2), v.scatter_nd_add(places, rows),
        v.scatter_nd_sub(places, rows * 4), v.scatter_nd_update([[1]], rows[:1] * 9),
    ]
    values = [v.read_value(), r.read_value()]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = []
        for step in steps:
            session.run(step)
            found.append(np.stack(session.run(values)))
    return {"values": np.stack(found)}


@script
def state_assignments(tf):
    found, raw = {}, tf.raw_ops
    for kind in KINDS:
        x = TABLE.astype(kind)
        handle, start, read = ref(tf, x, f"a{kind}")
        found[f"ref_{kind}"] = after(tf, start, [
            raw.AssignAdd(ref=handle, value=x), raw.AssignSub(ref=handle, value=x[::-1]),
            raw.Assign(ref=handle, value=-x, use_locking=False),
        ], read)
        handle, start, read = resource(tf, x, f"ra{kind}")
        found[f"resource_{kind}"] = after(tf, start, [
            raw.AssignAddVariableOp(resource=handle, value=x),
            raw.AssignSubVariableOp(resource=handle, value=x[::-1]),
            raw.AssignVariableOp(resource=handle, value=-x),
        ], read)
    return found


@script
def state_strided_slices(tf):
    found, raw = {}, tf.raw_ops
    for make, prefix in ((ref, ""), (resource, "Resource")):
        handle, start, read = make(tf, TABLE.astype(np.float32), f"t{prefix}")
        assign = getattr(raw, prefix + "StridedSliceAssign")
        steps = [
            assign(ref=handle, begin=[1, 0], end=[4, 2], strides=[2, 1],
                   value=np.float32([[-1, -2], [-3, -4]])),
            assign(ref=handle, begin=[0, 2], end=[0, 3], strides=[1, 1], begin_mask=1, end_mask=1,
                   shrink_axis_mask=2, value=np.float32([7, 8, 9, 10, 11])),
            assign(ref=handle, begin=[-1], end=[0], strides=[-2],
                   value=np.ones((2, 3), np.float32) * 5),
            assign(ref=handle, begin=[0, 0], end=[0, 1], strides=[1, 1], ellipsis_mask=1,
                   value=np.ones((5, 1), np.float32) * 6),
        ]
        found[prefix or "Ref"] = after(tf, start, steps, read)
    v = tf.Variable(TABLE, name="sliced")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(v[1:3, ::2].assign([[1, 2], [3, 4]]))
        found["python"] = session.run(v)
    return found


@script
def state_counters(tf):
    raw, found = tf.raw_ops, {}
    for kind in ("int32", "int64"):
        handle, start, _ = ref(tf, np.array(0, kind), f"c{kind}")
        there, begin, _ = resource(tf, np.array(-1, kind), f"rc{kind}")
        count = [raw.CountUpTo(ref=handle, limit=3),
                 raw.ResourceCountUpTo(resource=there, limit=2, T=kind)]
        with tf.Session() as session:
            session.run([start, begin])
            found[kind] = np.array([session.run(count) for _ in range(3)])
            for i, c in enumerate(count):
                try:
                    session.run(c)
                except tf.errors.OutOfRangeError:
                    found[f"end_{kind}_{i}"] = np.array(True)
    return found


@script
def state_queries(tf):
    raw = tf.raw_ops
    handle, start, _ = ref(tf, np.float32(2), "q")
    there, begin, _ = resource(tf, np.ones((2, 3), np.float32), "rq")
    old = raw.Variable(shape=[2], dtype="float32", shared_name="old")
    asked = [
        raw.IsVariableInitialized(ref=handle), raw.VarIsInitializedOp(resource=there),
        raw.IsVariableInitialized(ref=old),
    ]
    shapes = [raw.VariableShape(input=there, out_type=kind) for kind in ("int32", "int64")]
    destroy = raw.DestroyResourceOp(resource=there, ignore_lookup_error=False)
    fill = raw.Assign(ref=old, value=np.float32([1, 2]))
    with tf.Session() as session:
        before = np.array(session.run(asked))
        session.run([start, begin])
        set_up = np.array(session.run(asked))
        sizes = np.stack(session.run(shapes))
        session.run(destroy)
        session.run(fill)
        gone = np.array(session.run(asked))
        return {"before": before, "set_up": set_up, "gone": gone, "sizes": sizes,
                "old": session.run(raw.Identity(input=old))}


@script
def state_gathers(tf):
    """Rows read through a handle, and the sparse gradient."""
    table = np.linspace(-1, 1, 24).reshape(4, 3, 2).astype(np.float32)
    v = tf.get_variable("v", initializer=table, use_resource=True)
    rows = tf.gather(v, [[3, 0], [3, 1]])
    cells = tf.gather_nd(v, [[1, 2], [1, 2], [0, 0]])
    raw_rows = tf.raw_ops.ResourceGather(resource=v.handle, indices=[2, 2], dtype=tf.float32)
    raw_cells = tf.raw_ops.ResourceGatherNd(
        resource=v.handle, indices=np.array([[3, 1, 1]], np.int64), dtype=tf.float32)
    (by_rows,) = tf.gradients(rows * rows, v)
    (by_cells,) = tf.gradients(cells * 3.0, v)
    (by_raw,) = tf.gradients(raw_cells * 2.0, v.handle)
    loss = tf.reduce_sum(v * v)
    (by_read,) = tf.gradients(loss, v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run({
            "rows": rows, "cells": cells, "raw_rows": raw_rows, "raw_cells": raw_cells,
            "by_rows": tf.convert_to_tensor(by_rows), "by_cells": tf.convert_to_tensor(by_cells),
            "by_read": by_read, "by_raw": tf.convert_to_tensor(by_raw),
        })


@script
def state_temporary(tf):
    raw = tf.raw_ops
    temporary = raw.TemporaryVariable(shape=[2, 3], dtype="float32", var_name="t")
    filled = raw.Assign(ref=temporary, value=np.ones((2, 3), np.float32))
    more = raw.AssignAdd(ref=filled, value=np.full((2, 3), 0.5, np.float32))
    last = raw.DestroyTemporaryVariable(ref=more, var_name="t")
    with tf.Session() as session:
        return {"value": session.run(last), "again": session.run(last)}


@script
def state_critical_section(tf):
    """Concurrent updates under one lock lose nothing."""
    section = tf.CriticalSection(name="section")
    v = tf.get_variable("v", initializer=0.0, use_resource=True)

    def update(x):
        with tf.control_dependencies([v.assign(v.read_value() * 1.0 + x)]):
            return v.read_value()

    runs = [section.execute(lambda x=x: update(x)) for x in (1.0, 2.0, 4.0, 8.0)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(runs)
        return {"total": session.run(v.read_value())}


@script
def state_mutex(tf):
    raw = tf.raw_ops
    mutex = raw.MutexV2(shared_name="m")
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    lock = raw.MutexLock(mutex=mutex)
    with tf.control_dependencies([lock]):
        add = v.assign_add(2.0, read_value=False)
    with tf.control_dependencies([add]):
        release = raw.ConsumeMutexLock(mutex_lock=lock)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(release)
        return {"value": session.run(v.read_value())}


@script
def state_stack(tf):
    raw = tf.raw_ops
    stack = raw.StackV2(max_size=10, elem_type=tf.float32, stack_name="s")
    pushed = raw.StackPushV2(handle=stack, elem=[1.0, 2.0])
    with tf.control_dependencies([pushed]):
        second = raw.StackPushV2(handle=stack, elem=[[3.0]], swap_memory=True)
    with tf.control_dependencies([second]):
        top = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with tf.control_dependencies([top]):
        bottom = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with tf.control_dependencies([bottom]):
        close = raw.StackCloseV2(handle=stack)
    with tf.Session() as session:
        found = session.run([pushed, second, top, bottom, close])
    return dict(zip(["pushed", "second", "top", "bottom"], found))


@script
def state_tensor_array(tf):
    """Rows of different lengths: split, concat, size, gradient, close."""
    raw = tf.raw_ops
    x = tf.placeholder(tf.float32, [6, 2])
    array = tf.TensorArray(tf.float32, size=3, infer_shape=False, clear_after_read=False)
    split = array.split(x, [1, 3, 2])
    middle = split.read(1)
    y = split.concat()
    (g,) = tf.gradients(y * y, x)
    handle, flow = raw.TensorArrayV3(size=2, dtype=tf.float32, clear_after_read=False)
    flow = raw.TensorArrayWriteV3(handle=handle, index=0, value=[1.0, 2.0], flow_in=flow)
    flow = raw.TensorArrayWriteV3(handle=handle, index=1, value=[3.0, 4.0], flow_in=flow)
    size = raw.TensorArraySizeV3(handle=handle, flow_in=flow)
    grad = raw.TensorArrayGradWithShape(
        handle=handle, flow_in=flow, shape_to_prepend=[2], source="again")
    wide = raw.TensorArrayWriteV3(
        handle=grad.grad_handle, index=1, value=np.ones((2, 2), np.float32),
        flow_in=grad.flow_out)
    all_wide = raw.TensorArrayGatherV3(
        handle=grad.grad_handle, indices=[0, 1], flow_in=wide, dtype=tf.float32)
    value, lengths = raw.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=tf.float32)
    with tf.control_dependencies([value, all_wide, size]):
        close = raw.TensorArrayCloseV3(handle=handle)
    data = np.arange(12, dtype=np.float32).reshape(6, 2)
    with tf.Session() as session:
        found = session.run([middle, y, g, size, value, lengths, all_wide, close], {x: data})
    return dict(zip(["middle", "y", "g", "size", "value", "lengths", "wide"], found))


@script
def state_ref_loop(tf):
    """References through Switch, Merge and a loop's frame, which TF 1.x built for ref variables."""
    raw = tf.raw_ops
    handle, start, read = ref(tf, np.float32([1, 2]), "looped")
    p = tf.placeholder(tf.bool, [])
    off, on = raw.RefSwitch(data=handle, pred=p)
    added = raw.AssignAdd(ref=on, value=np.float32([10, 10]))
    taken = raw.AssignSub(ref=off, value=np.float32([1, 1]))
    merged, which = raw.RefMerge(inputs=[taken, added])
    same = raw.RefIdentity(input=merged)
    entered = raw.RefEnter(data=handle, frame_name="frame", is_constant=True)
    left = raw.RefExit(data=entered)
    value = read()
    with tf.Session() as session:
        session.run(start)
        found = {}
        for flag in (True, False):
            found[f"same_{flag}"], found[f"which_{flag}"] = session.run([same, which], {p: flag})
        found["left"], found["value"] = session.run([left, value])
    return found


@script
def state_checkpoints(tf):
    """What SaveV2 writes RestoreV2 reads, merged from two shards."""
    raw, (a, b) = tf.raw_ops, (TABLE.astype(np.float32), np.array([b"x", b"", b"yz"], object))
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "model")
        shards = [raw.ShardedFilename(basename=base, shard=i, num_shards=2) for i in (0, 1)]
        names = [raw.ShardedFilename(basename="m", shard=3, num_shards=12),
                 raw.ShardedFilespec(basename="m", num_shards=12)]
        saves = [
            raw.SaveV2(prefix=shards[0], tensor_names=["a", "n"], shape_and_slices=["", ""],
                       tensors=[a, np.int64(7)]),
            raw.SaveV2(prefix=shards[1], tensor_names=["b"], shape_and_slices=[""],
                       tensors=[tf.constant(b)]),
        ]
        with tf.control_dependencies(saves):
            merge = raw.MergeV2Checkpoints(
                checkpoint_prefixes=tf.stack(shards), destination_prefix=base)
        with tf.control_dependencies([merge]):
            restored = raw.RestoreV2(
                prefix=base, tensor_names=["b", "a", "n"], shape_and_slices=["", "", ""],
                dtypes=[tf.string, tf.float32, tf.int64])
        with tf.Session() as session:
            found = session.run([restored, names])
    return dict(zip(["b", "a", "n"], found[0])) | dict(zip(["name", "spec"], found[1]))
