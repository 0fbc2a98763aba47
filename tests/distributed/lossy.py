"""Frames that are lost on the streams of gRPC's that this process sends on (core/net/frames.h).

    lossy = Lossy("TENSOR")
    grpc_link.sent = lossy.of(grpc_link.sent)           # before the link is made
    lossy.armed = True
"""
import struct

HEAD = struct.Struct("<IHHQQQ")
TYPES = {"RUN": 2, "DONE": 3, "TENSOR": 4}


class Lossy:
    """Loses frames of one type while it is armed, `left` of them."""

    def __init__(self, kind, left=1, armed=True):
        self.type, self.left, self.armed = TYPES[kind], left, armed

    def begin(self):
        """It is armed from now on."""
        self.armed = True

    def of(self, sent):
        """As grpc_link.sent, without what is lost."""
        return lambda stream: self._rest(sent(stream))

    def _rest(self, blocks):
        waiting = b""
        for block in blocks:
            waiting, out = waiting + block, []
            while len(waiting) >= HEAD.size:
                length, kind, *_ = HEAD.unpack_from(waiting)
                end = HEAD.size + length
                if len(waiting) < end:
                    break
                if kind == self.type and self.armed and self.left:
                    self.left -= 1
                else:
                    out.append(waiting[:end])
                waiting = waiting[end:]
            if out:
                yield b"".join(out)
