"""Names of tasks, /job:worker/replica:0/task:1: their parts, their order, and short ones for people.

Threads: pure functions.
"""


def order(task):
    """Sorts tasks by job, then number."""
    job, number = parts(task)
    return job, int(number) if number.isdigit() else -1


def parts(task):
    """("worker", "1") of "/job:worker/replica:0/task:1"."""
    job = task.partition("/job:")[2].partition("/")[0]
    return job or task, task.rpartition("task:")[2] if "task:" in task else ""


def short(task):
    """"worker/1" of "/job:worker/replica:0/task:1"."""
    job, number = parts(task)
    return f"{job}/{number}" if number else job
