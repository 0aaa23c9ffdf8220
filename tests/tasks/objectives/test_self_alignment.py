"""Code switching by the encoder's own alignment: which words match, what is left alone, what reading leaves behind."""

import pytest
import torch
from code_switched import connected, marked_by, pairs, words_of

from interlingua.tasks.objectives.aligned_phrases import match_words
from interlingua.tasks.objectives.phrases import find_words


def by_hand(encoder, batch, layer, row):
    """Mutual best matches of one row, written out."""
    encoder.eval()
    with torch.no_grad():
        states = encoder(batch, keep=(layer,)).layers[layer]
    vectors = []
    for text, own in ((batch.text, states.text), (batch.translation, states.translation)):
        words = sorted({int(word) for word in text.word[row][text.present[row]] if word >= 0})
        vectors.append([own[row][(text.word[row] == word) & text.present[row]].double().mean(0) for word in words])
    cosine = [[float(torch.cosine_similarity(a, b, dim=0)) for b in vectors[1]] for a in vectors[0]]
    links = []
    for i, line in enumerate(cosine):
        j = max(range(len(line)), key=line.__getitem__, default=-1)
        if j >= 0 and max(range(len(cosine)), key=lambda other: cosine[other][j]) == i:
            links.append([i, j])
    return links


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_words_match_that_are_each_others_best(layer):
    encoder, _ = connected()
    batch = pairs((14, 9, 22, 2, 8), (12, 15, 18, 6, 0), left=True)
    found = match_words(encoder, batch, layer, find_words(batch.text), find_words(batch.translation))
    links = [[link for link in row if link[0] >= 0] for row in found.tolist()]
    assert links == [by_hand(encoder, batch, layer, row) for row in range(5)]
    assert sum(map(len, links)) > 8
    one_way = sum(int(count) for count in find_words(batch.text).count[:3])
    assert sum(map(len, links)) < one_way  # the best of each word, whether or not it is mutual, would be as many


def test_reading_leaves_modes_random_numbers_and_gradients_alone():
    encoder, _ = connected()
    for part in encoder.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    encoder.transformer.eval()  # frozen
    batch = pairs()
    modes, state = [part.training for part in encoder.modules()], torch.random.get_rng_state()
    words, others = find_words(batch.text), find_words(batch.translation)
    first = match_words(encoder, batch, 1, words, others)
    assert [part.training for part in encoder.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, match_words(encoder, batch, 1, words, others))  # no dropout
    assert all(parameter.grad is None for parameter in encoder.parameters())


def test_a_hidden_token_is_never_replaced_nor_what_is_put_in_hidden():
    encoder, objective = connected(alignments="self", source=0.0, target=0.0, share=0.9, rate=0.3, languages=2)
    batch = pairs((20, 25, 30, 14) * 4, (22, 20, 30, 18) * 4)
    marked = marked_by(objective, batch)
    read = objective.read(encoder, marked).read.text
    assert read.hidden.sum() == marked.text.hidden.sum() == objective.count(marked)
    target = objective._kinds(batch).target
    put = read.present & (read.word >= 0) & (read.language != target.long()[:, None])
    assert put.sum() > 30
    assert not (put & read.hidden).any()
    assert (read.shown == read.tokens)[put].all()
    for row in range(batch.size):
        before, after = marked.text, read
        own, new = before.hidden[row], after.hidden[row]
        assert before.tokens[row][own].tolist() == after.tokens[row][new].tolist()
        assert before.shown[row][own].tolist() == after.shown[row][new].tolist()


def test_identical_sides_align_word_by_word_and_nothing_changes_but_the_language():
    encoder, objective = connected(alignments="self", layer=1, source=0.0, target=0.0, share=0.9, rate=0.0)
    batch = pairs((20, 26), (20, 26))
    same = batch.text._replace(language=torch.ones_like(batch.text.language))
    batch = batch._replace(translation=same)
    read = objective.read(encoder, marked_by(objective, batch)).read.text
    for row in range(2):
        ids = [[piece for piece, _ in word] for word in words_of(read, row)]
        assert ids == [[piece for piece, _ in word] for word in words_of(batch.text, row)]
        languages = {language for word in words_of(read, row) for _, language in word}
        assert languages == {0, 1}


def test_the_layer_is_two_thirds_up_and_none_beyond_the_blocks():
    assert connected(alignments="self", layers=3)[1].layer == 2
    assert connected(alignments="self", layers=3, layer=0)[1].layer == 0
    with pytest.raises(ValueError, match="layer is 5, but TextTower has 2 blocks; set layer to 0"):
        connected(alignments="self", layer=5)


def test_in_half_precision_every_weight_still_has_its_gradient():
    """Weights that autocast has cast for the reading without gradient must not serve the one that learns."""
    encoder, objective = connected(alignments="self", source=0.0, target=0.0, share=0.6, rate=0.4)
    batch = pairs()
    with torch.autocast("cpu", torch.bfloat16):
        marked = marked_by(objective, batch)
        states = objective.read(encoder, marked)
        loss = objective.loss(states, marked).total
    assert loss.item() > 0
    names, parameters = zip(*encoder.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    assert [name for name, gradient in zip(names, found, strict=True) if gradient is None or not gradient.any()] == []
