"""python -m pyflow cluster status|top|why|trace|reshard|stop ADDRESS: a cluster, asked at any server of it.

    status    a row per task, links, devices, plugins, time-outs; --json
    top       the rows again and again
    why       who waits for what from whom, the culprit first
    trace     the next steps of all tasks as one trace for Perfetto
    reshard   ps=N: the parameters of a training move to so many servers, while it goes on
    stop      every task's `Server.join` returns

Exit status: 0 all is well; 1 a task does not answer, or something hangs; 2 nobody answers at
ADDRESS, or a wrong option.
"""
import json
import sys
import time

from pyflow.distributed.look import asking
from pyflow.distributed.wire import task_names
from pyflow.tools import cluster_show

SAMPLE = 0.3                            # seconds between the two looks that give steps per second
LEAST = 0.2                             # seconds: a step that is younger is not waiting yet


def add_to(commands):
    """Adds the subcommands to argparse's."""
    def command(name, call, text):
        found = commands.add_parser(name, help=text)
        found.add_argument("address", metavar="ADDRESS", help="host:port of any of its servers")
        found.add_argument("--certificates", metavar="DIR", help="the folder of this program's "
                           "certificate; default: PYFLOW_CERTIFICATES")
        found.add_argument("--patience", type=float, default=asking.PATIENCE, metavar="S",
                           help=f"seconds for a task to answer ({asking.PATIENCE:g})")
        found.set_defaults(call=lambda args: _run(name, call, args))
        return found
    found = command("status", _status, "what every task is and does")
    found.add_argument("--json", action="store_true", help="for programs")
    found = command("top", _top, "the same, again and again")
    found.add_argument("--interval", type=float, default=1.0, metavar="S", help="seconds (1)")
    found.add_argument("--count", type=int, default=0, metavar="N",
                       help="how often; 0: until Ctrl-C")
    found = command("why", _why, "who waits for what from whom, the culprit first")
    found.add_argument("--json", action="store_true", help="for programs")
    found.add_argument("--least", type=float, default=LEAST, metavar="S", help="steps younger than "
                       f"that are of no interest ({LEAST:g})")
    found = command("trace", _trace, "the next steps of all tasks as one trace for Perfetto")
    found.add_argument("--steps", type=int, default=10, metavar="N", help="of each task (10)")
    found.add_argument("--seconds", type=float, default=10.0, metavar="S", help="at most (10)")
    found.add_argument("--out", default="cluster_trace.json", metavar="FILE", help="JSON trace "
                       "events (cluster_trace.json)")
    found.add_argument("--switches", action="store_true", help="thread switches, too, of the tasks "
                       "of this machine; needs root and tracefs")
    found = command("reshard", _reshard, "how many parameter servers hold the parameters")
    found.add_argument("servers", metavar="ps=N")
    found.add_argument("--seconds", type=float, default=60.0, metavar="S", help="at most (60)")
    command("stop", _stop, "tells every task that the job is over")


def _run(name, call, args):
    try:
        with asking.Cluster(args.address, _credentials(args), args.patience) as cluster:
            return call(cluster, args)
    except (asking.Unreachable, ValueError, OSError, ImportError) as problem:
        print(f"python -m pyflow cluster {name}: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _credentials(args):
    from pyflow.distributed.wire import security
    from pyflow.framework import errors
    try:
        if args.certificates:
            return security.Credentials.load(args.certificates)
        return security.Credentials.of_environment()
    except errors.OpError as problem:
        raise ValueError(problem.message) from None


def _silent(found):
    return any(isinstance(reply, asking.Silent) for reply in found.values())


def _status(cluster, args):
    before = cluster.statuses()
    time.sleep(SAMPLE)
    now = cluster.statuses()
    if args.json:
        print(json.dumps(cluster_show.as_json(now, before), indent=1))
    else:
        print("\n".join([*cluster_show.table(now, before), "", *cluster_show.details(now)]))
    return int(_silent(now))


def _top(cluster, args):
    before, left, clear = cluster.statuses(), args.count, sys.stdout.isatty()
    while True:
        time.sleep(max(args.interval, 0.05))
        now = cluster.statuses()
        lines = [time.strftime("%H:%M:%S"), *cluster_show.table(now, before)]
        print(("\x1b[H\x1b[2J" if clear else "") + "\n".join(lines), flush=True)
        before, left = now, left - 1
        if left == 0:
            return int(_silent(now))


def _why(cluster, args):
    from pyflow.distributed.look import why
    found = why.of_cluster(cluster, args.least)
    if args.json:
        print(json.dumps({"culprits": [c._asdict() for c in found.culprits],
                          "waits": [r._asdict() for r in found.rows]}, indent=1))
    else:
        print(found.text(most=1000))
    return int(bool(found.culprits))


def _trace(cluster, args):
    from pyflow import timeline
    from pyflow.distributed.look import merged_trace
    recording, notes = merged_trace.record(cluster, max(1, args.steps), args.seconds, args.switches)
    steps = recording.steps
    with open(args.out, "w", encoding="utf-8") as file:
        merged_trace.write(recording, file)
    for note in notes:
        print(note, file=sys.stderr)
    print(f"{args.out}: {len(steps)} steps of {len(cluster.tasks)} tasks")
    if steps:
        print(timeline.critical_text(max(steps, key=merged_trace.length).stats))
    return int(not steps)


def _reshard(cluster, args):
    from pyflow.distributed.train import resharding
    job, _, count = args.servers.partition("=")
    if not (job and count.isascii() and count.isdigit()):
        raise ValueError(f"{args.servers}: expected ps=N")
    done = resharding.ask(cluster, int(count), job, args.seconds)
    print(f"{job}: {done.before} -> {done.servers}, {done.bytes} bytes copied in {done.copied:.3f} s, "
          f"no step for {done.seconds:.3f} s")
    return 0


def _stop(cluster, args):
    found = cluster.bye("python -m pyflow cluster stop")
    for task, reply in found.items():
        if isinstance(reply, asking.Silent):
            print(f"{task_names.short(task)} at {reply.address} does not answer: {reply.reason}",
                  file=sys.stderr)
        else:
            print(f"{task_names.short(task)} stops")
    return int(_silent(found))
