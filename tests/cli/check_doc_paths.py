#!/usr/bin/env python3
"""Every path that the project's text names exists. Prints FILE:LINE: PATH for each that does not; exit code 1 then.

  check_doc_paths.py [--root DIR]

Checked in all Markdown pages: targets of links, with the heading behind `#`, and words in backquotes that look like a
path of this project: with a slash, first folder known, no placeholder; not in blocks of code. A link is meant from the
page's own folder, a word in backquotes also from the root or from src/. Checked in all other text files: `docs/...`,
from the root. A page below docs/ must be reached by links from docs/README.md.
"""
import argparse
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"`([A-Za-z0-9_./*{},-]+/[A-Za-z0-9_./*{},-]*)`")
NAMED = re.compile(r"(?<![\w/.-])docs/[\w./-]*\w")
GENERATED = ("build/", "dist/")
NOT_WRITTEN = ("build", "dist", "repro", "shared")
OUTSIDE = re.compile(r"[a-z]+:")


def candidates(word):
    """The paths that `word` may stand for: `a/{b,c}.h` for two, `x/*.cpp` for any of them."""
    braces = re.match(r"(.*)\{([^}]*)\}(.*)", word)
    return [braces.group(1) + part + braces.group(3) for part in braces.group(2).split(",")] if braces else [word]


def anchors(page):
    """The names of the page's headings, as GitHub makes them."""
    names, is_code = set(), False
    for line in page.read_text().splitlines():
        is_code ^= line.startswith("```")
        heading = re.match(r"#+\s+(.*)", line)
        if heading and not is_code:
            words = re.sub(r"\]\([^)]*\)", "", heading.group(1)).lower()
            names.add(re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-"))
    return names


def lines_of_prose(page):
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        is_code ^= line.startswith("```")
        if not is_code:
            yield number, line


def links(page):
    """(line, path, heading) of each link into the project."""
    for number, line in lines_of_prose(page):
        for path, heading in LINK.findall(line):
            if not OUTSIDE.match(path):
                yield number, path, heading


def text_files(folder, depth=0):
    """What people wrote: without folders whose names begin with a point, and without what is built."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name[0] != "." and not (depth == 0 and path.name in NOT_WRITTEN):
            yield from text_files(path, depth + 1)
        elif path.is_file():
            yield path


class Check:
    def __init__(self, root):
        self.root = root
        self.files = list(text_files(root))
        self.pages = [file for file in self.files if file.suffix == ".md"]
        self.folders = {p.name for base in (root, root / "src") if base.exists() for p in base.iterdir() if p.is_dir()}
        self.missing = []

    def report(self, file, number, what):
        self.missing.append(f"{file.relative_to(self.root)}:{number}: {what}")

    def exists(self, bases, path):
        found = (any(base.glob(path)) if "*" in path else (base / path).exists() for base in bases)
        return path.startswith(GENERATED) or any(found)

    def check_page(self, page):
        for number, path, heading in links(page):
            target = page.parent / path if path else page
            if not target.exists():
                self.report(page, number, path)
            elif heading and heading not in anchors(target):
                self.report(page, number, f"{path}#{heading}: no such heading")
        bases = [self.root, self.root / "src", page.parent]
        for number, line in lines_of_prose(page):
            for word in (c for w in CODE.findall(line) for c in candidates(w)):
                if word.split("/")[0] in self.folders and not self.exists(bases, word):
                    self.report(page, number, word)

    def check_text(self, file):
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            return
        for number, line in enumerate(text.splitlines(), 1):
            for path in NAMED.findall(line):
                # An ADR may be named by its number.
                if not self.exists([self.root], path) and not any(self.root.glob(path + "-*.md")):
                    self.report(file, number, path)

    def check_reached(self):
        index = self.root / "docs" / "README.md"
        found, todo = {index}, [index] if index.exists() else []
        while todo:
            page = todo.pop()
            for path in filter(None, (path for _, path, _ in links(page))):
                target = (page.parent / path).resolve()
                for next_page in target.glob("*.md") if target.is_dir() else [target]:
                    if next_page in self.pages and next_page not in found:
                        found.add(next_page)
                        todo.append(next_page)
        for page in self.pages:
            if page.is_relative_to(self.root / "docs") and page not in found:
                self.report(page, 1, "no link leads here from docs/README.md")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    check = Check(parser.parse_args(words).root.resolve())
    for file in check.files:
        if file in check.pages:
            check.check_page(file)
        else:
            check.check_text(file)
    check.check_reached()
    print("\n".join(check.missing), end="\n" if check.missing else "")
    return 1 if check.missing else 0


if __name__ == "__main__":
    sys.exit(main())
