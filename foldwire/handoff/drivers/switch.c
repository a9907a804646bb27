/* SPDX-License-Identifier: Apache-2.0 */
/* A driver in its least form: one switch alone, endpoint k at link k, all in region 0. */

#include "engine.h"

/* Nonzero if the switch has too few links. Before any endpoint joins. */
int engine_example_set_up(engine_device device, uint32_t members, uint32_t timeout_cycles);

int engine_example_set_up(engine_device device, uint32_t members, uint32_t timeout_cycles) {
  uint32_t k;
  if (members < 2 || members > ENGINE_CONFIG_PORTS || members > ENGINE_CONFIG_ENDPOINTS)
    return -1;
  engine_timeout_write(device, engine_timeout_pack(timeout_cycles));
  engine_region_write(device, 0, engine_region_pack(1, members));
  engine_targets_write(device, 0, engine_targets_pack((UINT32_C(1) << members) - 1));
  for (k = 0; k < members; k++) {
    engine_behind_write(device, k, engine_behind_pack(1));
    engine_route_write(device, k, engine_route_pack(1, 1, k));
  }
  for (k = 0; k < ENGINE_CONFIG_HOMES; k++)
    engine_home_write(device, k, engine_home_pack(k % members));
  engine_interrupt_enable_write(device, UINT32_C(0xffffffff));
  return 0;
}
