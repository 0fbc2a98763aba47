"""`Defun`, `Declare`: functions of the graph's library; see pyflow/lib/function/defun.py."""
from pyflow.lib.function.defun import (Declare, Defun, get_extra_args, get_extra_inputs,
                                       get_extra_vars)

__all__ = ["Declare", "Defun", "get_extra_args", "get_extra_inputs", "get_extra_vars"]
