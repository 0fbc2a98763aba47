"""TensorBoard's graph page: scopes, the devices' colours, time and memory of a traced step's nodes.

Called by check.py.  Nodes are clicked, tags and colourings chosen, as a person does; what the page
says then must follow from what the traced step's RunMetadata says of the nodes in each scope.
"""
import re

from board import wait

SCOPES = ("accuracy", "conv", "global_step", "hidden", "logits", "loss", "summaries", "train")
TRACED = ("conv", "hidden", "logits", "loss", "train")
UNITS = {"µs": 1, "ms": 1e3, "s": 1e6, "B": 1, "KB": 1 << 10, "MB": 1 << 20}
STRIKE = """
arguments[0].querySelector('.nodeshape').dispatchEvent(
  new MouseEvent(arguments[1], {bubbles: true}))"""
SHAPE = """
const shape = arguments[0].querySelector('.nodeshape rect, .nodeshape ellipse');
return shape.style.fill"""
STOPS = """
return Array.from(arguments[0].querySelectorAll('stop')).map(
  s => [Number(s.getAttribute('offset')), s.getAttribute('stop-color')])"""


def nodes(board):
    """{name: element} of what is drawn, without the stubs at a scope's rim."""
    found = [(g.get_attribute("data-name"), g) for g in board.find("g.node")]
    return {name: g for name, g in found if "~~" not in name}


def amount(text):
    """"1.5 KB" in bytes, "1.5 ms" in microseconds."""
    number, unit = text.split()
    return float(number) * UNITS[unit]


def inside(expected, scope):
    """The traced nodes of a scope that the graph has: not a step's sends and receives."""
    return [node for name, node in expected["nodes"].items()
            if name in expected["graph"] and (name + "/").startswith(scope + "/")]


def choose_step(board, tag):
    """Picks a traced step in the list of tags."""
    def pick():
        menu = [m for m in board.find("paper-dropdown-menu") if m.is_displayed()][-1]
        if menu.get_property("selectedItemLabel") == tag:
            return True
        [item] = board.find("paper-item", text=tag)
        (item if item.is_displayed() else menu).click()
        return False
    wait(f"{tag} among the tags", pick)


def colour_by(board, way):
    """Picks a colouring; it can be picked only where the page has what it takes."""
    def pick():
        [button] = board.find("paper-radio-button", text=way)
        if button.get_attribute("aria-disabled") == "true":
            raise ValueError(f"{way} is disabled")
        button.click()
        return button.get_attribute("aria-checked") == "true"
    wait(f"colour by {way}", pick)


def check_devices(board, expected):
    """A colour per device: of scopes on one device all of it, of others by number of nodes."""
    colour_by(board, "Device")
    colour = {}
    for scope in TRACED:
        gradient = wait(f"{scope}'s gradient",
                        lambda scope=scope: board.find(f"linearGradient#device-{scope}"))[0]
        stops = board.browser.execute_script(STOPS, gradient)
        fill = board.browser.execute_script(SHAPE, nodes(board)[scope])
        assert f"device-{scope}" in fill, f"{scope} is filled by {fill}"
        colour[scope] = {c for _, c in stops}
    devices = {scope: {n["device"] for n in inside(expected, scope)} for scope in TRACED}
    for scope in TRACED:
        assert len(colour[scope]) == len(devices[scope]), (scope, colour, devices)
    assert colour["hidden"] == colour["logits"] and colour["conv"] == colour["loss"], colour
    assert colour["train"] == colour["conv"] | colour["hidden"], colour
    return len(colour["train"])


def shade(board, scope):
    """How red a scope is in a gradient from 0 to 1: its distance from white."""
    fill = board.browser.execute_script(SHAPE, nodes(board)[scope])
    red, green, blue = map(int, re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", fill).groups())
    return (2 * 255 - green - blue) / (2 * 255)


def check_stats(board, expected, scope):
    """The card of a selected scope: memory and compute time of its nodes in the traced step."""
    board.browser.execute_script(STRIKE, nodes(board)[scope], "click")

    def card():
        texts = board.texts(board.find("tf-node-info")[0])
        if texts[0] != scope:
            raise ValueError(texts)
        return [texts[texts.index(label) + 1] for label in ("Memory", "Compute Time")]
    memory, time = wait(f"the card of {scope}", card)
    its = inside(expected, scope)
    wanted = (sum(node["bytes"] for node in its),
              max(node["end"] for node in its) - min(node["start"] for node in its))
    for what, text, value in zip(("memory", "time"), (memory, time), wanted, strict=True):
        assert abs(amount(text) - value) <= 0.01 * value, f"{what} of {scope}: {text}, not {value}"
    return wanted[0]


def check_shades(board, way, most, least):
    """The colouring by an amount: the scope with the most of it is darker."""
    colour_by(board, way)
    darker = wait(f"shades of {way}", lambda: (shade(board, most), shade(board, least)))
    wait(f"{most} darker than {least} by {way}",
         lambda: shade(board, most) > shade(board, least) + 0.01)
    ends = [t for t in board.texts(board.find("tf-graph-controls")[0])
            if re.fullmatch(r"[\d.]+ (µs|ms|s|B|KB|MB)", t)]
    assert len(ends) == 2 and amount(ends[0]) == 0 < amount(ends[1]), (way, ends, darker)


def check_scopes(board):
    """Each scope is one box at first; a double click opens it, another shuts it."""
    assert set(SCOPES) <= set(nodes(board)), sorted(nodes(board))
    assert not [n for n in nodes(board) if n.startswith("conv/")], sorted(nodes(board))
    board.browser.execute_script(STRIKE, nodes(board)["conv"], "dblclick")
    wait("conv opens", lambda: {"conv/convolution", "conv/Relu", "conv/pool"} <= set(nodes(board)))
    board.browser.execute_script(STRIKE, nodes(board)["conv"], "dblclick")
    wait("conv shuts", lambda: "conv/pool" not in nodes(board))


def check_graphs(board, expected):
    """Scopes, devices, times and memory of the last traced step."""
    board.open("graphs")
    wait("the graph", lambda: "train" in nodes(board))
    choose_step(board, expected["traced"])
    devices = check_devices(board, expected)
    memory = {scope: check_stats(board, expected, scope) for scope in TRACED}
    check_shades(board, "Memory", max(memory, key=memory.get), min(memory, key=memory.get))
    check_shades(board, "Compute time", "train", "loss")
    colour_by(board, "Memory")
    check_stats(board, expected, "conv")
    check_scopes(board)                 # last: a card selected before a step is chosen stays as is
    return f"{len(SCOPES)} scopes, {devices} devices, memory and time of {len(memory)} scopes"
