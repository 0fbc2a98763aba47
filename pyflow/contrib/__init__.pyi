"""Types of pyflow.contrib.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import crf as crf
from . import data as data
from . import distributions as distributions
from . import framework as framework
from . import keras as keras
from . import layers as layers
from . import learn as learn
from . import legacy_seq2seq as legacy_seq2seq
from . import losses as losses
from . import nn as nn
from . import rnn as rnn
from . import staging as staging
from . import tensorboard as tensorboard
from . import tfprof as tfprof
from . import training as training
from . import util as util
