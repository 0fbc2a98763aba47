"""Kaiser's and Vorbis's windows and the modified cosine transform."""

from cases import normal, op

op("kaiser_windows", lambda tf, x: [
    w for n in (1, 2, 7, 16) for w in (
        tf.signal.kaiser_window(n), tf.signal.kaiser_window(n, beta=4.0, dtype=tf.float64),
        tf.signal.vorbis_window(n))]
   + [tf.signal.kaiser_bessel_derived_window(n) for n in (2, 8, 32)], normal(1))
for _norm in (None, "ortho"):
    for _window in ("vorbis_window", "kaiser_bessel_derived_window", None):
        op(f"mdct_{_norm}_{_window}", lambda tf, x, norm=_norm, w=_window: tf.signal.mdct(
            x, 8, window_fn=w and getattr(tf.signal, w), norm=norm, pad_end=norm is None),
           normal(2, 37))
        op(f"inverse_mdct_{_norm}_{_window}", lambda tf, x, norm=_norm, w=_window:
           tf.signal.inverse_mdct(x, window_fn=w and getattr(tf.signal, w), norm=norm),
           normal(2, 5, 6))
op("random_samplers", lambda tf, x: list(tf.random.log_uniform_candidate_sampler(
    [[1], [4]], 1, 3, True, 9, seed=3)) + [tf.debugging.is_strictly_increasing(x)], normal(4),
   gradient=False)
