"""Take over the tokenizers of published checkpoints from their files: XLM-R's, BERT's and XLM's (`tokenizer_sources`).

The result is a tokenizer like any other: files of its own, side by side, and the card that says what they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from .cutters.moses import SEGMENTED
from .cutters.xlm import PRESETS
from .tokenizer import Tokenizer, open_cutter
from .tokenizer_files import FILES, OWN, Card, check_unique, write_card
from .tokenizer_sources import Found, find_bert, find_xlm, find_xlm_roberta

FAMILIES = tuple(family for family in FILES if family != OWN)


def import_tokenizer(
    source: str | Path,
    family: str,
    output: str | Path,
    languages: Sequence[str] | None = None,
    lower_case: bool | None = None,
    preset: str | None = None,
    force: bool = False,
    report: Callable[[str], None] = print,
) -> Tokenizer:
    """Write a tokenizer from the files of a checkpoint.

    Args:
        source: The checkpoint's folder, or the vocabulary's file in it.
        family: One of `FAMILIES`.
        output: `NAME.json`, or `NAME.model` for xlm-roberta; the other files go beside it.
        languages: Codes in the order of their ids; None where the checkpoint tells them (XLM).
        lower_case: Whether texts are lower-cased and lose their accents (BERT, XLM); None: what the checkpoint's
            configuration says, or, without one, whether the vocabulary has no capital letter.
        preset: What texts start with, of XLM alone: one of `cutters.xlm.PRESETS`; None: `xlm_original`.
        force: Write over files that are there.
        report: Takes the lines for people.

    Raises:
        FileNotFoundError: The files are not there.
        FileExistsError: The output is there, and `force` is not given.
        ImportError: The family needs a package that is not installed.
        ValueError: An option is wrong or missing, or the files are not of this family.
    """
    source, output = Path(source), Path(output)
    _check_options(family, output, lower_case, preset)
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; give the folder of a checkpoint, or its vocabulary's file")
    if family == "xlm-roberta":
        found = find_xlm_roberta(source)
    elif family == "bert":
        found = find_bert(source, lower_case)
    else:
        found = find_xlm(source, lower_case, preset or "xlm_original")
    codes = _choose_languages(found, languages)
    card = Card(str(found.read[0]), family, found.files, found.options, "", {}, codes)
    cutter = open_cutter(card)
    card = replace(card, path=str(output), normalization=cutter.normalization, vocabulary=asdict(cutter.vocabulary))
    _check_output(card, found, force)
    write_card(card, source=[file.name for file in found.read])
    tokenizer = Tokenizer(output)
    report(f"read {', '.join(map(str, found.read))}")
    if found.options:
        report(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.options.items()))
    segmented = [code for code in codes if code in SEGMENTED]
    if family == "xlm" and segmented:
        report(f"note: texts in {', '.join(segmented)} are split at spaces alone; XLM's were segmented by other programs")
    report(f"wrote {output}: {tokenizer.vocabulary.size} pieces, {len(codes)} languages, hash {tokenizer.hash[:12]}")
    return tokenizer


def _check_options(family: str, output: Path, lower_case: bool | None, preset: str | None) -> None:
    if family not in FAMILIES:
        raise ValueError(f"the family is {family!r}; expected one of {', '.join(FAMILIES)}")
    endings = (".json", ".model") if family == "xlm-roberta" else (".json",)
    if output.suffix not in endings:
        raise ValueError(f"--output is {output}; it must end in {' or '.join(endings)} (other files go beside it)")
    if family == "xlm-roberta" and lower_case is not None:
        raise ValueError("XLM-R's model decides case itself; leave --lower-case and --no-lower-case out")
    if preset is not None and (family != "xlm" or preset not in PRESETS):
        raise ValueError(f"--preset is {preset!r}; it is for xlm alone, and one of {', '.join(PRESETS)}")


def _check_output(card: Card, found: Found, force: bool) -> None:
    path = Path(card.path)
    written = [path.with_suffix(ending) for ending in (".json", *card.files)]
    there = [file for file in written if file.exists()]
    if own := [file for file in there if any(file.samefile(read) for read in found.read)]:
        raise FileExistsError(f"{own[0]} is what is read; give --output another name or folder")
    if there and not force:
        raise FileExistsError(f"{there[0]} is there and would be overwritten; give --force, or another --output")


def _choose_languages(found: Found, languages: Sequence[str] | None) -> tuple[str, ...]:
    """Languages in the order of their ids.

    Raises:
        ValueError: Nothing tells them, one is there twice, or the checkpoint numbers them otherwise.
    """
    if languages is None:
        if found.languages is None:
            raise ValueError("the files tell no languages; give --languages with those of your data, in the order of their ids")
        return found.languages
    if found.languages is not None and tuple(languages) != found.languages:
        raise ValueError(
            f"--languages is {','.join(languages)}, but the checkpoint's table of languages is in the order "
            f"{','.join(found.languages)}; leave --languages out"
        )
    return tuple(check_unique(languages, "--languages"))
