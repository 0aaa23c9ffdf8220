"""What is trained and measured: pretraining, evaluation, metrics, optimisation."""
