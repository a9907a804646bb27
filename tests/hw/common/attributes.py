# SPDX-License-Identifier: Apache-2.0
"""What the memory ports of a whole engine say of their transactions."""

from hw.common.axi import ATTRIBUTES


def assert_attributes(model, ports):
    """All *ports* memory ports of a compiled engine drive the constants, under reset and after."""
    with model.instance() as engine:
        for reset in (1, 0):
            engine.set("rst", reset)
            engine.cycle()
            for port in range(ports):
                for channel in ("ar", "aw"):
                    said = {name: engine.get(f"mem_{port}_{channel}{name}") for name in ATTRIBUTES}
                    assert said == {name: value for name, (_, value) in ATTRIBUTES.items()}
