# SPDX-License-Identifier: Apache-2.0
"""Native calls that Ctrl-C ends."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread, current_thread, main_thread

__all__ = ["ended_by_interrupts"]


def ended_by_interrupts(call: Callable[[], int], stop: Callable[[], None]) -> int:
    """Return the result of *call*, which an interrupt ends by *stop* before it goes on.

    Python handles interrupts in its main thread alone, between instructions. So a native call that
    is made there gets a thread of its own.
    """
    if current_thread() is not main_thread():
        return call()
    future: Future[int] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        return future.result()
    except KeyboardInterrupt:
        stop()
        thread.join()
        raise
