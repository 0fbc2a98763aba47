"""Ways to run calls: inlined, and as calls."""
import pytest

import pyflow as tf


def config_for(inlined):
    config = tf.ConfigProto()
    if not inlined:
        config.graph_options.rewrite_options.function_optimization = 2      # Toggle.OFF
    return config


@pytest.fixture(params=[True, False], ids=["inlined", "called"])
def config(request):
    """A ConfigProto: calls are inlined, or run as calls."""
    return config_for(request.param)
