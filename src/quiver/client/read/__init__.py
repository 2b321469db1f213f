"""Reading partitions: positions, frames, what is left out."""
