"""English names of languages, for people; codes serve everywhere else."""

_PAIRS = """
af:Afrikaans am:Amharic ar:Arabic bg:Bulgarian bn:Bengali ca:Catalan cs:Czech cy:Welsh da:Danish de:German el:Greek
en:English es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish fr:French ga:Irish gl:Galician gu:Gujarati
ha:Hausa he:Hebrew hi:Hindi hr:Croatian hu:Hungarian hy:Armenian id:Indonesian ig:Igbo is:Icelandic it:Italian
ja:Japanese ka:Georgian kk:Kazakh km:Khmer kn:Kannada ko:Korean ky:Kyrgyz lo:Lao lt:Lithuanian lv:Latvian
mk:Macedonian ml:Malayalam mn:Mongolian mr:Marathi ms:Malay my:Burmese nb:Norwegian ne:Nepali nl:Dutch no:Norwegian
pa:Punjabi pl:Polish pt:Portuguese ro:Romanian ru:Russian si:Sinhala sk:Slovak sl:Slovenian so:Somali sq:Albanian
sr:Serbian sv:Swedish sw:Swahili ta:Tamil te:Telugu th:Thai tl:Tagalog tr:Turkish uk:Ukrainian ur:Urdu uz:Uzbek
vi:Vietnamese xh:Xhosa yo:Yoruba zh:Chinese zu:Zulu
"""
NAMES = dict(pair.split(":") for pair in _PAIRS.split())


def language_name(code: str) -> str:
    """English name of a language; the code itself where it is not listed, or says more than the language (`pt_BR`)."""
    return NAMES.get(code, code)
