"""Routes for operators: what there is, how it goes, traces and maintenance."""
