# SPDX-License-Identifier: Apache-2.0
"""Independent model of one end of a link with retry, for packets of the switch.

It knows the frames and the rules of the documents only: the CRC is that of zlib, frames are kept in
dictionaries, and it sends what it may in any order.
"""

import zlib
from collections import deque

CONTENT = (1 << 79) - 1
START = 1 << 128
ACK, NAK, SYNC, PROBE, ANSWER, CARRIER = range(6)


def crc(header, body, sender=0, receiver=0):
    """With the numbers of both ends in it, if the frame has a number."""
    data = b"".join(flit.to_bytes(16, "little") for flit in body)
    data += (header & (1 << 96) - 1).to_bytes(12, "little")
    return zlib.crc32(data) ^ sender ^ receiver << 16


def frame(content, *, number=0, acknowledge=0, credits=0, body=(), session=(0, 0)):
    """The flits of a frame; of one with a number, also *session*: those of sender and receiver."""
    header = content | credits << 79 | number << 82 | acknowledge << 89
    return [header | crc(header, body, *session) << 96 | START, *body]


def control(what, *, heard=0, first=0, last=0, session=0, echo=0):
    """The content of a control frame."""
    return what << 4 | heard << 7 | first << 8 | last << 15 | session << 22 | echo << 38


def newer(one, other):
    """Whether a number of an end comes after another one."""
    return one != 0 and (other == 0 or 0 < (one - other) % (1 << 16) < 1 << 15)


class ModelEnd:
    """Takes the place of a `tb.link.retry.PacketEnd`."""

    bits, start = 129, 128

    def __init__(self, *, payload_flits, credits, config, rng):
        self.flits = payload_flits + 1
        self.limit, self.slots, self.timeout = credits, config.slots, config.timeout_cycles
        self.rng = rng
        self.stalls = 0.0
        self.strict = True
        self.queue = deque()
        self.packets = []
        self.begin()
        # Sending: frames that are kept, by number; the oldest, the next to send, the next to make.
        self.kept = {}
        self.base = self.following = self.tail = 0
        self.again = deque()
        # The session.
        self.awake = self.joined = self.before = False
        self.mine = self.peer = 0
        self.since = 0
        self.tries, self.limit_of_tries = 0, config.tries
        self.deaf = self.unheard = False
        self.asked = 0
        # Receiving.
        self.expected, self.highest = 0, 0
        self.came = {}
        self.replies = deque()
        self.due = False
        self.coming = []
        self.out = deque()

    def begin(self):
        """The engine starts anew."""
        self.owed = [0, 0, 0]
        self.credits = [self.limit] * 3

    # ---- What a `Link` asks for.

    @property
    def up(self):
        return self.joined and not self.failed

    @property
    def failed(self):
        return self.deaf or self.unheard

    @property
    def idle(self):
        return (self.up and not self.kept and not self.out and not self.due and not self.replies
                and not any(self.owed) and self.following == self.tail)

    def drive(self):
        """Packets into frames, as far as credits and slots go."""
        if self.queue and len(self.kept) < self.slots:
            flits = self.queue[0]
            traffic = flits[0] >> 1 & 3
            if self.credits[traffic]:
                self.credits[traffic] -= 1
                self.queue.popleft()
                self._keep((flits[0] & START - 1) >> 1 & CONTENT, flits[1:])
        elif any(self.owed) and self.up and len(self.kept) < self.slots:
            self._keep(control(CARRIER), [])

    def sent(self, ready):
        if not ready:
            return None
        if not self.out:
            self.out.extend(self._choose())
        return self.out.popleft() if self.out else None

    def arrives(self, flit):
        if flit is None:
            return
        if flit & START:
            self.coming = []
        elif not self.coming:
            return
        self.coming.append(flit & START - 1)
        header = self.coming[0]
        if len(self.coming) == (self.flits if header >> 2 & 1 else 1):
            body, self.coming = self.coming[1:], []
            content = header & CONTENT
            numbered = content & 15 or content >> 4 & 7 == CARRIER
            if self.awake and header >> 96 == crc(
                header, body, *((self.peer, self.mine) if numbered else ())
            ):
                self._frame(header, body)

    def step(self):
        self.since += 1
        if self.up and self.base == self.following:
            self.since = 0
        if self.since <= self.timeout:
            return
        self.since = 0
        if not self.awake:
            self.awake = True
        if not self.joined:
            self._announce()
        elif self.failed:
            self.replies.append(("probe",))
        if self.tries == self.limit_of_tries:
            self.deaf = self.before
        else:
            self.tries += 1
            if self.up:
                self.again.append(self.base)

    # ---- Sending.

    def _keep(self, content, body):
        credits = 0
        for k in range(3):
            if self.owed[k]:
                self.owed[k] -= 1
                credits |= 1 << k
        self.kept[self.tail] = (content, credits, body)
        self.tail = (self.tail + 1) % 128

    def _announce(self):
        self.replies.append(("sync",))

    def _content(self, what, *more):
        """Of a control frame, as it is when it leaves."""
        session = {"session": self.mine, "echo": self.peer}
        if what == "sync":
            return control(SYNC, heard=int(self.joined), first=self.base, **session)
        if what == "probe":
            return control(PROBE, heard=int(not self.deaf), first=self.asked, **session)
        if what == "answer":
            return control(ANSWER, heard=int(not self.deaf), first=more[0], **session)
        return control(NAK, heard=1, first=more[0], last=more[1], **session)

    def _choose(self):
        """The next frame to be sent, if any."""
        if self.replies:
            content = self._content(*self.replies.popleft())
        elif self.up and self._number() is not None:
            number = self._take()
            content, credits, body = self.kept[number]
            self.due = False
            return frame(content, number=number, acknowledge=self.expected, credits=credits,
                         body=body, session=(self.mine, self.peer))
        elif self.due and self.rng.random() < 0.5:
            content = control(ACK, heard=1, session=self.mine, echo=self.peer)
        else:
            return []
        self.due = False
        return frame(content, acknowledge=self.expected)

    def _number(self):
        while self.again and self.again[0] not in self.kept:
            self.again.popleft()
        if self.again:
            return self.again[0]
        return self.following if self.following != self.tail else None

    def _take(self):
        number = self._number()
        if self.again:
            self.again.popleft()
        else:
            self.following = (self.following + 1) % 128
        return number

    # ---- Receiving.

    def _frame(self, header, body):
        content = header & CONTENT
        number, acknowledge = header >> 82 & 127, header >> 89 & 127
        what = content >> 4 & 7 if content & 15 == 0 else None
        if what == SYNC:
            self._sync(content)
            return
        match = self.joined and (content >> 22 & 65535, content >> 38 & 65535) == (
            self.peer, self.mine)
        if not self.joined or not (match or what in (None, CARRIER)):
            return
        heard, first, last = content >> 7 & 1, content >> 8 & 127, content >> 15 & 127
        if what == NAK:
            self.again.extend((first + k) % 128 for k in range((last - first) % 128 + 1))
        if what == PROBE:
            self.unheard = not heard
            self.replies.append(("answer", first))
        if what == ANSWER and first == self.asked:
            failed = self.failed
            self.deaf, self.unheard, self.tries = False, not heard, 0
            self.asked = (self.asked + 1) % 128
            if failed and not self.failed:
                count = (self.following - self.base) % 128
                self.again.extend((self.base + k) % 128 for k in range(count))
        count = (acknowledge - self.base) % 128
        if count <= (self.following - self.base) % 128:
            for _ in range(count):
                del self.kept[self.base]
                self.base = (self.base + 1) % 128
                self.since = self.tries = 0
        if what in (None, CARRIER):
            self._numbered(number, content, header >> 79 & 7, body)

    def _sync(self, content):
        """Who speaks with whom."""
        heard, first = content >> 7 & 1, content >> 8 & 127
        session, echo = content >> 22 & 65535, content >> 38 & 65535
        echoed = self.mine != 0 and echo == self.mine
        later = newer(session, self.peer)
        if self.joined:
            if not heard and echoed and later:
                self.joined = False
                self.peer = session
                self._begin(first)
            if not heard:
                self._announce()
            return
        sound = later or session == self.peer != 0
        if echoed and sound and (not heard or session == self.peer):
            self.joined = self.before = True
            self._begin(first)
        elif (echo and (self.mine == 0 or newer(echo, self.mine))) or (heard and echoed and later):
            self.mine = (echo + 1) % (1 << 16) or 1
        else:
            self.mine = self.mine or 1
        if sound:
            self.peer = session
        if not (heard and self.joined):
            self._announce()

    def _begin(self, first):
        self.expected = self.highest = first
        self.came = {}
        self.following, self.since, self.tries = self.base, 0, 0
        self.deaf = self.unheard = self.due = False
        self.again.clear()
        self.replies.clear()

    def _numbered(self, number, content, credits, body):
        self.due = True
        if (number - self.expected) % 128 >= self.slots or number in self.came:
            return
        if (number - self.expected) % 128 >= (self.highest - self.expected) % 128:
            if number != self.highest:
                last = (number - 1) % 128
                self.replies.append(("nak", self.highest, last))
            self.highest = (number + 1) % 128
        self.came[number] = content, credits, body
        while self.expected in self.came:
            content, credits, body = self.came.pop(self.expected)
            self.expected = (self.expected + 1) % 128
            for k in range(3):
                self.credits[k] += credits >> k & 1
                assert self.credits[k] <= self.limit or not self.strict, "a credit was made up"
                self.credits[k] = min(self.credits[k], self.limit)
            if content & 15:
                self.packets.append((content, body))
                self.owed[content & 3] += 1
                room = self.owed[content & 3] <= self.limit
                assert room or not self.strict, "sent without a credit"
