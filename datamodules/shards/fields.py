"""Which member of a sample is what: the map by which foreign shards are read unchanged.

Keys follow webdataset's first-dot rule, on the base name alone: `train.v1/0001.seg.png` has the key `train.v1/0001` and
the extension `seg.png`; extensions are lower-cased. So `22.05.png` has the key `22` and the extension `05.png`, which no
map declares: such members are counted as unmatched, and a sample with no declared member is a fault.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...modalities.normalization import is_empty
from ..sample import BadSampleError, Caption

PICTURES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")
REGIONS = "regions.npz"
MEMBERS = ("wav", "flac", "ogg", REGIONS, "codes.npy")
UNKNOWN_LANGUAGE = "und"
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_@][A-Za-z0-9]{2,8})*")
_NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)


def check_language(code: str, where: str) -> str:
    """The code itself.

    Raises:
        ValueError: It does not have the form of a language code.
    """
    if not _LANGUAGE.fullmatch(code):
        raise ValueError(f"{where}: {code!r} is not a language code; expected a form like en, zh, pt_BR, zh-Hant")
    return code


def _require_text(where: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"field map: {where} must be a text, found {excerpt(value)}; put words such as no, on or 5 in quotes")


def require_characters(text: str, where: str) -> str:
    """The text itself.

    Raises:
        ValueError: It cannot be written as UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = text[max(0, error.start - 20) : error.end]
        raise ValueError(
            f"{where}: found half of a surrogate pair, or bytes of a file name that are not UTF-8, in {found!r}; mend it"
        ) from None
    return text


def is_blank(text: str) -> bool:
    """Whether nothing is left to read of a text after normalisation, cheaply for most."""
    return not any(map(str.isalnum, text)) and is_empty(text)


@dataclass(frozen=True)
class TextField:
    """Where texts of a sample stand.

    What is found may be a string (one text), an object with `text` and optionally `lang` and `role` (one text), or a
    list of these. With `by_language` it is an object from language code to any of these.

    Args:
        member: Extension of the member: `txt` (read whole, one text), or one that ends in `json`.
        path: Names of nested JSON fields, joined by dots; `""` for a text member.
        language: Language code of the texts that do not say their own.
        language_path: JSON path of the language code, in the same member; takes the place of `language`.
        role: Role of the texts that do not say their own.
        by_language: The keys of the object found are language codes.
    """

    member: str
    path: str = ""
    language: str = UNKNOWN_LANGUAGE
    language_path: str = ""
    role: str = "caption"
    by_language: bool = False

    def __post_init__(self):
        for name in ("member", "path", "language", "language_path", "role"):
            _require_text(f"text field {self.member!r}, `{name}`", getattr(self, name))
        check_language(self.language, f"field map, text field {self.member!r}, `language`")
        if self.member.endswith("json") != bool(self.path):
            raise ValueError(
                f"field map: a text field needs `path` if and only if its member is JSON, found member {self.member!r} "
                f"with path {self.path!r}; for example member: json, path: caption, or member: txt"
            )


@dataclass(frozen=True)
class FieldMap:
    """Declares what the members of a shard are; the default is this project's own layout.

    Example, shards of img2dataset: `FieldMap(texts=[TextField("json", "caption", language="en")], item="url",
    ignore=["txt"])`. The same words make it in YAML.

    Args:
        image: Extensions of pictures; where a sample has several, the first of this order is the picture.
        texts: Where the texts stand, in the order they are given in.
        item: JSON path (in the member `json`) of the identity of what the sample is about; `""` for none.
        members: Extensions that are handed on as stored.
        ignore: Extensions that are known and not wanted: neither read nor counted as unmatched.
        require: Any of `image` and `text`: samples without are faults (`missing member`). What is not required may be
            absent from single samples.
    """

    image: Sequence[str] = PICTURES
    texts: Sequence[TextField] = (TextField("json", "texts"),)
    item: str = "item"
    members: Sequence[str] = MEMBERS
    ignore: Sequence[str] = ()
    require: Sequence[str] = ()
    known: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        for name in ("image", "texts", "members", "ignore", "require"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(f"field map: `{name}` must be a list, found the string {value!r}; write [{value}]")
            for entry in value if name != "texts" else ():
                _require_text(f"`{name}`", entry)
            object.__setattr__(self, name, tuple(value))  # lists come from YAML
        _require_text("`item`", self.item)
        if wrong := set(self.require) - {"image", "text"}:
            raise ValueError(f"field map: `require` knows image and text, found {', '.join(sorted(wrong))}")
        members = {*self.image, *self.members, *(text.member for text in self.texts), "json"}
        object.__setattr__(self, "known", frozenset(members))

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits that differ between maps: indexes made by different maps stand side by side."""
        content = {name: value for name, value in asdict(self).items() if name != "known"}
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=4).hexdigest()


def split_name(name: str) -> tuple[str, str] | None:
    """Key and lower-cased extension of a member by the first-dot rule; None where the base name has no dot inside."""
    found = _NAME.fullmatch(name)
    return (found[1], found[2].lower()) if found else None


def parse_json(content: bytes, member: str) -> Mapping[str, Any]:
    """The object of a JSON member.

    Raises:
        BadSampleError: `broken json`.
    """
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadSampleError("broken json", f"member {member}: {error}") from None
    if not isinstance(record, dict):
        raise BadSampleError("broken json", f"member {member}: expected an object, found {name_kind(record)}")
    return record


def read_texts(members: Mapping[str, bytes], records: Mapping[str, Mapping], fields: FieldMap) -> list[Caption]:
    """All texts of a sample, blank ones too, in the order of the map.

    Args:
        members: Content of the text members that the sample has, by extension.
        records: Parsed JSON members, by extension.
        fields: The map.

    Raises:
        BadSampleError: `broken text` where a member or JSON field is not what the map says.
    """
    texts: list[Caption] = []
    for source in fields.texts:
        if source.member in records:
            record = records[source.member]
            language = look_up(record, source.language_path) if source.language_path else source.language
            if not isinstance(language, str):
                raise BadSampleError("broken text", f"no language at {source.language_path!r} of {source.member}")
            texts += _collect(look_up(record, source.path), source, language, source.by_language)
        elif source.member in members:
            try:
                texts.append(Caption(source.language, members[source.member].decode("utf-8-sig").strip(), source.role))
            except UnicodeDecodeError as error:
                raise BadSampleError("broken text", f"member {source.member} is not UTF-8: {error}") from None
    for caption in texts:
        for name, word in (("language", caption.language), ("role", caption.role)):
            if not (word.strip() and word.isprintable() and len(word) <= 64):
                raise BadSampleError("broken text", f"{name} of a text: expected a short word, found {excerpt(word)}")
    return texts


def read_item(record: Mapping[str, Any] | None, fields: FieldMap, shard: str, key: str) -> int:
    """Identity of the sample, hashed to 63 bits.

    Raises:
        BadSampleError: `broken item` where it is neither a text nor a whole number.
    """
    own = look_up(record, fields.item) if record is not None and fields.item else None
    if isinstance(own, bool) or not isinstance(own, str | int | None):
        raise BadSampleError("broken item", f"{fields.item!r}: expected a text or a whole number, found {excerpt(own)}")
    name = str(own) if own not in (None, "") else f"{shard}\0{key}"
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1


def look_up(record: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    for name in path.split("."):
        record = record.get(name) if isinstance(record, Mapping) else None
    return record


def _collect(value: Any, source: TextField, language: str, by_language: bool) -> list[Caption]:
    """Captions out of a JSON value; a string is one text, never a list of letters."""
    if value is None:
        return []
    captions: list[Caption] = []
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, str):
            captions.append(Caption(language, entry.strip(), source.role))
        elif isinstance(entry, dict) and isinstance(entry.get("text"), str):
            own, role = entry.get("lang", language), entry.get("role", source.role)
            if not (isinstance(own, str) and isinstance(role, str)):
                raise _broken(entry, source)
            captions.append(Caption(own, entry["text"].strip(), role))
        elif isinstance(entry, dict) and by_language:
            for own, inner in entry.items():
                captions += _collect(inner, source, own, by_language=False)
        else:
            raise _broken(entry, source)
    return captions


def _broken(found: Any, source: TextField) -> BadSampleError:
    return BadSampleError("broken text", f"{source.path!r} of {source.member}: expected texts, found {excerpt(found)}")


def excerpt(found: Any) -> str:
    """The beginning of what was found, for messages."""
    return json.dumps(found, default=str)[:80]


def name_kind(value: Any) -> str:
    """What a JSON value is called."""
    if value is None or isinstance(value, bool):
        return excerpt(value)
    kinds = {str: "a text", list: "a list", dict: "an object"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "a number")
