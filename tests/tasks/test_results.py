"""The one form of results."""

import json

import pytest

from interlingua.tasks.results import Record, read_results, write_results, write_table, write_tables


def record(**changes) -> Record:
    base = Record("text_to_image_retrieval", "quickstart/novel", "de", "recall@10", 0.21, 0.17, 0.25, 382)
    return base._replace(**changes)


def test_json_is_a_list_of_plain_records(tmp_path):
    write_results([record()], tmp_path)
    assert json.loads((tmp_path / "results.json").read_text()) == [
        {
            "task": "text_to_image_retrieval",
            "data": "quickstart/novel",
            "language": "de",
            "metric": "recall@10",
            "value": 0.21,
            "low": 0.17,
            "high": 0.25,
            "n": 382,
        }
    ]
    assert read_results(tmp_path / "results.json") == [record()]


def test_another_evaluation_is_added_and_the_same_one_replaced(tmp_path):
    write_results([record(), record(language="fr")], tmp_path)
    everything = write_results([record(value=0.22), record(task="image_to_text_retrieval")], tmp_path)
    assert everything == [record(language="fr"), record(value=0.22), record(task="image_to_text_retrieval")]
    assert read_results(tmp_path / "results.json") == everything
    assert not list(tmp_path.glob("*.partial"))


def test_tables(tmp_path):
    write_results(
        [
            record(metric="chance recall@10", value=0.026, low=0.026, high=0.026),
            record(language="all but en", metric="mean recall@10", n=764),
            record(),
            record(metric="median rank", value=40.5, low=30, high=50),
            record(language="fr", value=0.3, low=0.3, high=0.3),
        ],
        tmp_path,
    )
    assert (tmp_path / "results.md").read_text().split("## ")[1].splitlines() == [
        "Text to image retrieval: quickstart/novel",
        "",
        "| language | n | recall@10 | median rank |",
        "|---|---:|---:|---:|",
        "| de | 382 | 21.0 (17.0–25.0) | 40.5 (30–50) |",
        "| fr | 382 | 30.0 |  |",
        "| *mean over all but en* | 764 | 21.0 (17.0–25.0) |  |",
        "| *chance* |  | 2.6 |  |",
    ]


def lines_before_tables(records) -> list[str]:
    return write_tables(records).partition("\n## ")[0].splitlines()


def test_a_summary_stands_first_and_says_what_its_words_mean():
    mean = record(metric="mean recall@5", language="all", value=0.1, low=0.1, high=0.1)
    headline = [
        record(),
        record(language="en", value=0.3, low=0.3, high=0.3),
        record(metric="chance recall@10", value=0.026, low=0.026, high=0.026),
        record(metric="chance recall@5", value=0.013, low=0.013, high=0.013),
        mean,
        mean._replace(metric="mean recall@10", language="all but en"),
        mean._replace(metric="mean median rank", language="all but en", value=40, low=30, high=50),
    ]
    unlike = [one._replace(data="quickstart/novel, texts unlike en") for one in headline if one.language != "en"]
    assert lines_before_tables([*headline, *unlike]) == [
        "# Results",
        "",
        "| recall@10 | mean over all but en | en | chance |",
        "|---|---:|---:|---:|",
        "| Text to image retrieval: quickstart/novel | 10.0 | 30.0 | 2.6 |",
        "| Text to image retrieval: quickstart/novel, texts unlike en | 10.0 |  | 2.6 |",
        "",
        "Shares are in per cent, with their 95 % intervals in brackets.",
        "*recall@k*: queries that find a right answer among their first k.",
        "*median rank*: half of the queries find a right answer at this place or before; 1 is best.",
        "*chance*: what a random order gets.",
        "*mean*: every language counts alike.",
        "*all but*: without the languages trained with pictures, so that only what has carried over is left.",
        "*texts unlike*: only texts spelt differently from those of the same picture in the languages named.",
    ]


def test_evaluations_with_other_metrics_have_a_summary_of_their_own_and_only_words_that_they_use():
    accuracy = record(task="inference", data="xnli/test", metric="accuracy")
    means = [accuracy._replace(metric="mean accuracy", language="all"), record(metric="mean recall@10", language="all")]
    assert lines_before_tables([accuracy, *means]) == [
        "# Results",
        "",
        "| accuracy | mean over all |",
        "|---|---:|",
        "| Inference: xnli/test | 21.0 (17.0–25.0) |",
        "",
        "| recall@10 | mean over all |",
        "|---|---:|",
        "| Text to image retrieval: quickstart/novel | 21.0 (17.0–25.0) |",
        "",
        "Shares are in per cent, with their 95 % intervals in brackets.",
        "*recall@k*: queries that find a right answer among their first k.",
        "*mean*: every language counts alike.",
    ]
    assert lines_before_tables([accuracy]) == [
        "# Results",
        "",
        "Shares are in per cent, with their 95 % intervals in brackets.",
    ]


@pytest.mark.parametrize("sizes", [(382, 382), (382, 381)])
def test_a_size_that_is_the_same_for_all_is_a_line_and_no_column(sizes):
    records = [record(), record(language="fr")]
    records += [
        record(metric="gallery size", language=language, value=size, low=size, high=size)
        for language, size in zip(("de", "fr"), sizes, strict=True)
    ]
    assert ("gallery size: 382\n\n" in write_table(records)) == (sizes == (382, 382))
    assert ("| gallery size |" in write_table(records)) == (sizes != (382, 382))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"value": float("nan")}, "finite"),
        ({"value": 21.0}, "fractions"),
        ({"low": 0.3}, "low <= high"),
        ({"n": 0}, "positive"),
        ({"language": ""}, "language"),
    ],
)
def test_unfit_records_are_refused_and_nothing_is_written(tmp_path, changes, named):
    with pytest.raises(ValueError, match=named):
        write_results([record(**changes)], tmp_path)
    assert not (tmp_path / "results.json").exists()


def test_one_thing_is_measured_once(tmp_path):
    with pytest.raises(ValueError, match="the same thing: text_to_image_retrieval, quickstart/novel, de, recall@10"):
        write_results([record(), record(value=0.2)], tmp_path)


def test_broken_files_are_named(tmp_path):
    (tmp_path / "results.json").write_text('[{"task": "x"}]')
    with pytest.raises(ValueError, match=r"results\.json: expected a list of records"):
        write_results([record()], tmp_path)
