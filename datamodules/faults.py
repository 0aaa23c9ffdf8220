"""What could not be read, told once and counted by kind: a few holes never stop a run, too many are an error."""

import logging
from collections import Counter
from collections.abc import Iterable

from ..modalities.batch import Fault

log = logging.getLogger(__name__)


class TooManyBadSamplesError(RuntimeError):
    """More samples are bad than the configuration allows."""


class FaultTally:
    """Counts good and bad rows in the main process; every rank keeps its own.

    Attributes:
        good: Rows read so far.
        bad: Rows that could not be read, by kind; a sample counts each time it is drawn.
    """

    def __init__(self, name: str, max_share: float, least: int = 500, told_per_kind: int = 10):
        """
        Args:
            name: What is being read, for the messages.
            max_share: Share of bad rows, from 0 to 1, above which reading is an error.
            least: Rows that must have been seen before the share is judged.
            told_per_kind: How many faults of one kind are logged one by one, each bad sample once; all are counted.
        """
        if not 0 <= max_share <= 1:
            raise ValueError(f"max_bad_share is {max_share}, but it is a share: give a number from 0 to 1")
        self.name, self.max_share, self.least, self.told_per_kind = name, max_share, least, told_per_kind
        self.good, self.bad = 0, Counter[str]()
        self._told = Counter[str]()
        self._known: set[Fault] = set()

    @property
    def summary(self) -> str:
        """One line: how many of how many, by kind."""
        kinds = ", ".join(f"{kind}: {count}" for kind, count in self.bad.most_common())
        return f"{self.name}: {self.bad.total()} of {self.good + self.bad.total()} samples could not be read ({kinds})"

    def add(self, good: int, faults: Iterable[Fault]) -> None:
        """Count some rows, and tell new faults with shard and key.

        Raises:
            TooManyBadSamplesError: The share of bad rows is above the stated one.
        """
        self.good += good
        for fault in faults:
            self.bad[fault.kind] += 1
            self._tell(fault)
        total = self.good + self.bad.total()
        if total >= self.least and self.bad.total() > self.max_share * total:
            raise TooManyBadSamplesError(
                f"{self.summary}, more than the share allowed; `interlingua shards check` lists them: mend the shards, "
                f"or allow more than max_bad_share {self.max_share}"
            )

    def _tell(self, fault: Fault) -> None:
        if fault in self._known or self._told[fault.kind] >= self.told_per_kind:
            return
        self._known.add(fault)
        self._told[fault.kind] += 1
        last = "; further ones of this kind are only counted" if self._told[fault.kind] == self.told_per_kind else ""
        place = f"{fault.shard}, key {fault.key}" if fault.key else fault.shard  # a fault of a whole tar has no key
        log.warning("%s: skipped %s in %s: %s%s", self.name, fault.kind, place, fault.detail, last)
