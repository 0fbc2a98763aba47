"""tf.flags: command-line flags, defined where they are used and parsed on first use.

    tf.flags.DEFINE_integer("steps", 100, "Training steps.")
    tf.flags.FLAGS.steps                     # 100, or what --steps=7 said

Where absl-py is installed (`pip install "pyflow-dataflow[absl]"`), the flags are absl's, as in
TensorFlow: what `absl.flags` and `tf.flags` define is read from both. Without it they are kept here.

Invariants
    1. A flag has one definition; a second one is a ValueError (absl's DuplicateFlagError).
    2. Reading a flag before `tf.app.run` parses sys.argv, unknown arguments being left alone.

Threads: define flags while modules load; reading is safe from any thread.
"""
import argparse
import functools
import importlib
import sys

try:
    from absl import flags as _absl
    _absl.disclaim_key_flags()              # a flag is the module's that calls DEFINE_...
except ImportError:
    _absl = None


class IllegalFlagValueError(ValueError):
    """A flag has a value that its validator refuses."""


class Flag:
    """One flag: what `FLAGS["name"]` and `FLAGS.__flags["name"]` give.

    name, help; default; value, which what was parsed or set replaces (then not
    using_default_value); present, how often it was parsed; boolean, whether it is on or off."""

    def __init__(self, name, default, help_text, boolean):
        self.name, self.default, self.help, self.boolean = name, default, help_text, boolean
        self.value, self.present, self.using_default_value = default, 0, True

    def serialize(self):
        """The flag as an argument of the command line, empty without a value."""
        if self.value is None:
            return ""
        if self.boolean:
            return f"--{self.name}" if self.value else f"--no{self.name}"
        value = self.value
        return f"--{self.name}={','.join(value) if isinstance(value, list) else value}"


class _Flags:
    """The values of all flags, as attributes.

        >>> tf.flags.DEFINE_integer("steps_of_example", 100, "Training steps.")
        >>> tf.flags.FLAGS.steps_of_example
        100
    """

    def __init__(self):
        self.__dict__["_parser"] = argparse.ArgumentParser(allow_abbrev=False)
        self.__dict__["__flags"] = {}
        self.__dict__["_required"] = set()
        self.__dict__["_arguments"] = {}    # name -> how the parser takes it, for its other names
        self.__dict__["_validators"] = []   # (name, checker, message)
        self.__dict__["_parsed"] = False

    @property
    def _flags(self):
        return self.__dict__["__flags"]

    def _define(self, name, default, convert, help_text, boolean=False, **more):
        if name in self._flags:
            raise ValueError(f"flag --{name} is defined twice")
        self._arguments[name] = {"type": convert, "help": help_text, **more}
        self._flags[name] = Flag(name, default, help_text, boolean)
        self._accept(name, name)

    def _accept(self, called, name):
        """Lets the command line say `called` for the flag `name`."""
        self._parser.add_argument(f"--{called}", dest=name, default=argparse.SUPPRESS,
                                  **self._arguments[name])
        if self._flags[name].boolean:
            self._parser.add_argument(f"--no{called}", dest=name, action="store_false",
                                      default=argparse.SUPPRESS, help=argparse.SUPPRESS)

    def _alias(self, called, name):
        if called in self._flags:
            raise ValueError(f"flag --{called} is defined twice")
        self._flags[called] = self._known(name)
        self._accept(called, name)

    def _check(self, name):
        """IllegalFlagValueError if a validator of a flag refuses its value."""
        for of, checker, message in self._validators:
            if of == name and not checker(self._known(name).value):
                raise IllegalFlagValueError(f"flag --{name}={self._known(name).value}: {message}")

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
        for name, value in vars(found).items():
            if name in self._flags:
                flag = self._flags[name]
                flag.value, flag.using_default_value = value, False
                flag.present += 1
        self.__dict__["_parsed"] = True
        for name in self._required:
            if name in self._flags and self._flags[name].value is None:
                self._parser.error(f"flag --{name} must be given")
        try:
            for name, _, _ in self._validators:
                self._check(name)
        except IllegalFlagValueError as e:
            self._parser.error(str(e))
        return [argv[0]] + rest

    def _has_rest(self):
        return any(a.dest == "_rest" for a in self._parser._actions)

    def _parse_flags(self, args=None):
        """Parses the command line now: programs for TF 1.0 to 1.4 call it."""
        self(sys.argv if args is None else [sys.argv[0], *args], known_only=True)

    def _known(self, name):
        if name not in self._flags:
            raise AttributeError(f"no flag --{name} is defined")
        return self._flags[name]

    def __getattr__(self, name):
        flag = self._known(name)
        if not self._parsed:
            self(sys.argv, known_only=True)
        return flag.value

    def __setattr__(self, name, value):
        flag = self._known(name)
        before = flag.value, flag.using_default_value
        flag.value, flag.using_default_value = value, False
        if self._parsed:
            try:
                self._check(flag.name)
            except IllegalFlagValueError:
                flag.value, flag.using_default_value = before
                raise

    def __delattr__(self, name):
        self._known(name)
        del self._flags[name]

    def __dir__(self):
        return sorted({*object.__dir__(self), *self._flags})

    def __getitem__(self, name):
        return self._flags[name]

    def __contains__(self, name):
        return name in self._flags

    def __iter__(self):
        return iter(self._flags)

    def __len__(self):
        return len(self._flags)

    def flag_values_dict(self):
        """All flags and their values."""
        return {name: getattr(self, name) for name in self._flags}

    def get_flag_value(self, name, default):
        """The flag's value; `default` where it is None."""
        value = getattr(self, name)
        return default if value is None else value

    def set_default(self, name, value):
        """Another default; the flag's value too, unless it was given or set."""
        flag = self._known(name)
        flag.default = value
        if flag.using_default_value:
            flag.value = value

    def flags_into_string(self):
        """All flags that have a value as arguments, one a line."""
        return "".join(f"{text}\n" for text in (f.serialize() for f in self._flags.values()) if text)

    def mark_as_parsed(self):
        """Uses defaults where nothing was parsed."""
        self.__dict__["_parsed"] = True

    def is_parsed(self):
        """True once the command line was parsed."""
        return self._parsed


class _AbslFlags:
    """absl.flags.FLAGS, parsed when a flag is first read, which in absl is an error. A call parses
    argv, the program's name first; with known_only what is no flag is left alone.

        >>> _ = tf.flags.DEFINE_integer("steps_of_example", 100, "Training steps.")
        >>> tf.flags.FLAGS.steps_of_example
        100
    """

    def __getattr__(self, name):
        flags = _absl.FLAGS
        if name in flags and not flags.is_parsed():
            flags(sys.argv, known_only=True)
        return getattr(flags, name)

    def __setattr__(self, name, value):
        setattr(_absl.FLAGS, name, value)

    def __delattr__(self, name):
        delattr(_absl.FLAGS, name)

    def __call__(self, argv, known_only=False):
        return _absl.FLAGS(argv, known_only=known_only)

    def __getitem__(self, name):
        return _absl.FLAGS[name]

    def __setitem__(self, name, flag):
        _absl.FLAGS[name] = flag

    def __contains__(self, name):
        return name in _absl.FLAGS

    def __iter__(self):
        return iter(_absl.FLAGS)

    def __len__(self):
        return len(_absl.FLAGS)

    def __dir__(self):
        return dir(_absl.FLAGS)

    def _parse_flags(self, args=None):
        _absl.FLAGS(sys.argv if args is None else [sys.argv[0], *args], known_only=True)


FLAGS = _Flags() if _absl is None else _AbslFlags()
_OLD_ARGUMENTS = {"flag_name": "name", "default_value": "default", "docstring": "help"}


def _defines(function):
    """Decorator: a DEFINE_ function that takes TensorFlow 1.0's names for its arguments, too, and
    is absl's of that name where that is installed."""
    @functools.wraps(function)
    def define(*args, **kwargs):
        kwargs = {_OLD_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
        if _absl is None:
            return function(*args, **kwargs)
        if "help" not in kwargs and len(args) == list(_parameters(function)).index("help"):
            kwargs["help"] = ""
        return getattr(_absl, function.__name__)(*args, **kwargs)
    return define


def _parameters(function):
    return function.__code__.co_varnames[:function.__code__.co_argcount]


def _to_bool(text):
    if text.lower() in ("true", "t", "1", "yes", "y"):
        return True
    if text.lower() in ("false", "f", "0", "no", "n"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


@_defines
def DEFINE_string(name, default, help="", **unused):  # noqa: N802 - TF's names
    """Defines --name=VALUE, any text.  Another value ends the program.

    name: of the flag and of FLAGS' attribute. default: its value without one. help: a sentence.

        >>> _ = tf.flags.DEFINE_string("a_string", "/tmp", "What it is for.")
        >>> tf.flags.FLAGS.a_string
        '/tmp'
    """
    FLAGS._define(name, default, str, help)


@_defines
def DEFINE_integer(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, an int.  Another value ends the program.

    name: of the flag and of FLAGS' attribute. default: its value without one. help: a sentence.

        >>> _ = tf.flags.DEFINE_integer("a_integer", 100, "What it is for.")
        >>> tf.flags.FLAGS.a_integer
        100
    """
    FLAGS._define(name, default, int, help)


@_defines
def DEFINE_float(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, a float.  Another value ends the program.

    name: of the flag and of FLAGS' attribute. default: its value without one. help: a sentence.

        >>> _ = tf.flags.DEFINE_float("a_float", 0.5, "What it is for.")
        >>> tf.flags.FLAGS.a_float
        0.5
    """
    FLAGS._define(name, default, float, help)


@_defines
def DEFINE_bool(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, true or false, and --name and --noname.  Another value ends the
    program.

    name: of the flag and of FLAGS' attribute. default: its value without one. help: a sentence.

        >>> _ = tf.flags.DEFINE_boolean("a_boolean", True, "What it is for.")
        >>> tf.flags.FLAGS.a_boolean
        True
    """
    FLAGS._define(name, default, _to_bool, help, boolean=True, nargs="?", const=True)


@_defines
def DEFINE_enum(name, default, enum_values, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, one of enum_values.  Another value ends the program."""
    FLAGS._define(name, default, str, help, choices=list(enum_values))


@_defines
def DEFINE_list(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, a list, separated by commas.  Another value ends the program."""
    default = default.split(",") if isinstance(default, str) else default
    FLAGS._define(name, default, lambda text: text.split(",") if text else [], help)


def _define_multi(name, default, convert, help_text):
    default = [default] if isinstance(default, (str, int, float)) else default
    FLAGS._define(name, default, convert, help_text, action="append")


@_defines
def DEFINE_multi_string(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, any text, which may be given several times: a list."""
    _define_multi(name, default, str, help)


@_defines
def DEFINE_multi_integer(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, an int, which may be given several times: a list."""
    _define_multi(name, default, int, help)


@_defines
def DEFINE_multi_float(name, default, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, a float, which may be given several times: a list."""
    _define_multi(name, default, float, help)


@_defines
def DEFINE_multi_enum(name, default, enum_values, help="", **unused):  # noqa: N802
    """Defines --name=VALUE, one of enum_values, which may be given several times: a list."""
    default = [default] if isinstance(default, str) else default
    FLAGS._define(name, default, str, help, action="append", choices=list(enum_values))


def DEFINE_alias(name, original_name, **more):  # noqa: N802
    """Defines --name as another name of a flag.  AttributeError (absl: UnrecognizedFlagError) for a
    flag that is not defined."""
    if _absl is not None:
        return _absl.DEFINE_alias(name, original_name, **more)
    FLAGS._alias(name, original_name)


def register_validator(flag_name, checker, message="Flag validation failed", **more):
    """Values of a flag are right if checker(value) is true: others end the program when flags are
    parsed, and are an IllegalFlagValueError when they are set."""
    if _absl is not None:
        return _absl.register_validator(flag_name, checker, message, **more)
    FLAGS._known(flag_name)
    FLAGS._validators.append((flag_name, checker, message))


def validator(flag_name, message="Flag validation failed", **more):
    """Decorator: register_validator of the function."""
    def decorate(function):
        register_validator(flag_name, function, message, **more)
        return function
    return decorate


def mark_flag_as_required(flag_name, **more):
    """Parsing fails if the flag has no value."""
    if _absl is not None:
        return _absl.mark_flag_as_required(flag_name, **more)
    FLAGS._required.add(flag_name)


def mark_flags_as_required(flag_names, **more):
    """Parsing fails if one of the flags has no value."""
    for flag_name in flag_names:
        mark_flag_as_required(flag_name, **more)


DEFINE_boolean = DEFINE_bool


def __getattr__(name):
    """What absl.flags has besides."""
    if _absl is not None and not name.startswith("_") and hasattr(_absl, name):
        return getattr(_absl, name)
    importlib.import_module("pyflow._names").missing_from(sys.modules[__name__], "flags", name)
