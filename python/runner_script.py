# SPDX-License-Identifier: Apache-2.0
"""runner_script.py - the part of runner.py that plays the script of a challenge, on the CPU.

The build makes one file of the two, so that the runner needs no file from inside the cage; text_of, put,
asked_for, last_of, one_line and C are those of runner.py."""
import itertools
import math
import types


class Model:
    """One of the judge's models: strings in, logits of the next token out. judge/script/toy.c computes them, so
    all languages get the same bits."""

    def __init__(self, np, address, fails):
        import ctypes as c
        own, self.n_vocab, following, forward = C.model.get(c.string_at(address, C.model_bytes))
        at, n, pointers = c.c_void_p, c.c_int64, c.c_void_p
        self._np, self._own, self._failure = np, own, ArithmeticError if fails else ValueError
        self._next = c.CFUNCTYPE(c.c_int, at, n, at, pointers, at)(following)
        self._forward = c.CFUNCTYPE(c.c_int, at, n, at, at, at, n, at, at)(forward)

    def next(self, strings):
        """Logits of the token after each string: float32, (len(strings), n_vocab)."""
        np = self._np
        rows = [np.ascontiguousarray(string, np.int32) for string in strings]
        lengths = np.array([row.size for row in rows], np.int64)
        places = np.array([row.ctypes.data for row in rows], np.uintp)
        out = np.empty((len(rows), self.n_vocab), np.float32)
        if self._next(self._own, len(rows), *(a.ctypes.data for a in (lengths, places, out))):
            raise self._failure("next: the model failed, or got an empty string or a token outside the vocabulary")
        return out

    def forward(self, token, position, visible, want):
        """One pass: row r sees row c if visible[r, c]. Logits of the token after each row of want."""
        np = self._np
        token = np.ascontiguousarray(token, np.int32)
        position = np.ascontiguousarray(position, np.int64)
        visible = np.ascontiguousarray(visible, bool).reshape(token.size, token.size)
        want = np.ascontiguousarray(want, np.int64)
        out = np.empty((want.size, self.n_vocab), np.float32)
        token_at, position_at, visible_at, want_at, out_at = (
            a.ctypes.data for a in (token, position, visible, want, out))
        if position.size != token.size or self._forward(
                self._own, token.size, token_at, position_at, visible_at, want.size, want_at, out_at):
            raise self._failure("forward: the model failed, or got an invalid row or token")
        return out


class Script:
    """One slot of a challenge with a script: C code plays it (python/ask.h), and requests the next call of
    one of the entrant's functions."""

    REFUSALS = ValueError, MemoryError, KeyError, ArithmeticError

    def __init__(self, np, kinds, cage, function, i):
        import ctypes
        self.np, self.c, self.cage, self.i, self.function = np, ctypes, cage, i, function
        self.library = ctypes.CDLL("/proc/self/fd/%d" % C.player_fd)
        asked = (ctypes.c_ubyte * C.asked_bytes).in_dll(self.library, "ts_player_asked")
        self.asked = memoryview(asked).cast("B")

    def __call__(self):
        self.objects, self.said, answer = {}, set(), 0
        self.library.ts_player_start(self.cage.task.encode(), self.cage.args(self.i))
        while True:
            status = self.library.ts_player_next(answer)
            if status >= 0:
                return status
            answer = self.answer()

    def answer(self):
        """Makes the requested call; returns its status."""
        name, which, drop, ragged, *refusals, n_given, n_back = C.asked.get(self.asked)
        if drop:
            del self.objects[which]
            return 0
        back, lent = self.values(C.back, n_back), []
        try:
            places, names = self.arguments(iter(self.values(C.given, n_given)), lent)
            result = self.call(which, text_of(name), places, names)
            if ragged:
                self.put_beams(result, *(self.array(v[2], v[4:4 + v[3]], v[9]) for v in back))
            else:
                self.put_all(back, result)
        except self.REFUSALS as error:
            for kind, status in zip(self.REFUSALS, refusals):
                if status and isinstance(error, kind):
                    self.say((text_of(name) + ": " if text_of(name) else "") + last_of(error))
                    return status
            raise
        for array in lent:
            array.reshape(-1).view(self.np.uint8)[...] = 255
        return 0

    def say(self, line):
        """Each rejection once, after the method's name: the judge quotes it if the operation is valid."""
        if line not in self.said:
            self.said.add(line)
            os.write(2, one_line(line) + b"\n")

    def values(self, at, n):
        return [C.value.get(self.asked, at + i * C.value_bytes) for i in range(n)]

    def call(self, which, name, places, names):
        if which < 0:
            return self.function(**asked_for(self.function, names))
        if not name:
            self.objects[which] = self.function(*places)
            return None
        member = getattr(self.objects[which], name)
        return member(*places, **names) if callable(member) else member

    def arguments(self, values, lent):
        """Positional and keyword arguments."""
        places, names = [], {}
        for value in values:
            argument, name = self.argument(value, values, lent), text_of(value[0])
            if name:
                names[name] = argument
            else:
                places.append(argument)
        return places, names

    def argument(self, value, behind, lent):
        _, kind, letter, n_axes, *extents, integer, real, data, more = value
        if kind == C.INTEGER:
            return integer
        if kind == C.REAL:
            return real
        if kind == C.TEXT:
            return self.c.string_at(data).decode()
        if kind == C.MODEL:
            return Model(self.np, data, integer)
        if kind == C.RECORD:
            return types.SimpleNamespace(**self.arguments(itertools.islice(behind, integer), lent)[1])
        if kind == C.LISTS:
            ends = self.np.cumsum(self.array(ord("q"), extents[:1], more)).tolist()
            tokens = self.array(ord("i"), ends[-1:] or [0], data).tolist()
            return [tokens[begin:end] for begin, end in zip([0] + ends, ends)]
        array = self.array(letter, extents[:n_axes], data)
        if kind == C.LIST:
            return array.tolist()
        if kind == C.LENT:
            lent.append(array.copy())
            return lent[-1]
        array.flags.writeable = False
        return array

    def array(self, letter, shape, data):
        """An array over the player's memory; zeros if there is none."""
        kind = self.np.dtype(chr(letter))
        n_bytes = kind.itemsize * math.prod(shape)
        if not n_bytes or not data:
            return self.np.zeros(shape, kind)
        return self.np.frombuffer((self.c.c_ubyte * n_bytes).from_address(data), kind).reshape(shape)

    def put_all(self, back, result):
        results = (result,) if len(back) == 1 else tuple(result) if back else ()
        if len(results) != len(back):
            raise ValueError("got %d results, expected %d" % (len(results), len(back)))
        for (_, kind, letter, n_axes, *extents, _, _, data, more), value in zip(back, results):
            if kind == C.INTEGER:
                self.c.c_int64.from_address(data).value = int(value)
            elif kind == C.REAL:
                self.c.c_double.from_address(data).value = float(value)
            elif kind == C.LIST:
                to = self.array(ord("i"), extents[:1], data)
                to[...] = -1
                to[:len(value)] = self.np.asarray(value, self.np.int32)[:to.size]
                self.c.c_int64.from_address(more).value = len(value)
            elif data:
                to = self.array(letter, extents[:n_axes], data)
                put(to, self.np.reshape(value, to.shape))

    def put_beams(self, found, n_found, length, tokens, logprob, score, finished):
        n, width, steps = tokens.shape
        if len(found) != n or any(len(item) > width for item in found):
            raise ValueError("expected the beams of %d items, at most %d each" % (n, width))
        tokens[...], length[...], finished[...] = -1, 0, 0
        logprob[...] = score[...] = -self.np.inf
        for i, item in enumerate(found):
            n_found[i] = len(item)
            for k, (beam, logprob[i, k], score[i, k], ends) in enumerate(item):
                if len(beam) > steps:
                    raise ValueError("got a beam of %d tokens, expected at most %d" % (len(beam), steps))
                tokens[i, k, :len(beam)] = beam
                length[i, k], finished[i, k] = len(beam), bool(ends)
