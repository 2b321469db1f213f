"""Replicas of a log on a virtual clock, with faults: does everything that was acked stay?"""
