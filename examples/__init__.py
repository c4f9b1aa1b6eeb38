"""Applications that use this package."""
