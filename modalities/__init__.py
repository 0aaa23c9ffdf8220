"""What a sample is made of: the batch contract, then one file a modality."""
