"""Servers of a run: started on free ports and empty directories, and stopped."""
