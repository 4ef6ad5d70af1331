"""A small outline of a C++ file: functions and declarations with their lines, parameters and nesting.

Not a compiler: it matches brackets over tokens and tells function bodies, control blocks, lambdas, class bodies and
braced initialisers apart by what stands before the brace. Good enough for clang-formatted code without macros that
open or close scopes.
"""
import dataclasses
import re

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|&&|==|<=|>=|!=|[^\s\w]")
LEXEME = re.compile(
    r'(?P<raw>R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)")|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)'
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\")|(?P<char>(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')"
    r"|(?P<directive>^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)", re.S | re.M)
CONTROL = {"if", "for", "while", "switch", "else", "do", "try", "catch"}
SCOPE = {"namespace", "class", "struct", "union", "enum"}
QUALIFIERS = {"const", "noexcept", "override", "final", "mutable", "volatile", "constexpr", "&", "&&", "throw"}
ACCESS = {"public", "private", "protected"}
CLOSER = {"(": ")", "[": "]", "{": "}"}


@dataclasses.dataclass(eq=False)
class Group:
    """A bracketed part of a declaration or statement."""
    kind: str
    items: list
    line: int = 0


@dataclasses.dataclass
class Function:
    """A function with a body, or a declaration (end == 0); `nesting` is its deepest control level."""
    name: str
    line: int
    params: list
    end: int = 0
    nesting: int = 0
    nesting_line: int = 0

    @property
    def lines(self):
        return self.end - self.line + 1


@dataclasses.dataclass
class Frame:
    kind: str  # file, scope, function, block, lambda, group
    opener: str
    levels: int = 0
    head: list = dataclasses.field(default_factory=list)
    line: int = 0
    function: Function = None


def blank(text):
    """`text` with comments, literals and preprocessor lines replaced, line breaks kept."""
    def replace(match):
        newlines = "\n" * match.group().count("\n")
        if match.lastgroup in ("line", "block", "directive"):
            return " " + newlines
        return "0" + newlines
    return LEXEME.sub(replace, text)


def tokens(text):
    line = 1
    for part in blank(text).splitlines():
        for match in TOKEN.finditer(part):
            yield match.group(), line
        line += 1


def words(head):
    return [t for t, _ in head]


def is_group(token, kind):
    return isinstance(token, Group) and token.kind == kind


def is_attribute(token):
    """True for [[...]]."""
    return is_group(token, "[") and len(token.items) == 1 and is_group(token.items[0][0], "[")


def strip_template(items):
    """Drops leading `template <...>` and attributes."""
    while items and (items[0] == "template" or is_attribute(items[0])):
        if items[0] != "template":
            items = items[1:]
            continue
        depth, end = 0, len(items)
        for i, t in enumerate(items[1:], 1):
            depth += (t == "<") - (t == ">")
            if depth == 0:
                end = i + 1
                break
        items = items[end:]
    return items


def split_params(group):
    """Parameters of a '(' group, each a list of tokens; commas inside <...> do not split."""
    params, current, depth = [], [], 0
    for token, _ in group.items:
        if token == "," and depth == 0:
            params.append(current)
            current = []
            continue
        depth = max(0, depth + (token == "<") - (token == ">"))
        current.append(token)
    if current and current != ["void"]:
        params.append(current)
    return params


def control_levels(items):
    """Control statements that a statement opens: `for (..) for (..)` is two, `else if` one."""
    levels = 0
    for i, token in enumerate(items):
        if isinstance(token, str) and token in CONTROL and not (token == "if" and i > 0 and items[i - 1] == "else"):
            levels += 1
    return levels


def signature(items):
    """(name, '(' group) of the function that `items` declares, or None."""
    items = strip_template(items)
    if not items or items[0] in ("using", "typedef", "static_assert"):
        return None
    groups = [i for i, t in enumerate(items) if is_group(t, "(")]
    equals = items.index("=") if "=" in items else len(items)
    if not groups or (equals < groups[0] and "operator" not in items[:groups[0]]):
        return None
    end = next((i for i, t in enumerate(items) if t in (":", "->") and i > groups[0]), len(items))
    if "operator" not in items[:groups[0] + 1]:
        end = min(end, equals)
    index = None
    for i in groups:
        if i < end and i > 0 and (not not_a_name(items[i - 1]) or "operator" in items[max(0, i - 3):i]):
            index = i
    if index is None or not all(tail_token(t) for t in items[index + 1:end]):
        return None
    name = items[index - 1]
    if isinstance(name, Group):
        name = "operator()" if "operator" in items else "(pointer)"
    if "operator" in items[:index] and name != "operator()":
        name = "operator " + "".join(t for t in items[items.index("operator") + 1:index] if isinstance(t, str))
    return name, items[index]


def not_a_name(token):
    """True for what may stand before a '(' group that is not the parameter list."""
    return is_group(token, "[") or (isinstance(token, str) and token in QUALIFIERS | {"requires", "decltype"})


def tail_token(token):
    return isinstance(token, Group) or token in QUALIFIERS or token in ("=", "0", "default", "delete", "requires")


def is_lambda(items):
    """True if `items` ends with a lambda's introducer, template parameters, parameters, qualifiers and return type."""
    for i in range(len(items) - 1, -1, -1):
        if not is_group(items[i], "[") or is_attribute(items[i]):
            continue
        before = items[i - 1] if i else None
        subscript = isinstance(before, Group) or (isinstance(before, str) and re.match(r"\w", before) and
                                                  before not in ("return", "co_return", "else", "case"))
        rest = strip_template(["template", *items[i + 1:]]) if items[i + 1:i + 2] == ["<"] else items[i + 1:]
        if rest and is_group(rest[0], "("):
            rest = rest[1:]
        end = rest.index("->") if "->" in rest else len(rest)
        return not subscript and all(t in QUALIFIERS or is_group(t, "(") for t in rest[:end])
    return False


class Outline:
    """`functions` (with bodies), `declarations`, in order of the file."""

    def __init__(self, text):
        self.functions, self.declarations = [], []
        self._stack = [Frame("file", "")]
        for token, line in tokens(text):
            self._token(token, line)

    def _token(self, token, line):
        frame = self._stack[-1]
        if token == "{":
            self._open_brace(line)
        elif token in "([":
            self._stack.append(Frame("group", token, line=line))
        elif token in ")]}":
            if len(self._stack) > 1 and CLOSER[frame.opener] == token:
                self._close(line)
        elif token == ";" and frame.kind != "group":
            self._end_statement()
        elif token == ":" and self._is_label(words(frame.head)):
            frame.head.clear()
        else:
            frame.head.append((token, line))

    @staticmethod
    def _is_label(items):
        return bool(items) and (items[0] in ("case", "default") or (len(items) == 1 and items[0] in ACCESS))

    def _context(self):
        """The innermost frame that is not a bracket or an initialiser."""
        return next(f for f in reversed(self._stack) if f.kind != "group")

    def _open_brace(self, line):
        frame, context = self._stack[-1], self._context()
        items = words(frame.head)
        start = frame.head[0][1] if frame.head else line
        kind, levels, function = self._classify(items, frame, context)
        if function is not None:
            function.line = start
            self.functions.append(function)
        self._stack.append(Frame(kind, "{", levels, line=line, function=function or context.function))
        if kind == "block":
            self._note_nesting(line)

    def _classify(self, items, frame, context):
        """(frame kind, control levels, new Function or None) for the brace after `items`."""
        bare = strip_template(items)
        opens_scope = (bare and bare[0] in SCOPE) or bare[:2] == ["inline", "namespace"]
        if frame.kind != "group" and (opens_scope or (len(bare) == 2 and bare[0] == "extern")):
            return "scope", 0, None
        if is_lambda(bare):
            inside = context.kind in ("function", "block", "lambda")
            return "lambda", 1 if inside else 0, None if inside else Function("lambda", 0, [])
        if frame.kind == "group":
            return "group", 0, None
        if context.kind in ("function", "block", "lambda"):
            if not items or items[0] in CONTROL:
                return "block", max(1, control_levels(items)), None
            return "group", 0, None
        found = signature(items)
        if found and not self._is_member_initialiser(items):
            return "function", 0, Function(found[0], 0, split_params(found[1]))
        return "group", 0, None

    @staticmethod
    def _is_member_initialiser(items):
        """True for the brace of `b_{...}` in `C(int a) : a_(a), b_{...} {}`."""
        return ":" in items and isinstance(items[-1], str) and items[-1] not in QUALIFIERS

    def _note_nesting(self, line, extra=0):
        depth, function = extra, None
        for frame in reversed(self._stack):
            depth += frame.levels
            if frame.kind == "function" or (frame.kind == "lambda" and frame.levels == 0):
                function = frame.function
                break
        if function is not None and depth > function.nesting:
            function.nesting, function.nesting_line = depth, line

    def _close(self, line):
        frame = self._stack.pop()
        parent = self._stack[-1]
        if frame.kind == "function" or (frame.kind == "lambda" and frame.levels == 0):
            frame.function.end = line
        if frame.kind in ("function", "block"):
            parent.head.clear()
        elif frame.kind == "scope" and words(parent.head)[:1] in (["namespace"], ["extern"], ["inline"]):
            parent.head.clear()
        else:
            start = frame.line if frame.opener != "{" else line
            parent.head.append((Group(frame.opener, frame.head, frame.line), start))

    def _end_statement(self):
        frame = self._stack[-1]
        items = words(frame.head)
        if items and frame.kind in ("function", "block", "lambda"):
            levels = control_levels(items)
            if levels:
                self._note_nesting(frame.head[0][1], levels)
        elif items and frame.kind in ("file", "scope"):
            found = signature(items)
            macro = len(items) == 2 and re.fullmatch(r"[A-Z][A-Z0-9_]+", str(items[0]))
            if found and not macro:
                self.declarations.append(Function(found[0], frame.head[0][1], split_params(found[1])))
        frame.head.clear()
