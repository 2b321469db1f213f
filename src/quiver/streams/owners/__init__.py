"""What the owners of stream groups and the owners of partitions ask each other."""
