"""python -m pyflow cluster make-certificates FOLDER [--hosts HOST ...]
python -m pyflow cluster scale JOB=N ... [--launcher PID]
python -m pyflow cluster status|top|why|trace|reshard|stop ADDRESS    (cluster_look.py)

Certificates with which the tasks of a cluster prove themselves to each other, made by openssl: an
authority, FOLDER/ca.pem with its key ca.key, and a certificate for all hosts in FOLDER itself, or,
where hosts are given as TASK=HOST,HOST, one a task in FOLDER/TASK. Each task reads its folder
through PYFLOW_CERTIFICATES.

scale has a cluster that `python -m pyflow launch` runs on this machine have N tasks in a job.

Exit status: 0 done; 1 no launcher, or several; 2 a wrong option, no openssl, or a folder that
cannot be written.
"""
import argparse
import sys


def main(argv):
    """Runs one of the cluster's commands.  Returns the exit status."""
    args = _parser().parse_args(argv)
    return args.call(args)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    make = commands.add_parser("make-certificates", help="an authority, and certificates of tasks")
    make.add_argument("folder", metavar="FOLDER")
    make.add_argument("--hosts", nargs="+", metavar="HOST", help="names and addresses under which "
                      "the tasks are reached; default: this machine's loopback")
    make.add_argument("--days", type=int, default=365, help="how long they are valid (365)")
    make.set_defaults(call=_make_certificates)
    scale = commands.add_parser("scale", help="how many tasks a job of a launched cluster has")
    scale.add_argument("jobs", nargs="+", metavar="JOB=N")
    scale.add_argument("--launcher", type=int, metavar="PID", help="which launcher, if there are "
                       "several")
    scale.set_defaults(call=_scale)
    from pyflow.tools import cluster_look
    cluster_look.add_to(commands)
    return parser


def _make_certificates(args):
    from pyflow.distributed.wire import certificates
    from pyflow.framework import errors
    try:
        made = certificates.make_certificates(args.folder, _hosts(args.hosts), args.days)
    except (errors.OpError, OSError, ValueError) as e:
        print(f"python -m pyflow cluster make-certificates: {e}", file=sys.stderr)
        return 2
    for folder in made:
        print(f"{folder}: ca.pem task.pem task.key")
    print(f"{args.folder}/ca.key signs more of them: keep it off the machines of the cluster")
    return 0


def _scale(args):
    from pyflow.distributed.launch import control
    try:
        wanted = {job: int(count) for job, _, count in (w.partition("=") for w in args.jobs)}
    except ValueError:
        print(f"python -m pyflow cluster scale: {' '.join(args.jobs)}: expected JOB=N",
              file=sys.stderr)
        return 2
    there = control.found()
    if args.launcher is not None:
        there = {pid: path for pid, path in there.items() if pid == args.launcher}
    if len(there) != 1:
        pids = ", ".join(map(str, there))
        print("python -m pyflow cluster scale: " + (
            f"launchers {pids} run here: say which by --launcher PID" if there else
            "no such launcher of yours runs here"), file=sys.stderr)
        return 1
    try:
        reply = control.ask(*there.values(), {"scale": wanted})
    except (OSError, ValueError) as e:
        print(f"python -m pyflow cluster scale: {e}", file=sys.stderr)
        return 2
    for job, tasks in reply["members"]["tasks"].items():
        print(job, " ".join(f"{index}:{task['state']}" for index, task in tasks.items()))
    return 0


def _hosts(words):
    from pyflow.distributed.wire import certificates
    if not words:
        return certificates.HERE
    named = ["=" in word for word in words]
    if all(named):
        return {task: hosts.split(",") for task, _, hosts in (w.partition("=") for w in words)}
    if any(named):
        raise ValueError(f"--hosts {' '.join(words)}: expected all as HOST, or all as "
                         "TASK=HOST,HOST")
    return words
