# SPDX-License-Identifier: Apache-2.0
"""The sends of a job as records: entries, channels, and stages of endpoints."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from sim.collectives.program import Receipt, Relay, Send, Source
from sim.endpoint.endpoint import EndpointModel, Stage, Unit
from sim.events.kernel import constants
from sim.events.legs import chains_of
from sim.network.network import Channel, Network
from sim.units import FS_PER_S, seconds_to_fs

__all__ = ["Row", "SendTables"]

Row: TypeAlias = tuple[float, ...]
"""One record of the kernel; integers are floats to the type checker."""

ORDINARY = 0.0, -1, 0, 0
"""Last fields of an ordinary message: no headers that ask, no class of credits, no operand read;
data of the node's own."""
FORWARDED = 0.0, -1, 0, 1
def _before(send: Send, otherwise: Sequence[Stage], model: EndpointModel) -> Sequence[Stage]:
    return model.steps.get(send.step, otherwise) if send.step else otherwise


def _headed(send: Send, model: EndpointModel) -> tuple[float, int, int, int]:
    """Last fields of a send: headers that ask for data, as a fraction of data; the class whose
    credits are needed; 1 if an operand is read for it; 0, as only messages to members are ever
    forwarded before others."""
    if model.tables is None:
        return ORDINARY
    return send.asks * model.tables.ask_share, send.traffic, int(send.reads), 0


class SendTables:
    """Collects records; indices into the lists become indices into the kernel's arrays."""

    def __init__(self, network: Network, software: bool) -> None:
        self.network = network
        self.software = software
        self.folded = False
        self.rows = network.nodes
        self.models: dict[int, EndpointModel] = {}
        self.entries: list[Row] = []
        self.route_of_entry: list[int] = []
        self.relays: list[Row] = []
        self.relay_needs: list[np.ndarray] = []
        self.relay_tables: list[np.ndarray] = []
        self.relay_at: dict[tuple[int, int], int] = {}
        self.relay_number: dict[int, int] = {}  # of its phase
        self.stages: list[Row] = []
        self.stage_ranges: dict[
            tuple[tuple[int, int], tuple[Stage, ...]], tuple[int, int]
        ] = {}
        self.place = 0, 0  # dimension and ring of the phase whose sends are added
        self.units: list[str] = []
        self.servers: list[int] = []
        self.turns: list[int] = []
        self.with_outboxes: set[int] = set()  # numbers of units
        self.peers: list[np.ndarray] = []
        self.links: list[np.ndarray] = []
        self.peer_count = 0
        self.link_count = 0
        self.links_at: dict[int, int] = {}  # the entry of `links` of a channel
        self.routes: list[np.ndarray] = []
        self.channel_at: dict[int, tuple[int, int, int, int]] = {}
        self.chains: dict[int, list[list[Channel]]] = {}
        self._classes: tuple[np.ndarray, np.ndarray] | None = None

    def _ways(self, channel: Channel) -> list[list[Channel]]:
        """The channel itself, or with software routing its chains of legs."""
        if not self.software:
            return [[channel]]
        if id(channel) not in self.chains:
            self.chains[id(channel)] = chains_of(self.network, channel)
        return self.chains[id(channel)]

    def _add(self, row: Row, route: int) -> int:
        self.entries.append(row)
        self.route_of_entry.append(route)
        return len(self.entries) - 1

    def _entries(self, send: Send, model: EndpointModel) -> list[tuple[Row, int]]:
        """The entries that the node itself makes for a send, and their routes. Those of nodes that
        pass the message on are added at once."""
        if send.relay is not None:
            before = model.stages_before(send.source)
            return [self._to_relay(send, _before(send, before, model), model)]
        return [
            self._chain(
                way,
                send.fraction,
                send.slot,
                model.stages_before(send.source),
                model.stages_after(send.receipt),
                model,
                forwards=send.source in (Source.REDUCED, Source.FORWARD),
            )
            for way in self._ways(send.channel)
        ]

    def _chain(
        self,
        way: Sequence[Channel],
        fraction: float,
        slot: int,
        before: Sequence[Stage],
        after: Sequence[Stage],
        model: EndpointModel,
        *,
        forwards: bool = False,
    ) -> tuple[Row, int]:
        onward = -1
        for leg in range(len(way) - 1, -1, -1):
            last = leg + 1 == len(way)
            peers, links, hops, route = self._channel(way[leg])
            row = (
                fraction,
                peers,
                links,
                hops,
                slot if last else -1,
                *self._making(before if leg == 0 else model.stages_before(Source.FORWARD)),
                *self._stages(after if last else model.stages_after(Receipt.KEEP)),
                onward,
                *(FORWARDED if forwards or leg > 0 else ORDINARY),
            )
            if leg > 0:
                onward = self._add(row, route)
        return row, route

    def _to_relay(
        self, send: Send, before: Sequence[Stage], model: EndpointModel
    ) -> tuple[Row, int]:
        assert send.relay is not None
        peers, links, hops, route = self._channel(send.channel)
        return (
            send.fraction, peers, links, hops, constants.RELAYED, *self._stages(before), -1,
            *self._stages(()), self._relay(send.relay, model), *_headed(send, model),
        ), route

    def _relay(self, relay: Relay, model: EndpointModel) -> int:
        """The number of a relay; its sends, and the relays behind them, are added with it."""
        key = (id(relay), id(model))
        if key not in self.relay_at:
            rows = []
            table, adds = -1, -1
            if relay.table is not None and model.tables is not None:
                table = len(self.relay_tables) * self.network.vertices
                self.relay_tables.append(relay.table.astype(np.int32))
                if relay.adds is not None:
                    adds = self._relay(relay.adds, model)
            for send in relay.sends:
                # Members that forward a message pass the stages of its step.
                source = model.stages_before(send.source) if send.step else ()
                before = _before(send, source, model)
                if send.relay is not None:
                    rows.append(self._to_relay(send, before, model))
                    continue
                peers, links, hops, route = self._channel(send.channel)
                stages = *self._stages(before), -1, *self._stages(model.stages_after(send.receipt))
                row: Row = (send.fraction, peers, links, hops, send.slot, *stages, -1)
                rows.append(((*row, *_headed(send, model)), route))
            first = len(self.entries)
            for row, route in rows:
                self._add(row, route)
            needs = len(self.relay_needs) * self.network.vertices
            self.relay_needs.append(relay.needs.astype(np.int32))
            number = self.relay_number[id(relay)]
            held = 0.0 if model.tables is None else relay.held / model.tables.packet_bytes
            self.relays.append(
                (needs, number, first, len(self.entries), int(relay.kind), adds, table, held)
            )
            self.relay_at[key] = len(self.relays) - 1
        return self.relay_at[key]

    def _silent(self) -> tuple[Row, int]:
        """An entry by which nobody sends anything."""
        nobody = np.full(self.network.nodes, -1)
        channel = self.network.table("nobody", nobody)
        peers, links, hops, route = self._channel(channel)
        return (0.0, peers, links, hops, -1, 0, 0, -1, 0, 0, -1, *ORDINARY), route

    # ---- Channels and stages.

    def _channel(self, channel: Channel) -> tuple[int, int, int, int]:
        """First of its peers, first of its links, hops, and number of the route."""
        if id(channel) not in self.channel_at:
            peer, links = channel.peer, channel.links
            if len(links) > constants.LIMITS["hops"]:
                raise ValueError(
                    f"a route has {len(links)} hops, more than {constants.LIMITS['hops']}; use an "
                    "algorithm that sends to neighbours, or smaller rings"
                )
            if self.folded:
                if self._classes is None:
                    self._classes = self.network.link_classes()
                peer, links = np.zeros(1, np.int64), self._classes[1][links[:, :1]]
            place = self.peer_count, self.link_count, len(links), len(self.routes)
            self.channel_at[id(channel)] = place
            self.links_at[id(channel)] = len(self.links)
            self.routes.append(channel.links)
            self.peers.append(peer.astype(np.int32))
            self.links.append(links.astype(np.int32).ravel())
            self.peer_count += peer.size
            self.link_count += links.size
        return self.channel_at[id(channel)]

    def _stages(self, stages: Sequence[Stage]) -> tuple[int, int]:
        key = self.place, tuple(stages)
        if key not in self.stage_ranges:
            first = len(self.stages)
            for stage in stages:
                unit = -1 if stage.unit is None else self._unit(stage.unit)
                if stage.outbox:
                    self.with_outboxes.add(unit)
                self.stages.append(
                    (
                        unit,
                        stage.s_per_byte * FS_PER_S,
                        seconds_to_fs(stage.fixed_s),
                        seconds_to_fs(stage.latency_s),
                        seconds_to_fs(stage.ahead_s),
                        stage.share,
                    )
                )
            self.stage_ranges[key] = first, len(self.stages)
        return self.stage_ranges[key]

    def _making(self, stages: Sequence[Stage]) -> tuple[int, int, int]:
        """Range of the stages before a link, and the one whose unit has an outbox for it, or -1."""
        first, end = self._stages(stages)
        places = [first + n for n, each in enumerate(stages) if each.outbox]
        return first, end, (*places, -1)[0]

    def _unit(self, name: str) -> int:
        stated = (each for model in self.models.values() for each in model.units)
        unit = next((each for each in stated if each.name == name), Unit(name=name))
        _, ring = self.place
        if unit.per_ring and ring:
            name = f"{name} {ring}"
        if name not in self.units:
            self.units.append(name)
            self.servers.append(unit.servers)
            self.turns.append(unit.turns)
        return self.units.index(name)
