#!/usr/bin/env python3
"""An option is declared once: as a row of a table (docs/internals/adr/0027). Refused are

- an option that the command declares elsewhere: a flag's name given to CLI11 outside of what reads the tables;
- a row outside the tables, and two rows of one name for one verb;
- a row that is incomplete: no help; of an option of compiling no place in the cache's key, or a place without its reason;
- a message or a help text of the compiler or the command that names a flag which no row declares;
- a variable of the environment, ours by its name, that the tables do not have;
- two options of one name in a program of its own (tw-opt).

  python3 scripts/check_options.py [--root DIR]

Prints FILE:LINE: what, and ends with exit code 1 when there is any.
"""
import argparse
import collections
import pathlib
import re
import sys

COMPILE_TABLE = "src/driver/option_table.cpp"
COMMAND_TABLE = "tools/tilewright/option_table.cpp"
TABLES = (COMPILE_TABLE, COMMAND_TABLE)
LIBRARY_OF_ROWS = "src/support/option_table.h"
COMMAND = "tools/tilewright"
PROGRAMS = ("tools/tw-opt",)  # with a few options of their own
SOURCES = ("src", "runtime", "tools")
# Of programs that we start: nvcc, NVRTC. What every command has: help and version.
FOREIGN = {"fmad", "std", "gpu-architecture", "expt-relaxed-constexpr", "keep", "keep-dir", "version", "help"}

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
LETTER = re.compile(r"'(?:[^'\\\n]|\\.)'")  # quotes and slashes in them begin nothing
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DECLARATION = re.compile(r'\b(?:add_option|add_flag|set_config|add_option_function|add_flag_function|add_flag_callback)\s*'
                         r'(?:<[^>]*>)?\(\s*"(-[^"]*)"')
ROW = re.compile(r'\{\s*\.name\s*=\s*"([^"]*)"')
BOUND = re.compile(r"\boption<\s*&")
CONSTANT = re.compile(r'constexpr\s+std::string_view\s+(k\w+)\s*=\s*"([^"]*)"')
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])")
VARIABLE = re.compile(r"\b(?:TILEWRIGHT|TW)_[A-Z_]+\b")
FIELD = re.compile(r'\.(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|[\w:]+)')


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_comments(text):
    """The text with comments and characters as spaces: positions stay. Slashes in strings begin none."""
    pieces = re.compile(f"{STRING.pattern}|({LETTER.pattern}|{COMMENT.pattern})", re.DOTALL)
    return pieces.sub(lambda m: re.sub(r"[^\n]", " ", m.group()) if m.group(2) else m.group(), text)


def rows_of(text):
    """(name, fields, position) of each row of a table."""
    constants = dict(CONSTANT.findall(text))
    starts = list(ROW.finditer(text))
    for start, following in zip(starts, [*starts[1:], None]):
        body = text[start.start():following.start() if following else len(text)]
        fields = {}
        for name, value in FIELD.findall(body):
            fields.setdefault(name, value.strip('"') if value.startswith('"') else constants.get(value, value))
        yield start.group(1), fields, start.start()


def overlap(a, b):
    """Whether a verb takes both: "cache" has the options of "cache/prune"."""
    return not a or not b or any(x == y or x.startswith(y + "/") or y.startswith(x + "/") for x in a.split() for y in b.split())


class Check:
    def __init__(self, root):
        self.root = root
        self.found = []
        self.files = {}
        for folder in SOURCES:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in (".h", ".cpp", ".c"):
                    self.files[path.relative_to(root).as_posix()] = without_comments(path.read_text())

    def say(self, path, position, what):
        self.found.append(f"{path}:{line_of(self.files[path], position)}: {what}")

    def run(self):
        self.read_tables()
        for path, text in self.files.items():
            if path.startswith(COMMAND + "/"):
                for match in DECLARATION.finditer(text):
                    self.say(path, match.start(), f"'{match.group(1)}' is declared here: it belongs into {COMMAND_TABLE}")
            if path not in (*TABLES, LIBRARY_OF_ROWS):
                for pattern in (BOUND, ROW) if path.startswith(("src/", "tools/")) else ():
                    for match in pattern.finditer(text):
                        self.say(path, match.start(), "a row of options outside of the tables")
            if path.startswith(("src/", COMMAND + "/")):
                self.check_strings(path, text)
            if path.startswith("runtime/"):
                self.check_variables(path, text)
        for program in PROGRAMS:
            self.check_program(program)
        return self.found

    def read_tables(self):
        self.names, self.variables = set(), set()
        rows = []
        for path in TABLES:
            text = self.files.get(path, "")
            self.variables |= set(VARIABLE.findall(" ".join(STRING.findall(text))))
            for name, fields, position in rows_of(text):
                self.names.add(name)
                self.check_row(path, name, fields, position)
                verbs = fields.get("verbs", "")
                for other, other_verbs, where in rows:
                    if other == name and overlap(verbs, other_verbs):
                        self.say(path, position, f"option '{name}' is declared twice: {where} has it too")
                rows.append((name, verbs, f"{path}:{line_of(text, position)}"))

    def check_row(self, path, name, fields, position):
        if not re.fullmatch(r"[a-z]+[0-9]*(-[a-z]+)*", name):
            self.say(path, position, f"'{name}': names of options are in kebab-case")
        if not fields.get("help"):
            self.say(path, position, f"option '{name}' has no help")
        key = fields.get("key", "").rpartition("::")[2]
        if path == COMPILE_TABLE and key not in ("kPart", "kNoEntry", "kIndifferent"):
            self.say(path, position, f"option '{name}' does not say whether it is part of the cache's key")
        if key in ("kNoEntry", "kIndifferent") and not fields.get("why"):
            self.say(path, position, f"option '{name}' does not say why it is no part of the cache's key")

    def check_strings(self, path, text):
        for string in STRING.finditer(text):
            for name in FLAG.findall(string.group(1)):
                if name not in self.names | FOREIGN:
                    self.say(path, string.start(), f"no option is called --{name}")
        self.check_variables(path, text)

    def check_variables(self, path, text):
        for string in STRING.finditer(text):
            for name in set(VARIABLE.findall(string.group(1))) - self.variables:
                if "getenv" in text or name.startswith("TILEWRIGHT"):
                    self.say(path, string.start(), f"the environment's {name} is not in the tables of options")

    def check_program(self, program):
        seen = collections.defaultdict(list)
        for path, text in self.files.items():
            if path.startswith(program + "/"):
                for match in DECLARATION.finditer(text):
                    for name in match.group(1).split(","):
                        seen[name].append((path, match.start()))
        for name, places in seen.items():
            for path, position in places[1:]:
                first, at = places[0]
                self.say(path, position, f"'{name}' is declared twice: {first}:{line_of(self.files[first], at)} has it too")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    check = Check(parser.parse_args(arguments).root)
    found = check.run()
    for line in found:
        print(line)
    print(f"options: {len(check.names)} names, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
