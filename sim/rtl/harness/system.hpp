// SPDX-License-Identifier: Apache-2.0
// Nodes and links, advanced in windows: within a window of at most the smallest link latency each
// group of nodes runs alone, on any thread; then all meet.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "node.hpp"

namespace foldwire {

enum class Status : int { finished, time_over, limit, error, stuck, given_up };

class System {
public:
    NodeOptions options;
    uint64_t window_cycles = 1;
    // Runs end on multiples of this number of cycles, whatever the window, so that a run's last
    // cycle does not depend on the window.
    uint64_t quantum_cycles = 1;
    int threads = 1;
    std::vector<std::unique_ptr<Node>> nodes;
    std::string error;
    // By node, links with retry that were given up, when `run` says that some were.
    std::vector<uint32_t> given_up;

    Node& add_node(const std::string& path, const Memory& memory, const NodeOptions& options) {
        Group* group = nullptr;
        for (auto& each : groups_)
            if (each->model.path == path && !each->full()) group = each.get();
        if (group == nullptr) {
            groups_.push_back(std::make_unique<Group>(path));
            group = groups_.back().get();
        }
        const int lane = static_cast<int>(group->nodes.size());
        const int number = static_cast<int>(nodes.size());
        nodes.push_back(std::make_unique<Node>(group->model, lane, number, memory, options));
        group->nodes.push_back(nodes.back().get());
        return *nodes.back();
    }

    // Resets one engine alone, in no time.
    void reset_engine(int number) {
        Node* node = nodes.at(static_cast<size_t>(number)).get();
        for (auto& group : groups_) {
            if (std::find(group->nodes.begin(), group->nodes.end(), node) == group->nodes.end())
                continue;
            if (group->model.lanes > 1)
                throw std::runtime_error("the engine of node " + std::to_string(number) +
                                         " shares a model with others, in lanes, and cannot be "
                                         "reset alone");
            group->reset();
        }
        node->engine_was_reset();
    }

    // An end of -1 lies outside the system: see `external`.
    void add_wire(int from, int from_port, int to, int to_port, uint64_t latency, double stall,
                  double beats_per_cycle, double damage, double loss, double repetition,
                  int packet_flits) {
        LinkPort& sender = from >= 0 ? port(from, from_port) : port(to, to_port);
        const uint64_t node_id = from >= 0 ? nodes[static_cast<size_t>(from)]->drawn_as : 0;
        const auto port_id = static_cast<uint64_t>(from_port);
        wires_.push_back(std::make_unique<Wire>(latency, sender.bus_bytes()));
        ends_.push_back({from, from_port, to, to_port,
                         Stall(stall, random_key({options.seed, node_id, port_id, 48})),
                         Pace(beats_per_cycle < 1 ? 1 / beats_per_cycle : 0),
                         Hazard(damage, loss, repetition, packet_flits,
                                random_key({options.seed, node_id, port_id, 49}))});
    }

    LinkPort& port(int node, int port) {
        auto& links = nodes.at(static_cast<size_t>(node))->links;
        if (port < 0 || static_cast<size_t>(port) >= links.size())
            throw std::runtime_error("node " + std::to_string(node) + " has " +
                                     std::to_string(links.size()) + " link ports, so no port " +
                                     std::to_string(port));
        return *links[static_cast<size_t>(port)];
    }

    void start() {
        for (size_t i = 0; i < ends_.size(); ++i) {
            const End& end = ends_[i];
            if (end.from < 0) continue;
            const Wire* back = nullptr;
            for (size_t j = 0; j < ends_.size(); ++j)
                if (ends_[j].to == end.from && ends_[j].to_port == end.from_port)
                    back = wires_[j].get();
            if (back == nullptr) throw std::runtime_error("a link has one direction only");
            port(end.from, end.from_port).outward = end.to < 0;
            port(end.from, end.from_port).connect(wires_[i].get(), back, end.stall, end.pace,
                                                 end.hazard);
        }
        for (auto& group : groups_) group->reset();
        claims_ = std::vector<std::atomic<uint64_t>>(groups_.size());
    }

    uint64_t now() const { return now_; }

    // The wire that leads from a port to the outside, or from there to the port.
    Wire& external(int node, int port, bool outward) {
        for (size_t i = 0; i < ends_.size(); ++i) {
            const End& end = ends_[i];
            if (outward ? end.to < 0 && end.from == node && end.from_port == port
                        : end.from < 0 && end.to == node && end.to_port == port)
                return *wires_[i];
        }
        throw std::runtime_error("port " + std::to_string(port) + " of node " +
                                 std::to_string(node) + " has no link to the outside");
    }

    // Runs to a cycle, whatever the hosts have still to do.
    Status advance(uint64_t end_cycle) {
        return run(end_cycle, 1e9, false, true);
    }

    Status run(uint64_t limit_cycle, double budget_s, bool drain, bool to_the_end = false) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(budget_s);
        const size_t count = std::min(static_cast<size_t>(threads), groups_.size());
        stop_ = false;
        const uint64_t generation = generation_.load();
        std::vector<std::thread> workers;
        for (size_t i = 1; i < count; ++i)
            workers.emplace_back([=] { work(i, count, generation); });
        Status status = Status::time_over;
        for (;;) {
            if (!to_the_end && now_ % quantum_cycles == 0) {
                if (finished(drain)) {
                    status = Status::finished;
                    break;
                }
                if (links_given_up()) {
                    status = Status::given_up;
                    break;
                }
                if (stuck()) {
                    status = Status::stuck;
                    break;
                }
            }
            if (now_ >= limit_cycle) {
                status = Status::limit;
                break;
            }
            if (std::chrono::steady_clock::now() > deadline) break;
            run_window(count, limit_cycle);
            if (failed()) {
                status = Status::error;
                break;
            }
        }
        stop_ = true;
        generation_.fetch_add(1, std::memory_order_release);
        for (std::thread& worker : workers) worker.join();
        return status;
    }

    std::string unfinished(bool drain) const {
        std::string text;
        for (const auto& node : nodes)
            if (!node->host.done() || (drain && !node->at_rest()))
                text += (text.empty() ? "" : "; ") + node->state();
        return text.empty() ? "tokens are still on the links" : text;
    }

private:
    struct End {
        int from, from_port, to, to_port;
        Stall stall;
        Pace pace;
        Hazard hazard;
    };

    void run_window(size_t count, uint64_t limit_cycle) {
        const uint64_t boundary = (now_ / quantum_cycles + 1) * quantum_cycles;
        end_ = std::min({now_ + window_cycles, boundary, limit_cycle});
        working_.store(count - 1, std::memory_order_relaxed);
        const uint64_t window = generation_.fetch_add(1, std::memory_order_release) + 1;
        run_share(0, count, window);
        wait_for([this] { return working_.load(std::memory_order_acquire) == 0; });
        now_ = end_;
    }

    // Own groups first, for the sake of the caches, then those that no other thread has begun.
    void run_share(size_t thread, size_t count, uint64_t window) {
        for (size_t group = thread; group < groups_.size(); group += count)
            run_group(group, window);
        for (size_t group = 0; group < groups_.size(); ++group) run_group(group, window);
    }

    void run_group(size_t group, uint64_t window) {
        if (claims_[group].load(std::memory_order_relaxed) == window) return;
        if (claims_[group].exchange(window, std::memory_order_relaxed) != window)
            groups_[group]->run(now_, end_);
    }

    // Spins for a few microseconds before it offers the processor to others: windows are short.
    template <class Condition>
    static void wait_for(Condition condition) {
        for (int spins = 0; !condition(); ++spins)
            if (spins > 2000) std::this_thread::yield();
    }

    void work(size_t thread, size_t count, uint64_t seen) {
        for (;;) {
            uint64_t window = seen;
            wait_for([&] { return (window = generation_.load(std::memory_order_acquire)) != seen; });
            seen = window;
            if (stop_) return;
            run_share(thread, count, window);
            working_.fetch_sub(1, std::memory_order_release);
        }
    }

    bool tokens_in_flight() const {
        for (const auto& wire : wires_)
            if (wire->in_flight(now_)) return true;
        return false;
    }

    bool finished(bool drain) const {
        for (const auto& node : nodes)
            if (!node->host.done() || (drain && !node->at_rest())) return false;
        return !drain || !tokens_in_flight();
    }

    bool links_given_up() {
        given_up.clear();
        for (auto& node : nodes) given_up.push_back(node->given_up());
        return std::any_of(given_up.begin(), given_up.end(), [](uint32_t each) { return each != 0; });
    }

    // Every unfinished host waits for an interrupt and nothing is left that could raise one.
    bool stuck() const {
        bool waiting = false;
        for (const auto& node : nodes) {
            if (!node->at_rest() || (!node->host.done() && !node->host.blocked())) return false;
            if (!node->engine.has("idle")) return false;
            waiting = waiting || node->host.blocked();
        }
        return waiting && !tokens_in_flight();
    }

    bool failed() {
        const Node* first = nullptr;
        for (const auto& node : nodes)
            if (!node->error.empty() && (first == nullptr || node->error_cycle < first->error_cycle))
                first = node.get();
        if (first != nullptr) error = first->error;
        return first != nullptr;
    }

    std::vector<std::unique_ptr<Group>> groups_;
    std::vector<std::unique_ptr<Wire>> wires_;
    std::vector<End> ends_;
    uint64_t now_ = 0;
    uint64_t end_ = 0;
    std::vector<std::atomic<uint64_t>> claims_;
    std::atomic<uint64_t> generation_{0};
    std::atomic<size_t> working_{0};
    bool stop_ = false;
};

}  // namespace foldwire
