"""An encoder's weights out of a pretraining checkpoint, or its text tower's out of a file of a pretrained one."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from ..modalities.tokenizer import Tokenizer
from ..modalities.trained_tokenizer import KEY, check_trained
from ..models.encoder import Encoder
from ..models.fused_pretrained import fill_fused, is_fused
from ..models.heads import TokenHead
from ..models.loading import load_whole, some
from ..models.pretrained import Pretrained, fill_tower, find_text_tower, is_pretrained, read_pretrained, refuse_folder
from ..models.soundness import refuse_infinite
from .objectives.hard_image_text_matching import HardImageTextMatching
from .objectives.image_text_matching import ImageTextMatching
from .objectives.next_sentence import NextSentence
from .objectives.objective import Objective

PREFIX = "encoder."
OWN_TOKENIZER = "give `data.tokenizer` the one that it was trained with"
DELIBERATE = "model.other_tokenizer true"


class Restoration:
    """A start from elsewhere: the encoder's weights before objectives are built on it, then what the file has for their heads.

    A checkpoint of `Pretraining` fills the whole encoder, and heads only where they are asked for. A file of `interlingua
    checkpoint import` fills the text tower that the encoder is or contains, or the whole of a fused encoder; and every
    objective's `head` that is a token head on its table, the pooler and classifier of next sentence prediction, and the head
    of image-text matching.
    """

    def __init__(
        self,
        path: str | Path,
        tell: Callable[[str], None] = print,
        tokenizer: Tokenizer | None = None,
        other_tokenizer: bool = False,
        heads: bool = False,
    ):
        """
        Args:
            path: A checkpoint, or a file of a pretrained encoder.
            tell: Given one line when all is done.
            tokenizer: What will number its pieces; None: not known.
            other_tokenizer: It may be another than a checkpoint was trained with.
            heads: A checkpoint fills the objectives of its names too.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is a folder, or heads are asked for of a file of a pretrained encoder.
        """
        refuse_folder(path)
        if not Path(path).is_file():
            raise FileNotFoundError(f"checkpoint {path} does not exist; give the .ckpt that `interlingua fit` wrote")
        self.path, self.tell, self.tokenizer, self.other_tokenizer = path, tell, tokenizer, other_tokenizer
        self.pretrained: Pretrained | None = read_pretrained(path) if is_pretrained(path) else None
        if heads and self.pretrained is not None:
            raise ValueError(f"initial_heads: {path} is a file of a pretrained encoder; give a checkpoint of `interlingua fit`")
        self.heads, self.said = heads, ""
        self.labels: list[str] | None = None
        """Names of the classes that the heads tell apart, where the checkpoint's data had any."""

    def fill_encoder(self, encoder: Encoder) -> None:
        """
        Raises:
            ValueError: The file is of another encoder, or was trained with another tokenizer; names what differs.
        """
        if self.pretrained is None:
            tokenizer = None if self.other_tokenizer else self.tokenizer
            load_encoder(encoder, self.path, self.tell, tokenizer, f"{OWN_TOKENIZER}, or give `{DELIBERATE}`")
            return
        whole = is_fused(self.pretrained)
        matched = (fill_fused if whole else fill_tower)(encoder, self.pretrained, str(self.path))
        kind = f"{self.pretrained.family} {'encoder' if whole else 'tower'}"
        self.said = f"{self.path}: {kind}, {matched} weights matched, 0 missing, 0 unexpected"
        others = len(encoder.state_dict()) - matched
        if others:
            self.said += f"; the other {others} weights of {type(encoder).__name__} start fresh"

    def fill_heads(self, encoder: Encoder, objectives: Mapping[str, Objective]) -> None:
        """Fill the heads of connected objectives, and tell what was done."""
        if self.pretrained is None:
            own = [name for name, objective in objectives.items() if any(True for _ in objective.parameters())]
            if self.heads:
                self._fill_all({name: objectives[name] for name in own})
            elif own:
                self.tell(
                    f"{self.path}: heads are not taken from a checkpoint: {', '.join(own)} start with fresh ones "
                    "(`model.initial_heads true` takes them)"
                )
            return
        table, part = find_text_tower(encoder).tokens.weight, self.pretrained.part
        pairs = {f"pooler.{name}": weight for name, weight in part("pooler").items()}
        pairs |= {f"head.{name}": weight for name, weight in part("next_sentence").items()}
        filled, fresh = [], []
        for name, objective in objectives.items():
            head, weights = getattr(objective, "head", None), part("head")
            if isinstance(objective, NextSentence):
                head, weights = objective.pair_head, pairs
            elif isinstance(objective, ImageTextMatching | HardImageTextMatching):
                weights = part("matching")
            elif not isinstance(head, TokenHead) or head.table is not table:
                continue
            if _shapes(head.state_dict()) == _shapes(weights):
                load_whole(head, weights, f"head of {name}")
                filled.append(name)
            else:
                fresh.append(name)
        if filled:
            self.said += f"; heads of {', '.join(filled)}"
        if fresh:
            self.said += f"; none that fits {', '.join(fresh)}, whose head starts fresh"
        self.tell(self.said)

    def _fill_all(self, objectives: Mapping[str, Objective]) -> None:
        checkpoint = read_checkpoint(self.path)
        start = "objectives."
        stored = {name[len(start) :]: value for name, value in checkpoint["state_dict"].items() if name.startswith(start)}
        found = sorted({name.partition(".")[0] for name in stored})
        for name, objective in objectives.items():
            weights = {key[len(name) + 1 :]: value for key, value in stored.items() if key.startswith(f"{name}.")}
            if not weights:
                raise ValueError(f"initial_heads: {self.path} has no objective {name!r}; found {', '.join(found) or 'none'}")
            load_whole(objective, weights, f"objective {name}")
        kept = [one["labels"] for one in checkpoint.values() if isinstance(one, dict) and one.get("labels")]
        self.labels = kept[0] if kept else None
        self.tell(f"{self.path}: heads of {', '.join(objectives)} are taken, too")


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in weights.items()}


def read_checkpoint(path: str | Path) -> dict:
    """A checkpoint's tensors and plain values.

    Raises:
        ValueError: It is none.
    """
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # an unpickler that is given something else (a text) fails in any way
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{path}: no checkpoint, cut short, or with other objects than tensors and plain values ({reason}); give the .ckpt "
            "that `interlingua fit` wrote"
        ) from None
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise ValueError(f"{path} has no `state_dict`: give the .ckpt that `interlingua fit` wrote")
    return checkpoint


def load_encoder(
    encoder: Encoder,
    path: str | Path,
    tell: Callable[[str], None] = print,
    tokenizer: Tokenizer | None = None,
    mend: str = OWN_TOKENIZER,
) -> None:
    """Load all weights of an encoder from a Lightning checkpoint of a module that holds it as `encoder`.

    Heads, optimiser and everything else in the checkpoint are left alone. Nothing is unpickled but tensors and plain values.

    Args:
        encoder: Filled in place.
        path: A checkpoint of `Pretraining`, or a file of a pretrained encoder.
        tell: Given one line: how many weights matched, are missing, and were not expected; before it, perhaps, that the
            checkpoint does not say which tokenizer it was trained with.
        tokenizer: What will number the encoder's pieces, to be compared with the checkpoint's; None: compare nothing.
        mend: What helps where it is another.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no such checkpoint, or its encoder is not this encoder: a weight is missing, left over, or of
            another shape, or not finite; or it was trained with another tokenizer.
    """
    refuse_folder(path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"checkpoint {path} does not exist; give the .ckpt that `interlingua fit` wrote")
    if is_pretrained(path):
        start = Restoration(path, tell)
        start.fill_encoder(encoder)
        tell(start.said)
        return
    checkpoint = read_checkpoint(path)
    stored = {name[len(PREFIX) :]: value for name, value in checkpoint["state_dict"].items() if name.startswith(PREFIX)}
    wanted = encoder.state_dict()
    missing, unexpected = sorted(wanted.keys() - stored.keys()), sorted(stored.keys() - wanted.keys())
    shared = wanted.keys() & stored.keys()
    shapes = [
        f"{name}: checkpoint {tuple(stored[name].shape)}, encoder {tuple(wanted[name].shape)}"
        for name in sorted(shared)
        if stored[name].shape != wanted[name].shape
    ]
    if not shared or missing or unexpected or shapes:
        raise ValueError(
            f"{path} is not of this encoder; {len(shared)} weights matched, missing: {some(missing) or 'none'}, unexpected: "
            f"{some(unexpected) or 'none'}, other shapes: {some(shapes) or 'none'}; set `model.encoder` as in the run's own "
            "config"
        )
    if tokenizer is not None and encoder.vocabulary is not None:
        note = check_trained(checkpoint.get(KEY), tokenizer, str(path), bool(encoder.languages), mend)
        if note is not None:
            tell(note)
    refuse_infinite(stored, str(path))
    encoder.load_state_dict(stored)
    tell(f"{path}: {len(shared)} weights matched, 0 missing, 0 unexpected")
