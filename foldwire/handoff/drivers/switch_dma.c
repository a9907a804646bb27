/* SPDX-License-Identifier: Apache-2.0 */
/* A driver in its least form: all-reduces by push, of the endpoints at one switch in region 0. */

#include "engine.h"

#if ENGINE_CONFIG_REGIONS > 1
#define FIRST(device) device, 0
#else
#define FIRST(device) device
#endif

/* Nonzero for numbers that cannot be. After the switches are programmed. */
int engine_example_set_up(engine_device device, uint32_t rank, uint32_t nodes,
                          uint64_t memory_bytes, uint32_t watchdog_cycles);
/* 1 once all members have joined; commands before that are refused. */
int engine_example_ready(engine_device device);
/* All members give the same numbers, but for addresses: multiples of 16. */
void engine_example_start(engine_device device, uint32_t nodes, uint64_t source,
                          uint64_t destination, uint32_t elements, enum engine_reduce_op op,
                          uint32_t name);
/* 1: the oldest command is over, and its result valid; 0: not yet; -1: it is over or was given up,
 * and its result is not valid. */
int engine_example_poll(engine_device device);

int engine_example_set_up(engine_device device, uint32_t rank, uint32_t nodes,
                          uint64_t memory_bytes, uint32_t watchdog_cycles) {
  if (nodes < 2 || nodes > ENGINE_CONFIG_ENDPOINTS || rank >= nodes)
    return -1;
  engine_node_write(FIRST(device), engine_node_pack(rank, nodes, 0));
  engine_memory_end_write64(device, memory_bytes - 1);
  engine_watchdog_write(device, engine_watchdog_pack(watchdog_cycles, 0, 1));
  engine_interrupt_enable_write(device, UINT32_C(0xffffffff));
  engine_control_write(FIRST(device), ENGINE_CONTROL_JOIN_SET(1));
  return 0;
}

int engine_example_ready(engine_device device) {
  return (engine_status_read(device) & ENGINE_STATUS_READY_SET(1)) != 0;
}

void engine_example_start(engine_device device, uint32_t nodes, uint64_t source,
                          uint64_t destination, uint32_t elements, enum engine_reduce_op op,
                          uint32_t name) {
  (void)nodes;
  engine_source_write64(device, source);
  engine_destination_write64(device, destination);
  engine_elements_write(device, elements);
  engine_command_write(device, ENGINE_COMMAND_TAG_SET(name) | ENGINE_COMMAND_OP_SET(op));
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
