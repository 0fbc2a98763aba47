"""tf.nn and tf.losses: functions built of other ops."""
