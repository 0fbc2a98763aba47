"""tf.math and tf.linalg: functions built of ops."""
