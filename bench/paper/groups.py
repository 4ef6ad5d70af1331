"""What a compiled layer's groups take: time, share of the peak, MUE, and the rows of the paper that each computes."""
from .rows import CLASSES, SHARES, rows


def rows_of(flow):
    """{number of an operator: row}, of the operators that passes left as they were."""
    found = {}
    for row in rows():
        found.update(dict.fromkeys(row.pick(flow), row))
    return found


def shares(flow):
    """Of the classes in flop and in time: table I."""
    total = sum(g["time_us"] or 0 for g in flow.groups)
    flop = sum(o["flop"] for o in flow.operators)
    lines = ["| class | % flop, paper | ours | % time, PyTorch on a V100 | ours | us, PyTorch on a V100 | ours |",
             "|---|---|---|---|---|---|---|"]
    for name, (flop_share, time_share) in SHARES.items():
        own = sum(o["flop"] for o in flow.operators if o["class"] == name)
        us = sum(g["time_us"] or 0 for g in flow.groups if g["class"] == name)
        lines.append(f"| {name} | {flop_share} | {100 * own / flop:.2f} | {time_share} | {100 * us / total:.1f} "
                     f"| {CLASSES[name][1]} | {us:.0f} |")
    return "\n".join([*lines, "", f"All groups: {total:.0f} us; PyTorch 8110, the paper's kernels 6739. Groups of several "
                                  "classes are of the first that they hold. Shares of flop are those of the compiled "
                                  "operators: here every operator of a row has the class of its own axes."])


def _percent(value):
    return "" if value is None else f"{value:.1f}"


def markdown(flow):
    of_operator = rows_of(flow)
    lines = ["| group | rows of the paper | Mflop | us | PyTorch on a V100, us | % peak | MUE % | bound |",
             "|---|---|---|---|---|---|---|---|"]
    for g in sorted(flow.groups, key=lambda g: -(g["time_us"] or 0)):
        own = range(g["first_operator"], g["first_operator"] + g["operators"])
        held = list(dict.fromkeys(of_operator[o] for o in own if o in of_operator))
        pytorch = sum(row.pytorch_us for row in held)
        lines.append(f"| {g['name']} | {', '.join(row.label for row in held)} | {g['flop'] / 1e6:.1f} | {g['time_us'] or 0:.1f} "
                     f"| {pytorch or ''} | {_percent(g['peak_percent'])} | {_percent(g['mue_percent'])} | {g['bound'] or ''} |")
    return "\n".join(lines)
