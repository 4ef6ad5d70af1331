"""From rounds to rows: latencies of each engine, and how many times faster Tilewright is than each peer."""
import statistics as standard

from . import engines
from .medians import best_decile, geometric_mean, median_bounds


def net(rounds, key):
    """Latencies of the rounds; for operators, less what a call with next to no work cost in the same round."""
    return [max(r[key] - r.get("call_" + key, 0.0), 1e-6) for r in rounds]


def latency(rounds):
    return {"p10": best_decile(net(rounds, "p10")), "median": standard.median(net(rounds, "median")),
            "call_ms": standard.median(r["call_median"] for r in rounds) if "call_median" in rounds[0] else 0.0}


def row(case, threads, measured, dtype="f32"):
    """One case at one number of threads. Ratios are the peer's time over Tilewright's: above 1, Tilewright is faster."""
    engines_ = measured["engines"]
    result = {"case": case.name, "family": case.family, "batch": case.batch, "dtype": dtype, "threads": threads,
              "flop": case.flop, "failed": measured["failed"], "engines": {}, "ratios": {}, "best_peer": None}
    for name, facts in engines_.items():
        result["engines"][name] = dict(latency(facts["rounds"]), version=facts["version"], ready_s=facts["ready_s"],
                                       difference=facts["difference"])
    if engines.OURS not in engines_:
        return result
    ours = engines_[engines.OURS]["rounds"]
    for name, facts in engines_.items():
        if name == engines.OURS:
            continue
        each = [b / a for a, b in zip(net(ours, "median"), net(facts["rounds"], "median"))]
        result["ratios"][name] = dict(
            median_bounds(each), p10=best_decile(net(facts["rounds"], "p10")) / best_decile(net(ours, "p10")))
    peers = [name for name in result["ratios"] if not engines.is_ours(name)]
    result["best_peer"] = min(peers, key=lambda name: result["ratios"][name]["median"], default=None)
    return result


def best_ratio(row_):
    return row_["ratios"][row_["best_peer"]] if row_["best_peer"] else None


def over_best(row_, variant):
    """The best peer's time over that of Tilewright with other flags."""
    return best_ratio(row_)["median"] / row_["ratios"][variant]["median"]


def summary(rows):
    """Per number of threads: geometric means and counts over the rows that have a peer."""
    result = []
    for threads in sorted({r["threads"] for r in rows}):
        here = [r for r in rows if r["threads"] == threads]
        best = [best_ratio(r) for r in here if r["best_peer"]]
        if not best:
            continue
        peers = sorted({p for r in here for p in r["ratios"] if not engines.is_ours(p)})
        variants = sorted({p for r in here for p in r["ratios"] if engines.is_ours(p)})
        result.append({
            "threads": threads, "cases": len(here), "compared": len(best),
            "geomean_over_best": geometric_mean([b["median"] for b in best]),
            "geomean_over_best_p10": geometric_mean([b["p10"] for b in best]),
            "smallest": min(b["median"] for b in best),
            "not_slower": sum(b["low95"] >= 0.98 for b in best),
            "within_10_percent": sum(b["median"] >= 1 / 1.1 for b in best),
            "faster": sum(b["median"] > 1 for b in best),
            "geomean_over": {p: geometric_mean([r["ratios"][p]["median"] for r in here if p in r["ratios"]])
                             for p in peers},
            "variants_over_best": {v: geometric_mean([over_best(r, v) for r in here if r["best_peer"] and v in r["ratios"]])
                                   for v in variants}})
    return result
