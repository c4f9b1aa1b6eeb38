"""Who may call over HTTP: operators who sign in, tokens of services, and what each role may do."""
