// SPDX-License-Identifier: Apache-2.0
// The host of one node: works through a queue of register accesses and waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine.hpp"
#include "random.hpp"

namespace foldwire {

enum class HostKind : uint32_t { write, read, wait_register, wait_irq, delay, wait_at_least };

// Shared with Python: the layouts must match `OPERATION` and `OUTCOME` in library.py.
struct HostOperation {
    HostKind kind;
    uint32_t address;
    uint32_t value;
    uint32_t mask;
    uint64_t cycles;
    uint32_t allow_error;
    uint32_t padding;
};
struct HostOutcome {
    uint64_t cycle;
    uint32_t value;
    uint32_t response;
};

// AXI4-Lite master. One operation at a time; each starts the cycle after the one before it ended.
class Host {
public:
    Host(Engine& engine, double stall_probability, uint64_t seed, uint64_t node)
        : connected_(engine.has("csr_awvalid")), irq_(engine.optional_output("irq")) {
        stall_ = Stall(stall_probability, random_key({seed, node, 32}));
        if (!connected_) return;
        aw_address_ = engine.input("csr_awaddr");
        aw_valid_ = engine.input("csr_awvalid");
        aw_ready_ = engine.output("csr_awready");
        w_data_ = engine.input("csr_wdata");
        w_valid_ = engine.input("csr_wvalid");
        w_ready_ = engine.output("csr_wready");
        w_strobe_ = engine.optional_input("csr_wstrb");
        b_valid_ = engine.output("csr_bvalid");
        b_ready_ = engine.input("csr_bready");
        b_response_ = engine.output("csr_bresp");
        ar_address_ = engine.input("csr_araddr");
        ar_valid_ = engine.input("csr_arvalid");
        ar_ready_ = engine.output("csr_arready");
        r_valid_ = engine.output("csr_rvalid");
        r_ready_ = engine.input("csr_rready");
        r_data_ = engine.output("csr_rdata");
        r_response_ = engine.output("csr_rresp");
    }

    bool connected() const { return connected_; }
    void push(const HostOperation& operation) { operations_.push_back(operation); }
    const std::vector<HostOutcome>& outcomes() const { return outcomes_; }
    static constexpr uint32_t gave_up = 4;  // a response that AXI does not have

    bool done() const { return outcomes_.size() == operations_.size(); }
    const HostOperation& operation() const { return operations_[outcomes_.size()]; }
    size_t current() const { return outcomes_.size(); }
    uint64_t started_cycle() const { return started_cycle_; }

    // Waits for the engine and would wait forever if the engine stayed as it is.
    bool blocked() const {
        return !done() && started_ && operation().kind == HostKind::wait_irq && (*irq_ & 1) == 0;
    }

    // Whether the host acts in this cycle, given that the engine's outputs stay as they are.
    bool acts(uint64_t now) const {
        if (done()) return false;
        if (!started_) return true;
        if (operation().kind == HostKind::delay) return now >= started_cycle_ + operation().cycles;
        return !blocked();
    }

    // Ends a wait: for the interrupt at once, for a register with the next answer.
    void give_up(uint64_t now) {
        if (done()) return;
        if (operation().kind == HostKind::wait_irq) finish(now, 0, gave_up);
        giving_up_ = !done() && started_ && waits_for_register();
    }

    // Leaves everything undone, as the engine was reset.
    void abandon(uint64_t now) {
        writing_ = aw_taken_ = w_taken_ = reading_ = ar_taken_ = false;
        if (connected_) *aw_valid_ = *w_valid_ = *ar_valid_ = 0;
        while (!done()) finish(now, 0, gave_up);
    }

    void cycle(uint64_t now) {
        if (connected_) {
            *b_ready_ = *r_ready_ = !stall_.at(now);
            if (!writing_ && (*b_valid_ & 1) != 0) throw Violation{"csr: B without a write"};
            if (!reading_ && (*r_valid_ & 1) != 0) throw Violation{"csr: R without a read"};
        }
        if (done()) return;
        if (!started_) start(now);
        switch (operation().kind) {
            case HostKind::write: write(now); break;
            case HostKind::read: read(now); break;
            case HostKind::wait_register:
            case HostKind::wait_at_least: read(now); break;
            case HostKind::wait_irq:
                if ((*irq_ & 1) != 0) finish(now, 0, 0);
                break;
            case HostKind::delay:
                if (now >= started_cycle_ + operation().cycles) finish(now, 0, 0);
                break;
        }
    }

private:
    void start(uint64_t now) {
        started_ = true;
        started_cycle_ = now;
        switch (operation().kind) {
            case HostKind::write:
                *aw_address_ = operation().address;
                *w_data_ = operation().value;
                *w_strobe_ = 0xf;
                *aw_valid_ = *w_valid_ = 1;
                writing_ = true;
                break;
            case HostKind::read:
            case HostKind::wait_register:
            case HostKind::wait_at_least: start_read(); break;
            default: break;
        }
    }

    void start_read() {
        *ar_address_ = operation().address;
        *ar_valid_ = 1;
        reading_ = true;
    }

    // A ready seen while valid is high ends that half of the request at this edge; the valid is
    // lowered one call later.
    void write(uint64_t now) {
        if (aw_taken_) *aw_valid_ = 0;
        if (w_taken_) *w_valid_ = 0;
        if ((*b_valid_ & *b_ready_ & 1) != 0) {
            if (!aw_taken_ || !w_taken_) throw Violation{"csr: B before the whole write"};
            writing_ = aw_taken_ = w_taken_ = false;
            check_response("write", *b_response_ & 3);
            finish(now, 0, *b_response_ & 3);
            return;
        }
        if ((*aw_valid_ & *aw_ready_ & 1) != 0) aw_taken_ = true;
        if ((*w_valid_ & *w_ready_ & 1) != 0) w_taken_ = true;
    }

    void read(uint64_t now) {
        if (!reading_) {
            if (now < poll_cycle_) return;
            start_read();
        }
        if (ar_taken_) *ar_valid_ = 0;
        if ((*r_valid_ & *r_ready_ & 1) != 0) {
            if (!ar_taken_) throw Violation{"csr: R before the request was taken"};
            reading_ = ar_taken_ = false;
            check_response("read", *r_response_ & 3);
            uint32_t value = *r_data_;
            if (satisfied(value))
                finish(now, value, *r_response_ & 3);
            else if (giving_up_)
                finish(now, value, gave_up);
            else
                poll_cycle_ = now + operation().cycles;
            return;
        }
        if ((*ar_valid_ & *ar_ready_ & 1) != 0) ar_taken_ = true;
    }

    bool waits_for_register() const {
        const HostKind kind = operation().kind;
        return kind == HostKind::wait_register || kind == HostKind::wait_at_least;
    }

    // Whether what was read ends the operation.
    bool satisfied(uint32_t value) const {
        const HostOperation& wanted = operation();
        if (wanted.kind == HostKind::wait_register) return (value & wanted.mask) == wanted.value;
        if (wanted.kind == HostKind::wait_at_least) return (value & wanted.mask) >= wanted.value;
        return true;
    }

    void check_response(const char* what, uint32_t response) const {
        if (response != 0 && operation().allow_error == 0)
            throw Violation{std::string("csr: ") + what + " of " + hex(operation().address) +
                            " was answered with error response " + std::to_string(response)};
    }

    void finish(uint64_t now, uint32_t value, uint32_t response) {
        outcomes_.push_back({now, value, response});
        started_ = giving_up_ = false;
    }

    bool connected_;
    const uint32_t* irq_;
    Stall stall_;
    uint32_t *aw_address_, *aw_valid_, *w_data_, *w_valid_, *w_strobe_, *b_ready_;
    uint32_t *ar_address_, *ar_valid_, *r_ready_;
    const uint32_t *aw_ready_, *w_ready_, *b_valid_, *b_response_;
    const uint32_t *ar_ready_, *r_valid_, *r_data_, *r_response_;
    std::vector<HostOperation> operations_;
    std::vector<HostOutcome> outcomes_;
    bool started_ = false;
    bool writing_ = false, aw_taken_ = false, w_taken_ = false;
    bool reading_ = false, ar_taken_ = false;
    bool giving_up_ = false;
    uint64_t started_cycle_ = 0;
    uint64_t poll_cycle_ = 0;
};

}  // namespace foldwire
