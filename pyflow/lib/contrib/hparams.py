"""tf.contrib.training.HParams: named hyper-parameters with fixed types.

    hparams = tf.contrib.training.HParams(learning_rate=0.1, units=[64, 32])
    hparams.parse("learning_rate=0.01,units[1]=16")
    hparams.learning_rate                       # 0.01

Invariants
    1. A parameter keeps the type of its first value; a value of another type is a ValueError, but an
       int stands for a float.
    2. Lists hold one type and are not empty.

Threads: one at a time.
"""
import json
import numbers
import re

_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_PARAMETER = re.compile(r"""
    (?P<name>[a-zA-Z]\w*)\s*(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*
    (?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)""", re.VERBOSE)


class HParams:
    """Hyper-parameters as attributes.  TF: contrib.training.HParams."""

    def __init__(self, hparam_def=None, model_structure=None, **kwargs):
        """kwargs: names and first values; None is no type, and stays None until set.
        model_structure: kept for get_model_structure."""
        self._hparam_types = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name, value):
        """Adds a parameter.  ValueError if the name is taken, or a list is empty or mixed."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            if len({type(v) for v in value}) > 1:
                raise ValueError(f"Multi-valued hyperparameter {name} has values of several types")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name, value):
        """Another value for a parameter.  KeyError for an unknown name, ValueError for another
        type."""
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list and isinstance(value, (list, tuple)) != is_list:
            raise ValueError(f"Hyperparameter {name} "
                             f"{'needs a list' if is_list else 'takes one value'}, got {value!r}")
        setattr(self, name, [_cast(name, kind, v) for v in value] if is_list else
                _cast(name, kind, value))

    def del_hparam(self, name):
        """Removes a parameter, if it is there."""
        if name in self._hparam_types:
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values):
        """Sets parameters from text: "name=value,list=[1,2],list[0]=3".  Returns self.  ValueError
        for what cannot be read, and for names that are unknown or given twice."""
        done, at = {}, 0
        text = values.strip()
        while at < len(text):
            match = _PARAMETER.match(text, at)
            if match is None:
                raise ValueError(f"Malformed hyperparameter value: {text[at:]}")
            at = match.end()
            while at < len(text) and text[at] in " \n":
                at += 1
            self._set_text(match, done)
        return self

    def _set_text(self, match, done):
        name = match["name"]
        if name not in self._hparam_types:
            raise ValueError(f"Unknown hyperparameter: {name}; there are "
                             f"{', '.join(sorted(self._hparam_types))}")
        key = name, match["index"]
        if key in done or (name, None) in done:
            raise ValueError(f"Multiple assignments to variable '{name}' in {match.string!r}")
        done[key] = True
        kind, is_list = self._hparam_types[name]
        if match["index"] is not None:
            if not is_list:
                raise ValueError(f"Hyperparameter {name} takes one value, got an index")
            getattr(self, name)[int(match["index"])] = _read(name, kind, match["value"])
        elif match["list"] is not None or is_list:
            parts = (match["list"] if match["list"] is not None else match["value"]).split(",")
            self.set_hparam(name, [_read(name, kind, part) for part in parts])
        else:
            self.set_hparam(name, _read(name, kind, match["value"]))

    def override_from_dict(self, values_dict):
        """Sets the parameters of a dict.  Returns self."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json):
        """Sets the parameters of a JSON object.  Returns self."""
        return self.override_from_dict(json.loads(values_json))

    def values(self):
        """{name: value}."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def to_json(self, indent=None, separators=None, sort_keys=False):
        """The values as a JSON object; functions are left out."""
        kept = {name: v for name, v in self.values().items() if not callable(v)}
        return json.dumps(kept, indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key, default=None):
        """A parameter's value, or `default`.  ValueError for a default of another type."""
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            first = default[0] if is_list and default else default
            if isinstance(default, list) != is_list or not isinstance(first, kind):
                raise ValueError(f"Default of {key} must be "
                                 f"{'a list of ' if is_list else ''}{kind.__name__}, got {default!r}")
        return getattr(self, key)

    def get_model_structure(self):
        """What was given as model_structure."""
        return self._model_structure

    def set_model_structure(self, model_structure):
        """Another model_structure."""
        self._model_structure = model_structure

    def __contains__(self, key):
        return key in self._hparam_types

    def __repr__(self):
        return f"{type(self).__name__}({sorted(self.values().items())})"


def _cast(name, kind, value):
    """`value` as a parameter of type `kind`; ValueError where it is of another."""
    wrong = ValueError(f"Could not cast hyperparameter '{name}' of type '{kind.__name__}' from value "
                       f"{value!r}")
    if kind is type(None) or value is None:
        return value
    if kind is bool or isinstance(value, bool):
        if kind is not bool or not isinstance(value, bool):
            raise wrong
        return value
    if issubclass(kind, str) != isinstance(value, str):
        raise wrong
    if issubclass(kind, numbers.Integral) and not isinstance(value, numbers.Integral):
        raise wrong
    if issubclass(kind, numbers.Number) and not isinstance(value, numbers.Number):
        raise wrong
    return kind(value) if issubclass(kind, (str, numbers.Number)) else value


def _read(name, kind, text):
    """The value that text gives for a parameter of type `kind`."""
    text = text.strip()
    try:
        if kind is bool:
            return _TRUTH[text.lower()]
        return text if kind in (str, type(None)) else kind(text)
    except (KeyError, ValueError):
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value "
                         f"'{text}'") from None


PUBLIC = {"contrib.training.HParams": HParams}
