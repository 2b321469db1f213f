"""Declarative pipelines over topics: a project to begin with, how it is run, and expectations on data."""
