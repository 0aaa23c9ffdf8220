"""The one form of results."""

import json

import pytest

from interlingua.tasks.results import Record, read_results, write_results


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
    assert (tmp_path / "results.md").read_text().splitlines()[4:] == [
        "## text to image retrieval: quickstart/novel",
        "",
        "| language | n | recall@10 | median rank |",
        "|---|---:|---:|---:|",
        "| de | 382 | 21.0 (17.0–25.0) | 40.5 (30–50) |",
        "| fr | 382 | 30.0 |  |",
        "| *mean over all but en* | 764 | 21.0 (17.0–25.0) |  |",
        "| *chance* |  | 2.6 |  |",
    ]


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
