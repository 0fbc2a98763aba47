"""The cases of elementwise.py and halves.py in torch, eager, as a process that stays alive.

    TORCH_PYTHON benchmarks/elementwise_torch.py THREADS

Reads one JSON request a line, {"case": name, "shapes": [[..] ..], "dtypes": [name ..], "times": n},
and answers with the least seconds of n runs, or "none" for a case torch is not asked (pooling has
pools.py; the chain is asked of jax).  A transpose is copied (`.contiguous()`): torch's own is a
view.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F

CASES = {
    "add": lambda a, b: a + b,
    "multiply_by_scalar": lambda a: a * 2.0,
    "bias_add": lambda a, b: a + b,
    "add_column": lambda a, b: a + b,
    "relu": torch.relu,
    "select": lambda a, b: torch.where(a > 0, a, b),
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "log": torch.log,
    "erf": torch.erf,
    "cast_to_double": lambda a: a.double(),
    "cast_to_half": lambda a: a.half(),
    "cast_to_bfloat16": lambda a: a.bfloat16(),
    "cast_to_float": lambda a: a.float(),
    "transpose_2d": lambda a: a.t().contiguous(),
    "transpose_odd": lambda a: a.t().contiguous(),
    "transpose_tall": lambda a: a.t().contiguous(),
    "transpose_2999": lambda a: a.t().contiguous(),
    "transpose_float64": lambda a: a.t().contiguous(),
    "transpose_uint8": lambda a: a.t().contiguous(),
    "nhwc_to_nchw": lambda a: a.permute(0, 3, 1, 2).contiguous(),
    "nchw_to_nhwc": lambda a: a.permute(0, 2, 3, 1).contiguous(),
    "image_to_nchw": lambda a: a.permute(0, 3, 1, 2).contiguous(),
    "heads": lambda a: a.permute(0, 2, 1, 3).contiguous(),
    "reverse_4d": lambda a: a.permute(3, 2, 1, 0).contiguous(),
    "heads_merged": lambda a: a.permute(1, 0, 2).contiguous(),
    "slice_rows": lambda a: a[1024:1024 + 6144].clone(),
    "slice_columns": lambda a: a[:, 100:900].contiguous(),
    "every_second": lambda a: a[:, ::2].contiguous(),
    "concat_rows": lambda a, b: torch.cat([a, b], 0),
    "concat_columns": lambda a, b: torch.cat([a, b], 1),
    "concat_channels": lambda a, b: torch.cat([a, b], 3),
    "pad_images": lambda a: F.pad(a, (0, 0, 3, 3, 3, 3)),
    "pad_channels_last": lambda a: F.pad(a, (0, 0, 1, 1, 1, 1)),
    "tile_rows": lambda a: a.repeat(8, 1),
    "reverse_rows": lambda a: a.flip(0),
    "reverse_columns": lambda a: a.flip(1),
    "gather_rows_of_1024": lambda a, at: a.index_select(0, at),
    "gather_rows_of_64": lambda a, at: a.index_select(0, at),
    "gate_channels": lambda a, b: a * b,
    "scale_planes": lambda a, b: a * b,
    "add_int32": lambda a, b: a + b,
    "sum_all": torch.sum,
    "sum_inner": lambda a: a.sum(1),
    "sum_outer": lambda a: a.sum(0),
    "sum_middle": lambda a: a.sum(1),
    "sum_short_rows": lambda a: a.sum(1),
    "mean_nhwc": lambda a: a.mean((0, 1, 2)),
    "max_inner": lambda a: a.amax(1),
    "max_outer": lambda a: a.amax(0),
    "argmax_inner": lambda a: a.argmax(1),
    "argmax_outer": lambda a: a.argmax(0),
    "softmax": lambda a: a.softmax(1),
    "log_softmax": lambda a: a.log_softmax(1),
    "batch_norm_inference": lambda x, scale, offset, mean, variance: F.batch_norm(
        x.permute(0, 3, 1, 2), mean, variance.abs(), scale, offset, False),
    "batch_norm_training": lambda x, scale, offset: F.batch_norm(
        x.permute(0, 3, 1, 2), None, None, scale, offset, True),
    "batch_norm_gradient": lambda dy, x, scale, mean, variance:
        torch.ops.aten.native_batch_norm_backward(
            dy.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), scale, None, None, mean,
            variance.abs(), True, 1e-4, [True, True, True]),
    "moments_inner": lambda a: torch.var_mean(a, 1, correction=0),
    "moments_nhwc": lambda a: torch.var_mean(a, (0, 1, 2), correction=0),
    "moments_images": lambda a: torch.var_mean(a, (1, 2), correction=0),
    "moments_nchw": lambda a: torch.var_mean(a, (0, 2, 3), correction=0),
    "layer_norm": lambda x, scale, offset: F.layer_norm(x, (x.shape[1],), scale, offset, 1e-6),
    "cumsum_inner": lambda a: a.cumsum(1),
    "cumsum_outer": lambda a: a.cumsum(0),
    "max_pool": lambda a: F.max_pool2d(a.permute(0, 3, 1, 2), 3, 2, 1),
    "avg_pool": lambda a: F.avg_pool2d(a.permute(0, 3, 1, 2), 2, 2),
    "matmul_512": torch.matmul,
    "matmul_1024": torch.matmul,
    "matmul_vector": torch.matmul,
    "batch_matmul": lambda a, b: torch.matmul(a, b.transpose(1, 2)),
    "conv_3x3": lambda a, w: F.conv2d(a.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1),
    "conv_1x1": lambda a, w: F.conv2d(a.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)),
    "depthwise_3x3": lambda a, w: F.conv2d(a.permute(0, 3, 1, 2), w.permute(2, 3, 0, 1),
                                           padding=1, groups=w.shape[2]),
    "lrn": lambda a: F.local_response_norm(a.permute(0, 3, 1, 2), 5, 5e-4, 0.75, 1.0),
}


def work(name, shapes, dtypes):
    """-> a function without arguments, or None."""
    for dtype in ("_float16", "_bfloat16"):
        name = name if name in CASES else name.removesuffix(dtype)
    if name not in CASES:
        return None
    tensors = [torch.randn(shape).to(getattr(torch, dtype)) if "int32" not in dtype
               else torch.randint(0, shapes[0][0], shape, dtype=torch.int32)
               for shape, dtype in zip(shapes, dtypes)]
    return lambda: CASES[name](*tensors)


def least(run, times):
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.set_grad_enabled(False)
    made = {}
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["case"]
        if name not in made:
            made.clear()
            made[name] = work(name, asked["shapes"], asked["dtypes"])
        print(json.dumps(made[name] and least(made[name], asked["times"])), flush=True)


if __name__ == "__main__":
    main()
