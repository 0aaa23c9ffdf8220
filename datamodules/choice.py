"""Which text of a sample is read, and which other text stands beside it as its translation."""

from collections.abc import Callable, Mapping, Sequence
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

    def takes(self, caption: Caption) -> bool:
        """Whether this text may be chosen."""
        return (self.languages is None or caption.language in self.languages) and (
            self.roles is None or caption.role in self.roles
        )

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
    options = [caption for caption in texts if text.takes(caption)]
    if translation is None:
        return (_pick(options, text, luck[0], luck[1]), None) if options else None
    partners = _partners(texts, translation)
    options = [caption for caption in options if partners(caption)]
    if not options:
        return None
    chosen = _pick(options, text, luck[0], luck[1])
    return chosen, _pick(partners(chosen), translation, luck[2], luck[3])


def _partners(texts: Sequence[Caption], translation: TranslationChoice) -> Callable[[Caption], list[Caption]]:
    taken = [caption for caption in texts if translation.takes(caption)]

    def of(text: Caption) -> list[Caption]:
        return [
            caption
            for caption in taken
            if caption.language != text.language and (caption.role == text.role or not translation.same_role)
        ]

    return of


def _pick(options: list[Caption], wish: TextChoice, which_language: float, which_text: float) -> Caption:
    languages = list(dict.fromkeys(caption.language for caption in options))
    language = languages[int(which_language * len(languages))]
    among = [caption for caption in options if caption.language == language]
    left = which_text * sum(wish.weight(caption.role) for caption in among)
    for caption in among:
        left -= wish.weight(caption.role)
        if left < 0:
            return caption
    return among[-1]  # rounding
