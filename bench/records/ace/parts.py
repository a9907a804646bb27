# SPDX-License-Identifier: Apache-2.0
"""Parts of ACE in a small configuration."""

from dataclasses import replace

from hw.ace import (
    alu_pool,
    beat_issue,
    command_arbiter,
    command_table,
    completions,
    config,
    contexts,
    control,
    copy_unit,
    data_path,
    dispatcher,
    dma,
    engine,
    forward_gate,
    lookup,
    packet_lookup,
    packet_outcome,
    partitions,
    phase_counts,
    phase_fsm,
    port,
    ready_table,
    ready_turns,
    receive_unit,
    reduce_path,
    registers,
    request_buffer,
    retry,
    send_generator,
    send_unit,
    sram,
)
from hw.common.registers import RegisterFile
from hw.link.retry_frame import RetryConfig

__all__ = ["PARTS", "WHOLE"]

_ACE = config.preset("test")
_DUO = config.preset("duo")
_PHASED = replace(
    _ACE, partitions="phase", phases=2, fsms=2, contexts=2, phase_fsms=(1, 1),
    partition_slots=(2, 1, 2),
)
_RETRY = RetryConfig(slots=2, timeout_cycles=16, tries=2, keepalive_cycles=16)

PARTS = {
    "RegisterFile": lambda: RegisterFile(registers.register_map(_ACE)),
    "BankedSRAM": lambda: sram.BankedSRAM(
        depth=8, width=8, banks=2, bank_ports="1r1w", readers=2, writers=2
    ),
    "BankedSRAM, groups": lambda: sram.BankedSRAM(
        depth=16, width=8, banks=4, interleave=2, bank_ports="1rw", readers=2, writers=1
    ),
    "SendUnit": lambda: send_unit.SendUnit(_ACE),
    "BlockWalker": lambda: dma.BlockWalker(_ACE),
    "ForwardGate": lambda: forward_gate.ForwardGate(_ACE),
    "PacketOutcome": lambda: packet_outcome.PacketOutcome(_ACE),
    "CompletionQueue": lambda: completions.CompletionQueue(_ACE),
    "EngineControl": lambda: control.EngineControl(_ACE),
    "CommandArbiter": lambda: command_arbiter.CommandArbiter(_DUO),
    "PortCommands": lambda: command_arbiter.PortCommands(_DUO),
    "CommandTable": lambda: command_table.CommandTable(_ACE),
    "PacketLookup": lambda: packet_lookup.PacketLookup(_ACE),
    "LookupPipeline": lambda: lookup.LookupPipeline(_ACE),
    "ReadyTable": lambda: ready_table.ReadyTable(_ACE),
    "ReadyTurns": lambda: ready_turns.ReadyTurns(_ACE),
    "ContextTable": lambda: contexts.ContextTable(_ACE),
    "SendGenerator": lambda: send_generator.SendGenerator(_ACE),
    "AceReducePath": lambda: reduce_path.ReducePath(_ACE),
    "ALUPool": lambda: alu_pool.ALUPool(_ACE),
    "TxDMA": lambda: dma.TxDMA(_ACE),
    "RxDMA": lambda: dma.RxDMA(_ACE),
    "ReceiveUnit": lambda: receive_unit.ReceiveUnit(_ACE),
    "RequestBuffer": lambda: request_buffer.RequestBuffer(_ACE, {"last": 1}),
    "BeatIssue": lambda: beat_issue.BeatIssue(_ACE),
    "Dispatcher": lambda: dispatcher.Dispatcher(_ACE),
    "PhaseFSM": lambda: phase_fsm.PhaseFSM(_ACE),
    "Port": lambda: port.Port(_ACE),
    "PhaseCounts": lambda: phase_counts.PhaseCounts(_ACE),
    "DataPath": lambda: data_path.DataPath(_ACE),
    "MemoryPort": lambda: dma.MemoryPort(_ACE, stores=2),
    "CopyUnit": lambda: copy_unit.CopyUnit(_PHASED),
    "PhaseQueue": lambda: partitions.PhaseQueue(_PHASED, 0),
    "PartitionChain": lambda: partitions.PartitionChain(_PHASED),
    "ContextTable, partitions": lambda: contexts.ContextTable(_PHASED),
    "LookupPipeline, partitions": lambda: lookup.LookupPipeline(_PHASED),
}

WHOLE = {
    "AceEngine": lambda: engine.AceEngine(_ACE),
    "AceEngine, partitions": lambda: engine.AceEngine(_PHASED),
    "RetryAce": lambda: retry.RetryAce(retry.RetryAceConfig(ace=_ACE, retry=_RETRY)),
}
