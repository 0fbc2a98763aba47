"""Where TensorFlow 1.x programs find `timeline`."""
