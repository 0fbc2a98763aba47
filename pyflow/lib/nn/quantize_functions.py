"""tf.quantization: simulated quantisation."""
from pyflow.framework import graph
from pyflow.ops.elementwise.quantize_ops import (FakeQuantWithMinMaxArgs,
                                                 FakeQuantWithMinMaxArgsGradient,
                                                 FakeQuantWithMinMaxVars,
                                                 FakeQuantWithMinMaxVarsGradient,
                                                 FakeQuantWithMinMaxVarsPerChannel,
                                                 FakeQuantWithMinMaxVarsPerChannelGradient,
                                                 QuantizeAndDequantizeV2)


# ---------------------------------------------------------------------- quantize_and_dequantize
def quantize_and_dequantize(input, input_min, input_max, signed_input=True, num_bits=8,
                            range_given=False, round_mode="HALF_TO_EVEN", name=None,
                            narrow_range=False, axis=None):
    """`input` on a grid of 2^num_bits steps. TF: quantization.quantize_and_dequantize.
    Dtypes, shapes, errors: as op QuantizeAndDequantizeV2."""
    if axis is not None and axis < 0:
        input = graph.convert_to_tensor(input)
        rank = input.shape.ndims
        if rank is None:
            raise ValueError("input should have known rank to use negative axis.")
        axis %= rank
    return QuantizeAndDequantizeV2(input, input_min=input_min, input_max=input_max,
                                   signed_input=signed_input, num_bits=num_bits,
                                   range_given=range_given, round_mode=round_mode,
                                   narrow_range=narrow_range, axis=-1 if axis is None else axis,
                                   name=name)


_FAKE = {
    "fake_quant_with_min_max_args": FakeQuantWithMinMaxArgs,
    "fake_quant_with_min_max_args_gradient": FakeQuantWithMinMaxArgsGradient,
    "fake_quant_with_min_max_vars": FakeQuantWithMinMaxVars,
    "fake_quant_with_min_max_vars_gradient": FakeQuantWithMinMaxVarsGradient,
    "fake_quant_with_min_max_vars_per_channel": FakeQuantWithMinMaxVarsPerChannel,
    "fake_quant_with_min_max_vars_per_channel_gradient": FakeQuantWithMinMaxVarsPerChannelGradient,
}

PUBLIC = {
    **_FAKE, **{f"quantization.{name}": op_def for name, op_def in _FAKE.items()},
    "quantization.quantize_and_dequantize": quantize_and_dequantize,
}
