"""Search for an artifact's fastest settings, among those that change only the speed."""
