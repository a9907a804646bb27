/* SPDX-License-Identifier: Apache-2.0 */
/* A driver in its least form: all-reduces on a ring, on which link 0 of each node leads to link 1
 * of the next. The manual has the rules that are followed here. */

#include "engine.h"

#define LANES (ENGINE_CONFIG_BUS_BYTES / 4)
#define PACKET (ENGINE_CONFIG_PACKET_BYTES / 4)
#define TABLE_WORDS 16u
#define FIRST_FSMS ((uint32_t)ENGINE_FSMS_RESET)

static uint64_t rounded_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/* Largest block, in elements: one of each node fits a slot; packets are full if they can be. */
static uint64_t largest_block(uint32_t nodes) {
  uint64_t largest = ENGINE_CONFIG_SLOT_BEATS / nodes * LANES;
  return largest < PACKET ? largest : largest / PACKET * PACKET;
}

static void put(engine_device device, uint32_t fsm, uint32_t address, uint64_t word) {
  engine_program_address_write(device, engine_program_address_pack(address, fsm));
  engine_program_write64(device, word);
}

/* Node `rank` sends its block to the next node of the direction, adds its own to each that comes
 * and passes it on, and passes the sums on, until all nodes have all of them. */
static void put_ring(engine_device device, uint32_t fsm, uint32_t word, uint32_t rank,
                     uint32_t nodes, int backwards) {
  uint64_t to = backwards ? 1 : 0, from = backwards ? 0 : 1, k;
  uint64_t last = 2 * (uint64_t)nodes - 2;
  put(device, fsm, ENGINE_PROGRAM_ALL_REDUCE, engine_program_entry_pack(
      word / ENGINE_CONFIG_ENTRY_WORDS, last + 1, last, last, UINT64_C(1) << from, 1));
  for (k = 0; k <= last; k++) {
    uint64_t steps = (1 + k) % nodes;
    uint64_t block = backwards ? (rank + steps) % nodes : (rank + nodes - steps) % nodes;
    uint64_t in = k < nodes ? k : nodes, out = k < nodes ? k + 1 : nodes;
    uint64_t op = k == 0 ? ENGINE_OPCODE_SEND
                  : k < (uint64_t)nodes - 1 ? ENGINE_OPCODE_RECV_REDUCE_SEND
                  : k == (uint64_t)nodes - 1 ? ENGINE_OPCODE_RECV_REDUCE_COPY_SEND
                  : k < last ? ENGINE_OPCODE_RECV_COPY_SEND : ENGINE_OPCODE_RECV;
    /* The last one sends nothing: it names no link and no step. */
    put(device, fsm, word + (uint32_t)(k ? k + 1 : 0), engine_instruction_pack(
        op, block, k < last ? to : 0, k < last ? k + 2 : 0, out, in, 0, 0));
  }
  put(device, fsm, word + 1, ENGINE_OPCODE_END);
}

#if ENGINE_CONFIG_PHASES > 1
/* FSMs of later phases have nothing to do on a ring: they pass all blocks on. */
static void put_copy(engine_device device, uint32_t fsm, uint32_t word, uint32_t nodes) {
  put(device, fsm, ENGINE_PROGRAM_ALL_REDUCE, engine_program_entry_pack(
      word / ENGINE_CONFIG_ENTRY_WORDS, 1, 0, 1, 0, nodes));
  put(device, fsm, word, ENGINE_OPCODE_COPY);
  put(device, fsm, word + 1, ENGINE_OPCODE_END);
}
#endif

/* Nonzero if a ring of so many nodes is too large for this engine. */
int engine_example_set_up(engine_device device, uint32_t rank, uint32_t nodes,
                          uint64_t memory_bytes, uint32_t watchdog_cycles);
/* All nodes give the same numbers, but for addresses: multiples of the bus width. */
void engine_example_start(engine_device device, uint32_t nodes, uint64_t source,
                          uint64_t destination, uint32_t elements, enum engine_reduce_op op,
                          uint32_t name);
/* 1: the oldest command is over, and its result valid; 0: not yet; -1: it is over or stands still,
 * and its result is not valid. */
int engine_example_poll(engine_device device);

int engine_example_set_up(engine_device device, uint32_t rank, uint32_t nodes,
                          uint64_t memory_bytes, uint32_t watchdog_cycles) {
  uint32_t fsm, word = TABLE_WORDS << (ENGINE_CONFIG_PHASES > 0);
  if (nodes < 2 || largest_block(nodes) == 0 ||
      word + 2 * (uint64_t)nodes > ENGINE_CONFIG_PROGRAM_WORDS)
    return -1;
  engine_node_write(device, rank);
  engine_nodes_write(device, nodes);
  engine_fsms_write(device, FIRST_FSMS);
  engine_links_write(device, 3);
  engine_memory_end_write64(device, memory_bytes - 1);
  engine_watchdog_write(device, watchdog_cycles);
  engine_interrupt_enable_write(device, UINT32_C(0xffffffff));
  for (fsm = 0; fsm < ENGINE_CONFIG_FSMS; fsm++) {
#if ENGINE_CONFIG_PHASES > 0
    put(device, fsm, TABLE_WORDS + ENGINE_PROGRAM_ALL_REDUCE,
        engine_placement_pack(0, ENGINE_CONFIG_SLOT_BEATS / nodes));
#endif
#if ENGINE_CONFIG_PHASES > 1
    if (fsm >= FIRST_FSMS) {
      put_copy(device, fsm, word, nodes);
      continue;
    }
#endif
    put_ring(device, fsm, word, rank, nodes, fsm % 2);
  }
  return 0;
}

void engine_example_start(engine_device device, uint32_t nodes, uint64_t source,
                          uint64_t destination, uint32_t elements, enum engine_reduce_op op,
                          uint32_t name) {
  uint64_t stride = rounded_up(((uint64_t)elements + nodes - 1) / nodes, LANES);
  uint64_t block = rounded_up((stride + FIRST_FSMS - 1) / FIRST_FSMS, PACKET);
  if (block > largest_block(nodes))
    block = largest_block(nodes);
  engine_source_write64(device, source);
  engine_destination_write64(device, destination);
  engine_elements_write(device, elements);
  engine_stride_write(device, (uint32_t)stride);
  engine_block_write(device, (uint32_t)block);
  engine_command_write(device, engine_command_pack(
      name, ENGINE_PROGRAM_ALL_REDUCE, op, 1, 1, 0));
}

int engine_example_poll(engine_device device) {
  uint32_t record = engine_completion_read(device);
  uint32_t good = ENGINE_COMPLETION_VALID_MASK | ENGINE_COMPLETION_COLLECTIVE_MASK;
  if (!(record & ENGINE_COMPLETION_VALID_MASK))
    return engine_interrupt_read(device) & (ENGINE_INTERRUPT_STALLED_MASK |
                                            ENGINE_INTERRUPT_REFUSED_MASK) ? -1 : 0;
  engine_completion_taken_write(device, 1);
  engine_interrupt_write(device, ENGINE_INTERRUPT_DONE_MASK);
  return record & ~good ? -1 : 1;
}
