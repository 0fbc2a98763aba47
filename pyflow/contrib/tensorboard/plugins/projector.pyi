"""Types of pyflow.contrib.tensorboard.plugins.projector.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
EmbeddingInfo = _contrib.tensorboard.plugins.projector.EmbeddingInfo
ProjectorConfig = _contrib.tensorboard.plugins.projector.ProjectorConfig
SpriteMetadata = _contrib.tensorboard.plugins.projector.SpriteMetadata
visualize_embeddings = _contrib.tensorboard.plugins.projector.visualize_embeddings
