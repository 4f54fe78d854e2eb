"""Changes of hardware that happened, predicted and measured."""
