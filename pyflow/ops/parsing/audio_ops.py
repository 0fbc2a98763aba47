"""Sound in WAV files of 16-bit samples.

Invariants
  1. Audio is float32 [samples, channels] in [-1, 1); a sample is an integer over 32768.
  2. Written samples are rounded and clipped.

Example:  `audio, rate = tf.audio.decode_wav(tf.audio.encode_wav(sound, 16000))`.
"""
import struct

import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.shape_rules import by_pattern


def _file(samples, rate):
    """A WAV file of int16 [samples, channels]."""
    channels, data = samples.shape[1], samples.astype("<i2").tobytes()
    form = struct.pack("<4sI2H2I2H", b"fmt ", 16, 1, channels, rate, rate * channels * 2,
                       channels * 2, 16)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


RAMP = np.array([[0, -1], [32767, -32768], [1000, 256]])


@op("DecodeWav", inputs="contents: string", outputs="audio: float, sample_rate: int32",
    attrs="desired_channels: int = -1, desired_samples: int = -1")
class DecodeWav:
    """Samples [n, channels] and their rate; what is missing is 0, or the last channel. TF:
    DecodeWav."""
    gradient = UNREGISTERED

    def shape(op):
        if op.inputs[0].shape.ndims not in (None, 0):
            raise ValueError(f"DecodeWav: contents must be scalar, got {op.inputs[0].shape}")
        wanted = [op.attr("desired_samples"), op.attr("desired_channels")]
        return [TensorShape([None if n == -1 else max(n, 0) for n in wanted]), TensorShape([])]

    def reference(contents, desired_channels, desired_samples):
        data = bytes(np.asarray(contents).item())
        channels, rate = struct.unpack("<HI", data[22:28])
        audio = np.frombuffer(data[44:], "<i2").reshape(-1, channels) / 32768
        if desired_channels > 0:
            audio = audio[:, np.minimum(np.arange(desired_channels), channels - 1)]
        if desired_samples >= 0:
            more = max(desired_samples - len(audio), 0)
            audio = np.pad(audio, [(0, more), (0, 0)])[:desired_samples]
        return audio.astype(np.float32), np.int32(rate)
    samples = [S(strs(_file(RAMP, 8000))), S(strs(_file(RAMP[:, :1], 44100)), desired_channels=3),
               S(strs(_file(RAMP, 1)), desired_channels=1, desired_samples=5),
               S(strs(_file(RAMP[:0], 8000)), desired_samples=0)]


@op("EncodeWav", inputs="audio: float, sample_rate: int32", outputs="contents: string")
class EncodeWav:
    """A WAV file of samples [n, channels]. TF: EncodeWav."""
    gradient = UNREGISTERED

    shape = by_pattern("s c", "", "->", "")

    def reference(audio, sample_rate):
        scaled = audio.astype(np.float64) * 32768
        rounded = np.trunc(scaled + np.copysign(0.5, scaled))
        return np.array(_file(np.clip(rounded, -32768, 32767), int(sample_rate)), object)
    samples = [S((4, 2), lit(8000)), S(lit([[0.25], [-2.0], [2.0], [1e-5]]), lit(16000)),
               S((0, 1), lit(1))]


PUBLIC = {"audio.decode_wav": DecodeWav, "audio.encode_wav": EncodeWav}
