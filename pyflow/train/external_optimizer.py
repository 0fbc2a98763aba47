"""Optimizers outside the graph, SciPy's for one, that ask it for a loss and its gradient.

    variables  <->  one vector of float64        packed in the order of the variables

Invariants
  1. While an optimizer searches, reference variables keep their values: the point asked about is
     fed. Resource variables are read wherever they are used, so they are assigned each point. At
     the end the best point is assigned to all.
  2. Constraints are tensors: equalities are to be 0, inequalities at least 0.

Thread: the caller's, whose session runs.  Source: TF 1.15, contrib/opt external_optimizer.py.

Example:
    optimizer = tf.contrib.opt.ScipyOptimizerInterface(loss, options={"maxiter": 100})
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        optimizer.minimize(sess)
"""
import logging

import numpy as np

from pyflow.framework import graph as ops
from pyflow.gradients.backprop import gradients
from pyflow.lib.array import identity_functions
from pyflow.lib.variables import variables as variable_lists
from pyflow.lib.variables.resource_variables import is_resource_variable
from pyflow.ops.base import tensors
from pyflow.train.optimizer import _target

_log = logging.getLogger("pyflow")


class ExternalOptimizerInterface:
    """Base of optimizers outside the graph: a subclass defines `_minimize`.
    TF: tf.contrib.opt.ExternalOptimizerInterface."""

    def __init__(self, loss, var_list=None, equalities=None, inequalities=None, var_to_bounds=None,
                 **optimizer_kwargs):
        """loss: a scalar. var_list: default the trainable variables. equalities, inequalities:
        lists of scalars or vectors. var_to_bounds: {variable: (lower, upper)}, numbers or arrays
        that broadcast to it. optimizer_kwargs: for the subclass."""
        self._loss, self.optimizer_kwargs = loss, optimizer_kwargs
        self._vars = list(variable_lists.trainable_variables() if var_list is None else var_list)
        self._shapes = [tuple(var.get_shape().as_list()) for var in self._vars]
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes]).tolist()
        self._slices = [slice(a, b) for a, b in zip([0, *ends], ends)]
        self._bounds = self._packed_bounds(var_to_bounds)
        self._new = [identity_functions.placeholder(var.dtype.base_dtype, shape)
                     for var, shape in zip(self._vars, self._shapes)]
        self._assign = [var.assign(new) for var, new in zip(self._vars, self._new)]
        self._loss_grad = self._packed_gradient(loss)
        self._constraints = [[(row, self._packed_gradient(row)) for x in given or ()
                              for row in self._rows(x)] for given in (equalities, inequalities)]

    def __repr__(self):
        return f"<tf.contrib.opt.{type(self).__name__} of {self._loss.name!r}>"

    @staticmethod
    def _rows(x):
        """The scalars of a constraint."""
        x = tensors.reshape(ops.convert_to_tensor(x), [-1])
        if not x.shape.is_fully_defined():
            raise ValueError(f"The size of a constraint must be known, got shape {x.shape} of "
                             f"{x.name}")
        return [x[k] for k in range(x.shape.num_elements())]

    def _packed_gradient(self, y):
        found = gradients(y, [_target(var) for var in self._vars])
        flat = [tensors.zeros([int(np.prod(shape))], var.dtype.base_dtype) if grad is None else
                tensors.reshape(ops.convert_to_tensor(grad), [-1])
                for grad, var, shape in zip(found, self._vars, self._shapes)]
        return tensors.concat(flat, 0)

    def _packed_bounds(self, given):
        """[(lower, upper)] of the packed vector; None without bounds."""
        if given is None:
            return None
        lows, highs = [], []
        for var, shape in zip(self._vars, self._shapes):
            low, high = next((b for v, b in given.items() if v is var), (-np.inf, np.inf))
            lows.append(np.broadcast_to(low, shape).ravel())
            highs.append(np.broadcast_to(high, shape).ravel())
        return list(zip(np.concatenate(lows).tolist(), np.concatenate(highs).tolist()))

    def minimize(self, session=None, feed_dict=None, fetches=None, step_callback=None,
                 loss_callback=None, **run_kwargs):
        """Searches from the variables' values and assigns what was found.

        session: default the default one. fetches: evaluated with each loss, arguments of
        loss_callback. step_callback(packed vector): after each of the optimizer's steps.
        run_kwargs: session.run's, while variables are read and assigned."""
        session = session or ops.get_default_session()
        fetches = fetches or []

        def evaluate(wanted, callback=None, more=()):
            def function(x):
                feeds = {**(feed_dict or {}), **self._at(session, x)}
                found = session.run([*wanted, *more], feeds)
                if callback is not None:
                    callback(*found[len(wanted):])
                return found[0] if len(wanted) == 1 else found[:len(wanted)]
            return function
        start = np.concatenate([np.ravel(x) for x in session.run(self._vars, **run_kwargs)])
        equal, above = self._constraints
        found = self._minimize(
            initial_val=start,
            loss_grad_func=evaluate([self._loss, self._loss_grad], loss_callback or (
                lambda *unused: None), fetches),
            equality_funcs=[evaluate([y]) for y, _ in equal],
            equality_grad_funcs=[evaluate([grad]) for _, grad in equal],
            inequality_funcs=[evaluate([y]) for y, _ in above],
            inequality_grad_funcs=[evaluate([grad]) for _, grad in above],
            packed_bounds=self._bounds, step_callback=step_callback or (lambda *unused: None),
            optimizer_kwargs=self.optimizer_kwargs)
        session.run(self._assign, dict(zip(self._new, self._unpacked(found))), **run_kwargs)

    def _unpacked(self, x):
        return [x[part].reshape(shape) for part, shape in zip(self._slices, self._shapes)]

    def _at(self, session, x):
        """What to feed so that the variables are x, after assigning those that cannot be fed."""
        values, feeds, assigned = self._unpacked(x), {}, {}
        for var, assign, new, value in zip(self._vars, self._assign, self._new, values):
            if is_resource_variable(var):
                assigned[assign] = new, value
            else:
                feeds[var] = value
        if assigned:
            session.run(list(assigned), dict(assigned.values()))
        return feeds

    def _minimize(self, initial_val, loss_grad_func, equality_funcs, equality_grad_funcs,
                  inequality_funcs, inequality_grad_funcs, packed_bounds, step_callback,
                  optimizer_kwargs):
        raise NotImplementedError(
            "To use ExternalOptimizerInterface, subclass from it and implement _minimize")


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """scipy.optimize.minimize over variables. TF: tf.contrib.opt.ScipyOptimizerInterface.

    Arguments: see ExternalOptimizerInterface; method (default "L-BFGS-B"), options, tol and others
    go to SciPy. ValueError for those that are set here: jac, callback, constraints, bounds."""

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(self, initial_val, loss_grad_func, equality_funcs, equality_grad_funcs,
                  inequality_funcs, inequality_grad_funcs, packed_bounds, step_callback,
                  optimizer_kwargs):
        def loss_and_gradient(x):
            loss, gradient = loss_grad_func(x)
            return loss, gradient.astype("float64")
        given = dict(optimizer_kwargs)
        constraints = [
            {"type": kind, "fun": f, "jac": g} for kind, functions, slopes in (
                ("eq", equality_funcs, equality_grad_funcs),
                ("ineq", inequality_funcs, inequality_grad_funcs))
            for f, g in zip(functions, slopes)]
        arguments = {"jac": True, "callback": step_callback,
                     "method": given.pop("method", self._DEFAULT_METHOD),
                     "constraints": constraints, "bounds": packed_bounds}
        for name in given:
            if name == "bounds":
                raise ValueError("Bounds must be set using the var_to_bounds argument")
            if name in arguments:
                raise ValueError(f"Optimizer keyword arg '{name}' is set automatically and cannot "
                                 "be injected manually")
        import scipy.optimize               # no part of pyflow: who calls this has it
        result = scipy.optimize.minimize(loss_and_gradient, initial_val, **arguments, **given)
        _log.info("Optimization terminated with: %s after %s steps, %s evaluations, loss %s",
                  result.get("message"), result.get("nit"), result.get("nfev"), result.get("fun"))
        return result["x"]


PUBLIC = {"contrib.opt.ExternalOptimizerInterface": ExternalOptimizerInterface,
          "contrib.opt.ScipyOptimizerInterface": ScipyOptimizerInterface}
