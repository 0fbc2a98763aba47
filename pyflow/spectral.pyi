"""Types of pyflow.spectral.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import spectral as _spectral
dct = _spectral.dct
fft = _spectral.fft
fft2d = _spectral.fft2d
fft3d = _spectral.fft3d
idct = _spectral.idct
ifft = _spectral.ifft
ifft2d = _spectral.ifft2d
ifft3d = _spectral.ifft3d
irfft = _spectral.irfft
irfft2d = _spectral.irfft2d
irfft3d = _spectral.irfft3d
rfft = _spectral.rfft
rfft2d = _spectral.rfft2d
rfft3d = _spectral.rfft3d
