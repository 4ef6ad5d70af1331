"""Smoothed loss curves of all seeds and both programs, as SVG."""
from xml.sax.saxutils import escape

from .judge import WINDOW, smoothed

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 300, 46, 34, 34  # pixels
COLOURS = {"tilewright": "#0072b2", "torch": "#e69f00"}  # told apart by people who are colour-blind


def draw(title, curves):
    """`curves`: {program: [losses of a seed, ..]}; the text of the picture."""
    lines = {name: [smoothed(c) for c in many] for name, many in curves.items()}
    every = [line for many in lines.values() for line in many]
    highest, steps = max(line.max() for line in every), max(len(line) for line in every)

    def x(window):
        return LEFT + (WIDTH - LEFT - 12) * (window + 0.5) / steps

    def y(loss):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * loss / highest
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="11" role="img">', f"<title>{escape(title)}</title>",
           "<style>text{fill:#222}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
           f'<text x="{LEFT}" y="16" font-size="13">{escape(title)}</text>']
    for part in range(5):
        loss = highest * part / 4
        out += [f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#8886"/>',
                f'<text x="{LEFT - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2g}</text>']
        out.append(f'<text x="{x(steps * part / 4 - 0.5):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
                   f"{WINDOW * steps * part // 4}</text>")
    for row, (name, many) in enumerate(lines.items()):
        colour = COLOURS.get(name, "#009e73")
        for line in many:
            points = " ".join(f"{x(w):.1f},{y(loss):.1f}" for w, loss in enumerate(line))
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.1"/>')
        out.append(f'<text x="{WIDTH - 110}" y="{TOP + 6 + 15 * row}" style="fill:{colour}">{escape(name)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 4}" text-anchor="middle">steps</text></svg>')
    return "\n".join(out) + "\n"
