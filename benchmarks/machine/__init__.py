"""What limits any broker on this machine: its disk, its network, its noise."""
