"""tf.nn.fractional_max_pool and fractional_avg_pool."""
from pyflow.ops.pool.fractional_pool_ops import FractionalAvgPool, FractionalMaxPool


def fractional_max_pool(value, pooling_ratio, pseudo_random=False, overlapping=False,
                        deterministic=False, seed=0, seed2=0, name=None):
    """Maxima of random regions of value [batch, height, width, channels]: (pooled, where the rows'
    regions begin, where the columns' do).

    pooling_ratio: four numbers >= 1, the first and last 1; seeds: only with deterministic. Float32,
    float64, int32, int64. TF: nn.fractional_max_pool (Graham 2014).
    ValueError for other ratios."""
    return FractionalMaxPool(value, pooling_ratio=list(pooling_ratio), pseudo_random=pseudo_random,
                             overlapping=overlapping, deterministic=deterministic, seed=seed,
                             seed2=seed2, name=name)


def fractional_avg_pool(value, pooling_ratio, pseudo_random=False, overlapping=False,
                        deterministic=False, seed=0, seed2=0, name=None):
    """Means of random regions; arguments and results as fractional_max_pool's.
    TF: nn.fractional_avg_pool.
    Dtypes, shapes, errors: as op FractionalAvgPool."""
    return FractionalAvgPool(value, pooling_ratio=list(pooling_ratio), pseudo_random=pseudo_random,
                             overlapping=overlapping, deterministic=deterministic, seed=seed,
                             seed2=seed2, name=name)


PUBLIC = {
    "nn.fractional_max_pool": fractional_max_pool, "nn.fractional_avg_pool": fractional_avg_pool,
}
