"""Channels of grpc's to other processes: one per address, kept.

Threads: any; `_lock` guards the table.
"""
import threading

from pyflow.distributed.wire import rpc, security


class Channels:
    """One channel per address.  credentials: security.Credentials, or None."""

    def __init__(self, credentials=None, lease=2.5):
        self.credentials, self._lease = credentials, lease
        self._lock, self._channels = threading.Lock(), {}

    def get(self, address):
        """The grpc channel to "host:port"."""
        with self._lock:
            found = self._channels.get(address)
            if found is None:
                found = self._channels[address] = self._open(address)
            return found

    def _open(self, address):
        return security.open_channel(address, self.credentials, rpc.options(self._lease))

    def forget(self, address):
        """Closes the channel to an address: the next `get` opens another."""
        with self._lock:
            found = self._channels.pop(address, None)
        if found is not None:
            found.close()

    def another(self):
        """Channels of their own, with the same credentials."""
        return Channels(self.credentials, self._lease)

    def close(self):
        """Closes all of them."""
        with self._lock:
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()
