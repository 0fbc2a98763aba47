"""`import tensorflow` finds pyflow: for programs that cannot be edited, and libraries below them.

    pyflow.compat.install_as_tensorflow()       # or: python -m pyflow exec train.py
    import tensorflow as tf
    from tensorflow.python.ops import array_ops
    from tensorflow.core.framework import graph_pb2

    finder.py      makes a module when it is first imported
    paths.py       which names of pyflow a module path of TensorFlow gives
    renamed.py     names that TensorFlow 0.x had, and what they are called since
    old_forms.py   functions whose arguments were in another order
    module_names.py  which modules TensorFlow has below the rows' stars
    op_wrappers.py   functions of tensorflow.python.ops.*_ops that have an op's name
    gen_ops.py     tensorflow.python.ops.gen_*_ops
    data_nest.py   nested structures of data sets' elements, in which lists are leaves
    extras.py      what tensorflow.python.* has beside the public names
"""
