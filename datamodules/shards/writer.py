"""Write shards: the same samples give the same bytes, on any day and under any user."""

import hashlib
import io
import json
import os
import re
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..sample import Alignment, BadSampleError, Caption
from .fields import MEMBERS, PICTURES, REGIONS, check_language, is_blank, require_characters, split_name
from .relations import describe_alignments

OURS = re.compile(r".*-\d{6}\.tar(\.(index|lengths)(-\w+)?|\.partial)?|index\.json(\.partial)?", re.DOTALL)
"""Files of a folder that belong to its shards; whatever else is there, other tars too, is never removed."""


class ShardWriter:
    """Writes samples into `NAME-000000.tar`, `NAME-000001.tar`, ..., and `index.json` beside them when closed.

    Use it as a context manager: the shards get their names, and take the place of older ones, when all are written; after an
    error the folder is as it was before.
    """

    def __init__(
        self,
        folder: str | Path,
        name: str = "shard",
        samples_per_shard: int = 4096,
        resize: int | None = None,
        force: bool = False,
    ):
        """
        Args:
            folder: Made if needed; must be empty.
            name: First part of the tars' file names.
            samples_per_shard: Samples a tar; the last has what is left.
            resize: Pictures whose shorter side is longer are made smaller to this many pixels and stored anew (JPEG as
                JPEG, others as PNG), and the boxes of their regions with them; None stores all as they are.
            force: Replace shards and `index.json` that are in the folder.

        Raises:
            FileExistsError: The folder is not empty.
        """
        if samples_per_shard < 1:
            raise ValueError(f"samples per shard: expected 1 or more, found {samples_per_shard}")
        if resize is not None and resize < 1:
            raise ValueError(f"resize: expected a number of pixels of 1 or more, found {resize}")
        if not re.fullmatch(r"\w[^/\\]{0,199}", name):
            raise ValueError(f"name: expected the first part of a file name, without a folder, found {name[:40]!r}")
        self.folder, self.name, self.samples_per_shard, self.resize = Path(folder), name, samples_per_shard, resize
        self._older = find_older(self.folder, force)
        self.shards: list[dict[str, Any]] = []
        self._next_name = ""
        self._tar: tarfile.TarFile | None = None

    def write(
        self,
        key: str,
        texts: Sequence[Caption] = (),
        item: str | int | None = None,
        image: bytes | None = None,
        members: Mapping[str, bytes] | None = None,
        image_extension: str = "",
        document: bool = False,
        alignments: Sequence[Alignment] = (),
        **extra: Any,
    ) -> None:
        """Add one sample.

        Args:
            key: Unlike any other of the shard; its base name has no dot.
            texts: In the order in which they are to be read.
            item: Identity of what the sample is about; None where it is the sample itself.
            image: An encoded picture.
            members: Other members, by extension (`wav`, `regions.npz`, ...). Regions are checked, against the picture too.
            image_extension: Of the picture; found from its first bytes if left out.
            document: The texts of each language are the sentences of one document, in order.
            alignments: Which words of the texts translate each other.
            extra: More fields of the sample's JSON.

        Raises:
            ValueError: Names the key, and what of the sample cannot be stored.
            BadImageError: The picture must be resized and cannot be decoded.
        """
        relations = ({"document": True} if document else {}) | describe_alignments(key, texts, alignments)
        content = self._check(key, texts, item, image, members or {}, image_extension, extra, relations)
        tar = self._tar or self._start()
        if key in self._keys:
            raise ValueError(f"sample {key!r}: this key is in the shard already; give each sample a key of its own")
        self._keys.add(key)
        for extension, data in content.items():
            entry = tarfile.TarInfo(f"{key}.{extension}")  # Time, owner and mode keep their fixed defaults.
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        self._count(texts, content)
        if self._entry["samples"] == self.samples_per_shard:
            self._finish(tar)

    def _check(
        self,
        key: str,
        texts: Sequence[Caption],
        item: str | int | None,
        image: bytes | None,
        members: Mapping[str, bytes],
        image_extension: str,
        extra: Mapping[str, Any],
        relations: Mapping[str, Any],
    ) -> dict[str, bytes]:
        """The members of a sample, in the order of the tar."""
        if not key or split_name(f"{key}.json") != (key, "json") or key.startswith("/"):
            raise ValueError(f"sample key {key!r}: expected a name without a dot, as a member's extension starts at it")
        for number, caption in enumerate(texts):
            check_language(caption.language, f"sample {key!r}, text {number}")
            if is_blank(caption.text):
                raise ValueError(f"sample {key!r}, text {number} ({caption.language}): it is blank; leave it out")
        if wrong := [extension for extension in members if extension not in MEMBERS]:
            raise ValueError(f"sample {key!r}: cannot store members {', '.join(wrong)}; expected any of {', '.join(MEMBERS)}")
        if not texts and image is None and not members:
            raise ValueError(f"sample {key!r}: it has no text, no picture and no other member")
        record = ({} if item is None else {"item": item}) | dict(sorted(extra.items()))
        record["texts"] = [{"lang": lang, "text": text, "role": role} for lang, text, role in texts]
        record |= relations
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        content = {"json": require_characters(text, f"sample {key!r}").encode()}
        members = dict(members)
        if REGIONS in members:
            _check_regions(key, members[REGIONS], image)
        if image is not None:
            extension = image_extension.lower() or guess_extension(image)
            if extension not in PICTURES:
                raise ValueError(f"sample {key!r}: picture extension {extension!r}; expected any of {', '.join(PICTURES)}")
            if self.resize is not None:
                whole = image
                image, extension = shrink(image, extension, self.resize)
                if REGIONS in members and image is not whole:
                    members[REGIONS] = _scale_regions(key, members[REGIONS], image)
            content[extension] = image
        return content | members

    def begin(self, name: str) -> None:
        """Let the next sample start a shard of this file name, whatever `samples_per_shard` says.

        Raises:
            ValueError: There is such a shard.
        """
        if self._tar is not None:
            self._finish(self._tar)
        if name in (shard["name"] for shard in self.shards):
            raise ValueError(f"{name}: two shards have this name; write them into folders of their own")
        self._next_name = name

    def _start(self) -> tarfile.TarFile:
        name, self._next_name = self._next_name or f"{self.name}-{len(self.shards):06d}.tar", ""
        self._entry: dict[str, Any] = {"name": name, "samples": 0}
        self._languages: Counter[str] = Counter()
        self._modalities: Counter[str] = Counter()
        self._keys: set[str] = set()
        partial = _partial(self.folder / self._entry["name"])
        self._tar = tarfile.TarFile(partial, "w", format=tarfile.GNU_FORMAT, encoding="utf-8")
        return self._tar

    def _count(self, texts: Sequence[Caption], content: Mapping[str, bytes]) -> None:
        self._entry["samples"] += 1
        self._languages.update(caption.language for caption in texts)
        self._modalities["text"] += bool(texts)
        self._modalities["image"] += any(extension in PICTURES for extension in content)
        self._modalities.update(extension for extension in content if extension in MEMBERS)

    def _finish(self, tar: tarfile.TarFile) -> None:
        tar.close()
        self._tar = None
        path = _partial(self.folder / self._entry["name"])
        self.shards.append(
            self._entry
            | {"bytes": path.stat().st_size, "sha256": checksum(path)}
            | {"languages": dict(sorted(self._languages.items())), "modalities": dict(sorted((+self._modalities).items()))}
        )

    def close(self) -> None:
        """Finish the last shard, put all in the place of older ones, and write `index.json`.

        Raises:
            ValueError: Nothing was written.
        """
        if self._tar is not None:
            self._finish(self._tar)
        if not self.shards:
            raise ValueError(f"{self.folder}: no sample was written; an empty shard cannot be read")
        summary = {"format": 1, "samples": sum(shard["samples"] for shard in self.shards)}
        for name in ("languages", "modalities"):
            total = sum((Counter(shard[name]) for shard in self.shards), Counter())
            summary[name] = dict(sorted(total.items()))
        summary["shards"] = self.shards
        paths = [self.folder / name for name in (*(shard["name"] for shard in self.shards), "index.json")]
        _partial(paths[-1]).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        for path in {*self._older} - {*map(_partial, paths)}:
            path.unlink(missing_ok=True)
        for path in paths:
            os.replace(_partial(path), path)

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._discard()

    def _discard(self) -> None:
        """Remove what has not got its name."""
        if self._tar is not None:
            with suppress(OSError):  # it may want to flush to a full disk
                self._tar.close()
            _partial(self.folder / self._entry["name"]).unlink(missing_ok=True)
        for name in (*(shard["name"] for shard in self.shards), "index.json"):
            _partial(self.folder / name).unlink(missing_ok=True)


def _check_regions(key: str, content: bytes, image: bytes | None) -> None:
    from ..region_files import check_written  # not above: it imports torch, which takes seconds

    try:
        check_written(content, image)
    except BadSampleError as error:
        raise ValueError(f"sample {key!r}: {error}") from None


def _scale_regions(key: str, content: bytes, image: bytes) -> bytes:
    from ..region_files import scale_regions

    try:
        return scale_regions(content, image)
    except BadSampleError as error:
        raise ValueError(f"sample {key!r}: {error}") from None


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def find_older(folder: Path, force: bool) -> list[Path]:
    """Make a folder for shards; its shards, if they may be replaced.

    Raises:
        FileExistsError: It is not empty, or not a folder.
        ValueError: It cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder}: expected a folder for the shards, found a file; name another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder}: the folder cannot be made ({error.strerror}); name another") from None
    if not force and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: the folder is not empty; name another, or --force to replace its shards")
    return [path for path in folder.iterdir() if OURS.fullmatch(path.name)]


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def guess_extension(image: bytes) -> str:
    """Extension of an encoded picture by its first bytes; `""` where they are unknown."""
    starts = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"GIF8": "gif", b"BM": "bmp", b"II*\0": "tif", b"MM\0*": "tif"}
    if image[:4] == b"RIFF" and image[8:12] == b"WEBP":
        return "webp"
    return next((extension for start, extension in starts.items() if image.startswith(start)), "")


def shrink(image: bytes, extension: str, side: int) -> tuple[bytes, str]:
    """A picture whose shorter side has at most `side` pixels, and its extension; small ones come back as they are.

    Raises:
        BadImageError: It cannot be decoded.
    """
    from PIL import Image

    from ...modalities.image import decode_image

    pixels = decode_image(image)
    _, height, width = pixels.shape
    if min(height, width) <= side:
        return image, extension
    scale = side / min(height, width)
    picture = Image.fromarray(pixels.permute(1, 2, 0).numpy())
    picture = picture.resize((round(width * scale), round(height * scale)), Image.Resampling.LANCZOS)
    stored = io.BytesIO()
    if extension in ("jpg", "jpeg"):
        picture.save(stored, "JPEG", quality=92)
        return stored.getvalue(), "jpg"
    picture.save(stored, "PNG")
    return stored.getvalue(), "png"
