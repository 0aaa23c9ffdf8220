"""Plans of the fused encoder: what they mean, where their weights are, and what is none."""

import pytest

from interlingua.models.plan import lay_out, parse_plan

BOTH = ("text", "picture")
UNITER, VILBERT = "12 joint", "6 text, 6 x (cross, own)"
LXMERT = "9 text, 5 picture, 5 x (shared cross attention, own attention, own feed-forward)"
ALBEF = "6 text, 6 x (text attention, text from picture attention, text feed-forward)"


def gates(plan):
    """A plan as VOLTA's configurations number it: which sub-layers have which gate."""
    found = {name: [] for name in ("tt", "tv", "vt", "vv", "t_ff", "v_ff", "shared")}
    for number, one in enumerate(parse_plan(plan)):
        for stream, sources in one.reads.items():
            if one.kind == "attention":
                for source in sources:
                    found[{"text": "t", "picture": "v"}[stream] + {"text": "t", "picture": "v"}[source]].append(number)
            else:
                found[{"text": "t_ff", "picture": "v_ff"}[stream]].append(number)
        if one.shared:
            found["shared"].append(number)
    return found


def test_single_stream_by_its_published_sublayers():
    """Reference, section 2.1: attention in all even sub-layers with all four gates, feed-forward in all odd ones, shared."""
    even, odd = list(range(0, 24, 2)), list(range(1, 24, 2))
    expected = {"tt": even, "tv": even, "vt": even, "vv": even, "t_ff": odd, "v_ff": odd, "shared": list(range(24))}
    assert gates(UNITER) == expected
    assert gates("joint, 2 x (joint), 9 x joint") == expected


def test_vilbert_by_its_published_sublayers():
    """Reference, section 2.1. Text layers are those of a text checkpoint: 0 to 5, then one after each co-attention."""
    found = gates(VILBERT)
    assert found["tt"] == [0, 2, 4, 6, 8, 10, 14, 18, 22, 26, 30, 34]
    assert found["tv"] == found["vt"] == [12, 16, 20, 24, 28, 32]
    assert found["vv"] == [14, 18, 22, 26, 30, 34]
    assert found["t_ff"] == list(range(1, 36, 2))
    assert found["v_ff"] == list(range(13, 36, 2))
    assert found["shared"] == []
    layout = lay_out(VILBERT)
    assert layout.layers == {"text": 12, "picture": 6, "cross": 6}
    owners = {}
    for number, one in enumerate(layout.sublayers):
        for stream, weights in one.weights.items():
            owners.setdefault((stream, weights.stack, weights.number), []).append(number)
    assert owners["text", "text", 6] == [14, 15]
    assert owners["text", "cross", 0] == owners["picture", "cross", 0] == [12, 13]
    assert owners["picture", "picture", 5] == [34, 35]


def test_lxmert_by_its_published_sublayers():
    """Reference, section 2.1: cross attention is shared, and has no feed-forward of its own."""
    found = gates(LXMERT)
    assert found["tt"] == [*range(0, 18, 2), 29, 32, 35, 38, 41]
    assert found["vv"] == [*range(18, 28, 2), 29, 32, 35, 38, 41]
    assert found["tv"] == found["vt"] == found["shared"] == [28, 31, 34, 37, 40]
    layout = lay_out(LXMERT)
    assert layout.layers == {"text": 14, "picture": 10, "cross": 5}
    cross, own, fed = layout.sublayers[28:31]
    assert cross.weights["text"] == cross.weights["picture"] == ("cross", 0, "both")
    assert own.weights == fed.weights == {"text": ("text", 9, "text"), "picture": ("picture", 5, "picture")}


def test_align_then_fuse_gives_the_feed_forward_to_the_layer_of_the_text():
    layout = lay_out(ALBEF)
    assert layout.layers == {"text": 12, "picture": 0, "cross": 6}
    own, cross, fed = layout.sublayers[12:15]
    assert own.weights == fed.weights == {"text": ("text", 6, "text")}
    assert cross.weights == {
        "text": ("cross", 0, "text"),
        "picture": ("cross", 0, "picture"),
    }  # of the picture: keys and values
    assert cross.sublayer.reads == {"text": ("picture",)}


def test_numbers_of_weights_do_not_depend_on_what_else_is_in_the_plan():
    def owners(plan):
        return [one.weights["text"] for one in lay_out(plan).sublayers if "text" in one.sublayer.reads]

    text = [weights for weights in owners(VILBERT) if weights.stack == "text"]
    assert text == owners("12 text, cross")[:24]
    assert text == owners("12 joint") == [weights for weights in owners(LXMERT) if weights.stack == "text"][:24]


@pytest.mark.parametrize(
    ("plan", "reads", "shared"),
    [
        ("separate joint", {"text": BOTH, "picture": BOTH}, False),
        ("shared own", {"text": ("text",), "picture": ("picture",)}, True),
        ("text from both & picture", {"text": BOTH, "picture": ("picture",)}, False),
        ("Picture from text", {"picture": ("text",)}, False),
        ("picture & text from picture", {"text": ("picture",), "picture": ("picture",)}, False),
    ],
)
def test_every_set_of_gates_can_be_written(plan, reads, shared):
    first = parse_plan(plan)[0]
    assert (first.reads, first.shared) == (reads, shared)
    lay_out(plan)


def test_a_single_stream_is_known():
    assert [lay_out(plan).joint for plan in ("2 joint", "text, joint", "separate joint", "shared own", VILBERT)] == [
        True, False, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("", "a part is empty"),
        ("joint,", "a part is empty"),
        ("12 jiont", "'jiont' is no part of a plan; expected joint, own, cross, text"),
        ("0 text", "a part is repeated 0 times"),
        ("3 x (joint", "a parenthesis is not closed"),
        ("joint), text", "a closing parenthesis that none opened"),
        ("6 text 6 own", "'text 6 own' is no part of a plan"),
        ("(text) (picture)", r"parts are parted by commas, found '\('"),
        ("text; picture", "';' means nothing here"),
        ("shared text", "`shared` is for two streams"),
        ("separate own", "`separate` for `joint` alone"),
        ("cross feed-forward", "reads nothing of another stream"),
        ("text from", "'text from' is no part"),
        ("text & text", "'text & text' is no part"),
        ("text attention, picture", "text attention has no feed-forward behind it"),
        ("text attention, text attention, text feed-forward", "attends to itself twice with no feed-forward between"),
        ("text feed-forward", "a feed-forward of text with no attention of its own before it"),
        ("text, text feed-forward", "a feed-forward of text with no attention of its own before it"),
        ("shared cross attention, own feed-forward", "shared attention wants a shared feed-forward"),
        ("text attention, picture from text attention, shared own feed-forward", "not the same for both"),
        ("shared text from both & picture from text", "one stream attends to itself and the other does not"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(plan, message):
    with pytest.raises(ValueError, match=message) as refusal:
        lay_out(plan)
    assert str(refusal.value).startswith(f"plan {plan!r}: ")
