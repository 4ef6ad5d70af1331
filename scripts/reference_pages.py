#!/usr/bin/env python3
"""Keeps docs/reference what the programs and the headers say: the options, and the functions of both C interfaces.

  scripts/reference_pages.py --tilewright PATH            writes the pages anew
  scripts/reference_pages.py --tilewright PATH --check    compares; exit code 1 and a diff when one differs
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
HEADERS = {"runtime-api.md": ("runtime.h", "The runtime's C interface"),
           "compiler-api.md": ("compiler.h", "The compiler's C interface")}
TYPE = re.compile(r"^(?:/\*(?P<comment>(?:(?!\*/).)*)\*/\n)?"
                  r"(?P<code>typedef (?:struct|enum) (?P<name>\w+) \{(?:[^\n]*\} \w+;|.*?^\} \w+;))",
                  re.MULTILINE | re.DOTALL)


def prose(comment):
    """A comment as Markdown: without its stars; a list stays one, and other indented lines become a block."""
    text = "\n".join(re.sub(r"^ *\* ?", "", line).rstrip() for line in comment.strip().splitlines())
    escaped = text.replace("*", r"\*")
    if "\n - " in text:
        return escaped.replace("\n - ", "\n\n - ", 1)
    return re.sub(r"(?:\n {2,}\S.*)+", lambda rows: "\n\n```text" + rows[0].replace(r"\*", "*") + "\n```\n", escaped)


def declarations(code):
    lines = code.rstrip().splitlines()
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[depth:] for line in lines)


def parts_of(text):
    """(name of the table of functions, its body, what stands before it, what stands after it)"""
    begin = list(re.finditer(r"^typedef struct (Tw\w*Api) \{\n", text, re.MULTILINE))[-1]
    end = text.index(f"\n}} {begin.group(1)};", begin.end())
    return begin.group(1), text[begin.end():end + 1], text[:begin.start()], text[end:]


def functions(body):
    """(comment, declarations) of each group of functions, in the order of the table."""
    for paragraph in re.split(r"\n\s*\n|(?<=;)\n(?= */\*)", body):
        match = re.match(r"\s*/\*(.*?)\*/\n(.*)", paragraph, re.DOTALL)
        comment, code = match.groups() if match else ("", paragraph)
        if "(*" in code:
            yield prose(comment), declarations(code)


def types(text):
    """(name, comment, declaration) of each structure and enumeration."""
    for match in TYPE.finditer(text):
        yield match["name"], prose(match["comment"] or ""), match["code"]


def interface_page(header, title):
    path = f"include/tilewright/{header}"
    text = (ROOT / path).read_text()
    name, body, before, after = parts_of(text)
    head = prose(re.match(r"/\*(.*?)\*/", text, re.DOTALL).group(1))
    source = f"<!-- Written by scripts/reference_pages.py from {path}; do not edit. -->"
    lines = [f"# {title}", "", source, "", head, ""]
    entry = re.search(r"^TW_API .*;", after, re.MULTILINE).group(0)
    version = re.search(r"^#define TW_\w*API_VERSION \w+", before, re.MULTILINE).group(0)
    lines += ["```c", f"#include <tilewright/{header}>", version, entry, "```", "", f"## Functions of {name}", ""]
    for comment, code in functions(body):
        names = re.findall(r"\(\*(\w+)\)\(", code)
        lines += [f"### {', '.join(names)}", "", "```c", code, "```", ""] + ([comment, ""] if comment else [])
    lines += ["## Types", ""]
    for type_name, comment, code in types(before):
        lines += [f"### {type_name}", ""] + ([comment, ""] if comment else []) + ["```c", code, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def pages(tilewright):
    """{name of the page: its text}"""
    options = subprocess.run([tilewright, "options"], check=True, capture_output=True, text=True, timeout=60).stdout
    return {"options.md": options, **{name: interface_page(*what) for name, what in HEADERS.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", required=True, type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = []
    for name, text in pages(args.tilewright).items():
        page = FOLDER / name
        old = page.read_text() if page.exists() else ""
        if text == old:
            continue
        if args.check:
            lines = old.splitlines(True), text.splitlines(True)
            sys.stdout.writelines(difflib.unified_diff(*lines, str(page), "the sources"))
            stale.append(str(page.relative_to(ROOT)))
        else:
            page.write_text(text)
    if stale:
        print(f"{', '.join(stale)}: out of date; run scripts/reference_pages.py without --check")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
