"""tf.app: runs a program's main with its flags parsed.

    if __name__ == "__main__":
        tf.app.run()                 # calls main(argv)

It is absl.app.run where absl-py is installed; both parse the same flags (flags.py).
"""
import sys

from pyflow.platform import flags


def run(main=None, argv=None):
    """Parses flags, calls main(remaining argv) and exits with what it returns.

    main: default the `main` of the program's module. argv: default sys.argv.

        >>> try:
        ...     tf.app.run(lambda argv: print(argv), argv=["train.py", "data"])
        ... except SystemExit as ended:
        ...     print(ended.code)
        ['train.py', 'data']
        None
    """
    main = main or sys.modules["__main__"].main
    if flags._absl is None:
        sys.exit(main(flags.FLAGS(list(argv or sys.argv))))
    from absl import app
    app.run(main, argv, flags_parser=lambda given: flags.FLAGS(
        sys.argv if given is None else given, known_only=True))
