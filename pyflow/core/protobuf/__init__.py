"""Where TensorFlow 1.x programs find the messages that configure sessions."""
