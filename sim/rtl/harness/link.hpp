// SPDX-License-Identifier: Apache-2.0
// Links: what leaves one engine arrives at the other a fixed number of cycles later.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "random.hpp"

namespace foldwire {

constexpr int flit_bytes = 16;
constexpr uint64_t never = ~uint64_t{0};

// One direction of a link as a wheel of slots, one per cycle of arrival. In a window [T, T+W)
// the sender fills slots [T+L, T+L+W) and the receiver reads slots [T, T+W). With W <= L and
// at least 2L slots the two never touch the same slot, so nothing is locked or copied.
class Wire {
public:
    Wire(uint64_t latency, int bus_bytes) : latency_(latency), bus_bytes_(bus_bytes) {
        uint64_t slots = 2;
        while (slots < 2 * latency) slots *= 2;
        mask_ = slots - 1;
        beat_at_.assign(slots, never);
        credit_at_.assign(slots, never);
        credits_.resize(slots);
        keep_.resize(slots);
        user_.resize(slots);
        data_.resize(slots * static_cast<size_t>(bus_bytes));
    }

    // While it is cut, everything on it and everything that is sent is lost.
    void cut(bool cut) {
        cut_ = cut;
        if (!cut) return;
        std::fill(beat_at_.begin(), beat_at_.end(), never);
        std::fill(credit_at_.begin(), credit_at_.end(), never);
    }

    uint8_t* send_beat(uint64_t cycle, const void* data, uint32_t keep, uint32_t user) {
        last_arrival_ = cycle + latency_;
        size_t slot = last_arrival_ & mask_;
        if (!cut_) beat_at_[slot] = last_arrival_;
        keep_[slot] = keep;
        user_[slot] = user;
        uint8_t* copy = &data_[slot * static_cast<size_t>(bus_bytes_)];
        std::memcpy(copy, data, static_cast<size_t>(bus_bytes_));
        return copy;
    }

    // A bit for each class that a credit is for; links without classes have one.
    void send_credit(uint64_t cycle, uint32_t classes) {
        last_arrival_ = cycle + latency_;
        if (!cut_) credit_at_[last_arrival_ & mask_] = last_arrival_;
        credits_[last_arrival_ & mask_] = classes;
    }

    bool beat(uint64_t cycle) const { return beat_at_[cycle & mask_] == cycle; }
    uint32_t credit(uint64_t cycle) const {
        return credit_at_[cycle & mask_] == cycle ? credits_[cycle & mask_] : 0;
    }
    const uint8_t* data(uint64_t cycle) const {
        return &data_[(cycle & mask_) * static_cast<size_t>(bus_bytes_)];
    }
    uint32_t keep(uint64_t cycle) const { return keep_[cycle & mask_]; }
    uint32_t user(uint64_t cycle) const { return user_[cycle & mask_]; }

    uint64_t latency() const { return latency_; }
    int bus_bytes() const { return bus_bytes_; }
    bool in_flight(uint64_t cycle) const { return last_arrival_ != never && last_arrival_ >= cycle; }

private:
    uint64_t latency_;
    int bus_bytes_;
    bool cut_ = false;
    uint64_t mask_ = 0;
    uint64_t last_arrival_ = never;
    std::vector<uint64_t> beat_at_, credit_at_;
    std::vector<uint32_t> keep_, user_, credits_;
    std::vector<uint8_t> data_;
};

struct BeatRecord {
    uint64_t cycle;
    uint32_t flits;
    uint32_t headers;
};

// What a port sent. Counted by the sender in the cycle of the handshake.
struct LinkCounts {
    uint64_t beats = 0;
    uint64_t flits = 0;
    uint64_t headers = 0;
    uint64_t first_cycle = never;
    uint64_t last_cycle = never;
    uint64_t stalled_cycles = 0;
};

// What happens to `count` packets in a row that a port sends, from number `packet` on. A packet ends
// where the next one begins, so the last one that is sent is never repeated. To mangle is to leave a
// flit out, to add one, or to turn the mark of the start over; to stutter, to send a flit of the first
// of these packets that has it twice. Only on links of a flit a cycle.
struct LinkFault {
    enum Kind : int { damage, loss, repetition, mangling, stutter };
    enum Way : uint64_t { leave_out, add, turn_over };
    Kind kind;
    uint64_t packet;
    uint64_t count;
    std::vector<int> bits;  // of the packet, that are inverted; 128 to a flit, the header first
    uint64_t flit = 0, way = 0, random = 0;

    bool covers(uint64_t number) const { return number - packet < count; }
};

// What a wire does to packets at random: each is lost, or else repeated, damaged or mangled. Damage
// inverts one to three bits, of the header half of the time, otherwise of one of `flits` - 1 flits
// behind it; a packet that does not have that flit is spared. Drawn by the number of the packet, so
// that nothing but the seed decides.
class Hazard {
public:
    static constexpr int kinds = 4, counted = 3;  // what is mangled counts as damaged

    Hazard() = default;
    Hazard(double damage, double loss, double repetition, int flits, uint64_t key)
        : key_(key), flits_(static_cast<uint64_t>(flits)) {
        const double shares[kinds] = {damage, loss, repetition, 0};
        set(shares);
    }

    void set(const double* shares) {
        double sum = 0;
        for (int kind = 0; kind < kinds; ++kind)
            below_[kind] = static_cast<uint64_t>((sum += shares[kind]) * 4294967296.0);
    }

    bool there() const { return below_[kinds - 1] != 0; }

    // Whether anything becomes of a packet, and what.
    bool draw(uint64_t packet, LinkFault& fault) const {
        uint64_t state = splitmix64(key_ + packet * golden);
        const uint64_t place = state >> 32;
        int kind = 0;
        while (kind < kinds && place >= below_[kind]) ++kind;
        if (kind == kinds) return false;
        fault = {static_cast<LinkFault::Kind>(kind), packet, 1, {}};
        if (fault.kind != LinkFault::damage && fault.kind != LinkFault::mangling) return true;
        const auto next = [&](uint64_t end) { return (state = splitmix64(state)) % end; };
        const uint64_t flit = flits_ > 1 && next(2) != 0 ? 1 + next(flits_ - 1) : 0;
        if (fault.kind == LinkFault::mangling) {
            fault.flit = flit;
            fault.way = next(5) / 2;
            fault.random = next(~uint64_t{0});
            return true;
        }
        const uint64_t width = 8 * flit_bytes, first = next(width);
        const uint64_t count = 1 + next(3);
        for (uint64_t i = 0; i < count; ++i)  // 43 is odd, so the places differ
            fault.bits.push_back(static_cast<int>(flit * width + (first + 43 * i) % width));
        return true;
    }

private:
    uint64_t key_ = 0;
    uint64_t flits_ = 1;
    uint64_t below_[kinds] = {};
};

// A beat in the making: flits from the lowest lane on.
struct Beat {
    std::vector<uint8_t> data;
    uint32_t keep = 0, user = 0;

    void add(const uint8_t* flit, bool header) {
        const uint32_t place = static_cast<uint32_t>(__builtin_popcount(keep));
        data.insert(data.end(), flit, flit + flit_bytes);
        keep |= 1u << place;
        user |= static_cast<uint32_t>(header) << place;
    }
};

// A packet that a sender has not sent: flits, and the class of the credit that it takes, or less
// than 0.
struct AddedPacket {
    std::vector<Beat> flits;
    int traffic;
};

// Puts packets among those of a sender. Each takes one of its credits: one that returns is kept from
// it or, when nothing moves and it lacks none, the one that returns for the added packet, before
// which nothing else is sent. So there is room for all packets at the other end.
class Intruder {
public:
    static constexpr int classes = 3;

    // Begins between two packets; those with data have so many flits of it.
    explicit Intruder(uint64_t payload_flits) : payload_flits_(payload_flits) {}

    void add(AddedPacket packet) { packets_.push_back(std::move(packet)); }
    size_t left() const { return packets_.size(); }

    // Credits on their way back to the sender, a bit for each class; returns those that come to it.
    uint32_t credits(uint32_t bits) {
        for (int k = 0; k < classes; ++k) {
            if ((bits >> k & 1) == 0) continue;
            const auto wanted = std::count_if(packets_.begin(), packets_.end(),
                                              [&](const AddedPacket& each) { return each.traffic == k; });
            if (owed_[k] != 0) {
                owed_[k] -= 1;
            } else if (wanted > kept_[k]) {
                kept_[k] += 1;
            } else {
                lacks_[k] -= 1;
                continue;
            }
            bits &= ~(1u << k);
        }
        return bits;
    }

    // True if a credit must come back before anything else is sent.
    bool holds() const { return std::any_of(owed_, owed_ + classes, [](int each) { return each; }); }

    // Notes a flit of the sender.
    void passes(uint32_t word, bool header) {
        quiet_ = 0;
        if (header) {
            const uint32_t kind = word >> 1 & 15;
            if ((kind & 3) < classes) lacks_[kind & 3] += 1;
            left_ = 1 + ((kind & 4) != 0 ? payload_flits_ : 0);
        }
        left_ -= left_ != 0;
    }

    void rests() { quiet_ += 1; }

    // The packets that are to be sent now, between two of the sender, behind what is `waiting`.
    void send(std::deque<Beat>& waiting) {
        if (left_ != 0) return;
        for (auto packet = packets_.begin(); packet != packets_.end();) {
            const int k = packet->traffic;
            bool holds = false;
            if (k >= 0 && kept_[k] != 0) {
                kept_[k] -= 1;
            } else if (k >= 0) {
                const bool lacks = std::any_of(lacks_, lacks_ + classes, [](int each) { return each; });
                if (quiet_ < quiet_cycles || lacks || !waiting.empty()) {
                    ++packet;
                    continue;
                }
                owed_[k] += 1;
                holds = true;
            }
            for (Beat& flit : packet->flits) waiting.push_back(std::move(flit));
            if (holds) waiting.emplace_back();
            packet = packets_.erase(packet);
        }
    }

private:
    static constexpr uint64_t quiet_cycles = 40;

    uint64_t payload_flits_;
    std::vector<AddedPacket> packets_;
    uint64_t left_ = 0, quiet_ = 0;
    int lacks_[classes] = {};  // credits of packets that the sender has sent,
    int kept_[classes] = {};   // that were kept from it for packets to be added,
    int owed_[classes] = {};   // and that will return for such packets
};

inline void add_to_series(std::vector<uint32_t>& series, uint64_t bucket, uint32_t amount) {
    if (series.size() <= bucket) series.resize(bucket + 1);
    series[bucket] += amount;
}

// One link port of one node: its transmitter, and its receiver. Links of switches carry a flit in
// each cycle, marked if it begins a packet, and nobody is ready or not: a credit is room for a
// whole packet of its class. What a repetition holds up there waits on the wire.
class LinkPort {
public:
    static bool there(const Engine& engine, int port) {
        const std::string name = "link_" + std::to_string(port) + "_";
        return engine.has(name + "tx_tdata") || engine.has(name + "tx_payload");
    }

    LinkPort(Engine& engine, int port) {
        const std::string name = "link_" + std::to_string(port) + "_";
        tx_credit_ = engine.input(name + "tx_credit");
        rx_credit_ = engine.output(name + "rx_credit");
        classes_ = (1u << engine.width(name + "rx_credit")) - 1;
        if (engine.has(name + "tx_payload")) {
            tx_ = Channel(engine, "tx", name + "tx_valid", {name + "tx_payload"});
            tx_data_ = engine.output(name + "tx_payload");
            tx_keep_ = rx_ready_ = &one_flit;
            tx_user_ = tx_data_ + flit_bytes / 4;
            rx_data_ = engine.input(name + "rx_payload");
            rx_user_ = rx_data_ + flit_bytes / 4;
            rx_valid_ = engine.input(name + "rx_valid");
            tx_ready_ = rx_keep_ = engine.optional_input(name + "tx_ready");
            always_ready_ = !engine.has(name + "tx_ready");
            bus_bytes_ = flit_bytes;
            return;
        }
        tx_ = Channel(engine, "tx", name + "tx_tvalid",
                      {name + "tx_tdata", name + "tx_tkeep", name + "tx_tuser"});
        tx_data_ = engine.output(name + "tx_tdata");
        tx_keep_ = engine.output(name + "tx_tkeep");
        tx_user_ = engine.output(name + "tx_tuser");
        tx_ready_ = engine.input(name + "tx_tready");
        rx_data_ = engine.input(name + "rx_tdata");
        rx_keep_ = engine.input(name + "rx_tkeep");
        rx_user_ = engine.input(name + "rx_tuser");
        rx_valid_ = engine.input(name + "rx_tvalid");
        rx_ready_ = engine.output(name + "rx_tready");
        bus_bytes_ = engine.width(name + "tx_tdata") / 8;
    }

    int bus_bytes() const { return bus_bytes_; }
    bool connected() const { return out_ != nullptr; }

    void connect(Wire* out, const Wire* in, Stall stall, Pace pace, Hazard hazard) {
        out_ = out;
        in_ = in;
        stall_ = stall;
        pace_ = pace;
        hazard_ = hazard;
    }

    void record(uint64_t bucket_cycles, bool every_beat) {
        bucket_cycles_ = bucket_cycles;
        every_beat_ = every_beat;
    }

    void add_fault(LinkFault fault) { faults_.push_back(std::move(fault)); }

    void forget_faults() { faults_.clear(); }

    void cut(bool cut) {
        if (out_ == nullptr) throw std::runtime_error("no link is connected");
        out_->cut(cut);
        waiting_.clear();
        copy_.clear();
    }

    // Shares of the packets sent from now on that are damaged, lost, repeated and mangled.
    void strain(const double* shares) {
        hazard_.set(shares);
        copy_.clear();
    }

    void tap(uint64_t payload_flits) {
        if (!always_ready_)
            throw std::runtime_error("packets are added on links of switches alone");
        if (intruder_ == nullptr) intruder_ = std::make_unique<Intruder>(payload_flits);
    }

    // On a link that is tapped.
    void add_packet(AddedPacket packet) { intruder_->add(std::move(packet)); }

    size_t added() const { return intruder_ == nullptr ? 0 : intruder_->left(); }

    // Packets that faults have hit so far; a repeated one counts when its copy follows.
    uint64_t struck() const { return struck_; }

    // By kind of fault, those that the wire has hit at random.
    const uint64_t* met() const { return met_; }

    bool arrives(uint64_t cycle) const {
        return in_ != nullptr && (in_->beat(cycle) || in_->credit(cycle));
    }

    bool sends() const {
        return tx_.valid() || (*rx_credit_ & classes_) != 0 || !waiting_.empty();
    }

    // The engine was reset: what it was about to send is gone.
    void reset() { tx_.reset(); }

    void cycle(uint64_t now) {
        if (out_ == nullptr) {
            if (sends()) throw Violation{"sends, but no link is connected"};
            return;
        }
        receive(now);
        transmit(now);
    }

    bool outward = false;  // to the outside of the system
    LinkCounts counts;
    std::vector<uint32_t> beat_series, header_series, payload_series;
    std::vector<BeatRecord> records;

private:
    static constexpr uint32_t one_flit = 1;

    void receive(uint64_t now) {
        bool beat = in_->beat(now);
        *rx_valid_ = beat;
        *tx_credit_ = intruder_ == nullptr ? in_->credit(now) : intruder_->credits(in_->credit(now));
        if (!beat) return;
        if ((*rx_ready_ & 1) == 0) throw Violation{"rx overrun: a beat arrived while not ready"};
        std::memcpy(rx_data_, in_->data(now), static_cast<size_t>(bus_bytes_));
        *rx_keep_ = in_->keep(now);
        *rx_user_ = in_->user(now);
    }

    void transmit(uint64_t now) {
        bool free = pace_.free_at(now) && !stall_.at(now);
        bool ready = free && (waiting_.empty() || always_ready_);
        *tx_ready_ = ready;
        const bool sends = tx_.transfer(ready);
        if (sends) send(now);
        if (intruder_ != nullptr && !sends) {
            intruder_->rests();
            intruder_->send(waiting_);
        }
        if (free && !sends) put(now);
        counts.stalled_cycles += tx_.stalled();
        if ((*rx_credit_ & classes_) != 0) out_->send_credit(now, *rx_credit_ & classes_);
    }

    void send(uint64_t now) {
        uint32_t keep = *tx_keep_;
        uint32_t user = *tx_user_;
        if (keep == 0 || (keep & (keep + 1)) != 0)
            throw Violation{"tx tkeep " + hex(keep) + " is not a prefix of at least one flit"};
        if ((user & ~keep) != 0)
            throw Violation{"tx tuser " + hex(user) + " marks flits that tkeep leaves out"};
        uint32_t flits = static_cast<uint32_t>(__builtin_popcount(keep));
        uint32_t headers = static_cast<uint32_t>(__builtin_popcount(user));
        if (faults_.empty() && !hazard_.there() && waiting_.empty() && intruder_ == nullptr) {
            out_->send_beat(now, tx_data_, keep, user);
            pace_.use(now);
        } else {
            send_with_faults(now, keep, user);
        }
        if (counts.beats == 0) counts.first_cycle = now;
        counts.last_cycle = now;
        counts.beats += 1;
        counts.flits += flits;
        counts.headers += headers;
        if (bucket_cycles_ != 0) {
            uint64_t bucket = now / bucket_cycles_;
            add_to_series(beat_series, bucket, 1);
            add_to_series(header_series, bucket, headers);
            add_to_series(payload_series, bucket, flits - headers);
        }
        if (every_beat_) records.push_back({now, flits, headers});
    }

    // Sends the first beat that waits. One without a flit stands for a credit that is to come back.
    void put(uint64_t now) {
        while (!waiting_.empty() && waiting_.front().keep == 0 && !intruder_->holds())
            waiting_.pop_front();
        if (waiting_.empty() || waiting_.front().keep == 0) return;
        Beat& beat = waiting_.front();
        beat.data.resize(static_cast<size_t>(bus_bytes_));
        out_->send_beat(now, beat.data.data(), beat.keep, beat.user);
        pace_.use(now);
        waiting_.pop_front();
    }

    // Called before the beat is counted: counts.headers is the number of the beat's first packet.
    // What a repetition puts before a packet, and the rest of the beat, wait for the next cycles.
    void send_with_faults(uint64_t now, uint32_t keep, uint32_t user) {
        const uint8_t* flit = reinterpret_cast<const uint8_t*>(tx_data_);
        uint64_t next = counts.headers;
        Beat beat, repeated;
        Beat more;
        for (int lane = 0; keep >> lane != 0; ++lane, flit += flit_bytes) {
            bool header = (user >> lane & 1) != 0;
            place_ = header ? 0 : place_ + 1;
            if (header && intruder_ != nullptr) intruder_->send(waiting_);
            if (intruder_ != nullptr) intruder_->passes(*tx_data_, header);
            if (header) {
                struck_ += !copy_.empty() && next == copy_end_;
                if (!copy_.empty() && next == copy_end_) {
                    if (beat.keep != 0) waiting_.push_back(std::exchange(beat, {}));
                    for (Beat& each : copy_) waiting_.push_back(std::move(each));
                    copy_.clear();
                }
                drawn_ = hazard_.there() && hazard_.draw(next, fate_);
                known_ = false;
                ++next;
            }
            uint8_t bytes[flit_bytes];
            std::memcpy(bytes, flit, flit_bytes);
            bool lost = false;
            // Whether the fault has done anything to this flit.
            const auto strike = [&](const LinkFault& fault) {
                if (fault.kind == LinkFault::repetition) {
                    repeated.add(bytes, header);
                    copy_end_ = fault.packet + fault.count;
                    return true;
                }
                if (fault.kind == LinkFault::mangling || fault.kind == LinkFault::stutter) {
                    if (static_cast<uint64_t>(place_) != fault.flit) return false;
                    lost |= fault.kind == LinkFault::mangling && fault.way == LinkFault::leave_out;
                    header ^= fault.kind == LinkFault::mangling && fault.way == LinkFault::turn_over;
                    if (fault.kind == LinkFault::stutter) {
                        more.add(bytes, header);
                    } else if (fault.way == LinkFault::add) {
                        uint64_t word[flit_bytes / 8] = {fault.random, splitmix64(fault.random)};
                        more.add(reinterpret_cast<const uint8_t*>(word), (fault.random & 1) != 0);
                    }
                    return true;
                }
                lost |= fault.kind == LinkFault::loss;
                bool hit = lost;
                for (int bit : fault.bits)
                    if (bit / (8 * flit_bytes) == place_) {
                        bytes[bit / 8 % flit_bytes] ^= static_cast<uint8_t>(1 << bit % 8);
                        hit = true;
                    }
                return hit;
            };
            const bool begins = header;
            for (LinkFault& fault : faults_) {
                if (next == 0 || !fault.covers(next - 1)) continue;
                const bool hit = strike(fault);
                if (fault.kind == LinkFault::stutter) {
                    struck_ += hit;
                    if (hit) fault.count = 0;
                } else {
                    struck_ += begins && fault.kind != LinkFault::repetition;
                }
            }
            if (drawn_ && strike(fate_) && !known_) {
                known_ = true;
                met_[fate_.kind == LinkFault::mangling ? LinkFault::damage : fate_.kind] += 1;
                struck_ += fate_.kind != LinkFault::repetition;
            }
            if (!lost) beat.add(bytes, header);
        }
        if (repeated.keep != 0) copy_.push_back(std::move(repeated));
        if (beat.keep != 0) waiting_.push_back(std::move(beat));
        if (more.keep != 0) waiting_.push_back(std::move(more));
        put(now);
    }

    Channel tx_;
    const uint32_t *tx_data_, *tx_keep_, *tx_user_, *rx_ready_, *rx_credit_;
    uint32_t *tx_ready_, *tx_credit_, *rx_data_, *rx_keep_, *rx_user_, *rx_valid_;
    uint32_t classes_;
    int bus_bytes_;
    Wire* out_ = nullptr;
    const Wire* in_ = nullptr;
    Stall stall_;
    Pace pace_;
    Hazard hazard_;
    LinkFault fate_{};    // of the packet that is being sent,
    bool drawn_ = false;  // if it has any,
    bool known_ = false;  // and whether it was counted
    uint64_t met_[Hazard::counted] = {};
    std::unique_ptr<Intruder> intruder_;
    bool always_ready_ = false;
    std::vector<LinkFault> faults_;
    std::deque<Beat> waiting_;  // to be sent before anything else
    std::vector<Beat> copy_;    // of packets that are to be repeated
    uint64_t copy_end_ = 0;     // the packet before which it is sent
    uint64_t struck_ = 0;
    int place_ = 0;  // of the flit sent last in its packet
    uint64_t bucket_cycles_ = 0;
    bool every_beat_ = false;
};

}  // namespace foldwire
