// The C interface of a compiled model, around the C++ that CXXRTL writes (model.cc).
//
// FW_SINGLE_PASS: one eval() settles the design and its edge detector is constant.
// FW_CLOCKED: the design has a clock.

#include "model.cc"

#include <cstdlib>
#include <string>

namespace {

struct Port {
	std::string name;
	int width;
	bool is_input;
};

struct Model {
	cxxrtl_design::p_fw__top top;
	std::vector<uint32_t *> data;

	Model();

	void settle() {
#if !FW_SINGLE_PASS
		top.step();
#endif
		top.debug_eval();
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

// Only ports have public names; CXXRTL marks the others as generated.
bool is_port(const std::string &name, const cxxrtl::debug_item &item) {
	return name != "clk" && item.type != cxxrtl::debug_item::MEMORY && !(item.flags & cxxrtl::debug_item::GENERATED);
}

cxxrtl::debug_items items_of(cxxrtl_design::p_fw__top &top) {
	cxxrtl::debug_items items;
	top.debug_info(&items, nullptr, "", {});
	return items;
}

const std::vector<Port> &ports() {
	static const std::vector<Port> list = [] {
		std::unique_ptr<cxxrtl_design::p_fw__top> top(new cxxrtl_design::p_fw__top);
		std::vector<Port> found;
		cxxrtl::debug_items items = items_of(*top);
		for (auto &entry : items.table) {
			const cxxrtl::debug_item &item = entry.second.at(0);
			if (is_port(entry.first, item))
				found.push_back({entry.first, int(item.width), bool(item.flags & cxxrtl::debug_item::INPUT)});
		}
		return found;
	}();
	return list;
}

Model::Model() {
	cxxrtl::debug_items items = items_of(top);
	for (const Port &port : ports())
		data.push_back(items.table.at(port.name).at(0).curr);
	settle();
}

size_t words(const Port &port) {
	return port.width > 32 ? (port.width + 31) / 32 : 1;
}

} // namespace

extern "C" {

void *fw_create(void) { return new Model; }
void fw_destroy(void *model) { delete static_cast<Model *>(model); }
int fw_single_pass(void) { return FW_SINGLE_PASS; }
int fw_port_count(void) { return int(ports().size()); }
const char *fw_port_name(int port) { return ports().at(port).name.c_str(); }
int fw_port_width(int port) { return ports().at(port).width; }
int fw_port_is_input(int port) { return ports().at(port).is_input; }
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
			size_t count = words(ports()[input[i]]);
			std::memcpy(model->data[input[i]], stimulus, count * sizeof(uint32_t));
			stimulus += count;
		}
		fw_cycle(handle);
		for (int i = 0; i < outputs; i++) {
			size_t count = words(ports()[output[i]]);
			std::memcpy(result, model->data[output[i]], count * sizeof(uint32_t));
			result += count;
		}
	}
}

}
