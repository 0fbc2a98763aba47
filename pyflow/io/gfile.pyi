"""Types of pyflow.io.gfile.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import io as _io
GFile = _io.gfile.GFile
copy = _io.gfile.copy
exists = _io.gfile.exists
glob = _io.gfile.glob
isdir = _io.gfile.isdir
listdir = _io.gfile.listdir
makedirs = _io.gfile.makedirs
mkdir = _io.gfile.mkdir
remove = _io.gfile.remove
rename = _io.gfile.rename
rmtree = _io.gfile.rmtree
stat = _io.gfile.stat
walk = _io.gfile.walk
