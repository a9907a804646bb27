// SPDX-License-Identifier: Apache-2.0
// Compiled engines (shared objects with the fw_* C interface) and their ports by name.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace foldwire {

// What a node did wrong; the node adds its number and the cycle.
struct Violation {
    std::string text;
};

inline std::string hex(uint64_t value) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    do {
        text.insert(text.begin(), digits[value & 15]);
        value >>= 4;
    } while (value != 0);
    return "0x" + text;
}

struct EnginePort {
    uint32_t* data;
    int width;
    bool input;
};

// What runs engines: one, or one in each lane of a model that has lanes.
class Model {
public:
    explicit Model(const std::string& path) : path(path) {
        library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library_ == nullptr) throw std::runtime_error(dlerror());
        cycle_ = symbol<void (*)(void*)>("fw_cycle");
        destroy_ = symbol<void (*)(void*)>("fw_destroy");
        if (dlsym(library_, "fw_lanes") != nullptr) lanes = symbol<int (*)()>("fw_lanes")();
        instance_ = symbol<void* (*)()>("fw_create")();
    }

    ~Model() {
        if (instance_ != nullptr) destroy_(instance_);
        if (library_ != nullptr) dlclose(library_);
    }

    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    void cycle() { cycle_(instance_); }

    std::map<std::string, EnginePort> ports(int lane) {
        auto count = symbol<int (*)()>("fw_port_count");
        auto name = symbol<const char* (*)(int)>("fw_port_name");
        auto width = symbol<int (*)(int)>("fw_port_width");
        auto is_input = symbol<int (*)(int)>("fw_port_is_input");
        std::map<std::string, EnginePort> ports;
        for (int i = 0; i < count(); ++i) {
            uint32_t* data = lane == 0 ? symbol<uint32_t* (*)(void*, int)>("fw_port_data")(instance_, i)
                                       : symbol<uint32_t* (*)(void*, int, int)>("fw_lane_data")(
                                             instance_, lane, i);
            ports[name(i)] = {data, width(i), is_input(i) != 0};
        }
        return ports;
    }

    const std::string path;
    int lanes = 1;

private:
    template <class Function>
    Function symbol(const char* name) {
        void* address = dlsym(library_, name);
        if (address == nullptr) throw std::runtime_error(path + " has no function " + name);
        return reinterpret_cast<Function>(address);
    }

    void* library_ = nullptr;
    void* instance_ = nullptr;
    void (*cycle_)(void*) = nullptr;
    void (*destroy_)(void*) = nullptr;
};

// One engine of a model. Who has it also steps the model.
class Engine {
public:
    Engine(Model& model, int lane) : path_(model.path), ports_(model.ports(lane)) {}

    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    bool has(const std::string& name) const { return ports_.count(name) != 0; }

    int width(const std::string& name) const {
        auto port = ports_.find(name);
        return port == ports_.end() ? 0 : port->second.width;
    }

    uint32_t* input(const std::string& name) { return find(name, true); }
    const uint32_t* output(const std::string& name) { return find(name, false); }

    const uint32_t* either(const std::string& name) {
        auto port = ports_.find(name);
        return find(name, port != ports_.end() && port->second.input);
    }

    // Ports that an engine may leave out: writes go nowhere, reads give zero.
    uint32_t* optional_input(const std::string& name) {
        return has(name) ? find(name, true) : unused_input_;
    }
    const uint32_t* optional_output(const std::string& name) {
        return has(name) ? find(name, false) : unused_output_;
    }

    void set(const std::string& name, uint64_t value) {
        uint32_t* data = input(name);
        data[0] = static_cast<uint32_t>(value);
        if (width(name) > 32) data[1] = static_cast<uint32_t>(value >> 32);
    }

    uint64_t wide(const uint32_t* data, int width) const {
        return width > 32 ? data[0] | static_cast<uint64_t>(data[1]) << 32 : data[0];
    }

private:
    uint32_t* find(const std::string& name, bool input) {
        auto port = ports_.find(name);
        if (port == ports_.end() || port->second.input != input)
            throw std::runtime_error("engine " + path_ + " has no " +
                                     (input ? "input '" : "output '") + name + "'");
        return port->second.data;
    }

    std::string path_;
    std::map<std::string, EnginePort> ports_;
    uint32_t unused_input_[32] = {};
    uint32_t unused_output_[32] = {};
};

// An engine's output channel with a valid: while it is stalled, valid must stay and the payload
// must hold.
class Channel {
public:
    Channel() = default;
    Channel(Engine& engine, std::string name, const std::string& valid,
            const std::vector<std::string>& payload)
        : name_(std::move(name)), valid_(engine.output(valid)) {
        size_t words = 0;
        for (const std::string& port : payload) {
            if (!engine.has(port)) continue;
            size_t size = static_cast<size_t>(engine.width(port) + 31) / 32;
            fields_.push_back({engine.output(port), size});
            words += size;
        }
        held_.resize(words);
    }

    bool valid() const { return (*valid_ & 1) != 0; }
    bool stalled() const { return stalled_; }
    void reset() { stalled_ = false; }

    // True if a transfer takes place in this cycle.
    bool transfer(bool ready) {
        if (stalled_) check();
        bool valid_now = valid();
        if (valid_now && !ready && !stalled_) hold();
        stalled_ = valid_now && !ready;
        return valid_now && ready;
    }

private:
    struct Field {
        const uint32_t* data;
        size_t words;
    };

    void check() const {
        if (!valid()) throw Violation{name_ + " valid fell before the transfer was accepted"};
        const uint32_t* held = held_.data();
        for (const Field& field : fields_) {
            if (std::memcmp(held, field.data, field.words * 4) != 0)
                throw Violation{name_ + " payload changed while it was stalled"};
            held += field.words;
        }
    }

    void hold() {
        uint32_t* held = held_.data();
        for (const Field& field : fields_) {
            std::memcpy(held, field.data, field.words * 4);
            held += field.words;
        }
    }

    std::string name_;
    const uint32_t* valid_ = nullptr;
    std::vector<Field> fields_;
    std::vector<uint32_t> held_;
    bool stalled_ = false;
};

}  // namespace foldwire
