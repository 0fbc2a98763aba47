"""Normalisation: bias, batch normalisation, softmax."""
