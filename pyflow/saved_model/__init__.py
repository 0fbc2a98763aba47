"""SavedModels: folders with graphs, signatures, variables and assets, read and written.

    folders.py      the folder, its MetaGraphs and their tags
    signatures.py   SignatureDefs and TensorInfos
    reading.py      tf.saved_model.loader.load
    writing.py      tf.saved_model.Builder, simple_save
    freezing.py     a signature as a frozen GraphDef
    keys.py    the names that TensorFlow gives to files, tags and collections

Dependencies: train (checkpoints, MetaGraphs) and interop (freezing); tools read models with it.
"""
