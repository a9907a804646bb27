# SPDX-License-Identifier: Apache-2.0
"""An all-reduce driven by cores: how many are needed to fill the links (ACE v1, section 3).

In every step of a ring each node loads its local data and the received message, adds, and writes
the sum to a neighbour: 2 bytes loaded and 1 byte written per byte sent. Cores have a rate for loads
and one for remote writes. The model of section 3 divides the time into parts that follow each
other: the local sum, which takes as long as its loads, with the addition and the local write
behind them; the remote write, at the rate of the links or of the cores' writes; and a constant
overhead of the step.
"""

from dataclasses import dataclass

from sim.fields import FieldError

__all__ = ["CoreModel"]

LOADS_PER_BYTE = 2.0


@dataclass(frozen=True, kw_only=True)
class CoreModel:
    """Parameters of section 3; the defaults are those of its text.

    Parameters
    ----------
    nodes : int
        Nodes of the torus.
    size_bytes : int
        Vector of the all-reduce.
    network_bytes_per_s : float
        All links of a node together, headers deducted.
    load_bytes_per_s, write_bytes_per_s : float
        Rates of one core.
    memory_bytes_per_s : float
        Shared by all cores.
    step_s : float
        Overhead of every step.
    steps : int
        Steps one after the other.
    """

    nodes: int = 16
    size_bytes: int = 16 * 2**20
    network_bytes_per_s: float = 4 * 25e9 * 0.95
    load_bytes_per_s: float = 64e9
    write_bytes_per_s: float = 32e9
    memory_bytes_per_s: float = 1e12
    step_s: float = 0.0
    steps: int = 30

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name == "step_s" else 1
            if not value >= least:
                raise FieldError(name, f"must be at least {least}, not {value!r}")

    @property
    def sent_bytes(self) -> float:
        """Bytes that every node sends: 2 (N-1)/N of the vector."""
        return 2 * (self.nodes - 1) / self.nodes * self.size_bytes

    def rate(self, cores: int) -> float:
        """Bytes per second that a node sends where all parts hide behind the slowest of them."""
        return min(self._remote_rate(cores), self._local_rate(cores))

    def seconds(self, cores: int) -> float:
        """Duration of the whole all-reduce, with its parts one after the other."""
        local = self.sent_bytes / self._local_rate(cores)
        return local + self.sent_bytes / self._remote_rate(cores) + self.steps * self.step_s

    def utilisation(self, cores: int) -> float:
        """Share of the network's payload bandwidth that is in use."""
        return self.sent_bytes / self.network_bytes_per_s / self.seconds(cores)

    def ideal_utilisation(self, cores: int) -> float:
        """Utilisation if all other parts and overheads hide behind the slowest part."""
        return self.rate(cores) / self.network_bytes_per_s

    def cores_to_fill(self) -> int:
        """The fewest cores whose loads and writes keep up with the links."""
        cores = 1
        while self.rate(cores) < min(self.network_bytes_per_s, self.memory_bytes_per_s / 3):
            cores += 1
        return cores

    def _remote_rate(self, cores: int) -> float:
        if cores < 1:
            raise FieldError("cores", f"must be at least 1, not {cores!r}")
        return min(self.network_bytes_per_s, cores * self.write_bytes_per_s)

    def _local_rate(self, cores: int) -> float:
        """Rate of the local sum, in bytes sent; memory takes the local write beside the loads."""
        if cores < 1:
            raise FieldError("cores", f"must be at least 1, not {cores!r}")
        return min(
            cores * self.load_bytes_per_s / LOADS_PER_BYTE,
            self.memory_bytes_per_s / (LOADS_PER_BYTE + 1),
        )
