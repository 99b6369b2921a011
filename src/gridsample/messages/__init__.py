"""What the library says: errors that suggest names, pages to read, and tables of notebooks."""
