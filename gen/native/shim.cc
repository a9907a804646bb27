// SPDX-License-Identifier: Apache-2.0
// The C interface of a model of gen/native: the same as that of gen/shim.cc.

#include "model.h"

#include <vector>

namespace {

struct Port {
	const char *name;
	int width;
	bool is_input;
	int start;  // its first word among those of the inputs or outputs
};

#include "ports.inc"

constexpr int port_count = int(sizeof ports / sizeof *ports);

struct Model {
	Design top;
	uint32_t input[lanes][input_words + 1] = {}, output[lanes][output_words + 1] = {};
	uint32_t seen[lanes][input_words + 1] = {};
	Inputs inputs;
	Outputs outputs;

	Model() {
		for (int lane = 0; lane < lanes; lane++) {
			inputs.lane[lane] = input[lane];
			outputs.lane[lane] = output[lane];
		}
		settle();
	}

	void load() {
		if (std::memcmp(input, seen, sizeof input)) {
			top.load(inputs);
			std::memcpy(seen, input, sizeof input);
		}
	}

	void settle() {
		load();
		top.evaluate();
		top.store(outputs);
	}

	void edge() {
		load();
		top.evaluate();
		top.edge();
	}

	uint32_t *data(int port, int lane) {
		return (ports[port].is_input ? input[lane] : output[lane]) + ports[port].start;
	}
};

int words(const Port &port) {
	return port.width > 32 ? (port.width + 31) / 32 : 1;
}

// The words of a port.
struct Span {
	uint32_t *data;
	int words;
};

// The words of the chosen ports, lane after lane; adjacent ones become one span.
std::vector<Span> spans(Model *model, int count, const int *chosen) {
	std::vector<Span> found;
	for (int lane = 0; lane < lanes; lane++)
		for (int i = 0; i < count; i++) {
			const Span span = {model->data(chosen[i], lane), words(ports[chosen[i]])};
			if (!found.empty() && found.back().data + found.back().words == span.data)
				found.back().words += span.words;
			else
				found.push_back(span);
		}
	return found;
}

int copied(uint32_t *to, const uint32_t *from, int words) {
	std::memcpy(to, from, words * sizeof *to);
	return words;
}

} // namespace

// All else is hidden, so that calls within the model are direct.
#pragma GCC visibility push(default)
extern "C" {

void *fw_create(void) { return new Model; }
void fw_destroy(void *model) { delete static_cast<Model *>(model); }
const char *fw_generator(void) { return "native"; }
int fw_single_pass(void) { return 1; }
int fw_port_count(void) { return port_count; }
const char *fw_port_name(int port) { return ports[port].name; }
int fw_port_width(int port) { return ports[port].width; }
int fw_port_is_input(int port) { return ports[port].is_input; }
uint32_t *fw_lane_data(void *model, int lane, int port) {
	return static_cast<Model *>(model)->data(port, lane);
}
uint32_t *fw_port_data(void *model, int port) { return fw_lane_data(model, 0, port); }
int fw_lanes(void) { return lanes; }
void fw_settle(void *model) { static_cast<Model *>(model)->settle(); }

void fw_cycles(void *handle, uint64_t count) {
	Model *model = static_cast<Model *>(handle);
	for (uint64_t done = 0; done < count; done++) {
		model->edge();
		if (model->top.idle())
			break;
	}
	if (count) {
		model->top.evaluate();
		model->top.store(model->outputs);
	}
}

void fw_cycle(void *model) { fw_cycles(model, 1); }

int fw_idle(void *handle) {
	Model *model = static_cast<Model *>(handle);
	model->load();
	return model->top.idle();
}

void fw_run(void *handle, uint64_t rows, int inputs, const int *input, const uint32_t *stimulus,
            int outputs, const int *output, uint32_t *result) {
	Model *model = static_cast<Model *>(handle);
	const std::vector<Span> to = spans(model, inputs, input), from = spans(model, outputs, output);
	for (uint64_t row = 0; row < rows; row++) {
		for (const Span &span : to)
			stimulus += copied(span.data, stimulus, span.words);
		model->edge();
		model->top.evaluate();
		if (from.empty())
			continue;
		model->top.store(model->outputs);
		for (const Span &span : from)
			result += copied(result, span.data, span.words);
	}
	if (from.empty())
		model->settle();
}

}
#pragma GCC visibility pop
