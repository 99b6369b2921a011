"""Processing in parts, so that memory stays bounded."""
