#!/usr/bin/env python3
"""Checks every #include of src, include, runtime, tools, examples and python against scripts/layers.txt, and that
- no files include one another in a circle (a header and its source are one),
- no folder has more than 30 sources,
- layers.txt allows nothing that nobody uses.

  python3 scripts/check_layers.py [--root DIR] [--rules FILE] [--partial]

Prints each violation as FILE:LINE: include: rule. Exit codes: 0 none, 1 violations, 2 layers.txt is malformed.
"""
import argparse
import collections
import pathlib
import re
import sys

CHECKED = ("src", "include", "runtime", "tools", "examples", "python")
SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cpp", ".inc"}
MAX_SOURCES = 30  # .cpp files directly in one folder
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
        self.used = set()  # permissions that an include needed
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
        permissions = {(a, b) for a, b in self.allowed if under(source, a) and under(target, b)}
        self.used |= permissions
        if permissions:
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
            self.used.add((prefix, longest(source, folders)))
            if longest(source, folders) is None:
                return f"{prefix} may be included in {', '.join(folders)} only"
            return None
        if "/" not in header and "." not in header:
            return None  # C++ standard library
        if any(header == s or (s.endswith("/") and header.startswith(s)) for s in self.system):
            return None
        return "not found in the project, and no line of the list names it"


    def unused(self):
        """The permissions that no include needed, as text."""
        for a, b in self.allowed:
            if (a, b) not in self.used:
                yield f"allow {a} -> {b}"
        for prefix, folders in self.third_party.items():
            for folder in folders:
                if (prefix, folder) not in self.used:
                    yield f"third-party {prefix} : {folder}"


def resolve(root, source, header):
    """Path from the root of a project header as the compiler would find it, or None."""
    folders = [pathlib.PurePosixPath(source).parent.as_posix(), *INCLUDE_ROOTS]
    for folder in folders:
        path = (root / folder / header).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return None


def includes(root, source):
    """Yields (line number, header, path of the project's file or None) for each #include."""
    text = (root / source).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(2), resolve(root, source, match.group(2))


def check_file(root, source, rules):
    """Yields (line number, header, rule) for each violation."""
    for number, header, target in includes(root, source):
        reason = rules.internal(source, target) if target else rules.external(source, header)
        if reason:
            yield number, header, reason


def circles(edges):
    """The sets of nodes that reach one another (Tarjan 1972, without recursion); edges: {node: {other: place}}."""
    index, low, stack, found = {}, {}, [], []
    for root in list(edges):
        work = [] if root in index else [(root, iter(edges.get(root, ())))]
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
        while work:
            node, rest = work[-1]
            child = next(rest, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = stack[stack.index(node):]
                    del stack[stack.index(node):]
                    found += [members] if len(members) > 1 else []
            elif child not in index:
                index[child] = low[child] = len(index)
                stack.append(child)
                work.append((child, iter(edges.get(child, ()))))
            elif child in stack:
                low[node] = min(low[node], index[child])
    return found


def check_structure(root):
    """Yields (place, rule) for circles of files and for full folders."""
    edges, counts = collections.defaultdict(dict), collections.Counter()
    for source in sources(root):
        unit = source.rsplit(".", 1)[0]
        counts[source.rsplit("/", 1)[0]] += source.endswith(".cpp")
        for number, _, target in includes(root, source):
            other = target.rsplit(".", 1)[0] if target else unit
            if other != unit:
                edges[unit].setdefault(other, f"{source}:{number}")
    for members in circles(edges):
        places = sorted(place for a in members for b, place in edges[a].items() if b in members)
        yield places[0], f"{len(members)} files include one another: {', '.join(sorted(members))}; by {', '.join(places)}"
    for folder, count in sorted(counts.items()):
        if count > MAX_SOURCES:
            yield f"{folder}:1", f"{count} sources in one folder, at most {MAX_SOURCES}: give it rooms"


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
    p.add_argument("--partial", action="store_true", help="not all of the tree is there: unused permissions are fine")
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
    unused = [] if args.partial else [(args.rules.name + ":1", f"nothing needs '{line}'") for line in rules.unused()]
    for place, rule in [*check_structure(root), *unused]:
        count += 1
        print(f"{place}: {rule}")
    print(f"layers: {files} files, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
