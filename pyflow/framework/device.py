"""Device names: `DeviceSpec`, a possibly partial `/job:worker/replica:0/task:1/device:GPU:0`.

Invariants
    1. A field that is None is unspecified; merging takes each field from the spec that wins and
       says something about it (so `/gpu:1` inside `/cpu:0` is `/device:GPU:1`, and `/gpu:*` inside
       `/cpu:1` is `/device:GPU:1`: the index was open).
    2. `/cpu:0`, `/gpu:1`, `/gpu` are old spellings of `/device:CPU:0`, `/device:GPU:1`,
       `/device:GPU:*`; of all device types only cpu and gpu may be lower case.

Threads: a spec is for one thread; the functions below may be called from any.

    >>> DeviceSpec.from_string("/job:ps/cpu:0").make_merged_spec(DeviceSpec(task=3)).to_string()
    '/job:ps/task:3/device:CPU:0'
"""

_cache = {}
_SHORT_TYPES = frozenset(("CPU", "GPU", "TPU", "CUSTOM", "EPU"))    # may stand without "device:"


class DeviceSpec:
    """A partially specified device (TF 1.x `tf.DeviceSpec`).

    job: string; replica, task: int; device_type: string ("CPU", "GPU", a plugin's); device_index:
    int, None for any.  Every field may be None: unspecified, and may be assigned.
    """

    __slots__ = ("_job", "_replica", "_task", "_device_type", "_device_index", "_text")

    def __init__(self, job=None, replica=None, task=None, device_type=None, device_index=None):
        self._text = None
        self.job = job
        self.replica = replica
        self.task = task
        self.device_type = device_type
        self.device_index = device_index

    def parse_from_string(self, spec):
        """Sets all fields from `spec` and returns self; ValueError names the part that is no device
        part."""
        self.__init__()
        for part in (spec or "").split("/"):
            if part:
                self._set_part(part, spec)
        return self

    def _set_part(self, part, spec):
        words = part.split(":")
        key = words[0]
        try:
            if len(words) == 2 and key == "job":
                self.job = words[1]
            elif len(words) == 2 and key in ("replica", "task"):
                setattr(self, key, words[1])
            elif len(words) <= 2 and key.upper() in _SHORT_TYPES:
                self._set_type(key.upper(), words[1] if len(words) == 2 else "*", spec)
            elif len(words) == 3 and key == "device":
                self._set_type(words[1], words[2], spec)
            elif key:
                raise ValueError(f"Unknown attribute: {part!r}")
        except ValueError as e:
            raise ValueError(
                f"{e} in device {spec!r}. A device looks like"
                " '/job:worker/replica:0/task:1/device:GPU:0' or '/cpu:0'; every part is optional."
            ) from None

    def _set_type(self, kind, index, spec):
        if self._device_type is not None:
            raise ValueError("Cannot specify multiple device types")
        self.device_type = kind
        self.device_index = None if index == "*" else index

    def merge_from(self, dev):
        """Takes over every field that `dev` specifies."""
        self._text = None
        for field in _FIELDS:
            value = getattr(dev, field)
            if value is not None:
                setattr(self, field, value)

    def make_merged_spec(self, dev):
        """A new spec: this one, with every field that `dev` specifies taken from `dev`."""
        merged = DeviceSpec(self._job, self._replica, self._task, self._device_type,
                            self._device_index)
        merged.merge_from(dev)
        return merged

    merged_with = make_merged_spec

    def replace(self, **fields):
        """A new spec with these fields (constructor arguments) replaced; None unsets one."""
        mine = {field[1:]: getattr(self, field) for field in _FIELDS}
        mine.update(fields)
        return DeviceSpec(**mine)

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

    @classmethod
    def from_string(cls, spec):
        """The DeviceSpec that `spec` names; ValueError if it is no device name."""
        return cls().parse_from_string(spec)

    def allows(self, other):
        """True if every field that this spec specifies is equal in `other`, a DeviceSpec."""
        return all(getattr(self, field) in (None, getattr(other, field)) for field in _FIELDS)

    def __eq__(self, other):
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self):
        return hash(self.to_string())

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        return f"DeviceSpec.from_string({self.to_string()!r})"


_FIELDS = ("_job", "_replica", "_task", "_device_type", "_device_index")


def _field(name, convert):
    def get(self):
        return getattr(self, name)

    def put(self, value):
        self._text = None
        setattr(self, name, None if value is None else convert(value))

    return property(get, put, doc=f"The {name[1:].replace('_', ' ')}, or None if any will do.")


def _kind(text):
    return text.upper() if text in ("cpu", "gpu") else str(text)


DeviceSpec.job = _field("_job", str)
DeviceSpec.replica = _field("_replica", int)
DeviceSpec.task = _field("_task", int)
DeviceSpec.device_type = _field("_device_type", _kind)
DeviceSpec.device_index = _field("_device_index", int)


def parsed(spec):
    """The DeviceSpec of a name, shared: not to be changed.  ValueError if it is no device name."""
    found = _cache.get(spec)
    if found is None:
        found = _cache[spec] = DeviceSpec.from_string(spec)
    return found


def merge_names(inner, outer):
    """The name of device `inner` with what it leaves open taken from `outer` (both strings)."""
    key = (inner, outer)
    found = _cache.get(key)
    if found is None:
        found = _cache[key] = parsed(outer).make_merged_spec(parsed(inner)).to_string()
    return found


def canonical_name(device):
    """`device` (a string, DeviceSpec or None) in canonical spelling; '' for None."""
    if device is None:
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    return parsed(str(device)).to_string()


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
