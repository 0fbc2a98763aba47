"""Programs that end as TensorFlow 1.x's do: without stopping servers or closing sessions, or by
Ctrl-C."""
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys, threading
import pyflow as tf

server = tf.train.Server({{"a": ["127.0.0.1:0"]}})
queue = tf.FIFOQueue(1, tf.float32, shared_name="q")
take, x = queue.dequeue(), tf.placeholder(tf.float32, [])
there = server.target.replace("127.0.0.1", "localhost")        # as another process would say it
sessions = [tf.Session(server.target), tf.Session(there)]
print([s.run(x + 1, {{x: 1.0}}) for s in sessions] == [2, 2], flush=True)
{end}
"""


def started(end):
    child = subprocess.Popen([sys.executable, "-P", "-c", PROGRAM.format(end=end)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "True\n", child.communicate()[1]
    return child, time.monotonic()


BLOCKED = "[threading.Thread(target=s.run, args=(take,), daemon=True).start() for s in sessions]"


@pytest.mark.parametrize("end", ["pass", BLOCKED])
def test_at_its_last_line(end):
    child, began = started(end)
    child.communicate(timeout=20)
    assert child.returncode == 0 and time.monotonic() - began < 5


@pytest.mark.parametrize("end", ["sessions[0].run(take)", "sessions[1].run(take)", "server.join()"])
def test_by_ctrl_c(end):
    child, _ = started(f"print('go', flush=True)\n{end}")
    child.stdout.readline()
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    began = time.monotonic()
    said = child.communicate(timeout=20)[1]
    assert "KeyboardInterrupt" in said and time.monotonic() - began < 3, said
