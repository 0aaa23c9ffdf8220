"""Small files in public formats; every sentence is our own."""

import gzip


def put(path, content: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


def table(path, *rows):
    """Columns between tabs, a row a line."""
    return put(path, "".join("\t".join(row) + "\n" for row in rows))
