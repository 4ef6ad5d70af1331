#!/usr/bin/env python3
"""How good the model's choice is: the constructed candidates of each operator beside random aligned schedules.

  PYTHON bench/choice.py choice30 --threads 1
  PYTHON bench/choice.py gemm10 --explore 300 --explore-seed 5

Every candidate and every random schedule is measured by the compiler itself (docs/performance/measuring.md). "first": time of the
best of all over that of the constructor's first candidate; "top": over that of its best candidate. 1 is perfect.
Operators of a family without random schedules are named and not counted.
"""
import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts, options, report  # noqa: E402
import suites  # noqa: E402


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_suite_arguments(p)
    p.add_argument("--explore", type=int, default=100, help="random schedules for each operator")
    p.add_argument("--explore-seed", type=int, default=0)
    return p.parse_args()


def measured(case, threads, args):
    """(constructed, random): microseconds of the candidates of the case's heaviest group, in the constructor's order."""
    events = case.model.with_suffix(".events")
    flags = ["--no-cache", "--db", "/dev/null", "--measure-all", "--explore", str(args.explore), "--explore-seed",
             str(args.explore_seed), "--measure-threads", str(threads), "--events", str(events)]
    events.unlink(missing_ok=True)  # the command appends
    artefacts.compile_model(args.tools, case.model, flags)
    groups = {}
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event.get("outcome") == "measured":
            groups.setdefault(event["group"], []).append(event)
    found = max(groups.values(), key=lambda group: group[0]["microseconds"], default=[])
    is_random = [any(line.startswith("sampled from seed") for line in event["trace"]) for event in found]
    return ([e["microseconds"] for e, r in zip(found, is_random) if not r],
            [e["microseconds"] for e, r in zip(found, is_random) if r])


def main():
    args = parse_arguments()
    args.tools, args.protocol, chosen = options.prepare(args)
    facts, rows = options.facts(args, explore=args.explore, explore_seed=args.explore_seed), []
    report.print_facts(facts)
    for case in suites.cases(args.suite, chosen):
        for threads in args.threads:
            constructed, drawn = measured(case, threads, args)
            row = {"case": case.name, "threads": threads, "constructed": constructed, "random": drawn}
            if constructed and drawn:
                best = min(constructed + drawn)
                row |= {"first": best / constructed[0], "top": best / min(constructed)}
            rows.append(row)
            shares = f"first {row['first']:.3f}  top {row['top']:.3f}" if "first" in row else "no random schedules"
            print(f"{case.name:28} {threads}t  {shares}  of {len(constructed)} and {len(drawn)} random ones", flush=True)
    counted = [r for r in rows if "first" in r]
    means = {name: statistics.fmean(r[name] for r in counted) for name in ("first", "top")} if counted else {}
    stem = args.out / f"{facts['suite']}-choice"
    stem.with_suffix(".json").write_text(
        json.dumps({"schema": "tilewright.bench_choice.v1", **facts, "rows": rows, "means": means}))
    print(f"mean of {len(counted)}: " + "  ".join(f"{name} {value:.3f}" for name, value in means.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
