"""Lightning's trainer as tests want it: on the CPU, and silent."""

import lightning


def quiet_trainer(folder=None, **options) -> lightning.Trainer:
    """
    Args:
        folder: Where what is written goes.
        options: Lightning's own; what is given here goes before what tests want.
    """
    defaults = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
    }
    return lightning.Trainer(default_root_dir=folder, **{**defaults, **options})
