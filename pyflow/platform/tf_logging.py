"""tf.logging: TF's names for the standard logger "tensorflow"; silent below WARN until told
otherwise.

    tf.logging.set_verbosity(tf.logging.INFO)
    tf.logging.info("step %d", step)
"""
import logging

DEBUG, INFO, WARN, ERROR, FATAL = (
    logging.DEBUG,
    logging.INFO,
    logging.WARNING,
    logging.ERROR,
    logging.FATAL,
)
_logger = logging.getLogger("tensorflow")


def _show():
    """A handler of our own, so that INFO is printed where the program configured no logging."""
    if not _logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s:tensorflow:%(message)s"))
        _logger.addHandler(handler)


def set_verbosity(v):
    """Messages of level `v` and above are logged.

    v: tf.logging.DEBUG, INFO, WARN, ERROR or FATAL.

        >>> before = tf.logging.get_verbosity()
        >>> tf.logging.set_verbosity(tf.logging.ERROR)
        >>> tf.logging.get_verbosity() == tf.logging.ERROR
        True
        >>> tf.logging.set_verbosity(before)
    """
    _logger.setLevel(v)
    _show()


def get_verbosity():
    """The level below which messages are dropped, an int of the module `logging`."""
    return _logger.getEffectiveLevel()


def log(level, msg, *args, **kwargs):
    """Logs msg % args at a level, an int of the module `logging`."""
    _logger.log(level, msg, *args, **kwargs)


def vlog(level, msg, *args, **kwargs):
    """Logs msg % args at a level, as `log` does."""
    _logger.log(level, msg, *args, **kwargs)


def log_if(level, msg, condition, *args):
    """Logs msg % args at a level if `condition`."""
    if condition:
        log(level, msg, *args)


def log_first_n(level, msg, n, *args):
    """Logs at most n times per message."""
    _counts[msg] = _counts.get(msg, 0) + 1
    if _counts[msg] <= n:
        _logger.log(level, msg, *args)


def log_every_n(level, msg, n, *args):
    """Logs the 1st, (n+1)th, ... call per message."""
    count = _counts.get(msg, 0)
    _counts[msg] = count + 1
    if count % n == 0:
        _logger.log(level, msg, *args)


_counts = {}
debug, info, error, fatal = _logger.debug, _logger.info, _logger.error, _logger.fatal
warn = warning = _logger.warning


def flush():
    """Writes out what the logger's handlers hold back."""
    for handler in _logger.handlers:
        handler.flush()


def TaskLevelStatusMessage(msg):
    """Logs an error, which is the task's status."""
    error(msg)


def get_logger():
    """The logger "tensorflow" of the module `logging`. TF: tf.get_logger."""
    return _logger
