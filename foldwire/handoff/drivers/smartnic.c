/* SPDX-License-Identifier: Apache-2.0 */
/* A driver in its least form: all-reduces on a ring of NICs. The manual has the rules. */

#include "engine.h"

/* A locally administered address of a rank; its first byte is the least significant. */
#ifdef ENGINE_OWN_ADDRESS_LOW_OFFSET
static uint64_t address_of(uint32_t rank) {
  return UINT64_C(0x1df002) | (uint64_t)(rank >> 8 & 0xff) << 24 | (uint64_t)(rank & 0xff) << 32;
}
#endif

/* Nonzero for a ring that the NIC does not support. */
int engine_example_set_up(engine_device device, uint32_t rank, uint32_t nodes,
                          uint64_t memory_bytes, uint32_t watchdog_cycles);
/* All nodes give the same numbers, but for addresses: multiples of the bus width. */
void engine_example_start(engine_device device, uint32_t nodes, uint64_t source,
                          uint64_t destination, uint32_t elements, enum engine_reduce_op op,
                          uint32_t name);
/* 1: the oldest command is over, and its result valid; 0: not yet; -1: it is over or was given up,
 * and its result is not valid. */
int engine_example_poll(engine_device device);

int engine_example_set_up(engine_device device, uint32_t rank, uint32_t nodes,
                          uint64_t memory_bytes, uint32_t watchdog_cycles) {
  if (nodes < 2 || nodes > 256 || rank >= nodes)
    return -1;
  engine_node_write(device, engine_node_pack(rank, nodes));
#ifdef ENGINE_OWN_ADDRESS_LOW_OFFSET
  engine_own_address_write64(device, address_of(rank));
  engine_next_address_write64(device, address_of((rank + 1) % nodes));
  engine_previous_address_write64(device, address_of((rank + nodes - 1) % nodes));
#endif
  engine_memory_end_write64(device, memory_bytes - 1);
  engine_watchdog_write(device, engine_watchdog_pack(watchdog_cycles, 1));
  engine_interrupt_enable_write(device, UINT32_C(0xffffffff));
  return 0;
}

void engine_example_start(engine_device device, uint32_t nodes, uint64_t source,
                          uint64_t destination, uint32_t elements, enum engine_reduce_op op,
                          uint32_t name) {
  (void)nodes;
  engine_source_write64(device, source);
  engine_destination_write64(device, destination);
  engine_elements_write(device, elements);
  engine_command_write(device, engine_command_pack(name, op, 0));
}

int engine_example_poll(engine_device device) {
  uint32_t record = engine_completion_read(device);
  uint32_t good = ENGINE_COMPLETION_VALID_MASK | ENGINE_COMPLETION_TAG_MASK;
  if (!(record & ENGINE_COMPLETION_VALID_MASK))
    return engine_interrupt_read(device) & (ENGINE_INTERRUPT_ABORTED_MASK |
                                            ENGINE_INTERRUPT_REFUSED_MASK) ? -1 : 0;
  engine_completion_taken_write(device, 1);
  engine_interrupt_write(device, ENGINE_INTERRUPT_DONE_MASK);
  return record & ~good ? -1 : 1;
}
