"""tf.app: runs a program's main with its flags parsed.

    if __name__ == "__main__":
        tf.app.run()                 # calls main(argv)
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
    rest = flags.FLAGS(list(argv or sys.argv))
    main = main or sys.modules["__main__"].main
    sys.exit(main(rest))
