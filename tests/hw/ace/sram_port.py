# SPDX-License-Identifier: Apache-2.0
"""Readers and writers of the SRAM, with an SRAM that grants when it likes."""

from collections import deque

from hw.ace.sram import READ_LATENCY


def reads(port, content, grants):
    """A check that answers *port* with *content* of the row that it reads; *grants* says for each
    cycle whether SRAM would grant."""

    async def run(ctx):
        coming = deque([0] * (READ_LATENCY - 2))
        granted = False
        ctx.set(port.grant, grants())
        async for *_, wants, row, grant in ctx.tick().sample(port.wants, port.row, port.grant):
            coming.append(content(row) if granted else 0)
            ctx.set(port.data, coming.popleft())
            granted = wants and grant
            ctx.set(port.grant, grants())

    return run


def writes(port, write, grants):
    """A check that calls *write* with each row that *port* writes, and its data."""

    async def run(ctx):
        granted = False
        ctx.set(port.grant, grants())
        async for *_, wants, row, word, grant in ctx.tick().sample(
            port.wants, port.row, port.data, port.grant
        ):
            if granted:
                write(row, word)
            granted = wants and grant
            ctx.set(port.grant, grants())

    return run
