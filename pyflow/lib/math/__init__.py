"""tf.linalg: functions built of other ops."""
