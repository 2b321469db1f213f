"""The ordered append and read path of one partition: offsets, watermarks, producer state."""
