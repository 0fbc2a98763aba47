"""Calls that are done once, however often they are delivered.

A sender gives each call a key.  Who delivers it again, because the answer was lost or a network
doubled it, gets the same answer, and nothing is done a second time.

    NEW --begin--> UNDER WAY --end--> ANSWERED --later--> KNOWN (without the answer) --later--> NEW

Invariants
1. An answer is kept while it is small (KEPT bytes); of a larger one is known that it was given, and
   who asks again hears ABORTED.
2. At most `room` keys are known beside those under way; the oldest go first, or when told to.

Threads: any; nothing is called with the lock held.

    once = Once()
    once.run(7, lambda: messages.Empty())
"""
import threading

from pyflow.framework import errors

KEPT = 1 << 16
ROOM = 4096


class _Call:
    __slots__ = ("answer", "over", "told")

    def __init__(self):
        self.answer, self.over, self.told = None, False, []


class Once:
    """Calls by key.  room: how many are remembered."""

    def __init__(self, room=ROOM):
        self._lock, self._room = threading.Lock(), room
        self._calls, self._answered = {}, {}        # key: _Call; those that are over, oldest first

    def begin(self, key, told):
        """True: it is new, and `end` has to follow.  False: it was delivered before;
        told(answer) is called with that one's, now or when there is one."""
        with self._lock:
            found = self._calls.get(key)
            if found is None:
                self._calls[key] = _Call()
                return True
            if not found.over:
                found.told.append(told)
                return False
            answer = found.answer
        told(answer if answer is not None else _let_go())
        return False

    def end(self, key, answer):
        """answer: a message, or the exception that it ended with."""
        small = isinstance(answer, Exception) or answer.ByteSize() <= KEPT
        with self._lock:
            found = self._calls.get(key)
            if found is None:                       # forgotten meanwhile
                return
            found.answer, found.over = answer if small else None, True
            told, found.told = found.told, []
            self._answered[key] = None
            if len(self._answered) > self._room:
                oldest = next(iter(self._answered))
                del self._answered[oldest], self._calls[oldest]
        for tell in told:
            tell(answer)

    def forget(self, wanted):
        """Of the keys that are over, those of which `wanted(key)` is true are new again."""
        with self._lock:
            for key in [k for k in self._answered if wanted(k)]:
                del self._answered[key], self._calls[key]

    def run(self, key, do):
        """What do() returns or raises, the first time; the same again later.  key 0: do() as it
        is."""
        if not key:
            return do()
        answers, there = [], threading.Event()

        def told(answer):
            answers.append(answer)
            there.set()
        if self.begin(key, told):
            try:
                answer = do()
            except BaseException as problem:
                self.end(key, problem if isinstance(problem, Exception) else _interrupted())
                raise
            self.end(key, answer)
            return answer
        there.wait()
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]


def _let_go():
    return errors.AbortedError(None, None, "the call was delivered twice: it was done, and its "
                               "answer given and let go")


def _interrupted():
    return errors.CancelledError(None, None, "the call was interrupted")
