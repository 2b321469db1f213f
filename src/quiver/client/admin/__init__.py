"""Topics, groups, dead letters and the like: settings and pages of listings."""
