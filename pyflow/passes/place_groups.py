"""Which nodes must share a device, and which devices each group may use.

Union-find over four kinds of ties: a reference that stays one (`Assign` and its variable), the
handle of a resource, a colocation label (`_class = loc:@x`, from tf.colocate_with; a dataset and
who reads it are as if they had one), and one name of state (two VarHandleOps with one
shared_name).  A group's devices are the intersection of what
its nodes asked for and of what has kernels for them.

Invariants
    1. A group's number is the index of its first node; `mask[group]` is never 0 after `limit`.
    2. A conflict is an InvalidArgumentError that names the two nodes and their lines; with soft
       placement requests of a device of a task give way, the first node's last; kernels never do,
       nor a task that is not there.  Who reads a variable
       or a handle gives way to the request of what holds it, soft or not.
    3. A group with a pinned node is where the pin says, or an error: soft or not, state that is
       somewhere does not move.

Threads: belongs to one call of `place`.
"""
from pyflow.framework import errors
from pyflow.framework.device import parsed
from pyflow.passes.reads import takes_reference

RESOURCE = 20                       # DT_RESOURCE
_FIRST_REF = 101                    # DT_FLOAT_REF
_STACK_OPS = frozenset(("StackPushV2", "StackPopV2", "StackCloseV2"))


def follows_handle(node):
    """True for the Enter of a resource, and for what gradients of loops push and pop: they go where
    the resource is, whatever device was asked for around them."""
    return node.op in _STACK_OPS or (
        node.op == "Enter" and bool(node.types) and node.types[0]._number == RESOURCE)


class Groups:
    """The groups of a graph's nodes.  `of[i]`: the group of node i (after `close`)."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.index = {node: i for i, node in enumerate(nodes)}
        self.of = list(range(len(nodes)))
        self.ties = {}              # node index -> (the other node's index, "state" or "label")
        self._join_all()
        self._close()

    # ------------------------------------------------------------ union-find

    def _root(self, i):
        of = self.of
        while of[i] != i:
            of[i] = i = of[of[i]]
        return i

    def _join(self, a, b, why):
        if a != b:
            self.ties.setdefault(b, (a, why))
        a, b = self._root(a), self._root(b)
        if a != b:
            self.of[max(a, b)] = min(a, b)

    def _join_all(self):
        holders = set()
        for node in self.nodes:
            for dtype in node.types:
                number = dtype._number
                if number >= _FIRST_REF or number == RESOURCE:
                    holders.add(node)
        by_name, by_state = None, {}
        self._join_datasets()
        for i, node in enumerate(self.nodes):
            if node in holders and not node.inputs:
                self._join(by_state.setdefault(state_key(node), i), i, "state")
            if holders:
                for edge in node.inputs:
                    if edge[0] in holders:
                        self._join_state(i, node, holders)
                        break
            labels = node.attrs.get("_class")
            if labels:
                by_name = by_name or {n.name: k for k, n in enumerate(self.nodes)}
                for label in labels if isinstance(labels, (list, tuple)) else (labels,):
                    self._join_label(label, i, by_name)

    def _join_datasets(self):
        """A dataset that asks for no device is where its iterator is: it cannot travel."""
        free = {node for node in self.nodes if not node.device and "Dataset" in node.op}
        if free:
            for i, node in enumerate(self.nodes):
                for source, _ in node.inputs:
                    if source in free:
                        self._join(self.index[source], i, "label")

    def _join_state(self, i, node, holders):
        for position, (source, index) in enumerate(node.inputs):
            if source in holders and shares_state(source, index, node, position):
                self._join(self.index[source], i, "state")

    def _join_label(self, label, i, by_name):
        label = label.decode() if isinstance(label, bytes) else label
        if isinstance(label, str) and label.startswith("loc:@"):
            # The node itself may be pruned; those that name it still belong together.
            other = by_name.setdefault(label[5:], i)
            self._join(other, i, "label")

    def _close(self):
        of, self.members = self.of, {}
        for i, parent in enumerate(of):
            if parent != i:
                root = of[i] = self._root(i)
                self.members.setdefault(root, [root]).append(i)

    # ------------------------------------------------------------ devices

    def limit(self, devices, soft, pins=None, strict=True):
        """Sets `mask` (per group), `asked` (groups that asked for something) from requests and
        kernels.  pins: {node name: device index} for nodes whose state is there already.  Raises
        InvalidArgumentError for what cannot be (strict=False: such groups get the device of the
        pin, or what their first node can have).
        """
        nodes, of = self.nodes, self.of
        self.mask, self.asked = [devices.everything] * len(nodes), set()
        broken, self._pinned = {}, {}
        kernel_mask, request_mask = devices.kernel_mask, devices.mask
        mask = self.mask
        for i, node in enumerate(nodes):
            allowed, root = kernel_mask(node), of[i]
            if node.device and not follows_handle(node):
                self.asked.add(root)
                allowed &= request_mask(node.device)
            if pins and node.name in pins and devices.everything >> pins[node.name] & 1:
                self._pinned.setdefault(root, (i, pins[node.name]))
                allowed &= 1 << pins[node.name]
            mask[root] = allowed = mask[root] & allowed
            if not allowed:
                broken.setdefault(root, i)
        for root in broken:
            self.mask[root] = self._mend(root, devices, soft, strict)

    def _mend(self, root, devices, soft, strict):
        """The devices of a group that cannot have all it asks for; raises unless `soft`."""
        members = self.members.get(root, [root])
        kernels = devices.everything
        for i in members:
            kernels &= devices.kernel_mask(self.nodes[i])
        pin = 1 << self._pinned[root][1] if root in self._pinned else 0
        if following := self._with_followers(members, devices, kernels & pin if pin else kernels):
            return following
        if pin and (not strict or soft and kernels & pin):
            return pin
        if not strict and not (soft and kernels):
            return self._own_mask(root, devices)
        requests = [self.nodes[i].device for i in members if self.nodes[i].device]
        if not soft or not kernels or pin or not all(map(devices.task_mask, requests)):
            raise self._conflict(members, devices, soft) or self._pin_conflict(root, devices, soft)
        mask = kernels
        for request in requests:
            mask = mask & devices.task_mask(request) or mask
        for request in requests:
            mask = mask & devices.mask(request) or mask
        if mask == kernels:                     # nobody got anything: at least the type
            for request in requests:
                mask = mask & devices.type_mask(request) or mask
        return mask

    def _with_followers(self, members, devices, mask):
        """The devices of a group in which only those disagree that read a variable or a handle whose
        holder asked for its own: they go there, as in TensorFlow ("Ignoring device specification").
        0: others disagree, too."""
        asking = [i for i in members if self.nodes[i].device and not follows_handle(self.nodes[i])]
        followers = [i for i in asking if self.nodes[i].inputs
                     and self.ties.get(i, (0, ""))[1] == "state"]
        if not followers or len(followers) == len(asking):
            return 0
        for i in set(asking) - set(followers):
            mask &= devices.mask(self.nodes[i].device)
        for i in followers:
            mask = mask & devices.mask(self.nodes[i].device) or mask
        return mask

    def _own_mask(self, i, devices):
        """What node i could use if it were alone."""
        node = self.nodes[i]
        kernels = devices.kernel_mask(node)
        return (kernels & devices.mask(node.device) if node.device else 0) or kernels

    def _conflict(self, members, devices, soft):
        """The error for members whose devices have nothing in common; None if they have."""
        nodes, masks = [self.nodes[i] for i in members], []
        for node in nodes:
            kernels = devices.kernel_mask(node)
            wanted = devices.mask(node.device) if node.device else devices.everything
            if not wanted and not (soft and devices.task_mask(node.device)):
                return _error(node, unknown_device(node, devices))
            if not wanted & kernels and not soft:
                return _error(node, no_kernel(node, devices))
            masks.append(kernels if soft else wanted & kernels)
        together = devices.everything
        for k, mask in enumerate(masks):
            if not together & mask:
                other = next((j for j in range(k) if not masks[j] & mask), None)
                if other is None:               # three or more disagree
                    other = next(j for j in range(k) if masks[j] != devices.everything)
                return _error(nodes[k], self._disagree(nodes[other], nodes[k], devices))
            together &= mask
        return None

    def _pin_conflict(self, root, devices, soft):
        """The error for a member that cannot be where the state it uses is."""
        i, at = self._pinned[root]
        holder = self.nodes[i]
        for k in self.members.get(root, [root]):
            node = self.nodes[k]
            there = devices.kernel_mask(node)
            if node.device and not soft:
                there &= devices.mask(node.device)
            if not there >> at & 1:
                needs = _needs(node, devices) if not soft else _kernels_of(node, devices)
                return _error(node, (
                    f"Cannot place node '{node.name}' ({node.op}){made_at(node)} on"
                    f" {devices.names[at]}, where its state '{holder.name}' ({holder.op})"
                    f"{made_at(holder)} is: '{node.name}' {needs}. A session places a"
                    " variable when it first runs, with all its users in the graph, and it stays"
                    f" there: make '{node.name}' before the first run, put '{holder.name}' on a"
                    " device for both with tf.device, or open a new session."))
        pins = [self.nodes[k] for k in self.members[root] if self.nodes[k] is not holder]
        return _error(pins[-1], (
            f"Cannot place node '{pins[-1].name}' ({pins[-1].op}){made_at(pins[-1])}: nodes that"
            f" share its device have their state in different places, '{holder.name}' on"
            f" {devices.names[at]}. Make what joins them before the session's first run."))

    def _disagree(self, first, second, devices):
        ties = {why for i, (_, why) in self.ties.items()
                if self.of[i] == self.of[self.index[second]]}
        shared = "share state" if "state" in ties else "are colocated"
        return (
            f"Cannot place node '{second.name}' ({second.op}){made_at(second)} together with node"
            f" '{first.name}' ({first.op}){made_at(first)}: they {shared}, but"
            f" '{first.name}' {_needs(first, devices)} and '{second.name}'"
            f" {_needs(second, devices)}. Ask for one device that both can use, or set"
            " allow_soft_placement=True."
        )


def _needs(node, devices):
    """'asked for /cpu:1 (..CPU:1)', 'has kernels on CPU only'."""
    if node.device:
        full = devices.resolve(node.device)
        return f"asked for {node.device}" + (f" ({full})" if full != node.device else "")
    return _kernels_of(node, devices)


def _kernels_of(node, devices):
    return f"has kernels for {devices.kernels_text(node)} only"


def _error(node, text):
    return errors.InvalidArgumentError(None, node.origin, text)


def unknown_device(node, devices):
    """The message for a device that is not there."""
    from pyflow.framework.device import parsed
    advice = ""
    wanted = parsed(node.device)
    if wanted.device_type == "CPU":
        advice = (f" More CPU devices: tf.Session(config=tf.ConfigProto(device_count={{'CPU': "
                  f"{(wanted.device_index or 0) + 1}}})).")
    elif wanted.job not in (None, "localhost", "local"):
        advice = (
            " A session on another job needs its server's address: tf.Session('grpc://host:port')."
        )
    advice += "".join(f" {name} is there, but cannot be used: {problem}."
                      for name, problem in devices.problems.items())
    there = ", ".join(name for name in devices.names if name not in devices.problems)
    return (
        f"Cannot assign a device for operation {node.name}: node '{node.name}'"
        f" ({node.op}){made_at(node)} was explicitly assigned to {node.device} but available"
        f" devices are [ {there} ]. Make sure the device specification refers to"
        f" a valid device, or set allow_soft_placement=True.{advice}"
    )


def no_kernel(node, devices):
    """The message for a request of a device that has no kernel for the node."""
    return (
        f"Cannot assign a device for operation {node.name}: Could not satisfy explicit device"
        f" specification '{node.device}' because no supported kernel for op {node.op}"
        f"{types_text(node)}{made_at(node)} is available there. Registered kernels:"
        f" {devices.registered(node.op)}. Cast the inputs, place the node elsewhere, or set"
        " allow_soft_placement=True."
    )


def state_key(node):
    """Equal for nodes without inputs that hold the same variable or resource of a session; each task
    that a device names has its own."""
    return (node.op, node.attrs.get("container") or "",
            node.attrs.get("shared_name") or node.name, _task_of(node.device))


def _task_of(name):
    """(job, task) that a device's name has, as far as it has them."""
    if not name or "/job:" not in name:
        return None
    spec = parsed(name)
    return None if spec.job == "localhost" else (spec.job, spec.task)


def types_text(node):
    """'/float64': the node's element type, for messages; '' without one."""
    for name in ("T", "dtype", "SrcT"):
        value = node.attrs.get(name)
        if hasattr(value, "base_dtype"):
            return f"/{value.base_dtype.name}"
    return ""


def made_at(node):
    """', made at file:line,' for nodes whose origin is known."""
    return f", made at {node.origin.user_frame}," if node.origin is not None else ""


def shares_state(source, index, reader, position):
    """True for the handle of a resource, and for a reference that stays one in `reader`."""
    if index >= len(source.types):
        return False
    number = source.types[index]._number
    if number == RESOURCE:
        return True
    return number >= _FIRST_REF and takes_reference(reader, position)
