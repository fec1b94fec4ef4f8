"""Charts as plain SVG: bars in groups and lines, on a light background. Knows nothing of papers."""

from html import escape

COLOURS = ["#0b5394", "#b45f06", "#38761d", "#741b47", "#7f6000", "#134f5c", "#990000"]
WIDTH, HEIGHT = 820, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 46, 84


class Canvas:
    def __init__(self, title, y_label, top_value, height=HEIGHT):
        self.height = height
        self.top_value = top_value
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13" '
            'fill="#222222">',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        ]
        self.text(WIDTH / 2, 24, title, size=16)
        self.axis(y_label)

    def y(self, value):
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * value / self.top_value

    def text(self, x, y, text, anchor="middle", size=13, turn=None):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}"{turned}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour="#cccccc", width=1.0, dashed=False):
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def axis(self, label):
        step = round_step(self.top_value / 6)
        value = 0.0
        while value <= self.top_value * 1.0001:
            self.line(LEFT, self.y(value), WIDTH - RIGHT, self.y(value))
            self.text(LEFT - 8, self.y(value) + 4, f"{value:g}", anchor="end")
            value += step
        self.text(18, self.height / 2, label, turn=-90)

    def bar(self, x, width, value, colour, tip, hollow=False):
        top = self.y(min(value, self.top_value))
        fill = "#ffffff" if hollow else colour
        self.parts.append(
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{self.height - BOTTOM - top:.1f}" fill="{fill}" stroke="{colour}" '
            f'stroke-width="1.5"><title>{escape(tip)}</title></rect>')

    def dot(self, x, y, colour, tip):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                          f'<title>{escape(tip)}</title></circle>')

    def svg(self):
        return "\n".join(self.parts) + "\n</svg>\n"


def round_step(least):
    magnitude = 1.0
    while magnitude > least:
        magnitude /= 10
    while magnitude * 10 <= least:
        magnitude *= 10
    return next(step * magnitude for step in (1, 2, 5, 10) if step * magnitude >= least)


def pairs(title, y_label, groups, limit=None):
    """Bars in pairs: groups of (name, [(label, measured, simulated)]); None where it does not fit,
    drawn up to the limit."""
    values = [v for _, bars in groups for _, *pair in bars for v in pair if v is not None]
    top = max(values + ([limit] if limit else [])) * 1.08
    canvas = Canvas(title, y_label, top)
    count = sum(len(bars) for _, bars in groups) + len(groups)
    slot = (WIDTH - LEFT - RIGHT) / count
    x = LEFT + slot / 2
    bottom = canvas.height - BOTTOM
    for name, bars in groups:
        start = x
        for label, *pair in bars:
            for side, value in enumerate(pair):
                tip = f"{label}, {name}: {'measured' if side == 0 else 'simulated'} "
                left = x + side * slot * 0.44
                if value is None:
                    canvas.text(left + slot * 0.22, bottom - 6, "OOM", anchor="start", size=11,
                                turn=-90)
                else:
                    canvas.bar(left, slot * 0.4, value, COLOURS[side], tip + f"{value:g}",
                               hollow=side == 1)
            canvas.text(x + slot * 0.5, bottom + 12, label, anchor="end", size=11, turn=-30)
            x += slot
        canvas.text((start + x) / 2, canvas.height - 26, name)
        x += slot
    if limit:
        canvas.line(LEFT, canvas.y(limit), WIDTH - RIGHT, canvas.y(limit), "#990000", 1.5, True)
    legend(canvas, [("paper, measured", COLOURS[0], False), ("simulated", COLOURS[1], True)])
    return canvas.svg()


def lines(title, x_label, y_label, series):
    """(name, [(x, measured, simulated)]), the measured drawn through, the simulated dashed."""
    top = max(v for _, points in series for _, *pair in points for v in pair) * 1.08
    canvas = Canvas(title, y_label, top, height=440)
    xs = sorted({x for _, points in series for x, *_ in points})
    place = {x: LEFT + 30 + (WIDTH - LEFT - RIGHT - 60) * i / max(1, len(xs) - 1)
             for i, x in enumerate(xs)}
    for x in xs:
        canvas.text(place[x], canvas.height - BOTTOM + 18, f"{x:g}")
    canvas.text(WIDTH / 2, canvas.height - BOTTOM + 36, x_label)
    for index, (name, points) in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        for side in (0, 1):
            places = [(place[p[0]], canvas.y(p[1 + side])) for p in points]
            for (x1, y1), (x2, y2) in zip(places, places[1:]):
                canvas.line(x1, y1, x2, y2, colour, 2.0, dashed=side == 1)
            for point, (x, y) in zip(points, places):
                what = "measured" if side == 0 else "simulated"
                canvas.dot(x, y, colour, f"{name}, {point[0]:g}: {what} {point[1 + side]:g}")
    legend(canvas, [(name, COLOURS[i % len(COLOURS)], False) for i, (name, _) in enumerate(series)])
    canvas.text(WIDTH - RIGHT, TOP - 6, "through: paper; dashed: simulated", anchor="end", size=12)
    return canvas.svg()


def legend(canvas, entries):
    x = LEFT
    for name, colour, hollow in entries:
        canvas.parts.append(f'<rect x="{x:.1f}" y="{canvas.height - 16}" width="12" height="12" '
                            f'fill="{"#ffffff" if hollow else colour}" stroke="{colour}"/>')
        canvas.text(x + 17, canvas.height - 6, name, anchor="start", size=12)
        x += 34 + 6.6 * len(name)
