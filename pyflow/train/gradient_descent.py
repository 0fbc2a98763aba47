"""Gradient descent: var -= learning_rate * gradient.

Example:  `tf.train.GradientDescentOptimizer(0.5).minimize(loss)`
"""
from pyflow.framework import graph as ops
from pyflow.ops.state import resource_handles, training_ops
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter


class GradientDescentOptimizer(Optimizer):
    """var -= learning_rate * gradient; repeated sparse indices simply add up.

    learning_rate: a number or scalar tensor. use_locking: accepted; updates are atomic whatever it
    says.

        >>> w = tf.Variable([1.0, 2.0])
        >>> step = tf.train.GradientDescentOptimizer(0.25).minimize(tf.reduce_sum(w * w))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     sess.run(w).round(4)
        array([0.5, 1. ], dtype=float32)
    """

    def __init__(self, learning_rate, use_locking=False, name="GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self):
        self._rate = hyperparameter(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad, var):
        return training_ops.ApplyGradientDescent(
            var, cast_like(self._rate, var), grad, use_locking=self._use_locking).op

    def _resource_apply_dense(self, grad, handle):
        return training_ops.ResourceApplyGradientDescent(
            handle.handle, cast_like(self._rate, handle), grad, use_locking=self._use_locking)

    def _apply_sparse_duplicate_indices(self, grad, var):
        delta = ops.IndexedSlices(grad.values * cast_like(self._rate, var), grad.indices,
                                  grad.dense_shape)
        return var.scatter_sub(delta, use_locking=self._use_locking).op

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        return resource_handles.ResourceScatterAdd(handle.handle, indices,
                                                   -grad * cast_like(self._rate, handle))

    def _apply_sparse(self, grad, var):
        return self._apply_sparse_duplicate_indices(grad, var)

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._resource_apply_sparse_duplicate_indices(grad, handle, indices)


PUBLIC = {"train.GradientDescentOptimizer": GradientDescentOptimizer}
