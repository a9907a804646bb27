// SPDX-License-Identifier: Apache-2.0
// Memory behind an engine's AXI4 masters: one buffer per node, one slave per port.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "engine.hpp"
#include "link.hpp"
#include "random.hpp"

namespace foldwire {

// Addresses from first up to end that memory answers with SLVERR; reads, writes, or both.
struct BadRange {
    uint64_t first, end;
    bool reads, writes;
};

// One node's buffer, its timing, and the bandwidth that all of the node's ports share.
struct Memory {
    uint8_t* data = nullptr;
    uint64_t base_address = 0;
    uint64_t size_bytes = 0;
    uint64_t read_latency_cycles = 1;
    uint64_t write_latency_cycles = 1;
    uint32_t outstanding_bursts = 16;
    double stall_probability = 0;
    double bytes_per_cycle = 0;
    double beats_per_cycle = 1;  // of a port, each way
    Pace pace;
    std::vector<BadRange> bad;
    // Of AR, AW, W, R and B: cycles from one in which it moves to the next, 0 for none at all.
    uint64_t every[5] = {1, 1, 1, 1, 1};

    bool holds(int channel, uint64_t now) const {
        return every[channel] != 1 && (every[channel] == 0 || now % every[channel] != 0);
    }

    bool fails(uint64_t address, uint64_t bytes, bool write) const {
        for (const BadRange& range : bad)
            if ((write ? range.writes : range.reads) && address < range.end &&
                address + bytes > range.first)
                return true;
        return false;
    }

    uint8_t* at(uint64_t address, uint64_t bytes) const {
        uint64_t offset = address - base_address;
        if (address < base_address || offset > size_bytes || size_bytes - offset < bytes)
            return nullptr;
        return data + offset;
    }
};

struct MemoryCounts {
    uint64_t read_bytes = 0;
    uint64_t written_bytes = 0;
    uint64_t read_bursts = 0;
    uint64_t write_bursts = 0;
    uint64_t decode_errors = 0;
};

// AXI4 slave of one port. Reads and writes are each answered in order; a burst's first beat
// comes read_latency_cycles after its address, its response write_latency_cycles after its last
// beat. Anything the standard forbids, and anything but aligned full-width INCR bursts, is a
// violation.
class MemoryPort {
public:
    MemoryPort(Engine& engine, int port, Memory& memory, uint64_t seed, uint64_t node)
        : engine_(engine), memory_(memory) {
        const std::string name = "mem_" + std::to_string(port) + "_";
        ar_ = Channel(engine, "AR", name + "arvalid",
                      {name + "araddr", name + "arlen", name + "arid", name + "arsize",
                       name + "arburst"});
        aw_ = Channel(engine, "AW", name + "awvalid",
                      {name + "awaddr", name + "awlen", name + "awid", name + "awsize",
                       name + "awburst"});
        w_ = Channel(engine, "W", name + "wvalid",
                     {name + "wdata", name + "wstrb", name + "wlast"});
        for (int i = 0; i < 2; ++i) {
            const std::string channel = name + (i == 0 ? "ar" : "aw");
            Request& request = i == 0 ? ar_ports_ : aw_ports_;
            request = {engine.output(channel + "addr"), engine.width(channel + "addr"),
                       engine.output(channel + "len"),  engine.output(channel + "size"),
                       engine.output(channel + "burst"), engine.optional_output(channel + "id"),
                       engine.input(channel + "ready")};
        }
        w_data_ = engine.output(name + "wdata");
        w_strobe_ = engine.output(name + "wstrb");
        w_last_ = engine.output(name + "wlast");
        w_ready_ = engine.input(name + "wready");
        b_valid_ = engine.input(name + "bvalid");
        b_ready_ = engine.output(name + "bready");
        b_response_ = engine.input(name + "bresp");
        b_id_ = engine.optional_input(name + "bid");
        r_valid_ = engine.input(name + "rvalid");
        r_ready_ = engine.output(name + "rready");
        r_data_ = engine.input(name + "rdata");
        r_response_ = engine.input(name + "rresp");
        r_last_ = engine.input(name + "rlast");
        r_id_ = engine.optional_input(name + "rid");
        bus_bytes_ = static_cast<uint64_t>(engine.width(name + "wdata")) / 8;
        memory.pace = Pace(memory.bytes_per_cycle > 0
                               ? static_cast<double>(bus_bytes_) / memory.bytes_per_cycle
                               : 0);
        if (memory.beats_per_cycle < 1)
            read_pace_ = write_pace_ = Pace(1 / memory.beats_per_cycle);
        for (uint64_t channel = 0; channel < 5; ++channel)
            stalls_[channel] = Stall(memory.stall_probability,
                                     random_key({seed, node, static_cast<uint64_t>(port), 16 + channel}));
    }

    void record(uint64_t bucket_cycles) { bucket_cycles_ = bucket_cycles; }

    bool busy() const {
        return !reads_.empty() || !writes_.empty() || !responses_.empty() || ar_.valid() ||
               aw_.valid() || w_.valid();
    }
    // The engine was reset: it knows of nothing that is under way.
    void reset() {
        for (Channel* channel : {&ar_, &aw_, &w_}) channel->reset();
        reads_.clear();
        writes_.clear();
        responses_.clear();
        r_held_ = b_held_ = false;
    }
    size_t open_reads() const { return reads_.size(); }
    size_t open_writes() const { return writes_.size() + responses_.size(); }

    // bandwidth_free is sampled once per node and cycle, so that no port or direction has
    // precedence over another: all of them use it, and the debt delays all of them.
    void cycle(uint64_t now, bool bandwidth_free) {
        answer_read(now, bandwidth_free);
        accept_write_data(now, bandwidth_free);
        answer_write(now);
        accept_read(now);
        accept_write(now);
    }

    MemoryCounts counts;
    std::vector<uint32_t> read_series, written_series;

private:
    enum { ar_channel, aw_channel, w_channel, r_channel, b_channel };
    static constexpr uint32_t okay = 0, slave_error = 2, decode_error = 3, increment = 1;

    struct Request {
        const uint32_t* address;
        int address_width;
        const uint32_t *length, *size, *burst, *id;
        uint32_t* ready;
    };
    struct Burst {
        uint64_t address;
        uint64_t due;
        uint32_t beats_left;
        uint32_t id;
        uint32_t response;
    };

    bool stalls(int channel, uint64_t now) const {
        return memory_.holds(channel, now) || stalls_[channel].at(now);
    }

    Burst take(const char* channel, const Request& request, uint64_t due) const {
        uint64_t address = engine_.wide(request.address, request.address_width);
        uint64_t beats = (*request.length & 0xff) + 1;
        const std::string what = std::string(channel) + " burst of " + std::to_string(beats) +
                                 " beats at " + hex(address);
        if (uint64_t{1} << (*request.size & 7) != bus_bytes_)
            throw Violation{what + ": size is not the bus width of " +
                            std::to_string(bus_bytes_) + " bytes"};
        if ((*request.burst & 3) != increment) throw Violation{what + ": not an INCR burst"};
        if (address % bus_bytes_ != 0)
            throw Violation{what + " is not aligned to " + std::to_string(bus_bytes_) + " bytes"};
        if (address / 4096 != (address + beats * bus_bytes_ - 1) / 4096)
            throw Violation{what + " crosses a 4 KiB boundary"};
        return {address, due, static_cast<uint32_t>(beats), *request.id, okay};
    }

    void accept_read(uint64_t now) {
        bool ready = reads_.size() < memory_.outstanding_bursts && !stalls(ar_channel, now);
        *ar_ports_.ready = ready;
        if (!ar_.transfer(ready)) return;
        reads_.push_back(take("AR", ar_ports_, now + memory_.read_latency_cycles));
        counts.read_bursts += 1;
    }

    void accept_write(uint64_t now) {
        bool ready = open_writes() < memory_.outstanding_bursts && !stalls(aw_channel, now);
        *aw_ports_.ready = ready;
        if (!aw_.transfer(ready)) return;
        writes_.push_back(take("AW", aw_ports_, 0));
        counts.write_bursts += 1;
    }

    void answer_read(uint64_t now, bool bandwidth_free) {
        if (!r_held_) {
            bool present = !reads_.empty() && reads_.front().due <= now && bandwidth_free &&
                           read_pace_.free_at(now) && !stalls(r_channel, now);
            *r_valid_ = present;
            if (!present) return;
            const Burst& burst = reads_.front();
            const bool fails = memory_.fails(burst.address, bus_bytes_, false);
            const uint8_t* source = fails ? nullptr : memory_.at(burst.address, bus_bytes_);
            if (source != nullptr)
                std::memcpy(r_data_, source, bus_bytes_);
            else
                std::memset(r_data_, 0, bus_bytes_);
            *r_response_ = fails ? slave_error : source != nullptr ? okay : decode_error;
            *r_last_ = burst.beats_left == 1;
            *r_id_ = burst.id;
            memory_.pace.use(now);
            read_pace_.use(now);
            r_held_ = true;
        }
        if ((*r_ready_ & 1) == 0) return;
        r_held_ = false;
        Burst& burst = reads_.front();
        counts.decode_errors += *r_response_ == decode_error;
        counts.read_bytes += bus_bytes_;
        if (bucket_cycles_ != 0)
            add_to_series(read_series, now / bucket_cycles_, static_cast<uint32_t>(bus_bytes_));
        burst.address += bus_bytes_;
        if (--burst.beats_left == 0) reads_.pop_front();
    }

    void accept_write_data(uint64_t now, bool bandwidth_free) {
        bool ready = !writes_.empty() && bandwidth_free && write_pace_.free_at(now) &&
                     !stalls(w_channel, now);
        *w_ready_ = ready;
        if (!w_.transfer(ready)) return;
        Burst& burst = writes_.front();
        if (((*w_last_ & 1) != 0) != (burst.beats_left == 1))
            throw Violation{std::string("W last is ") + ((*w_last_ & 1) != 0 ? "set" : "missing") +
                            " with " + std::to_string(burst.beats_left) +
                            " beats of the burst left"};
        uint8_t* target = memory_.at(burst.address, bus_bytes_);
        if (memory_.fails(burst.address, bus_bytes_, true)) {
            burst.response = slave_error;
        } else if (target == nullptr) {
            burst.response = decode_error;
        } else {
            counts.written_bytes += store(target);
        }
        memory_.pace.use(now);
        write_pace_.use(now);
        if (bucket_cycles_ != 0)
            add_to_series(written_series, now / bucket_cycles_, static_cast<uint32_t>(bus_bytes_));
        burst.address += bus_bytes_;
        if (--burst.beats_left != 0) return;
        counts.decode_errors += burst.response == decode_error;
        burst.due = now + memory_.write_latency_cycles;
        responses_.push_back(burst);
        writes_.pop_front();
    }

    uint64_t store(uint8_t* target) const {
        const uint8_t* source = reinterpret_cast<const uint8_t*>(w_data_);
        uint64_t stored = 0;
        for (uint64_t byte = 0; byte < bus_bytes_; byte += 8) {
            uint32_t strobe = w_strobe_[byte / 32] >> byte % 32 & 0xff;
            if (strobe == 0xff) {
                std::memcpy(target + byte, source + byte, 8);
                stored += 8;
                continue;
            }
            for (uint64_t i = 0; i < 8; ++i) {
                if ((strobe >> i & 1) == 0) continue;
                target[byte + i] = source[byte + i];
                ++stored;
            }
        }
        return stored;
    }

    void answer_write(uint64_t now) {
        if (!b_held_) {
            bool present = !responses_.empty() && responses_.front().due <= now &&
                           !stalls(b_channel, now);
            *b_valid_ = present;
            if (!present) return;
            *b_response_ = responses_.front().response;
            *b_id_ = responses_.front().id;
            b_held_ = true;
        }
        if ((*b_ready_ & 1) == 0) return;
        b_held_ = false;
        responses_.pop_front();
    }

    Engine& engine_;
    Memory& memory_;
    Channel ar_, aw_, w_;
    Request ar_ports_, aw_ports_;
    const uint32_t *w_data_, *w_strobe_, *w_last_, *b_ready_, *r_ready_;
    uint32_t *w_ready_, *b_valid_, *b_response_, *b_id_;
    uint32_t *r_valid_, *r_data_, *r_response_, *r_last_, *r_id_;
    uint64_t bus_bytes_;
    Stall stalls_[5];
    Pace read_pace_, write_pace_;
    std::deque<Burst> reads_, writes_, responses_;
    bool r_held_ = false;
    bool b_held_ = false;
    uint64_t bucket_cycles_ = 0;
};

}  // namespace foldwire
