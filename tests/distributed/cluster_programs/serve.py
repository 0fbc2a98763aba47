"""A server in a process of its own, which ends with the process that started it: python serve.py
tensorflow|pyflow SPEC JOB TASK DELAY."""
import importlib
import json
import os
import sys
import threading
import time


def end_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main(package, spec, job, task, delay):
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    tf = importlib.import_module("pyflow" if package == "pyflow" else "tensorflow.compat.v1")
    time.sleep(float(delay))
    server = tf.train.Server(json.loads(spec), job_name=job, task_index=int(task))
    print("ready", flush=True)
    server.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
