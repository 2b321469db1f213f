"""Reading no more than a query needs: hints of the optimizer, summaries of frames, keys."""
