"""One script under each launcher, on this machine alone.

    lines = UNDER["slurm"](folder, script, words)           # what all its tasks printed

local      python -m pyflow launch
slurm      the template pyflow.sbatch, run by bash, with fake_srun.py in srun's place
jobset     commands and environments of the template jobset.yaml's pods, as local processes, with
           certificates as there
ray        python -m pyflow launch --on ray, in a network namespace of its own (ray_nodes.py)
"""
import os
import pathlib
import subprocess
import sys

import yaml

import ports
import ray_nodes
from pyflow.distributed.wire import certificates
from pyflow.distributed.launch import contract

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATES = pathlib.Path(contract.__file__).parent / "templates"
LAUNCH = [sys.executable, "-P", "-m", "pyflow", "launch"]
SIZES = ["--ps", "1", "--workers", "2"]


def sbatch(folder, ranks, *arguments, **variables):
    """Runs the template by bash in `folder`, beside commands that stand for srun and scontrol; its
    output is that of local processes. -> what subprocess.run returns."""
    for name, text in (("srun", f'exec {sys.executable} -S {HERE / "fake_srun.py"} "$@"'),
                       ("scontrol", f'echo "$@" >{folder}/requeued')):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "FAKE_SRUN_LOG": f"{folder}/log",
           "SLURM_NTASKS": str(ranks), "SLURM_JOB_ID": "41", "PYTHONSAFEPATH": "1", **variables}
    return subprocess.run(["bash", TEMPLATES / "pyflow.sbatch", *arguments], cwd=folder, env=env,
                          capture_output=True, text=True)


def pods_of(jobset, restart):
    """(command, environment) of each pod, as the controllers would start it."""
    name = jobset["metadata"]["name"]
    for job in jobset["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        assert spec["completionMode"] == "Indexed" and spec["backoffLimit"] == 0
        assert spec["completions"] == spec["parallelism"]
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        [container] = spec["template"]["spec"]["containers"]
        prefix = "jobset.sigs.k8s.io/"
        notes = {f"{prefix}jobset-name": name, f"{prefix}replicatedjob-name": job["name"],
                 f"{prefix}jobset-uid": "u-2", f"{prefix}restart-attempt": str(restart)}
        env = {}
        for entry in container["env"]:
            path = entry["valueFrom"]["fieldRef"]["fieldPath"]
            env[entry["name"]] = notes[path.removeprefix("metadata.annotations['")[:-2]]
        for index in range(spec["completions"]):
            yield container["command"], {**env, "JOB_COMPLETION_INDEX": str(index)}


# ---------------------------------------------------------------- one script under each

def _local(folder, script, words):
    return _lines([subprocess.Popen([*LAUNCH, *SIZES, script, *words], **_PIPES)])


def _slurm(folder, script, words):
    variables = {"PYTHON": sys.executable, "SLURM_JOB_ID": str(os.getpid())}    # ports follow it
    done = sbatch(folder, 3, *SIZES, str(script), *words, **variables)
    assert done.returncode == 0 and not (folder / "requeued").exists(), done.stderr + done.stdout
    return done.stdout.splitlines()


def _jobset(folder, script, words):
    jobset = yaml.safe_load((TEMPLATES / "jobset.yaml").read_text())
    certificates.make_certificates(folder / "certs")
    port, running = ports.ports_in_a_row(3), []
    for command, environment in pods_of(jobset, restart=0):
        here = command[command.index("launch"):command.index("train.py")]
        here = ["--on", here[2], "--host", "127.0.0.1", "--port", str(port), *here[3:]]
        here[here.index("/certificates")] = str(folder / "certs")
        running.append(subprocess.Popen([*LAUNCH, *here, script, *words], **{
            **_PIPES, "env": {**os.environ, **environment}}))
    return _lines(running)


def _ray(folder, script, words):
    done = ray_nodes.alone("script", folder, script, *words)
    *lines, found = done.stdout.splitlines() or [""]
    assert found == '{"status": 0}', done.stdout[-3000:] + done.stderr[-5000:]
    return lines


UNDER = {"local": _local, "slurm": _slurm, "jobset": _jobset, "ray": _ray}
_PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def _lines(running, seconds=300):
    """What processes print, all of which have to succeed."""
    said = [process.communicate(timeout=seconds) for process in running]
    assert not any(process.returncode for process in running), said
    return [line for out, _ in said for line in out.splitlines()]
