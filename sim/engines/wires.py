# SPDX-License-Identifier: Apache-2.0
"""What descriptions say of wires and links with retry, for engines at levels cycles and rtl."""

from typing import Any

from sim.describe.levels import refused_at
from sim.describe.reader import ConfigError
from sim.describe.sections import WIRE_KEYS, Description
from sim.fields import FieldError

__all__ = ["refused", "stated_at", "wires"]

MOST_RETRY_CYCLES = 65535
_END_CYCLES = 26  # of both ends of a link with retry, beside the wire


def refused(
    description: Description, section: str, what: str, key: str = "", index: int = -1
) -> ConfigError:
    """The error of something that the level of a description does not have."""
    return refused_at(description.level, description.reader, section, key, what, index)


def stated_at(description: Description, key: str, index: int = 0) -> tuple[str, int]:
    """Section and index at which a key of a dimension is stated: for all, or for one."""
    if getattr(description.topology, key) is None:
        return "dimension", index
    return "topology", -1


def wires(description: Description, latency: int, frame: int) -> dict[str, Any]:
    """Settings of the faults of wires, and of links with retry, which repair them.

    Parameters
    ----------
    latency : int
        Of the longest link, in cycles.
    frame : int
        Cycles that a frame keeps it busy.

    Raises
    ------
    ConfigError
        Faults without retry, or a time-out that links cannot have.
    """
    from hw.link.retry_frame import RetryConfig

    reader, network = description.reader, description.network
    if not network.retry:
        for name in WIRE_KEYS:
            if value := getattr(network, name):
                what = f"must be 0, not {value:g}: network.retry = true gets over it"
                raise reader.error("network", name, what)
        return {}
    least = 2 * latency + 2 * frame + _END_CYCLES
    if least > MOST_RETRY_CYCLES:
        what = f"must be false: links of {latency} cycles need a time-out of {least} cycles, "
        raise reader.error("network", "retry", f"{what}and it has at most {MOST_RETRY_CYCLES}")
    stated = network.retry_timeout_cycles
    # An answer waits behind a frame on its way and behind frames that the wire repeats.
    period = min(least + 6 * frame, MOST_RETRY_CYCLES) if stated is None else stated
    if not least <= period <= MOST_RETRY_CYCLES:
        what = (
            f"must be from {least} (a round trip, {2 * latency} cycles, two frames and what both "
            f"ends need) to {MOST_RETRY_CYCLES}, not {period}"
        )
        raise reader.error("network", "retry_timeout_cycles", what)
    try:
        retry = RetryConfig(
            slots=network.retry_slots, timeout_cycles=period, tries=network.retry_tries
        )
    except FieldError as error:
        raise reader.error("network", f"retry_{error.field}", error.what) from error
    return {
        "link_loss": network.loss_probability,
        "link_repetition": network.repetition_probability,
        "link_damage": network.damage_probability,
        "retry": retry,
    }
