"""Stands for Slurm's srun on one machine: starts the command SLURM_NTASKS times with the variables
that srun sets, waits for all, and ends with the highest exit status.  Options before the command
are looked at by the test, which finds them in FAKE_SRUN_LOG."""
import json
import os
import subprocess
import sys

options = [word for word in sys.argv[1:] if word.startswith("--")]
options = options[:next((k for k, word in enumerate(sys.argv[1:]) if not word.startswith("-")))]
command = sys.argv[1 + len(options):]
with open(os.environ["FAKE_SRUN_LOG"], "w") as f:
    json.dump({"options": options, "command": command}, f)
count = int(os.environ["SLURM_NTASKS"])
tasks = []
for rank in range(count):
    told = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0",
            "SLURM_STEP_NODELIST": "node7", "SLURM_STEP_TASKS_PER_NODE": str(count)}
    tasks.append(subprocess.Popen(command, env={**os.environ, **told}))
sys.exit(max(task.wait() for task in tasks))
