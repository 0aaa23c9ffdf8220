"""Which text of a sample is read, and which other text stands beside it as its translation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .sample import Caption


@dataclass(frozen=True)
class TextChoice:
    """Which of a sample's texts may be chosen: first a language, each as likely, then one of its texts.

    Args:
        languages: Language codes; None: all.
        roles: Roles (`caption`, `name`, ...), each text as likely as the next, or weights by role; None: all roles.
    """

    languages: list[str] | None = None
    roles: list[str] | dict[str, float] | None = None

    def __post_init__(self):
        for field in ("languages", "roles"):
            if getattr(self, field) is not None and not getattr(self, field):
                raise ValueError(f"{field} is empty, so that nothing could be read; give a list, or null for all")
        if isinstance(self.roles, Mapping) and not all(weight > 0 for weight in self.roles.values()):
            raise ValueError(f"weights of roles must be above 0, found {dict(self.roles)}; leave out what is never to be read")

    def among(self, captions: Sequence[Caption]) -> Sequence[Caption]:
        """Those of these texts that may be chosen."""
        if self.languages is not None:
            captions = [caption for caption in captions if caption.language in self.languages]
        return captions if self.roles is None else [caption for caption in captions if caption.role in self.roles]

    def weight(self, role: str) -> float:
        """How likely a text of this role is, against the others of its language."""
        return self.roles[role] if isinstance(self.roles, Mapping) else 1.0


@dataclass(frozen=True)
class TranslationChoice(TextChoice):
    """Which other text stands beside the chosen one, always in another language.

    Args:
        same_role: Whether the two must have the same role (a name beside a name, never a keyword).
    """

    same_role: bool = True


def choose(
    texts: Sequence[Caption], text: TextChoice, translation: TranslationChoice | None, luck: Sequence[float]
) -> tuple[Caption, Caption | None] | None:
    """One text of a sample, and its translation where one is asked for; None where the sample has none such.

    Args:
        texts: All texts of the sample.
        text: What may be the text.
        translation: What may stand beside it; None: nothing does.
        luck: Four numbers in [0, 1) that decide.
    """
    options = text.among(texts)
    if translation is None:
        return (_pick(options, text, luck[0], luck[1]), None) if options else None
    others = translation.among(texts)
    options = [caption for caption in options if any(_partners(caption, others, translation))]
    if not options:
        return None
    chosen = _pick(options, text, luck[0], luck[1])
    return chosen, _pick(list(_partners(chosen, others, translation)), translation, luck[2], luck[3])


def _partners(text: Caption, others: Sequence[Caption], translation: TranslationChoice) -> Iterator[Caption]:
    """Those of the others that may stand beside a text; not all are looked at where one is enough."""
    language, role, any_role = text.language, text.role, not translation.same_role
    return (caption for caption in others if caption.language != language and (any_role or caption.role == role))


def _pick(options: Sequence[Caption], wish: TextChoice, which_language: float, which_text: float) -> Caption:
    languages = list(dict.fromkeys(caption.language for caption in options))
    language = languages[int(which_language * len(languages))]
    among = [caption for caption in options if caption.language == language]
    weights = [wish.weight(caption.role) for caption in among]
    left = which_text * sum(weights)
    for caption, weight in zip(among, weights, strict=True):
        left -= weight
        if left < 0:
            return caption
    return among[-1]  # rounding
