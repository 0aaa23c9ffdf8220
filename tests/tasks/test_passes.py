"""Which objectives share a reading: told before anything is built, by what each declares."""

import importlib
import inspect
import pkgutil

import pytest
import tiny

import interlingua.tasks.objectives as package
from interlingua.tasks.objectives.back_translation_language import BackTranslationLanguage
from interlingua.tasks.objectives.code_switching import CodeSwitching
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.cross_attention_language import CrossAttentionLanguage
from interlingua.tasks.objectives.cross_lingual_contrast import CrossLingualContrast
from interlingua.tasks.objectives.hard_image_text_matching import HardImageTextMatching
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.interpolated_contrast import InterpolatedContrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_patches import MaskedPatches
from interlingua.tasks.objectives.masked_region_classification import MaskedRegionClassification
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.next_sentence import NextSentence
from interlingua.tasks.objectives.objective import Objective
from interlingua.tasks.objectives.paraphrase import Paraphrase
from interlingua.tasks.objectives.region_contrast import RegionContrast
from interlingua.tasks.objectives.sentence_order import SentenceOrder
from interlingua.tasks.objectives.translation_language import TranslationLanguage
from interlingua.tasks.objectives.visual_translation_language import VisualTranslationLanguage
from interlingua.tasks.objectives.word_contrast import WordContrast
from interlingua.tasks.objectives.word_recovery import WordRecovery
from interlingua.tasks.objectives.word_region_alignment import WordRegionAlignment
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.passes import plan_passes
from interlingua.tasks.pretraining import Pretraining

ANY = {
    "mlm": MaskedLanguage,
    "itm": ImageTextMatching,
    "itc": Contrast,
    "mrc": lambda: MaskedRegionClassification(10),
    "mrfr": MaskedRegionFeatures,
    "nce": RegionContrast,
    "wra": WordRegionAlignment,
    "mpm": MaskedPatches,
}
ROWS = {
    "tlm": TranslationLanguage,
    "vtlm": VisualTranslationLanguage,
    "wctl": WordContrast,
    "nsp": NextSentence,
    "sop": SentenceOrder,
    "clpc": Paraphrase,
}
APART = {
    "sctl": InterpolatedContrast,
    "contrast": lambda: Contrast("text", "translation"),
    "both": lambda: MaskedLanguage(fields=["text", "translation"]),
}
ALONE = {
    "camlm": CrossAttentionLanguage,
    "btmlm": BackTranslationLanguage,
    "alm": CodeSwitching,
    "clwr": WordRecovery,
    "xlco": CrossLingualContrast,
    "hard": HardImageTextMatching,
}
ALL = ANY | ROWS | APART | ALONE


def plan(*groups):
    return plan_passes({"parallel": groups}, {name: ALL[name]() for group in groups for name in group})


@pytest.mark.parametrize(
    ("kinds", "sharing"),
    [(ANY, "any"), (ROWS, "rows"), (APART, "apart"), (ALONE, "alone")],
    ids=["any", "rows", "apart", "alone"],
)
def test_what_each_objective_asks_of_a_shared_reading(kinds, sharing):
    assert {name: make().sharing for name, make in kinds.items()} == dict.fromkeys(kinds, sharing)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("apart", APART)
def test_texts_read_apart_share_no_reading_with_texts_in_one_row(rows, apart):
    for names in ([rows, apart], [apart, rows]):
        with pytest.raises(ValueError, match=rf"{apart} reads text and translation apart, which {rows} joins") as error:
            plan(names)
        first, second = names
        assert str(error.value).startswith("passes.parallel: ")
        assert f"in the place of [{first}, {second}] write [[{first}], [{second}]]" in str(error.value)
        plan([first], [second])


@pytest.mark.parametrize("alone", ALONE)
@pytest.mark.parametrize("other", ["mlm", "tlm", "sctl"])
def test_who_reads_in_a_way_of_its_own_shares_with_none(alone, other):
    for first, second in ((alone, other), (other, alone)):
        with pytest.raises(
            ValueError, match=f"parallel: {alone} reads in a way of its own and needs a group for itself"
        ) as error:
            plan([first, second])
        assert f"so that {first} and {second} cannot share" in str(error.value)
        assert str(error.value).endswith(f"write [[{first}], [{second}]]")


@pytest.mark.parametrize(("first", "second"), [("tlm", "wctl"), ("nsp", "clpc"), ("sop", "nsp")])
def test_rows_are_made_by_one_objective_of_a_group(first, second):
    with pytest.raises(ValueError, match=f"parallel: {first} and {second} each make rows of their own") as error:
        plan([first, second])
    assert str(error.value).endswith(f"write [[{first}], [{second}]]")


def test_the_right_form_leaves_together_what_can_be():
    with pytest.raises(ValueError, match="mlm and xlco cannot share a reading") as error:
        plan(["mlm", "tlm", "sctl", "xlco", "contrast"])
    assert str(error.value).endswith("write [[mlm, tlm], [sctl, contrast], [xlco]]")
    plan(["mlm", "tlm"], ["sctl", "contrast"], ["xlco"])


def test_it_is_refused_before_weights_are_read_or_heads_are_built(monkeypatch):
    built = []
    monkeypatch.setattr(TranslationLanguage, "connect", lambda *_: built.append("head"))
    with pytest.raises(ValueError, match="sctl reads text and translation apart, which tlm joins in rows of its own"):
        Pretraining(
            tiny.text_tower(),
            {"tlm": TranslationLanguage(), "sctl": InterpolatedContrast()},
            {"parallel": [["tlm", "sctl"]]},
            Optimization(learning_rate=1e-3),
            initial="no/such/file.ckpt",
        )
    assert not built


def test_every_objective_is_held_to_it():
    """One that is new belongs in one of the lists above, or in that of those that score labels."""
    modules = [importlib.import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)]
    found = {
        value.__name__
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Objective) and value is not Objective
    }
    labels = {"SentenceClassification", "Tagging", "SpanAnswering"}
    assert found == {type(make()).__name__ for make in ALL.values()} | labels
