"""Coordinator and LooperThread: threads that stop together.

    RUNNING -> STOPPING [request_stop]    the first exception that is not a clean stop is kept
    STOPPING -> JOINED  [join]            and raised here
    any -> RUNNING      [clear_stop]

Invariants
  1. `should_stop` is true from the first `request_stop` on.
  2. Who waits in `join` sleeps in short turns, so that Ctrl-C ends it at once.
  3. A join that gives up names the threads that still run, and the operations that running steps
     wait in.

Threads: any; `_lock` guards what is not the event.
Source: TF 1.15 `tf.train.Coordinator`, `tf.train.LooperThread`.

Example:  `with coord.stop_on_exception(): ...`;  `coord.request_stop();  coord.join(threads)`
"""
import contextlib
import logging
import sys
import threading
import time

from pyflow.framework import errors
from pyflow.session import stuck

_log = logging.getLogger("tensorflow")
_TURN = 0.05        # the most seconds between looks at the threads


def _sleep_while(waits):
    """In turns that grow.  What threading waits with may be left half locked by an exception of a
    signal's handler; sleep is not."""
    turn = 0.0005
    while waits():
        time.sleep(turn)
        turn = min(2 * turn, _TURN)


class Coordinator:
    """Stops a group of threads, and tells who asked for it. TF: tf.train.Coordinator.

    clean_stop_exception_types: exceptions that mean "stop", and are no failure; default
    OutOfRangeError.

        >>> import threading
        >>> coord = tf.train.Coordinator()
        >>> thread = threading.Thread(target=coord.request_stop)
        >>> thread.start(); coord.join([thread]); coord.should_stop()
        True
    """

    def __init__(self, clean_stop_exception_types=None):
        self._clean = tuple(clean_stop_exception_types or (errors.OutOfRangeError,))
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._exc_info_to_raise = None
        self._joined = False
        self._registered_threads = set()

    def __repr__(self):
        state = "stopping" if self.should_stop() else "running"
        return f"<tf.train.Coordinator {state}, {len(self._registered_threads)} threads>"

    def _filter_exception(self, ex):
        """None for an exception that is a clean stop."""
        value = ex[1] if isinstance(ex, tuple) else ex
        return None if isinstance(value, self._clean) else ex

    def request_stop(self, ex=None):
        """Asks all threads to stop.

        ex: an exception, or the tuple of sys.exc_info(), that `join` raises; clean ones are not.
        After a join it is raised at once."""
        with self._lock:
            ex = self._filter_exception(ex)
            if self._joined and ex is not None:
                value = ex[1] if isinstance(ex, tuple) else ex
                raise value
            if not self._stop_event.is_set():
                if ex is not None and self._exc_info_to_raise is None:
                    self._keep(ex)
                self._stop_event.set()

    def _keep(self, ex):
        if not isinstance(ex, tuple):
            _log.info("Error reported to Coordinator: %s, %s", type(ex), ex)
            ex = (type(ex), ex, ex.__traceback__)
        elif len(ex) == 3 and ex[0] and ex[1]:
            _log.info("Error reported to Coordinator: %s", ex[1])
        else:
            ex = (ValueError, ValueError("ex must be a tuple or sys.exc_info must return the "
                                         f"current exception: {ex}"), None)
        self._exc_info_to_raise = ex

    def clear_stop(self):
        """Threads may run again; the exception and `joined` are forgotten."""
        with self._lock:
            self._joined = False
            self._exc_info_to_raise = None
            self._stop_event.clear()

    def should_stop(self):
        """True once a stop was asked for."""
        return self._stop_event.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self):
        """Context whose exceptions ask for a stop, and go no further."""
        try:
            yield
        except:  # noqa: E722 - Ctrl-C in a thread too, as in TensorFlow
            self.request_stop(ex=sys.exc_info())

    def wait_for_stop(self, timeout=None):
        """Waits at most `timeout` seconds; True if a stop was asked for."""
        return self._stop_event.wait(timeout)

    def register_thread(self, thread):
        """`join` waits for this thread too."""
        with self._lock:
            self._registered_threads.add(thread)

    def _unregister_thread(self, thread):
        """`join` does not wait for this thread: what it waits for ends with the session."""
        with self._lock:
            self._registered_threads.discard(thread)

    def join(self, threads=None, stop_grace_period_secs=120, ignore_live_threads=False):
        """Waits for the threads, those registered included, and raises what was reported.

        stop_grace_period_secs: how long after a stop was asked for; then RuntimeError names the
        threads that still run and what the running steps wait in, unless ignore_live_threads.
        """
        with self._lock:
            threads = list(self._registered_threads.union(threads or ()))
        _sleep_while(lambda: any(t.is_alive() for t in threads) and not self.should_stop())
        until = time.monotonic() + stop_grace_period_secs
        _sleep_while(lambda: any(t.is_alive() for t in threads) and time.monotonic() < until)
        stragglers = [t.name for t in threads if t.is_alive()]
        text = self._still_running(stragglers) if stragglers else ""
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            if self._exc_info_to_raise:
                raise self._exc_info_to_raise[1]
        if stragglers and ignore_live_threads:
            _log.info("%s", text)
        elif stragglers:
            raise RuntimeError(text)

    @staticmethod
    def _still_running(names):
        return ("Coordinator stopped with threads still running: " + " ".join(names)
                + f"\nWhat runs now:\n{stuck.report()}")

    @property
    def joined(self):
        """True after `join`."""
        return self._joined

    def raise_requested_exception(self):
        """Raises the exception that was reported, if there is one."""
        with self._lock:
            if self._exc_info_to_raise:
                raise self._exc_info_to_raise[1]


class LooperThread(threading.Thread):
    """A thread that calls `run_loop` again and again until its coordinator stops.
    TF: tf.train.LooperThread.

    timer_interval_secs: between the starts of two calls; None: without pause. target: a function
    called instead of `run_loop`. What it raises is reported to the coordinator.
    """

    def __init__(self, coord, timer_interval_secs, target=None, args=None, kwargs=None):
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        super().__init__(daemon=True)
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._looper_target = target
        self._looper_args, self._looper_kwargs = args or (), kwargs or {}
        coord.register_thread(self)

    @staticmethod
    def loop(coord, timer_interval_secs, target, args=None, kwargs=None):
        """A started LooperThread that calls target(*args)."""
        thread = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        thread.start()
        return thread

    def run(self):
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                at = time.time()
                while not self._coord.wait_for_stop(max(0, at - time.time())):
                    at += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self):
        """Called before the first `run_loop`."""

    def stop_loop(self):
        """Called after the last `run_loop`, unless one raised."""

    def run_loop(self):
        """One turn: calls the target."""
        if self._looper_target:
            self._looper_target(*self._looper_args, **self._looper_kwargs)


PUBLIC = {"train.Coordinator": Coordinator, "train.LooperThread": LooperThread}
