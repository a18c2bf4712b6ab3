# SPDX-License-Identifier: Apache-2.0
"""mutate.py - finds the mutants of a C file: one small change each, in its tokens.

It knows comments, strings, preprocessor lines, functions and statements, but no types; the compiler
rejects the mutants that are invalid."""
import hashlib
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<skip>  \s+ | /\*.*?\*/ | //[^\n]* )
  | (?P<id>    [A-Za-z_]\w* )
  | (?P<num>   (?:0[xX][\da-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) [uUlLfF]* )
  | (?P<str>   "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' )
  | (?P<op>    \.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]] )
""", re.S | re.X)

BINARY = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<",
}
ASSIGN = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "%=": "/=", "|=": "&=", "&=": "|=",
          "^=": "|=", "<<=": ">>=", ">>=": "<<="}
STEP = {"++": "--", "--": "++"}
TYPE = {"float": "double", "double": "float", "uint8_t": "int8_t", "uint16_t": "int16_t",
        "uint32_t": "uint16_t", "uint64_t": "uint32_t"}
NAME = {"true": "false", "false": "true", "INFINITY": "(-INFINITY)", "fmax": "fmin", "fmin": "fmax",
        "fmaxf": "fminf", "fminf": "fmaxf"}
# Two arguments that may change places: the first of them counted from 1. Sizes are products.
COMMUTES = {"times": 1, "take": 2, "ts_take": 2, "ts_lesser": 1, "ts_greater": 1, "fmax": 1, "fmin": 1}
KEYWORD = set("if else for while do switch case default return break continue goto sizeof typedef "
              "struct union enum static const extern inline volatile restrict register".split())
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    line: int


@dataclass
class Mutant:
    file: str
    function: str     # "": outside of all
    line: int
    statement: str    # its tokens, one blank between two
    nth: int          # among equal statements of the function
    mutation: str     # "< -> <= @7": the 7th token of the statement
    start: int        # of the text that `new` takes the place of
    end: int
    new: str

    @property
    def fingerprint(self):
        """Of the statement: what else the file holds, and where, has no part in it."""
        return digest(self.function, self.statement, self.nth)

    @property
    def id(self):
        return digest(self.file, self.fingerprint, self.mutation)

    def apply(self, source):
        return source[:self.start] + self.new + source[self.end:]


def digest(*parts):
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:8]


def tokens_of(source):
    """Preprocessor lines are no tokens: nothing of them is mutated."""
    hidden = re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    tokens, at, line = [], 0, 1
    while at < len(hidden):
        m = TOKEN.match(hidden, at)
        if not m:
            raise ValueError(f"line {line}: no token: {hidden[at:at + 20]!r}")
        if m.lastgroup != "skip":
            tokens.append(Token(m.lastgroup, m[0], at, m.end(), line))
        line += m[0].count("\n")
        at = m.end()
    return tokens


class File:
    """Tokens, which of them are partners, and to which function and statement each belongs."""

    def __init__(self, name, source):
        self.name, self.source, self.t = name, source, tokens_of(source)
        self.partner, stack = {}, []
        for i, t in enumerate(self.t):
            if t.kind != "op":
                continue
            if t.text in OPEN:
                stack.append(i)
            elif t.text in CLOSE:
                self.partner[i] = stack.pop()
                self.partner[self.partner[i]] = i
        self.function = [""] * len(self.t)
        self.find_functions()
        self.find_statements()
        self.mutants, self.seen = [], set()

    def text(self, i):
        return self.t[i].text if 0 <= i < len(self.t) else ""

    def find_functions(self):
        i = 0
        while i < len(self.t):
            if self.text(i) == "{":
                if self.text(i - 1) == ")":
                    name = self.text(self.partner[i - 1] - 1)
                    for k in range(i, self.partner[i] + 1):
                        self.function[k] = name
                i = self.partner[i]
            i += 1

    def find_statements(self):
        """A statement ends at a semicolon outside of parentheses, or at a brace."""
        self.first, begin, depth, count = [0] * len(self.t), 0, 0, {}
        self.said, self.nth = {}, {}

        def end(stop):
            said = " ".join(t.text for t in self.t[begin:stop])
            key = (self.function[begin] if begin < len(self.t) else "", said)
            count[key] = count.get(key, 0) + 1
            self.said[begin], self.nth[begin] = said, count[key]

        for i, t in enumerate(self.t):
            self.first[i] = begin
            if t.kind != "op":
                continue
            depth += t.text in "([" and len(t.text) == 1
            depth -= t.text in ")]" and len(t.text) == 1
            if t.text in ("{", "}") or (t.text == ";" and depth == 0):
                end(i + 1)
                begin = i + 1
        end(len(self.t))

    # ---- what is changed ----

    def put(self, i, stop, new, mutation):
        """Tokens i to stop, which is not one of them, become `new`."""
        first = self.first[i]
        m = Mutant(self.name, self.function[i], self.t[i].line, self.said[first], self.nth[first],
                   f"{mutation} @{i - first}", self.t[i].start, self.t[stop - 1].end, new)
        old = self.source[m.start:m.end]
        new = m.new + "\n" * (old.count("\n") - m.new.count("\n"))  # lines keep their numbers
        m.new = new
        if m.id not in self.seen and old != new:
            self.seen.add(m.id)
            self.mutants.append(m)

    def old(self, i, stop):
        return self.source[self.t[i].start:self.t[stop - 1].end]

    def swap(self, i, new):
        self.put(i, i + 1, new, f"{self.text(i)} -> {new}")

    def is_operand(self, i):
        return i >= 0 and (self.t[i].kind in ("num", "str") or self.text(i) in (")", "]")
                           or (self.t[i].kind == "id" and self.text(i) not in KEYWORD))

    def is_pointer(self, i):
        """Of a declaration or a cast: `const float *x`, `(float *)p`."""
        before = self.text(i - 1)
        return (before in TYPE or before in ("void", "char", "int", "int64_t", "int32_t", "size_t", "const")
                or before.endswith("_args") or self.text(i + 1) in (")", "const", "*"))

    def operator(self, i):
        t = self.text(i)
        if t in BINARY and self.is_operand(i - 1):
            if t == ")" or (t == "*" and self.is_pointer(i)):
                return
            if t in "&*" and len(t) == 1 and self.text(i - 1) == ")" and self.is_cast(i - 1):
                return
            self.swap(i, BINARY[t])
            if t in ("&&", "||"):
                self.clauses(i)
        elif t == "-" and not self.is_operand(i - 1):
            self.put(i, i + 1, "", "- dropped")
        elif t in ASSIGN or t in STEP:
            self.swap(i, {**ASSIGN, **STEP}[t])
        elif t == "!":
            self.put(i, i + 1, "", "! dropped")
        elif t == "?":
            begin = self.reach(i - 1, -1, ("?", ":", ",", "return", "="))
            self.put(begin, i, f"!({self.old(begin, i)})", "?: negated")

    def is_cast(self, i):
        k = self.partner[i]
        return i - k <= 3 and self.t[k + 1].kind == "id" and not self.is_operand(k - 1)

    def reach(self, i, step, stops):
        """The last token of an operand that begins at i, forwards (1) or backwards (-1)."""
        while 0 <= i < len(self.t):
            t = self.text(i)
            if (t in CLOSE and step < 0) or (t in OPEN and step > 0):
                i = self.partner[i]
            elif t in OPEN or t in CLOSE or t == ";" or t in stops:
                break
            i += step
        return i - step

    def clauses(self, i):
        """One side of && or || alone."""
        stops = ("&&", "||", "?", ":", ",", "return", "=")
        neutral = "1" if self.text(i) == "&&" else "0"
        begin, end = self.reach(i - 1, -1, stops), self.reach(i + 1, 1, stops)
        self.put(begin, i, neutral, f"left of {self.text(i)} dropped")
        self.put(i + 1, end + 1, neutral, f"right of {self.text(i)} dropped")

    def number(self, i):
        t = self.text(i)
        digits = t.rstrip("uUlL" if t[:2].lower() == "0x" else "uUlLfF")
        suffix = t[len(digits):]
        if re.fullmatch(r"\d+|0[xX][\da-fA-F]+", digits) and "f" not in suffix.lower():
            value = int(digits, 0) if digits[:2].lower() == "0x" or digits == "0" or digits[0] != "0" else int(digits, 8)
            self.swap(i, f"{value + 1}{suffix}")
            if value > 0:
                self.swap(i, f"{value - 1}{suffix}")
        else:
            value = float(digits)
            self.swap(i, f"{2 * value if value else 1.0}{suffix}")

    def name_or_type(self, i):
        t = self.text(i)
        if t in TYPE:
            self.swap(i, TYPE[t])
        elif t in NAME:
            self.swap(i, NAME[t])
        elif t == "int64_t":
            # Only where a product is computed: no test can afford counts past 2^31.
            end = self.reach(i, 1, (",",))
            if "*" in [self.text(k) for k in range(i + 3, end + 1)] and self.text(i + 1) != ")":
                self.swap(i, "int32_t")
        elif t.startswith("TS_E_") and self.function[i]:
            self.swap(i, "TS_OK")
            self.swap(i, "TS_E_DTYPE" if t != "TS_E_DTYPE" else "TS_E_SHAPE")
        elif t in ("if", "while") and self.text(i + 1) == "(":
            end = self.partner[i + 1]
            self.put(i + 2, end, f"!({self.old(i + 2, end)})", f"{t} negated")
            if t == "if":
                self.put(i + 2, end, "0", "if never")
        elif t in ("break", "continue"):
            self.put(i, i + 1, "", f"{t} dropped")
        elif t == "return" and self.text(i + 1) != ";":
            end = self.reach(i + 1, 1, ())
            said = [self.text(k) for k in range(i + 1, end + 1)]
            if {"&&", "||", "<", "<=", ">", ">=", "==", "!=", "!"} & set(said) and "?" not in said:
                self.put(i + 1, end + 1, f"!({self.old(i + 1, end + 1)})", "return negated")
        elif self.text(i + 1) == "(" and t not in KEYWORD:
            self.arguments(i)

    def arguments(self, i):
        """Neighbours among the arguments of a call change places."""
        parts, begin, end = [], i + 2, self.partner[i + 1]
        k = begin
        while k <= end:
            if k == end or self.text(k) == ",":
                if k > begin:
                    parts.append((begin, k))
                begin = k + 1
            elif self.text(k) in OPEN:
                k = self.partner[k]
            k += 1
        for n, (a, b) in enumerate(zip(parts, parts[1:])):
            one, two = self.old(*a), self.old(*b)
            between = self.source[self.t[a[1] - 1].end:self.t[b[0]].start]
            if one != two and COMMUTES.get(self.text(i)) != n + 1:
                self.put(a[0], b[1], two + between + one, f"arguments {n + 1} and {n + 2} swapped")

    def starts_statement(self, i):
        before = self.text(i - 1)
        if before == ")":
            return self.text(self.partner[i - 1] - 1) in ("if", "for", "while")
        return before in (";", "{", "}", "else", "do")

    def drop(self, i):
        """An assignment or a call that is a statement of its own."""
        if not self.starts_statement(i) or self.text(i) in KEYWORD:
            return
        if self.text(i) in OPEN and self.text(i) != "(" or self.text(i) in CLOSE or self.text(i) == ";":
            return
        if self.t[i].kind == "id" and (self.t[i + 1].kind == "id" or self.text(i) in TYPE):
            return  # a declaration
        k = i
        while self.text(k) != ";":
            if self.text(k) in OPEN:
                k = self.partner[k]
            elif self.text(k) in CLOSE:
                return  # the inside of an initialiser
            k += 1
        said = [self.text(n) for n in range(i, k)]
        if said[:2] == ["(", "void"] or (said[1:2] == ["*"] and len(said) > 3 and said[3] in ("=", ",")):
            return
        self.put(i, k, "", "statement dropped")

    def in_constant(self, i):
        """Outside of functions: the numbers of enums alone; a table is read row by row in a test."""
        first = self.first[i]
        while first > 0 and self.text(first - 1) != "{" and self.text(first - 1) not in (";", "}"):
            first -= 1
        return self.text(first - 1) == "{" and "enum" in (self.text(first - 2), self.text(first - 3))

    def find(self):
        parens = 0
        for i, t in enumerate(self.t):
            if t.text in ("(", ")") and t.kind == "op":
                parens += 1 if t.text == "(" else -1
            if not self.function[i]:
                if t.kind == "num" and self.in_constant(i):
                    self.number(i)
                continue
            if parens == 0 or t.text == "(":
                self.drop(i)
            if t.kind == "op":
                self.operator(i)
            elif t.kind == "num":
                self.number(i)
            elif t.kind == "id":
                self.name_or_type(i)
        return self.mutants


def mutants_of(name, source):
    return File(name, source).find()
