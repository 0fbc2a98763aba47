"""Types of pyflow.queue.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import queue as _queue
FIFOQueue = _queue.FIFOQueue
PaddingFIFOQueue = _queue.PaddingFIFOQueue
PriorityQueue = _queue.PriorityQueue
QueueBase = _queue.QueueBase
RandomShuffleQueue = _queue.RandomShuffleQueue
