"""Device names: `DeviceSpec`, a possibly partial `/job:worker/replica:0/task:1/device:GPU:0`.

Invariants: a field that is None is unspecified; merging prefers the specified field; device types
are upper case; `/cpu:0` and `/gpu:1` are old spellings of `/device:CPU:0` and `/device:GPU:1`.

    >>> DeviceSpec.from_string("/job:ps/cpu:0").merged_with(DeviceSpec(task=3)).to_string()
    '/job:ps/task:3/device:CPU:0'
"""

_cache = {}


class DeviceSpec:
    """A partially specified device (TF 1.x `tf.DeviceSpec`)."""

    __slots__ = ("_job", "_replica", "_task", "_device_type", "_device_index", "_text")

    def __init__(self, job=None, replica=None, task=None, device_type=None, device_index=None):
        self._text = None
        self.job = job
        self.replica = replica
        self.task = task
        self.device_type = device_type
        self.device_index = device_index

    def parse_from_string(self, spec):
        """Sets the fields from `spec`; ValueError names the part that is no device part."""
        self.__init__()
        for part in spec.split("/"):
            if part:
                self._set_part(part, spec)
        return self

    def _set_part(self, part, spec):
        words = part.split(":")
        key, number = words[0], words[-1]
        if len(words) == 3 and key.lower() == "device":
            key, words = words[1], words[1:]
            is_device = True
        else:
            is_device = key.lower() in ("cpu", "gpu")
        if len(words) == 2 and key == "job" and not is_device:
            self.job = number
        elif len(words) == 2 and key in ("replica", "task") and not is_device and number.isdigit():
            setattr(self, key, int(number))
        elif is_device and len(words) == 2 and (number.isdigit() or number == "*") and key:
            if self._device_type is not None and self._device_type != key.upper():
                raise ValueError(f"Cannot specify multiple device types: {spec!r}")
            self.device_type = key
            self.device_index = None if number == "*" else int(number)
        else:
            raise ValueError(f"Unknown attribute: {part!r} in device {spec!r}. A device looks like "
                             f"'/job:worker/replica:0/task:1/device:GPU:0' or '/cpu:0'; every part "
                             f"is optional.")

    def merge_from(self, dev):
        """Takes over every field that `dev` specifies."""
        self._text = None
        for field in ("_job", "_replica", "_task", "_device_type", "_device_index"):
            value = getattr(dev, field)
            if value is not None:
                setattr(self, field, value)

    def merged_with(self, dev):
        """A new spec: this one, with every field that `dev` specifies taken from `dev`."""
        merged = DeviceSpec(self._job, self._replica, self._task, self._device_type,
                            self._device_index)
        merged.merge_from(dev)
        return merged

    make_merged_spec = merged_with

    def to_string(self):
        """The canonical name, with unspecified parts left out."""
        if self._text is None:
            parts = [f"/{name}:{value}" for name, value in
                     (("job", self._job), ("replica", self._replica), ("task", self._task))
                     if value is not None]
            if self._device_type is not None:
                index = "*" if self._device_index is None else self._device_index
                parts.append(f"/device:{self._device_type}:{index}")
            self._text = "".join(parts)
        return self._text

    @staticmethod
    def from_string(spec):
        """The DeviceSpec that `spec` names."""
        return DeviceSpec().parse_from_string(spec)

    def __eq__(self, other):
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self):
        return hash(self.to_string())

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        return f"DeviceSpec.from_string({self.to_string()!r})"


def _field(name, convert):
    def get(self):
        return getattr(self, name)

    def put(self, value):
        self._text = None
        setattr(self, name, None if value is None else convert(value))

    return property(get, put)


DeviceSpec.job = _field("_job", str)
DeviceSpec.replica = _field("_replica", int)
DeviceSpec.task = _field("_task", int)
DeviceSpec.device_type = _field("_device_type", lambda t: str(t).upper())
DeviceSpec.device_index = _field("_device_index", int)


def _parsed(spec):
    found = _cache.get(spec)
    if found is None:
        found = _cache[spec] = DeviceSpec.from_string(spec)
    return found


def merge_names(inner, outer):
    """The name of device `inner` with what it leaves open taken from `outer` (both strings)."""
    key = (inner, outer)
    found = _cache.get(key)
    if found is None:
        found = _cache[key] = _parsed(outer).merged_with(_parsed(inner)).to_string()
    return found


def canonical_name(device):
    """`device` (a string, DeviceSpec or None) in canonical spelling; '' for None."""
    if device is None:
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    return _parsed(str(device)).to_string()


def checked_name(device):
    """`device` as text, spelled as given; ValueError if it is no device name."""
    name = canonical_name(device)
    return device if isinstance(device, str) else name


def merge_device(spec):
    """A device function (for `tf.device`) that fills in what a node's own device leaves open."""
    name = canonical_name(spec)

    def merge(node):
        return merge_names(canonical_name(node.device), name)

    return merge
