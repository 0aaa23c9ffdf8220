"""Scores of answers that are spans of a text: exact match and F1 of words, best over the answers that are right.

How answers are compared decides the figures: SQuAD 1.1's rule (arXiv:1606.05250, section 6.1), which XTREME uses for XQuAD and
TyDi QA in all languages, and MLQA's by language (arXiv:1910.07475, section 4). Each question has a row of its own, so sums over
batches, ranks and draws are those over all questions.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from ..modalities.words import is_unspaced

_ASCII = frozenset(string.punctuation)
_ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
    "de": "ein eine einen einem eines einer der die das den dem des",
}
_PATTERNS = {language: re.compile(rf"\b(?:{'|'.join(words.split())})\b") for language, words in _ARTICLES.items()}
_PATTERNS["ar"] = re.compile("ال")  # the published pattern takes it out inside of words, too
_SPACED = ("en", "es", "hi", "vi", "de", "ar")


def normalize_squad(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, one space between words: SQuAD 1.1's, for any language."""
    kept = "".join(character for character in text.lower() if character not in _ASCII)
    return " ".join(_PATTERNS["en"].sub(" ", kept).split())


def normalize_mlqa(text: str, language: str) -> str:
    """Lower case, without punctuation of any script and the language's articles, one space between words: MLQA's rule.

    As published, Arabic loses the letters of its article wherever they stand, and in Chinese each ideograph is a word. In
    languages that MLQA has not, nothing is an article, and each character of a script without spaces is a word: our own rule.

    Args:
        text: Answer.
        language: Its code; what follows a hyphen or an underscore is not looked at.
    """
    language = re.split("[-_]", language, maxsplit=1)[0]
    kept = "".join(character for character in text.lower() if not _is_punctuation(character))
    if language in _PATTERNS:
        kept = _PATTERNS[language].sub(" ", kept)
    if language not in _SPACED:
        alone = _is_ideograph if language == "zh" else is_unspaced
        kept = "".join(f" {character} " if alone(character) else character for character in kept)
    return " ".join(kept.split())


def _is_punctuation(character: str) -> bool:
    return character in _ASCII or unicodedata.category(character).startswith("P")


def _is_ideograph(character: str) -> bool:
    """Whether MLQA takes a character for a word of Chinese."""
    return "\u4e00" <= character <= "\u9fa5"


def overlap(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """F1 of the words of two answers, each as often as it stands; 0 where none is in both, even if both are empty."""
    same = (Counter(predicted) & Counter(expected)).total()
    return 2 * same / (len(predicted) + len(expected)) if same else 0.0


def score_answers(
    predicted: Sequence[str], expected: Sequence[Sequence[str]], normalize: Callable[[str], str] = normalize_squad
) -> Float64[Tensor, "N 2"]:
    """Exact match (0 or 1) and F1 of each question: the best over its answers, each by itself. Means over rows are the scores.

    Args:
        predicted: Answer to each question; `""` where none was given.
        expected: Answers that are right, of each question.
        normalize: What is compared of an answer: `normalize_squad`, or `partial(normalize_mlqa, language=...)`.

    Raises:
        ValueError: There are other numbers of questions, or one has no right answer, so that nothing can be scored.
    """
    if len(predicted) != len(expected):
        raise ValueError(f"found answers to {len(predicted)} questions, expected {len(expected)}")
    rows = []
    for number, (guess, answers) in enumerate(zip(predicted, expected, strict=True)):
        if not answers:
            raise ValueError(f"question {number} has no right answer; leave questions without answers out of what is scored")
        found, right = normalize(guess), [normalize(answer) for answer in answers]
        rows.append((float(found in right), max(overlap(found.split(), answer.split()) for answer in right)))
    return torch.tensor(rows, dtype=torch.float64).view(-1, 2)
