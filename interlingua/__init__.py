"""interlingua: multilingual, multimodal pretraining, and an honest measure of what carries over between languages."""

import os

__version__ = "0.1.0"

# In a checkout the folders stand beside this package; an installed wheel has them inside it.
_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if all(os.path.isfile(os.path.join(_root, *path)) for path in (("pyproject.toml",), ("modalities", "batch.py"))):
    __path__.append(_root)
