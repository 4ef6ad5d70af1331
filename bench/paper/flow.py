"""What `tilewright analyze --json` says, and what the paper would call one operator of it."""
import collections
import math

GFLOP = 1 << 30


def cut(words):
    """10^6 words as the paper prints them: what is behind the first digit is cut off."""
    return math.floor(words / 1e5) / 10


class Flow:
    def __init__(self, document):
        self.operators, self.edges, self.groups = (document.get(key, []) for key in ("operators", "edges", "groups"))
        self._by_name = collections.defaultdict(list)
        for number, o in enumerate(self.operators):
            self._by_name[o["name"]].append(number)
        self._readers, self._read = collections.defaultdict(list), collections.defaultdict(list)
        for e in self.edges:
            self._readers[e["from"]].append(e)
            self._read[e["to"]].append(e)

    def named(self, name, op=None):
        return [n for n in self._by_name[name] if op in (None, self.operators[n]["op"])]

    def _behind(self, start, among):
        """What the operators `start` need of those `among`."""
        found, open_ones = set(), list(start)
        while open_ones:
            o = open_ones.pop()
            if o in among and o not in found:
                found.add(o)
                open_ones += [e["from"] for e in self._read[o] if e["from"] is not None]
        return sorted(found)

    def needed_by(self, outputs, among):
        return self._behind([e["from"] for e in self._read[None] if e["value"] in outputs], among)

    def needed_by_others(self, among):
        return self._behind([e["from"] for e in self.edges if e["from"] in among and e["to"] is not None and e["to"] not in among],
                            among)

    def contractions_behind(self, output):
        """The products that an output comes from with no other product between."""
        others = {n for n, o in enumerate(self.operators) if o["class"] != "contraction"}
        last = [e["from"] for e in self._read[None] if e["value"] == output]
        moves = self._behind(last, others)
        return {o for o in [*last, *(e["from"] for m in moves for e in self._read[m])] if o is not None and o not in others}

    def flop(self, operators):
        return sum(self.operators[o]["flop"] for o in set(operators))

    def words_read(self, operators):
        """Of the operators as one: distinct values that come from elsewhere."""
        own = set(operators)
        values = {e["value"]: e["words"] for o in own for e in self._read[o] if e["from"] not in own}
        return sum(values.values())

    def words_written(self, operators, around=()):
        """What others read; those `around` are none."""
        own = {*operators, *around}
        values = {e["value"]: e["words"] for o in operators for e in self._readers[o] if e["to"] not in own}
        return sum(values.values())

    def elements(self, name):
        """Of what operator `name` writes."""
        return sum(self.operators[o]["words_written"] for o in self.named(name))
