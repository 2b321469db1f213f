"""Dead letters: moving them, finding them, sending them back."""
