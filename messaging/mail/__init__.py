"""One email, from the request to the server's reply."""
