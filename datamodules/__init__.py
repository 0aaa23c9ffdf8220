"""Shards: write, check, read, mix, resume; and the Lightning data modules over them."""
