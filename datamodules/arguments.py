"""Command lines that answer a mistake in one line."""

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser, and so are its sub-commands', whose errors name what is wrong and where help is, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())} ({self.prog} --help)\n")
