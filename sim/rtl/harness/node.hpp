// SPDX-License-Identifier: Apache-2.0
// One node: an engine with its host, its memory ports and its link ports. And nodes whose engines
// are lanes of one model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine.hpp"
#include "host.hpp"
#include "link.hpp"
#include "memory.hpp"

namespace foldwire {

// An engine counts as at rest only after this many quiet cycles, so that an `idle` output that
// lags behind the inputs by a few registers is safe to rely on.
constexpr uint64_t rest_cycles = 16;
constexpr int reset_cycles = 4;
// Of the watched ports of a node, in words; what comes later is not kept.
constexpr size_t most_samples = size_t{1} << 24;

struct NodeOptions {
    uint64_t seed = 0;
    uint64_t bucket_cycles = 0;
    bool record_beats = false;
    bool skip_idle = true;
    double host_stall_probability = 0;
    // That random draws know the node by.
    uint64_t drawn_as = 0;
};

class Node {
public:
    Node(Model& model, int lane, int number, const Memory& memory, const NodeOptions& options)
        : engine(model, lane),
          memory_(memory),
          host(engine, options.host_stall_probability, options.seed, options.drawn_as),
          drawn_as(options.drawn_as),
          number_(number),
          skip_idle_(options.skip_idle) {
        has_idle_ = engine.has("idle");
        idle_ = engine.optional_output("idle");
        failed_ = engine.optional_output("failed");
        for (int i = 0; engine.has("mem_" + std::to_string(i) + "_araddr"); ++i) {
            memories.push_back(std::make_unique<MemoryPort>(engine, i, memory_, options.seed,
                                                            options.drawn_as));
            memories.back()->record(options.bucket_cycles);
        }
        for (int i = 0; LinkPort::there(engine, i); ++i) {
            links.push_back(std::make_unique<LinkPort>(engine, i));
            links.back()->record(options.bucket_cycles, options.record_beats);
        }
    }

    Memory& memory() { return memory_; }

    // The engine was reset alone, in no time; the rest of the system goes on.
    void engine_was_reset() {
        for (auto& memory : memories) memory->reset();
        for (auto& link : links) link->reset();
        quiet_cycles_ = 0;
    }

    // The first cycle from which on the host had nothing to do and no packet was sent
    // to another node.
    uint64_t quiet_since(uint64_t now) const {
        uint64_t last = !host.done() ? now : host.outcomes().empty() ? 0 : host.outcomes().back().cycle + 1;
        for (const auto& link : links)
            if (link->counts.beats != 0 && !link->outward) last = std::max(last, link->counts.last_cycle + 1);
        return last;
    }

    // Sets the inputs of the engine for a cycle. False if it need not be stepped, or after an error.
    bool begin(uint64_t now) {
        if (!error.empty()) return false;
        if (active(now)) {
            quiet_cycles_ = 0;
        } else if (++quiet_cycles_ > rest_cycles && skip_idle_ && has_idle_) {
            return false;
        }
        const char* unit = "";
        size_t index = 0;
        try {
            host.cycle(now);
            unit = " mem ";
            bool bandwidth_free = memory_.pace.free_at(now);
            for (index = 0; index < memories.size(); ++index)
                memories[index]->cycle(now, bandwidth_free);
            unit = " link ";
            for (index = 0; index < links.size(); ++index) links[index]->cycle(now);
        } catch (const Violation& violation) {
            error = "node " + std::to_string(number_) + unit +
                    (*unit != 0 ? std::to_string(index) : "") + " cycle " + std::to_string(now) +
                    ": " + violation.text;
            error_cycle = now;
            return false;
        }
        return true;
    }

    // The engine has made the step of that cycle.
    void end(uint64_t now) {
        ++stepped_cycles;
        if (!watched_.empty()) sample(now + 1);
    }

    // Keeps every change of a port from now on.
    void watch(const std::string& name) {
        const size_t words = static_cast<size_t>(engine.width(name) + 31) / 32;
        watched_.push_back({engine.either(name), std::vector<uint32_t>(words), false});
    }

    // Links with retry that the engine has given up since this was asked last, a bit for each.
    uint32_t given_up() {
        const uint32_t before = failed_before_;
        failed_before_ = *failed_;
        return failed_before_ & ~before;
    }

    bool at_rest() const { return quiet_cycles_ >= rest_cycles; }

    std::string state() const {
        std::string text = "node " + std::to_string(number_) + ":";
        static const char* const kinds[] = {"write", "read", "wait_register", "wait_irq", "delay",
                                            "wait_at_least"};
        if (host.done()) {
            text += " script done";
        } else {
            const HostOperation& operation = host.operation();
            text += " in operation " + std::to_string(host.current()) + " (" +
                    kinds[static_cast<int>(operation.kind)];
            if (operation.kind != HostKind::wait_irq && operation.kind != HostKind::delay) text += " " + hex(operation.address);
            text += ") since cycle " + std::to_string(host.started_cycle());
        }
        if (has_idle_) text += (*idle_ & 1) != 0 ? ", idle" : ", busy";
        for (size_t i = 0; i < memories.size(); ++i)
            if (memories[i]->busy())
                text += ", mem " + std::to_string(i) + " has " +
                        std::to_string(memories[i]->open_reads()) + " reads and " +
                        std::to_string(memories[i]->open_writes()) + " writes open";
        return text;
    }

    Engine engine;

private:
    Memory memory_;

public:
    Host host;
    const uint64_t drawn_as;
    std::vector<std::unique_ptr<MemoryPort>> memories;
    std::vector<std::unique_ptr<LinkPort>> links;
    std::string error;
    uint64_t error_cycle = 0;
    uint64_t stepped_cycles = 0;
    // Each: cycle (two words, low first), number of the watched port, its words.
    std::vector<uint32_t> samples;

private:
    struct Watched {
        const uint32_t* data;
        std::vector<uint32_t> last;
        bool known;
    };

    void sample(uint64_t cycle) {
        for (size_t i = 0; i < watched_.size() && samples.size() < most_samples; ++i) {
            Watched& port = watched_[i];
            const uint32_t* end = port.data + port.last.size();
            if (port.known && std::equal(port.data, end, port.last.begin())) continue;
            samples.insert(samples.end(), {static_cast<uint32_t>(cycle),
                                           static_cast<uint32_t>(cycle >> 32),
                                           static_cast<uint32_t>(i)});
            samples.insert(samples.end(), port.data, end);
            port.last.assign(port.data, end);
            port.known = true;
        }
    }

    // Whether anything happens at the boundary in this cycle, or may happen by itself.
    bool active(uint64_t now) const {
        if (has_idle_ && (*idle_ & 1) == 0) return true;
        for (const auto& link : links)
            if (link->arrives(now) || link->sends()) return true;
        for (const auto& port : memories)
            if (port->busy()) return true;
        return host.acts(now);
    }

    int number_;
    bool has_idle_ = false;
    const uint32_t* idle_ = nullptr;
    const uint32_t* failed_ = nullptr;
    uint32_t failed_before_ = 0;
    bool skip_idle_;
    uint64_t quiet_cycles_ = 0;
    std::vector<Watched> watched_;
};

// The nodes of one model, in step with one another.
class Group {
public:
    explicit Group(const std::string& path) : model(path) {}

    bool full() const { return nodes.size() == static_cast<size_t>(model.lanes); }

    void reset() {
        for (Node* node : nodes) node->engine.set("rst", 1);
        for (int i = 0; i < reset_cycles; ++i) model.cycle();
        for (Node* node : nodes) node->engine.set("rst", 0);
    }

    void run(uint64_t begin, uint64_t end) {
        for (uint64_t now = begin; now < end; ++now) {
            uint32_t stepped = 0;
            for (size_t i = 0; i < nodes.size(); ++i)
                stepped |= static_cast<uint32_t>(nodes[i]->begin(now)) << i;
            if (stepped == 0) continue;
            // A node at rest is stepped with the others, which an engine that is idle stands.
            model.cycle();
            for (size_t i = 0; i < nodes.size(); ++i)
                if ((stepped >> i & 1) != 0) nodes[i]->end(now);
        }
    }

    Model model;
    std::vector<Node*> nodes;
};

}  // namespace foldwire
