"""What a hook of a monitored session is, sees and asks for.

    begin -> after_create_session -> (before_run -> run -> after_run)* -> end

Invariants
  1. `begin` may add to the graph; after it the graph is finalized.
  2. after_create_session comes again for each session that replaces a lost one.
  3. `end` is not called when a run raised, except OutOfRangeError and StopIteration.

Thread: the one that runs the session.  Source: TF 1.15 session_run_hook.

Example:
    class PrintLoss(tf.train.SessionRunHook):
        def before_run(self, context):
            return tf.train.SessionRunArgs(loss)
        def after_run(self, context, values):
            print(values.results)
"""
import collections


class SessionRunArgs(collections.namedtuple("SessionRunArgs", ["fetches", "feed_dict", "options"])):
    """What a hook adds to a run: fetches (anything session.run takes), feed_dict, RunOptions.
    TF: tf.train.SessionRunArgs."""

    def __new__(cls, fetches, feed_dict=None, options=None):
        return super().__new__(cls, fetches, feed_dict, options)


class SessionRunValues(collections.namedtuple("SessionRunValues",
                                              ["results", "options", "run_metadata"])):
    """What a run gave a hook: the values of its fetches, the RunOptions, the RunMetadata.
    TF: tf.train.SessionRunValues."""


class SessionRunContext:
    """What a hook may know of a run, and ask: to stop. TF: tf.train.SessionRunContext."""

    def __init__(self, original_args, session):
        self._original_args, self._session, self._stop_requested = original_args, session, False

    def __repr__(self):
        stops = ", which asks to stop" if self._stop_requested else ""
        return f"<tf.train.SessionRunContext of {self._original_args.fetches}{stops}>"

    @property
    def original_args(self):
        """The SessionRunArgs of who called `run`."""
        return self._original_args

    @property
    def session(self):
        """The tf.Session: running it calls no hook."""
        return self._session

    @property
    def stop_requested(self):
        """Whether a hook has asked to stop."""
        return self._stop_requested

    def request_stop(self):
        """This run is the last one: `should_stop()` will be true."""
        self._stop_requested = True


class SessionRunHook:
    """Something that is done around each run of a monitored session; override what is needed.
    TF: tf.train.SessionRunHook."""

    def __repr__(self):
        return f"<tf.train.{type(self).__name__}>"

    def begin(self):
        """Once, before there is a session: the graph may be added to."""

    def after_create_session(self, session, coord):
        """There is a new session; its variables have values. coord: a tf.train.Coordinator."""

    def before_run(self, run_context):
        """Before each run: None, or SessionRunArgs to add to it."""
        return None

    def after_run(self, run_context, run_values):
        """After each run that did not raise; run_values: SessionRunValues."""

    def end(self, session):
        """Once, when the loop is over and the session still open."""


PUBLIC = {f"train.{made.__name__}": made for made in (
    SessionRunArgs, SessionRunValues, SessionRunContext, SessionRunHook)}
