"""What all that `interlingua checkpoint` takes over is told in."""

IDS = ("pad", "unknown", "start", "end", "mask")
"""Control tokens, in the order in which their ids are given."""


def account(matched: int, there: int, missing: list[str], unexpected: list[str]) -> None:
    """Say what became of all names; the rest of `there` are buffers and copies."""
    rest = there - matched - len(unexpected)
    aside = f" ({rest} buffers or copies set aside)" if rest > 0 else ""
    print(f"{matched} of {there} weights matched, {len(missing)} missing, {len(unexpected)} unexpected{aside}")
    for name in unexpected:
        print(f"unexpected, left aside: {name}")
