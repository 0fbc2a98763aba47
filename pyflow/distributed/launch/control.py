"""A way to tell a launcher that runs: a UNIX socket in its folder, for its own user alone.

    request   one line of JSON: {"scale": {"worker": 4}} or {}
    reply     one line: {"pid", "command", "members"}, or {"error": text}

Invariants
1. The socket lies in a folder of mode 0700: whoever can connect could end the launcher as well.
2. A request is at most LARGEST bytes and SECONDS long; what is none is answered, and changes
   nothing.

Threads: the launcher's own answers, between other things.
Callers: local.py; `python -m pyflow cluster scale`.

    [path] = found().values()
    ask(path, {"scale": {"worker": 4}})
"""
import json
import os
import pathlib
import socket
import tempfile

LARGEST, SECONDS = 65536, 2.0
NAME = "control"


class Control:
    """The launcher's end. answer: function(request dict) -> reply dict."""

    def __init__(self, folder, answer):
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(os.path.join(folder, NAME))
        self._socket.listen(4)
        self._socket.setblocking(False)

    def fileno(self):
        """Readable when somebody asks."""
        return self._socket.fileno()

    def serve(self):
        """Answers one who asks."""
        try:
            client, _ = self._socket.accept()
        except OSError:
            return
        with client:
            client.settimeout(SECONDS)
            try:
                reply = self._reply(_line(client))
                client.sendall(json.dumps(reply).encode() + b"\n")
            except OSError:             # gone, or too slow
                pass

    def _reply(self, line):
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("it is no object")
            return self._answer(request)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
            return {"error": str(e)}

    def close(self):
        """Nobody can ask any more."""
        self._socket.close()


def _line(sock):
    data = b""
    while not data.endswith(b"\n"):
        more = sock.recv(4096)
        data += more
        if not more or len(data) > LARGEST:
            break
    return data


def found():
    """{process' number: path of its socket} of this user's launchers on this machine, those that
    answer."""
    answered = {}
    for path in sorted(path for folder in {tempfile.gettempdir(), "/tmp"}       # local.py's folders
                       for path in pathlib.Path(folder).glob(f"pyflow-*/{NAME}")):
        try:
            if path.stat().st_uid == os.getuid():
                answered[ask(path, {})["pid"]] = str(path)
        except (OSError, ValueError, KeyError, TypeError):      # another's, or of one that ended
            pass
    return answered


def ask(path, request):
    """The reply to a request. OSError if nobody answers, ValueError for what is refused."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(SECONDS + 1)
        sock.connect(os.fspath(path))
        sock.sendall(json.dumps(request).encode() + b"\n")
        reply = json.loads(_line(sock))
    if "error" in reply:
        raise ValueError(reply["error"])
    return reply
