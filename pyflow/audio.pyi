"""Types of pyflow.audio.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import audio as _audio
decode_wav = _audio.decode_wav
encode_wav = _audio.encode_wav
