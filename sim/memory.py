# SPDX-License-Identifier: Apache-2.0
"""Memory that this machine has to spare."""

import os

__all__ = ["available_bytes"]

UNKNOWN = 4 << 30
"""Assumed where the system does not tell."""


def available_bytes() -> int:
    """Memory usable without swapping and within the limit of this process's group."""
    found = UNKNOWN
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file)
        found = 1024 * int(rows["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        try:
            found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
        except (AttributeError, OSError, ValueError):
            pass
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = file.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:
            used = int(file.read())
        if limit != "max":
            found = min(found, int(limit) - used)
    except (OSError, ValueError):
        pass
    return max(0, found)
