"""Where TensorFlow 1.x programs find `input_data` and `mnist`."""
