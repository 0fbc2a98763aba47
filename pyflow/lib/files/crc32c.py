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
_SHORT = 4096                   # bytes below which lanes do not pay


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


def _product(matrix, states):
    """A matrix over GF(2), its 32 columns as numbers, times each of `states`."""
    made = np.zeros_like(states)
    for bit in range(32):
        made ^= np.where(states >> np.uint32(bit) & np.uint32(1), matrix[bit], np.uint32(0))
    return made


@functools.cache
def _past(count):
    """Tables [4, 256] that move a sum past `count` bytes; for the few counts that lanes have."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    power, made = _table()[0][bits & np.uint32(255)] ^ bits >> np.uint32(8), bits
    while count:
        if count & 1:
            made = _product(power, made)
        power, count = _product(power, power), count >> 1
    bytes_ = np.arange(256, dtype=np.uint32)
    return np.stack([_product(made, bytes_ << np.uint32(8 * k)) for k in range(4)])


def _moved(states, count):
    table, low = _past(count), np.uint32(255)
    return (table[0][states & low] ^ table[1][states >> np.uint32(8) & low]
            ^ table[2][states >> np.uint32(16) & low] ^ table[3][states >> np.uint32(24)])


def _by_lanes(data, state):
    """(the state behind whole lanes, what is left).

    Lanes have one of three lengths, so that there are few tables; their number becomes a power of
    two by lanes of zeros in front, whose sum is 0."""
    each = 32 if len(data) < 1 << 15 else 256 if len(data) < 1 << 20 else 2048
    count = len(data) // each
    lanes = 1 << (count - 1).bit_length()
    columns = np.zeros([each, lanes], np.uint32)
    columns[:, lanes - count:] = np.frombuffer(data, np.uint8, count * each).reshape(-1, each).T
    states = np.zeros(lanes, np.uint32)
    states[lanes - count] = state
    table, low, eight = _table()[0], np.uint32(255), np.uint32(8)
    for column in columns:
        states = table[(states ^ column) & low] ^ states >> eight
    rest = data[count * each:]
    while len(states) > 1:
        states = _moved(states[::2], each) ^ states[1::2]
        each *= 2
    return int(states[0]), rest


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
