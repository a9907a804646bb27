# SPDX-License-Identifier: Apache-2.0
"""Calls that Ctrl-C ends."""

from collections.abc import Callable
from threading import Event, Thread, current_thread, main_thread
from typing import TypeVar

__all__ = ["ended_by_interrupts"]

Result = TypeVar("Result")


def ended_by_interrupts(
    call: Callable[[], Result], stop: Callable[[Thread], None], *, wait_s: float | None = None
) -> Result:
    """Return the result of *call*, or raise its error; an interrupt ends it by *stop*.

    Python handles interrupts in its main thread alone, between instructions. So a call that is
    made there gets a thread of its own, which *stop* is given and which does not keep the process
    from ending. It is waited for, for *wait_s* at most, before the interrupt goes on.
    """
    if current_thread() is not main_thread():
        return call()
    ended = Event()
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        ended.set()

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        stop(thread)
        thread.join(wait_s)
        raise
    if errors:
        raise errors.pop()
    return results[0]
