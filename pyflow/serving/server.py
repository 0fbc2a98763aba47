"""uvicorn around the application: its socket, signals, its end.

Invariant: SIGTERM and SIGINT stop accepting, let running requests end (at most `grace` seconds),
and end the process with status 0; a second SIGINT ends it at once.

Threads: `serve` runs in the main thread; the event loop is its.

    with bound("127.0.0.1", 8501) as sock:
        sock.listen()
        serve(app, sock)
"""
import signal
import socket

NEEDS = ("python -m pyflow serve needs uvicorn and httptools: "
         "pip install uvicorn httptools")


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


def serve(app, sock, connections=1000, grace=30, on_ready=lambda: None):
    """Answers on `sock`, which listens, until a signal; on_ready(): from then on signals are
    heeded."""
    found = uvicorn_server(app, connections, grace)

    def end(*_):
        """Before uvicorn takes the signals; afterwards it raises them again, to no effect."""
        found.should_exit = True
    kept = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        on_ready()
        found.run(sockets=[sock])
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def uvicorn_server(app, connections=1000, grace=30):
    """The uvicorn.Server; its `run(sockets)` may be called in any thread, and ends when
    `should_exit` is set. ImportError without uvicorn or httptools."""
    import uvicorn

    from pyflow.serving import protocol
    return uvicorn.Server(uvicorn.Config(
        app, http=protocol.Protocol, ws="none", lifespan="on", log_config=None, access_log=False,
        server_header=False, limit_concurrency=connections, timeout_keep_alive=75,
        timeout_graceful_shutdown=grace))
