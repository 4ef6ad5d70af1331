"""Bars of the ratio to each peer, one row of axes for each number of threads, as SVG."""
from . import ratios


def bars(path, facts, rows):
    """Writes PATH; without matplotlib, or without a comparison, nothing."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tilewright"  # the same figures give the same file
    from matplotlib import pyplot
    threads = [s["threads"] for s in ratios.summary(rows)]
    if not threads:
        return
    width = max(6.0, 0.5 * len(rows) / len(threads))
    figure, all_axes = pyplot.subplots(len(threads), 1, figsize=(width, 3.2 * len(threads)), squeeze=False)
    for axes, count in zip(all_axes[:, 0], threads):
        draw(axes, [r for r in rows if r["threads"] == count and r["ratios"]])
        axes.set_title(f"{facts['suite']}, {count} thread(s): times faster than each peer", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def draw(axes, rows):
    peers = sorted({p for r in rows for p in r["ratios"]})
    step = 0.8 / max(len(peers), 1)
    for index, peer in enumerate(peers):
        here = [(x, r["ratios"][peer]) for x, r in enumerate(rows) if peer in r["ratios"]]
        heights = [q["median"] for _, q in here]
        spread = [[q["median"] - q["low95"] for _, q in here], [q["high95"] - q["median"] for _, q in here]]
        axes.bar([x + (index - (len(peers) - 1) / 2) * step for x, _ in here], heights, step, yerr=spread, label=peer,
                 error_kw={"linewidth": 0.6})
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), [r["case"] for r in rows], rotation=45, ha="right", fontsize=7)
    axes.set_ylabel("ratio", fontsize=8)
    axes.legend(fontsize=7)
