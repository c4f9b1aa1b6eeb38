"""One text message from request to provider reply, and the receipts that come back."""
