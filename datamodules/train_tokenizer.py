"""Train a tokenizer from shards or text files.

Languages differ in size by orders of magnitude, so lines are drawn by temperature, as XLM (arXiv:1901.07291, section 3.1)
and XLM-R (arXiv:1911.02116, section 3.1) do: of N lines in all, language l gives N * n_l^a / sum_k n_k^a, where n_l are its
lines and a is the temperature exponent (1: as the data are, 0: the same for all). N is the number of lines there are, or
`--limit-lines`. A language that must give more than it has gives every line equally often, and one more of some of them; no
line is repeated before all have been used.

The same lines in the same order, options and release of SentencePiece give the same model, byte for byte, on any number of
cores: the number of training threads is fixed, since the vocabulary depends on it.
"""

import io
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..modalities.cutters.own import MASK
from ..modalities.normalization import normalize
from ..modalities.tokenizer import Tokenizer, write_tokenizer
from .arguments import check_outputs
from .shards.cache import Cache
from .shards.fields import check_language
from .shards.lines import Lines

THREADS = 4
LONGEST = 50_000
"""Characters that SentencePiece is given at once; longer lines (documents) are given in parts."""
Line = tuple[str, str]
"""Language code and text."""


def train_tokenizer(
    lines: Iterable[Line],
    output: str | Path,
    size: int = 8000,
    temperature: float = 0.7,
    languages: Sequence[str] | None = None,
    limit: int = 2_000_000,
    seed: int = 0,
    force: bool = False,
    report: Callable[[str], None] = print,
) -> Tokenizer:
    """Train a tokenizer and write `NAME.model` and `NAME.json`.

    Args:
        lines: Language and text of every line; read once. At most `limit` lines a language are held in memory.
        output: `NAME.model`.
        size: Vocabulary size, control tokens and 256 bytes included.
        temperature: Exponent of the lines of a language in its share, 0 to 1.
        languages: Codes in the order of their ids; default: those found, sorted. May name languages without lines.
        limit: Lines given to SentencePiece at most, all languages together.
        seed: Decides which lines are drawn.
        force: Write over files that are there.
        report: Takes the lines for people.

    Raises:
        ValueError: No text, text too poor for the size, a language that is not in `languages`, an option out of range.
        FileExistsError: The output is there, and `force` is not given.
    """
    path = Path(output)
    _check_options(path, size, temperature, languages, limit, force)
    counts, kept = gather(lines, limit, seed, languages)
    order = sorted(counts) if languages is None else list(languages)
    drawn = draw(kept, shares(counts, temperature, limit), seed)
    chosen = Counter(code for code, _ in drawn)
    report(f"training a tokenizer of {size} pieces on {len(drawn)} lines in {len(counts)} languages")
    for code in order:
        report(f"  {code:8} {counts[code]:>10} lines, {chosen[code]:>10} drawn")
    model = _train(drawn, size)
    training = {"size": size, "temperature": temperature, "limit_lines": limit, "seed": seed}
    training["lines"] = {code: {"found": counts[code], "drawn": chosen[code]} for code in order}
    write_tokenizer(path, model, order, training)
    tokenizer = Tokenizer(path)
    report(f"wrote {path}: {tokenizer.vocabulary.size} pieces, {len(order)} languages, hash {tokenizer.hash[:12]}")
    return tokenizer


def gather(
    lines: Iterable[Line], limit: int, seed: int, languages: Sequence[str] | None = None
) -> tuple[Counter[str], dict[str, list[str]]]:
    """Normalise lines, drop empty ones, and keep an even sample of at most `limit` of each language (reservoir sampling).

    Returns:
        Lines found in each language, and those kept.
    """
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    kept: dict[str, list[str]] = {}
    for code, raw in lines:
        if languages is not None and code not in languages:
            raise ValueError(
                f"text in {code!r} found, but --languages names only {','.join(languages)}: add it, or leave it out"
            )
        text = normalize(raw)
        if not text:
            continue
        counts[code] += 1
        own = kept.setdefault(code, [])
        if len(own) < limit:
            own.append(text)
        elif (place := chance.randrange(counts[code])) < limit:
            own[place] = text
    if not counts:
        raise ValueError("no text to train a tokenizer on: every line is empty, or there is none; check the files and --roles")
    return counts, kept


def shares(counts: Counter[str], temperature: float, limit: int) -> dict[str, int]:
    """Lines that each language gives: at least 1, in proportion to its lines to the power of `temperature`."""
    total = min(limit, sum(counts.values()))
    weights = {code: counts[code] ** temperature for code in sorted(counts)}
    whole = sum(weights.values())
    return {code: max(1, round(total * weight / whole)) for code, weight in weights.items()}


def draw(kept: dict[str, list[str]], wanted: dict[str, int], seed: int) -> list[Line]:
    """Lines of each language, language by language; every line is used equally often, give or take one."""
    drawn: list[Line] = []
    for code, number in wanted.items():
        own = kept[code]
        again, rest = divmod(number, len(own))
        extra = sorted(random.Random(f"{seed} {code}").sample(range(len(own)), rest))
        drawn += [(code, text) for text in own * again + [own[place] for place in extra]]
    return drawn


def _check_options(path: Path, size: int, temperature: float, languages: Sequence[str] | None, limit: int, force: bool) -> None:
    if path.suffix != ".model":
        raise ValueError(f"--output is {path}; it must end in .model (NAME.json is written beside it)")
    if not 1 <= size < 2**31:
        raise ValueError(f"--size is {size}; expected a number of pieces, such as 8000")
    if not 0 <= temperature <= 1:
        raise ValueError(f"--temperature is {temperature}; expected 0 (all languages alike) to 1 (as the data are)")
    if limit < 1:
        raise ValueError(f"--limit-lines is {limit}; expected at least 1")
    if languages is not None and (len(set(languages)) < len(languages) or not all(languages)):
        raise ValueError(f"--languages is {','.join(languages)}; every code must be there once and not be empty")
    for code in languages or ():
        check_language(code, "--languages")
    check_outputs([path, path.with_suffix(".json")], force)


def _train(lines: Sequence[Line], size: int) -> bytes:
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(part for _, text in lines for part in cut(text)),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            byte_fallback=True,
            normalization_rule_name="identity",  # ours is the only one
            remove_extra_whitespaces=False,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            control_symbols=[MASK],
            max_sentence_length=4 * LONGEST + 1,  # in bytes; longer lines would be left out silently
            num_threads=THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(_explain(str(error), lines, size)) from error
    return model.getvalue()


def cut(text: str) -> list[str]:
    """A text in parts of at most `LONGEST` characters."""
    return [text[first : first + LONGEST] for first in range(0, len(text), LONGEST)]


def _explain(message: str, lines: Sequence[Line], size: int) -> str:
    """SentencePiece's error as one line that names the fix."""
    distinct = len({text for _, text in lines})
    most = re.search(r"value <= (\d+)", message)
    if most:
        return (
            f"--size is {size}, but {distinct} distinct lines give {most[1]} pieces at most; "
            f"give more text, or --size {most[1]} or less"
        )
    least = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if least:
        return (
            f"--size is {size}, but control tokens, bytes and the characters of these {distinct} distinct lines alone "
            f"are {least[1]} pieces; give --size {least[1]} or more, with room for pieces of several characters"
        )
    return f"SentencePiece could not train {size} pieces on {distinct} distinct lines: {' '.join(message.split())}"


def read_text_files(files: Iterable[str]) -> Iterator[Line]:
    """Lines of text files, given as LANG=FILE, UTF-8, one text a line; `.gz` too.

    All are looked at when this is called, not only when the first has been read.

    Raises:
        ValueError: An argument or a file is not as it should be, or one is given twice.
    """
    found: dict[tuple[str, Path], Path] = {}
    for argument in files:
        code, equals, name = argument.partition("=")
        if not (code and equals and name):
            raise ValueError(f"--text is {argument!r}; expected LANG=FILE, such as de=german.txt")
        check_language(code, f"--text {argument}")
        if (code, Path(name).resolve()) in found:
            raise ValueError(f"--text {argument} is given twice; its lines would count double")
        if not Path(name).is_fifo():  # such can be opened once only
            Lines(Path(name)).close()
        found[code, Path(name).resolve()] = Path(name)
    return _read_lines(found)


def _read_lines(files: Mapping[tuple[str, Path], Path]) -> Iterator[Line]:
    for (code, _), file in files.items():
        with Lines(file) as lines:
            yield from ((code, line) for line in lines)


def read_shards(
    paths: Sequence[str], roles: Sequence[str], report: Callable[[str], None], cache: Cache | None = None
) -> Iterator[Line]:
    """Texts of shards in the shards' order. Samples that cannot be read are skipped and reported by kind.

    Args:
        roles: Roles of the texts to be used; empty: all.
        cache: As of `ShardSet`.

    Raises:
        ValueError: No text has one of the roles.
    """
    from .sample import BadSampleError
    from .shards import ShardSet

    shards = ShardSet(paths, cache=cache)
    if missing := [role for role in roles if role not in shards.roles]:
        raise ValueError(f"--roles: no text has the role {', '.join(missing)}; found {', '.join(shards.roles) or 'none'}")
    faults = Counter(fault.kind for fault in shards.faults)
    for number in range(len(shards)):
        try:
            texts = shards.read(number, image=False, members=()).texts
        except BadSampleError as error:
            faults[error.kind] += 1
            continue
        yield from ((text.language, text.text) for text in texts if not roles or text.role in roles)
    for kind, count in sorted(faults.items()):
        report(f"skipped {count} bad samples: {kind}")
