"""Types of pyflow.lookup.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import lookup as _lookup
KeyValueTensorInitializer = _lookup.KeyValueTensorInitializer
StaticHashTable = _lookup.StaticHashTable
StaticVocabularyTable = _lookup.StaticVocabularyTable
TextFileIndex = _lookup.TextFileIndex
TextFileInitializer = _lookup.TextFileInitializer
from . import experimental as experimental
