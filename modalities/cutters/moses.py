"""Words as XLM's data have them (arXiv:1901.07291, section 5.1; the script tools/tokenize.sh): Moses, through `sacremoses`.

Chinese, Japanese and Thai were segmented by other programs (Stanford's segmenter, KyTea, PyThaiNLP). Texts in these
languages are split at their spaces: segment them before, if they are to be read as XLM read them.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

SEGMENTED = ("zh", "ja", "th")
"""Languages whose words other programs must have put spaces between."""
DEFAULT_LANGUAGE = "en"
"""Language of a text that nothing tells the language of."""

_ROMANIAN = str.maketrans("ŞşŢţȘșȚțĂăÂâÎî", "SsTtSsTtAaAaIi")


class MosesWords:
    """Splits texts into the words that byte-pair codes are applied to.

    Args:
        lower_case: Whether words are lower-cased and lose their accents (XLM-15 does, XLM-17 and XLM-100 do not).
        drop_controls: Whether control and format characters are dropped, as Hugging Face does, or become spaces, as in
            Moses' own script.
        path: Where the vocabulary is from, for messages.

    Raises:
        ImportError: `sacremoses` is not installed.
    """

    def __init__(self, lower_case: bool, drop_controls: bool, path: str):
        try:
            import sacremoses  # noqa: F401
        except ImportError:
            raise ImportError(f"{path}: XLM's vocabulary needs sacremoses: pip install interlingua[xlm]") from None
        self.lower_case, self.drop_controls = lower_case, drop_controls
        self._parts: dict[str, tuple[Any, Any]] = {}

    def normalize(self, text: str, language: str) -> str:
        """Text with its punctuation as Moses writes it, words where they stood.

        Args:
            text: Without surrogates.
            language: Decides quotes, and what stands for a decimal point.
        """
        text = self._of(language)[0].normalize(text)
        if not text.isprintable():
            instead = "" if self.drop_controls else " "
            text = "".join(instead if unicodedata.category(character).startswith("C") else character for character in text)
        text = text.translate(_ROMANIAN) if language == "ro" else text
        return " ".join(text.split())

    def split(self, text: str, language: str) -> tuple[list[str], list[int]]:
        """Words of a text, and which of its parts between spaces each is of."""
        text = self.normalize(text, language)
        parts = text.split()
        words = parts if language in SEGMENTED else self._of(language)[1].tokenize(text, return_str=False, escape=False)
        places = find_places(parts, words)
        if self.lower_case:
            words = [fold(word) for word in words]
        kept = [number for number, word in enumerate(words) if word]
        return [words[number] for number in kept], [places[number] for number in kept]

    def fold(self, text: str) -> str:
        """Text in the case that words have."""
        return fold(text) if self.lower_case else text

    def _of(self, language: str) -> tuple[Any, Any]:
        """What normalises punctuation and splits words of a language."""
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        if language not in self._parts:
            normalizer = MosesPunctNormalizer(lang=language, pre_replace_unicode_punct=True)
            self._parts[language] = normalizer, MosesTokenizer(lang=language)
        return self._parts[language]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": {}}


def find_places(parts: Sequence[str], words: Sequence[str]) -> list[int]:
    """Which part each word is of, where the words are the parts split further.

    Args:
        parts: What stands between the spaces of a text.
        words: The same characters. Where they are not, each word is a part.
    """
    if "".join(parts) != "".join(words):
        return list(range(len(words)))
    places, place, left = [], -1, 0
    for word in words:
        while left <= 0:
            place += 1
            left += len(parts[place])
        places.append(place)
        left -= len(word)
    return places


def fold(text: str) -> str:
    """Lower case, without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn").lower()
