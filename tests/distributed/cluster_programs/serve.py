"""A server in a process of its own: python serve.py tensorflow|pyflow SPEC JOB TASK DELAY."""
import importlib
import json
import sys
import time


def main(package, spec, job, task, delay):
    tf = importlib.import_module("pyflow" if package == "pyflow" else "tensorflow.compat.v1")
    time.sleep(float(delay))
    server = tf.train.Server(json.loads(spec), job_name=job, task_index=int(task))
    print("ready", flush=True)
    server.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
