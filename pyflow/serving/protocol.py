"""uvicorn's protocol of a connection, with limits for a request's head.

Invariant: a head has at most HEAD_BYTES bytes and comes within HEAD_SECONDS, or the connection is
closed; so none is held, and no memory taken, by one that never asks. (Bodies: app.py.)

Threads: the event loop's. server.py uses it; it needs uvicorn and httptools.

    uvicorn.Config(app, http=protocol.Protocol)
"""
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 30


class Protocol(HttpToolsProtocol):
    """HttpToolsProtocol; `_head_bytes` counts while a head is read, and is None meanwhile a body
    or an answer is."""

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
