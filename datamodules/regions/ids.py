"""Which sample the regions of a detector's file belong to: names of pictures, made comparable."""

import re
from typing import Literal, get_args

Rule = Literal["stem", "exact", "number"]
RULES: tuple[Rule, ...] = get_args(Rule)
_EXTENSION = re.compile(r"\.(jpe?g|png|webp|gif|bmp|tiff?|np[yz]|json|txt)$", re.IGNORECASE)


def make_comparable(name: object, rule: Rule) -> str:
    """The form in which names of pictures, on both sides, are compared.

    Args:
        name: As a detector's file or a sample has it; a text or a whole number.
        rule: `exact`: as it is. `stem`: without folders and the extension of a picture or array, and whole numbers without
            leading zeros: `val2014/000042.jpg`, `000042.npz` and 42 are one. `number`: the last digits of the stem, as a
            whole number: `COCO_val2014_000000000042.jpg` and 42 are one.

    Raises:
        ValueError: `number`, and there are no digits.
    """
    text = str(name)
    if rule == "exact":
        return text
    stem = _EXTENSION.sub("", text.rpartition("/")[2])
    if rule == "number":
        digits = re.findall(r"[0-9]+", stem)
        if not digits:
            raise ValueError(f"--match number: found {text[:80]!r}, which has no digits; choose --match stem")
        stem = digits[-1]
    return stem.lstrip("0") or "0" if re.fullmatch("[0-9]+", stem) else stem
