"""Types of pyflow.contrib.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import data as data
from . import framework as framework
from . import layers as layers
from . import legacy_seq2seq as legacy_seq2seq
from . import nn as nn
from . import rnn as rnn
from . import staging as staging
from . import training as training
from . import util as util
