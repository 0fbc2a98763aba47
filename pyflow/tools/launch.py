"""python -m pyflow launch --workers 2 --ps 1 SCRIPT [ARGUMENT ...]

Starts a script as all the tasks of a cluster on this machine, prints their lines with their names,
starts those that die again (--restart), and ends all when the chief (worker 0, or --chief) ends or
at Ctrl-C. Each is told by TF_CONFIG which task it is: pyflow.distributed.launch.task(). Under
another engine, which starts the processes itself, --on says how each finds out who it is: --on
slurm, --on kubernetes. --on ray starts them as actors of a Ray cluster.

Exit status: the chief's, or that of the first task that failed for good; 130 after Ctrl-C.
"""
import argparse
import os
import sys


def main(argv):
    """Launches. Returns the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    from pyflow.distributed.wire import security
    from pyflow.framework import errors
    try:
        if args.module or args.script.endswith(".py"):      # each task would fail by itself
            security.grpc()
        return _ENGINES[args.on](args, _command(args), _jobs(args))
    except (errors.OpError, ImportError, OSError, ValueError) as e:
        print(f"python -m pyflow launch: {e}", file=sys.stderr)
        return 2


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow launch", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--workers", type=int, default=0, metavar="N", help="tasks of the job worker")
    add("--ps", type=int, default=0, metavar="N", help="tasks of the job ps")
    add("--standby", action="store_true", help="a task of the job ps_standby for each of ps")
    add("--chief", action="store_true", help="a task of the job chief beside the workers")
    add("--job", action="append", default=[], metavar="NAME=N", help="tasks of another job")
    add("--on", choices=sorted(_ENGINES), default="local", help="who runs the processes (local)")
    add("--restart", type=int, default=0, metavar="N", help="how often a task may be started again")
    add("--unix", action="store_true", help="local: UNIX sockets, where no other user can connect")
    add("--grace", type=float, default=5.0, metavar="S", help="seconds that tasks have to end (5)")
    add("--shards", type=int, metavar="S", help="logical shards of a synchronous step")
    add("--lease", type=float, default=10.0, metavar="S",
        help="seconds of silence after which a task is taken for gone (10)")
    add("--certificates", metavar="FOLDER", help="ca.pem, task.pem and task.key, or a folder of "
        "them a task: `python -m pyflow cluster make-certificates`")
    add("--insecure", action="store_true", help="tasks may listen on addresses that others reach, "
        "without certificates")
    add("--port", type=int, default=0, metavar="N", help="slurm, kubernetes: the first task's port")
    add("--host", metavar="HOST", help="slurm, kubernetes: where all tasks are, to try a template "
        "out on one machine")
    add("--address", metavar="ADDRESS", help="ray: of the cluster; default: start one here")
    add("--name", metavar="NAME", help="ray: launches of one name count their epochs together")
    add("-m", dest="module", action="store_true", help="SCRIPT is a module's name")
    add("script", metavar="SCRIPT", help="a Python script, or another program")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    return parser


def _command(args):
    if args.module:
        return [sys.executable, "-m", args.script, *args.arguments]
    if args.script.endswith(".py"):
        if not os.path.isfile(args.script):
            raise ValueError(f"{args.script}: there is no such script")
        return [sys.executable, args.script, *args.arguments]
    return [args.script, *args.arguments]


def _jobs(args):
    """{job: number of tasks}, parameter servers first."""
    from pyflow.distributed.launch import supervision
    jobs = {"ps": args.ps, "ps_standby": args.standby * args.ps, "chief": int(args.chief), "worker": args.workers}
    for text in args.job:
        name, _, count = text.partition("=")
        if not count.isdigit():
            raise ValueError(f"--job {text}: expected NAME=N")
        jobs[name] = int(count)
    if not any(jobs.values()):
        jobs["worker"] = 1
    return supervision.checked_jobs({job: count for job, count in jobs.items() if count})


def _told(args):
    """What the contract says of all tasks."""
    return {"shards": args.shards, "lease": args.lease, "certificates": args.certificates,
            "insecure": args.insecure}


def _local(args, command, jobs):
    from pyflow.distributed.launch import local, supervision
    return supervision.run(local.LocalCluster(
        command, jobs, restarts=args.restart, grace=args.grace, unix=args.unix, **_told(args)))


def _slurm(args, command, jobs):
    from pyflow.distributed.launch import slurm
    _become(command, slurm.task(jobs, args.port, args.host, **_told(args)))


def _kubernetes(args, command, jobs):
    from pyflow.distributed.launch import kubernetes
    _become(command, kubernetes.task(jobs, args.port, args.host, **_told(args)))


def _ray(args, command, jobs):
    from pyflow.distributed.launch import ray, supervision
    return supervision.run(ray.RayCluster(command, jobs, restarts=args.restart, grace=args.grace,
                                          address=args.address, name=args.name, **_told(args)))


def _become(command, task):
    """This process goes on as the task's."""
    sys.stdout.flush()
    os.execvpe(command[0], command, {**os.environ, **task.environment()})


_ENGINES = {"local": _local, "slurm": _slurm, "kubernetes": _kubernetes, "ray": _ray}
