"""Work done a piece at a time, so that memory stays bounded."""
