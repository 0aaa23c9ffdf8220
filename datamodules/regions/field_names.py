"""What fields of detectors' files are called, and what their boxes may be."""

from typing import Literal, get_args

BoxForm = Literal["corners", "xywh", "fractions"]
BOX_FORMS: tuple[BoxForm, ...] = get_args(BoxForm)
KNOWN: dict[str, tuple[str, ...]] = {
    "features": ("features", "x", "feat"),
    "boxes": ("boxes", "bbox", "norm_bb"),
    "number": ("num_boxes", "num_bbox"),
    "size": ("size",),
    "width": ("image_w", "img_w", "image_width", "width"),
    "height": ("image_h", "img_h", "image_height", "height"),
    "classes": ("classes", "soft_labels", "cls_prob"),
    "label": ("label", "objects_id", "obj_id"),
    "confidence": ("confidence", "objects_conf", "obj_conf", "conf"),
    "attribute": ("attribute", "attrs_id", "attr_id"),
    "attribute_confidence": ("attribute_confidence", "attrs_conf", "attr_conf"),
}
"""What each field may be called; the first that is there is taken. `size` is width, height; `number` cuts padded arrays."""
