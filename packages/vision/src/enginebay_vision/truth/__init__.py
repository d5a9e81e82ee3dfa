"""What is true of pictures: annotations in the usual layouts."""
