"""The Python side of the PYFLOW_DEBUG ladder: what a plan is, how long its steps take, what goes
in and out.

    2  one line per step: time and number of kernels
    3  the plan when it is compiled: blocks, instructions, slots
    4  shapes and values of feeds and fetches
    5  the plan's counters

Invariants
    1. At level 0 and 1 nothing here runs: plans are used as they are.

Threads: any; each line is written at once.
"""
import dataclasses
import logging
import time

import numpy as np

from pyflow.session import contract

log = logging.getLogger("pyflow.session")


def observed_run(plan, level, run_plan):
    """`run_plan` that logs what `level` asks for; it is `plan.run`, or a function like it."""
    name = f"plan {id(plan):#x}"
    if level >= 3:
        log.debug("%s:\n%s", name, plan.explain())
    if level >= 5:
        log.debug("%s: %s", name, plan.counts())

    def run(feeds=(), options=None):
        stats, start = {}, time.perf_counter()
        options = dataclasses.replace(options or contract.RunOptions(), stats=stats)
        if level >= 4:
            for label, value in zip(plan.arg_names, feeds):
                log.debug("%s: feed %s = %s", name, label, summary(value))
        results = run_plan(feeds, options)
        took = (time.perf_counter() - start) * 1e6
        log.debug("%s: %.1f us, %d kernels", name, took, stats.get("kernels", -1))
        if level >= 4:
            for i, value in enumerate(results):
                log.debug("%s: result %d = %s", name, i, summary(value))
        return results
    return run


def summary(value):
    """One line about a tensor: type, shape, mean, std, NaNs; small ones in full."""
    array = np.asarray(value.array() if hasattr(value, "array") else value)
    head = f"{array.dtype.name}{list(array.shape)}"
    if array.size <= 6 or array.dtype == object:
        return f"{head} {array.ravel()[:6].tolist()}"
    if array.dtype.kind not in "fiu":
        return head
    wide = array.astype(np.float64)
    text = f"{head} mean {np.nanmean(wide):.4g} std {np.nanstd(wide):.4g}"
    nans = int(np.isnan(wide).sum())
    return f"{text} NaNs {nans}" if nans else text
