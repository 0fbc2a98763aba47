"""A task of a cluster that loses what it is told to: hang_server.py CLUSTER JOB TASK [FAULT].

Faults: lose-put, its first tensor to another task; lose-answer, its first answer to a step.  With
one, or with "grpc", it speaks over gRPC alone.
"""
import json
import sys

import pyflow as tf
from pyflow.distributed import routes, worker_service


def lose_put():
    real, lost = routes._Pushed._push, []

    def push(self, *put):
        if lost:
            return real(self, *put)
        lost.append(put)
    routes._Pushed._push = push


def lose_answer():
    real, lost = worker_service.WorkerService._start, []

    def start(self, request, ran):
        def lose(reply):
            lost.append(reply)
        return real(self, request, ran if lost else lose)
    worker_service.WorkerService._start = start


FAULTS = {"lose-put": lose_put, "lose-answer": lose_answer, "grpc": lambda: None}

if __name__ == "__main__":
    for fault in sys.argv[4:]:
        FAULTS[fault]()
    server = tf.train.Server(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]),
                             links=() if sys.argv[4:] else None)
    print("up", flush=True)
    server.join()
