"""HTTP calls that send messages: to providers of text messages, and to the webhooks of applications."""
