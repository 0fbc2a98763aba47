"""What measurements in turns share: systems are asked one after the other, each a process of its
own, and threads of one that still look for work would take processors from the next.

    answer = measure()
    settle()            # only then tell whoever asks
"""
import time


def settle():
    """Until this process's threads use no processor time; 0.3 s at most."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(0.003)
        if time.process_time() - before < 5e-4:
            return
