// SPDX-License-Identifier: Apache-2.0
// Counter-based randomness: a draw depends on (seed, node, port, channel, cycle) and on nothing
// else, so that neither the window length nor the number of threads can change a run.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace foldwire {

constexpr uint64_t golden = 0x9e3779b97f4a7c15u;

inline uint64_t splitmix64(uint64_t state) {
    uint64_t z = state + golden;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

inline uint64_t random_key(std::initializer_list<uint64_t> parts) {
    uint64_t key = 0;
    for (uint64_t part : parts) key = splitmix64(key ^ part);
    return key;
}

// Whether a channel is held back in a given cycle, with a fixed probability.
class Stall {
public:
    Stall() = default;
    Stall(double probability, uint64_t key)
        : key_(key), threshold_(static_cast<uint64_t>(probability * 4294967296.0)) {}

    bool at(uint64_t cycle) const {
        return threshold_ != 0 && (splitmix64(key_ + cycle * golden) >> 32) < threshold_;
    }

private:
    uint64_t key_ = 0;
    uint64_t threshold_ = 0;
};

// Paces a resource. Kept as the time at which it is next free (in 1/65536 cycle) instead of a
// level that grows every cycle, so that a node that is not stepped needs no upkeep.
class Pace {
public:
    Pace() = default;
    explicit Pace(double cycles_per_use)
        : cost_(static_cast<uint64_t>(cycles_per_use * 65536.0 + 0.5)) {}

    bool free_at(uint64_t cycle) const { return cost_ == 0 || next_free_ < (cycle + 1) << 16; }

    void use(uint64_t cycle) {
        if (cost_ == 0) return;
        uint64_t now = cycle << 16;
        next_free_ = (next_free_ > now ? next_free_ : now) + cost_;
    }

private:
    uint64_t cost_ = 0;
    uint64_t next_free_ = 0;
};

}  // namespace foldwire
