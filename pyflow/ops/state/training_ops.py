"""Optimizer steps as ops: Apply<Rule>, SparseApply<Rule> and their Resource* twins.

Invariants
  1. One rule has up to four ops: on references or handles (`Resource`), for dense gradients or for
     rows (`Sparse`: gradient rows `grad` for rows `indices` of the variable).
  2. Argument names, order and attributes are those of TF's OpDefs.
  3. var, slots and grad have one shape (rows aside, of which there is one per index); the other
     arguments are scalars.

The kernels hold the variables' locks while they write.  No samples and no reference, on purpose:
state has no NumPy counterpart; tests/train compares each rule with NumPy.  Who calls it: train/
optimizers.
"""
from pyflow.framework.dtypes import NUMBERS, resource
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.state import resource_handles

_LOCKING = "use_locking: bool = false"


def _check(op):
    """Slots and a gradient fit the variable, whose static shape they may tell; scalars are scalars."""
    shape = _shape_of(op.inputs[0])
    rows = [t.shape for a, t in zip(op.op_def.inputs, op.inputs) if a.name == "indices"]
    for argument, tensor in zip(op.op_def.inputs, op.inputs):
        if argument.is_ref or tensor.dtype == resource:
            shape = shape.merge_with(_shape_of(tensor))
        elif argument.name in ("delta", "grad"):
            shape = shape.merge_with(_of_rows(tensor.shape, *rows) if rows else tensor.shape)
        elif argument.name != "indices":
            tensor.shape.assert_is_compatible_with(TensorShape([]))
    return shape


def _of_rows(grad, indices):
    """What a gradient of rows says of the variable's shape; ValueError if it has not a row per index."""
    count = indices.with_rank(1)
    if grad.ndims is None:
        return grad
    grad = grad.with_rank_at_least(1)
    grad[:1].assert_is_compatible_with(count)
    return TensorShape([None]).concatenate(grad[1:])


def _shape_of(tensor):
    if tensor.dtype._is_ref_dtype:
        return tensor.shape
    return resource_handles.handle_shape(tensor)


def _stepped(op):
    shape = _check(op)
    return [shape] if op.outputs else []


def _typed(argument, kind):
    """`var lr:T` style argument: slots (no colon) get the variable's kind."""
    name, _, dtype = argument.partition(":")
    return f"{name}: {dtype or kind}"


def _block(name, arguments, rule, more, resource, sparse):
    kind = "resource" if resource else "Ref(T)"
    outputs = "" if resource else "out: Ref(T)"
    attrs = ", ".join(["Tindices: {int32, int64}"] * sparse + [_LOCKING] + ([more] if more else []))

    @op(name, inputs=", ".join(_typed(a, kind) for a in arguments.split()), outputs=outputs,
        attrs=attrs, T=NUMBERS, stateful=resource, doc=f"{rule} TF: {name}.")
    class Block:
        shape = _stepped
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Block


def _dense(name, arguments, rule, more=""):
    """(Apply<name>, ResourceApply<name>)."""
    return (_block("Apply" + name, arguments, rule, more, False, False),
            _block("ResourceApply" + name, arguments, rule, more, True, False))


def _sparse(name, arguments, rule, more=""):
    """(SparseApply<name>, ResourceSparseApply<name>)."""
    rule = "For rows `indices`: " + rule
    return (_block("SparseApply" + name, arguments, rule, more, False, True),
            _block("ResourceSparseApply" + name, arguments, rule, more, True, True))


_NESTEROV = "use_nesterov: bool = false"
_UPDATE_SLOTS = "update_slots: bool = true"
_BY_LR = "multiply_linear_by_lr: bool = false"

_SGD = "var -= alpha delta."
ApplyGradientDescent, ResourceApplyGradientDescent = _dense(
    "GradientDescent", "var alpha:T delta:T", _SGD)

_MOMENTUM = ("accum = momentum accum + grad; var -= lr accum, "
             "or lr (grad + momentum accum) with use_nesterov.")
ApplyMomentum, ResourceApplyMomentum = _dense(
    "Momentum", "var accum lr:T grad:T momentum:T", _MOMENTUM, _NESTEROV)
SparseApplyMomentum, ResourceSparseApplyMomentum = _sparse(
    "Momentum", "var accum lr:T grad:T indices:Tindices momentum:T", _MOMENTUM, _NESTEROV)

ApplyAdam, ResourceApplyAdam = _dense(
    "Adam", "var m v beta1_power:T beta2_power:T lr:T beta1:T beta2:T epsilon:T grad:T",
    "m += (1 - beta1)(grad - m); v += (1 - beta2)(grad^2 - v); "
    "var -= lr sqrt(1 - beta2_power) / (1 - beta1_power) m / (sqrt(v) + epsilon).", _NESTEROV)

_RMSPROP = ("ms += (1 - rho)(grad^2 - ms); mom = momentum mom + lr grad / sqrt(ms + epsilon); "
            "var -= mom.")
ApplyRMSProp, ResourceApplyRMSProp = _dense(
    "RMSProp", "var ms mom lr:T rho:T momentum:T epsilon:T grad:T", _RMSPROP)
SparseApplyRMSProp, ResourceSparseApplyRMSProp = _sparse(
    "RMSProp", "var ms mom lr:T rho:T momentum:T epsilon:T grad:T indices:Tindices", _RMSPROP)

_CENTERED = ("mg += (1 - rho)(grad - mg); ms += (1 - rho)(grad^2 - ms); "
             "mom = momentum mom + lr grad / sqrt(ms - mg^2 + epsilon); var -= mom.")
ApplyCenteredRMSProp, ResourceApplyCenteredRMSProp = _dense(
    "CenteredRMSProp", "var mg ms mom lr:T rho:T momentum:T epsilon:T grad:T", _CENTERED)
SparseApplyCenteredRMSProp, ResourceSparseApplyCenteredRMSProp = _sparse(
    "CenteredRMSProp", "var mg ms mom lr:T rho:T momentum:T epsilon:T grad:T indices:Tindices",
    _CENTERED)

_ADAGRAD = "accum += grad^2 (if update_slots); var -= lr grad / sqrt(accum)."
ApplyAdagrad, ResourceApplyAdagrad = _dense(
    "Adagrad", "var accum lr:T grad:T", _ADAGRAD, _UPDATE_SLOTS)
SparseApplyAdagrad, ResourceSparseApplyAdagrad = _sparse(
    "Adagrad", "var accum lr:T grad:T indices:Tindices", _ADAGRAD, _UPDATE_SLOTS)

_ADADELTA = ("accum += (1 - rho)(grad^2 - accum); update = sqrt(accum_update + epsilon) / "
             "sqrt(accum + epsilon) grad; accum_update += (1 - rho)(update^2 - accum_update); "
             "var -= lr update.")
ApplyAdadelta, ResourceApplyAdadelta = _dense(
    "Adadelta", "var accum accum_update lr:T rho:T epsilon:T grad:T", _ADADELTA)
SparseApplyAdadelta, ResourceSparseApplyAdadelta = _sparse(
    "Adadelta", "var accum accum_update lr:T rho:T epsilon:T grad:T indices:Tindices", _ADADELTA)

_FTRL = ("new = accum + grad^2; linear += grad - (new^-lr_power - accum^-lr_power) / lr var; "
         "var = (l1 sign(linear) - linear) / (new^-lr_power / lr + 2 l2) if |linear| > l1 else 0; "
         "accum = new.")
ApplyFtrl, ResourceApplyFtrl = _dense(
    "Ftrl", "var accum linear grad:T lr:T l1:T l2:T lr_power:T", _FTRL, _BY_LR)
SparseApplyFtrl, ResourceSparseApplyFtrl = _sparse(
    "Ftrl", "var accum linear grad:T indices:Tindices lr:T l1:T l2:T lr_power:T", _FTRL, _BY_LR)

_PROXIMAL = ("var = prox(var - alpha delta), where prox applies the L1 and L2 penalties of weight "
             "alpha.")
ApplyProximalGradientDescent, ResourceApplyProximalGradientDescent = _dense(
    "ProximalGradientDescent", "var alpha:T l1:T l2:T delta:T", _PROXIMAL)

SparseApplyProximalGradientDescent, ResourceSparseApplyProximalGradientDescent = _sparse(
    "ProximalGradientDescent", "var alpha:T l1:T l2:T grad:T indices:Tindices", _PROXIMAL)

_PROXIMAL_ADAGRAD = "accum += grad^2; var = prox(var - lr grad / sqrt(accum))."
ApplyProximalAdagrad, ResourceApplyProximalAdagrad = _dense(
    "ProximalAdagrad", "var accum lr:T l1:T l2:T grad:T", _PROXIMAL_ADAGRAD)
SparseApplyProximalAdagrad, ResourceSparseApplyProximalAdagrad = _sparse(
    "ProximalAdagrad", "var accum lr:T l1:T l2:T grad:T indices:Tindices", _PROXIMAL_ADAGRAD)

_KERAS_MOMENTUM = ("accum = momentum accum - lr grad; var += accum, "
                   "or momentum accum - lr grad with use_nesterov.")
ResourceApplyKerasMomentum = _block(
    "ResourceApplyKerasMomentum", "var accum lr:T grad:T momentum:T", _KERAS_MOMENTUM, _NESTEROV,
    True, False)
ResourceSparseApplyKerasMomentum = _block(
    "ResourceSparseApplyKerasMomentum", "var accum lr:T grad:T indices:Tindices momentum:T",
    _KERAS_MOMENTUM, _NESTEROV, True, True)

ApplyAdaMax, ResourceApplyAdaMax = _dense(
    "AdaMax", "var m v beta1_power:T lr:T beta1:T beta2:T epsilon:T grad:T",
    "m += (1 - beta1)(grad - m); v = max(beta2 v, |grad|); "
    "var -= lr / (1 - beta1_power) m / (v + epsilon).")

_ADAGRAD_V2 = "accum += grad^2 (if update_slots); var -= lr grad / (sqrt(accum) + epsilon)."
ApplyAdagradV2, ResourceApplyAdagradV2 = _dense(
    "AdagradV2", "var accum lr:T epsilon:T grad:T", _ADAGRAD_V2, _UPDATE_SLOTS)
SparseApplyAdagradV2, ResourceSparseApplyAdagradV2 = _sparse(
    "AdagradV2", "var accum lr:T epsilon:T grad:T indices:Tindices", _ADAGRAD_V2, _UPDATE_SLOTS)

_FTRL_V2 = "Ftrl whose linear term sees grad + 2 l2_shrinkage var."
ApplyFtrlV2, ResourceApplyFtrlV2 = _dense(
    "FtrlV2", "var accum linear grad:T lr:T l1:T l2:T l2_shrinkage:T lr_power:T", _FTRL_V2, _BY_LR)
SparseApplyFtrlV2, ResourceSparseApplyFtrlV2 = _sparse(
    "FtrlV2", "var accum linear grad:T indices:Tindices lr:T l1:T l2:T l2_shrinkage:T lr_power:T",
    _FTRL_V2, _BY_LR)

ApplyAddSign, ResourceApplyAddSign = _dense(
    "AddSign", "var m lr:T alpha:T sign_decay:T beta:T grad:T",
    "m = beta m + (1 - beta) grad; var -= lr (alpha + sign_decay sign(grad) sign(m)) grad.")
ApplyPowerSign, ResourceApplyPowerSign = _dense(
    "PowerSign", "var m lr:T logbase:T sign_decay:T beta:T grad:T",
    "m = beta m + (1 - beta) grad; var -= lr exp(logbase sign_decay sign(grad) sign(m)) grad.")
