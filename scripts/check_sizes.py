#!/usr/bin/env python3
"""Checks the size rules of the project's C++ (docs/internals/architecture.md, "Sizes and style").

  python3 scripts/check_sizes.py [--root DIR] [FILE ...]

File: over 500 lines needs a `// Size: reason` line in its opening comment, over 800 fails. Function: at most 80 lines,
6 parameters (more where a line above says `Signature fixed by` whose interface it is), 4 levels of nesting. Headers: no
bare bool parameter (use an enum). Each folder of src, and runtime, has a budget of lines (scripts/sizes.txt; ADR 0023);
together they are at most 100,000. Tests are held to the same; a table of cases is data at namespace level, not a
function.
Prints each violation as FILE:LINE: rule. Exit code 1 if there is any.
"""
import argparse
import pathlib
import re
import sys

from cpp_outline import Outline

CHECKED = ("src", "include", "runtime", "tools", "tests", "bench", "examples", "python")
SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cpp"}
MAX_FILE_LINES, MAX_FILE_LINES_WITHOUT_REASON, MAX_FUNCTION_LINES = 800, 500, 80
MAX_PARAMETERS, MAX_NESTING, MAX_TOTAL_LINES = 6, 4, 100_000
COUNTED = ("src", "runtime")
HEADER_COMMENT_LINES = 20
REASON = re.compile(r"^// Size: \S")


def has_reason(lines):
    return any(REASON.match(line) for line in lines[:HEADER_COMMENT_LINES])


def is_bare_bool(parameter):
    """`bool`, `bool x`, `const bool x = false`; not `bool*`, `bool&` or `std::vector<bool>`."""
    tokens = [t for t in parameter if t != "const"]
    tokens = tokens[:tokens.index("=")] if "=" in tokens else tokens
    return bool(tokens) and tokens[0] == "bool" and len(tokens) <= 2 and all(isinstance(t, str) for t in tokens) and (
        len(tokens) == 1 or re.match(r"[A-Za-z_]\w*$", tokens[1]) is not None)


def is_signature_fixed(lines, line):
    """Whether a comment just above (or on) the declaration says that another interface decides its parameters."""
    return any("Signature fixed by" in text for text in lines[max(0, line - 3):line])


def check_text(text, is_header):
    """Yields (line, rule) for each violation in one file."""
    lines = text.splitlines()
    if len(lines) > MAX_FILE_LINES:
        yield 1, f"file has {len(lines)} lines, at most {MAX_FILE_LINES}"
    elif len(lines) > MAX_FILE_LINES_WITHOUT_REASON and not has_reason(lines):
        yield 1, (f"file has {len(lines)} lines; over {MAX_FILE_LINES_WITHOUT_REASON} needs a '// Size: reason' line "
                  "at its top")
    outline = Outline(text)
    for f in outline.functions:
        if f.lines > MAX_FUNCTION_LINES:
            yield f.line, f"function {f.name} has {f.lines} lines, at most {MAX_FUNCTION_LINES}"
        if f.nesting > MAX_NESTING:
            yield f.nesting_line, f"function {f.name} nests {f.nesting} levels deep, at most {MAX_NESTING}"
    for f in outline.functions + outline.declarations:
        if len(f.params) > MAX_PARAMETERS and not is_signature_fixed(lines, f.line):
            yield f.line, f"function {f.name} has {len(f.params)} parameters, at most {MAX_PARAMETERS}"
        if is_header and any(is_bare_bool(p) for p in f.params) and not is_signature_fixed(lines, f.line):
            yield f.line, f"function {f.name} has a bare bool parameter; use an enum"


def read_budgets(path):
    """{folder: most lines} of sizes.txt."""
    rows = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    return {row[0]: int(row[1]) for row in rows if row}


def check_budgets(lines, budgets):
    """Yields (folder, rule) for each folder of `lines` ({path: count}) that is over its budget or has none."""
    used = {}
    for name, count in lines.items():
        folder = name.parts[0] if name.parts[0] == "runtime" else "/".join(name.parts[:2])
        used[folder] = used.get(folder, 0) + count
    for folder, count in sorted(used.items()):
        if folder not in budgets:
            yield folder, "has no budget in sizes.txt"
        elif count > budgets[folder]:
            yield folder, f"has {count} lines, its budget is {budgets[folder]} (sizes.txt)"
    total = sum(budgets.values())
    if total > MAX_TOTAL_LINES:
        yield "src", f"budgets add up to {total} lines, at most {MAX_TOTAL_LINES}"


def sources(root):
    for top in CHECKED:
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES:
                yield path


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    p.add_argument("--budgets", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "sizes.txt")
    p.add_argument("files", nargs="*", type=pathlib.Path, help="these only (default: all)")
    args = p.parse_args(argv)
    count = files = 0
    counted = {}
    for path in args.files or sources(args.root):
        text = path.read_text(encoding="utf-8", errors="replace")
        name = path.relative_to(args.root) if path.is_relative_to(args.root) else path
        files += 1
        if name.parts[0] in COUNTED:
            counted[name] = len(text.splitlines())
        for line, rule in check_text(text, path.suffix in (".h", ".hpp")):
            count += 1
            print(f"{name}:{line}: {rule}")
    for folder, rule in check_budgets(counted, read_budgets(args.budgets)) if not args.files else ():
        count += 1
        print(f"{folder}:1: {rule}")
    print(f"sizes: {files} files, {sum(counted.values())} lines in {' + '.join(COUNTED)}, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
