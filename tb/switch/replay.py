"""Replay of the order in which tables on the way added the answers to a load."""

from tb.switch.endpoint import fold

__all__ = ["folded", "replay", "switches_between"]


def folded(op, operands):
    """The operands reduced one after the other."""
    total = operands[0]
    for each in operands[1:]:
        total = fold(op, total, each)
    return total


def switches_between(peer, first, last):
    """Switches from one to another, the *last* at first.

    Parameters
    ----------
    peer : dict of (switch, port) to (switch, port)
        Ports that are joined.
    """
    ways = [[last]]
    for way in ways:
        if way[-1] == first:
            return way
        ways += [[*way, s] for (t, _), (s, _) in peer.items() if t == way[-1] and s not in way]
    raise ValueError("no path")


def replay(answers, path, key, part, op, values, *, beyond=None):
    """The sum in a packet that left a switch, and the endpoints whose operands are in it.

    Parameters
    ----------
    answers : dict
        What each table added, in its order: ``(switch, *key)`` to ``[(source, count)]``.
    path : callable
        Switches from an endpoint to the requester, the requester's at first.
    key : tuple
        Region, address, requester and tag of the load.
    part : (source, count)
        Of the packet.
    op : ReduceOp
    values : mapping of endpoint to operand
    beyond : int, optional
        The switch that got the packet; else the requester did.
    """
    source, count = part
    way = path(source)
    for s in way if beyond is None else way[way.index(beyond) + 1 :]:
        added = answers.get((s, *key), [])
        at = next((k for k, (first, _) in enumerate(added) if first == source), None)
        if at is None:
            continue
        group = []
        while sum(n for _, n in group) < count:
            group.append(added[at + len(group)])
        assert sum(n for _, n in group) == count, "a sum of half a sum"
        parts = [replay(answers, path, key, each, op, values, beyond=s) for each in group]
        return (
            folded(op, [total for total, _ in parts]),
            [endpoint for _, endpoints in parts for endpoint in endpoints],
        )
    assert count == 1, "a sum that no table made"
    return values[source], [source]
