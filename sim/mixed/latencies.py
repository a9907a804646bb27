from dataclasses import dataclass, asdict
from hw.ace.config import AceConfig
from hw.ace.phase_fsm import LOOKUP_LATENCY


@dataclass(frozen=True, kw_only=True)
class Latencies:
    register_write: int = 3
    register_read: int = 4
    sample: int = 1
    command: int = 1
    check: int = 5
    chunk: int = 2
    report: int = 3
    event: int = 2
    queue: int = 1
    parse: int = 3
    credit: int = 1
    drain: int = 2
    acknowledge: int = 2
    interrupt: int = 2

    @classmethod
    def measured(cls):
        return cls()

    def of(self, c):
        d = asdict(self)
        d["lookup"] = LOOKUP_LATENCY
        if c.rx_packets >= 64:
            d["parse"] += 1
        return d
