"""A TCP proxy that delays, stops reading, and cuts; it changes, loses and doubles no byte.

    with Proxy("localhost:2222", delay=(0, 0.2), seed=1) as proxy:
        proxy.address                   # "localhost:40001": what peers are told
        proxy.stop_reading()            # the link is down: both sides see silence
        proxy.read_on()
        proxy.cut()                     # connections are reset, new ones refused
        proxy.mend()

    python tests/distributed/proxy.py localhost:2222 --delay 0 0.2

Each piece that is read waits for a time drawn from `delay` (seconds) and goes on in order.

Threads: the proxy runs on one of its own; its methods are for any.
"""
import argparse
import asyncio
import contextlib
import random
import socket
import threading

PIECE, PIECES = 1 << 16, 64             # bytes read at once; pieces under way in one direction


class Proxy:
    """Forwards connections to `target`, "host:port"."""

    def __init__(self, target, delay=(0.0, 0.0), seed=0):
        host, _, port = target.rpartition(":")
        self._to, self._delay = (host, int(port)), delay
        self._rng, self._open = random.Random(seed), set()
        self._loop = asyncio.new_event_loop()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(64)
        self._socket.setblocking(False)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.passed = 0                 # bytes
        self._is_cut, self._ended = False, False
        self._thread = threading.Thread(target=self._loop.run_until_complete,
                                        args=(self._serve(),), daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        self._ready.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ------------------------------------------------------------ what it is told

    def stop_reading(self):
        """From now on nothing passes, and nobody is told."""
        self._do(self._reads.clear)

    def read_on(self):
        """What waited passes."""
        self._do(self._reads.set)

    def cut(self):
        """Resets every connection, and new ones at once."""
        self._do(self._cut, True)

    def mend(self):
        """New connections pass."""
        self._do(self._cut, False)

    def close(self):
        """Ends it."""
        if not self._ended:
            self._ended = True
            self._do(self._over.set)
            self._thread.join()
            self._socket.close()

    def _do(self, what, *args):
        done = threading.Event()

        def call():
            what(*args)
            done.set()
        self._loop.call_soon_threadsafe(call)
        done.wait(5)

    # ------------------------------------------------------------ on its thread

    async def _serve(self):
        self._reads, self._over = asyncio.Event(), asyncio.Event()
        self._reads.set()
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=PIECE)
        self._ready.set()
        await self._over.wait()
        server.close()
        self._cut(True)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _cut(self, yes):
        self._is_cut = yes
        if yes:
            for writer in list(self._open):
                _reset(writer)

    async def _connected(self, reader, writer):
        try:
            await self._reads.wait()
            if self._is_cut:
                raise OSError("cut")
            there, to_there = await asyncio.open_connection(*self._to, limit=PIECE)
        except OSError:
            _reset(writer)
            return
        both = {writer, to_there}
        self._open |= both
        try:
            await asyncio.gather(self._pump(reader, to_there), self._pump(there, writer))
        except asyncio.CancelledError:
            pass                        # the proxy ends
        finally:
            self._open -= both
            for one in both:
                _reset(one)

    async def _pump(self, reader, writer):
        pieces = asyncio.Queue(PIECES)
        forward = asyncio.ensure_future(self._forward(pieces, writer))
        try:
            while True:
                await self._reads.wait()
                data = await reader.read(PIECE)
                await self._reads.wait()
                at = self._loop.time() + self._rng.uniform(*self._delay)
                await pieces.put((at, data))
                if not data:
                    break
        except OSError:
            await pieces.put((0, b""))
        await forward

    async def _forward(self, pieces, writer):
        with contextlib.suppress(OSError):
            while True:
                at, data = await pieces.get()
                if at > self._loop.time():
                    await asyncio.sleep(at - self._loop.time())
                await self._reads.wait()
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                self.passed += len(data)
                await writer.drain()


def _reset(writer):
    with contextlib.suppress(Exception):
        writer.transport.abort()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--delay", nargs=2, type=float, default=(0.0, 0.0), metavar="SECONDS")
    options = parser.parse_args()
    print(Proxy(options.target, options.delay).address, flush=True)
    threading.Event().wait()
