"""A page of what `stats.py` measured: it holds its plots and opens from disk."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from .stats import Stats
from .stats_plots import ALTERNATIVES, MOST_LANGUAGES, PLOTS

DOTS_PER_INCH = 144


def write_page(stats: Stats, folder: Path) -> Path:
    """Write `stats.html`, `stats.json` and the plots into a folder, over older ones; the path of the page.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plots = {name: draw(stats) for name, draw in PLOTS.items()}
    for name, figure in plots.items():
        if figure is not None:
            figure.savefig(folder / f"stats-{name}.png", dpi=DOTS_PER_INCH, facecolor="white")
        else:
            (folder / f"stats-{name}.png").unlink(missing_ok=True)
    (folder / "stats.json").write_text(json.dumps(stats.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    template = Template(Path(__file__).with_name("stats.html").read_text(encoding="utf-8"))
    shown = [name for name, figure in plots.items() if figure is not None]
    page = folder / "stats.html"
    page.write_text(template.substitute(_fill(stats, folder, shown)), encoding="utf-8")
    return page


def _fill(stats: Stats, folder: Path, shown: Sequence[str]) -> dict[str, str]:
    figures = {name: _embed(folder / f"stats-{name}.png", ALTERNATIVES[name]) for name in shown}
    return {
        "title": escape(f"Shards: {stats.paths}"),
        "paths": escape(stats.paths),
        "headline": escape(f"{stats.samples:,} samples, {stats.texts:,} texts in {_count(len(stats.languages), 'language')}"),
        "tiles": "".join(_tiles(stats)),
        "languages": _section("Languages", _say_languages(stats), figures.get("languages", ""), _language_table(stats)),
        "lengths": _section("Lengths of texts", _say_lengths(stats), figures.get("lengths", "")),
        "samples": _section("Samples", _say_samples(stats), figures.get("samples", ""), _bars(stats.roles, "Texts by role")),
        "pictures": _section("Pictures", _say_pictures(stats), figures.get("pictures", "")) if stats.pictures else "",
        "repeated": _section("Repeated texts", _say_repeated(stats), "", _repeated_table(stats)),
        "faults": _section("What cannot be read", _say_faults(stats), "", _fault_table(stats)),
    }


def _section(title: str, words: str, *parts: str) -> str:
    if not words:
        return ""
    told = re.sub(r"`(.+?)`", r"<code>\1</code>", escape(words))
    return f'<section><h2>{escape(title)}</h2><p class="soft">{told}</p>{"".join(parts)}</section>'


def _embed(picture: Path, alternative: str) -> str:
    stored = base64.b64encode(picture.read_bytes()).decode()
    return f'<figure class="card"><img src="data:image/png;base64,{stored}" alt="{escape(alternative)}"></figure>'


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)


def _tiles(stats: Stats) -> Iterable[str]:
    tiles = [
        (f"{stats.samples:,}", f"samples in {_count(stats.shards, 'shard')}"),
        (f"{stats.items:,}", "items: different things that samples are about"),
        (f"{stats.texts:,}", f"texts in {_count(len(stats.languages), 'language')}"),
        (f"{stats.pictures:,}", "pictures"),
        (f"{stats.with_regions:,}", "samples with regions"),
    ]
    if total := stats.tokens.get("", {}).get("sum"):
        tiles.append((f"{total:,}", "tokens"))
    return (f'<div class="tile"><b>{number}</b><span>{escape(words)}</span></div>' for number, words in tiles if number != "0")


def _say_languages(stats: Stats) -> str:
    if not stats.languages:
        return ""
    unit = "tokens" if stats.tokens else "bytes"
    shown = min(MOST_LANGUAGES, len(stats.languages))
    which = (
        f"The {shown} languages with most texts of {len(stats.languages):,}"
        if shown < len(stats.languages)
        else "All languages"
    )
    return (
        f"{which}: how many texts each has, and how long they are in {unit} (dot: median; line: from 5 % to 95 % of its texts)."
    )


def _say_lengths(stats: Stats) -> str:
    if not stats.texts:
        return ""
    parts = []
    for unit, found in (("bytes of UTF-8", stats.bytes[""]), ("tokens", stats.tokens.get("", {}))):
        if found:
            parts.append(f"half of the texts have at most {found['median']:,} {unit}, 95 % at most {found['95 %']:,}")
    words = "; ".join(parts)
    note = "Tokens count the start and the end token." if stats.tokens else "A tokenizer (--tokenizer) would add tokens."
    return f"{words[:1].upper()}{words[1:]}; the longest has {stats.bytes['']['most']:,} bytes. {note}"


def _say_samples(stats: Stats) -> str:
    return (
        f"{stats.samples:,} samples of {stats.items:,} items: samples of one item are about the same thing, and are no "
        "negatives of each other."
    )


def _say_pictures(stats: Stats) -> str:
    if not stats.pictures_read:
        return f"{stats.pictures:,} pictures; none was looked at."
    sampled = stats.pictures_read + len(stats.faults) < stats.pictures
    seen = f"{stats.pictures_read:,} pictures" + (f", spread evenly over all {stats.pictures:,}," if sampled else "")
    formats = ", ".join(f"{form} {count:,}" for form, count in stats.formats.items())
    side, equal = stats.side, stats.equal_pictures.extra
    repeats = f" Equal to another of them, byte for byte: {equal:,}." if equal else " No two are equal byte for byte."
    sizes = f"The shorter side has {side['median']:,} pixels in the median, {side['5 %']:,} at 5 % and {side['95 %']:,} at 95 %"
    if (stats.sizes == stats.sizes[0]).all():
        sizes = f"All have {stats.sizes[0, 0]:,} x {stats.sizes[0, 1]:,} pixels"
    return f"Headers of {seen} were read: {formats}. {sizes}; a picture takes {stats.stored['mean']:,.0f} bytes.{repeats}"


def _say_repeated(stats: Stats) -> str:
    equal = stats.equal_texts
    if not stats.texts:
        return ""
    if not equal.extra:
        return "No text stands twice in a language."
    return (
        f"{equal.extra:,} texts of {stats.texts:,} ({equal.extra / stats.texts:.1%}) are equal to another in the same "
        "language, character by character. Among equal captions retrieval has no right answer, and what is repeated is "
        "learned by heart."
    )


def _say_faults(stats: Stats) -> str:
    if not stats.kinds and not stats.faults:
        return (
            "Nothing that the index or these numbers met; `interlingua shards check` decodes all pictures and arrays as well."
        )
    return (
        "These are left out of all numbers; `interlingua shards check` finds more and names each, `interlingua shards repair` "
        "writes a clean copy."
    )


def _language_table(stats: Stats) -> str:
    heads = ["language", "texts", "share", "bytes, median", "95 %", "most"]
    heads += ["tokens, median", "95 %", "most", "in all"] * bool(stats.tokens)
    rows = []
    for code, count in stats.languages.items():
        found = [stats.bytes[code][name] for name in ("median", "95 %", "most")]
        if stats.tokens:
            found += [stats.tokens[code][name] for name in ("median", "95 %", "most", "sum")]
        rows.append([code, f"{count:,}", f"{count / stats.texts:.1%}", *(f"{value:,}" for value in found)])
    return f"<details><summary>All languages in numbers</summary>{_table(heads, rows)}</details>"


def _repeated_table(stats: Stats) -> str:
    rows = [
        [language, f"{count:,}", text if len(text) < 200 else f"{text[:199]}…"]
        for language, text, count in stats.equal_texts.most
    ]
    return _table(["language", "times", "text"], rows, "texts") if rows else ""


def _fault_table(stats: Stats) -> str:
    rows = [[kind, f"{count:,}", "found by the index"] for kind, count in stats.kinds.items()]
    rows += [[fault.kind, "1", f"{fault.shard} {fault.key}: {fault.detail}"] for fault in stats.faults[:20]]
    rows += [["", f"{len(stats.faults) - 20:,}", "more, in stats.json"]] * (len(stats.faults) > 20)
    return _table(["kind", "times", "where"], rows, "texts") if rows else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f'<td dir="auto">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll card"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _bars(counts: Mapping[str, int], title: str) -> str:
    """Bars that the browser draws: it shapes all scripts."""
    if not counts:
        return ""
    most = max(counts.values())
    bars = (
        f'<div class="bar"><span dir="auto">{escape(name)}</span><div class="track"><div class="fill" '
        f'style="width:{100 * count / most:.2f}%"></div></div><b>{count:,}</b></div>'
        for name, count in counts.items()
    )
    return f'<div class="card"><h3>{escape(title)}</h3><div class="bars">{"".join(bars)}</div></div>'
