"""Filling modules with weights, whole or not at all, and with those of others by their names."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from .families import Family
from .heads import TokenHead
from .layouts import Layout, Translation, strip_prefixes, translate
from .towers import TextTower


def load_whole(module: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Fill a module with weights of its own names, all of them or none; one on `meta` takes the tensors themselves.

    Raises:
        ValueError: A weight is missing, left over or of another shape; names it and both shapes.
    """
    wanted = module.state_dict()
    faults = [f"{key} {tuple(weight.shape)} is missing" for key, weight in wanted.items() if key not in weights]
    faults += [f"{key} {tuple(weight.shape)} has no place" for key, weight in weights.items() if key not in wanted]
    faults += [
        f"{key}: weights {tuple(weights[key].shape)}, {name} {tuple(weight.shape)}"
        for key, weight in wanted.items()
        if key in weights and weights[key].shape != weight.shape
    ]
    if faults:
        raise ValueError(f"the weights do not fit the {name}; {some(faults, '; ')}; build it with the sizes of the weights")
    unmade = any(weight.is_meta for weight in wanted.values())
    module.load_state_dict(dict(weights), assign=unmade)


def load_foreign(tower: TextTower, weights: Mapping[str, Tensor], family: Family, head: TokenHead | None = None) -> Translation:
    """Give a tower, and a head, the weights of a state dict of others; heads without a place are left aside.

    Args:
        tower: Of the family, in the sizes of the weights. What weights do not tell must be right in it: epsilon, heads, offset.
        weights: In Hugging Face's or fairseq's layout, with any of the known prefixes.
        family: Whose layout it is.
        head: To be filled too; must then be in the weights.

    Raises:
        ValueError: A weight is missing, has no place or is of another shape; names it.
    """
    translation = translate_all(weights, family)
    parts: dict[str, dict[str, Tensor]] = {"encoder": {}, "head": {}}
    for name, weight in translation.weights.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = weight
    load_whole(tower, parts["encoder"], f"text tower as {family.name}")
    if head is not None:
        load_whole(head, parts["head"], f"head as {family.name}")
    return translation


def translate_all(weights: Mapping[str, Tensor], family: Family) -> Translation:
    """Weights under our names; heads that we have no place for are listed, a tower that is not whole is refused.

    Raises:
        ValueError: No name fits, a name of the tower or of a head is missing, or the tower has more than the family has.
    """
    layout = _find_layout(weights, family)
    return translate_whole(strip_prefixes(weights, layout), layout, family.name)


def translate_whole(bare: Mapping[str, Tensor], layout: Layout, name: str) -> Translation:
    """Weights under our names; heads that we have no place for are listed, an encoder that is not whole is refused.

    Args:
        bare: Weights by the layout's bare names.
        layout: Whose names they are.
        name: What it is to be, for messages.

    Raises:
        ValueError: No name fits, a name of the encoder or of a head is missing, or there is more than the encoder has.
    """
    translation = translate(bare, layout)
    if not translation.matched:
        raise ValueError(
            f"no name is one of {name}'s: 0 of {len(bare)} weights matched; found {some(list(bare))}, "
            f"expected {some([theirs[0] for _, theirs in layout.expand(1)])}, with nothing before them or any of module., "
            f"model., {', '.join(layout.bodies)}"
        )
    starts = {theirs.partition(".")[0] for ours, theirs in layout.names.items() if ours.startswith("encoder.")}
    strange = [one for one in translation.unexpected if one.partition(".")[0] in starts]
    if translation.missing or strange:
        raise ValueError(
            f"the weights are not a whole {name}: {translation.matched} matched, missing: "
            f"{some(translation.missing) or 'none'}, without a place in the tower: {some(strange) or 'none'}"
        )
    return translation


def is_fairseq(name: str) -> bool:
    return "sentence_encoder." in name


def _find_layout(weights: Mapping[str, Tensor], family: Family) -> Layout:
    return family.fairseq if family.fairseq is not None and any(map(is_fairseq, weights)) else family.layout


def some(names: Sequence[str], between: str = ", ") -> str:
    """The first three, and how many more."""
    return f"{between.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
