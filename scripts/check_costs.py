#!/usr/bin/env python3
"""Constants of cost are in src/cost/calibrated.h, rates of machines in the tables of src/targets (docs/internals/adr/0053).
In the folders that decide by cost and in src/cost, refused are

- a constant of a floating type: `constexpr double`, `static const float`, `const double` of numbers alone, arrays of
  them, `constexpr auto` of a number with a point;
- a factor in a formula: a number with a point that something is multiplied with or divided by, other than 0, 1, 2;
- a name on the closed lists below that nothing needs.

  python3 scripts/check_costs.py [--root DIR]

Prints FILE:LINE: what, and ends with exit code 1 when there is any.
"""
import argparse
import pathlib
import re
import sys

from cpp_outline import blank

CHECKED = ("src/core", "src/cost", "src/schedule", "src/transform", "src/construct", "src/templates", "src/targets")
CALIBRATED = "src/cost/calibrated.h"
# Tables of machines: rates, each with its source.
MACHINES = ("src/targets/cuda/data_sheets.cpp", "src/targets/cpu_parameters.cpp", "src/targets/x86_64/parameters.cpp",
            "src/targets/aarch64/target.cpp")
# Constants that are no cost: file, name.
NO_COSTS = {
    ("src/construct/library/implementable.cpp", "kLow"): "what masks of f16 leave",
    ("src/schedule/match/contraction.cpp", "kMaxDeciding"): "points that are tried",
    ("src/templates/host.cpp", "kAnswerSeconds"): "how long a child process may take",
    ("src/templates/library.cpp", "kLook"): "seconds between two looks",
    ("src/transform/rewrite/live_rows.cpp", "kInfinity"): "a number of inputs",
    ("src/transform/rewrite/scale_products.cpp", "kLeast"): "a range of numbers",
    ("src/transform/rewrite/winograd_weights.cpp", "kLargestSquares"): "a range of numbers",
    ("src/transform/simplify/rules_gelu.cpp", "kTanhScale"): "mathematics",
}
# Files whose factors are mathematics.
MATHEMATICS = {"src/transform/simplify/rules_gelu.cpp"}

FLOATING = r"(?:double|float)"
DECLARED = re.compile(
    rf"\b(?P<how>(?:(?:static|inline|constexpr|constinit|const)\s+)+)"
    rf"(?P<type>{FLOATING}|std::(?:array|span|initializer_list)<\s*(?:const\s+)?{FLOATING}[^;={{]*>|auto)\s+"
    r"(?P<rest>\w+\s*(?:\[[^\]]*\])?\s*[={][^;]*);")
DECLARATOR = re.compile(r"(?P<name>\w+)\s*(?:\[[^\]]*\])?\s*(?:=\s*|(?=\{))(?P<value>[^,{}]+|\{[^}]*\})")
NUMBER = r"(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?"
POINTED = re.compile(r"(?<![\w.])(?:\d[\d']*\.\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?")
NUMBERS_ALONE = re.compile(rf"[\s(){{}}*/+,-]*{NUMBER}(?:[\s(){{}}*/+,-]+{NUMBER})*[\s(){{}},]*")
FACTOR = re.compile(rf"(?P<before>[*/]\s*)?{POINTED.pattern}(?P<after>\s*[*/])?")
PLAIN = {0.0, 1.0, 2.0}


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def constants(text):
    """(position, name) of each constant of a floating type in a text without comments and literals."""
    for declared in DECLARED.finditer(text):
        fixed = re.search(r"constexpr|constinit|static", declared["how"]) is not None
        for one in DECLARATOR.finditer(declared["rest"]):
            value, named = one["value"], re.match(r"k[A-Z]", one["name"]) is not None
            if declared["type"] == "auto" and not POINTED.search(value):
                continue
            if fixed or named or NUMBERS_ALONE.fullmatch(value):
                yield declared.start("rest") + one.start(), one["name"]


def factors(text):
    """(position, number) of each number with a point that is a factor or a divisor."""
    for found in FACTOR.finditer(text):
        number = POINTED.search(found.group())
        if (found["before"] or found["after"]) and float(number.group().rstrip("fF").replace("'", "")) not in PLAIN:
            yield found.start() + number.start(), number.group()


def sources(root):
    for folder in CHECKED:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".h", ".cpp") and name != CALIBRATED and name not in MACHINES:
                yield name, blank(path.read_text(encoding="utf-8"))


def check(root):
    """Yields (place, what)."""
    known, mathematics = set(), set()
    for name, text in sources(root):
        declared = []
        for position, constant in constants(text):
            declared.append(line_of(text, position))
            if (name, constant) in NO_COSTS:
                known.add((name, constant))
            else:
                yield f"{name}:{declared[-1]}", f"{constant}: a constant of cost belongs in {CALIBRATED}"
        for position, number in factors(text):
            line = line_of(text, position)
            if name in MATHEMATICS:
                mathematics.add(name)
            elif line not in declared:
                yield f"{name}:{line}", f"{number}: a factor of cost belongs in {CALIBRATED}, with a name"
    for name, constant in sorted(NO_COSTS.keys() - known):
        if (root / name).is_file():
            yield f"{name}:1", f"has no {constant}: scripts/check_costs.py lists it as no cost"
    for name in sorted(MATHEMATICS - mathematics):
        if (root / name).is_file():
            yield f"{name}:1", "has no factors: scripts/check_costs.py lists it as mathematics"


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = p.parse_args(argv).root.resolve()
    count = 0
    for place, what in check(root):
        count += 1
        print(f"{place}: {what}")
    print(f"costs: {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
