"""Types of pyflow.contrib.learn.preprocessing.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
CategoricalVocabulary = _contrib.learn.preprocessing.CategoricalVocabulary
VocabularyProcessor = _contrib.learn.preprocessing.VocabularyProcessor
tokenizer = _contrib.learn.preprocessing.tokenizer
