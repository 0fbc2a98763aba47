"""tf.train: savers, checkpoints, optimisers, and small helpers of a training program.

Modules listed in MODULES bring tables PUBLIC, as ops modules do, and are loaded at the first use of
one of their names.
"""

MODULES = (
    "optimizer",
    "gradient_descent",
    "momentum",
    "adam",
    "rmsprop",
    "adagrad",
    "ftrl",
    "proximal",
    "training_util",
    "learning_rate_decay",
    "moving_averages",
    "checkpoint",
    "checkpoint_state",
    "device_setter",
    "cluster_spec",
    "iterator_saveable",
    "saver",
    "warm_start",
    "contrib_checkpoints",
    "contrib_optimizers",
    "slim_learning",
    "slim_evaluation",
    "coordinator",
    "queue_runners",
    "input",
    "bucketing",
    "session_run_hook",
    "session_manager",
    "scaffold",
    "hooks",
    "monitored_session",
    "supervisor",
    "sync_replicas",
)
