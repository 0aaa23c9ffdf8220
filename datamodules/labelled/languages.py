"""Languages of labelled files: said by the user, or by the file itself."""

from collections import Counter
from pathlib import Path

from ..shards.fields import check_language

_PAIRS = """
afr:af amh:am ara:ar arg:an asm:as aze:az bel:be ben:bn bos:bs bre:br bul:bg cat:ca ces:cs cha:ch cmn:zh cor:kw cym:cy dan:da
deu:de ell:el eng:en epo:eo est:et eus:eu fao:fo fas:fa fin:fi fra:fr fry:fy gla:gd gle:ga glg:gl guj:gu hau:ha heb:he hin:hi
hrv:hr hun:hu hye:hy ido:io ile:ie ina:ia ind:id isl:is ita:it jav:jv jpn:ja kan:kn kat:ka kaz:kk khm:km kor:ko kur:ku lat:la
lav:lv lit:lt lvs:lv mal:ml mar:mr mkd:mk mon:mn msa:ms mya:my nld:nl nno:nn nob:nb nor:no oci:oc ori:or pan:pa pes:fa pol:pl
por:pt que:qu ron:ro rus:ru sin:si slk:sk slv:sl som:so spa:es sqi:sq srp:sr swa:sw swe:sv swh:sw tam:ta tat:tt tel:te tgl:tl
tha:th tuk:tk tur:tr uig:ug ukr:uk urd:ur uzb:uz vie:vi wol:wo xho:xh yid:yi yor:yo zho:zh zsm:ms zul:zu
arabic:ar bengali:bn english:en finnish:fi indonesian:id japanese:ja korean:ko russian:ru swahili:sw telugu:te thai:th
"""
_SHORT = dict(pair.split(":") for pair in _PAIRS.split())


def shorten(code: str) -> str:
    """The code of two letters (ISO 639-1) of a language given by three (639-3) or by TyDi's name; any other as it is."""
    return _SHORT.get(code, code)


def require_language(language: str | None, file: Path, instead: str = "") -> str:
    """The language that a file is said to be in.

    Args:
        language: What the user says.
        file: What is read, for the message.
        instead: Another way to tell it, for the message.

    Raises:
        ValueError: It is not said, or is not a language code.
    """
    if language is None:
        raise ValueError(f"{file}: it does not say its language; give it, as {{en: FILE}}{instead}")
    return check_language(language, f"language of {file}")


class LanguageChoice:
    """Which examples are taken of a file that says the language of each."""

    def __init__(self, file: Path, language: str | None):
        """
        Args:
            file: What is read, for messages.
            language: Only those in it; None: all.
        """
        self.file, self.language = file, language and check_language(language, f"language of {file}")
        self.taken, self.others = 0, Counter[str]()

    def takes(self, code: str) -> bool:
        """Whether an example in this language is taken."""
        if self.language in (None, code):
            self.taken += 1
            return True
        self.others[code] += 1
        return False

    def check(self) -> None:
        """Call after the last example.

        Raises:
            ValueError: Not one was taken, but others were there.
        """
        if self.others and not self.taken:
            found = ", ".join(sorted(self.others))
            raise ValueError(f"{self.file}: nothing in it is in {self.language!r}; give a language that is ({found}), or none")
