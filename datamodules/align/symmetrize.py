"""Links of both directions made one set: their intersection, or grow-diag-final-and (Koehn et al. 2003; Moses)."""

from collections.abc import Iterable, Sequence

Pair = tuple[int, int]
METHODS = ("grow-diag-final-and", "intersection")
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrize(forward: Sequence[int], backward: Sequence[int], method: str) -> list[Pair]:
    """Links of one sentence pair, ascending.

    Args:
        forward: For each target word the source word that it arises from; -1 for none.
        backward: For each source word the target word that it arises from; -1 for none.
        method: `intersection`: what both directions say, the surest links. `grow-diag-final-and`: these, then links of
            either direction beside them (diagonally too) of which a word has no link yet, then links of either direction
            between two words that have none.
    """
    one = {(source, target) for target, source in enumerate(forward) if source >= 0}
    other = {(source, target) for source, target in enumerate(backward) if target >= 0}
    links = one & other
    if method == "grow-diag-final-and":
        _grow(links, one | other)
        _finish(links, sorted(one))
        _finish(links, sorted(other))
    return sorted(links)


def _grow(links: set[Pair], union: set[Pair]) -> None:
    """Add links beside those that are there, until there is none to add."""
    sources, targets = {source for source, _ in links}, {target for _, target in links}
    fresh = sorted(links)
    while fresh:
        added = []
        for source, target in fresh:
            for down, right in _NEIGHBOURS:
                pair = source + down, target + right
                if pair in union and pair not in links and not (pair[0] in sources and pair[1] in targets):
                    links.add(pair)
                    sources.add(pair[0])
                    targets.add(pair[1])
                    added.append(pair)
        fresh = added


def _finish(links: set[Pair], candidates: Iterable[Pair]) -> None:
    """Add links between two words without any."""
    sources, targets = {source for source, _ in links}, {target for _, target in links}
    for source, target in candidates:
        if source not in sources and target not in targets:
            links.add((source, target))
            sources.add(source)
            targets.add(target)
