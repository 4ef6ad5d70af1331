"""Tables: on the terminal while cases finish, as JSON and as Markdown."""
import json
import sys

from . import engines, gpu_engines, ratios


class Live:
    """One line that changes on a terminal; only finished cases otherwise."""

    def __init__(self, name):
        self._name, self._terminal = name, sys.stderr.isatty()

    def __call__(self, text):
        if self._terminal:
            print(f"\r\033[K{self._name}: {text}", end="", file=sys.stderr, flush=True)

    def note(self, text):
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)

    def done(self, text):
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr)
        print(text, flush=True)


def print_facts(facts):
    print(f"{facts['processor']}, {facts['vectors']}, {facts['clock_mhz']} MHz now, {facts['cores']} cores, load "
          f"{facts['load']}; seed {facts['seed']}, {facts.get('dtype', 'f32')}\n{facts['protocol']}"
          + (" (quick: no claims)" * facts["quick"]))


def peak_share(row, engine):
    """Percent of the FMA peak at the best decile, by the definition's flop; None where it says nothing."""
    if not row["flop"] or not row.get("peak_gflops") or engine not in row["engines"]:
        return None
    return 100 * row["flop"] / row["engines"][engine]["p10"] / 1e6 / row["peak_gflops"]


def short(ms):
    """Microseconds keep three digits."""
    return f"{ms:.3f}" if ms >= 0.1 else f"{ms:.3g}"


def times(engine):
    return f"{short(engine['p10'])} / {short(engine['median'])}"


def over_floor(row):
    """How many floors Tilewright's median is; None without a floor."""
    ours, floor = row["engines"].get(engines.OURS), row.get("floor")
    return ours["median"] / floor["ms"] if ours and floor else None


def differences(row):
    """Tilewright's difference from the reference / torch eager's, or that of the nearest peer, in parts of the largest
    value."""
    far = {name: e["difference"] for name, e in row["engines"].items() if e["difference"] is not None}
    peers = [value for name, value in far.items() if value and not engines.is_ours(name)]
    both = [far.get(engines.OURS), far.get("eager", min(peers, default=None))]
    return " / ".join("-" if value is None else f"{value:.2g}" for value in both)


def memories(row):
    """Tilewright's peak / those of the peers, in MB; nothing where it was not measured."""
    taken = {name: e["memory_bytes"] for name, e in row["engines"].items() if e.get("memory_bytes") is not None}
    ordered = sorted(taken, key=lambda name: not engines.is_ours(name))
    return ", ".join(f"{name} {taken[name] / 1e6:.0f} MB" for name in ordered)


def line(row):
    parts = [f"{row['case']:28} {row['threads']}t"]
    for name, e in row["engines"].items():
        parts.append(f"{name} {times(e)} ms")
    best = ratios.best_ratio(row)
    if best:
        parts.append(f"ratio {best['median']:.3f} [{best['low95']:.3f}, {best['high95']:.3f}] to {row['best_peer']}")
    if row.get("floor"):
        times_floor = f", {over_floor(row):.2f} of it" if over_floor(row) else ""
        parts.append(f"floor {short(row['floor']['ms'])} ms ({row['floor']['by']}){times_floor}")
    if row["dtype"] != "f32":
        parts.append(f"differs {differences(row)}")
    if memory := memories(row):
        parts.append(f"memory {memory}")
    share = peak_share(row, engines.OURS)
    if share:
        parts.append(f"{share:.0f} % of peak")
    return "  ".join(parts + [f"({reason})" for reason in row["failed"].values()])


def header(rows):
    known = [*dict(engines.ENGINES, **gpu_engines.ENGINES)]
    known[1:1] = sorted({n for r in rows for n in r["engines"] if n not in known and engines.is_ours(n)})
    names = [n for n in known if any(n in r["engines"] for r in rows)]
    return names, ["case", "batch", "threads", *[f"{n} ms" for n in names], "best peer", "ratio", "95 %", "ratio p10",
                   "% of peak", "differs", *["peak memory"] * any(memories(r) for r in rows), *["floor ms", "by", "of floor"] * any(r.get("floor") for r in rows)]


def floor_cells(row):
    if not row.get("floor"):
        return ["-"] * 3
    over = over_floor(row)
    return [short(row["floor"]["ms"]), row["floor"]["by"], f"{over:.2f}" if over else "-"]


def cells(row, names):
    best, share = ratios.best_ratio(row), peak_share(row, engines.OURS)
    shown = [times(row["engines"][n]) if n in row["engines"] else "failed" for n in names]
    comparison = [row["best_peer"], f"{best['median']:.3f}", f"{best['low95']:.3f} to {best['high95']:.3f}",
                  f"{best['p10']:.3f}"] if best else ["-"] * 4
    return [row["case"], str(row["batch"]), str(row["threads"]), *shown, *comparison, f"{share:.0f}" if share else "-",
            differences(row), *[memories(row)] * any("memory_bytes" in e for e in row["engines"].values()), *floor_cells(row)]


def summary_line(s):
    over = ", ".join(f"{peer} {value:.3f}" for peer, value in s["geomean_over"].items())
    over += "".join(f"; {variant} over the best peer {value:.3f}" for variant, value in s["variants_over_best"].items())
    return (f"{s['threads']} thread(s): geometric mean over the best peer {s['geomean_over_best']:.3f} (best deciles "
            f"{s['geomean_over_best_p10']:.3f}), smallest {s['smallest']:.3f}; not slower {s['not_slower']}, within 10 % "
            f"{s['within_10_percent']}, faster {s['faster']} of {s['compared']} ({s['cases']} cases); over {over}")


def print_summary(rows):
    print()
    for s in ratios.summary(rows):
        print(summary_line(s))


def floor_note(facts):
    rates = facts.get("rates")
    return [f"Floors by {rates['bytes_per_ms'] / 1e9:.2f} TB/s and {rates['flop_per_ms'] / 1e9:.0f} TFLOP/s, "
            f"{rates['from']}."] if rates else []


def markdown(facts, rows):
    names, titles = header(rows)
    versions = {n: e["version"] for r in rows for n, e in r["engines"].items()}
    lines = [f"# {facts['suite']}", "",
             f"{facts['processor']}, {facts['vectors']}, {facts['clock_mhz']} MHz, {facts['cores']} cores; "
             f"{facts.get('dtype', 'f32')}, seed {facts['seed']}; {', '.join(f'{n} {v}' for n, v in versions.items())}.",
             f"{facts['protocol']}{' (quick: no claims)' * facts['quick']}. Times: best decile / median. Ratio: the best "
             "peer's time over Tilewright's, above 1 Tilewright is faster. Differs: from the reference, in parts of the "
             "largest value, Tilewright / torch eager, else the nearest peer.", *floor_note(facts), ""]
    lines += ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(cells(r, names)[:len(titles)]) + " |" for r in rows]
    lines += [""] + [f"- {summary_line(s)}" for s in ratios.summary(rows)]
    lines += [f"- {r['case']}, {r['threads']} thread(s): {text}" for r in rows for text in r["failed"].values()]
    return "\n".join(lines) + "\n"


def write(stem, facts, rows):
    """STEM.json and STEM.md."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    document = {"schema": "tilewright.bench_suite.v1", **facts, "rows": rows, "summary": ratios.summary(rows)}
    stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(facts, rows))
