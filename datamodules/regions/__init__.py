"""Regions of pictures into shards: from files of detectors, or found by a detector, a backbone or a tower of our own."""
