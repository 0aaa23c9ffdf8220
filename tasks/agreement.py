"""What encoder, tokenizer and data must agree on before anything is read."""

from collections.abc import Mapping, Sequence

from ..modalities.tokenizer import Tokenizer
from ..modalities.vocabulary import shake_hands
from ..models.encoder import Encoder
from .objectives.objective import Objective


def check_agreement(encoder: Encoder, tokenizer: Tokenizer, data: object) -> None:
    """Refuse parts that do not fit each other; an encoder without text agrees with all.

    Args:
        encoder: What will read.
        tokenizer: What numbers tokens and languages.
        data: The data module, of which `max_tokens` is looked at, where it has one.

    Raises:
        ValueError: Vocabulary, number of languages or longest text differ; both numbers are named.
    """
    if encoder.vocabulary is None:
        return
    shake_hands(tokenizer.vocabulary, encoder.vocabulary)
    known, rows = len(tokenizer.languages), encoder.languages
    if rows and rows != known:
        raise ValueError(
            f"the tokenizer knows {known} languages, the encoder's table has {rows} rows; set `languages: {known}`"
        )
    longest, limit = getattr(data, "max_tokens", None), encoder.max_tokens
    if longest is not None and limit is not None and longest > limit:
        raise ValueError(
            f"the data's max_tokens is {longest}, but the encoder reads at most {limit} tokens; set `data.max_tokens: {limit}` "
            "(longer texts lose pieces, never their end token), or build the encoder with more"
        )


def check_counted(objectives: Mapping[str, Objective], tokenizer: Tokenizer) -> None:
    """Refuse objectives whose counts of vocabulary entries, or whose dictionary, were made with another tokenizer.

    Raises:
        ValueError: Names the objective, the file and both hashes.
    """
    for name, objective in objectives.items():
        counts = getattr(objective, "counts", None)
        if counts is not None and counts.tokenizer != tokenizer.hash:
            raise ValueError(
                f"objective {name}: {objective.path} was counted with the tokenizer {counts.tokenizer[:12]}, but "
                f"{tokenizer.path} is {tokenizer.hash[:12]}; count anew (`interlingua tokenizer counts {tokenizer.path} ...`)"
            )
        dictionary = getattr(objective, "dictionary", None)
        if dictionary is not None and dictionary.tokenizer != tokenizer.hash:
            raise ValueError(
                f"objective {name}: {objective.dictionary_path} was written with the tokenizer {dictionary.tokenizer[:12]}, "
                f"but {tokenizer.path} is {tokenizer.hash[:12]}; write it anew (`interlingua tokenizer dictionary ... "
                f"--tokenizer {tokenizer.path}`)"
            )
        if dictionary is not None and (most := int(dictionary.language.max())) >= len(tokenizer.languages):
            raise ValueError(
                f"objective {name}: {objective.dictionary_path} has words in language {most}, but {tokenizer.path} numbers "
                f"{len(tokenizer.languages)} from 0; it is damaged: write it anew (`interlingua tokenizer dictionary`)"
            )


def check_classes(objectives: Mapping[str, Objective], data: object, trained: Sequence[str] | None = None) -> None:
    """Refuse objectives with more classes, or fewer, than the data have labels, or with others.

    Args:
        objectives: By name; those without `classes` agree with all.
        data: The data module; `labels` is looked at, where it has any.
        trained: Labels that heads from elsewhere were trained with; None: not known.

    Raises:
        ValueError: Names the objective and what differs.
    """
    labels = getattr(data, "labels", None)
    if labels and trained is not None and list(labels) != list(trained):
        raise ValueError(
            f"data.labels are {', '.join(labels[:5])}, ..., but the heads of `initial` were trained with "
            f"{', '.join(trained[:5])}, ...; give the same names in the same order, or leave `initial_heads` out"
        )
    for name, objective in objectives.items():
        classes = getattr(objective, "classes", None)
        if labels and classes is not None and classes != len(labels):
            raise ValueError(
                f"objective {name}: classes is {classes}, but the data have {len(labels)} labels ({', '.join(labels[:5])}"
                f"{', ...' if len(labels) > 5 else ''}); set `model.objectives.{name}.classes {len(labels)}`, or mend "
                "data.labels"
            )
        names = getattr(objective, "names", None)
        if labels and names is not None and list(names) != list(labels):
            at = next(place for place, pair in enumerate(zip(names, labels, strict=True)) if pair[0] != pair[1])
            raise ValueError(
                f"objective {name}: class {at} is {names[at]!r}, but label {at} of the data is {labels[at]!r}; "
                f"give `model.objectives.{name}.classes` and `data.labels` the same names in the same order"
            )
