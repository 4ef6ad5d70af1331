#!/usr/bin/env python3
"""Checks every #include of src, include, runtime, tools and examples against scripts/layers.txt.

  python3 scripts/check_layers.py [--root DIR] [--rules FILE]

Prints each violation as FILE:LINE: include: rule. Exit codes: 0 none, 1 violations, 2 layers.txt is malformed.
"""
import argparse
import pathlib
import re
import sys

CHECKED = ("src", "include", "runtime", "tools", "examples")
SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cpp", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
INCLUDE_ROOTS = ("src", "", "include", "tools")  # the include paths that CMake gives, below the file's own folder


class RulesError(Exception):
    pass


def under(path, folder):
    """True if the file `path` lies in `folder`, or is itself FOLDER.h, FOLDER.cpp and so on."""
    return path == folder or path.startswith(folder + "/") or path.rsplit(".", 1)[0] == folder


def longest(path, folders):
    """The longest of `folders` that holds `path`, or None."""
    return max((f for f in folders if under(path, f)), key=len, default=None)


class Rules:
    """layers.txt, parsed: `units` maps a folder to (stack, level)."""

    def __init__(self, text):
        self.units, self.allowed, self.denied, self.third_party, self.system = {}, [], [], {}, []
        self._stack, self._level = None, 0
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            try:
                self._parse(words)
            except (ValueError, RulesError) as e:
                raise RulesError(f"line {number}: {e}: {line.strip()}") from None

    def _parse(self, words):
        keyword, rest = words[0], words[1:]
        if keyword == "stack":
            (self._stack,), self._level = rest, 0
        elif keyword == "layer":
            if self._stack is None or not rest:
                raise RulesError("a layer needs a stack before it and a folder")
            for folder in rest:
                if folder in self.units:
                    raise RulesError(f"{folder} is listed twice")
                self.units[folder] = (self._stack, self._level)
            self._level += 1
        elif keyword in ("allow", "deny"):
            source, arrow, target = rest
            if arrow != "->":
                raise RulesError("expected A -> B")
            (self.allowed if keyword == "allow" else self.denied).append((source, target))
        elif keyword == "third-party":
            colon = rest.index(":")
            for prefix in rest[:colon]:
                self.third_party[prefix] = rest[colon + 1:]
        elif keyword == "system":
            self.system += rest
        else:
            raise RulesError("unknown keyword")

    def internal(self, source, target):
        """Why `source` may not include `target` (both paths from the root), or None."""
        if any(under(source, a) and under(target, b) for a, b in self.allowed):
            return None
        for a, b in self.denied:
            if under(source, a) and under(target, b):
                return f"{a} may not include {b} beyond the folders allowed by name"
        a, b = longest(source, self.units), longest(target, self.units)
        if a is None or b is None:
            return f"{source if a is None else target} lies in no folder of the list"
        (stack_a, level_a), (stack_b, level_b) = self.units[a], self.units[b]
        if a == b:
            return None
        if stack_a != stack_b:
            return f"{a} ({stack_a}) may not include {b} ({stack_b})"
        if level_b == level_a:
            return f"{a} may not include its sibling {b} (layer {level_a})"
        if level_b > level_a:
            return f"{a} (layer {level_a}) may not include {b} (layer {level_b}), which is above it"
        return None

    def external(self, source, header):
        """Why `source` may not include the third-party or system header, or None."""
        matches = [p for p in self.third_party if header == p or (p.endswith("/") and header.startswith(p))]
        if matches:
            prefix = max(matches, key=len)
            folders = self.third_party[prefix]
            if longest(source, folders) is None:
                return f"{prefix} may be included in {', '.join(folders)} only"
            return None
        if "/" not in header and "." not in header:
            return None  # C++ standard library
        if any(header == s or (s.endswith("/") and header.startswith(s)) for s in self.system):
            return None
        return "not found in the project, and no line of the list names it"


def resolve(root, source, header):
    """Path from the root of a project header as the compiler would find it, or None."""
    folders = [pathlib.PurePosixPath(source).parent.as_posix(), *INCLUDE_ROOTS]
    for folder in folders:
        path = (root / folder / header).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return None


def check_file(root, source, rules):
    """Yields (line number, header, rule) for each violation."""
    text = (root / source).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(2)
        target = resolve(root, source, header)
        reason = rules.internal(source, target) if target else rules.external(source, header)
        if reason:
            yield number, header, reason


def sources(root):
    for top in CHECKED:
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES:
                yield path.relative_to(root).as_posix()


def main(argv=None):
    here = pathlib.Path(__file__).resolve().parent
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", type=pathlib.Path, default=here.parent)
    p.add_argument("--rules", type=pathlib.Path, default=here / "layers.txt")
    args = p.parse_args(argv)
    try:
        rules = Rules(args.rules.read_text())
    except RulesError as e:
        print(f"{args.rules}: {e}")
        return 2
    root, count, files = args.root.resolve(), 0, 0
    for source in sources(root):
        files += 1
        for number, header, reason in check_file(root, source, rules):
            count += 1
            print(f"{source}:{number}: {header}: {reason}")
    print(f"layers: {files} files, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
