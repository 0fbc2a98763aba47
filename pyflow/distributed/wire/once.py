"""Calls that are done once, however often they are delivered.

A sender gives each call a key.  Who delivers it again, because the answer was lost or a network
doubled it, gets the same answer, and nothing is done a second time.

    NEW --begin--> UNDER WAY --end--> ANSWERED --later--> KNOWN (without the answer) --later--> NEW

Invariants
1. An answer is kept while it is small (KEPT bytes), and all of them while they have KEPT_IN_ALL; of
   the others, the oldest first, is known that they were given, and who asks again hears ABORTED.
2. At most `room` keys are known beside those under way; the oldest go first, or when told to.
3. Of a call that is over nothing is held but the bytes of its answer: an exception, with the frames
   that it went through and all that they hold, is kept as the ErrorMessage that travels.

Threads: any; nothing is called with the lock held.

    once = Once()
    once.run(7, lambda: messages.Empty())
"""
import collections
import threading

from pyflow.distributed.wire import messages, rpc
from pyflow.framework import errors

KEPT = 1 << 16
KEPT_IN_ALL = 1 << 20
ROOM = 4096


class Once:
    """Calls by key.  room: how many are remembered; task: whose, for failures that name none."""

    def __init__(self, room=ROOM, task=""):
        self._lock, self._room, self._task = threading.Lock(), room, task
        self._under_way = {}                        # key: functions of an answer, who asked again
        self._over = collections.OrderedDict()      # keys, oldest first
        self._answers = collections.OrderedDict()   # key: (type of a message, its bytes)
        self._bytes = 0                             # of all of those

    def begin(self, key, told):
        """True: it is new, and `end` has to follow.  False: it was delivered before;
        told(answer) is called with that one's, now or when there is one: a message, or an
        exception."""
        with self._lock:
            waiting = self._under_way.get(key)
            if waiting is not None:
                waiting.append(told)
                return False
            if key not in self._over:
                self._under_way[key] = []
                return True
            kept = self._answers.get(key)
        told(_let_go() if kept is None else _again(*kept))
        return False

    def end(self, key, answer):
        """answer: a message, or the exception that it ended with."""
        message = rpc.error_message(answer, self._task) if isinstance(answer, Exception) else answer
        data = message.SerializeToString() if message.ByteSize() <= KEPT else None
        with self._lock:
            told = self._under_way.pop(key, None)
            if told is None:
                return
            self._over[key] = None
            if data is not None:
                self._answers[key] = type(message), data
                self._bytes += len(data)
            if len(self._over) > self._room:
                self._drop_answer(self._over.popitem(last=False)[0])
            while self._bytes > KEPT_IN_ALL:
                self._drop_answer(next(iter(self._answers)))
        for tell in told:
            tell(rpc.Failure(message) if isinstance(answer, Exception) else answer)

    def _drop_answer(self, key):
        """The lock is held."""
        kept = self._answers.pop(key, None)
        if kept is not None:
            self._bytes -= len(kept[1])

    def forget(self, wanted):
        """Of the keys that are over, those of which `wanted(key)` is true are new again."""
        with self._lock:
            for key in [k for k in self._over if wanted(k)]:
                del self._over[key]
                self._drop_answer(key)

    def run(self, key, do):
        """What do() returns or raises, the first time; the same again later, a failure as an
        rpc.Failure.  key 0: do() as it is."""
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


def _again(kind, data):
    """What was kept as these bytes."""
    message = kind.FromString(data)
    return rpc.Failure(message) if kind is messages.ErrorMessage else message


def _let_go():
    return errors.AbortedError(None, None, "the call was delivered twice: it was done, and its "
                               "answer given and let go")


def _interrupted():
    return errors.CancelledError(None, None, "the call was interrupted")
