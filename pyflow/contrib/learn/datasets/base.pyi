"""Types of pyflow.contrib.learn.datasets.base.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
Dataset = _contrib.learn.datasets.base.Dataset
Datasets = _contrib.learn.datasets.base.Datasets
load_boston = _contrib.learn.datasets.base.load_boston
load_csv_with_header = _contrib.learn.datasets.base.load_csv_with_header
load_csv_without_header = _contrib.learn.datasets.base.load_csv_without_header
load_iris = _contrib.learn.datasets.base.load_iris
shrink_csv = _contrib.learn.datasets.base.shrink_csv
