"""One module for each kind of figure; each has `run(lab)`."""
