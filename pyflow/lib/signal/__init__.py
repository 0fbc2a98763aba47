"""tf.signal: frames, windows, spectra."""
