"""Marks of a shared reading that do not go together are refused before anything is built, with the right order."""

import pytest

from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_region_classification import MaskedRegionClassification
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.region_hiding import RegionHiding
from interlingua.tasks.objectives.translation_language import TranslationLanguage
from interlingua.tasks.passes import plan_passes


def plan(**objectives):
    return plan_passes({"captions": [list(objectives)]}, objectives)


@pytest.mark.parametrize("hides", [MaskedLanguage, TranslationLanguage])
def test_who_replaces_texts_is_named_before_who_hides_tokens(hides):
    with pytest.raises(
        ValueError, match="captions: itm gives some rows another text after mlm has hidden parts of it"
    ) as error:
        plan(mlm=hides(), itm=ImageTextMatching())
    assert str(error.value).endswith("in the place of [mlm, itm] write [itm, mlm]")
    plan(itm=ImageTextMatching(), mlm=hides())


@pytest.mark.parametrize(
    ("replaced", "wrong"),
    [("text", ["mlm"]), ("picture", ["mrfr"]), ("either", ["mlm", "mrfr"])],
    ids=["text", "picture", "either"],
)
def test_only_what_is_replaced_must_not_be_hidden_yet(replaced, wrong):
    for name, hides in {"mlm": MaskedLanguage(), "mrfr": MaskedRegionFeatures()}.items():
        both = {name: hides, "itm": ImageTextMatching(replaced=replaced)}
        if name not in wrong:
            plan(**both)
            continue
        with pytest.raises(ValueError, match=rf"in the place of \[{name}, itm\] write \[itm, {name}\]"):
            plan(**both)


def test_the_right_order_keeps_the_others_in_theirs():
    with pytest.raises(ValueError, match=r"in the place of \[mrc, mlm, itm, mrfr\] write \[itm, mrc, mlm, mrfr\]"):
        plan(
            mrc=MaskedRegionClassification(9),
            mlm=MaskedLanguage(),
            itm=ImageTextMatching(),
            mrfr=MaskedRegionFeatures(hiding="vilbert"),
        )


def test_objectives_that_share_a_hiding_of_regions_must_agree_on_it():
    with pytest.raises(
        ValueError, match="captions: mrc hides regions for all objectives of its group, but mrfr hides them"
    ) as e:
        plan(mrc=MaskedRegionClassification(9), mrfr=MaskedRegionFeatures())
    assert str(RegionHiding(keep=0.1)) in str(e.value)
    plan(mrc=MaskedRegionClassification(9), mrfr=MaskedRegionFeatures(hiding="vilbert"))
    plan(mrc=MaskedRegionClassification(9, hiding=RegionHiding(least_one=True)), mrfr=MaskedRegionFeatures(hiding="uniter"))
    plan(one=MaskedLanguage(0.1), two=MaskedLanguage(0.2))
