"""The Apply ops of the optimisers, one script each: four steps on a reference variable and on a
resource variable, dense and (where the op exists) sparse with repeated indices, in float32,
float64 and float16, with and without locks, and with the op's own switches; then all state is
read back."""

import numpy as np

from cases import script

ROWS, COLUMNS, STEPS = 5, 3, 4
KINDS = ("float32", "float64", "float16")


class _Ref:
    """Variables behind reference edges."""

    prefix = ""

    def __init__(self, tf, value, name):
        shape, dtype = value.shape, value.dtype.name
        self.handle = tf.raw_ops.VariableV2(shape=shape, dtype=dtype, shared_name=name)
        self.start = tf.raw_ops.Assign(ref=self.handle, value=value)

    def read(self, tf):
        return tf.identity(self.handle)


class _Resource:
    """Variables behind resource handles."""

    prefix = "Resource"

    def __init__(self, tf, value, name):
        shape, dtype = value.shape, value.dtype.name
        self.handle = tf.raw_ops.VarHandleOp(shape=shape, dtype=dtype, shared_name=name)
        self.start = tf.raw_ops.AssignVariableOp(resource=self.handle, value=value)

    def read(self, tf):
        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype)


def _trajectory(tf, kind_of_variable, stem, dtype, slots, scalars, grad_name, sparse, extra,
                steps=STEPS):
    """The values of all slots after the steps, stacked."""
    rng = np.random.default_rng(len(stem) + 7 * sparse)
    label = f"{kind_of_variable.prefix}{stem}{dtype}{sparse}{'_'.join(extra)}"
    variables = []
    for slot in slots:
        value = (rng.random((ROWS, COLUMNS)) + 0.5).astype(dtype)
        variables.append(kind_of_variable(tf, value, f"{label}_{slot}"))
        variables[-1].dtype = dtype
    inputs = {slot: v.handle for slot, v in zip(slots, variables)}
    grad = tf.placeholder(dtype, [3 if sparse else ROWS, COLUMNS])
    inputs[grad_name] = grad
    inputs.update({key: tf.constant(number, dtype) for key, number in scalars.items()})
    if sparse:
        inputs["indices"] = tf.constant([4, 1, 4], tf.int64 if dtype == "float64" else tf.int32)
    op = kind_of_variable.prefix + ("Sparse" if sparse else "") + "Apply" + stem
    apply = getattr(tf.raw_ops, op)(**inputs, **extra, use_locking=dtype == "float64")
    reads = [v.read(tf) for v in variables]
    with tf.Session() as session:
        session.run([v.start for v in variables])
        for _ in range(steps):
            session.run(apply, {grad: rng.standard_normal(grad.shape.as_list()).astype(dtype)})
        return np.stack(session.run(reads))


def apply(stem, slots, scalars, sparse=True, ref=True, grad="grad",
          extras=({},), kinds=KINDS, half_steps=STEPS):
    """Registers the script of one family of Apply ops.  `half_steps` is smaller where TF rounds
    every intermediate to float16 and the rounding of cancelling terms piles up."""

    def run(tf):
        found = {}
        for dtype in kinds:
            steps = half_steps if dtype == "float16" else STEPS
            for variable in (_Ref, _Resource) if ref else (_Resource,):
                for i, extra in enumerate(extras):
                    key = f"{variable.__name__}_{dtype}_{i}"
                    found["dense" + key] = _trajectory(
                        tf, variable, stem, dtype, slots, scalars, grad, False, extra, steps)
                    if sparse:
                        found["sparse" + key] = _trajectory(
                            tf, variable, stem, dtype, slots, scalars, "grad", True, extra,
                            steps)
        return found

    run.__name__ = f"apply_{stem}"
    run.__module__ = __name__
    script(run)


RATES = {"lr": 0.1, "epsilon": 0.01}
BETAS = {"beta1": 0.8, "beta2": 0.95, "beta1_power": 0.8}
apply("GradientDescent", ["var"], {"alpha": 0.1}, sparse=False, grad="delta")
apply("ProximalGradientDescent", ["var"], {"alpha": 0.1, "l1": 0.3, "l2": 0.2}, grad="delta",
      kinds=KINDS[:2])
apply("Momentum", ["var", "accum"], {"lr": 0.1, "momentum": 0.9},
      extras=({}, {"use_nesterov": True}))
apply("KerasMomentum", ["var", "accum"], {"lr": 0.1, "momentum": 0.9}, ref=False,
      extras=({}, {"use_nesterov": True}))
apply("Adagrad", ["var", "accum"], {"lr": 0.1}, extras=({}, {"update_slots": False}))
apply("AdagradV2", ["var", "accum"], RATES, extras=({}, {"update_slots": False}))
apply("ProximalAdagrad", ["var", "accum"], {"lr": 0.1, "l1": 0.3, "l2": 0.2}, kinds=KINDS[:2])
apply("Adadelta", ["var", "accum", "accum_update"], RATES | {"rho": 0.9})
apply("Adam", ["var", "m", "v"], RATES | BETAS | {"beta2_power": 0.95}, sparse=False,
      extras=({}, {"use_nesterov": True}))
apply("AdaMax", ["var", "m", "v"], RATES | BETAS, sparse=False)
apply("AddSign", ["var", "m"], {"lr": 0.1, "alpha": 1.0, "sign_decay": 0.9, "beta": 0.8},
      sparse=False)
apply("PowerSign", ["var", "m"], {"lr": 0.1, "logbase": 1.0, "sign_decay": 0.9, "beta": 0.8},
      sparse=False)
apply("RMSProp", ["var", "ms", "mom"], RATES | {"rho": 0.9, "momentum": 0.5})
apply("CenteredRMSProp", ["var", "mg", "ms", "mom"],
      {"lr": 0.02, "epsilon": 2.0, "rho": 0.9, "momentum": 0.5})
FTRL = {"lr": 0.1, "l1": 0.3, "l2": 0.2, "lr_power": -0.5}
apply("Ftrl", ["var", "accum", "linear"], FTRL, extras=({}, {"multiply_linear_by_lr": True}),
      half_steps=1)
apply("FtrlV2", ["var", "accum", "linear"], FTRL | {"l2_shrinkage": 0.1, "lr_power": -0.7},
      extras=({}, {"multiply_linear_by_lr": True}),
      half_steps=1)
