"""What the system is in the simulator: time, disk, files, threads, network."""
