"""tf.image: functions built of other ops."""
