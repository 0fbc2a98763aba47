"""tf.estimator: models as functions, with training, evaluation, prediction and export around them.

    modes.py  spec.py  outputs.py    what a model function is asked for and gives
    run_config.py                    how an estimator runs
    estimators.py                    Estimator: train, evaluate, predict, export
    array_inputs.py                  numpy_input_fn, pandas_input_fn
    receivers.py                     what a served model is fed
    local_training.py                train_and_evaluate, exporters
    warm_starting.py                 values from another checkpoint
    heads.py                         losses, metrics and predictions of one kind of label
    linear.py  dnn.py  baseline.py   the canned estimators
    trees.py  tree_growing.py        boosted trees
    contrib_learn.py                 tf.contrib.learn's older forms

Dependencies: feature_column, train, saved_model, session. Nothing of pyflow stands above it but
interop, platform and tools.
"""
