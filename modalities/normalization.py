"""One Unicode policy for training, evaluation and export; SentencePiece itself changes nothing (its rule is `identity`).

In this order:
    1. Surrogates: pairs become the character they mean, lone ones U+FFFD.
    2. Invisible characters without a meaning for reading are dropped: controls, zero-width space, word joiner, byte-order
       mark, soft hyphen, marks of writing direction, invisible operators, interlinear annotation, noncharacters.
    3. NFKC: composed and decomposed spellings, full and half width, ligatures and presentation forms become one.
    4. Runs of white space become one space, none at the ends. U+2581, SentencePiece's sign for a space, is one.
    5. Joiners (U+200C, U+200D) and variation selectors stay, since Persian, Indic scripts and emoji are spelt with them;
       a word of nothing else is dropped.

NFKC is the running Python's; Unicode keeps it fixed for every character once that character is assigned.
"""

import re
import unicodedata

POLICY = "nfkc, joiners kept, version 1"
"""Name under which a tokenizer declares this policy; changed whenever any text would come out differently."""

# White space among the controls (tab to carriage return, U+001C to U+001F, U+0085) is left for step 4.
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff"
    "\ufff9-\ufffb" + "".join(chr(plane + 0xFFFE) + chr(plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)) + "]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_INVISIBLE = "\u200c\u200d" + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


def normalize(text: str) -> str:
    """Text as our own tokenizers read it. Idempotent; an empty result means that there is nothing to read."""
    text = unicodedata.normalize("NFKC", _DROPPED.sub("", mend_surrogates(text))).replace("\u2581", " ")
    return " ".join(word for word in text.split() if word.strip(_INVISIBLE))


def mend_surrogates(text: str) -> str:
    """Text that UTF-8 can say: pairs of surrogates become the character they mean, lone ones U+FFFD."""
    if _SURROGATE.search(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_empty(text: str) -> bool:
    """True where nothing is left to read after normalisation: nothing, white space, or only invisible characters."""
    return not normalize(text)
