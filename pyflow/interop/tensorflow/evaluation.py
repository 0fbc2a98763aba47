"""tensorflow.python.training.evaluation: the names that tf_slim takes from it.

    evaluation._evaluate_once(path, eval_ops=update, hooks=[evaluation._StopAfterNEvalsHook(10)])
"""
from pyflow.train.evaluation import (
    StopAfterNEvalsHook as _StopAfterNEvalsHook, evaluate_once as _evaluate_once,
    get_or_create_eval_step as _get_or_create_eval_step,
)

__all__ = ["_StopAfterNEvalsHook", "_evaluate_once", "_get_or_create_eval_step"]
