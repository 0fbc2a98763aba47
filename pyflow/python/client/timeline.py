"""pyflow.timeline under the path TensorFlow 1.x programs import it from."""
from pyflow.timeline import AllocationMaximum, StepStatsAnalysis, Timeline

__all__ = ["AllocationMaximum", "StepStatsAnalysis", "Timeline"]
