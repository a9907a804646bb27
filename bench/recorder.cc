// SPDX-License-Identifier: Apache-2.0
// A compiled model that passes everything on to another one (ENGINE) and writes what the first
// instance that is clocked sees and says, cycle by cycle, to the file TRACE: the words of all
// inputs, then of all outputs, in the order of the ports.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <vector>

namespace {

template<typename F>
F find(const char *name) {
	static void *library = dlopen(ENGINE, RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, name) : nullptr;
	if (!symbol) {
		std::fprintf(stderr, "recorder: %s\n", dlerror());
		std::abort();
	}
	return reinterpret_cast<F>(symbol);
}

void *recorded = nullptr;
std::FILE *trace = nullptr;

void write_ports(void *model, int inputs);

} // namespace

extern "C" {

void *fw_create(void) { return find<void *(*)(void)>("fw_create")(); }
int fw_single_pass(void) { return find<int (*)(void)>("fw_single_pass")(); }
int fw_port_count(void) { return find<int (*)(void)>("fw_port_count")(); }
const char *fw_port_name(int port) { return find<const char *(*)(int)>("fw_port_name")(port); }
int fw_port_width(int port) { return find<int (*)(int)>("fw_port_width")(port); }
int fw_port_is_input(int port) { return find<int (*)(int)>("fw_port_is_input")(port); }
uint32_t *fw_port_data(void *model, int port) { return find<uint32_t *(*)(void *, int)>("fw_port_data")(model, port); }
void fw_settle(void *model) { find<void (*)(void *)>("fw_settle")(model); }

void fw_destroy(void *model) {
	if (model == recorded && trace) {
		std::fclose(trace);
		trace = nullptr;
	}
	find<void (*)(void *)>("fw_destroy")(model);
}

void fw_cycle(void *model) {
	static const auto cycle = find<void (*)(void *)>("fw_cycle");
	if (!recorded) {
		recorded = model;
		trace = std::fopen(TRACE, "wb");
	}
	if (model != recorded || !trace)
		return cycle(model);
	write_ports(model, 1);
	cycle(model);
	write_ports(model, 0);
}

void fw_cycles(void *model, uint64_t count) {
	while (count--)
		fw_cycle(model);
}

}

namespace {

void write_ports(void *model, int inputs) {
	for (int port = 0; port < fw_port_count(); port++)
		if (fw_port_is_input(port) == inputs) {
			int words = fw_port_width(port) > 32 ? (fw_port_width(port) + 31) / 32 : 1;
			std::fwrite(fw_port_data(model, port), sizeof(uint32_t), words, trace);
		}
}

} // namespace
