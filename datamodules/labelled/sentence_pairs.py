"""Data of retrieval between translations out of Tatoeba's folders: the batches that `SentenceRetrievalData` makes of shards."""

import logging
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import combinations
from pathlib import Path

from lightning import LightningDataModule

from ...modalities.tokenizer import Tokenizer
from ..dealing import Batches, check_numbers
from ..faults import FaultTally
from ..steps import Reading
from .examples import Translation
from .languages import shorten
from .sentence_batches import cut_sentences, take_languages
from .tatoeba import Tatoeba

log = logging.getLogger(__name__)


class TatoebaData(LightningDataModule):
    """Test batches of one source and one language: every sentence of a language, and its translation in the pivot language.

    `Batch.sample` is the number of the pair, the same for both its texts and for no other of the source: each language has
    pivot sentences of its own, and is searched in them alone. `Batch.item` is equal for texts that read alike. Batches are
    the same, and each comes once, whatever the number of processes.
    """

    def __init__(
        self,
        sources: dict[str, str],
        tokenizer: str,
        pivot: str = "eng",
        languages: list[str] | None = None,
        least: int = 100,
        max_tokens: int = 128,
        batch_size: int = 128,
        workers: int = 2,
        start_method: str | None = None,
    ):
        """
        Args:
            sources: Folders of files such as `tatoeba.deu-eng.deu` and `tatoeba.deu-eng.eng`, by the name under which results
                are given.
            tokenizer: Tokenizer file.
            pivot: Language that all files have a side in, as their names write it; elsewhere it has two letters if it can.
            languages: Of two letters where there is such a code (`de`); None: all that the tokenizer knows.
            least: Languages with fewer sentences are left out, and named: accuracy among a handful says nothing.
            max_tokens: Longest text, start and end token included.
            batch_size: Rows of a batch; each process reads whole batches.
            workers: Processes that read ahead for each process.
            start_method: How they are started (`fork`, `spawn`, `forkserver`); None: the platform's own way.

        Raises:
            ValueError: A number is out of range, or the tokenizer does not know the pivot.
        """
        super().__init__()
        check_numbers(workers, max_tokens, batch_size, start_method)
        if least < 1:
            raise ValueError(f"least is {least}; expected 1 or more sentences of a language")
        self.sources, self.tokenizer, self.languages = sources, Tokenizer(tokenizer), languages
        self.written, self.pivot = pivot, shorten(pivot)
        self.tokenizer.language_id(self.pivot)
        self.least, self.max_tokens, self.batch_size = least, max_tokens, batch_size
        self.workers, self.start_method = workers, start_method
        self.parts: list[partial[Reading]] = []

    def setup(self, stage: str) -> None:
        """Read the folders and list all batches.

        Raises:
            ValueError: Files are missing or are not what they should be, or no language is left.
        """
        if self.parts:
            return
        found = {name: self._read(name, Path(folder)) for name, folder in self.sources.items()}
        for one, other in combinations(found, 2):
            same = [code for code, pairs in found[one].items() if _texts(pairs) == _texts(found[other].get(code, []))]
            if same and self.trainer.global_rank == 0:
                log.warning("sources %s and %s hold the same sentences in %s", one, other, ", ".join(same))
        self.parts = [part for name, pairs in found.items() for part in self._number(name, pairs)]

    def _read(self, name: str, folder: Path) -> dict[str, list[Translation]]:
        """Pairs of a source by language, of those that are searched."""
        first = self.trainer.global_rank == 0
        found: dict[str, list[Translation]] = {}
        try:
            for pair in Tatoeba(self.written).read(folder, None, None if first else Counter()):
                found.setdefault(pair.language, []).append(pair)
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        taken, unknown = take_languages(sorted(found), self.languages, self.tokenizer, name)
        few = [f"{code} {len(found[code])}" for code in taken if len(found[code]) < self.least]
        kept = [code for code in taken if len(found[code]) >= self.least]
        if not kept:
            raise ValueError(
                f"source {name!r}: no language has {self.least} sentences or more; set `least` lower (found: {', '.join(few)})"
            )
        for codes, why in (
            (few, f"have fewer than {self.least} sentences"),
            (unknown, "are none of the tokenizer's languages"),
        ):
            if codes and first:
                log.warning("source %s: left out, as they %s: %s", name, why, ", ".join(codes))
        return {code: found[code] for code in kept}

    def _number(self, name: str, pairs: dict[str, list[Translation]]) -> list[partial[Reading]]:
        cut = partial(cut_sentences, tokenizer=self.tokenizer, max_tokens=self.max_tokens, batch_size=self.batch_size)
        parts, middle = [], []
        for code, own in pairs.items():
            parts += cut(name, code, [(len(middle) + row, pair.text) for row, pair in enumerate(own)])
            middle += [(len(middle) + row, pair.translation) for row, pair in enumerate(own)]
        return parts + cut(name, self.pivot, middle)

    def test_dataloader(self) -> Batches:
        """All batches of this process: as many as each other has, perhaps with an empty one at the end."""
        return Batches(self.parts, self.trainer, self.workers, self.start_method, FaultTally("evaluation", 1.0))


def _texts(pairs: Iterable[Translation]) -> set[tuple[str, str]]:
    return {(pair.text, pair.translation) for pair in pairs}
