"""Tab-separated files of bottom-up attention (arXiv:1707.07998; its `generate_tsv.py`), and LXMERT's variant of them.

A picture a line, without a line of names. Which columns there are is told by their number:
    6   image_id, image_w, image_h, num_boxes, boxes, features
    7   ... and cls_prob (ViLBERT's Conceptual Captions)
    10  img_id, img_h, img_w, objects_id, objects_conf, attrs_id, attrs_conf, num_boxes, boxes, features (LXMERT: height
        stands before width)
Arrays are base64 of float32, ids of int64.
"""

from collections.abc import Iterator
from pathlib import Path

from ...modalities.region import BadRegionsError
from .detector_file import Fields

COLUMNS = {
    6: ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features"),
    7: ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features", "cls_prob"),
    10: (
        *("img_id", "img_h", "img_w", "objects_id", "objects_conf"),
        *("attrs_id", "attrs_conf", "num_boxes", "boxes", "features"),
    ),
}
_BLOCK = 2**20


class TsvFile:
    """One `.tsv`; lines are read when they are asked for."""

    def __init__(self, path: Path):
        self.path = path
        self._file = open(path, "rb")  # noqa: SIM115 (closed by `close`)

    def names(self) -> Iterator[tuple[str, int]]:
        """Name of the picture of each line, and the byte at which the line starts; in one pass over the file.

        Raises:
            ValueError: A line has no tab.
        """
        start, number = 0, 0
        with open(self.path, "rb", buffering=_BLOCK) as file:
            for number, line in enumerate(file, 1):
                name, tab, _ = line.partition(b"\t")
                if tab:
                    yield name.decode("utf-8", "replace"), start
                elif line.strip():
                    raise ValueError(f"{self.path}, line {number}: found no tab, expected columns with tabs between")
                start += len(line)

    def read(self, place: int) -> Fields:
        """The columns of the line that starts at a byte.

        Raises:
            BadRegionsError: `broken regions`: another number of columns.
        """
        self._file.seek(place)
        values = self._file.readline().rstrip(b"\r\n").split(b"\t")
        if len(values) not in COLUMNS:
            expected = ", ".join(map(str, COLUMNS))
            raise BadRegionsError("broken regions", f"found {len(values)} columns, expected one of {expected}")
        fields: dict[str, bytes | int] = dict(zip(COLUMNS[len(values)], values, strict=True))
        for name in ("image_w", "image_h", "img_w", "img_h", "num_boxes"):
            if name in fields:
                fields[name] = _whole(name, values[COLUMNS[len(values)].index(name)])
        return fields

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _whole(name: str, value: bytes) -> int:
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        raise BadRegionsError("broken regions", f"{name}: found {value[:40]!r}, expected a whole number") from None
