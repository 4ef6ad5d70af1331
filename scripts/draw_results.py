#!/usr/bin/env python3
"""Draws docs/images/results.svg, the bars of the README, from the first table of docs/performance/results.md.

  draw_results.py           writes the picture
  draw_results.py --check   ends with 1 when the picture is not that of the table
"""
import argparse
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "results.svg"
WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 720, 130, 60, 64, 11, 12  # pixels
COLOURS = ("#0072b2", "#e69f00")  # told apart by people who are colour-blind, on white and on black


def first_table(text):
    """Column names and rows of the first table: a name, then numbers."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("|"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:]
             if line.startswith("|")]
    names, rows = cells[0], []
    for row in cells[2:]:
        if len(row) != len(names) or not row[1].replace(".", "").isdigit():
            break
        rows.append((row[0], [float(cell) for cell in row[1:]]))
    return names, rows


def draw(names, rows):
    highest = max(max(values) for _, values in rows)
    scale = (WIDTH - LEFT - RIGHT) / highest
    each = BAR * len(COLOURS) + GAP
    bottom = TOP + each * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 12}" font-family="sans-serif" '
           'font-size="12" role="img">',
           "<title>Speed beside the best of onnxruntime, OpenVINO and torch Inductor; longer is faster</title>",
           "<style>text{fill:#222}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
           f'<text x="{LEFT}" y="18" font-size="14">Times as fast as the best of onnxruntime, OpenVINO, Inductor</text>']
    x = LEFT
    for name, colour in zip(names[1:], COLOURS):
        out.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{colour}"/><text x="{x + 15}" y="39">{escape(name)}</text>')
        x += 100
    one = LEFT + scale
    out.append(f'<path d="M{one:.1f} {TOP - 8}V{bottom}" stroke="#888" stroke-dasharray="4 3"/>'
               f'<text x="{one + 4:.1f}" y="{TOP - 8}" font-size="10">the best peer</text>')
    for i, (name, values) in enumerate(rows):
        y = TOP + each * i
        out.append(f'<text x="{LEFT - 8}" y="{y + BAR + 4}" text-anchor="end">{escape(name)}</text>')
        for k, (value, colour) in enumerate(zip(values, COLOURS)):
            top = y + BAR * k
            out.append(f'<rect x="{LEFT}" y="{top}" width="{value * scale:.1f}" height="{BAR - 1}" fill="{colour}"/>'
                       f'<text x="{LEFT + value * scale + 5:.1f}" y="{top + BAR - 2}" font-size="10">{value:.2f}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    picture = draw(*first_table((ROOT / "docs" / "performance" / "results.md").read_text()))
    if not args.check:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        sys.exit("docs/images/results.svg is not that of docs/performance/results.md: run scripts/draw_results.py")


if __name__ == "__main__":
    main()
