"""VOLTA's numbered sub-layers as plans: every list that was published, and what is none."""

import pytest
from volta_by_hand import LXMERT, SINGLE, VILBERT

from interlingua.models.plan import lay_out, parse_plan
from interlingua.models.sublayers import read_sublayers, write_plan

PUBLISHED = {
    "12 joint": SINGLE,
    "6 text, 6 x (cross, own)": VILBERT,
    "5 own, 4 text, 5 x (shared cross attention, own)": LXMERT,
}


@pytest.mark.parametrize("plan", PUBLISHED)
def test_published_lists(plan):
    sublayers = read_sublayers(PUBLISHED[plan], "c.json")
    assert write_plan(sublayers) == plan
    assert len(sublayers) == {"12 joint": 24, "6 text, 6 x (cross, own)": 36}.get(plan, 33)
    assert lay_out(plan).layers["text"] == (14 if plan.startswith("5") else 12)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("2 x (text, 3 x (cross, own))", None),
        ("text from both & picture, shared own, 2 x (joint attention, own feed-forward)", None),
        ("separate joint, text, picture from text attention, picture feed-forward", "separate joint, text, picture from text"),
        ("picture, text, picture, text, text, text", "2 x (picture, text), 2 text"),
        ("3 x (shared cross attention, own attention, joint feed-forward)", None),
        ("text from both & picture from both", "separate joint"),
    ],
)
def test_a_plan_comes_back_as_short_as_it_can_be_said(plan, expected):
    assert write_plan(parse_plan(plan)) == (expected or plan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({key: [] for key in SINGLE}, "c.json numbers no sub-layers .* M3P's transformer is another"),
        ({"t_ff_sublayers": [0]}, "c.json: sub-layer 0 is both attention and feed-forward"),
        ({"t_ff_sublayers": [25]}, "numbered up to 25, but 24 is missing"),
        ({"shared_sublayers": [1, 99]}, "sub-layer 99 of shared_sublayers or single_ln_sublayers is not there"),
        ({"shared_sublayers": []}, "sub-layer 0 of shared_sublayers or single_ln_sublayers is not there, or not shared"),
        ({"v_ff_sublayers": []}, "sub-layer 1 is shared, but only text passes it"),
        (
            {"vt_attn_sublayers": [], "vv_attn_sublayers": [], "shared_sublayers": [], "single_ln_sublayers": []},
            "in sub-layer 0 picture is attended to, but attends to nothing",
        ),
        ({"tt_attn_sublayers": "0,2"}, "tt_attn_sublayers is '0,2'; expected a list of numbers"),
    ],
)
def test_lists_that_mean_nothing(change, message):
    with pytest.raises(ValueError, match=message):
        read_sublayers({**SINGLE, **change}, "c.json")
