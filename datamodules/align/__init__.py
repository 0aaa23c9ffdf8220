"""Word alignment from parallel text alone: learn which words translate which, and link them sentence by sentence."""
