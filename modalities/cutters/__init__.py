"""What cuts texts into pieces, by kind of vocabulary: one file a kind; `Tokenizer` is what everybody else sees."""
