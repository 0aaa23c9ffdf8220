"""Text files by lines, plain or gzipped."""

import gzip
import zlib
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
        try:
            line, self.number = next(self.stream), self.number + 1
        except (OSError, EOFError, zlib.error) as error:  # what a cut or damaged .gz raises
            reason = "not gzipped" if isinstance(error, gzip.BadGzipFile) and not self.number else error
            raise ValueError(
                f"{self.file}, after line {self.number}: cannot be read ({reason}); copy it anew"
                + (", or rename it if it is not gzipped" if self.file.suffix == ".gz" else "")
            ) from None
        if self.number == 1 and b"\r" in line[:-1] and not line.endswith(b"\n"):
            raise ValueError(
                f"{self.file}: its lines end with carriage returns alone, so that all is one line; convert it: "
                "tr '\\r' '\\n' < OLD > NEW"
            )
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
