"""Which text of a sample is read, and which other text stands beside it as its translation."""

from collections.abc import Mapping
from dataclasses import dataclass


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

    def weight(self, role: str) -> float:
        """How likely a text of this role is, against the others of its language."""
        return self.roles.get(role, 0.0) if isinstance(self.roles, Mapping) else 1.0


@dataclass(frozen=True)
class TranslationChoice(TextChoice):
    """Which other text stands beside the chosen one, always in another language.

    Args:
        same_role: Whether the two must have the same role (a name beside a name, never a keyword).
    """

    same_role: bool = True
