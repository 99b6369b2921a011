"""One module for each array library: its arrays in, its arrays out."""
