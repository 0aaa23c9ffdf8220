"""What runs of fine-tuning can be reported by: known from their configuration where their objectives are ours."""

import inspect
from collections.abc import Sequence
from typing import Any

from .checking import import_class
from .configuration import ConfigurationError, suggest

UNNAMED = "labelled"
"""Name of the data where the configuration gives none."""


def expect_figures(model: dict[str, Any], data: dict[str, Any]) -> set[str]:
    """Figures as `OBJECTIVE/FIGURE`, before anything is read; empty where an objective is not one of ours.

    Args:
        model: `class_path` and `init_args` of `Pretraining`.
        data: Those of `Labelled`.
    """
    arguments, source = model.get("init_args") or {}, (data.get("init_args") or {}).get("name", UNNAMED)
    objectives, passes = arguments.get("objectives") or {}, (arguments.get("passes") or {}).get(source) or []
    figures: set[str] = set()
    for name in {name for one in passes for name in one}:
        own = _figures(objectives.get(name) or {})
        if not own:
            return set()
        figures |= {f"{name}/{figure}" for figure in own}
    return figures


def _figures(node: dict[str, Any]) -> set[str]:
    from .tasks.objectives.sentence_classification import SentenceClassification
    from .tasks.objectives.span_answering import SpanAnswering
    from .tasks.objectives.tagging import Tagging, find_figure
    from .tasks.span_scores import ACCURACY

    found = import_class("model.objectives", node.get("class_path"))
    if not inspect.isclass(found):
        return set()
    if issubclass(found, SentenceClassification):
        return {ACCURACY}
    if issubclass(found, Tagging):
        return {ACCURACY, find_figure((node.get("init_args") or {}).get("classes") or [])[0]} - {""}
    answers = {f"{rule}_{name}" for rule in ("squad", "mlqa") for name in ("exact_match", "f1")}
    return {"exact_span", *answers} if issubclass(found, SpanAnswering) else set()


def find_figure(there: Sequence[str], wanted: str | None) -> str:
    """The figure, as `OBJECTIVE/FIGURE`.

    Args:
        there: All that there are.
        wanted: As it was asked for; None: what the task is reported by: F1 of answers, else of spans, else accuracy.

    Raises:
        ConfigurationError: No objective has it, or several have, or there are several objectives and nothing is asked for.
    """
    from .tasks.span_scores import ACCURACY, POS_SEQEVAL_F1, SPAN_F1

    if wanted is None and len({name.partition("/")[0] for name in there}) == 1:
        for usual in ("squad_f1", SPAN_F1, POS_SEQEVAL_F1, ACCURACY):
            if found := [name for name in there if name.partition("/")[2] == usual]:
                return found[0]
    if wanted is None:
        raise ConfigurationError(f"--figure: none is the usual one; give one of {', '.join(there) or 'none'}")
    found = [name for name in there if wanted in (name, name.partition("/")[2])]
    if len(found) == 1:
        return found[0]
    reason = f"several objectives have it: {', '.join(found)}" if found else f"there is {', '.join(there) or 'none'}"
    raise ConfigurationError(f"--figure {wanted}: {reason}{suggest(wanted, found or there)}")


def tell_figure(figure: str, there: set[str]) -> str:
    """What is reported though nothing was asked for, in a sentence."""
    others = sorted({name.partition("/")[2] for name in there if name != figure} - {figure.partition("/")[2]})
    return f"Reported is {figure.partition('/')[2]}" + (f"; for {', '.join(others)} give --figure." if others else ".")


def name_task(data: str, figure: str) -> str:
    """What a report is about: the name of the data, and where they have none that of the objective.

    Args:
        data: `Labelled.name`.
        figure: `OBJECTIVE/FIGURE`.
    """
    return figure.partition("/")[0] if data == UNNAMED else data
