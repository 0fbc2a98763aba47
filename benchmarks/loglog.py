"""A chart with two logarithmic axes, as SVG: lines, and points with their names.

    chart = loglog.Chart("workers", "seconds", (1, 1000), (1e-4, 10))
    chart.line("ours", [(1, 0.002), (10, 0.003)])
    chart.points("theirs", [(1, 0.0018)], like="ours")         # in the colour of that line
    open("chart.svg", "w").write(chart.svg())
"""
import html
import math

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 420, 70, 20, 200, 50
COLOURS = ("#1b6ca8", "#c1440e", "#3a7d44", "#7a4fa3", "#8a6d00", "#555555")


class Chart:
    """x and y: (least, most), powers of ten."""

    def __init__(self, x_name, y_name, x, y):
        self._names, self._x, self._y, self._parts, self._keys = (x_name, y_name), x, y, [], []
        self._colours = {}

    def line(self, name, points):
        """Joined points, in a colour of their own."""
        colour = self._colour(name)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self._at, points))
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                           'stroke-width="2"/>')
        self._keys.append((name, f'stroke="{colour}" fill="none"'))

    def points(self, name, points, like=None):
        """Circles, in a colour of their own or that of another name."""
        colour = self._colour(like or name)
        for x, y in map(self._at, points):
            self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>')
        self._keys.append((name, f'fill="{colour}"'))

    def _colour(self, name):
        return self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])

    def svg(self):
        """The text of the picture."""
        keys = [self._key(n, *key) for n, key in enumerate(self._keys)]
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            *self._grid(), *self._parts, *keys, "</svg>", ""])

    def _at(self, point):
        spans = ((self._x, LEFT, WIDTH - RIGHT), (self._y, HEIGHT - BOTTOM, TOP))
        return [start + (end - start) * math.log(value / low) / math.log(high / low)
                for value, ((low, high), start, end) in zip(point, spans)]

    def _grid(self):
        for power in _powers(self._x):
            x, _ = self._at((power, self._y[0]))
            yield (f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/><text x="{x:.1f}" '
                   f'y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{power:g}</text>')
        for power in _powers(self._y):
            _, y = self._at((self._x[0], power))
            yield (f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/><text '
                   f'x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{power:g}</text>')
        yield (f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" '
               f'text-anchor="middle">{html.escape(self._names[0])}</text>')
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield (f'<text transform="translate(16 {middle:.0f}) rotate(-90)" '
               f'text-anchor="middle">{html.escape(self._names[1])}</text>')

    def _key(self, number, name, style):
        x, y = WIDTH - RIGHT + 14, TOP + 12 + 20 * number
        mark = (f'<path d="M{x} {y}h18" stroke-width="2" {style}/>' if "stroke" in style else
                f'<circle cx="{x + 9}" cy="{y}" r="4.5" {style}/>')
        return f'{mark}<text x="{x + 26}" y="{y + 4}">{html.escape(name)}</text>'


def _powers(span):
    return [10.0 ** n for n in range(round(math.log10(span[0])), round(math.log10(span[1])) + 1)]
