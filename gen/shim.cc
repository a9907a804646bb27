// SPDX-License-Identifier: Apache-2.0
// The C interface of a compiled model, around the C++ that CXXRTL writes (model.cc).
//
// FW_SINGLE_PASS: one eval() settles the design and its edge detector is constant.
// FW_CLOCKED: the design has a clock. FW_OUTLINES: outputs have logic behind the registers.

#include "fast_values.h"
#include "model.cc"

#include <vector>

namespace {

using Design = cxxrtl_design::p_fw__top;

struct Port {
	const char *name;
	int width;
	bool is_input;
	uint32_t *(*data)(Design &);
};

template<size_t Bits>
uint32_t *data_of(value<Bits> &item) { return item.data; }
template<size_t Bits>
uint32_t *data_of(wire<Bits> &item) { return item.curr.data; }
// A constant output; nobody writes to it.
template<size_t Bits>
uint32_t *data_of(const value<Bits> &item) { return const_cast<uint32_t *>(item.data); }

const std::vector<Port> ports = {
#define PORT(name, width, is_input, member) \
	{name, width, is_input, []([[maybe_unused]] Design &top) { return data_of(member); }},
#include "ports.inc"
#undef PORT
};

struct Model {
	Design top;
	std::vector<uint32_t *> data;

	Model() {
		for (const Port &port : ports)
			data.push_back(port.data(top));
		settle();
	}

	void settle() {
#if !FW_SINGLE_PASS
		top.step();
#endif
#if FW_OUTLINES
		top.debug_eval();
#endif
	}

	void edge() {
#if FW_SINGLE_PASS
		top.eval();
		top.commit();
#elif FW_CLOCKED
		// The low phase brings the logic up to date with the inputs, the high phase is the edge.
		top.p_clk.set(false);
		top.step();
		top.p_clk.set(true);
		top.step();
#endif
	}
};

size_t words(const Port &port) {
	return port.width > 32 ? (port.width + 31) / 32 : 1;
}

} // namespace

extern "C" {

void *fw_create(void) { return new Model; }
void fw_destroy(void *model) { delete static_cast<Model *>(model); }
const char *fw_generator(void) { return "cxxrtl"; }
int fw_single_pass(void) { return FW_SINGLE_PASS; }
int fw_port_count(void) { return int(ports.size()); }
const char *fw_port_name(int port) { return ports.at(port).name; }
int fw_port_width(int port) { return ports.at(port).width; }
int fw_port_is_input(int port) { return ports.at(port).is_input; }
uint32_t *fw_port_data(void *model, int port) { return static_cast<Model *>(model)->data.at(port); }
void fw_settle(void *model) { static_cast<Model *>(model)->settle(); }

void fw_cycle(void *model) {
	static_cast<Model *>(model)->edge();
	static_cast<Model *>(model)->settle();
}

void fw_cycles(void *model, uint64_t count) {
	for (uint64_t done = 0; done < count; done++)
		static_cast<Model *>(model)->edge();
	if (count)
		static_cast<Model *>(model)->settle();
}

void fw_run(void *handle, uint64_t rows, int inputs, const int *input, const uint32_t *stimulus,
            int outputs, const int *output, uint32_t *result) {
	Model *model = static_cast<Model *>(handle);
	for (uint64_t row = 0; row < rows; row++) {
		for (int i = 0; i < inputs; i++) {
			size_t count = words(ports[input[i]]);
			std::memcpy(model->data[input[i]], stimulus, count * sizeof(uint32_t));
			stimulus += count;
		}
		fw_cycle(handle);
		for (int i = 0; i < outputs; i++) {
			size_t count = words(ports[output[i]]);
			std::memcpy(result, model->data[output[i]], count * sizeof(uint32_t));
			result += count;
		}
	}
}

}
