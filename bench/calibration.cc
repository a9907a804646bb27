// SPDX-License-Identifier: Apache-2.0
// A fixed program whose CPU time stands beside reference times: it does what event simulators do.
// Messages go round rings of nodes; each hop allocates one, takes the earliest from a heap, and
// follows pointers to a node. Never change it: stored reference times are scaled by its own.

#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <queue>
#include <vector>

namespace {

constexpr int kNodes = 4096;
constexpr int kRing = 8;
constexpr int kMessagesPerNode = 4;
constexpr std::uint64_t kHops = 1'500'000;

struct Message {
    std::uint64_t time;
    std::uint64_t id;
    int goal;
    int steps;
};

struct Later {
    bool operator()(const Message* a, const Message* b) const {
        return a->time != b->time ? a->time > b->time : a->id > b->id;
    }
};

struct Node {
    std::uint64_t free = 0;
    std::list<std::uint64_t> recent;
    std::map<int, std::uint64_t> received;
};

}  // namespace

int main() {
    std::vector<Node> nodes(kNodes);
    std::priority_queue<Message*, std::vector<Message*>, Later> queue;
    std::uint64_t random = 1, id = 0, sum = 0;
    for (int node = 0; node < kNodes; ++node) {
        for (int number = 0; number < kMessagesPerNode; ++number) {
            queue.push(new Message{static_cast<std::uint64_t>(number), id++, node, 0});
        }
    }
    for (std::uint64_t hop = 0; hop < kHops; ++hop) {
        Message* message = queue.top();
        queue.pop();
        Node& node = nodes[message->goal];
        random = random * 6364136223846793005u + 1442695040888963407u;
        std::uint64_t begin = message->time > node.free ? message->time : node.free;
        node.free = begin + 100 + (random >> 58);
        node.received[message->steps % 16] += begin;
        node.recent.push_back(begin);
        if (node.recent.size() > 8) node.recent.pop_front();
        sum += begin ^ node.recent.front();
        int along = message->steps % 2 ? 1 : kRing;
        queue.push(new Message{node.free + 500, id++, (message->goal + along) % kNodes,
                               message->steps + 1});
        delete message;
    }
    while (!queue.empty()) {
        delete queue.top();
        queue.pop();
    }
    std::printf("%llu\n", static_cast<unsigned long long>(sum));
    return 0;
}
