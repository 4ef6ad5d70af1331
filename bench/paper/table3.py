"""Table III of the paper beside ours: each row's flop and words, and the sums of the classes."""
import dataclasses
import math

from .flow import GFLOP, cut
from .rows import CLASSES, MORE, rows

# Printed digits: flop are rounded to three, words cut off after one; "<0.1" is 0 here.
FLOP_TOLERANCE, WORDS_TOLERANCE = 6e-4, 0.01


@dataclasses.dataclass
class Compared:
    row: object
    operators: list
    flop: float
    read: int
    written: int
    mask_read: int
    mask_written: int

    @property
    def has_paper_flop(self):
        return math.isclose(self.flop / GFLOP, self.row.flop, abs_tol=FLOP_TOLERANCE)

    @property
    def has_paper_words(self):
        """With the masks that the paper's dropouts write and read."""
        return (math.isclose(cut(self.read + self.mask_read), self.row.read, abs_tol=WORDS_TOLERANCE)
                and math.isclose(cut(self.written + self.mask_written), self.row.written, abs_tol=WORDS_TOLERANCE))


def compare(flow):
    found = []
    for row in rows():
        operators = row.pick(flow)
        if not operators:
            raise SystemExit(f"row '{row.label}': no operator of this graph is it")
        found.append(Compared(row, operators, flow.flop(operators), flow.words_read(operators),
                              flow.words_written(operators, flow.named(row.part_of)),
                              flow.elements(row.reads) if row.reads else 0, flow.elements(row.draws) if row.draws else 0))
    return found


def unexplained(flow, compared):
    """Differences without a reason, and reasons without a difference."""
    for name, flop in class_flop(flow, compared).items():
        more = flow.flop(flow.named(MORE[name][0])) if name in MORE else 0
        if not math.isclose((flop - more) / GFLOP, CLASSES[name][0], abs_tol=FLOP_TOLERANCE):
            yield f"{name}: {(flop - more) / GFLOP:.4f} Gflop of the paper's operators, {CLASSES[name][0]} in the paper"
    for c in compared:
        for what, is_same, reason in (("flop", c.has_paper_flop, c.row.flop_because),
                                      ("words", c.has_paper_words, c.row.words_because)):
            if is_same == bool(reason):
                yield (f"{c.row.label}: {what} {c.flop / GFLOP:.4f}, {cut(c.read + c.mask_read)} in, "
                       f"{cut(c.written + c.mask_written)} out " + ("have a reason but no difference" if is_same else
                                                                    "differ, and nothing says why"))


def class_flop(flow, compared):
    """Each operator once; classes are those of the paper's rows."""
    return {name: flow.flop([o for c in compared if c.row.of_class == name for o in c.operators]) for name in CLASSES}


def beside_rows(flow, compared):
    """Operators of no row that are no views: [(words, name and op)]."""
    taken = {o for c in compared for o in c.operators}
    return [(o["words_read"] + o["words_written"], f"{o['name']} ({o['op']})") for n, o in enumerate(flow.operators)
            if n not in taken and not o["view"]]


def _words(own, mask):
    return f"{cut(own)} + {cut(mask)}" if mask else f"{cut(own)}"


def _flop(value):
    return f"{value:.3f}" if value < 1 else f"{value:.0f}"


def _more(flow, name, reasons):
    if name not in MORE:
        return ""
    operator, reason = MORE[name]
    return f"{_flop(flow.flop(flow.named(operator)) / GFLOP)} more: [{reasons.index(reason) + 1}]"


def markdown(flow, compared):
    reasons, lines = [], ["| row | class | Gflop, paper | ours | words in, paper | ours | out, paper | ours | |",
                          "|---|---|---|---|---|---|---|---|---|"]
    for c in compared:
        marks = []
        for reason in filter(None, (c.row.flop_because, c.row.words_because)):
            if reason not in reasons:
                reasons.append(reason)
            marks.append(f"[{reasons.index(reason) + 1}]")
        lines.append(f"| {c.row.label} | {c.row.of_class} | {c.row.flop} | {_flop(c.flop / GFLOP)} | {c.row.read} "
                     f"| {_words(c.read, c.mask_read)} | {c.row.written} | {_words(c.written, c.mask_written)} "
                     f"| {' '.join(marks)} |")
    lines += ["", *(f"[{k + 1}] {reason}.  " for k, reason in enumerate(reasons)), "",
              "| class | Gflop, paper | ours | |", "|---|---|---|---|"]
    lines += [f"| {name} | {CLASSES[name][0]} | {_flop(flop / GFLOP)} | {_more(flow, name, reasons)} |"
              for name, flop in class_flop(flow, compared).items()]
    other = beside_rows(flow, compared)
    lines += ["", f"Beside the rows: {len(other)} operators that only move data or belong to the loss, "
                  f"{sum(w for w, _ in other) / 1e6:.1f} million words. The paper's layouts make the first unnecessary; so do ours "
                  "where groups read and write through them."]
    return "\n".join(lines)
