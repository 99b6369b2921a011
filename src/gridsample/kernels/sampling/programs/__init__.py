"""The functions that write the programs of sampling.

They run once for each `sampler.Description`, and what they compute with are values of
`gridsample.kernels.vector`: "read the pixels of a group" means to write the instructions that do.

A point passes, in this order,

    points      the loops over points; a group's coordinates are read, or computed from maps
    axes        coordinates become positions; later, base indices, weights and taps
    sampler     `Sampler.locate` makes the state of a group, which all planes share (`states`);
                `Sampler.prepare` turns that state into taps, ready for any plane
    ways        the faster ways of reading pixels (`pairs`, `rows`), and the choice among them
    sums        sums over taps, with pixels from a `Reader` (`singles`, `pairs`, `edge_rows`);
                `counting` if pixels may be missing or have weights; `loads`
    operations  what is done with the sums: formulas for samples, means and their gradients

`operations` and `sweep` are a good place to begin: the second is the loop around the formulas if
the lanes of registers are points of one sample.  `samples` is the loop for points that are means of
several samples, `channels` the one whose lanes are channels, and `footprint_channels` both.
`labels` and `footprint_labels` take votes in place of sums.  Loops ask for pixels before they are
read, if an image is large (`prefetching`).

Some words have one meaning here: an *item* is one of the N of a batch, and a *plane* one of its C
channels; a *kind* is a type of numbers, a *lane* one of the W places of a register, to *splat* to
put a number into all lanes, to *spill* to store a register in memory of the program's own, which is
called *scratch*.  A *group* is the W points of a register; a *row* is neighbouring pixels along x,
but in `points` and `division`, and there only, the points of an output's last axis; a *slice* is
taps along x and y; a *block* is a part, of a row of points, of channels or of samples, that a loop
takes at a time; a *range* is a task's part of the work; a *strip* is up to 256 points of a row,
which take one step of the program together before the next.  A *tap* is a pixel with a weight; it
is *dropped* if the boundary has no pixel there, and *present* otherwise.  Points are *listed* where
they are so few that those of all items share registers.  Elements are *packed* where their places
are not multiples of their size.
"""
