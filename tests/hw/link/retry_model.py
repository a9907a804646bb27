"""Independent model of one end of a link with retry, for packets of the switch.

It knows the frames and the rules of the documents only: the CRC is that of zlib, frames are kept in
dictionaries, and it sends what it may in any order.
"""

import zlib
from collections import deque

CONTENT = (1 << 79) - 1
START = 1 << 128
ACK, NAK, SYNC, SYNCED, REQUEST, CARRIER = range(6)


def crc(header, body):
    data = b"".join(flit.to_bytes(16, "little") for flit in body)
    return zlib.crc32(data + (header & (1 << 96) - 1).to_bytes(12, "little"))


def frame(content, *, number=0, acknowledge=0, credits=0, body=()):
    """The flits of a frame."""
    header = content | credits << 79 | number << 82 | acknowledge << 89
    return [header | crc(header, body) << 96 | START, *body]


def control(what, *, heard=0, first=0, last=0, session=0):
    """The content of a control frame."""
    return what << 4 | heard << 7 | first << 8 | last << 15 | session << 22


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
        self.phase, self.session = "silent", 0
        self.since = 0
        self.again = deque()
        # Receiving.
        self.expected, self.highest = 0, 0
        self.came = {}
        self.synced = False
        self.asked = 0
        self.replies = deque()
        self.due = False
        self.coming = []
        self.out = deque()
        self.failed = False

    def begin(self):
        """The engine starts anew."""
        self.owed = [0, 0, 0]
        self.credits = [self.limit] * 3

    # ---- What a `Link` asks for.

    @property
    def up(self):
        return self.phase == "running" and self.synced

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
        elif any(self.owed) and self.phase == "running" and len(self.kept) < self.slots:
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
            if self.phase != "silent" and header >> 96 == crc(header, body):
                self._frame(header, body)

    def step(self):
        self.since += 1
        self.asked += 1
        if self.phase == "running" and self.base == self.following:
            self.since = 0
        if self.since > self.timeout:
            self.since = 0
            if self.phase == "running":
                self.again.append(self.base)
            else:
                self.phase = "syncing"
                self._announce()
        if not self.synced and self.phase != "silent" and self.asked > self.timeout:
            self._request()

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
        self.replies.append(control(SYNC, first=self.base, session=self.session))

    def _request(self):
        self.asked = 0
        self.replies.append(control(REQUEST))

    def _choose(self):
        """The next frame to be sent, if any."""
        if self.replies:
            content = self.replies.popleft()
        elif self.up and self._number() is not None:
            number = self._take()
            content, credits, body = self.kept[number]
            self.due = False
            return frame(content, number=number, acknowledge=self.expected, credits=credits,
                         body=body)
        elif self.due and self.rng.random() < 0.5:
            content = control(ACK)
        else:
            return []
        self.due = False
        return frame(content | int(self.synced) << 7, acknowledge=self.expected)

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
            self.expected = self.highest = content >> 8 & 127
            self.came = {}
            self.synced = True
            self.replies.append(control(SYNCED, session=content >> 22 & 7))
        elif what == SYNCED:
            if self.phase == "syncing" and content >> 22 & 7 == self.session:
                self.phase, self.since = "running", 0
        elif what == REQUEST:
            if self.phase == "running":
                self.phase, self.session = "syncing", (self.session + 1) % 8
                self.following, self.since = self.base, 0
                self.again.clear()
                self._announce()
        if what == NAK and self.phase == "running":
            first, last = content >> 8 & 127, content >> 15 & 127
            self.again.extend((first + k) % 128 for k in range((last - first) % 128 + 1))
        if self.phase == "running" and (what in (None, CARRIER) or content >> 7 & 1):
            count = (acknowledge - self.base) % 128
            if count <= (self.following - self.base) % 128:
                for _ in range(count):
                    del self.kept[self.base]
                    self.base = (self.base + 1) % 128
                    self.since = 0
        if what in (None, CARRIER):
            self._numbered(number, content, header >> 79 & 7, body)

    def _numbered(self, number, content, credits, body):
        if not self.synced:
            self._request()
            return
        self.due = True
        if (number - self.expected) % 128 >= self.slots or number in self.came:
            return
        if (number - self.expected) % 128 >= (self.highest - self.expected) % 128:
            if number != self.highest:
                last = (number - 1) % 128
                self.replies.append(control(NAK, first=self.highest, last=last))
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
