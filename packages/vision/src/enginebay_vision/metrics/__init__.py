"""What tasks find, held against annotations."""
