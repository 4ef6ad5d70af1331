#!/usr/bin/env python3
"""Every path that the documentation names exists. Prints FILE:LINE: path for each that does not; exit code 1 then.

Checked: targets of Markdown links, and words in backquotes that look like a path of this project: with a slash, first
folder known, no placeholder; not in blocks of code. A path is meant from the root, from src/ or from the page's own folder.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "docs"]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([A-Za-z0-9_./*{},-]+/[A-Za-z0-9_./*{},-]*)`")
GENERATED = ("build/",)


def candidates(word):
    """The paths that `word` may stand for: `a/{b,c}.h` for two, `x/*.cpp` for any of them."""
    braces = re.match(r"(.*)\{([^}]*)\}(.*)", word)
    return [braces.group(1) + part + braces.group(3) for part in braces.group(2).split(",")] if braces else [word]


def exists(page, path):
    if path.startswith(GENERATED):
        return True
    bases = [ROOT, ROOT / "src", page.parent]
    return any(any(base.glob(path)) if "*" in path else (base / path).exists() for base in bases)


def main():
    missing = 0
    folders = {p.name for p in [*ROOT.iterdir(), *(ROOT / "src").iterdir()] if p.is_dir()}
    pages = [ROOT / p for p in PAGES]
    for page in [f for p in pages for f in (sorted(p.rglob("*.md")) if p.is_dir() else [p])]:
        is_code = False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            is_code ^= line.startswith("```")
            if is_code:
                continue
            words = LINK.findall(line) + [w for w in CODE.findall(line) if w.split("/")[0] in folders]
            for path in [c for w in words for c in candidates(w)]:
                if not exists(page, path):
                    print(f"{page.relative_to(ROOT)}:{number}: {path}")
                    missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
