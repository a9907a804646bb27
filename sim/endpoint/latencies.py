# SPDX-License-Identifier: Apache-2.0
"""Latencies of event endpoints, as ``sim.cycles.measure`` finds them with the cycle models."""

from dataclasses import dataclass

from sim.stored import StoredTable

__all__ = ["EventLatencies"]


@dataclass(frozen=True, kw_only=True)
class EventLatencies(StoredTable):
    """Latencies in cycles, beside links, beats, memories and what follows from configurations.

    Parameters
    ----------
    nic_host, switch_start : int
        Once in a collective: register writes, its begin, and the poll that sees its end.
    ace_start : int
        Once in a collective: register writes, and its begin.
    ace_first_poll, ace_poll, ace_seen : int
        From the first register write to the end of the first poll, from one poll to the next, and
        at least from a completion to the end of the poll that sees it.
    nic_sum, nic_result, nic_gather : int
        From the end of a frame to the link again as a sum, beside the adders; from the last sum to
        the link as a result; from the end of a result's frame to the link again.
    nic_codec : int
        Encoder and decoder of a block, added to ``nic_sum``.
    nic_burst, ace_burst : int
        Overhead of a burst that another one waits for.
    ace_dispatch : int
        From one chunk that is admitted to the next.
    ace_ready, ace_ready_patience : int
        From the last beat of a chunk to a send to the node that has loaded it; extra on wide links.
    ace_hop, ace_patience : int
        From the end of a packet to the link again; extra on links of several flits in a beat, whose
        last beat waits for flits to fill it.
    ace_generate : int
        FSM time for a packet of a node's own data.
    ace_turn : int
        From the last packet of a phase to the next one's first send, beside that of a packet that
        is passed on; its peer is ready.
    ace_hand_over : int
        With partitions by phase: from the end of a chunk's phase to its next one, beside READY.
    ace_copy : int
        From the beginning of a phase in which the copy unit moves a packet to its end, beside its
        beats.
    ace_store : int
        From the last packet of a chunk to memory.
    ace_fetch : int
        From the last beat of a chunk that is read to its READY on the link.
    ace_receive, ace_alu : int
        From the last flit of a packet in to its first flit out; extra if it is added to.
    ace_end : int
        From the last beat of a chunk that is written to its completion, beside the memory.
    ace_credit, switch_credit : int
        Round trip of a credit.
    switch_end : int
        From a result to its completion.
    switch_pass : int
        Passage of a packet through a switch, beside its own flits: from its last flit on one link
        to its first on the next.
    switch_sum : int
        From the last operand, behind the adders, to the link.
    switch_barrier : int
        Once in a pull, up to the first load, beside the way of the block that all push before.
    switch_load, switch_load_on : int
        From a load at a switch to its entry, beside ``switch_pass``; to the next link, likewise.
    switch_answer : int
        From a load to its answer, or to the store with an own operand.
    switch_result, switch_own_result : int
        From a sum to the result on the link, beside the home store; and to the endpoint itself.
    switch_detour : int
        From an entry's end to the link as a result, by a home endpoint, beside the sum's way there
        and back.
    switch_operand : int
        Time for which a place to read into is taken.
    """

    nic_host: int
    nic_sum: int
    nic_result: int
    nic_gather: int
    nic_codec: int
    nic_burst: int
    ace_start: int
    ace_first_poll: int
    ace_poll: int
    ace_seen: int
    ace_dispatch: int
    ace_ready: int
    ace_ready_patience: int
    ace_hop: int
    ace_patience: int
    ace_generate: int
    ace_turn: int
    ace_hand_over: int
    ace_copy: int
    ace_store: int
    ace_fetch: int
    ace_receive: int
    ace_alu: int
    ace_end: int
    ace_credit: int
    ace_burst: int
    switch_start: int
    switch_end: int
    switch_pass: int
    switch_sum: int
    switch_barrier: int
    switch_load: int
    switch_load_on: int
    switch_answer: int
    switch_result: int
    switch_own_result: int
    switch_detour: int
    switch_operand: int
    switch_credit: int
