"""Charts as plain SVG: bars in groups, on a light background. Knows nothing of papers."""

from html import escape

WIDTH, HEIGHT = 820, 430
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 62, 106


class Canvas:
    def __init__(self, title, y_label, top_value):
        self.top_value = top_value
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" '
            'fill="#222222">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        ]
        self.text(WIDTH / 2, 24, title, size=16)
        self.axis(y_label)

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top_value

    def text(self, x, y, text, anchor="middle", size=13, turn=None):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}"{turned}>{escape(text)}</text>')

    def line(self, y, colour="#cccccc", width=1.0, dashed=False):
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                          f'stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def axis(self, label):
        step = round_step(self.top_value / 6)
        value = 0.0
        while value <= self.top_value * 1.0001:
            self.line(self.y(value))
            self.text(LEFT - 8, self.y(value) + 4, f"{value:g}", anchor="end")
            value += step
        self.text(18, (HEIGHT + TOP - BOTTOM) / 2, label, turn=-90)

    def bar(self, x, width, value, colour, tip, hollow):
        top = self.y(value)
        self.parts.append(
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}" fill="{"#ffffff" if hollow else colour}" '
            f'stroke="{colour}" stroke-width="1.5"><title>{escape(tip)}</title></rect>')

    def legend(self, series):
        x = LEFT
        for name, colour, hollow in series:
            self.parts.append(f'<rect x="{x:.1f}" y="34" width="12" height="12" '
                              f'fill="{"#ffffff" if hollow else colour}" stroke="{colour}"/>')
            self.text(x + 17, 44, name, anchor="start", size=12)
            x += 40 + 6.6 * len(name)

    def svg(self):
        return "\n".join(self.parts) + "\n</svg>\n"


def round_step(least):
    magnitude = 1.0
    while magnitude > least:
        magnitude /= 10
    while magnitude * 10 <= least:
        magnitude *= 10
    return next(step * magnitude for step in (1, 2, 5, 10) if step * magnitude >= least)


def bars(title, y_label, series, groups, limit=None):
    """series: (name, colour, whether hollow); groups: (name, [(label, a value of each series)]),
    a value of None where it does not fit under the limit."""
    values = [v for _, members in groups for _, *row in members for v in row if v is not None]
    canvas = Canvas(title, y_label, max(values + ([limit] if limit else [])) * 1.06)
    slot = (WIDTH - LEFT - RIGHT) / (sum(len(members) for _, members in groups) + len(groups))
    width = 0.88 * slot / len(series)
    bottom = HEIGHT - BOTTOM
    x = LEFT + slot / 2
    for name, members in groups:
        start = x
        for label, *row in members:
            for index, ((what, colour, hollow), value) in enumerate(zip(series, row)):
                left = x + index * width
                if value is None:
                    canvas.text(left + width / 2 + 4, bottom - 5, "OOM", "start", 11, turn=-90)
                else:
                    canvas.bar(left, width - 1.5, value, colour,
                               f"{label}, {name}: {what} {value:g}", hollow)
            canvas.text(x + slot * 0.5, bottom + 12, label, "end", 11, turn=-55)
            x += slot
        canvas.text((start + x) / 2, HEIGHT - 10, name, size=11)
        x += slot
    if limit:
        canvas.line(canvas.y(limit), "#990000", 1.5, dashed=True)
        canvas.text(WIDTH - RIGHT, canvas.y(limit) - 5, f"limit {limit:g}", "end", 11)
    canvas.legend(series)
    return canvas.svg()
