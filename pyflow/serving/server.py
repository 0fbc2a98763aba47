"""uvicorn around the application: its socket, limits of connections, signals, its end.

Invariants
    1. SIGTERM and SIGINT stop accepting, let running requests end (at most `grace` seconds), and
       end the process with status 0; a second SIGINT ends it at once.
    2. A request's head has at most HEAD_BYTES bytes and comes within HEAD_SECONDS; so no
       connection is held, and no memory taken, by one that never asks.

Threads: `serve` runs in the main thread; the event loop is its.

    with bound("127.0.0.1", 8501) as sock:
        sock.listen()
        serve(app, sock)
"""
import signal
import socket

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 30
NEEDS = ("python -m pyflow serve needs uvicorn and httptools: "
         "pip install 'pyflow-dataflow[serve]'")


def bound(host, port):
    """A socket bound to the address. OSError."""
    info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    sock = socket.socket(*info[:3])
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(info[4])
    except OSError:
        sock.close()
        raise
    return sock


def serve(app, sock, connections=1000, grace=30):
    """Answers on `sock`, which listens, until a signal."""
    kept = {number: signal.signal(number, lambda *_: None)      # uvicorn raises them again
            for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn_server(app, connections, grace).run(sockets=[sock])
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def uvicorn_server(app, connections=1000, grace=30):
    """The uvicorn.Server; its `run(sockets)` may be called in any thread, and ends when
    `should_exit` is set. ImportError without uvicorn or httptools."""
    import uvicorn
    return uvicorn.Server(uvicorn.Config(
        app, http=_protocol(), ws="none", lifespan="on", log_config=None, access_log=False,
        server_header=False, limit_concurrency=connections, timeout_keep_alive=75,
        timeout_graceful_shutdown=grace))


def _protocol():
    """uvicorn's protocol with limits for a request's head."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Protocol(HttpToolsProtocol):
        _head_bytes, _head_timer = None, None

        def connection_made(self, transport):
            super().connection_made(transport)
            self._begin_head()

        def connection_lost(self, exc):
            self._end_head()
            super().connection_lost(exc)

        def on_message_begin(self):
            super().on_message_begin()
            self._end_head()
            self._begin_head()

        def on_headers_complete(self):
            self._end_head()
            super().on_headers_complete()

        def data_received(self, data):
            super().data_received(data)
            if self._head_bytes is not None:
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES:
                    self._refuse()

        def _begin_head(self):
            self._head_bytes = 0
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._refuse)

        def _end_head(self):
            self._head_bytes = None
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _refuse(self):
            self._end_head()
            if self.transport is not None and not self.transport.is_closing():
                self.transport.close()
    return Protocol
