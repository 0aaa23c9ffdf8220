"""Numbers that options of several objectives may be: refused alike, before they make scores overflow or say nothing."""

import math
import re

import pytest

from interlingua.tasks.objectives.back_translation_language import BackTranslationLanguage
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.cross_lingual_contrast import CrossLingualContrast
from interlingua.tasks.objectives.hard_image_text_matching import HardImageTextMatching
from interlingua.tasks.objectives.interpolated_contrast import InterpolatedContrast
from interlingua.tasks.objectives.word_contrast import WordContrast

WITH_TEMPERATURE = [
    BackTranslationLanguage,
    Contrast,
    CrossLingualContrast,
    HardImageTextMatching,
    InterpolatedContrast,
    WordContrast,
]


@pytest.mark.parametrize("temperature", [math.inf, -math.inf, math.nan, -0.1, 1e-30, 1e-4, 1e30, 0.0])
@pytest.mark.parametrize("objective", WITH_TEMPERATURE)
def test_a_temperature_that_nothing_can_be_divided_by_is_refused_in_the_same_words(objective, temperature):
    if objective is BackTranslationLanguage and temperature == 0:
        assert objective(temperature=temperature).temperature == 0  # the best entry
        return
    with pytest.raises(ValueError, match=re.escape(f"temperature is {temperature}; expected a number from 0.001 to 1000")):
        objective(temperature=temperature)


@pytest.mark.parametrize("temperature", [0.01, 0.07, 1.0])
@pytest.mark.parametrize("objective", WITH_TEMPERATURE)
def test_published_temperatures_are_taken(objective, temperature):
    objective(temperature=temperature)


@pytest.mark.parametrize(
    ("objective", "name", "bounds"),
    [
        (Contrast, "max_scale", "from 0.001 to 1000"),
        (InterpolatedContrast, "zeta", "from 0 to 100"),
        (BackTranslationLanguage, "ratio", r"from 0\.25 to 4 times the text's own length"),
    ],
)
@pytest.mark.parametrize("number", [math.inf, math.nan, -1.0, 1e30])
def test_other_scales_have_bounds_as_well(objective, name, bounds, number):
    with pytest.raises(ValueError, match=rf"{name} is {number}; expected a number {bounds}".replace("+", r"\+")):
        objective(**{name: number})


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, 1e300])
def test_weights_have_bounds_in_every_objective(weight):
    with pytest.raises(ValueError, match=re.escape(f"Contrast: weight is {weight}; expected a number from 0 to 1e+06")):
        Contrast("text", "image", weight=weight)
