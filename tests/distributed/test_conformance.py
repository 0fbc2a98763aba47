"""conformance.py, for all ways: links of ours, gRPC, a link and a pair of kernels of third parties."""
import pytest

pytest.register_assert_rewrite("conformance")

from conformance import *  # noqa: E402, F401, F403
