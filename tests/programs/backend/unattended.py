"""A backend of matplotlib for programs nobody watches: Agg, whose windows are closed at once.

MPLBACKEND=module://unattended. plt.show(), plt.pause() and plt.waitforbuttonpress() return.
"""
from matplotlib.backends.backend_agg import FigureCanvasAgg, FigureManagerBase, _BackendAgg


class FigureManager(FigureManagerBase):
    """Shows nothing."""

    @classmethod
    def pyplot_show(cls, *, block=None):
        del block


class FigureCanvas(FigureCanvasAgg):
    """Waits for nobody."""

    required_interactive_framework = None
    manager_class = FigureManager

    def start_event_loop(self, timeout=0):
        del timeout


_BackendAgg.FigureCanvas, _BackendAgg.FigureManager = FigureCanvas, FigureManager
