"""WAV files written and read."""

from cases import op, unit

for channels in (1, 2, 3):
    op(f"wav_{channels}", lambda tf, x: [
        tf.encode_base64(tf.audio.encode_wav(x, 16000)),
        *tf.audio.decode_wav(tf.audio.encode_wav(x * 1.3, 44100)),
        *tf.audio.decode_wav(tf.audio.encode_wav(x, 8000), desired_channels=2, desired_samples=30),
        *tf.audio.decode_wav(tf.audio.encode_wav(x, 8000), desired_channels=1, desired_samples=5),
    ], unit(17, channels), gradient=False)
