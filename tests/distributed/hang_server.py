"""A task of a cluster that loses what it is told to: hang_server.py CLUSTER JOB TASK [FAULT].

Faults: lose-put, its first tensor to another task; lose-answer, its first answer to a step.  With
one, or with "grpc", it speaks over gRPC alone.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lossy
import pyflow as tf
from pyflow.distributed.wire import grpc_link

FAULTS = {"lose-put": ["TENSOR"], "lose-answer": ["DONE"], "grpc": []}

if __name__ == "__main__":
    for fault in sys.argv[4:]:
        for frame in FAULTS[fault]:
            grpc_link.sent = lossy.Lossy(frame).of(grpc_link.sent)
    server = tf.train.Server(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]),
                             links=() if sys.argv[4:] else None)
    print("up", flush=True)
    server.join()
