"""Starting, restarting and stopping the processes of a cluster, under one contract.

    from pyflow.distributed import launch
    task = launch.task()        # what this process is: job, index, cluster, epoch; or None

`contract` is what a process is told, `members` who is there now.  Who tells it:

    local         processes of this machine            python -m pyflow launch --workers 2 s.py
    slurm         srun's                               ... --on slurm
    kubernetes    pods of a JobSet                     ... --on kubernetes
    ray           actors that host processes           ... --on ray

`job_end` is how a program ends its job by itself.  `processes`, with `child` and `guard`, keeps a
process and its descendants from outliving its launcher.  docs/launch.md tells how to use it all;
templates/ has a script for sbatch and a JobSet.
"""
from pyflow.distributed.launch.contract import Task, task

__all__ = ["Task", "task"]
