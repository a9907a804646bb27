# SPDX-License-Identifier: Apache-2.0
"""What the sweeps under test run; in a module of its own because worker processes import it."""

import os
import time
from pathlib import Path

from sim.opened import opening


def area(config, *, source):
    """Numbers of every kind, deterministic."""
    width, height = config["width"], config["box"]["height"]
    return {"area": width * height / 3, "sum": width + height, "shape": f"{width}x{height}"}


def picky(config, *, source):
    if config["width"] == 2:
        raise ValueError("width must not be 2\n  really")
    if config["width"] == 3:
        raise ZeroDivisionError("by three")
    return area(config, source=source)


def deadly(config, *, source):
    if config["width"] == 2:
        os._exit(9)
    return area(config, source=source)


def logged(config, *, source):
    """Takes a moment, and says in a file that it ran, where and what."""
    log = Path(source).parent / "log"
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {config['width']} {config['box']['height']}\n")
    time.sleep(config.get("seconds", 0.0))
    return area(config, source=source)


def broken_metrics(config, *, source):
    return {"area": [1, 2]}


def reading(config, *, source):
    """A number from a file whose name is not what the configuration says."""
    path = opening(Path(source).parent / f"{config['named']}.txt")
    return {"area": float(path.read_text())}
