// SPDX-License-Identifier: Apache-2.0
// C interface of the co-simulation, for library.py. Functions that can fail return a negative
// number and leave the text in `fws_error`. The structures match their namesakes in library.py.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "system.hpp"

using foldwire::HostOperation;
using foldwire::HostOutcome;
using foldwire::LinkPort;
using foldwire::Memory;
using foldwire::MemoryPort;
using foldwire::Node;
using foldwire::System;

extern "C" {

struct SystemConfig {
    uint64_t seed;
    uint64_t window_cycles;
    uint64_t quantum_cycles;
    uint64_t bucket_cycles;
    int32_t threads;
    int32_t skip_idle;
    int32_t record_beats;
};

struct NodeConfig {
    const char* engine;
    uint8_t* memory;
    uint64_t memory_base_address;
    uint64_t memory_bytes;
    uint64_t read_latency_cycles;
    uint64_t write_latency_cycles;
    double bytes_per_cycle;
    double memory_beats_per_cycle;
    double memory_stall_probability;
    double host_stall_probability;
    uint32_t outstanding_bursts;
    uint32_t drawn_as;
};

struct WireConfig {
    int32_t from_node, from_port, to_node, to_port;
    uint64_t latency_cycles;
    double stall_probability;
    double beats_per_cycle;
    double damage, loss, repetition;
    uint64_t packet_flits;
};

struct NodeShape {
    int32_t memory_ports, link_ports, bus_bytes, has_host;
};

struct LinkReport {
    uint64_t beats, flits, header_flits, first_cycle, last_cycle, stalled_cycles;
    const uint32_t *beat_series, *header_series, *payload_series;
    uint64_t buckets;
    const foldwire::BeatRecord* records;
};

struct MemoryReport {
    uint64_t read_bytes, written_bytes, read_bursts, write_bursts, decode_errors;
    const uint32_t *read_series, *written_series;
    uint64_t read_buckets, written_buckets;
};

System* fws_create(const SystemConfig* config) {
    auto* system = new System;
    system->window_cycles = config->window_cycles;
    system->quantum_cycles = config->quantum_cycles;
    system->threads = config->threads;
    system->options.seed = config->seed;
    system->options.bucket_cycles = config->bucket_cycles;
    system->options.skip_idle = config->skip_idle != 0;
    system->options.record_beats = config->record_beats != 0;
    return system;
}

void fws_destroy(System* system) { delete system; }

const char* fws_error(System* system) { return system->error.c_str(); }

static int guarded(System* system, const std::function<void()>& action) {
    try {
        action();
        return 0;
    } catch (const std::exception& exception) {
        system->error = exception.what();
        return -1;
    }
}

int fws_add_node(System* system, const NodeConfig* config, NodeShape* shape) {
    return guarded(system, [&] {
        Memory memory;
        memory.data = config->memory;
        memory.base_address = config->memory_base_address;
        memory.size_bytes = config->memory_bytes;
        memory.read_latency_cycles = config->read_latency_cycles;
        memory.write_latency_cycles = config->write_latency_cycles;
        memory.outstanding_bursts = config->outstanding_bursts;
        memory.stall_probability = config->memory_stall_probability;
        memory.bytes_per_cycle = config->bytes_per_cycle;
        memory.beats_per_cycle = config->memory_beats_per_cycle;
        foldwire::NodeOptions options = system->options;
        options.host_stall_probability = config->host_stall_probability;
        options.drawn_as = config->drawn_as;
        const Node& node = system->add_node(config->engine, memory, options);
        shape->memory_ports = static_cast<int32_t>(node.memories.size());
        shape->link_ports = static_cast<int32_t>(node.links.size());
        shape->bus_bytes = node.links.empty() ? 0 : node.links[0]->bus_bytes();
        shape->has_host = node.host.connected();
    });
}

int fws_set_input(System* system, int node, const char* name, uint64_t value) {
    return guarded(system, [&] { system->nodes[static_cast<size_t>(node)]->engine.set(name, value); });
}

int fws_get_output(System* system, int node, const char* name, uint64_t* value) {
    return guarded(system, [&] {
        auto& engine = system->nodes[static_cast<size_t>(node)]->engine;
        *value = engine.wide(engine.output(name), engine.width(name));
    });
}

int fws_watch(System* system, int node, const char* name) {
    return guarded(system, [&] { system->nodes[static_cast<size_t>(node)]->watch(name); });
}

// Returns how many words were kept of what is watched, and where they are.
uint64_t fws_samples(System* system, int node, const uint32_t** samples) {
    const auto& kept = system->nodes[static_cast<size_t>(node)]->samples;
    *samples = kept.data();
    return kept.size();
}

int fws_add_wire(System* system, const WireConfig* config) {
    return guarded(system, [&] {
        system->add_wire(config->from_node, config->from_port, config->to_node, config->to_port,
                         config->latency_cycles, config->stall_probability,
                         config->beats_per_cycle, config->damage, config->loss,
                         config->repetition, static_cast<int>(config->packet_flits));
    });
}

int fws_add_link_fault(System* system, int node, int port, int kind, uint64_t packet,
                       uint64_t packets, const int32_t* bits, int count) {
    return guarded(system, [&] {
        foldwire::LinkFault fault{static_cast<foldwire::LinkFault::Kind>(kind), packet, packets,
                                  std::vector<int>(bits, bits + count)};
        if (fault.kind == foldwire::LinkFault::stutter) fault.flit = static_cast<uint64_t>(bits[0]);
        system->port(node, port).add_fault(std::move(fault));
    });
}

// Without a range (end 0) all that were given before are forgotten.
int fws_fail_memory(System* system, int node, uint64_t first, uint64_t end, int reads, int writes) {
    return guarded(system, [&] {
        auto& bad = system->nodes[static_cast<size_t>(node)]->memory().bad;
        if (end == 0)
            bad.clear();
        else
            bad.push_back({first, end, reads != 0, writes != 0});
    });
}

// Lets a channel of all memory ports (0 to 4: AR, AW, W, R, B) move in every so many cycles alone.
void fws_pace_memory(System* system, int node, int channel, uint64_t every) {
    system->nodes[static_cast<size_t>(node)]->memory().every[channel] = every;
}

uint64_t fws_quiet_since(System* system) {
    uint64_t last = 0;
    for (const auto& node : system->nodes) last = std::max(last, node->quiet_since(system->now()));
    return last;
}

void fws_forget_faults(System* system, int node, int port) {
    system->port(node, port).forget_faults();
}

int fws_cut(System* system, int node, int port, int cut) {
    return guarded(system, [&] { system->port(node, port).cut(cut != 0); });
}

int fws_strain(System* system, int node, int port, const double* shares) {
    return guarded(system, [&] { system->port(node, port).strain(shares); });
}

int fws_tap(System* system, int node, int port, uint64_t payload_flits) {
    return guarded(system, [&] { system->port(node, port).tap(payload_flits); });
}

// Flits of 17 bytes: data, and 1 if it begins a packet. The packet takes a credit of class `traffic`,
// none if that is negative.
int fws_add_packet(System* system, int node, int port, const uint8_t* flits, uint64_t count,
                   int traffic) {
    return guarded(system, [&] {
        foldwire::AddedPacket packet{{}, traffic};
        for (uint64_t i = 0; i < count; ++i, flits += foldwire::flit_bytes + 1) {
            packet.flits.emplace_back();
            packet.flits.back().add(flits, flits[foldwire::flit_bytes] != 0);
        }
        system->port(node, port).add_packet(std::move(packet));
    });
}

// Added packets that have not been sent.
uint64_t fws_added(System* system, int node, int port) {
    return system->port(node, port).added();
}

// With `host`, what the host has still to do is given up.
int fws_reset_engine(System* system, int node, int host) {
    return guarded(system, [&] {
        if (host != 0) system->nodes.at(static_cast<size_t>(node))->host.abandon(system->now());
        system->reset_engine(node);
    });
}

uint64_t fws_struck(System* system, int node, int port) {
    return system->port(node, port).struck();
}

// Links of a node that were given up, a bit for each, when `fws_run` has said so.
uint32_t fws_given_up(System* system, int node) {
    return system->given_up.at(static_cast<size_t>(node));
}

// Packets that the wire of a port has damaged, lost and repeated at random.
void fws_met(System* system, int node, int port, uint64_t* kinds) {
    std::copy_n(system->port(node, port).met(), foldwire::Hazard::counted, kinds);
}

int fws_start(System* system) {
    return guarded(system, [&] { system->start(); });
}

void fws_push(System* system, int node, const HostOperation* operations, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
        system->nodes[static_cast<size_t>(node)]->host.push(operations[i]);
}

void fws_give_up(System* system) {
    for (auto& node : system->nodes) node->host.give_up(system->now());
}

// Returns the number of operations done so far, and where their outcomes are.
uint64_t fws_outcomes(System* system, int node, const HostOutcome** outcomes) {
    const auto& list = system->nodes[static_cast<size_t>(node)]->host.outcomes();
    *outcomes = list.data();
    return list.size();
}

int fws_run(System* system, uint64_t limit_cycle, double budget_s, int drain) {
    const foldwire::Status status = system->run(limit_cycle, budget_s, drain != 0);
    if (status == foldwire::Status::limit || status == foldwire::Status::stuck)
        system->error = system->unfinished(drain != 0);
    return static_cast<int>(status);
}

// Runs to a cycle, whatever the hosts have still to do.
int fws_advance(System* system, uint64_t end_cycle) {
    return static_cast<int>(system->advance(end_cycle));
}

struct Token {
    uint64_t cycle;  // of arrival
    uint32_t keep, user;
    uint32_t credit;
    uint32_t padding;
    uint8_t data[128];
};

// What arrives at the outside from a port in [begin, end); returns the number of tokens. At most
// one window at a time may be read, when the system has come to its end.
int fws_external_read(System* system, int node, int port, uint64_t begin, uint64_t end,
                      Token* tokens) {
    int count = -1;
    const int status = guarded(system, [&] {
        const foldwire::Wire& wire = system->external(node, port, true);
        count = 0;
        for (uint64_t cycle = begin; cycle < end; ++cycle) {
            if (!wire.beat(cycle) && !wire.credit(cycle)) continue;
            Token& token = tokens[count++];
            token = {cycle, 0, 0, wire.credit(cycle), 0, {}};
            if (!wire.beat(cycle)) continue;
            token.keep = wire.keep(cycle);
            token.user = wire.user(cycle);
            std::memcpy(token.data, wire.data(cycle), static_cast<size_t>(wire.bus_bytes()));
        }
    });
    return status < 0 ? status : count;
}

// Puts tokens on their way from the outside to a port: all that arrive in the next window.
int fws_external_write(System* system, int node, int port, const Token* tokens, uint64_t count) {
    return guarded(system, [&] {
        foldwire::Wire& wire = system->external(node, port, false);
        for (uint64_t i = 0; i < count; ++i) {
            const Token& token = tokens[i];
            const uint64_t sent = token.cycle - wire.latency();
            if (token.keep != 0) wire.send_beat(sent, token.data, token.keep, token.user);
            if (token.credit != 0) wire.send_credit(sent, token.credit);
        }
    });
}

uint64_t fws_cycle(System* system) { return system->now(); }

uint64_t fws_stepped_cycles(System* system, int node) {
    return system->nodes[static_cast<size_t>(node)]->stepped_cycles;
}

void fws_link_report(System* system, int node, int port, LinkReport* report) {
    const LinkPort& link = *system->nodes[static_cast<size_t>(node)]->links[static_cast<size_t>(port)];
    const auto& counts = link.counts;
    *report = {counts.beats,
               counts.flits,
               counts.headers,
               counts.first_cycle,
               counts.last_cycle,
               counts.stalled_cycles,
               link.beat_series.data(),
               link.header_series.data(),
               link.payload_series.data(),
               link.beat_series.size(),
               link.records.data()};
}

void fws_memory_report(System* system, int node, int port, MemoryReport* report) {
    const MemoryPort& memory =
        *system->nodes[static_cast<size_t>(node)]->memories[static_cast<size_t>(port)];
    const auto& counts = memory.counts;
    *report = {counts.read_bytes,
               counts.written_bytes,
               counts.read_bursts,
               counts.write_bursts,
               counts.decode_errors,
               memory.read_series.data(),
               memory.written_series.data(),
               memory.read_series.size(),
               memory.written_series.size()};
}

}  // extern "C"
