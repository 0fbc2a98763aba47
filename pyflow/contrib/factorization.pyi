"""Types of pyflow.contrib.factorization.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
COSINE_DISTANCE = _contrib.factorization.COSINE_DISTANCE
KMEANS_PLUS_PLUS_INIT = _contrib.factorization.KMEANS_PLUS_PLUS_INIT
KMeans = _contrib.factorization.KMeans
KMeansClustering = _contrib.factorization.KMeansClustering
RANDOM_INIT = _contrib.factorization.RANDOM_INIT
SQUARED_EUCLIDEAN_DISTANCE = _contrib.factorization.SQUARED_EUCLIDEAN_DISTANCE
