"""The functions that write the programs of sampling.

They run once for each `sampler.Description`, and what they compute with are values of
`gridsample.kernels.vector`: "read the pixels of a group" means to write the instructions that do.

In the order in which a point passes them: `points`, `axes`, `sampler`, `ways`, `reading` (and
`rows`, `edge_rows`, `counting`), `gather`.  `gather.Gather.write` is a good place to begin.

What else may be done with pixels, each in place of `gather`: `gradients`, `labels`, `missing`,
`mean_gradients`, `words`, `runs` and its relatives for channels that are neighbours in memory, and
`footprints` and its relatives for antialiasing.
"""
