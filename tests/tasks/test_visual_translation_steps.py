"""Steps over pairs beside pictures, and over patches, are the same however they are split over micro-batches and ranks."""

import streams
import tiny
import torch
import training
from ranks import run_on_ranks

from interlingua.modalities.batch import take
from interlingua.modalities.image_front_ends import Patches
from interlingua.models.picture_embeddings import ImageEmbeddings
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_patches import MaskedPatches
from interlingua.tasks.objectives.visual_translation_language import VisualTranslationLanguage
from interlingua.tasks.objectives.word_region_alignment import WordRegionAlignment
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.ranks import world

OTHERS = [9, 0, 4, 20, 5, 3, 0, 6]


def one_step(rank, ranks, micro):
    """Eight pairs of texts, some without translation, beside patches of pictures, one of which is absent."""
    torch.manual_seed(0)
    front_end = Patches(tiny.WIDTH, patch=8, size=16, maskable=True)
    encoder = tiny.fused("2 joint", picture=ImageEmbeddings(front_end, tiny.WIDTH, dropout=0.0))
    own = {
        "itm": ImageTextMatching(replaced="either"),
        "vtlm": VisualTranslationLanguage(rate=0.4, orders="drawn", on="matched"),
        "patches": MaskedPatches(),
        "pixels": MaskedPatches("pixels"),
        "wra": WordRegionAlignment(controls=False),
    }
    model = Pretraining(encoder, own, {"captions": [list(own)]}, Optimization(1e-2, warmup_steps=2), seed=3)

    def change(batch):
        rows = batch.sample % 8
        links = torch.arange(3)[None, :, None].expand(batch.size, 3, 2)
        image = batch.image._replace(present=rows != 4)
        return batch._replace(image=image, translation=take(tiny.text(OTHERS, 20, seed=9, language=1), rows), alignment=links)

    return streams.one_step(model, training.Steps(1, rank, ranks, micro, ("captions",), change)[0])


def on_ranks():
    return one_step(*world(), 2)


def test_one_by_eight_is_two_by_four_is_four_by_two():
    whole = one_step(0, 1, 1)
    assert min(whole[1].values()) > 5
    streams.assert_equal_steps(whole, one_step(0, 1, 2))
    streams.assert_equal_steps(whole, one_step(0, 1, 4))
    for found in run_on_ranks(on_ranks, 2):
        streams.assert_equal_steps(whole, found)
