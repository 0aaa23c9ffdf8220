"""Encoders: the contract, attention, towers, streams, and the heads that objectives put on them."""
