"""CRC-32C (Castagnoli 1993), and its masked form in TFRecord files.

Long data are cut into lanes that are worked on side by side; a lane's sum is moved past what
follows it by a table, for that is linear.  Any thread.  Called by record_files.py.

    masked(b"123456789")        # of crc32c 0xe3069283
"""
import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78        # reflected
_ONES = 0xFFFFFFFF
_MASK = 0xA282EAD8
_SHORT = 1024                   # bytes below which lanes do not pay


@functools.cache
def _table():
    sums = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        sums = np.where(sums & 1, sums >> 1 ^ np.uint32(_POLYNOMIAL), sums >> 1)
    return sums, sums.tolist()


def _plain(data, state):
    table = _table()[1]
    for byte in data:
        state = table[(state ^ byte) & 255] ^ state >> 8
    return state


def _applied(matrix, states):
    """A matrix over GF(2), its 32 columns as numbers, times each of `states`."""
    made = np.zeros_like(states)
    for bit in range(32):
        made ^= np.where(states >> np.uint32(bit) & np.uint32(1), matrix[bit], np.uint32(0))
    return made


@functools.lru_cache(maxsize=64)
def _past(count):
    """The matrix that moves a sum past `count` bytes, as 32 columns."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    table = _table()[0]
    power, made = table[bits & np.uint32(255)] ^ bits >> np.uint32(8), bits
    while count:
        if count & 1:
            made = _applied(power, made)
        power, count = _applied(power, power), count >> 1
    return made


def _by_lanes(data, state):
    """(the state behind whole lanes, what is left)."""
    lanes = 1 << max((len(data).bit_length() + 2) // 2, 4)
    each = len(data) // lanes
    columns = np.frombuffer(data, np.uint8, lanes * each).reshape(lanes, each).T
    states = np.zeros(lanes, np.uint32)
    states[0] = state
    table = _table()[0]
    for column in np.ascontiguousarray(columns).astype(np.uint32):
        states = table[(states ^ column) & np.uint32(255)] ^ states >> np.uint32(8)
    while len(states) > 1:
        states = _applied(_past(each), states[::2]) ^ states[1::2]
        each *= 2
    return int(states[0]), data[each:]


def crc32c(data):
    """The CRC-32C of bytes, an int below 2^32."""
    state, rest = _ONES, memoryview(data)
    if len(rest) >= _SHORT:
        state, rest = _by_lanes(rest, state)
    return _plain(rest, state) ^ _ONES


def masked(data):
    """The CRC as it stands in a file: rotated and moved, for a sum of data that holds sums is none."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK) & _ONES
