"""Ranges of numbers that options of objectives must lie in, and names that they must be one of."""

from typing import Any, get_args

COLDEST, HOTTEST = 1e-3, 1e3
"""Temperatures. Published ones lie between 0.01 and 1. Far below, scores overflow; far above, none stands out."""


def check_range(who: str, name: str, number: float | int, least: float | int, most: float | int, hint: str = "") -> None:
    """Raise ValueError unless a number lies between two others, or is one of them; what is not finite never does.

    Args:
        who: Whose option it is, for the message.
        name: Of the option, as configurations write it.
        number: What was given.
        least, most: What it may be.
        hint: What else there is to say, behind the message.
    """
    if not least <= number <= most:
        raise ValueError(f"{who}: {name} is {number}; expected a number from {least:g} to {most:g}{hint}")


def check_temperature(who: str, temperature: float) -> None:
    """Raise ValueError unless scores can be divided by it."""
    check_range(who, "temperature", temperature, COLDEST, HOTTEST, " (published ones: 0.01 to 1)")


def check_choice(who: str, name: str, value: str, kind: Any) -> None:
    """Raise ValueError unless an option is one of the names of a `Literal`.

    Args:
        who, name: As of `check_range`.
        value: What was given.
        kind: What it may be.
    """
    if value not in get_args(kind):
        raise ValueError(f"{who}: {name} is {value!r}, expected one of {', '.join(get_args(kind))}")
