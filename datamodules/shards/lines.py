"""Text files by lines, plain or gzipped."""

import gzip
from pathlib import Path


class Lines:
    """Lines of a UTF-8 text; only line feeds end them, and a fault is named with its line."""

    def __init__(self, file: Path):
        self.file, self.number = file, 0
        try:
            self.stream = gzip.open(file) if file.suffix == ".gz" else open(file, "rb")  # noqa: SIM115
        except OSError as error:
            raise ValueError(f"{file}: cannot be read ({error.strerror or error}); expected a UTF-8 text file") from None

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        line, self.number = next(self.stream), self.number + 1
        try:
            return line.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file}, line {self.number}: not UTF-8 ({error.reason}); convert it with iconv") from None

    def close(self) -> None:
        self.stream.close()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
