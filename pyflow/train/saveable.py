"""Saveables: what a Saver writes and how it comes back.

A saveable is an object with a few tensors to save, each under a key, and a `restore` that builds
the op which takes the values back.  Variables of both kinds have one here; other stateful objects
may bring their own (collection SAVEABLE_OBJECTS).

Invariants
    1. Keys are unique within a saver.
    2. Building a saveable adds nodes only on the device of what it saves.
"""
from pyflow.framework import convert, graph as graph_lib
from pyflow.lib.control_flow import grouping
from pyflow.ops.base import tensors
from pyflow.ops.move import join_ops
from pyflow.lib.variables import state_functions


class SaveSpec:
    """One tensor to save: the tensor (or a function that makes it), its slice, its key, its
    type."""

    def __init__(self, tensor, slice_spec, name, dtype=None, device=None):
        self._tensor, self.slice_spec, self.name = tensor, slice_spec, name
        self.dtype = dtype if dtype is not None else self.tensor.dtype
        self.device = device if device is not None else self.tensor.device

    @property
    def tensor(self):
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """An object that is saved as `specs` and restored by `restore(tensors, shapes)`."""

    def __init__(self, op, specs, name):
        self.op, self.specs, self.name = op, specs, name
        self.device = specs[0].device if specs else ""

    def restore(self, restored_tensors, restored_shapes):
        """Builds and returns the op that restores `op` from one tensor per spec.

        restored_shapes: shapes to give the tensors first (Saver(reshape=True)), or None.
        """
        raise ValueError(f"Calling an abstract method: {type(self).__name__} must define restore()")


class VariableSaveable(SaveableObject):
    """A ref-style variable: saved through its ref, restored by Assign."""

    def __init__(self, var, slice_spec, name):
        ref = getattr(var, "_ref", None)
        tensor = ref() if callable(ref) else var
        super().__init__(
            tensor, [SaveSpec(tensor, slice_spec, name, dtype=tensor.dtype.base_dtype)], name
        )

    def restore(self, restored_tensors, restored_shapes):
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = tensors.reshape(value, restored_shapes[0])
        complete = self.op.get_shape().is_fully_defined()
        return state_functions.assign(self.op, value,
                                      validate_shape=restored_shapes is None and complete)


class ResourceVariableSaveable(SaveableObject):
    """A variable behind a handle: read to save, AssignVariableOp to restore."""

    def __init__(self, var, slice_spec, name):
        self._var = var

        def read():
            with graph_lib.device(var.device):
                return var.read_value()
        spec = SaveSpec(read, slice_spec, name, dtype=var.dtype.base_dtype, device=var.device)
        super().__init__(var.handle, [spec], name)

    def restore(self, restored_tensors, restored_shapes):
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = tensors.reshape(value, restored_shapes[0])
        assigned = self._var.assign(value, read_value=False)
        return assigned if isinstance(assigned, graph_lib.Operation) else assigned.op


class PartedSaveable(SaveableObject):
    """All parts of a partitioned variable: saved end to end as one tensor, which restoring cuts."""

    def __init__(self, parts, name):
        self._parts = parts
        self._axis = parts[0]._get_save_slice_info().axis
        self._sizes = [part._get_save_slice_info().var_shape[self._axis] for part in self._parts]
        first = self._parts[0]
        whole = tensors.concat([part.read_value() for part in self._parts], self._axis)
        spec = SaveSpec(whole, "", name, dtype=first.dtype.base_dtype, device=first.device)
        super().__init__(first.op.outputs[0], [spec], name)

    def restore(self, restored_tensors, restored_shapes):
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = tensors.reshape(value, restored_shapes[0])
        pieces = join_ops.SplitV(value, self._sizes, self._axis, num_split=len(self._sizes))
        return grouping.group(*[part.assign(piece, read_value=False)
                                for part, piece in zip(self._parts, pieces)])


class SlicesSaveable(SaveableObject):
    """Some parts of a partitioned variable, each saved as a slice of the whole."""

    def __init__(self, parts, name):
        self._parts = parts
        specs = [self._spec(part, name) for part in parts]
        super().__init__(parts[0].op.outputs[0], specs, name)

    @staticmethod
    def _spec(part, name):
        def read():
            with graph_lib.device(part.device):
                return part.read_value()
        return SaveSpec(read, part._get_save_slice_info().spec, name, dtype=part.dtype.base_dtype,
                        device=part.device)

    def restore(self, restored_tensors, restored_shapes):
        return grouping.group(*[part.assign(piece, read_value=False)
                                for part, piece in zip(self._parts, restored_tensors)])


def _saveable_of_parts(parts, name):
    """Parts of one variable, all or some; ValueError for parts of several, and for one twice."""
    parts = sorted(parts, key=lambda part: part._get_save_slice_info().var_offset)
    infos = [part._get_save_slice_info() for part in parts]
    names = sorted({info.full_name for info in infos})
    if len(names) > 1:
        raise ValueError(f"Saver: slices must all be from the same tensor: {name} has parts of "
                         f"{', '.join(names)}")
    if len({tuple(info.var_offset) for info in infos}) < len(infos):
        raise ValueError(f"Saver: a part of {name} is given twice")
    axis = infos[0].axis
    if sum(info.var_shape[axis] for info in infos) == infos[0].full_shape[axis]:
        return PartedSaveable(parts, name)
    return SlicesSaveable(parts, name)


def _is_part(var):
    info = getattr(var, "_get_save_slice_info", None)
    return info is not None and info() is not None


def saveable_for(name, var):
    """The saveable of one entry of a Saver's var_list.  Raises TypeError for what cannot be
    saved."""
    if isinstance(var, SaveableObject):
        return var
    if hasattr(var, "_get_variable_list"):
        var = list(var)
    if isinstance(var, (list, tuple)) and var and all(_is_part(part) for part in var):
        return _saveable_of_parts(var, name)
    if getattr(var, "handle", None) is not None and hasattr(var, "assign"):
        return ResourceVariableSaveable(var, "", name)
    tensor = convert.to_tensor(var, as_ref=True)
    if not isinstance(tensor, graph_lib.Tensor) or not tensor.dtype._is_ref_dtype:
        raise TypeError(
            "names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a "
            f"variable: {var!r}"
        )
    return VariableSaveable(var, "", name)


def key_of(var):
    """The checkpoint key of a variable: the name of the op that holds it."""
    if isinstance(var, SaveableObject):
        return var.name
    shared = getattr(var, "_shared_name", None)
    if getattr(var, "handle", None) is not None and shared:
        return shared
    return var.op.name


def _parts_together(var_list):
    """The variables, those that are parts of one as a list of them."""
    groups, found = {}, []
    for var in var_list:
        if hasattr(var, "_get_variable_list"):
            found.append(list(var))
        elif _is_part(var):
            name = var._get_save_slice_info().full_name
            if name not in groups:
                found.append(groups.setdefault(name, []))
            groups[name].append(var)
        else:
            found.append(var)
    return found


def saveables_from(var_list):
    """Saveables of a list or dict of variables, sorted by key as in TF.

    Raises ValueError for two variables of one name, TypeError for other objects.
    """
    if isinstance(var_list, dict):
        named = dict(var_list)
    else:
        named = {}
        for var in _parts_together(var_list):
            if isinstance(var, list):
                named[var[0]._get_save_slice_info().full_name] = var
                continue
            if not hasattr(var, "op") and not isinstance(var, SaveableObject):
                raise TypeError(f"Variable to save is not a Variable: {var!r}")
            name = key_of(var)
            if name in named:
                raise ValueError(f"At least two variables have the same name: {name}")
            named[name] = var
    found, holders = [], {}
    for name in sorted(named):
        if not isinstance(name, str):
            raise TypeError(
                "names_to_saveables must be a dict mapping string names to checkpointable objects."
                f" Name is not a string: {name!r}"
            )
        saveable = saveable_for(name, named[name])
        if saveable.op in holders:
            raise ValueError(
                f"The same saveable will be restored with two names: {holders[saveable.op]} and "
                f"{name}"
            )
        holders[saveable.op] = name
        found.append(saveable)
    return found
