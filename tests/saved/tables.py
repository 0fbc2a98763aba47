"""TensorFlow's tables and bundles written a second time, in plain Python, to test the kernels by.

    entries = tables.read(data)             # [(key, value)], CRCs checked
    data = tables.write(entries)            # with right CRCs, whatever the values are
"""
import struct

MAGIC = bytes.fromhex("57fb808b247547db")
_TABLE = []
for _i in range(256):
    for _ in range(8):
        _i = _i >> 1 ^ (0x82F63B78 if _i & 1 else 0)
    _TABLE.append(_i)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(x):
    out = bytearray()
    while x > 127:
        out.append(x & 127 | 128)
        x >>= 7
    return bytes([*out, x])


def read_varint(data, at):
    x = shift = 0
    while True:
        byte = data[at]
        x |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return x, at


def fields(data):
    """{number: [value]} of a protocol buffer: ints, or bytes."""
    found, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        else:
            n, at = {1: (8, at), 5: (4, at)}.get(tag & 7) or read_varint(data, at)
            value, at = data[at:at + n], at + n
        found.setdefault(tag >> 3, []).append(value)
    return found


def _block(data, at, n):
    block, kind = data[at:at + n], data[at + n]
    assert struct.unpack("<I", data[at + n + 1:at + n + 5])[0] == masked(
        crc32c(data[at:at + n + 1])), "CRC of a block"
    assert kind == 0, "not compressed"
    restarts = struct.unpack("<I", block[-4:])[0]
    end, at, key, found = len(block) - 4 - 4 * restarts, 0, b"", []
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        size, at = read_varint(block, at)
        key = key[:shared] + block[at:at + own]
        found.append((key, block[at + own:at + own + size]))
        at += own + size
    return found


def read(data):
    """[(key, value)] of a table's bytes."""
    assert data[-8:] == MAGIC
    footer, at, handles = data[-48:], 0, []
    for _ in range(4):
        number, at = read_varint(footer, at)
        handles.append(number)
    index_at, index_n = handles[2:]
    found = []
    for _, handle in _block(data, index_at, index_n):
        begin, at = read_varint(handle, 0)
        size, _ = read_varint(handle, at)
        found += _block(data, begin, size)
    return found


def _packed(entries, kind=0):
    out = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in entries)
    out += struct.pack("<II", 0, 1)
    if kind:                                    # snappy, literals alone
        text = varint(len(out))
        for i in range(0, len(out), 60):
            part = out[i:i + 60]
            text += bytes([(len(part) - 1) << 2]) + part
        out = text
    out += bytes([kind])
    return out + struct.pack("<I", masked(crc32c(out)))


def write(entries, per_block=8, kind=0):
    """A table's bytes; kind 1: blocks in snappy's format."""
    out, index = b"", []
    for i in range(0, len(entries), per_block):
        some = entries[i:i + per_block]
        block = _packed(some, kind)
        index.append((some[-1][0], varint(len(out)) + varint(len(block) - 5)))
        out += block
    handles = b""
    for block in (_packed([]), _packed(index)):
        handles += varint(len(out)) + varint(len(block) - 5)
        out += block
    return out + handles.ljust(40, b"\0") + MAGIC


def bundle(index, shards):
    """{name: (type number, shape, bytes)} of a bundle: its index, and its shards' bytes; the
    tensors' CRCs are checked, but of strings."""
    found = {}
    entries = read(index)
    header = fields(entries[0][1])
    assert entries[0][0] == b"" and header[1] == [len(shards)]
    for key, value in entries[1:]:
        entry = fields(value)
        shape = [fields(dim).get(1, [0])[0] for dim in fields(entry.get(2, [b""])[0]).get(2, [])]
        begin, size = entry.get(4, [0])[0], entry.get(5, [0])[0]
        data = shards[entry.get(3, [0])[0]][begin:begin + size]
        assert len(data) == size, key
        if entry[1] != [7] and 7 not in entry:
            assert struct.unpack("<I", entry[6][0])[0] == masked(crc32c(data)), key
        found[key.decode("latin-1")] = entry[1][0], shape, data
    return found
