"""Small files of detectors, written by hand as their own tools write them, over shards of drawn pictures."""

import base64
import io
import json
import pickle
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from interlingua.datamodules.arrays import load_arrays
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.modalities.region import FoundRegions, unpack_regions

WIDTH, HEIGHT, FEATURES, CLASSES = 64, 48, 6, 5


def boxes(number: int, count: int = 3) -> np.ndarray:
    """Corners in pixels, other ones for each picture."""
    low = np.array([[region, 2 * region + number % 8] for region in range(count)], np.float32).reshape(-1, 2)
    return np.concatenate([low, low + np.array([50, 30 + number % 8])], axis=1).astype(np.float32)


def features(number: int, count: int = 3) -> np.ndarray:
    """Numbers that float16 holds exactly."""
    return (np.arange(count * FEATURES).reshape(count, FEATURES) / 4 + number).astype(np.float32)


def classes(number: int, count: int = 3) -> np.ndarray:
    """Probabilities that float16 holds exactly."""
    rows = np.full((count, CLASSES), 0.125, np.float32)
    rows[:, number % CLASSES] = 0.5
    return rows


def picture(number: int, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """A JPEG of one colour."""
    content = io.BytesIO()
    Pillow.new("RGB", (width, height), (number, 100, 200)).save(content, "JPEG")
    return content.getvalue()


def write_pictures(folder: Path, counts=(3, 2), size=(WIDTH, HEIGHT), images=True) -> str:
    """Shards `shard-000000.tar`, ... of samples `000040`, `000041`, ... whose JSON has `picture: {id, w, h}`."""
    number = 40
    with ShardWriter(folder) as writer:
        for shard, count in enumerate(counts):
            writer.begin(f"shard-{shard:06d}.tar")
            for _ in range(count):
                about = {"id": f"val2014/COCO_{number:012d}.jpg", "w": size[0], "h": size[1]}
                image = picture(number, *size) if images else None
                texts = [Caption("en", f"picture {number}")]
                writer.write(f"{number:06d}", texts, item=number, image=image, picture=about)
                number += 1
    return str(folder)


def read_regions(folder: Path) -> dict[str, FoundRegions]:
    """Regions of shards by the samples' keys."""
    samples = list(ShardSet(str(folder)))
    return {
        sample.key: unpack_regions(load_arrays(sample.members["regions.npz"]))
        for sample in samples
        if "regions.npz" in sample.members
    }


def encode(array: np.ndarray) -> str:
    """Base64, as tab-separated files hold arrays."""
    return base64.b64encode(np.ascontiguousarray(array)).decode()


def bottom_up_line(number: int, size=(WIDTH, HEIGHT), count: int = 3, name: str = "") -> str:
    """A line of bottom-up attention: width before height."""
    own = (encode(boxes(number, count)), encode(features(number, count)))
    return "\t".join([name or str(number), str(size[0]), str(size[1]), str(count), *own])


def lxmert_line(number: int) -> str:
    """A line of LXMERT: height before width."""
    ids, confidences = np.array([4, 0, 2], np.int64), np.array([0.25, 0.75, 0.5], np.float32)
    named = [encode(ids), encode(confidences), encode(ids + 1), encode(confidences / 2)]
    own = [encode(boxes(number)), encode(features(number))]
    return "\t".join([f"COCO_val2014_{number:012d}", str(HEIGHT), str(WIDTH), *named, "3", *own])


def normalized(number: int) -> np.ndarray:
    """Seven numbers a box, as UNITER stores them."""
    corners = boxes(number) / [WIDTH, HEIGHT, WIDTH, HEIGHT]
    sides = corners[:, 2:] - corners[:, :2]
    return np.concatenate([corners, sides, sides.prod(1, keepdims=True)], axis=1).astype(np.float32)


def uniter_fields(number: int) -> dict[str, np.ndarray]:
    """What UNITER stores of a picture."""
    half = {"features": features(number), "norm_bb": normalized(number), "soft_labels": classes(number)}
    return {name: value.astype(np.float16) for name, value in half.items()} | {"conf": np.array([0.3, 0.9, 0.1], np.float16)}


def msgpack_array(array: np.ndarray) -> dict:
    """An array as `msgpack_numpy` lays it out."""
    return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}


def write_lmdb(folder: Path, entries: dict[str, bytes]) -> Path:
    """A database of these values."""
    import lmdb

    environment = lmdb.open(str(folder), map_size=2**20)
    with environment.begin(write=True) as transaction:
        for name, value in entries.items():
            transaction.put(name.encode(), value)
    environment.close()
    return folder


def write_uniter(folder: Path, numbers, compressed: bool = False) -> Path:
    """UNITER's database."""
    import msgpack

    entries = {}
    for number in numbers:
        stored = io.BytesIO()
        if compressed:
            np.savez_compressed(stored, **uniter_fields(number))
        content = msgpack.packb({name: msgpack_array(array) for name, array in uniter_fields(number).items()})
        entries[f"coco_val2014_{number:012d}.npz"] = stored.getvalue() if compressed else content
    return write_lmdb(folder, entries | {"__keys__": json.dumps(sorted(entries)).encode()})


def volta_fields(number: int) -> dict:
    """What VOLTA's extraction stores of a picture."""
    named = {"obj_id": np.array([4, 0, 2]), "obj_conf": np.array([0.25, 0.75, 0.5], np.float32)}
    size = {"img_w": np.int64(WIDTH), "img_h": np.int64(HEIGHT)}
    return {"features": features(number), "boxes": boxes(number), **named, **size}


def vilbert_fields(number: int) -> dict:
    """What ViLBERT's LMDBs store of a picture."""
    own = {"features": encode(features(number)).encode(), "boxes": encode(boxes(number)).encode()}
    return {"image_id": str(number), "image_w": str(WIDTH), "image_h": str(HEIGHT), "num_boxes": "3", **own}


def write_volta(folder: Path, numbers, fields=volta_fields, protocol: int = 4) -> Path:
    """VOLTA's database."""
    entries = {str(number): pickle.dumps(fields(number), protocol) for number in numbers}
    return write_lmdb(folder, entries | {"keys": pickle.dumps([name.encode() for name in entries])})


def write_h5(path: Path, numbers) -> Path:
    """VOLTA's HDF5 file."""
    import h5py

    with h5py.File(path, "w") as file:
        for number in numbers:
            group = file.create_group(str(number))
            for name, value in volta_fields(number).items():
                group[name] = value
    return path
