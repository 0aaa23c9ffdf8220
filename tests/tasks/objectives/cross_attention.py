"""An objective of cross-attention language over a real tower of three blocks."""

import translation_pairs

from interlingua.tasks.objectives.cross_attention_language import CrossAttentionLanguage


def connected(kind=CrossAttentionLanguage, **options):
    return translation_pairs.connected(kind=kind, layers=3, **options)
