"""Small labelled texts, and data modules over them."""

import json

from labelled_files import put
from trained import small_tokenizer

from interlingua.datamodules.labelled.data import Labelled
from interlingua.datamodules.labelled.json_lines import JsonLines

LABELS = ["open", "close", "name"]
FORMAT = JsonLines(language="lang")


def examples(count, language="en", labels=LABELS):
    return [{"lang": language, "text": f"{language} picture {n}", "label": labels[n % len(labels)]} for n in range(count)]


def write(path, lines):
    return str(put(path, "".join(json.dumps(line) + "\n" for line in lines)))


def build(data, format=FORMAT, **options) -> Labelled:
    options = {"labels": LABELS, "batch_size": 4, "workers": 0, "max_tokens": 32, **options}
    return Labelled(format, small_tokenizer(data).path, **options)
