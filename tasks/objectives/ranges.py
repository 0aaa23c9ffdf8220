"""Ranges of numbers that options of objectives must lie in."""

COLDEST, HOTTEST = 1e-3, 1e3
"""Temperatures. Published ones lie between 0.01 and 1. Far below, scores overflow; far above, none stands out."""


def check_range(who: str, name: str, number: float, least: float, most: float, hint: str = "") -> None:
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
