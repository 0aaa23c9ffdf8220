"""The configuration of a small encoder of two towers, as a checkpoint holds it."""

ENCODER = {
    "class_path": "interlingua.models.two_towers.TwoTowers",
    "init_args": {
        "vector_width": 8,
        "text": {
            "class_path": "interlingua.models.towers.TextTower",
            "init_args": {
                "embeddings": {
                    "class_path": "interlingua.models.embeddings.TextEmbeddings",
                    "init_args": {"vocabulary": {"size": 50}, "width": 8, "max_tokens": 8},
                },
                "transformer": {
                    "class_path": "interlingua.models.transformer.Transformer",
                    "init_args": {"width": 8, "layers": 1, "heads": 2},
                },
            },
        },
        "image": {
            "class_path": "interlingua.models.towers.ImageTower",
            "init_args": {
                "front_end": {
                    "class_path": "interlingua.modalities.image_front_ends.ConvolutionStem",
                    "init_args": {"width": 16, "channels": [8, 16], "size": 32},
                }
            },
        },
    },
}
