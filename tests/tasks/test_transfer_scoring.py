"""Several models in one pass over the data: each scored as if alone; answers in words; examples, not rows, are counted."""

import json

import pytest
import tiny
import torch
from quiet import quiet_trainer
from trained import small_tokenizer

from interlingua.datamodules.labelled.data import Labelled
from interlingua.datamodules.labelled.question_layout import QuestionLayout
from interlingua.datamodules.labelled.squad import Squad
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.towers import TextTower
from interlingua.tasks.answer_scores import normalize_squad, score_answers
from interlingua.tasks.objectives.span_answering import SpanAnswering
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.transfer_scoring import TransferScoring

TEXTS = {
    "en": "The red cat sat under the old table while the small dog slept near the warm stove in the kitchen all day.",
    "de": "Die rote Katze lag unter dem alten Tisch, und der kleine Hund schlief den ganzen Tag am warmen Ofen in der Küche.",
}
ANSWERS = {"en": ("under the old table", "near the warm stove"), "de": ("unter dem alten Tisch", "am warmen Ofen")}


def write(folder, language):
    folder.mkdir(exist_ok=True)
    context = TEXTS[language]
    asked = [
        {"id": f"{language}{number}", "question": "?", "answers": [{"text": one, "answer_start": context.index(one)}]}
        for number, one in enumerate(ANSWERS[language])
    ]
    file = folder / f"{language}.json"
    file.write_text(json.dumps({"data": [{"title": "", "paragraphs": [{"context": context, "qas": asked}]}]}), encoding="utf-8")
    return str(file)


def make_model(tokenizer, seed):
    torch.manual_seed(seed)
    tower = TextTower(TextEmbeddings(tokenizer.vocabulary, 32, 32, dropout=0.0), tiny.transformer())
    model = Pretraining(
        tower, {"answers": SpanAnswering()}, {"qa": [["answers"]]}, Optimization(1e-3), tokenizer=str(tokenizer.path)
    )
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)  # far from each other: spans of all kinds
    return model.eval()


@pytest.fixture
def questions(data, tmp_path):
    """Questions whose texts take several rows each."""
    tokenizer = small_tokenizer(data)
    files = {language: write(tmp_path, language) for language in TEXTS}
    module = Labelled(
        Squad(),
        str(tokenizer.path),
        validation={"en": write(tmp_path / "dev", "en")},
        test=files,
        layout=QuestionLayout("infoxlm", stride=8, max_question=4),
        max_tokens=24,
        batch_size=2,
        workers=0,
        name="qa",
    )
    return tokenizer, module


def score(models, module):
    scoring = TransferScoring(models)
    quiet_trainer(devices=1).test(scoring, datamodule=module, verbose=False)
    return scoring.scores(module.tokenizer.languages)


def test_models_together_are_scored_as_each_alone(questions):
    tokenizer, module = questions
    models = [make_model(tokenizer, seed) for seed in range(3)]
    together = score(models, module)
    assert together == [score([model], module)[0] for model in models]
    assert together[0] != together[1]
    assert {split: sorted(languages) for split, languages in together[0].items()} == {
        "validation": ["en"],
        "test": ["de", "en"],
    }


def test_answers_are_compared_in_words_over_all_windows_of_a_text(questions):
    """By hand, from each row of each question; the share of exact spans over rows is another figure."""
    tokenizer, module = questions
    model = make_model(tokenizer, 1)
    found = score([model], module)[0]["test"]["de"]
    predicted = []
    records = [record for record in module.examples["qa/test"] if record.language == "de"]
    for record in records:
        laid = module.layout.lay([record], module.classes, module.tokenizer, module.max_tokens)
        assert len(laid.record) > 1
        batch = tiny.batch([3] * len(laid.record), source="qa")._replace(text=laid.text, target=laid.target)
        best = model.objectives["answers"].find(model.encoder(batch), batch)
        predicted.append(module.layout.answer(record, best.span, best.score, module.tokenizer, module.max_tokens))
    expected = score_answers(predicted, [[text for text, _ in record.answers] for record in records], normalize_squad).sum(0)
    assert expected[1] > 0
    assert found["answers/squad_exact_match"][:2] == (expected[0].item(), 2.0)
    assert found["answers/squad_f1"].right == pytest.approx(expected[1].item())
    assert {one.n for one in found.values()} == {2}  # questions, of which each has several rows
    assert set(found) == {
        f"answers/{name}" for name in ("exact_span", "squad_exact_match", "squad_f1", "mlqa_exact_match", "mlqa_f1")
    }


def test_data_that_no_pass_reads_are_refused(questions):
    tokenizer, module = questions
    model = make_model(tokenizer, 0)
    module.name = "other"
    with pytest.raises(ValueError, match=r"the data's source is 'other', but no pass of the model reads it.*passes read qa"):
        score([model], module)
