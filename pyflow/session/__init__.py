"""Sessions: from the user's fetches and feeds to plans and back.  See session.py."""
from pyflow.session.fetches import register_session_run_conversion_functions
from pyflow.session.session import BaseSession, InteractiveSession, Session

__all__ = [
    "BaseSession",
    "InteractiveSession",
    "Session",
    "register_session_run_conversion_functions",
]
