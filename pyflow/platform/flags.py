"""tf.flags: command-line flags, defined where they are used and parsed on first use.

    tf.flags.DEFINE_integer("steps", 100, "Training steps.")
    tf.flags.FLAGS.steps                     # 100, or what --steps=7 said

Invariants
    1. A flag has one definition; a second one is a ValueError.
    2. Reading a flag before `tf.app.run` parses sys.argv, unknown arguments being left alone.

Threads: define flags while modules load; reading is safe from any thread.
"""
import argparse
import sys


class _Flags:
    """The values of all flags, as attributes."""

    def __init__(self):
        self.__dict__["_parser"] = argparse.ArgumentParser(allow_abbrev=False)
        self.__dict__["_values"] = {}
        self.__dict__["_defaults"] = {}
        self.__dict__["_required"] = set()
        self.__dict__["_parsed"] = False

    def _define(self, name, default, convert, help_text, **more):
        if name in self._defaults:
            raise ValueError(f"flag --{name} is defined twice")
        self._parser.add_argument(
            f"--{name}", type=convert, default=argparse.SUPPRESS, help=help_text, **more
        )
        self._defaults[name] = default

    def __call__(self, argv, known_only=False):
        """Parses argv (program name first).  Returns what is not a flag, program name first."""
        if known_only:
            found, rest = self._parser.parse_known_args(argv[1:])
        else:
            (
                self._parser.add_argument("_rest", nargs="*", help=argparse.SUPPRESS)
                if not self._has_rest()
                else None
            )
            found, rest = self._parser.parse_known_args(argv[1:])
            unknown = [a for a in rest if a.startswith("-")]
            if unknown:
                self._parser.error(f"unknown flags: {' '.join(unknown)}")
            rest = list(vars(found).pop("_rest", [])) + rest
        self._values.update({k: v for k, v in vars(found).items() if k != "_rest"})
        self.__dict__["_parsed"] = True
        for name in self._required:
            if self._get(name) is None:
                self._parser.error(f"flag --{name} must be given")
        return [argv[0]] + rest

    def _has_rest(self):
        return any(a.dest == "_rest" for a in self._parser._actions)

    def _get(self, name):
        return self._values.get(name, self._defaults[name])

    def __getattr__(self, name):
        if name not in self._defaults:
            raise AttributeError(f"no flag --{name} is defined")
        if not self._parsed:
            self(sys.argv, known_only=True)
        return self._get(name)

    def __setattr__(self, name, value):
        if name not in self._defaults:
            raise AttributeError(f"no flag --{name} is defined")
        self._values[name] = value

    def __getitem__(self, name):
        value = getattr(self, name)
        return argparse.Namespace(name=name, value=value, default=self._defaults[name])

    def __contains__(self, name):
        return name in self._defaults

    def __iter__(self):
        return iter(self._defaults)

    def flag_values_dict(self):
        """All flags and their values."""
        return {name: getattr(self, name) for name in self._defaults}

    def mark_as_parsed(self):
        """Uses defaults where nothing was parsed."""
        self.__dict__["_parsed"] = True

    def is_parsed(self):
        return self._parsed


FLAGS = _Flags()


def _to_bool(text):
    if text.lower() in ("true", "t", "1", "yes", "y"):
        return True
    if text.lower() in ("false", "f", "0", "no", "n"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def DEFINE_string(name, default, help="", **unused):  # noqa: N802 - TF's names
    """Defines --name=VALUE, any text.  Another value ends the program."""
    FLAGS._define(name, default, str, help)


def DEFINE_integer(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, an int.  Another value ends the program."""
    FLAGS._define(name, default, int, help)


def DEFINE_float(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, a float.  Another value ends the program."""
    FLAGS._define(name, default, float, help)


def DEFINE_bool(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, true or false, and --name and --noname.  Another value ends the
    program."""
    FLAGS._define(name, default, _to_bool, help, nargs="?", const=True)
    FLAGS._parser.add_argument(
        f"--no{name}",
        dest=name,
        action="store_false",
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


def DEFINE_enum(name, default, enum_values, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, one of enum_values.  Another value ends the program."""
    FLAGS._define(name, default, str, help, choices=list(enum_values))


def DEFINE_list(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, a list, separated by commas.  Another value ends the program."""
    default = default.split(",") if isinstance(default, str) else default
    FLAGS._define(name, default, lambda text: text.split(",") if text else [], help)


def mark_flag_as_required(flag_name):
    """Parsing fails if the flag has no value."""
    FLAGS._required.add(flag_name)


DEFINE_boolean = DEFINE_bool
